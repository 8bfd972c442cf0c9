//! Neighbors that write near a tenant. The drive's write cache acknowledges these writes faster
//! than the drive can perform them while it serves the tenant's reads.

use super::*;

const NEAR: u64 = 100 << 30;

impl Bed {
    /// Returns the number of a tenant's requests during two minutes, and how many are in time.
    fn near(&self, greedy: Greedy, seed: u64) -> (u64, u64) {
        let steady = Steady { requests: 2400, ..ON_DISK };
        let mut back = Back::of("disk", On::Volume(Vec::new()));
        back.capacity_iops = Some(self.capacity_iops("noop"));
        let promise =
            Some(Promise { iops: steady.planned_iops(seed as usize), within: steady.within });
        back.exports = vec![Named { promise, ..Named::all("steady") }, Named::all("greedy")];
        let tenants = Tenants::new(self, &[steady], greedy, u64::MAX);
        let arrivals = vec![(steady, steady.arrivals(seed as usize))];
        let tenants = Tenants { part: NEAR, apart: NEAR / 2, steady: arrivals, ..tenants };
        let (counts, end) = self.serve(&back.shaped().unwrap(), tenants);
        let mb_per_s = counts.greedy_bytes as f64 / 1e6 / end.as_secs_f64();
        println!("{greedy:?}, {seed}: {} in time, {mb_per_s:.1} MB/s", counts.in_time[0]);
        (steady.requests, counts.in_time[0])
    }
}

/// Planned for 99 %.
#[test]
fn a_promise_on_a_disk_holds_beside_those_who_fill_its_write_cache() {
    let bed = on_device("st1000nm0011", None);
    let writers = [
        greedy(128 << 10, 32, 100, false),
        greedy(256 << 10, 16, 100, false),
        greedy(256 << 10, 32, 100, false),
        greedy(512 << 10, 4, 100, false),
        greedy(512 << 10, 16, 100, false),
        greedy(512 << 10, 32, 100, false),
        greedy(1 << 20, 4, 50, false),
        greedy(1 << 20, 8, 50, false),
    ];
    for neighbour in writers {
        for seed in 1..=2 * longer(1) {
            let (all, in_time) = bed.near(neighbour, seed);
            assert!(in_time * 1000 >= all * 985, "{neighbour:?}, {seed}: {in_time} of {all}");
        }
    }
}
