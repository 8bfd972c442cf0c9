//! RTT at several rates in one pass over a trace.
//!
//! The state of a server is its backlog: the admitted but unfinished work, in units of `1 / rate`
//! nanoseconds. A gap of `g` between arrivals reduces it by `g * rate`. It never exceeds `bound *
//! rate`, so a gap longer than the bound counts as the bound.
//!
//! Servers are independent, so processing several of them together hides the latency of each step.
//! Values are whole numbers in `f64`, because every processor has vector instructions to multiply,
//! compare and select `f64` values without branches, but not 64-bit integers. Nothing is rounded:
//! every product, sum and difference is a whole number below 2^53. If the product of bound and rate
//! exceeds that, the rate is counted on its own in 128-bit integers; tests compare both
//! implementations.

use std::iter::Peekable;

use super::{RATE_MAX_IOPS, Rtt, SERVICE};
use crate::contract::Nanos;

/// The maximum number of servers that are counted in one pass.
pub const LANES_MAX: usize = 16;

/// The largest backlog that is still exact after adding one service.
const EXACT_MAX: u64 = 1 << 52;

const _: () = assert!(EXACT_MAX + SERVICE < 1 << f64::MANTISSA_DIGITS);

/// Marks a gap that is too long for 32 bits and is stored separately.
const FAR: u32 = u32::MAX;

/// Arrival times, stored as the gaps between them in four bytes per request.
///
/// A gap of 2^32 - 1 ns or more takes an additional sixteen bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    gaps: Vec<u32>,
    far: Vec<(usize, u64)>,
    first: Nanos,
    last: Nanos,
}

/// Consecutive requests: the first after a gap of any length, the others after short gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The gap before the first request, in nanoseconds.
    pub gap_ns: u64,
    /// The gap before each of the other requests, in nanoseconds.
    pub gaps_ns: &'a [u32],
}

impl Gaps {
    /// Adds a request. Times must not decrease; an earlier time counts as the latest one so far.
    #[inline]
    pub fn push(&mut self, at: Nanos) {
        if self.gaps.is_empty() {
            (self.first, self.last) = (at, at);
        }
        let gap = at.0.saturating_sub(self.last.0);
        if gap >= u64::from(FAR) || self.gaps.is_empty() {
            self.far.push((self.gaps.len(), gap));
            self.gaps.push(FAR);
        } else {
            self.gaps.push(gap as u32);
        }
        self.last = self.last.max(at);
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.gaps.len()
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Returns the arrival time of the first request.
    pub fn first(&self) -> Nanos {
        self.first
    }

    /// Returns the arrival time of the last request.
    pub fn last(&self) -> Nanos {
        self.last
    }

    /// Returns the requests in segments; the gap before the very first request is 0.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.far.iter().enumerate().map(|(index, &(from, gap_ns))| {
            let to = self.far.get(index + 1).map_or(self.gaps.len(), |next| next.0);
            Segment { gap_ns, gaps_ns: &self.gaps[from + 1..to] }
        })
    }

    /// Returns one of every `by` stretches of 512 requests, from the whole trace, with gaps of a
    /// day between stretches. Counting these requests gives an estimate for the whole trace with a
    /// fraction of the work.
    pub fn thinned(&self, by: usize) -> Gaps {
        const STRETCH: usize = 512;
        const APART: u64 = 86_400_000_000_000;
        let (mut thin, mut now, mut index) = (Gaps::default(), 0u64, 0usize);
        for segment in self.segments() {
            let gaps = std::iter::once(segment.gap_ns).chain(segment.gaps_ns.iter().map(widen));
            for gap in gaps {
                if (index / STRETCH).is_multiple_of(by) {
                    let gap = if index.is_multiple_of(STRETCH) { APART } else { gap };
                    now = now.saturating_add(gap);
                    thin.push(Nanos(now));
                }
                index += 1;
            }
        }
        thin
    }

    /// Returns all arrival times in order.
    pub fn times(&self) -> impl Iterator<Item = Nanos> {
        let mut now = self.first.0;
        self.segments()
            .flat_map(|s| std::iter::once(s.gap_ns).chain(s.gaps_ns.iter().map(widen)))
            .map(move |gap| {
                now += gap;
                Nanos(now)
            })
    }
}

fn widen(gap: &u32) -> u64 {
    u64::from(*gap)
}

impl FromIterator<Nanos> for Gaps {
    fn from_iter<I: IntoIterator<Item = Nanos>>(times: I) -> Gaps {
        let mut gaps = Gaps::default();
        times.into_iter().for_each(|at| gaps.push(at));
        gaps
    }
}

/// Returns how many requests RTT admits at each of `rates_iops` with the bound `within`, in one
/// pass per [`LANES_MAX`] rates. A rate of 0 admits no requests; a rate above [`RATE_MAX_IOPS`] is
/// reduced to it.
pub fn admitted(gaps: &Gaps, within: Nanos, rates_iops: &[u64]) -> Vec<u64> {
    let whole = admitted_by_part(gaps, within, rates_iops, &[gaps.len()]);
    whole.into_iter().map(|parts| parts[0]).collect()
}

