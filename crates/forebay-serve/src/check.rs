//! Checks a configuration without opening or changing anything.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use forebay_core::Device;
use forebay_core::catalog::{DeviceSet, FlashLane, is_array, is_placement};
use forebay_core::stack::Pairing;
use forebay_live::LEN_MAX;

use crate::address::Address;
use crate::back::{ExportRoom, Policies, above_rearranged, found};
use crate::check_labels;
use crate::config::{Back, Blocks, Config, On};
use crate::error::{Error, unfit};
use crate::outputs;
use crate::server::refuse_doubles;

/// The size that is assumed for block devices, whose size is known only once they are open.
const DEVICE_BYTES: u64 = 1 << 30;
/// The minimum size of a file.
const BYTES_MIN: u64 = 4096;

impl Config {
    /// Checks what can be known without opening anything, except for reading the labels of volumes.
    /// Returns a line for each back, as [`Config::summary`] does, and remarks on volumes.
    ///
    /// # Errors
    /// A start would be refused.
    pub fn check(&self) -> Result<Vec<String>, Error> {
        refuse_doubles(self)?;
        outputs::refuse(self)?;
        let mut lines = self.summary()?;
        self.listen.iter().try_for_each(Address::refuse_unusable)?;
        for back in &self.backs {
            lines.extend(check(back)?);
        }
        Ok(lines)
    }
}

fn check(back: &Back) -> Result<Vec<String>, Error> {
    outputs::refuse_unwritable(back)?;
    if let Blocks::Learnt(trace) = &back.blocks {
        let failed =
            |error| unfit(format!("'{}': rearrange: {}: {error}", back.name, trace.display()));
        std::fs::metadata(trace).map_err(failed)?;
    }
    match &back.on {
        On::Target { path, flash } => {
            check_disk(back, path, flash.as_deref(), None).map(|()| Vec::new())
        }
        On::Emulated { path, device, flash } => {
            let flash = flash.as_ref().map(|(path, _)| path.as_path());
            let most = Some(Device::capacity(&device.model));
            check_disk(back, path, flash, most).map(|()| Vec::new())
        }
        On::Volume(drives) | On::EmulatedVolume { drives, .. } => {
            drives.iter().try_for_each(|drive| found(drive).map(drop))?;
            match is_placement(&back.policy) && !is_array(&back.policy) {
                false => check_labels::check(&back.name, drives),
                true => Err(unfit(format!(
                    "'{}': policy: got '{}', which places data on a disk and a flash, expected a \
                     scheduler, a shaper or array",
                    back.name, back.policy
                ))),
            }
        }
    }
}

/// Checks a disk; `most` is the capacity of the emulated device.
fn check_disk(
    back: &Back,
    path: &Path,
    flash: Option<&Path>,
    most: Option<u64>,
) -> Result<(), Error> {
    let bytes = size(path)?;
    if let (Some(bytes), Some(most)) = (bytes, most)
        && bytes > most
    {
        return Err(unfit(format!(
            "{}: got {bytes} bytes, expected at most {most}, the size of the emulated device; make it \
             shorter, or emulate a larger device",
            path.display()
        )));
    }
    if back.blocks != Blocks::InPlace && is_placement(&back.policy) {
        return Err(above_rearranged(&back.policy));
    }
    let flash = flash
        .map(size)
        .transpose()?
        .map(|bytes| FlashLane { len_max: LEN_MAX, capacity_bytes: bytes.unwrap_or(DEVICE_BYTES) });
    let disk_bytes = bytes.unwrap_or(DEVICE_BYTES);
    let (disks, disk_len_max, costs) = (1, LEN_MAX, [None; 2]);
    let set = DeviceSet { disks, disk_len_max, disk_bytes, flash, restarts: true, costs };
    Policies::Placed(set, Pairing::default()).build_for(back)?;
    match bytes {
        Some(bytes) => ExportRoom::new(bytes, 1).exports(back, false).map(drop),
        None => Ok(()),
    }
}

