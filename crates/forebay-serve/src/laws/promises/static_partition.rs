//! Admission: the server accepts at least 90 % of the rate that the best static partition keeps.
//!
//! A static partition gives each tenant a fixed rate. The best one is found offline: many rates and
//! queue depths are tried on the known requests of all tenants, which are at random places of the
//! whole disk. A partition must keep 99 % of them in time beside any neighbor, whose own rate is the
//! least that the server leaves it.

use super::*;

/// Neighbors that make promises hard to keep.
const HARD: [Greedy; 3] = [NEIGHBOURS[0], NEIGHBOURS[5], NEIGHBOURS[7]];
/// The rates of a partition, in percent of what each tenant's requests need by themselves.
const RATES_PERCENT: [u64; 5] = [100, 110, 125, 150, 200];
const DEPTHS: [u32; 4] = [1, 2, 4, 8];

impl Bed {
    /// Returns the depth and the rates in percent of a static partition that keeps the promises to
    /// all tenants; `None` if none does.
    fn partition(&self, steady: &[Steady]) -> Option<(u32, u64)> {
        let ways = DEPTHS.iter().flat_map(|depth| RATES_PERCENT.map(|percent| (*depth, percent)));
        ways.into_iter().find(|&(depth, percent)| {
            let rate = |(at, one): (usize, &Steady)| one.planned_iops(at) * percent / 100;
            let beside = 1_000_000_000 / steady[0].within.0;
            let rates = steady.iter().enumerate().map(rate).chain([beside]);
            let rates: Vec<String> = rates.map(|rate| rate.to_string()).collect();
            let limits = rates.join("/");
            let spec = format!("dmclock:limit={limits}:dependencies=no:depth={depth}:over=noop");
            HARD.iter().all(|neighbour| {
                let tenants = Tenants::new(self, steady, *neighbour, u64::MAX);
                let (counts, _) =
                    self.serve(&spec, Tenants { part: self.bytes, apart: 0, ..tenants });
                let is_kept = |(count, one): (&u64, &Steady)| *count * 100 >= one.requests * 99;
                counts.in_time.iter().zip(steady).all(is_kept)
            })
        })
    }

    /// Expects that no static partition keeps more than 10/9 of the rate that the server accepts.
    fn accepts_what_a_partition_keeps(&self, tenants: u64, like: Steady) {
        let accepted = self.most_accepted(self.capacity_iops("noop"), tenants, like);
        let rate_iops = accepted[0].rate_iops;
        let of_rate = |rate_iops| -> Vec<Steady> {
            accepted.iter().map(|one| Steady { rate_iops, ..*one }).collect()
        };
        let partition = |rate| Some((rate, self.partition(&of_rate(rate))?));
        let best = (rate_iops / 2..3 * rate_iops).map_while(partition).last();
        println!("{tenants} tenants: {rate_iops} IOPS each accepted, the best partition: {best:?}");
        assert!(best.is_some_and(|(most, _)| rate_iops * 10 >= most * 9), "{rate_iops}, {best:?}");
    }
}

#[test]
fn nearly_all_that_the_best_static_partition_keeps_is_accepted() {
    let bed = on_device("st1000nm0011", None);
    for tenants in [1, 2, 3] {
        bed.accepts_what_a_partition_keeps(tenants, ON_DISK);
    }
}
