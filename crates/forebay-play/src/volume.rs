//! The verbs `volume create`, `status`, `check`, `replace`, `grow` and `remove`.

mod answer;
mod page;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use forebay::advise::stand_in;
use forebay::array_score::drive_costs;
use forebay::devices::OpenDevice;
use forebay::verb::{Answered, DeviceInput, Session, Verb};
use forebay_ask::{Choice, Value, named};
use forebay_core::adapt::DriveCosts;
use forebay_core::stack::array::{DriveKind, LEVELS, Level, Update};
use forebay_volume::{Create, Opened};
use forebay_words::plural::{counted, verb};
use forebay_words::quantities::{bytes, rate};

use crate::error::Error;
use answer::VolumeAnswer;

forebay_ask::ask! {
    /// Create a volume from drives
    ///
    /// Drives that hold data are rejected unless they may be overwritten.
    pub struct VolumeCreateAsk("volume create") {
        /// The hard disks, or a folder of files
        drives: Vec<PathBuf> [.positional().word("DIR|DEVICE")],
        /// Solid-state drives, as a second set: each unit is stored either on the hard disks or on
        /// these (play --policy array:hints=)
        ssd: Vec<PathBuf> [.repeated().word("DIR|DEVICE")],
        /// The redundancy level of new data
        level: LevelInput = "raid6",
        /// The chunk size in KiB: the amount of consecutive data on one drive
        chunk_kib: u32 = "64" [.word("KIB").between(4.0, 1024.0)],
        /// Data chunks per unit; each unit has its own redundancy level
        chunks: u16 = "4" [.word("COUNT").between(1.0, 14.0)],
        /// Reserve space for the data of this many drives, so that their data can be restored on
        /// the others when drives fail
        spares: u16 = "0" [.word("COUNT").between(0.0, 26.0)],
        /// A bundled device or a device file for the hard disks, or one for each of them. The costs
        /// of its writes determine the level of a unit, if units change between RAID 6 and three
        /// copies (serve and play with the policy array:adapt=)
        device: Vec<DeviceInput> [.otherwise("block devices: found by their model; files: none")],
        /// The corresponding device for the solid-state drives
        ssd_device: Vec<DeviceInput> [.otherwise("block devices: found by their model; files: none")],
        /// Destroy the data on the drives
        overwrite: bool,
    }
}

forebay_ask::ask! {
    /// Show the state of a volume without writing anything
    ///
    /// The exit status is 0 if the volume is healthy, 3 if it is degraded (a drive is missing, or
    /// data lack redundancy), 1 if data are lost, and 2 if it cannot be opened.
    pub struct VolumeStatusAsk("volume status") {
        /// The drives, or a folder of files
        drives: Vec<PathBuf> [.positional().word("DIR|DEVICE").at_least_one()],
    }
}

forebay_ask::ask! {
    /// Read everything on a volume, including all copies and parities, and repair errors
    pub struct VolumeCheckAsk("volume check") {
        /// The drives, or a folder of files
        drives: Vec<PathBuf> [.positional().word("DIR|DEVICE").at_least_one()],
        /// The maximum rate in MB of data per second
        rate: Option<u32> [.word("MB").otherwise("as fast as possible")],
    }
}

forebay_ask::ask! {
    /// Replace a missing drive with a new one, and restore its data
    ///
    /// If interrupted, run the same command again to continue.
    pub struct VolumeReplaceAsk("volume replace") {
        /// The remaining drives, or a folder of files
        drives: Vec<PathBuf> [.positional().word("DIR|DEVICE").at_least_one()],
        /// The new drive, which may be in the volume's folder
        with: PathBuf [.word("DEVICE")],
        /// Destroy the data on the new drive
        overwrite: bool,
    }
}

forebay_ask::ask! {
    /// Enlarge a volume with more drives, or with drives that have become larger
    ///
    /// The data are first redistributed over all drives. A volume can grow to at most twice its
    /// initial size. If growing is interrupted, no data are lost; run the same command again to
    /// continue.
    pub struct VolumeGrowAsk("volume grow") {
        /// The existing drives, or a folder of files
        drives: Vec<PathBuf> [.positional().word("DIR|DEVICE").at_least_one()],
        /// New drives, each at least as large as the drives with which the volume was created
        with: Vec<PathBuf> [.repeated().word("DEVICE")],
        /// The new drives are solid-state drives
        ssd: bool,
        /// Destroy the data on the new drives
        overwrite: bool,
    }
}

