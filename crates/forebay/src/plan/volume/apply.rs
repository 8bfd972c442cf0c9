//! Commands and configuration that apply a volume's settings.

use serde::Serialize;

use super::row::{Setting, VolumeRow};

/// The prefixes of the names of volume types: AWS's, followed by those of the other providers.
pub(super) const AWS: &str = "ebs-";
pub(super) const AZURE: &str = "azure-";
pub(super) const GOOGLE: &str = "gcp-";

/// Commands that provide a volume, and configuration that sets the same limits elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Apply {
    /// The command that creates the volume; `None` for types without a known command.
    pub create: Option<String>,
    /// The command that changes an existing volume; `None` for types without a known command.
    pub modify: Option<String>,
    /// The XML element that gives a disk in libvirt the same limits. The depth of the limits is
    /// libvirt's own.
    pub libvirt: String,
    /// The line for `io.max` of cgroup v2. It limits reads and writes separately, so both together
    /// may get twice as much.
    pub cgroup: String,
}

/// Returns the prefix of the provider that sells the type `kind`; `None` for other types.
pub(super) fn provider(kind: &str) -> Option<&'static str> {
    [AWS, AZURE, GOOGLE].into_iter().find(|provider| kind.starts_with(provider))
}

/// Returns whether the type `kind` is sold only by another provider than `here`.
pub(super) fn is_elsewhere(kind: &str, here: Option<&str>) -> bool {
    here.is_some() && provider(kind).is_some_and(|provider| Some(provider) != here)
}

/// Returns whether the user already has the volume to buy.
pub(super) fn is_same(current: &VolumeRow, best: &VolumeRow) -> bool {
    current.kind == best.kind && current.setting == best.setting
}

/// Returns whether the provider's command can turn the present volume into the best one.
pub(super) fn is_modifiable(current: &VolumeRow, best: &VolumeRow) -> bool {
    let both =
        |provider: &str| current.kind.starts_with(provider) && best.kind.starts_with(provider);
    let is_tiered = |row: &VolumeRow| row.setting.tier.is_some();
    // Google does not change a disk's type. On Azure, only types with tiers can be converted to
    // each other, which excludes Premium SSD v2 and Ultra.
    current.kind == best.kind || both(AWS) || both(AZURE) && is_tiered(current) && is_tiered(best)
}

/// Returns the commands and the configuration for the setting of `row`.
pub(super) fn apply(row: &VolumeRow) -> Apply {
    let (create, modify) = commands(&row.kind, &row.setting).unzip();
    let iops = row.setting.sustained_iops.unwrap_or_default().round();
    let bytes_per_s = (row.setting.sustained_mb_per_s.unwrap_or_default() * 1e6).round();
    Apply {
        create,
        modify,
        libvirt: format!(
            "<iotune>\n  <total_iops_sec>{iops}</total_iops_sec>\n  \
             <total_bytes_sec>{bytes_per_s}</total_bytes_sec>\n  \
             <size_iops_sec>262144</size_iops_sec>\n</iotune>"
        ),
        cgroup: format!(
            "MAJOR:MINOR riops={iops} wiops={iops} rbps={bytes_per_s} wbps={bytes_per_s}"
        ),
    }
}

/// Returns the commands that create the volume and that change an existing one.
fn commands(kind: &str, setting: &Setting) -> Option<(String, String)> {
    if let Some(name) = kind.strip_prefix(AWS) {
        return Some(aws(name, setting));
    }
    if let Some(name) = kind.strip_prefix(AZURE) {
        return azure(name, setting);
    }
    kind.strip_prefix(GOOGLE).map(|name| google(name, setting))
}

/// Formats a command-line option as ` --OPTION VALUE`; empty without a value.
fn option(name: &str, value: Option<u64>) -> String {
    value.map_or(String::new(), |value| format!(" --{name} {value}"))
}

fn aws(name: &str, setting: &Setting) -> (String, String) {
    let rates = option("iops", setting.iops) + &option("throughput", setting.mibps);
    let what = format!("--volume-type {name} --size {}{rates}", setting.gib);
    (
        format!("aws ec2 create-volume --availability-zone ZONE {what}"),
        format!("aws ec2 modify-volume --volume-id VOLUME {what}"),
    )
}

fn azure(name: &str, setting: &Setting) -> Option<(String, String)> {
    let sku = match name {
        "premium" => "Premium_LRS",
        "premium-v2" => "PremiumV2_LRS",
        "standard-ssd" => "StandardSSD_LRS",
        "ultra" => "UltraSSD_LRS",
        _ => return None,
    };
    let rates = option("disk-iops-read-write", setting.iops)
        + &option("disk-mbps-read-write", setting.mbps);
    let what =
        format!("--resource-group GROUP --name NAME --sku {sku} --size-gb {}{rates}", setting.gib);
    Some((format!("az disk create {what}"), format!("az disk update {what}")))
}

fn google(name: &str, setting: &Setting) -> (String, String) {
    let rates =
        option("provisioned-iops", setting.iops) + &option("provisioned-throughput", setting.mibps);
    let size = setting.gib;
    // gcloud has a separate command for changing the size.
    let modify = match rates.is_empty() {
        true => format!("gcloud compute disks resize NAME --zone ZONE --size {size}GB"),
        false => format!("gcloud compute disks update NAME --zone ZONE --size {size}GB{rates}"),
    };
    (
        format!(
            "gcloud compute disks create NAME --zone ZONE --type {name} --size {size}GB{rates}"
        ),
        modify,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(iops: u64, mibps: Option<u64>, mbps: Option<u64>) -> Setting {
        Setting { gib: 500, iops: Some(iops), mibps, mbps, ..Setting::default() }
    }

    #[test]
    fn each_provider_has_its_own_options() {
        let of = |kind, setting| commands(kind, &setting).unwrap();
        let (create, modify) = of("ebs-gp3", setting(6000, Some(250), None));
        let what = "--volume-type gp3 --size 500 --iops 6000 --throughput 250";
        assert!(create.ends_with(what) && modify.ends_with(what), "{create}\n{modify}");
        let (create, modify) = of("azure-premium-v2", setting(6000, None, Some(250)));
        let what = "--sku PremiumV2_LRS --size-gb 500 --disk-iops-read-write 6000 --disk-mbps-read-write 250";
        assert!(create.ends_with(what) && modify.ends_with(what), "{create}\n{modify}");
        let (create, modify) = of("gcp-hyperdisk-balanced", setting(6000, Some(250), None));
        let rates = "--size 500GB --provisioned-iops 6000 --provisioned-throughput 250";
        assert!(
            create.contains("--type hyperdisk-balanced ") && create.ends_with(rates),
            "{create}"
        );
        assert!(modify.contains(" disks update ") && modify.ends_with(rates), "{modify}");
        let sized = Setting { gib: 500, ..Setting::default() };
        assert!(of("gcp-pd-ssd", sized.clone()).1.contains(" disks resize NAME "));
        let (create, _) = of("ebs-gp2", sized.clone());
        assert!(create.ends_with("--volume-type gp2 --size 500"), "{create}");
        assert_eq!(commands("mine", &sized), None);
    }
}
