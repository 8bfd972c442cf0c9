//! Opening a volume: to look at it, to mend it, to give it another drive.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_core::Slots;
use forebay_core::catalog::build;
use forebay_core::contract::policy::{AnyPolicy, Done, Figure};
use forebay_core::stack::array::{Array, Census, Geometry, Label};
use forebay_core::stack::placed::Placed;
use forebay_core::{Fault, Flags, Nanos, Op, Outcome, Policy, Request, SpecError, Workload};
use forebay_live::{LEN_MAX, Lanes, Target, Threads, Uring, checksum, run};

use crate::error::Error;
use crate::find::{Found, find, opened};

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

impl Found {
    /// The array that these drives are.
    pub fn array(&self) -> Array {
        let numbers: Vec<u8> = self.drives.iter().map(|(number, _)| *number).collect();
        Array::found(self.geometry, self.first, &numbers)
    }
}

/// `array` over its drives, each under its own `scheduler`.
///
/// # Errors
/// Where there is no such scheduler.
pub fn over(array: Array, drives: usize, scheduler: &str) -> Result<Policied, SpecError> {
    let lanes = (0..drives).map(|_| build(scheduler, LEN_MAX)).collect::<Result<_, _>>()?;
    Ok(Placed::over(array, lanes))
}

/// An array over schedulers.
pub type Policied = Placed<Array, AnyPolicy>;

/// Looks at a volume and writes nothing.
///
/// # Errors
/// Where it is none.
pub fn status(paths: &[PathBuf]) -> Result<Opened, Error> {
    let found = find(paths, false)?;
    opening(found.array().reading(), found)
}

/// Reads all there is of a volume, and mends what is wrong, at most so many bytes of data a second; 0 is
/// no limit.
///
/// # Errors
/// Where it is none.
pub fn check(paths: &[PathBuf], bytes_a_second: u64) -> Result<Opened, Error> {
    let found = find(paths, true)?;
    opening(found.array().scrubbing().mending().caring_at(bytes_a_second), found)
}

/// Has the drive at `new` take the place of a missing one, and makes anew what that held.
///
/// # Errors
/// Where it is none, no drive is missing, or the new one is too small.
pub fn replace(paths: &[PathBuf], new: &Path, overwrite: bool) -> Result<Opened, Error> {
    let before = status(paths)?;
    let members = &before.census.members;
    let present: Vec<u8> = before.census.drives.iter().map(|drive| drive.number).collect();
    if members.iter().all(|number| present.contains(number)) {
        return Err(Error::Volume(
            "got all drives of the volume, expected one to be missing".into(),
        ));
    }
    crate::create::refuse_used(new, overwrite)?;
    let mut found = find(paths, true)?;
    let target = opened(new, found.geometry.lane_bytes(), true)?;
    let Some(drive) =
        members.iter().max().map(|highest| highest.saturating_add(1)).filter(|next| *next < 255)
    else {
        return Err(Error::Volume("got a volume whose drives were replaced 250 times".into()));
    };
    write_label(new, Label { geometry: found.geometry, drive, first: found.first })?;
    found.drives.push((drive, target));
    opening(found.array().mending(), found)
}

fn write_label(path: &Path, label: Label) -> Result<(), Error> {
    use std::os::unix::fs::FileExt;
    let mut bytes = label.encode();
    let sum = checksum(&bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    let wrong = |error: std::io::Error| Error::drive(path, error.to_string());
    let file = std::fs::File::options().write(true).open(path).map_err(wrong)?;
    (0..2).try_for_each(|at| file.write_all_at(&bytes, at * bytes.len() as u64)).map_err(wrong)?;
    file.sync_all().map_err(wrong)
}

/// Opens `array` on its drives, and nothing else.
pub(crate) fn opening(array: Array, found: Found) -> Result<Opened, Error> {
    let geometry = *array.geometry();
    let count = found.drives.len();
    let targets: Vec<Target> = found.drives.into_iter().map(|(_, target)| target).collect();
    let mut policy =
        over(array, count, "noop").map_err(|error| Error::Volume(error.to_string()))?;
    let mut lanes = lanes(targets)?;
    let told = Rc::new(RefCell::new(None));
    let mut once = Once { is_asked: false, told: Rc::clone(&told) };
    run(&mut policy, &mut *lanes, &mut once, &mut ())?;
    let (census, figures) = (policy.placement().census(), policy.figures());
    match *told.borrow() {
        Some(Ok(())) if census.is_open => Ok(Opened { geometry, census, figures }),
        Some(Err(Fault::Gone)) | None => Err(Error::Volume(format!(
            "volume {:016x}: got no records that go together from enough of its drives; more are missing, \
             wiped or replaced than its level makes up for; nothing was written",
            geometry.volume
        ))),
        outcome => Err(Error::Volume(format!(
            "volume {:016x}: it could not be opened: {outcome:?}",
            geometry.volume
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

/// A single request: to open.
struct Once {
    is_asked: bool,
    told: Rc<RefCell<Option<Outcome>>>,
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
            id: 0,
            len: 0,
            stream: 0,
            lane: 0,
            op: Op::Open,
            flags: Flags::NONE,
        }
    }
    fn finished(&mut self, _now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        *self.told.borrow_mut() = Some(done.outcome);
    }
    fn is_over(&self) -> bool {
        self.is_asked && self.told.borrow().is_some()
    }
}
