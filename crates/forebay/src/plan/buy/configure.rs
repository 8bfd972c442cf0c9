//! Writes the result as configurations: `forebay serve` tenants, cgroup lines and dmClock
//! parameters.
//!
//! Files with the model's service times (`emulate`) represent the drives, so that the configuration
//! can be tried before anything is bought. For each client, the constant-rate capacity that its
//! promise needs is reserved. If the reservations add up to more than the drives guarantee for any
//! workload ([`Guarantee`]), all are reduced by the same factor. That happens if the clients'
//! bursts do not overlap, or if their requests are easier for a disk than random ones.

use forebay_ask::{AskError, shell_word};
use std::path::Path;

use forebay_trace::TraceError;
use forebay_trace::write::{Draft, ProtectedFiles};
use serde::Serialize;

use super::{BuyRow, CHUNK_KIB, ClientNeed, DriveLayout, Guarantee, Layout, Sharing, Speed};
use crate::Error;

/// The texts of the configuration files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// The commands that create the drive files named in `serve`.
    pub setup: String,
    /// A configuration file for `forebay serve`.
    pub serve: String,
    /// Lines to write into cgroup v2 files, whose names they include.
    pub cgroup: String,
    /// The reservation, weight and limit of each client, for dmClock.
    pub dmclock: String,
}

impl Configuration {
    /// Checks that the texts can be written into `folder`, so that an unwritable folder is reported
    /// before the long computation.
    ///
    /// # Errors
    /// Fails if `folder` is not a folder or is not writable.
    pub fn check(folder: &Path) -> Result<(), Error> {
        let there = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
        let tried = match there.is_dir() {
            true => tempfile::tempfile_in(there).map(|_| ()),
            false => Err(std::io::ErrorKind::NotADirectory.into()),
        };
        tried.map_err(|error| {
            let said = format!(
                "got {} ({}: {error}), expected a folder that can be written into",
                folder.display(),
                there.display()
            );
            AskError::new("configure", said).into()
        })
    }

    /// Writes the texts into `folder`, creating it if needed. Never overwrites any of `kept`.
    ///
    /// # Errors
    /// Fails if a text cannot be written.
    pub fn write(&self, folder: &Path, kept: &ProtectedFiles) -> Result<(), Error> {
        let failed =
            |path: &Path, source| Error::output(TraceError::Io { path: path.into(), source });
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        let texts = [
            ("setup.sh", &self.setup),
            ("serve.toml", &self.serve),
            ("cgroup.txt", &self.cgroup),
            ("dmclock.txt", &self.dmclock),
        ];
        for (name, text) in texts {
            let draft = Draft::new(&folder.join(name), kept).map_err(Error::output)?;
            draft.fill(text.as_bytes()).map_err(Error::output)?;
        }
        Ok(())
    }
}

/// A setup of drives, with the clients that use it.
struct Back<'a> {
    name: String,
    drives: usize,
    /// The rate that the setup guarantees for any workload, in requests per second.
    iops: u64,
    clients: Vec<Tenant<'a>>,
}

/// A client of a setup, with the rate reserved for it.
struct Tenant<'a> {
    need: &'a ClientNeed,
    keep_iops: u64,
    bytes: u64,
}

const MIB: u64 = 1 << 20;
/// The minimum and maximum pace of a drive for `io.cost.qos`, in percent. Higher values are used if
/// reservations or limits require them.
const PACE_PERCENT: [u64; 2] = [50, 150];
/// The number of bytes that `serve` reserves at the end of a disk with a write-back flash cache
/// (docs/placement-log.md).
const MARK_BYTES: u64 = 4096;

