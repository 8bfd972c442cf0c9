//! Handles interruptions: some work can end early and return its results so far.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay::verb::SecondInterruption;

static RUNNING: AtomicBool = AtomicBool::new(false);
static PATIENT: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);
static LISTENS: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);

/// Runs `work`, which must end soon after the flag passed to it is set.
pub(crate) fn shortens<T>(
    second: SecondInterruption,
    work: impl FnOnce(&'static AtomicBool) -> T,
) -> T {
    PATIENT.store(second == SecondInterruption::Waits, Ordering::Relaxed);
    RUNNING.store(true, Ordering::Relaxed);
    let done = work(&STOP);
    RUNNING.store(false, Ordering::Relaxed);
    done
}

/// Asks running work to end early. Returns false if there is no such work, or if it was asked
/// before and should be killed now.
pub(crate) fn stop_early() -> bool {
    let second = STOP.swap(true, Ordering::Relaxed);
    RUNNING.load(Ordering::Relaxed) && (!second || PATIENT.load(Ordering::Relaxed))
}

/// Returns whether SIGHUP arrived since the last call. From the first call on, SIGHUP no longer
/// ends the process.
pub(crate) fn hung_up() -> bool {
    LISTENS.store(true, Ordering::Relaxed);
    HUNG_UP.swap(false, Ordering::Relaxed)
}

/// Records a SIGHUP. Returns false if no work checks for it.
pub(crate) fn hang_up() -> bool {
    HUNG_UP.store(true, Ordering::Relaxed);
    LISTENS.load(Ordering::Relaxed)
}
