//! What a row of a sweep would be if fio had measured a model.
//!
//! As fio does with one job: so many I/Os outstanding for a minute, at random over the whole device,
//! each answered by the next one at once. What the device has no room for waits in the host in the
//! order it came.

use std::collections::VecDeque;

use forebay_core::{Device, Flags, Nanos, Op, Request};

use crate::fit::sweep::SweepRow;

/// How long each row is measured.
const RUN: Nanos = Nanos::from_secs(60);

/// I/Os of one row at most: a device that answers all from a cache ends sooner.
const IOS_MAX: usize = 1_000_000;

/// Measures the row of `op` at `depth` on `device`, which is idle.
pub fn play<D: Device>(device: &mut D, op: Op, block_bytes: u32, depth: u32) -> SweepRow {
    let blocks = (device.capacity() / u64::from(block_bytes)).max(1);
    let (mut random, mut id) = (Random(u64::from(depth)), 0);
    let mut request = |at| {
        id += 1;
        let offset = random.below(blocks) * u64::from(block_bytes);
        let (flags, len) = (Flags::NONE, block_bytes);
        Request { at, offset, id, len, stream: 0, lane: 0, op, flags }
    };
    let mut host: VecDeque<Request> = (0..depth).map(|_| request(Nanos::ZERO)).collect();
    let (mut now, mut latencies_ns) = (Nanos::ZERO, Vec::new());
    loop {
        while device.room()
            && let Some(io) = host.pop_front()
        {
            device.start(now, io);
        }
        match device.next() {
            Some(next) if next <= RUN && latencies_ns.len() < IOS_MAX => now = next,
            _ => break,
        }
        latencies_ns.push((now - device.finish(now).io.at).0);
        host.push_back(request(now));
    }
    row(op, block_bytes, depth, latencies_ns, now)
}

fn row(op: Op, block_bytes: u32, depth: u32, mut latencies_ns: Vec<u64>, end: Nanos) -> SweepRow {
    latencies_ns.sort_unstable();
    let us = |ns: u64| ns as f64 / 1e3;
    let count = latencies_ns.len();
    let rank = |share: f64| ((count as f64 * share) as usize).min(count.saturating_sub(1));
    let percentile = |share: f64| latencies_ns.get(rank(share)).map(|ns| us(*ns));
    let sum: u64 = latencies_ns.iter().sum();
    SweepRow {
        op,
        block_bytes,
        depth,
        iops: count as f64 / end.as_secs_f64().max(1e-9),
        mean_us: (count > 0).then(|| us(sum) / count as f64),
        p50_us: percentile(0.5),
        p99_us: percentile(0.99),
        p999_us: percentile(0.999),
        max_us: latencies_ns.last().map(|ns| us(*ns)),
    }
}

/// Pseudo-random numbers (SplitMix64: Steele, Lea and Flood, 2014), the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}