forebay_ask::ask! {
    /// Remove a drive from a volume if the others have space for its data
    ///
    /// The data are first moved to the other drives. A missing drive can be removed once its data
    /// have been restored on the others. If interrupted, no data are lost; run the same command
    /// again to continue.
    pub struct VolumeRemoveAsk("volume remove") {
        /// The drives, or a folder of files
        drives: Vec<PathBuf> [.positional().word("DIR|DEVICE").at_least_one()],
        /// The drive to remove
        drive: String [.word("NUMBER|DEVICE")],
    }
}

/// A redundancy level, as an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelInput(pub Level);

impl Value for LevelInput {
    const WORD: &'static str = "LEVEL";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "raid0", about: "stripes without redundancy" },
        Choice { name: "raid5", about: "one parity" },
        Choice { name: "raid6", about: "two parities" },
        Choice { name: "raid10", about: "two copies" },
        Choice { name: "raid10x3", about: "three copies" },
        Choice { name: "raid10x4", about: "four copies" },
    ];

    fn parse(text: &str) -> Result<LevelInput, String> {
        let names: Vec<&str> = LEVELS.iter().map(|level| level.name()).collect();
        let expected = || format!("got '{text}', expected {}", names.join(", "));
        Level::named(text).map(LevelInput).ok_or_else(expected)
    }
}

/// Builds the answer about a volume. `said` is a sentence about what the verb has just done.
/// Problems with the drives are reported as warnings.
fn answered(
    opened: &Opened,
    drives: &[PathBuf],
    said: &str,
    session: &mut dyn Session,
) -> Result<Answered, forebay::Error> {
    opened.told(drives).iter().for_each(|told| session.warn(Path::new(""), told));
    let answer = VolumeAnswer::of(opened, drives);
    let units = counted(answer.lost_units, "unit");
    let failure = match answer.lost_units {
        0 if opened.lacked_room => Some(
            "the volume was read, but nothing could be repaired: the file system below its drives \
             is full (ENOSPC); free some space and run `forebay volume check` again"
                .to_string(),
        ),
        0 => None,
        _ => {
            let lost = bytes(answer.lost_bytes as f64);
            Some(format!("{lost} of the volume, in {units}, cannot be read any more"))
        }
    };
    let page = page::page(opened, &answer, said);
    Ok(Answered::new(&answer, page)?.failing(failure))
}

/// Reports the amount of data moved so far, as a rate and, if the total is known, a percentage.
struct MovedReport<'a> {
    session: &'a mut dyn Session,
    doing: &'static str,
    began: Instant,
}

impl<'a> MovedReport<'a> {
    fn begin(session: &'a mut dyn Session, doing: &'static str) -> MovedReport<'a> {
        session.begin(doing, None);
        MovedReport { session, doing, began: Instant::now() }
    }

    fn report(&mut self, moved: u64, all: Option<u64>) -> ControlFlow<()> {
        let moved = moved as f64;
        let bytes_per_s = moved / self.began.elapsed().as_secs_f64().max(1e-3);
        let doing = format!("{}: {}, {}", self.doing, bytes(moved), rate(bytes_per_s));
        let share = all.filter(|all| *all > 0).map(|all| (moved / all as f64).min(1.0));
        self.session.report(doing, share)
    }
}

