//! Recognizes drives by the names of their devices, so that results of two drives are never mixed.

/// A name of a drive. Two names of one scheme are names of two drives; names of different schemes
/// may belong to the same drive.
#[derive(Clone, Debug, PartialEq)]
struct DriveName<'a> {
    scheme: &'static str,
    name: &'a str,
}

/// Returns the first two of `targets` that certainly are, or are on, two different drives.
pub(super) fn different(targets: &[String]) -> Option<[&str; 2]> {
    targets.iter().enumerate().find_map(|(index, target)| {
        let name = drive(target)?;
        let differs = |other: &&String| {
            drive(other).is_some_and(|other| other.scheme == name.scheme && other != name)
        };
        let other = targets[..index].iter().find(differs)?;
        Some([other.as_str(), target.as_str()])
    })
}

/// Returns whether the name shows which drive a target is on.
pub(super) fn is_named(target: &str) -> bool {
    drive(target).is_some()
}

/// Returns the drive that `target` is on, or None if the name does not show it, as for files,
/// volumes, and lists of several devices.
fn drive(target: &str) -> Option<DriveName<'_>> {
    let name = target.strip_prefix("/dev/").filter(|name| !name.contains(':'))?;
    if let Some(id) = name.strip_prefix("disk/by-id/") {
        let scheme = ["ata-", "wwn-"].into_iter().find(|scheme| id.starts_with(scheme))?;
        return Some(DriveName { scheme, name: without_part(id) });
    }
    let name = kernel_drive(name)?;
    Some(DriveName { scheme: "", name })
}

/// Removes the number of a partition, as in `ata-NAME-part1`.
fn without_part(id: &str) -> &str {
    let parts = id.rsplit_once("-part");
    let parts = parts.filter(|(_, part)| part.bytes().all(|byte| byte.is_ascii_digit()));
    parts.map_or(id, |(drive, _)| drive)
}

/// Returns the drive in a device name of Linux, such as `sda` for `sda1`. Namespaces of an NVMe
/// drive (`nvme0n1`, `nvme0n2`) belong to one drive.
fn kernel_drive(name: &str) -> Option<&str> {
    let numbered = |prefix: &str| {
        let digits = name.strip_prefix(prefix)?.bytes().take_while(u8::is_ascii_digit).count();
        (digits > 0).then(|| &name[prefix.len()..prefix.len() + digits])
    };
    if let Some(controller) = numbered("nvme").or_else(|| numbered("ng")) {
        return Some(controller);
    }
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_disk = ["sd", "hd", "vd", "xvd"].iter().any(|prefix| {
        letters.strip_prefix(prefix).is_some_and(|rest| {
            !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase())
        })
    });
    is_disk.then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::different;

    fn of(targets: &[&str]) -> bool {
        let targets: Vec<String> = targets.iter().map(|target| target.to_string()).collect();
        different(&targets).is_some()
    }

    #[test]
    fn only_names_of_certainly_two_drives_differ() {
        for two in [
            ["/dev/sdb", "/dev/sdc"],
            ["/dev/sda1", "/dev/sdb1"],
            ["/dev/nvme0n1", "/dev/nvme1n1p2"],
            ["/dev/sda", "/dev/nvme0n1"],
            ["/dev/sda", "/dev/sdaa"],
            ["/dev/disk/by-id/ata-A_1", "/dev/disk/by-id/ata-A_2-part1"],
        ] {
            assert!(of(&two), "{two:?}");
        }
        for one in [
            ["/dev/sda1", "/dev/sda2"],
            ["/dev/nvme0n1", "/dev/nvme0n1p1"],
            ["/dev/ng0n1", "/dev/nvme0n1"],
            ["/dev/sda:/dev/sdb", "/dev/sda"],
            ["/dev/sda", "/dev/disk/by-id/ata-A"],
            ["/dev/disk/by-id/wwn-0x1", "/dev/disk/by-id/ata-A"],
            ["/mnt/a/file", "/mnt/b/file"],
            ["/dev/md0", "/dev/md1"],
            ["/dev/mapper/a", "/dev/sda"],
        ] {
            assert!(!of(&one), "{one:?}");
        }
    }
}
