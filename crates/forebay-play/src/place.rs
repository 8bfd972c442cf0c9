//! What a trace is played on, as whoever asks names it: the options of the command, which are those of Python's `play`.

use std::path::PathBuf;

use forebay::devices::{self, OpenDevice};
use forebay::simulate::Bed;
use forebay_core::device::failing::Failure;

use crate::error::{Error, unfit};
use crate::{AS_RECORDED, Driver, OF_DRIVES, On, OnVolume, Real};

/// I/Os that a target is given at a time where nothing is said, and at most.
const DEPTH: (u32, u32) = (256, 4096);

/// What a trace is to be played on, by name.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The file or block device for all volumes that have none of their own.
    pub target: Option<PathBuf>,
    /// Volumes of the trace, each with its file or block device.
    pub map_volume: Vec<(String, PathBuf)>,
    /// The drives of a volume, or their folder.
    pub volume: Vec<PathBuf>,
    /// The device to emulate.
    pub emulate: Option<String>,
    /// What placements use as flash: a file or block device, or a device to emulate.
    pub flash: Option<String>,
    /// I/Os that fail on what is emulated.
    pub fail: Vec<Failure>,
    /// How I/Os get to targets.
    pub driver: Option<Driver>,
    /// Whether writes may destroy what is on a target.
    pub overwrite: bool,
    /// Whether to go through the page cache.
    pub buffered: bool,
    /// I/Os that a target is given at a time, 256 where nothing is said.
    pub depth: Option<u32>,
}

/// A [`Place`] whose options go together, its device models read. No target is touched yet.
#[derive(Debug)]
pub struct Found {
    what: What,
}

#[derive(Debug)]
enum What {
    Real(Real),
    Volume(OnVolume),
    Emulated { disk: Box<OpenDevice>, flash: Option<Box<OpenDevice>>, failures: Vec<Failure> },
}

impl Place {
    /// Holds the options against each other and reads device models.
    ///
    /// # Errors
    /// Options that exclude each other, nothing to play on, or a device that is not known.
    pub fn find(self) -> Result<Found, Error> {
        self.refuse()?;
        let depth = self.depth.unwrap_or(DEPTH.0);
        if !(1..=DEPTH.1).contains(&depth) {
            return Err(unfit(format!("--depth: got {depth}, expected 1 to {}", DEPTH.1)));
        }
        let what = if let Some(disk) = &self.emulate {
            let open =
                |name: &String| devices::open(name).map(Box::new).map_err(forebay::Error::from);
            let (disk, flash) = (open(disk)?, self.flash.as_ref().map(open).transpose()?);
            What::Emulated { disk, flash, failures: self.fail }
        } else if !self.volume.is_empty() {
            What::Volume(OnVolume { drives: self.volume, driver: self.driver, depth })
        } else {
            What::Real(Real {
                target: self.target,
                volumes: self.map_volume,
                flash: self.flash.map(PathBuf::from),
                driver: self.driver,
                overwrite: self.overwrite,
                direct: !self.buffered,
                depth,
            })
        };
        Ok(Found { what })
    }

    /// What excludes each other, and what there must be one of.
    fn refuse(&self) -> Result<(), Error> {
        let given = [
            ("--target", self.target.is_some()),
            ("--map-volume", !self.map_volume.is_empty()),
            ("--emulate", self.emulate.is_some()),
            ("--volume", !self.volume.is_empty()),
            ("--driver", self.driver.is_some()),
            ("--buffered", self.buffered),
            ("--depth", self.depth.is_some()),
            ("--flash", self.flash.is_some()),
        ];
        let among = |names: &[&str]| {
            let found = given.iter().find(|(name, is)| *is && names.contains(name));
            found.map(|(name, _)| *name)
        };
        if among(&["--target", "--map-volume", "--emulate", "--volume"]).is_none() {
            return Err(unfit(
                "got nothing to play on, expected --target, --map-volume, --volume or --emulate"
                    .into(),
            ));
        }
        let excluded: [(&str, &[&str]); 2] = [
            (
                "--emulate",
                &["--target", "--map-volume", "--volume", "--driver", "--buffered", "--depth"],
            ),
            ("--volume", &["--target", "--map-volume", "--flash", "--buffered"]),
        ];
        for (name, others) in excluded {
            if let (Some(name), Some(other)) = (among(&[name]), among(others)) {
                return Err(unfit(format!("got {name} and {other}, expected one of them")));
            }
        }
        match self.fail.is_empty() || self.emulate.is_some() {
            true => Ok(()),
            false => Err(unfit(
                "got --fail, which needs --emulate: real devices fail by themselves".into(),
            )),
        }
    }
}