/// Returns the costs of writes to `drives`, which are like `devices`: one for all of them, or one
/// for each. Without `devices`, uses those that represent the drives, if they are block devices.
fn costs(
    name: &str,
    drives: &[PathBuf],
    devices: &[DeviceInput],
    (level, chunk_bytes, chunks): (Level, u32, u8),
) -> Result<Option<DriveCosts>, forebay::Error> {
    let found = || drives.iter().map(|path| stand_in(path)).collect::<Option<Vec<_>>>();
    let names = match devices {
        [] => found().unwrap_or_default(),
        [one] => vec![one.0.clone(); drives.len()],
        each => each.iter().map(|device| device.0.clone()).collect(),
    };
    if names.len() != drives.len() && !devices.is_empty() {
        return Err(forebay::Error::Unfit(format!(
            "{}: got {} devices for {} drives, expected one for all of them, or one for each",
            named(name),
            devices.len(),
            drives.len()
        )));
    }
    let opened = names.iter().map(|name| forebay::devices::open(name));
    let opened: Vec<OpenDevice> = opened.collect::<Result<_, _>>()?;
    let each: Vec<&OpenDevice> = opened.iter().collect();
    let adapts = [Level::RAID6, Level::TRIPLE].contains(&level);
    let costs = adapts.then(|| drive_costs(&each, chunk_bytes, chunks, Update::Fresh)).flatten();
    match costs.is_none() && !devices.is_empty() {
        true => Err(forebay::Error::Unfit(format!(
            "{}: got {} of {} with {chunks} chunks per unit, and such units cannot switch between \
             RAID 6 and three copies; leave it out",
            named(name),
            level.name(),
            counted(drives.len() as u64, "drive"),
        ))),
        false => Ok(costs),
    }
}

impl Verb for VolumeCreateAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, forebay::Error> {
        let mut drives = forebay_volume::drives_in(&self.drives).map_err(Error::from)?;
        let solid = forebay_volume::drives_in(&self.ssd).map_err(Error::from)?;
        let chunk_bytes = self.chunk_kib * 1024;
        session.begin("determining the costs of writes", None);
        let costs = |named: &str, drives: &[PathBuf], devices: &[DeviceInput]| {
            costs(named, drives, devices, (self.level.0, chunk_bytes, self.chunks as u8))
        };
        let costs = [
            costs("device", &drives, &self.device)?,
            costs("ssd_device", &solid, &self.ssd_device)?,
        ];
        let how = Create {
            level: self.level.0,
            chunk_bytes,
            chunks: self.chunks as u8,
            ssds: solid.len(),
            spares: self.spares,
            overwrite: self.overwrite,
            costs,
        };
        drives.extend(solid);
        session.begin("making the volume", None);
        forebay_volume::create(&drives, how).map_err(Error::from)?;
        let opened = forebay_volume::status(&drives).map_err(Error::from)?;
        answered(&opened, &drives, "The volume was created.", session)
    }
}

impl Verb for VolumeStatusAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, forebay::Error> {
        session.begin("opening the volume", None);
        let opened = forebay_volume::status(&self.drives).map_err(Error::from)?;
        let is_degraded = !opened.missing().is_empty() || opened.census.degraded_units > 0;
        Ok(answered(&opened, &self.drives, "", session)?.degraded(is_degraded))
    }
}

impl Verb for VolumeCheckAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, forebay::Error> {
        let bytes_per_s = u64::from(self.rate.unwrap_or(0)) * 1_000_000;
        let mut moved = MovedReport::begin(session, "reading all of the volume");
        let tell = &mut |it: forebay_volume::Moved| moved.report(it.read_bytes, it.all_bytes);
        let opened = forebay_volume::check(&self.drives, bytes_per_s, tell).map_err(Error::from)?;
        answered(&opened, &self.drives, &checked(&opened), session)
    }
}

/// Describes what a check found and repaired.
fn checked(opened: &Opened) -> String {
    let (rotten, mended) = (figure(opened, "rotten_blocks"), figure(opened, "repaired_roles"));
    let wrong = format!("{} {} wrong", counted(rotten, "block"), verb(rotten, "was", "were"));
    match (rotten, mended) {
        _ if opened.lacked_room => {
            format!("The complete volume was read: {wrong}, and nothing was written.")
        }
        (0, 0) if opened.census.lost_units > 0 => {
            "The complete volume was read, and nothing else is wrong.".into()
        }
        (0, 0) => "The complete volume was read, and everything is correct.".into(),
        _ => format!(
            "The complete volume was read: {wrong}, and {} {} rewritten.",
            counted(mended, "chunk"),
            verb(mended, "was", "were")
        ),
    }
}

