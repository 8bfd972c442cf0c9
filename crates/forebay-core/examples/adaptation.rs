//! Rules of adaptation on the paper's workloads, as shares of the optimum.
use forebay_core::adapt::*;

fn row<R: Rule>(
    name: &str,
    make: impl Fn(&Costs) -> R,
    costs: &Costs,
    first: First,
    writes: u32,
    alt: usize,
) {
    print!("{name:14}");
    let mut mixes = vec![Mix::a(1000, writes, 7)];
    for run in [1, 2, 4, 8, 16, 32] {
        mixes.push(Mix::b(1000, writes, run, 7));
    }
    for run in [1, 2, 4, 8, 16, 32] {
        mixes.push(Mix::c(1000, writes, run, 7));
    }
    for mix in &mut mixes {
        if alt >= 1 {
            mix.after = After::OppositeBias;
        }
        if alt >= 2 {
            mix.within = Within::Draws;
        }
        let mut rule = make(costs);
        let t = trial(&mut rule, costs, first, mix.draws());
        let o = t.free_optimum as f64;
        print!(
            " {:6.1}/{:5.1}",
            100.0 * o / t.paid as f64,
            100.0 * t.better_static() as f64 / t.paid as f64
        );
    }
    println!();
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let writes = args[1].parse().unwrap();
    let alt = args[2].parse().unwrap();
    let mut tuning = Tuning::default();
    if let Some(m) = args.get(3) {
        tuning.memory = m.parse().unwrap();
    }
    if let Some(m) = args.get(4) {
        tuning.spread = m.parse().unwrap();
    }
    for (dev, costs) in [("hdd", Costs::paper_hdd()), ("ssd", Costs::paper_ssd())] {
        for first in [First::Fixed(0), First::Fixed(1), First::ByFirstWrite] {
            if let Some(m) = args.get(5) {
                tuning.caution = m.parse().unwrap();
            }
            println!("{dev} {first:?}: A, B 1..32, C 1..32");
            let f = |times, over| Factor { times, over };
            if args.len() < 4 {
                row("never", |_| Never, &costs, first, writes, alt);
                row("quarter", |_| BonusMalus::new(f(1, 4)), &costs, first, writes, alt);
                row("half", |_| BonusMalus::new(f(1, 2)), &costs, first, writes, alt);
                row("paper", |_| BonusMalus::new(f(1, 1)), &costs, first, writes, alt);
                row("twice", |_| BonusMalus::new(f(2, 1)), &costs, first, writes, alt);
                row("wfa", |_| WorkFunction, &costs, first, writes, alt);
            }
            row("best", |c| Best::new(c, tuning), &costs, first, writes, alt);
        }
    }
}
