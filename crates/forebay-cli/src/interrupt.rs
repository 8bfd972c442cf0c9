//! Work that an interruption only shortens: it ends cleanly, with the results so far.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay::verb::SecondInterruption;

static RUNNING: AtomicBool = AtomicBool::new(false);
static PATIENT: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);
static LISTENS: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);

/// Does `work`, which ends soon after its argument is set.
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

/// Ends such work early; answers whether there is any that this may be left to.
pub(crate) fn stop_early() -> bool {
    let second = STOP.swap(true, Ordering::Relaxed);
    RUNNING.load(Ordering::Relaxed) && (!second || PATIENT.load(Ordering::Relaxed))
}

/// Whether SIGHUP came since this was last asked. From the first time on it ends nothing.
pub(crate) fn hung_up() -> bool {
    LISTENS.store(true, Ordering::Relaxed);
    HUNG_UP.swap(false, Ordering::Relaxed)
}

/// SIGHUP came; answers whether there is work that asks for it.
pub(crate) fn hang_up() -> bool {
    HUNG_UP.store(true, Ordering::Relaxed);
    LISTENS.load(Ordering::Relaxed)
}