/// Generates the texts for `best`. `guarantees` are the rates that its setups guarantee.
pub(super) fn configuration(
    best: &BuyRow,
    kind: &DriveLayout<'_>,
    needs: &[ClientNeed],
    guarantees: &[Guarantee],
    growth: f64,
) -> Configuration {
    let groups: Vec<&[ClientNeed]> = match best.sharing {
        Sharing::Shared => vec![needs],
        Sharing::Apart => needs.chunks(1).collect(),
    };
    let each = groups.into_iter().zip(&best.drives_each).zip(guarantees);
    let backs: Vec<Back<'_>> = each
        .enumerate()
        .map(|(at, ((group, drives), guarantee))| {
            let name = if best.sharing == Sharing::Shared {
                "data".into()
            } else {
                format!("data-{}", at + 1)
            };
            back(name, *drives, *guarantee, group, growth)
        })
        .collect();
    let words = Words { best, kind, backs: &backs };
    Configuration {
        setup: words.setup(),
        serve: words.serve(),
        cgroup: words.cgroup(),
        dmclock: words.dmclock(),
    }
}

fn back<'a>(
    name: String,
    drives: usize,
    guarantee: Guarantee,
    group: &'a [ClientNeed],
    growth: f64,
) -> Back<'a> {
    let iops = guarantee.iops();
    let wanted: Vec<u64> = group.iter().map(|need| need.capacity_iops.unwrap_or(iops)).collect();
    let shortest_ms = group.iter().map(|need| need.within_ms).fold(f64::INFINITY, f64::min);
    // Requests already in progress when another arrives also have to finish within its promised
    // time, so part of the capacity is not reserved.
    let beside = (1e3 / shortest_ms).ceil() as u64;
    let room = iops.saturating_sub(beside);
    let sum = wanted.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
    let keep = |iops: u64| match sum <= room {
        true => iops,
        false => (u128::from(iops) * u128::from(room) / u128::from(sum.max(1))) as u64,
    };
    let tenant = |(need, iops): (&'a ClientNeed, u64)| Tenant {
        need,
        keep_iops: keep(iops),
        bytes: ((need.bytes as f64 * growth) as u64).next_multiple_of(MIB).max(MIB),
    };
    Back { name, drives, iops, clients: group.iter().zip(wanted).map(tenant).collect() }
}

impl Back<'_> {
    fn is_cut(&self) -> bool {
        self.clients.iter().any(|tenant| tenant.need.capacity_iops != Some(tenant.keep_iops))
    }

    /// Returns the `capacity_iops` line, which `serve` requires if any client has a reservation.
    fn capacity(&self) -> String {
        if self.clients.iter().all(|tenant| tenant.keep_iops == 0) {
            return format!(
                "# Nothing is reserved: {} IOPS are guaranteed, too few for promises of such short times.\n",
                self.iops
            );
        }
        let cut = "# All promises together exceed the guaranteed rate: each is reduced by the same share.\n";
        let cut = if self.is_cut() { cut } else { "" };
        format!("capacity_iops = {}\n{cut}", self.iops)
    }

    /// Returns the rate that `tenant` may reach while all others use their reservations. It is
    /// never below the rate that the tenant's promise needs; otherwise the promise would break even
    /// while all others are idle.
    fn limit_iops(&self, tenant: &Tenant<'_>) -> u64 {
        let all: u64 = self.clients.iter().map(|tenant| tenant.keep_iops).sum();
        let left = self.iops.saturating_sub(all - tenant.keep_iops);
        left.max(tenant.need.capacity_iops.unwrap_or(0)).max(1)
    }

    /// Returns a comment for the configuration if reservations were reduced.
    fn cut_note(&self) -> String {
        match self.is_cut() {
            true => format!(
                "# {}: all promises together exceed the guaranteed rate; reservations are reduced by the same share, limits are not.\n",
                self.name
            ),
            false => String::new(),
        }
    }

    /// Returns the minimum and maximum pace for `io.cost.qos`, in percent of the rates in
    /// `io.cost.model`. At the minimum a drive still serves all reservations, and at the maximum
    /// the highest limit.
    fn pace_percent(&self, speed: Option<Speed>) -> [u64; 2] {
        let reserved = self.clients.iter().map(|tenant| tenant.keep_iops).sum();
        let limit = self.clients.iter().map(|tenant| self.limit_iops(tenant)).max();
        let limit = limit.unwrap_or(0).max(reserved);
        let random = speed.map(|speed| speed.read.random_iops.min(speed.write.random_iops));
        let random = random.filter(|_| self.drives == 1).unwrap_or(self.iops);
        let percent = |iops: u64| iops.saturating_mul(100).div_ceil(self.iops.min(random).max(1));
        // The kernel accepts values from 1 to 10000 %.
        [PACE_PERCENT[0].max(percent(reserved)), PACE_PERCENT[1].max(percent(limit))]
            .map(|pace| pace.min(10_000))
    }

    fn bytes(&self) -> u64 {
        self.clients.iter().fold(0, |sum, tenant| sum.saturating_add(tenant.bytes))
    }
}