impl Found {
    /// What to play on.
    pub fn on(&self) -> On<'_> {
        match &self.what {
            What::Real(real) => On::Real(real),
            What::Volume(volume) => On::Volume(volume),
            What::Emulated { disk, flash, failures } => {
                On::Emulated(Bed { flash: flash.as_deref(), failures, ..Bed::of(disk) })
            }
        }
    }

    /// The policy in between: what was asked for, or what leaves requests as they are.
    pub fn policy<'a>(&self, asked: Option<&'a str>) -> &'a str {
        let unsaid = if matches!(self.what, What::Volume(_)) { OF_DRIVES } else { AS_RECORDED };
        asked.unwrap_or(unsaid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(place: Place) -> String {
        place.find().map(|found| format!("{found:?}")).unwrap_err().to_string()
    }

    #[test]
    fn options_that_exclude_each_other_are_named() {
        let (file, device) = (Some(PathBuf::from("x")), Some("sata250".to_string()));
        let on_file = Place { target: file.clone(), ..Place::default() };
        let emulated = Place { emulate: device, ..Place::default() };
        let on_volume = Place { volume: vec!["d".into()], ..Place::default() };
        let failure = Failure::parse("one-in=5").unwrap();
        let cases = [
            (Place::default(), "got nothing to play on"),
            (Place { target: file.clone(), ..emulated.clone() }, "--emulate and --target"),
            (Place { volume: vec!["d".into()], ..emulated.clone() }, "--emulate and --volume"),
            (Place { driver: Some(Driver::Threads), ..emulated.clone() }, "--emulate and --driver"),
            (Place { buffered: true, ..emulated.clone() }, "--emulate and --buffered"),
            (Place { depth: Some(1), ..emulated.clone() }, "--emulate and --depth"),
            (Place { target: file, ..on_volume.clone() }, "--volume and --target"),
            (
                Place { map_volume: vec![("a".into(), "x".into())], ..on_volume.clone() },
                "--volume and --map-volume",
            ),
            (Place { flash: Some("x".into()), ..on_volume.clone() }, "--volume and --flash"),
            (Place { buffered: true, ..on_volume.clone() }, "--volume and --buffered"),
            (Place { fail: vec![failure], ..on_volume }, "--fail, which needs --emulate"),
            (Place { fail: vec![failure], ..on_file.clone() }, "--fail, which needs --emulate"),
            (Place { depth: Some(0), ..on_file.clone() }, "--depth: got 0, expected 1 to 4096"),
            (Place { depth: Some(4097), ..on_file.clone() }, "--depth: got 4097"),
            (Place { emulate: Some("sata25".into()), ..Place::default() }, "sata25"),
        ];
        for (place, part) in cases {
            let said = refused(place);
            assert!(said.contains(part), "{said}");
        }
        let found = Place { overwrite: true, depth: Some(4096), ..on_file }.find().unwrap();
        let On::Real(real) = found.on() else { panic!("{found:?}") };
        assert!(real.overwrite && real.direct && real.depth == 4096);
        assert_eq!((found.policy(None), found.policy(Some("cfq"))), (AS_RECORDED, "cfq"));
        let found = emulated.find().unwrap();
        assert!(matches!(found.on(), On::Emulated(bed) if bed.flash.is_none()));
    }
}
