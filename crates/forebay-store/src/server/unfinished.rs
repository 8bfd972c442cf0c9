//! What clients have begun to send and not finished: bounded for each by the longest command, and here in all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of unfinished commands of all clients.
#[derive(Default)]
pub(super) struct Unfinished(AtomicUsize);

/// A client's part of them.
pub(super) struct Part {
    all: Arc<Unfinished>,
    bytes: usize,
    most: usize,
}

impl Part {
    /// None yet, of at most `most` in all.
    pub(super) fn new(all: &Arc<Unfinished>, most: usize) -> Part {
        Part { all: Arc::clone(all), bytes: 0, most }
    }

    /// The client has sent so many bytes of a command; false, where all clients have sent too much and this one is
    /// to go.
    pub(super) fn holds(&mut self, bytes: usize) -> bool {
        let before = std::mem::replace(&mut self.bytes, bytes);
        let all = &self.all.0;
        if bytes <= before {
            all.fetch_sub(before - bytes, Ordering::SeqCst);
            return true;
        }
        all.fetch_add(bytes - before, Ordering::SeqCst) + (bytes - before) <= self.most
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_makes_it_too_much_is_to_go() {
        let all = Arc::default();
        let (mut one, mut other) = (Part::new(&all, 100), Part::new(&all, 100));
        assert!(one.holds(60) && other.holds(40) && !other.holds(41));
        drop(other);
        assert!(one.holds(100) && one.holds(0));
        let mut third = Part::new(&all, 100);
        assert!(third.holds(100) && !one.holds(1));
    }
}