/// Quotes a string for TOML.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\U{:08X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Replaces characters that a path component or a one-line comment cannot contain with underscores.
fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_control() || c == '/' || c.is_whitespace() { '_' } else { c };
    text.chars().map(plain).collect()
}

struct Words<'a> {
    best: &'a BuyRow,
    kind: &'a DriveLayout<'a>,
    backs: &'a [Back<'a>],
}

impl Words<'_> {
    fn files(&self, back: &Back<'_>) -> Vec<String> {
        (1..=back.drives).map(|n| format!("drives/{}-{n}.img", back.name)).collect()
    }

    /// Returns whether several drives must be combined outside of `serve`, which only combines
    /// those of a volume.
    fn is_striped(&self, back: &Back<'_>) -> bool {
        !self.best.layout.is_volume() && back.drives > 1
    }

    /// Returns the mdadm commands that combine the drives that one file represents.
    fn mdadm(&self, back: &Back<'_>) -> String {
        let (name, drives, sets) = (&back.name, back.drives, self.sets(back));
        let create = |name: &str, level: &str, chunk: &str, drives: usize| {
            format!(
                "# mdadm --create /dev/md/{name} --level={level} --chunk={chunk} --raid-devices={drives}"
            )
        };
        let (level, chunk) = match self.best.layout {
            Layout::Mirror => ("10", format!("{CHUNK_KIB}K")),
            Layout::Raid6 => ("6", format!("{CHUNK_KIB}K")),
            _ => ("0", "1M".to_string()),
        };
        if !self.best.layout.is_array() || sets == 1 {
            return format!("\n{} DRIVES", create(name, level, &chunk, drives));
        }
        let each = (1..=sets).map(|set| {
            let array = create(&format!("{name}-{set}"), level, &chunk, drives / sets);
            format!("\n{array} DRIVES")
        });
        let all = create(name, "0", "1M", sets);
        format!("{}\n{all} /dev/md/{name}-*", each.collect::<String>())
    }

    fn sets(&self, back: &Back<'_>) -> usize {
        self.best.layout.sets(back.drives).unwrap_or(1)
    }

    fn setup(&self) -> String {
        let bytes = forebay_core::Device::capacity(&self.kind.drive.model);
        let mut lines = vec!["mkdir -p drives".to_string()];
        for back in self.backs {
            let files = self.files(back);
            if !self.best.layout.is_volume() {
                let mark = if self.best.cache_drives > 0 { MARK_BYTES } else { 0 };
                let wanted = back.bytes() + mark;
                let bytes = if self.is_striped(back) { wanted } else { bytes.min(wanted) };
                lines.push(format!("truncate -s {bytes} drives/{}.img", back.name));
                if let Some(flash) = self.kind.flash.filter(|_| self.best.cache_drives > 0) {
                    let bytes = forebay_core::Device::capacity(&flash.model);
                    lines.push(format!("truncate -s {bytes} drives/{}-flash.img", back.name));
                }
                continue;
            }
            let each = back.drives / self.sets(back);
            for set in files.chunks(each) {
                let files = set.join(" ");
                lines.push(format!("truncate -s {bytes} {files}"));
                let level = self.best.layout.level();
                let device = match self.best.layout {
                    Layout::Adaptive => format!(" --device {}", shell_word(self.kind.asked)),
                    _ => String::new(),
                };
                lines.push(format!("forebay volume create {files} --level {level}{device}"));
            }
        }
        lines.join("\n") + "\n"
    }

    fn serve(&self) -> String {
        let emulated = match self.backs.iter().any(|back| self.is_striped(back)) {
            true => {
                "# A file represents an md array of several drives: replace it by the array's device.\n"
            }
            false => {
                "# Files represent the drives, with the model's times. For real drives, name their paths and\n\
                 # leave `emulate` out.\n"
            }
        };
        let mut text = format!(
            "# {} {}, {}, {}: what `forebay plan buy` proposes.\n\
             {emulated}\
             socket = \"forebay.sock\"\n",
            self.best.drives.unwrap_or(0),
            plain(&self.best.drive),
            self.best.layout.name(),
            self.best.sharing.name(),
        );
        for back in self.backs {
            text += &match self.best.layout.is_volume() {
                true => self.volume(back),
                false => self.disk(back),
            };
        }
        text
    }

    fn disk(&self, back: &Back<'_>) -> String {
        let mut text = String::new();
        if self.is_striped(back) {
            text += &format!("\n# The file represents {} drives:{}", back.drives, self.mdadm(back));
        }
        text += &format!("\n[[disk]]\nname = \"{0}\"\nfile = \"drives/{0}.img\"\n", back.name);
        if !self.is_striped(back) {
            text += &format!("emulate = {}\n", quoted(self.kind.asked));
        }
        if self.best.cache_drives > 0 {
            text += &format!("flash = \"drives/{}-flash.img\"\n", back.name);
            if !self.is_striped(back) {
                text += &format!("emulate_flash = {}\n", quoted(self.kind.flash_asked));
            }
            text += "# `format=yes` initializes a blank flash: remove it after the first start.\n";
            let policy = format!("cache:format=yes:id=1:disk={}", self.kind.inner());
            text += &format!("policy = {}\n", quoted(&policy));
        } else {
            text += &format!("policy = {}\n", quoted(self.kind.scheduler));
        }
        text += &back.capacity();
        let mut offset = 0;
        for tenant in &back.clients {
            text += &exported(tenant, &back.name, offset);
            offset += tenant.bytes;
        }
        text
    }

    fn volume(&self, back: &Back<'_>) -> String {
        let sets = self.sets(back);
        let files = self.files(back);
        let mut text = String::new();
        if sets > 1 {
            text +=
                &format!("\n# {sets} volumes: stripe their exports, mdadm --level=0 --chunk=1M.");
        }
        for (nth, set) in files.chunks(back.drives / sets).enumerate() {
            let name =
                if sets > 1 { format!("{}-{}", back.name, nth + 1) } else { back.name.clone() };
            let drives: Vec<String> = set.iter().map(|file| format!("\"{file}\"")).collect();
            text += &format!(
                "\n[[volume]]\nname = \"{name}\"\ndrives = [{}]\nemulate = {}\npolicy = {}\n",
                drives.join(", "),
                quoted(self.kind.asked),
                quoted(&self.kind.served()),
            );
            text += &match sets {
                1 => back.capacity(),
                _ => format!("\n[[export]]\nname = \"{name}\"\non = \"{name}\"\n"),
            };
        }
        let mut offset = 0;
        for tenant in back.clients.iter().filter(|_| sets == 1) {
            text += &exported(tenant, &back.name, offset);
            offset += tenant.bytes;
        }
        text
    }

    fn cgroup(&self) -> String {
        let mut text = "# MAJ:MIN is a drive's number (lsblk).\n".to_string();
        let speed = Speed::of(&self.kind.drive.model);
        text += &match speed {
            Some(Speed { read, write }) => format!(
                "# /sys/fs/cgroup/io.cost.model, a line for each drive; rates are of the model of one {}\n\
                 MAJ:MIN ctrl=user model=linear rbps={} rseqiops={} rrandiops={} wbps={} wseqiops={} wrandiops={}\n",
                plain(&self.best.drive),
                read.bytes_per_s,
                read.sequential_iops,
                read.random_iops,
                write.bytes_per_s,
                write.sequential_iops,
                write.random_iops,
            ),
            None => format!(
                "# /sys/fs/cgroup/io.cost.model: the speed of flash depends on previous writes. Measure your\n\
                 # {}, as with the kernel's tools/cgroup/iocost_coef_gen.py; otherwise, the kernel uses its built-in figures.\n",
                plain(&self.best.drive),
            ),
        };
        text += "# /sys/fs/cgroup/io.cost.qos, a line for each drive\n";
        for back in self.backs {
            let tightest =
                back.clients.iter().min_by(|a, b| a.need.within_ms.total_cmp(&b.need.within_ms));
            let Some(Tenant { need, .. }) = tightest else { continue };
            let (percent, us) = (need.fraction * 100.0, (need.within_ms * 1e3).round() as u64);
            let [least, most] = back.pace_percent(speed);
            text += &format!(
                "MAJ:MIN enable=1 ctrl=user rpct={percent:.2} rlat={us} wpct={percent:.2} wlat={us} min={least}.00 max={most}.00\n"
            );
        }
        for back in self.backs {
            text += &back.cut_note();
            let most = back.clients.iter().map(|tenant| tenant.keep_iops).max().unwrap_or(1).max(1);
            for tenant in &back.clients {
                let weight = (tenant.keep_iops.saturating_mul(1000) / most).clamp(1, 10_000);
                let (group, limit) = (plain(&tenant.need.client), back.limit_iops(tenant));
                text += &format!("# /sys/fs/cgroup/{group}/io.weight\ndefault {weight}\n");
                text += &format!(
                    "# /sys/fs/cgroup/{group}/io.max, for the device that consists of all drives of {}\nMAJ:MIN riops={limit} wiops={limit}\n",
                    back.name
                );
            }
        }
        text
    }

    fn dmclock(&self) -> String {
        let mut text = "# client reservation_iops weight limit_iops\n".to_string();
        for back in self.backs {
            text += &back.cut_note();
            for tenant in &back.clients {
                let (client, keep) = (plain(&tenant.need.client), tenant.keep_iops);
                text += &format!("{client} {keep} {} {}\n", keep.max(1), back.limit_iops(tenant));
            }
        }
        text
    }
}

