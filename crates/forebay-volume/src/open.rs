//! Opens a volume to inspect or repair it, and flushes writes to a volume.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_ask::shell_word;
use forebay_core::adapt::DriveCosts;
use forebay_core::catalog::with_rules;
use forebay_core::contract::{AnyPolicy, Done, Figure};
use forebay_core::stack::array::{Array, Census, DriveLimit, DriveStage, Geometry, Label, Level};
use forebay_core::stack::placed::Placed;
use forebay_core::{Fault, Flags, Nanos, Op, Outcome, Policy, Request, Slots, SpecError, Workload};
use forebay_live::{LEN_MAX, Lanes, Target, run};

use crate::find::{Access, FoundVolume, NonMember, drives_in, find, found};
use crate::joining::{Newcomer, settle};
use crate::moved::{Counting, Tell, untold};
use crate::{DRIVES_MAX, Error};

/// The maximum number of I/Os in flight on a drive.
const DEPTH: u32 = 64;

/// The result of opening a volume.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The sizes of the volume.
    pub geometry: Geometry,
    /// The state of the volume.
    pub census: Census,
    /// The counters from opening.
    pub figures: Vec<Figure>,
    /// Named paths that are not used.
    pub others: Vec<NonMember>,
    /// Changes made to labels, one sentence each.
    pub notes: Vec<String>,
    /// Drives that should join but already belonged to the volume.
    pub already: Vec<PathBuf>,
    /// The numbers of drives that have begun to join but are not in any record yet.
    pub joining: Vec<u8>,
    /// The numbers of drives that have no space for a label at their end.
    pub without_end_label: Vec<u8>,
    /// The oldest version among the drives' labels.
    pub format: u64,
    /// Whether the volume was opened read-only because its drives had no space for necessary
    /// writes.
    pub lacked_room: bool,
    /// The number of drives that may fail while the other drives still have space for all data if
    /// the volume is full.
    pub spare_drives: usize,
    /// Drives too small for the volume to grow, with the number of bytes that each lacks.
    pub too_small: Vec<(u8, u64)>,
    /// The drives that cannot be removed, and why.
    pub irremovable: Vec<(u8, String)>,
    /// The costs of writes on the hard disks and on the solid-state drives, as far as they were
    /// known when the volume was created.
    pub costs: [Option<DriveCosts>; 2],
}

