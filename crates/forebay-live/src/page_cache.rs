//! Writes that the page cache accepts without blocking.
//!
//! ext4 and other file systems do not support nonblocking buffered writes, so io_uring passes each
//! of them to a worker thread, and two context switches cost more than the copy. The driver
//! therefore performs such a write itself if it is unlikely to block: only whole pages, because
//! part of a page may have to be read first, and only while much less memory is dirty than the
//! amount at which the kernel begins writeback, let alone throttles writers.
//!
//! Invariant: if such a write nevertheless took long, for example because of the journal or a limit
//! of this process, the writes of the next second are passed to the kernel's threads.

use forebay_core::{Flags, Nanos, Op, Request};

/// The page size of the page cache, or a multiple of it.
const PAGE_BYTES: u64 = 4096;
/// How long an observation is valid.
const SEEN: Nanos = Nanos::from_millis(100);
/// A write that took longer than this has blocked.
const LONG: Nanos = Nanos::from_millis(1);
/// Longer writes are copied by the kernel's threads, several at a time, unless there is only one.
const SHORT_BYTES: u32 = 64 << 10;
/// How long the driver performs no such writes after one has blocked.
const REST: Nanos = Nanos::from_millis(1000);

/// The amount that may currently be written without blocking.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    left_bytes: u64,
    until: Nanos,
}

impl PageCache {
    /// Returns whether the driver performs this write itself. `alone` says that no other I/O is in
    /// flight; `seen` reads `/proc/vmstat`.
    #[inline]
    pub(crate) fn takes(
        &mut self,
        now: Nanos,
        io: &Request,
        alone: bool,
        seen: impl FnOnce() -> String,
    ) -> bool {
        let is_whole =
            io.offset.is_multiple_of(PAGE_BYTES) && u64::from(io.len).is_multiple_of(PAGE_BYTES);
        let is_fit = is_whole && (alone || io.len <= SHORT_BYTES);
        if io.op != Op::Write || io.flags.has(Flags::FUA) || !is_fit {
            return false;
        }
        if now >= self.until {
            (self.left_bytes, self.until) = (room_bytes(&seen()), now + SEEN);
        }
        let left = self.left_bytes.checked_sub(u64::from(io.len));
        left.map(|left| self.left_bytes = left).is_some()
    }

    /// Registers that such a write lasted from `begun` to `ended`.
    #[inline]
    pub(crate) fn took(&mut self, begun: Nanos, ended: Nanos) {
        if ended - begun > LONG {
            (self.left_bytes, self.until) = (0, ended + REST);
        }
    }
}

/// Returns the content of `/proc/vmstat`.
pub(crate) fn vmstat() -> String {
    std::fs::read_to_string("/proc/vmstat").unwrap_or_default()
}

/// Returns a quarter of the amount that may still become dirty before the kernel begins writeback,
/// or 0 if the kernel does not report it.
fn room_bytes(vmstat: &str) -> u64 {
    let pages = |name: &str| -> Option<u64> {
        let line = vmstat.lines().find(|line| line.split(' ').next() == Some(name))?;
        line.split(' ').nth(1)?.parse().ok()
    };
    let left = || {
        let begins = pages("nr_dirty_background_threshold")?;
        begins.checked_sub(pages("nr_dirty")? + pages("nr_writeback")?)
    };
    left().map_or(0, |pages| pages / 4 * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMSTAT: &str = "nr_dirty 1000\nnr_writeback 100\nnr_dirty_threshold 9000\n\
                          nr_dirty_background_threshold 1500\n";

    fn write(offset: u64, len: u32, flags: Flags) -> Request {
        let (at, id, stream, lane, op) = (Nanos::ZERO, 0, 0, 0, Op::Write);
        Request { at, offset, id, len, stream, lane, op, flags }
    }

    #[test]
    fn the_driver_writes_whole_pages_while_little_is_dirty() {
        assert_eq!(room_bytes(VMSTAT), 100 * 4096);
        assert_eq!(room_bytes(&VMSTAT.replace("nr_dirty 1000", "nr_dirty 1450")), 0);
        assert_eq!(room_bytes("nr_dirty 1\n"), 0, "an old kernel does not say");
        let mut cache = PageCache::default();
        let ms = Nanos::from_millis;
        let whole = write(8192, 4096 * 60, Flags::NONE);
        let mut takes = |at, io: &Request| cache.takes(ms(at), io, true, || VMSTAT.into());
        assert!(
            !takes(1, &write(8192, 512, Flags::NONE)) && !takes(1, &write(512, 4096, Flags::NONE))
        );
        assert!(!takes(1, &write(0, 4096, Flags::FUA)));
        assert!(!takes(1, &Request { op: Op::Read, ..whole }));
        assert_eq!([2, 3, 102].map(|at| takes(at, &whole)), [true, false, true]);
    }

    #[test]
    fn several_long_writes_run_at_a_time() {
        let takes = |len, alone| {
            let io = write(0, len, Flags::NONE);
            PageCache::default().takes(Nanos::ZERO, &io, alone, || VMSTAT.into())
        };
        assert!(takes(64 << 10, false) && takes(128 << 10, true) && !takes(128 << 10, false));
    }

    #[test]
    fn after_a_blocked_write_none_starts_for_a_second() {
        let mut cache = PageCache::default();
        let ms = Nanos::from_millis;
        let takes = |cache: &mut PageCache, at| {
            cache.takes(ms(at), &write(0, 4096, Flags::NONE), true, || VMSTAT.into())
        };
        assert!(takes(&mut cache, 1));
        cache.took(ms(1), ms(2));
        assert!(takes(&mut cache, 2), "a millisecond is no wait");
        cache.took(ms(2), ms(4));
        assert_eq!([5, 1003, 1004].map(|at| takes(&mut cache, at)), [false, false, true]);
    }
}