/// Formats the export of a client, with its reservation.
fn exported(tenant: &Tenant<'_>, on: &str, offset: u64) -> String {
    let name = quoted(&tenant.need.client);
    let (offset, size) = (offset / MIB, tenant.bytes / MIB);
    let kept = match tenant.keep_iops {
        0 => String::new(),
        keep => format!("keep_iops = {keep}\nwithin = \"{}ms\"\n", tenant.need.within_ms),
    };
    format!(
        "\n[[export]]\nname = {name}\non = \"{on}\"\noffset = \"{offset}MiB\"\nsize = \"{size}MiB\"\n{kept}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(client: &str, capacity_iops: u64, within_ms: f64) -> ClientNeed {
        ClientNeed {
            client: client.into(),
            requests: 10,
            bytes: 3 * MIB + 1,
            within_ms,
            fraction: 1.0,
            capacity_iops: Some(capacity_iops),
        }
    }

    #[test]
    fn reservations_fit_and_limits_are_the_remainder() {
        // With a promise of 10 ms, up to 100 requests per second may be in progress when another
        // arrives.
        let needs = [need("a", 100, 10.0), need("b", 200, 50.0)];
        let of = |rate_iops: f64| {
            let guarantee = Guarantee { rate_iops };
            let back = back("data".into(), 1, guarantee, &needs, 2.0);
            let kept = back.clients.iter().map(|tenant| tenant.keep_iops);
            let limits = back.clients.iter().map(|tenant| back.limit_iops(tenant));
            (kept.collect::<Vec<_>>(), limits.collect::<Vec<_>>(), back.is_cut())
        };
        assert_eq!(of(1000.0), (vec![100, 200], vec![800, 900], false));
        assert_eq!(of(400.0), (vec![100, 200], vec![200, 300], false));
        // After subtracting 100, 299 are left for reservations of 300, so each is reduced in
        // proportion. Limits still cover the promises.
        assert_eq!(of(399.0), (vec![99, 199], vec![200, 300], true));
        assert_eq!(of(150.0), (vec![16, 33], vec![117, 200], true));
        assert_eq!(of(90.0).0, [0, 0]);
        let guarantee = Guarantee { rate_iops: 1000.0 };
        let back = back("data".into(), 1, guarantee, &needs, 2.0);
        assert!(back.clients.iter().all(|tenant| tenant.bytes == 7 * MIB), "grown, in whole MiB");
        assert_eq!(back.bytes(), 14 * MIB);
    }
}