/// Does the same as [`admitted`], but counts each part of the trace separately. Part `p` ends
/// before request number `ends[p]`, where the next part begins. Ends must not decrease. A server
/// keeps its backlog from one part to the next.
pub fn admitted_by_part(
    gaps: &Gaps,
    within: Nanos,
    rates_iops: &[u64],
    ends: &[usize],
) -> Vec<Vec<u64>> {
    let pass = |rates: &[u64]| match rates.len() {
        0..=4 => pass::<4>(gaps, within, rates, ends),
        5..=8 => pass::<8>(gaps, within, rates, ends),
        9..=12 => pass::<12>(gaps, within, rates, ends),
        _ => pass::<LANES_MAX>(gaps, within, rates, ends),
    };
    rates_iops.chunks(LANES_MAX).flat_map(pass).collect()
}

fn pass<const LANES: usize>(
    gaps: &Gaps,
    within: Nanos,
    rates_iops: &[u64],
    ends: &[usize],
) -> Vec<Vec<u64>> {
    let most = rates_iops.iter().copied().max().unwrap_or(0).min(RATE_MAX_IOPS);
    if within.0.checked_mul(most).is_none_or(|units| units > EXACT_MAX) {
        return rates_iops.iter().map(|rate| one(gaps, within, *rate, ends)).collect();
    }
    let mut lanes = Rates::<LANES>::new(within.0, rates_iops);
    let mut parts = vec![Vec::with_capacity(ends.len()); rates_iops.len()];
    let (mut ends, mut at) = (ends.iter().copied().peekable(), 0);
    for segment in gaps.segments() {
        lanes.end_parts(&mut ends, at, &mut parts);
        lanes.step(segment.gap_ns);
        at += 1;
        let mut left = segment.gaps_ns;
        while let Some(&end) = ends.peek().filter(|end| **end < at + left.len()) {
            let (now, later) = left.split_at(end.saturating_sub(at));
            lanes.run(now);
            (left, at) = (later, at + now.len());
            lanes.end_parts(&mut ends, at, &mut parts);
        }
        lanes.run(left);
        at += left.len();
    }
    lanes.end_parts(&mut ends, usize::MAX, &mut parts);
    parts
}

/// Returns the counts at one rate, even if rate and bound exceed what `f64` can represent exactly.
fn one(gaps: &Gaps, within: Nanos, rate_iops: u64, ends: &[usize]) -> Vec<u64> {
    let Ok(mut rtt) = Rtt::new(rate_iops.min(RATE_MAX_IOPS), within) else {
        return vec![0; ends.len()];
    };
    // Times can be counted from the first arrival, because the server is idle before it.
    let (mut times, mut at) = (gaps.times(), 0);
    ends.iter()
        .map(|end| {
            let part = end.saturating_sub(at);
            at += part;
            times.by_ref().take(part).map(|at| u64::from(rtt.admit(at - gaps.first()))).sum()
        })
        .collect()
}

/// Several servers, processed side by side. All values are whole numbers.
struct Rates<const LANES: usize> {
    within_ns: f64,
    rate: [f64; LANES],
    /// A server admits a request if its backlog is below this.
    room: [f64; LANES],
    backlog: [f64; LANES],
    admitted: [f64; LANES],
}

impl<const LANES: usize> Rates<LANES> {
    fn new(within_ns: u64, rates_iops: &[u64]) -> Self {
        let rate: [u64; LANES] =
            std::array::from_fn(|l| rates_iops.get(l).map_or(0, |rate| (*rate).min(RATE_MAX_IOPS)));
        Rates {
            within_ns: within_ns as f64,
            rate: rate.map(|rate| rate as f64),
            room: rate.map(|rate| (within_ns * rate + 1).saturating_sub(SERVICE) as f64),
            backlog: [0.0; LANES],
            admitted: [0.0; LANES],
        }
    }

    /// Processes one request.
    fn step(&mut self, gap_ns: u64) {
        self.run_each(std::iter::once(gap_ns.min(self.within_ns as u64) as f64));
    }

    #[inline(never)]
    fn run(&mut self, gaps_ns: &[u32]) {
        self.run_each(gaps_ns.iter().map(|gap| f64::from(*gap)));
    }

    #[inline(always)]
    fn run_each(&mut self, gaps_ns: impl Iterator<Item = f64>) {
        // Local copies keep the loop's variables in registers.
        let (rate, room, within_ns) = (self.rate, self.room, self.within_ns);
        let (mut backlog, mut admitted) = (self.backlog, self.admitted);
        for gap_ns in gaps_ns {
            let gap = if gap_ns < within_ns { gap_ns } else { within_ns };
            for lane in 0..LANES {
                let left = backlog[lane] - gap * rate[lane];
                let left = if left > 0.0 { left } else { 0.0 };
                let admits = left < room[lane];
                backlog[lane] = left + if admits { SERVICE as f64 } else { 0.0 };
                admitted[lane] += if admits { 1.0 } else { 0.0 };
            }
        }
        (self.backlog, self.admitted) = (backlog, admitted);
    }

    /// Records the counts of the parts that end at or before request `at`, and resets them.
    fn end_parts(
        &mut self,
        ends: &mut Peekable<impl Iterator<Item = usize>>,
        at: usize,
        parts: &mut [Vec<u64>],
    ) {
        while ends.next_if(|end| *end <= at).is_some() {
            for (part, admitted) in parts.iter_mut().zip(&mut self.admitted) {
                part.push(std::mem::take(admitted) as u64);
            }
        }
    }
}
