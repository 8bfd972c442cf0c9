//! Work that an interruption only shortens: it ends cleanly, with the results so far.

use std::sync::atomic::{AtomicBool, Ordering};

static RUNNING: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);

/// Does `work`, which ends soon after its argument is set.
pub(crate) fn shortens<T>(work: impl FnOnce(&'static AtomicBool) -> T) -> T {
    RUNNING.store(true, Ordering::Relaxed);
    let done = work(&STOP);
    RUNNING.store(false, Ordering::Relaxed);
    done
}

/// Ends such work early; answers whether there was any.
pub(crate) fn stop_early() -> bool {
    STOP.store(true, Ordering::Relaxed);
    RUNNING.load(Ordering::Relaxed)
}
