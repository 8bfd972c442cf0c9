//! Measures what each policy adds to the latency and CPU time of a request.

use crate::fio::Shape;
use crate::servers::{Measured, Server};
use crate::{Made, Options, median};

/// `promised` has a promise that it can always keep, so that every request passes through its
/// decomposition without being delayed.
const POLICIES: [(&str, &str); 7] = [
    ("noop", "noop"),
    ("none", "none"),
    ("mq-deadline", "mq-deadline"),
    ("kyber", "kyber"),
    ("bid", "bid"),
    ("forebay", "forebay"),
    ("promised", "promised:cmin=100000:delta-ms=10:depth=64"),
];

/// A description of each setup, its server options, and the number of outstanding requests.
const PLACES: [(&str, &[&str], u32); 2] = [
    ("file in memory, 1 at a time", &["--buffered"], 1),
    ("emulated fixed:20000, 8 at a time", &["--emulate", "fixed:20000"], 8),
];

pub(crate) fn compare(options: &Options) {
    for (place, words, depth) in PLACES {
        let made = Made::new(&options.memory);
        let shape = Shape { writes: false, kib: 4, depth };
        let mut measured: Vec<Vec<Measured>> = POLICIES.map(|_| Vec::new()).into();
        for _ in 0..options.rounds {
            for (nth, (name, policy)) in POLICIES.iter().enumerate() {
                let words = [words, &["--policy", policy]].concat();
                let server = Server::ours(&made.file(), made.socket(name), &words);
                measured[nth].push(server.measure(shape, options.seconds));
            }
        }
        print(place, &measured);
    }
}

fn cpu_us(measured: &Measured) -> f64 {
    measured.cpu_s / measured.seen.requests * 1e6
}

/// Returns the median of a figure, and the median of its difference from noop in the same round.
fn told(of: fn(&Measured) -> f64, measured: &[Measured], noop: &[Measured]) -> (f64, f64) {
    let added = measured.iter().zip(noop).map(|(one, noop)| of(one) - of(noop));
    (median(measured.iter().map(of)), median(added))
}

fn print(place: &str, measured: &[Vec<Measured>]) {
    let figures: [fn(&Measured) -> f64; 3] = [|one| one.seen.p50_us, |one| one.seen.p99_us, cpu_us];
    let rows: Vec<_> =
        measured.iter().map(|one| figures.map(|of| told(of, one, &measured[0]))).collect();
    let most = |column: usize| {
        let named = rows.iter().zip(POLICIES).map(|(row, (name, _))| (row[column].1, name));
        named.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
    };
    let ((p50, slow), (cpu, dear)) = (most(0), most(2));
    println!(
        "4 KiB reads, {place}: no policy adds more than {p50:.1} us to the median ({slow}), nor {cpu:.1} us\n\
         of processor time ({dear}).\n"
    );
    println!(
        "{:<14}{:>18}{:>20}{:>22}",
        "microseconds", "p50 (added)", "p99 (added)", "CPU (added)"
    );
    for (row, (name, _)) in rows.iter().zip(POLICIES) {
        let cells = row.map(|(value, added)| format!("{value:.1} ({added:+.1})"));
        println!("{name:<14}{:>18}{:>20}{:>22}", cells[0], cells[1], cells[2]);
    }
    println!();
}
