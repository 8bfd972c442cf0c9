//! The times at which Linux's `blk-throttle` (a cgroup's `io.max`) releases requests.
//!
//! Each direction has a window of whole slices of time. Each slice adds its tokens to the window
//! when it begins, and a request passes if the window's tokens cover it. After two slices without a
//! request, the window is discarded, and the next request opens a new one with the tokens of one
//! slice. A window in use drops its oldest slices together with their tokens, except for the last
//! one before the current slice. So at most one slice of unused tokens remains.
//!
//! Source: Linux 6.6 to 6.18, `block/blk-throttle.c`. Here time is continuous; the kernel counts
//! ticks, so it releases requests up to a tick later.

use super::releases::{Cost, side_of};
use super::throttle::{Measure, Throttle};

/// The tokens of a bucket that were spent in the current window.
#[derive(Clone, Copy, Debug)]
struct Spent {
    bucket: usize,
    /// The tokens that a slice adds: exact for whole rates and slices of 100 ms, so that no
    /// rounding moves a request to the next slice.
    per_slice: f64,
    tokens: f64,
}

/// The window of one direction.
#[derive(Clone, Debug)]
struct Window {
    start_ns: f64,
    /// When the window is discarded unless a request arrives earlier.
    end_ns: f64,
    last_ns: f64,
    ops: Vec<Spent>,
    bytes: Vec<Spent>,
}

/// The windows of both directions.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    slice_ns: f64,
    windows: [Window; 2],
}

impl Slices {
    /// Creates empty windows for the buckets of `throttle`, each of which must limit one direction.
    pub(super) fn new(throttle: &Throttle, slice_ns: f64) -> Slices {
        let spent = |side: usize, measure: Measure| {
            let buckets = throttle.buckets.iter().enumerate();
            let own = buckets.filter(|(_, one)| side_of(one.direction) == Some(side));
            let own = own.filter(|(_, one)| one.measure == measure);
            let spent = |(bucket, one): (usize, &super::Bucket)| {
                let per_slice = one.rate_per_s * slice_ns / 1e9;
                Spent { bucket, per_slice, tokens: 0.0 }
            };
            own.map(spent).collect()
        };
        let window = |side| Window {
            start_ns: 0.0,
            end_ns: f64::NEG_INFINITY,
            last_ns: 0.0,
            ops: spent(side, Measure::Ops),
            bytes: spent(side, Measure::Bytes),
        };
        Slices { slice_ns, windows: [window(0), window(1)] }
    }

    /// Returns the release time of a request of `side` that arrives at `at_ns`, and charges it.
    pub(super) fn pass(&mut self, side: usize, at_ns: f64, cost: Cost) -> f64 {
        let slice_ns = self.slice_ns;
        let window = &mut self.windows[side];
        if cost == Cost::default() {
            window.last_ns = at_ns.max(window.last_ns);
            return window.last_ns;
        }
        if at_ns > window.end_ns && at_ns >= window.last_ns {
            window.open(at_ns);
        }
        let release_ns = window.release(at_ns, cost, slice_ns).0;
        window.last_ns = release_ns;
        window.ops.iter_mut().for_each(|spent| spent.tokens += cost.ops);
        window.bytes.iter_mut().for_each(|spent| spent.tokens += cost.bytes);
        window.drop_slices(slice_ns);
        release_ns
    }

    /// Returns the bucket that would delay the smallest request of `side` arriving at `at_ns` the
    /// most, or None if none would.
    pub(super) fn decides(&self, side: usize, at_ns: f64) -> Option<usize> {
        let window = &self.windows[side];
        if at_ns > window.end_ns && at_ns >= window.last_ns {
            return None;
        }
        window.release(at_ns, Cost { ops: 1.0, bytes: 1.0 }, self.slice_ns).1
    }
}

impl Window {
    fn open(&mut self, at_ns: f64) {
        self.start_ns = at_ns;
        self.ops.iter_mut().chain(&mut self.bytes).for_each(|spent| spent.tokens = 0.0);
    }

    /// Returns the release time of a request that arrives at `at_ns`, and the last bucket that it
    /// waits for.
    fn release(&self, at_ns: f64, cost: Cost, slice_ns: f64) -> (f64, Option<usize>) {
        let (mut now_ns, mut decides) = (at_ns.max(self.last_ns), None);
        for spent in &self.bytes {
            // A slice that begins exactly now does not count yet, unless it is the first.
            let begun = ((now_ns - self.start_ns) / slice_ns).ceil().max(1.0);
            let excess = spent.tokens + cost.bytes - begun * spent.per_slice;
            if excess > 0.0 {
                now_ns = self.start_ns + (begun + excess / spent.per_slice) * slice_ns;
                decides = Some(spent.bucket);
            }
        }
        for spent in &self.ops {
            let begun = ((now_ns - self.start_ns) / slice_ns).floor() + 1.0;
            let needed = ((spent.tokens + cost.ops) / spent.per_slice).ceil();
            if needed > begun {
                now_ns = self.start_ns + (needed - 1.0) * slice_ns;
                decides = Some(spent.bucket);
            }
        }
        (now_ns, decides)
    }

    /// Drops all slices except the current one and the one before it, and extends the window's
    /// life.
    fn drop_slices(&mut self, slice_ns: f64) {
        self.end_ns = ((self.last_ns + slice_ns) / slice_ns).ceil() * slice_ns;
        let before = ((self.last_ns - self.start_ns) / slice_ns).floor() - 1.0;
        if before < 1.0 {
            return;
        }
        self.start_ns += before * slice_ns;
        for spent in self.ops.iter_mut().chain(&mut self.bytes) {
            let added = (before * spent.per_slice).floor();
            spent.tokens = (spent.tokens - added).max(0.0);
        }
    }
}