/// Returns the size of a file; None for a block device, which is not opened.
fn size(path: &Path) -> Result<Option<u64>, Error> {
    let found = found(path)?;
    let wrong = |what: String| {
        Err(unfit(format!("{}: got {what}, expected a file or block device", path.display())))
    };
    match (found.file_type(), found.len()) {
        (kind, _) if kind.is_block_device() => Ok(None),
        (kind, _) if kind.is_dir() => wrong("a folder".into()),
        (kind, _) if !kind.is_file() => wrong("a special file".into()),
        (_, bytes) if bytes < BYTES_MIN => wrong(format!("{bytes} bytes, less than {BYTES_MIN}")),
        (_, bytes) => Ok(Some(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::Named;

    fn said(change: impl FnOnce(&mut Config, &Path)) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a.img"), vec![0; 1 << 20]).unwrap();
        std::fs::write(at("empty"), "").unwrap();
        let back =
            |name: &str, file: &str| Back::of(name, On::Target { path: at(file), flash: None });
        std::fs::write(at("b.img"), vec![0; 1 << 20]).unwrap();
        let backs = vec![back("one", "a.img"), back("two", "b.img")];
        let mut config = Config::of(vec![Address::Unix(at("s"))], backs);
        change(&mut config, folder.path());
        let outcome = config.check();
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 3, "nothing is created");
        outcome.err().map(|error| error.to_string())
    }

    fn disk(config: &mut Config, path: PathBuf) {
        config.backs[0].on = On::Target { path, flash: None };
    }

    type Change = fn(&mut Config, &Path);

    #[test]
    fn what_a_start_would_refuse_is_refused_without_opening_anything() {
        assert_eq!(said(|_, _| ()), None);
        let with_flash: Change = |config, folder| {
            let flash = Some(folder.join("b.img"));
            config.backs.truncate(1);
            config.backs[0].on = On::Target { path: folder.join("a.img"), flash };
            config.backs[0].policy = "cache:write=back:size-mib=1:format=yes".into();
        };
        assert_eq!(said(with_flash), None);
        let cases: [(Change, &str); 19] = [
            (|config, _| config.backs[1].exports[0].name = "one".into(), "got two of that name"),
            (|config, folder| disk(config, folder.join("b.img")), "is used by 'one' and by 'two'"),
            (
                |config, folder| config.backs[0].trace = Some(folder.join("b.img")),
                "which is the disk of 'two'",
            ),
            (|config, folder| config.backs[0].trace = Some(folder.join("t.txt")), "trace: "),
            (
                |config, folder| config.backs[0].trace_issued = Some(folder.join("no/t.csv")),
                "its folder does not exist",
            ),
            (
                |config, folder| config.backs[0].blocks = Blocks::Learnt(folder.join("no")),
                "'one': rearrange: ",
            ),
            (|config, _| config.backs[0].policy = "cache:size-mib=8".into(), "flash"),
            (|config, _| config.backs[0].policy = "array".into(), "'one': policy: "),
            (|config, _| config.backs[0].policy = "nonsense".into(), "'one': policy: "),
            (|config, _| config.backs[0].policy = "bfq:slice=abc".into(), "no parameter 'slice'"),
            (|config, _| config.backs[0].policy = String::new(), "'one': policy: "),
            (
                |config, folder| {
                    config.listen = vec![Address::Unix(folder.join("s".repeat(120)))];
                },
                "expected at most",
            ),
            (
                |config, folder| config.listen = vec![Address::Unix(folder.join("no/s"))],
                "cannot listen there: No such file",
            ),
            (
                |config, folder| config.listen = vec![Address::Unix(folder.join("empty"))],
                "got a file, expected a path for a socket",
            ),
            (|config, folder| disk(config, folder.join("none")), "no such file"),
            (|config, folder| disk(config, folder.join("empty")), "got 0 bytes"),
            (
                |config, folder| {
                    config.backs.truncate(1);
                    disk(config, folder.to_path_buf());
                },
                "got a folder",
            ),
            (
                |config, folder| config.backs[0].on = On::Volume(vec![folder.join("none")]),
                "no such file",
            ),
            (
                |config, _| {
                    config.backs[0].exports =
                        vec![Named { bytes: Some(2 << 20), ..Named::all("x") }];
                },
                "expected 1 to 1048576",
            ),
        ];
        for (change, what) in cases {
            let said = said(change).unwrap_or_else(|| panic!("{what}: it is accepted"));
            assert!(said.contains(what), "{what}: {said}");
            assert!(!said.contains("promised:"), "{said}");
        }
        let wrong: Change = |config, folder| {
            let flash = Some(folder.join("b.img"));
            config.backs.truncate(1);
            config.backs[0].on = On::Target { path: folder.join("a.img"), flash };
            config.backs[0].policy = "cache:write=sideways".into();
        };
        assert!(said(wrong).unwrap().contains("sideways"));
    }
}