impl Opened {
    /// Returns the number of bytes stored on drives: records and the cells of all units, including
    /// copies and parities.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let records = self.geometry.ring * Geometry::RECORD_BYTES;
        let drives = self.census.drives.iter().filter(|drive| drive.is_present).count() as u64;
        let of =
            |(level, units): &(Level, u64)| units * level.roles(self.geometry.chunks.into()) as u64;
        drives * records
            + self.census.units.iter().map(of).sum::<u64>() * self.geometry.cell_bytes()
    }

    /// Returns the numbers of missing drives.
    pub fn missing(&self) -> Vec<u8> {
        let is_there =
            |number: &u8| self.census.drives.iter().any(|it| it.number == *number && it.is_present);
        self.census.members.iter().copied().filter(|number| !is_there(number)).collect()
    }

    /// Returns notes about unused paths and about labels, one sentence each. `named` contains the
    /// paths that the user gave.
    pub fn told(&self, named: &[PathBuf]) -> Vec<String> {
        let volume = self.geometry.volume;
        let other = |it: &NonMember| {
            format!(
                "{} is not used as a drive of volume {volume:016x}: it {}",
                it.path.display(),
                it.why
            )
        };
        let replace = self.replace_command(named).map(|command| {
            let numbers: Vec<String> = self.missing().iter().map(u8::to_string).collect();
            match &numbers[..] {
                [one] => format!("drive {one} is missing; to replace it: {command}"),
                many => {
                    format!("drives {} are missing; to replace them: {command}", many.join(", "))
                }
            }
        });
        let others = self.others.iter().map(other);
        others
            .chain(replace.filter(|_| !self.others.is_empty()))
            .chain(self.notes.iter().cloned())
            .collect()
    }

    /// Returns the command that replaces a missing drive. If a drive of the volume lost its label
    /// and does not appear to be used for anything else, the command replaces the missing drive by
    /// that drive. If several drives are missing, returns one command for each, joined by `&&`.
    pub fn replace_command(&self, named: &[PathBuf]) -> Option<String> {
        let missing = self.missing().len();
        let mut nobodys: Vec<&NonMember> = self.others.iter().filter(|it| it.is_nobodys).collect();
        nobodys.sort_by_key(|it| !it.has_records);
        let unknown = missing.saturating_sub(nobodys.len());
        let mut named: Vec<String> = named.iter().map(|path| quoted(path)).collect();
        let commands: Vec<String> = (0..missing)
            .map(|nth| {
                let volume = named.join(" ");
                let new = match nobodys.get(nth) {
                    // The drive contains data of the volume, which the other drives contain too, so
                    // it may be overwritten.
                    Some(own) if own.has_records => format!("{} --overwrite", quoted(&own.path)),
                    Some(blank) => quoted(&blank.path),
                    None => {
                        let new = match unknown {
                            1 => "NEW".to_string(),
                            _ => format!("NEW{}", nth + 1 - nobodys.len()),
                        };
                        named.push(new.clone());
                        new
                    }
                };
                format!("forebay volume replace {volume} --with {new}")
            })
            .collect();
        (!commands.is_empty()).then(|| commands.join(" && "))
    }

    /// Returns the number of bytes to rebuild if one drive is missing: a cell for each unit that
    /// lacks one.
    pub(crate) fn lacking_bytes(&self) -> u64 {
        self.census.degraded_units * self.geometry.cell_bytes()
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

/// The properties of the drives that an array needs.
#[derive(Clone, Debug)]
pub struct Shape {
    geometry: Geometry,
    first: Level,
    /// The numbers of the drives, by lane; 0 for lanes without a drive.
    numbers: Vec<u8>,
    cells: Vec<u32>,
    costs: [Option<DriveCosts>; 2],
}

impl Shape {
    /// Creates the array of these drives, which has yet to be opened. Drives that no record names
    /// do not join it.
    pub fn array(&self) -> Array {
        Array::found(self.geometry, self.first, &self.numbers)
            .with_cells(&self.cells)
            .with_costs(self.costs)
            .joined_by(&[])
    }

    /// Adds lanes without drives, as many as possible, for drives that join while the volume is in
    /// use.
    pub fn with_vacant_lanes(mut self) -> Shape {
        self.numbers.resize(usize::from(DRIVES_MAX).max(self.numbers.len()), 0);
        self.cells.resize(self.numbers.len(), 0);
        self
    }

    /// Removes drives that are no longer members.
    pub fn left(&mut self, members: &[u8]) {
        let has_left = |number: &&mut u8| !members.contains(number);
        self.numbers.iter_mut().filter(has_left).for_each(|number| *number = 0);
    }

    /// Adds a drive that a record names, on this lane.
    pub fn joined(&mut self, lane: usize, number: u8, cells: u32) {
        (self.numbers[lane], self.cells[lane]) = (number, cells);
    }
}

impl FoundVolume {
    /// Returns the properties to keep after the drives have been passed to a driver.
    pub fn shape(&self) -> Shape {
        let drives = self.drives.iter().zip(&self.labels);
        let cells = drives.map(|((_, target), it)| it.label.cells_in(target.capacity_bytes()));
        Shape {
            geometry: self.geometry,
            first: self.first,
            numbers: self.drives.iter().map(|(number, _)| *number).collect(),
            cells: cells.collect(),
            costs: self.costs(),
        }
    }

    /// Returns the costs of writes on the drives of each kind, as far as a label contains them.
    pub(crate) fn costs(&self) -> [Option<DriveCosts>; 2] {
        [0, 1].map(|kind| self.labels.iter().find_map(|it| it.label.costs[kind]))
    }

    /// Creates the array of these drives; those that no record names do not join it.
    pub fn array(&self) -> Array {
        self.shape().array()
    }

    /// Creates the array of these drives; those at `new` join it.
    pub(crate) fn array_joined_by(&self, new: &[Newcomer]) -> Array {
        let is_new = |target: &Target| new.iter().any(|it| it.path == target.path());
        let joining: Vec<bool> = self.drives.iter().map(|(_, target)| is_new(target)).collect();
        self.array().joined_by(&joining)
    }
}

/// Builds `array` over policies for its drives. `spec` is either a scheduler, of which each drive
/// gets its own, or `array` with the rule for changing levels.
///
/// # Errors
/// There is no such policy.
pub fn over(array: Array, spec: &str) -> Result<Policied, SpecError> {
    with_rules(spec, array, LEN_MAX)
}

/// An array over schedulers.
pub type Policied = Placed<Array, AnyPolicy>;

/// Returns the state of a volume without writing anything.
///
/// # Errors
/// The paths are not a volume.
pub fn status(paths: &[PathBuf]) -> Result<Opened, Error> {
    look(&drives_in(paths)?, Access::READ)
}

/// Returns the state of the volume of exactly these drives; writes nothing even if they are opened
/// for writing.
pub(crate) fn look(drives: &[PathBuf], access: Access) -> Result<Opened, Error> {
    let found = found(drives, access)?;
    opening(found.array().reading(), found, None, &mut untold)
}

/// Reads everything on a volume and repairs errors, at most `bytes_a_second` bytes of data per
/// second (0 means no limit), and reports progress. If the drives have no space even for records,
/// the volume is only read.
///
/// # Errors
/// The paths are not a volume.
pub fn check(paths: &[PathBuf], bytes_a_second: u64, tell: Tell<'_>) -> Result<Opened, Error> {
    let all = status(paths)?.stored_bytes();
    let found = find(paths, true)?;
    let notes = found.notes.clone();
    let checked = |array: Array| array.scrubbing().mending().caring_at(bytes_a_second);
    let array = checked(found.array());
    let opened = match opening(array, found, Some(all), tell) {
        Err(Error::Full(_)) => {
            let found = FoundVolume { notes, ..find(paths, false)? };
            let opened = opening(checked(found.array().reading()), found, Some(all), tell)?;
            return Ok(Opened { lacked_room: true, ..opened });
        }
        opened => opened?,
    };
    // Drives may have joined while the volume was used by another process.
    settle(&drives_in(paths)?, opened.geometry.volume, &opened.census.members)?;
    Ok(opened)
}

/// Opens `array` on its drives, does the maintenance that opening waits for, and returns the state
/// of the volume. Reports progress, with the total if it is known.
pub(crate) fn opening(
    array: Array,
    found: FoundVolume,
    all_bytes: Option<u64>,
    tell: Tell<'_>,
) -> Result<Opened, Error> {
    let (volume, too_few) = (found.geometry.volume, found.too_few.clone());
    let (mut opened, costs) = (Before::of(&found), found.costs());
    let targets: Vec<Target> = found.drives.into_iter().map(|(_, target)| target).collect();
    let mut policy = over(array, "noop").map_err(|error| Error::Volume(error.to_string()))?;
    let mut lanes = lanes(targets)?;
    let (mut once, told) = Once::of(Op::Open);
    let mut counting = Counting::new(all_bytes, tell);
    run(&mut policy, &mut *lanes, &mut once, &mut counting)?;
    if counting.is_stopped() {
        return Err(Error::Stopped);
    }
    let (census, figures) = (policy.placement().census(), policy.figures());
    let geometry = *policy.placement().geometry();
    let too_small = policy.placement().drive_limit().map(|limit| opened.lacking(&geometry, &limit));
    let members = census.members.iter();
    let irremovable =
        members.filter_map(|it| Some((*it, policy.placement().removal(*it).err()?))).collect();
    match *told.borrow() {
        Some(Ok(())) if census.is_open => {
            opened.leave_out(&census, found.others);
            let Before { others, joining, without_end_label, format, .. } = opened;
            let (notes, already) = (found.notes, Vec::new());
            Ok(Opened {
                geometry,
                census,
                figures,
                others,
                notes,
                already,
                joining,
                without_end_label,
                format,
                lacked_room: false,
                spare_drives: policy.placement().spare_room(),
                too_small: too_small.unwrap_or_default(),
                irremovable,
                costs,
            })
        }
        // The label says how many drives the volume was created with; it may have fewer now.
        Some(Err(Fault::Gone)) | None if too_few.is_some() => {
            Err(Error::Volume(too_few.unwrap_or_default()))
        }
        Some(Err(Fault::Gone)) | None => Err(Error::Volume(format!(
            "volume {volume:016x}: its records cannot be read from enough of its drives: more drives are missing, \
             wiped or replaced than its level tolerates; nothing was written"
        ))),
        Some(Err(Fault::Full)) => Err(Error::Full(format!(
            "volume {volume:016x}: it could not be opened: the file system below its drives is \
             full (ENOSPC), so there is no space for its records; free some space and try again"
        ))),
        Some(Err(fault)) => Err(Error::Volume(format!(
            "volume {volume:016x}: it could not be opened: {}",
            fault.reason()
        ))),
        Some(Ok(())) => Err(Error::Volume(format!(
            "volume {volume:016x}: it could not be opened: its drives failed while it was being \
             opened"
        ))),
    }
}

/// What is known about a volume's drives before the volume is opened.
struct Before {
    /// By number: the path, and whether the label says that the drive is joining.
    drives: Vec<(u8, PathBuf, bool)>,
    /// The numbers and lengths of the drives.
    lengths: Vec<(u8, u64)>,
    others: Vec<NonMember>,
    joining: Vec<u8>,
    without_end_label: Vec<u8>,
    format: u64,
}

impl Before {
    fn of(found: &FoundVolume) -> Before {
        let drives = found.drives.iter().zip(&found.labels);
        let without = drives
            .clone()
            .filter(|((_, target), it)| it.label.end_at(target.capacity_bytes()).is_none());
        let lengths =
            found.drives.iter().map(|(number, target)| (*number, target.capacity_bytes()));
        Before {
            lengths: lengths.collect(),
            without_end_label: without.map(|((number, _), _)| *number).collect(),
            format: found.labels.iter().map(|it| it.label.version).min().unwrap_or(0),
            drives: drives
                .map(|((number, target), it)| {
                    let joins = it.label.stage == DriveStage::Joining;
                    (*number, target.path().to_path_buf(), joins)
                })
                .collect(),
            others: Vec::new(),
            joining: Vec::new(),
        }
    }

    /// Returns the bytes that each of the drives limiting the volume lacks. The label at the end of
    /// the drive is included.
    fn lacking(&self, geometry: &Geometry, limit: &DriveLimit) -> Vec<(u8, u64)> {
        let needed = Geometry { cells: limit.cells, ..*geometry }.lane_bytes() + Label::BYTES;
        let is_limiting = |(number, _): &&(u8, u64)| limit.drives.contains(number);
        let lacks = |(number, bytes): &(u8, u64)| (*number, needed.saturating_sub(*bytes));
        self.lengths.iter().filter(is_limiting).map(lacks).collect()
    }

    /// After the volume has been opened, removes paths that are not its drives: `others`, drives
    /// whose numbers it does not contain, and drives that do not work.
    fn leave_out(&mut self, census: &Census, others: Vec<NonMember>) {
        self.others = others;
        for (number, path, joins) in std::mem::take(&mut self.drives) {
            let state = census.drives.iter().find(|it| it.number == number);
            let is_member = census.members.contains(&number);
            let why = match state.is_some_and(|it| it.is_present) {
                true => continue,
                false if is_member => "fails, or is shorter than before",
                false if joins => {
                    self.joining.push(number);
                    "is being added to it: run the interrupted `forebay volume replace` or `grow` \
                     again to continue"
                }
                // The label has already been reported.
                false => continue,
            };
            self.others.push(NonMember::new(&path, why));
        }
    }
}

/// Creates lanes with the best available driver; in tests of this crate, one whose writes may kill
/// the thread.
fn lanes(targets: Vec<Target>) -> Result<Box<dyn Lanes>, Error> {
    #[cfg(test)]
    return Ok(Box::new(crate::killing::Mortal::new(targets, DEPTH)?));
    #[cfg(not(test))]
    match forebay_live::Uring::new(targets, DEPTH) {
        Ok(uring) => Ok(Box::new(uring)),
        Err((_, targets)) => Ok(Box::new(forebay_live::Threads::new(targets, DEPTH)?)),
    }
}

/// Flushes everything written through `policy`, a volume on `lanes`, after a run on it has ended.
/// Requests that the run left unanswered continue meanwhile.
///
/// # Errors
/// A drive or the driver fails.
pub fn flush(policy: &mut (impl Policy + ?Sized), lanes: &mut impl Lanes) -> Result<(), Error> {
    let (mut once, told) = Once::of(Op::Flush);
    run(policy, lanes, &mut once, &mut ())?;
    let why = match *told.borrow() {
        Some(Ok(())) => return Ok(()),
        Some(Err(Fault::Full)) => "the file system below its drives is full (ENOSPC)",
        Some(Err(Fault::Media)) => "drives failed before all data was durable",
        Some(Err(Fault::Gone | Fault::Refused)) => "too few of its drives are working",
        None => "the drives did not answer",
    };
    let why = format!("the volume could not be flushed: {why}");
    Err(if *told.borrow() == Some(Err(Fault::Full)) {
        Error::Full(why)
    } else {
        Error::Volume(why)
    })
}

/// A workload of a single request without data.
struct Once {
    op: Op,
    is_asked: bool,
    told: Rc<RefCell<Option<Outcome>>>,
}

impl Once {
    /// An id that no other request has.
    const ID: u64 = 1 << 48;

    /// Creates the workload, and the place for its outcome.
    fn of(op: Op) -> (Once, Rc<RefCell<Option<Outcome>>>) {
        let told = Rc::new(RefCell::new(None));
        (Once { op, is_asked: false, told: Rc::clone(&told) }, told)
    }
}

impl Workload for Once {
    fn peek(&self) -> Option<Nanos> {
        (!self.is_asked).then_some(Nanos::ZERO)
    }
    fn take(&mut self) -> Request {
        self.is_asked = true;
        Request {
            at: Nanos::ZERO,
            offset: 0,
            id: Once::ID,
            len: 0,
            stream: 0,
            lane: 0,
            op: self.op,
            flags: Flags::NONE,
        }
    }
    fn finished(&mut self, _now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        if done.request.id == Once::ID {
            *self.told.borrow_mut() = Some(done.outcome);
        }
    }
    fn is_over(&self) -> bool {
        self.is_asked && self.told.borrow().is_some()
    }
    /// A failed operation is not awaited, because drives without space would be retried forever.
    fn is_stopped(&self) -> bool {
        self.told.borrow().is_some_and(|outcome| outcome.is_err())
    }
}
