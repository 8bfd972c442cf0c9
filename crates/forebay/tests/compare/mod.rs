//! Tests `compare` as a library: its figures, its verdict, and real traces.

mod figures;
mod real;
mod verdict;

use forebay::compare::{Card, Options, compare};
use forebay::input::Input;
use forebay::progress::unheard;
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }
}

fn record(at: u64, offset: u64, len: u32, op: Op) -> Record {
    let (at, flags) = (Nanos(at), Flags::NONE);
    Record { at, offset, latency: None, len, stream: 0, volume: 0, op, flags }
}

/// Returns bursts of requests over about a hundred pages, a few of them distant. Everything depends
/// only on `seed`.
fn load(seed: u64, requests: u64) -> Vec<Record> {
    let (mut random, mut now) = (Random(seed), 0);
    let burst = 10 + random.below(40);
    let mut draw = |number: u64| {
        now += match number % burst {
            _ if number == 0 => 0,
            0 => 40_000_000 + random.below(60_000_000),
            _ => random.below(3_000_000),
        };
        let far = if random.below(10) == 0 { random.below(64) * MIB } else { 0 };
        let page = random.below(300 + seed) * random.below(2) + random.below(40);
        let pages = 1 + random.below(3) * random.below(2);
        let op = if random.below(3 + seed) == 0 { Op::Write } else { Op::Read };
        record(now, far + page * PAGE, (pages * PAGE) as u32, op)
    };
    (0..requests).map(&mut draw).collect()
}

fn input(records: &[Record]) -> Input {
    Input::from_records(records.to_vec(), vec!["one".into()])
}

fn card(a: &[Record], b: &[Record], devices: &[&str]) -> Card {
    let names: Vec<String> = devices.iter().map(|name| name.to_string()).collect();
    let options = Options::new(&names, None, 1.0, 3).unwrap();
    compare(&input(a), &input(b), &options, &mut unheard).unwrap()
}

fn close(found: f64, expected: f64, what: &str) {
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        "{what}: {found} {expected}"
    );
}

/// Converts the records to reads at separate addresses, so that none are merged.
fn apart(mut records: Vec<Record>) -> Vec<Record> {
    for (number, record) in (0..).zip(&mut records) {
        (record.op, record.offset, record.len) = (Op::Read, number * 64 * PAGE, 4096);
    }
    records
}
