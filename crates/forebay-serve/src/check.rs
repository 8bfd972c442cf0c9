//! Checks a configuration in the same way as starting a server does, but without locking or
//! changing anything.

use crate::back::Opened;
use crate::devices::Devices;
use crate::error::{Error, unfit};
use crate::opening::Purpose;
use crate::server::refuse_doubles;
use crate::{Address, Back, Config, On, check_labels, outputs};

impl Config {
    /// Checks what can be known without changing anything: opens disks and volumes for reading.
    /// Returns a line for each back, as [`Config::summary`] does, and remarks on volumes. Addresses
    /// may be in use and files locked, because another server may use the same configuration.
    ///
    /// # Errors
    /// The server could not be started with this configuration.
    pub fn check(&self) -> Result<Vec<String>, Error> {
        self.refuse()?;
        let mut lines = self.summary()?;
        if self.has_devices() {
            Devices::prepare()?;
        }
        for back in &self.backs {
            lines.extend(check(back)?);
        }
        Ok(lines)
    }

    /// Rejects mistakes that do not depend on the contents of the disks.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub(crate) fn refuse(&self) -> Result<(), Error> {
        refuse_doubles(self)?;
        outputs::refuse(self)?;
        self.summary()?;
        self.listen.iter().try_for_each(Address::refuse_unusable)?;
        self.refuse_metrics()?;
        self.backs.iter().try_for_each(outputs::refuse_unwritable)
    }

    /// Rejects an address for metrics at which clients are served.
    fn refuse_metrics(&self) -> Result<(), Error> {
        let Some(metrics) = self.metrics.filter(|address| address.port() != 0) else {
            return Ok(());
        };
        match self.listen.contains(&Address::Tcp(metrics)) {
            false => Ok(()),
            true => Err(unfit(format!(
                "metrics: got {metrics}, which is also the address for clients (tcp), expected a \
                 different port"
            ))),
        }
    }
}

fn check(back: &Back) -> Result<Vec<String>, Error> {
    let opened = Opened::open(back, Purpose::Check);
    let (On::Volume(drives) | On::EmulatedVolume { drives, .. }) = &back.on else {
        return opened.map(|_| Vec::new());
    };
    match opened {
        // The server that is to reread the configuration may be using the volume.
        Ok(_) | Err(Error::Volume(forebay_volume::Error::InUse(_))) => {
            check_labels::check(&back.name, drives)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod verdicts;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::{Blocks, Named};

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
    fn a_check_rejects_what_a_start_would_reject() {
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
                "is a folder",
            ),
            (
                |config, folder| config.backs[0].on = On::Volume(vec![folder.join("none")]),
                "No such file",
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
            config.backs[0].policy = "cache:write=sideways:format=yes".into();
        };
        assert!(said(wrong).unwrap().contains("sideways"));
    }
}
