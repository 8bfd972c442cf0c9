//! The time in nanoseconds that each adaptation rule takes per request, with requests to 1,000
//! units in random order.

// A benchmark reads the clock; the library it measures does not.
#![allow(clippy::disallowed_types)]

use std::hint::black_box;
use std::time::Instant;

use forebay_core::adapt::{
    Best, BonusMalus, Class, Costs, Factor, Mix, RAID6, Rule, Tuning, WorkFunction,
};

const UNITS: u32 = 1_000;

fn measure<R: Rule>(name: &str, rule: &mut R, costs: &Costs, requests: &[(u32, Class)]) {
    let mut units: Vec<R::Unit> =
        (0..UNITS).map(|number| rule.begin(costs, RAID6, 0, u64::from(number))).collect();
    let mut switches = 0u64;
    let start = Instant::now();
    for &(unit, class) in requests {
        let switch = rule.seen(costs, &mut units[unit as usize], class);
        switches += u64::from(switch.is_some());
    }
    let nanos = start.elapsed().as_nanos() as f64 / requests.len() as f64;
    black_box(&units);
    println!("{name:14} {nanos:6.1} ns a request, {switches} switches");
}

fn main() {
    let costs = Costs::paper_hdd();
    let requests: Vec<(u32, Class)> = Mix::c(UNITS, 5000, 8, 1).draws().collect();
    measure("bonus-malus", &mut BonusMalus::new(Factor::ONE), &costs, &requests);
    measure("work function", &mut WorkFunction, &costs, &requests);
    measure("best", &mut Best::new(&costs, Tuning::default()), &costs, &requests);
}
