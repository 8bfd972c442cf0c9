//! Opening a volume: to look at it, to mend it; and making durable what was written to one.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use forebay_core::Slots;
use forebay_core::catalog::with_rules;
use forebay_core::contract::policy::{AnyPolicy, Done, Figure};
use forebay_core::stack::array::{Array, Census, Geometry, Level};
use forebay_core::stack::placed::Placed;
use forebay_core::{Fault, Flags, Nanos, Op, Outcome, Policy, Request, SpecError, Workload};
use forebay_live::{LEN_MAX, Lanes, Target, Threads, Uring, run};

use crate::error::Error;
use crate::find::{Found, find};
use crate::moved::{Counting, Tell};

/// I/Os that a drive is given at a time.
const DEPTH: u32 = 64;

/// What an opening found, and did.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The volume's sizes.
    pub geometry: Geometry,
    /// What it is like.
    pub census: Census,
    /// What was counted on the way.
    pub figures: Vec<Figure>,
}

impl Opened {
    /// Bytes that it takes on drives: records, and the cells of all units, copies and parities among them.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let records = self.geometry.ring * Geometry::RECORD_BYTES;
        let drives = self.census.drives.iter().filter(|drive| drive.is_present).count() as u64;
        let of =
            |(level, units): &(Level, u64)| units * level.roles(self.geometry.chunks.into()) as u64;
        drives * records
            + self.census.units.iter().map(of).sum::<u64>() * self.geometry.cell_bytes()
    }

    /// Bytes that have to be made anew, where one drive is missing: a cell of each unit that lacks one.
    pub(crate) fn lacking_bytes(&self) -> u64 {
        self.census.degraded_units * self.geometry.cell_bytes()
    }
}

/// What an array has to know of the drives that were found.
#[derive(Clone, Debug)]
pub struct Shape {
    geometry: Geometry,
    first: Level,
    /// By lane.
    numbers: Vec<u8>,
    cells: Vec<u32>,
}

impl Shape {
    /// The array that these drives are, to be opened.
    pub fn array(&self) -> Array {
        Array::found(self.geometry, self.first, &self.numbers).with_cells(&self.cells)
    }
}

impl Found {
    /// What is to be known of them once drives are handed to a driver.
    pub fn shape(&self) -> Shape {
        let cells = |target: &Target| self.geometry.cells_in(target.capacity_bytes());
        Shape {
            geometry: self.geometry,
            first: self.first,
            numbers: self.drives.iter().map(|(number, _)| *number).collect(),
            cells: self.drives.iter().map(|(_, target)| cells(target)).collect(),
        }
    }

    /// The array that these drives are.
    pub fn array(&self) -> Array {
        self.shape().array()
    }
}

/// `array` over its drives: `spec` is the name of a scheduler, of which each drive has its own, or `array`
/// with how it follows its workload.
///
/// # Errors
/// Where there is no such policy.
pub fn over(array: Array, spec: &str) -> Result<Policied, SpecError> {
    with_rules(spec, array, LEN_MAX)
}

/// An array over schedulers.
pub type Policied = Placed<Array, AnyPolicy>;

/// Looks at a volume and writes nothing.
///
/// # Errors
/// Where it is none.
pub fn status(paths: &[PathBuf]) -> Result<Opened, Error> {
    let found = find(paths, false)?;
    opening(found.array().reading(), found, None, &mut |_| ())
}

/// Reads all there is of a volume, and mends what is wrong, at most so many bytes of data a second; 0 is
/// no limit; tells what is moved.
///
/// # Errors
/// Where it is none.
pub fn check(paths: &[PathBuf], bytes_a_second: u64, tell: Tell<'_>) -> Result<Opened, Error> {
    let all = status(paths)?.stored_bytes();
    let found = find(paths, true)?;
    let array = found.array().scrubbing().mending().caring_at(bytes_a_second);
    opening(array, found, Some(all), tell)
}

/// Opens `array` on its drives, and nothing else; tells what is moved, of so many bytes if that is known.
pub(crate) fn opening(
    array: Array,
    found: Found,
    all_bytes: Option<u64>,
    tell: Tell<'_>,
) -> Result<Opened, Error> {
    let volume = found.geometry.volume;
    let targets: Vec<Target> = found.drives.into_iter().map(|(_, target)| target).collect();
    let mut policy = over(array, "noop").map_err(|error| Error::Volume(error.to_string()))?;
    let mut lanes = lanes(targets)?;
    let (mut once, told) = Once::of(Op::Open);
    run(&mut policy, &mut *lanes, &mut once, &mut Counting::new(all_bytes, tell))?;
    let (census, figures) = (policy.placement().census(), policy.figures());
    let geometry = *policy.placement().geometry();
    match *told.borrow() {
        Some(Ok(())) if census.is_open => Ok(Opened { geometry, census, figures }),
        Some(Err(Fault::Gone)) | None => Err(Error::Volume(format!(
            "volume {:016x}: got no records that go together from enough of its drives; more are missing, \
             wiped or replaced than its level makes up for; nothing was written",
            volume
        ))),
        Some(Err(Fault::Full)) => Err(Error::Full(format!(
            "volume {volume:016x}: it could not be opened: there is no room for its records; make room \
             where its drives are files, and try again"
        ))),
        outcome => Err(Error::Volume(format!(
            "volume {:016x}: it could not be opened: {outcome:?}",
            volume
        ))),
    }
}

/// The best driver there is.
fn lanes(targets: Vec<Target>) -> Result<Box<dyn Lanes>, Error> {
    match Uring::new(targets, DEPTH) {
        Ok(uring) => Ok(Box::new(uring)),
        Err((_, targets)) => Ok(Box::new(Threads::new(targets, DEPTH)?)),
    }
}

/// Makes durable what was written through `policy`, a volume on `lanes`, once a run has ended there: what that left
/// unanswered goes on beside it.
///
/// # Errors
/// Where a drive, or the driver, fails.
pub fn flush(policy: &mut (impl Policy + ?Sized), lanes: &mut impl Lanes) -> Result<(), Error> {
    let (mut once, told) = Once::of(Op::Flush);
    run(policy, lanes, &mut once, &mut ())?;
    let why = match *told.borrow() {
        Some(Ok(())) => return Ok(()),
        Some(Err(fault)) => fault.name(),
        None => "no answer",
    };
    Err(Error::Volume(format!("the volume could not be flushed: {why}")))
}

/// A single request, which moves no data.
struct Once {
    op: Op,
    is_asked: bool,
    told: Rc<RefCell<Option<Outcome>>>,
}

impl Once {
    /// No other request has its number.
    const ID: u64 = 1 << 48;

    /// With what it will be answered.
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
}