impl Verb for VolumeReplaceAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, forebay::Error> {
        let mut moved = MovedReport::begin(session, "restoring the missing drive's data");
        let tell = &mut |it: forebay_volume::Moved| moved.report(it.written_bytes, it.all_bytes);
        let opened = forebay_volume::replace(&self.drives, &self.with, self.overwrite, tell)
            .map_err(Error::from)?;
        let new = self.with.display();
        let said = match (figure(&opened, "repaired_roles"), &opened.already[..]) {
            (0, [_, ..]) => {
                format!("{new} is already a drive of the volume and has all of its data.")
            }
            (mended, _) => format!(
                "{new} is a drive of the volume now; {} {} restored.",
                counted(mended, "chunk"),
                verb(mended, "was", "were")
            ),
        };
        let answered = answered(&opened, &self.drives, &said, session)?;
        let degraded = opened.census.degraded_units;
        let lacking = (degraded > 0 && opened.missing().is_empty()).then(|| {
            format!(
                "{} still {} a drive; check that {new} has space, then run the same command again",
                counted(degraded, "unit"),
                verb(degraded, "lacks", "lack"),
            )
        });
        let failure = answered.failure.clone().or(lacking);
        Ok(answered.failing(failure))
    }
}

impl Verb for VolumeGrowAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, forebay::Error> {
        let kind = if self.ssd { DriveKind::Ssd } else { DriveKind::Hdd };
        let mut moved = MovedReport::begin(session, "spreading the data over all drives");
        let tell = &mut |it: forebay_volume::Moved| moved.report(it.written_bytes, None);
        let (before, opened) =
            forebay_volume::grow(&self.drives, &self.with, kind, self.overwrite, tell)
                .map_err(Error::from)?;
        answered(&opened, &self.drives, &grown(&before, &opened), session)
    }
}

impl Verb for VolumeRemoveAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, forebay::Error> {
        let mut moved = MovedReport::begin(session, "moving the drive's data");
        let tell = &mut |it: forebay_volume::Moved| moved.report(it.written_bytes, None);
        let opened =
            forebay_volume::remove(&self.drives, &self.drive, tell).map_err(Error::from)?;
        let chunks = figure(&opened, "moved_roles");
        let text = format!(
            "Drive {} is no longer part of the volume; {} {} moved to the others.",
            self.drive,
            counted(chunks, "chunk"),
            verb(chunks, "was", "were")
        );
        answered(&opened, &self.drives, &text, session)
    }
}

/// Describes how much a volume has grown, or why it has not.
fn grown(before: &Opened, opened: &Opened) -> String {
    let [held, holds] = [before, opened].map(|it| it.geometry.capacity_bytes());
    let [was, is] = [held, holds].map(|of| bytes(of as f64));
    match (holds > held, holds < opened.geometry.capacity_max_bytes()) {
        (true, true) => format!("The volume holds {is} now, up from {was}."),
        (true, false) => {
            format!("The volume holds {is} now, up from {was}; its records have no space for more.")
        }
        (false, true) => format!("The volume holds as much as before. {}", limit(opened)),
        (false, false) => {
            "The volume holds as much as before: it has grown to twice its first size, and its \
             records have no space for more."
                .into()
        }
    }
}

/// Describes why a volume cannot grow: which drives are too small, and by how much.
fn limit(opened: &Opened) -> String {
    let lacks = |bytes: u64| counted(bytes, "byte");
    match &opened.too_small[..] {
        [] => "The volume has too few drives for its level.".into(),
        [(number, bytes)] => format!("Drive {number} is too small by {}.", lacks(*bytes)),
        [(_, first), rest @ ..] if rest.iter().all(|(_, bytes)| bytes == first) => {
            let numbers: Vec<String> =
                opened.too_small.iter().map(|(number, _)| number.to_string()).collect();
            let numbers = forebay_words::plural::listed(&numbers);
            format!("Drives {numbers} are too small by {} each.", lacks(*first))
        }
        many => {
            let of = |(number, bytes): &(u8, u64)| format!("{number} by {}", lacks(*bytes));
            let many: Vec<String> = many.iter().map(of).collect();
            format!("These drives are too small: {}.", forebay_words::plural::listed(&many))
        }
    }
}

/// Returns a counter of the opened volume.
fn figure(opened: &Opened, name: &str) -> u64 {
    opened.figures.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value as u64)
}
