//! The adaptation rules on the paper's workloads, in the cost model: throughput in percent of the
//! offline optimum, which may choose its first layout for free. The last line of each block shows a
//! static array of the better layout.
//!
//! `adaptation [WRITES PER UNIT]`

use forebay_core::adapt::{
    After, Best, BonusMalus, Costs, Factor, First, Mix, Never, RAID6, RAID10, Rule, Trial, Tuning,
    Within, WorkFunction, trial,
};

const RUNS: [u32; 6] = [1, 2, 4, 8, 16, 32];

fn mixes(writes: u32, within: Within, after: After) -> Vec<Mix> {
    let mut mixes = vec![Mix::a(1000, writes, 7)];
    mixes.extend(RUNS.iter().map(|&run| Mix { within, after, ..Mix::b(1000, writes, run, 7) }));
    mixes.extend(RUNS.iter().map(|&run| Mix { within, after, ..Mix::c(1000, writes, run, 7) }));
    mixes
}

fn line(name: &str, trials: &[Trial], paid: impl Fn(&Trial) -> u64) {
    print!("{name:14}");
    for trial in trials {
        print!(" {:5.1}", 100.0 * trial.free_optimum as f64 / paid(trial) as f64);
    }
    println!();
}

fn rule<R: Rule>(
    name: &str,
    make: impl Fn() -> R,
    costs: &Costs,
    first: First,
    mixes: &[Mix],
) -> Vec<Trial> {
    let trials: Vec<Trial> =
        mixes.iter().map(|mix| trial(&mut make(), costs, first, mix.draws())).collect();
    line(name, &trials, |trial| trial.paid);
    trials
}

fn block(costs: &Costs, first: First, mixes: &[Mix]) {
    let scaled = |times, over| move || BonusMalus::new(Factor { times, over });
    rule("never", || Never, costs, first, mixes);
    rule("paper / 4", scaled(1, 4), costs, first, mixes);
    rule("paper / 2", scaled(1, 2), costs, first, mixes);
    rule("paper", scaled(1, 1), costs, first, mixes);
    rule("paper * 2", scaled(2, 1), costs, first, mixes);
    rule("work function", || WorkFunction, costs, first, mixes);
    let trials = rule("best", || Best::new(costs, Tuning::default()), costs, first, mixes);
    line("better static", &trials, Trial::better_static);
}

fn main() {
    let writes = std::env::args().nth(1).and_then(|writes| writes.parse().ok()).unwrap_or(240);
    let kinds = [
        ("runs of one size", Within::Repeats, After::SameBias),
        ("runs of one size, bias turning round", Within::Repeats, After::OppositeBias),
        ("runs of one bias, turning round", Within::Draws, After::OppositeBias),
    ];
    for (kind, within, after) in kinds {
        let mixes = mixes(writes, within, after);
        for (drive, costs) in [("hdd", Costs::paper_hdd()), ("ssd", Costs::paper_ssd())] {
            for first in [First::Fixed(RAID6), First::Fixed(RAID10), First::ByFirstWrite] {
                println!("{kind}; {drive}; {first:?}: A, B at 1 2 4 8 16 32, C at 1 2 4 8 16 32");
                block(&costs, first, &mixes);
            }
        }
    }
}
