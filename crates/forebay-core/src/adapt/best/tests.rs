use forebay_testing::longer;

use super::super::{First, Mix, Objective, RAID6, RAID10, trial};
use super::*;
use crate::random;

/// The number of draws of the dice over which costs are averaged.
const DICE: u64 = 12;

/// Returns the simple rules with their costs over all units in nanoseconds, with decay.
fn shadows(best: &Best) -> impl Iterator<Item = (Simple, f64)> + '_ {
    best.rules.iter().copied().zip(best.paid)
}

#[test]
fn the_state_of_a_unit_takes_32_bytes() {
    assert_eq!(size_of::<BestUnit>(), 32);
    let mut unit = BestUnit::new(99, 5);
    (0..ROOM).for_each(|slot| unit.set_shadow(slot, slot as Layout));
    let cohort = unit.cohort();
    assert!(!unit.enter() && unit.enter());
    unit.set_layout(7);
    assert!((0..ROOM).all(|slot| usize::from(unit.shadow(slot)) == slot));
    assert_eq!((unit.layout(), unit.cohort()), (7, cohort));
}

#[test]
fn random_choices_follow_the_softmax() {
    let dice = dice(2 * 40_000, 3);
    let wins = dice.chunks(2).filter(|pair| pair[0] < 1.0 + pair[1]).count() as f64 / 40_000.0;
    let softmax = 1.0 / (1.0 + (-1f64).exp());
    assert!((wins - softmax).abs() < 0.01, "{wins} for {softmax}");
}

#[test]
fn shadow_costs_equal_those_of_the_rules() {
    let costs = Costs::paper_ssd();
    let mix = Mix { after: super::super::After::OppositeBias, ..Mix::b(20, 200, 8, 5) };
    let mut best = Best::new(&costs, Tuning { memory: f64::INFINITY, ..Tuning::default() });
    trial(&mut best, &costs, First::Fixed(RAID6), mix.draws());
    for (rule, paid) in shadows(&best) {
        let first = First::ByFirstWrite;
        let alone = match rule {
            Simple::Stay(layout) => {
                trial(&mut super::super::Never, &costs, First::Fixed(layout), mix.draws())
            }
            Simple::WorkFunction => {
                trial(&mut super::super::WorkFunction, &costs, first, mix.draws())
            }
            Simple::BonusMalus(factor) => {
                trial(&mut super::super::BonusMalus::new(factor), &costs, first, mix.draws())
            }
        };
        assert_eq!(paid, alone.paid as f64, "{rule:?}");
    }
}

/// Returns requests that favor one layout for a while and then another, on all units or some of
/// them. The lengths of these phases vary widely.
fn shifting(seed: u64, units: u32, requests: usize) -> Vec<(u32, Class)> {
    let mut dice = seed;
    let mut list = Vec::new();
    while list.len() < requests {
        let span = 1usize << (random::next(&mut dice) % 12);
        let class = (random::next(&mut dice) % 4) as Class;
        let some = 1 + (random::next(&mut dice) % u64::from(units)) as u32;
        list.extend((0..span).map(|_| ((random::next(&mut dice) % u64::from(some)) as u32, class)));
    }
    list.truncate(requests);
    list
}

/// Returns whether the bound in the module's documentation holds for a few ε, with costs averaged
/// over draws of the dice.
fn held(costs: &Costs, units: u32, requests: &[(u32, Class)]) -> bool {
    let mut sum = 0.0;
    let (mut least, mut rules) = (f64::INFINITY, 0.0);
    for seed in 0..DICE {
        let tuning = Tuning { memory: f64::INFINITY, seed, ..Tuning::default() };
        let mut best = Best::new(costs, tuning);
        sum += trial(&mut best, costs, First::Fixed(RAID6), requests.iter().copied()).paid as f64;
        least = shadows(&best).map(|(_, paid)| paid).fold(f64::INFINITY, f64::min);
        rules = shadows(&best).count() as f64;
    }
    let paid = sum / DICE as f64;
    let differences =
        (0..4).map(|class| costs.cost(RAID6, class).abs_diff(costs.cost(RAID10, class)));
    let d = (costs.diameter() + differences.max().unwrap()) as f64;
    let per_unit = |eps: f64| d * (1.0 + 2.0 * f64::ln(rules) / eps);
    [0.1, 0.3, 1.0]
        .into_iter()
        .all(|eps| paid <= (1.0 + eps) * least + f64::from(units) * per_unit(eps))
}

#[test]
fn regret_against_the_best_rule_is_bounded() {
    for costs in [Costs::paper_hdd(), Costs::paper_ssd()] {
        for seed in 0..longer(4) {
            for units in [1, 4, 64] {
                assert!(
                    held(&costs, units, &shifting(seed, units, 10_000)),
                    "{units} units, {seed}"
                );
            }
        }
    }
}

#[test]
fn regret_is_bounded_for_periodic_requests_too() {
    for costs in [Costs::paper_hdd(), Costs::paper_ssd()] {
        for period in [1, 2, 3, 4, 5, 8, 12, 20, 50, 200] {
            let write = |i: u32| (i % 4, if (i / 4 / period).is_multiple_of(2) { 0 } else { 3 });
            let requests: Vec<_> = (0..10_000).map(write).collect();
            assert!(held(&costs, 4, &requests), "period {period}");
        }
    }
}

/// An adversary that sees the layout of each unit and always issues the most expensive request
/// beats every rule. The cost nevertheless stays within three times the optimum.
#[test]
fn even_a_cruel_workload_costs_at_most_thrice_the_optimum() {
    for costs in [Costs::paper_hdd(), Costs::paper_ssd()] {
        let mut best = Best::new(&costs, Tuning::default());
        let mut units: Vec<_> = (0..16).map(|n| best.begin(&costs, RAID6, 0, n)).collect();
        let mut optima = vec![super::super::Optimum::new(&costs, None); 16];
        let mut paid = 0;
        for i in 0..50_000 {
            let at = i % 16;
            let here = best.layout(&units[at]);
            let class = if here == RAID6 { 0 } else { 3 };
            paid += costs.cost(here, class);
            paid += best.seen(&costs, &mut units[at], class).map_or(0, |to| costs.switch(here, to));
            optima[at].seen(&costs, class);
        }
        let optimum: u64 = optima.iter().map(super::super::Optimum::cost).sum();
        assert!(paid <= 3 * optimum, "{}", paid as f64 / optimum as f64);
    }
}

#[test]
fn no_unit_goes_below_the_floor() {
    let flat = |by: u64| vec![vec![by; 3]; 3];
    let costs = Costs::new(&[vec![9], vec![5], vec![1]], &[], &flat(3), &flat(3)).unwrap();
    let floor = 0b11;
    let costs = Objective { floor, ..Objective::default() }.weigh(costs);
    let mut best = Best::new(&costs, Tuning::default());
    let mut unit = best.begin(&costs, 2, 0, 0);
    assert_ne!(best.layout(&unit), 2);
    for _ in 0..100 {
        assert_ne!(best.seen(&costs, &mut unit, 0), Some(2));
    }
    assert_eq!(best.layout(&unit), 1);
}

#[test]
fn bad_parameters_and_other_costs_keep_the_bound() {
    let costs = Costs::paper_hdd();
    let tuning = Tuning { memory: f64::NAN, spread: f64::NAN, caution: -1.0, seed: 0 };
    let mut best = Best::new(&costs, tuning);
    let mut unit = best.begin(&costs, 77, 99, u64::MAX);
    (0..100).for_each(|i| assert!(best.seen(&costs, &mut unit, i).is_none_or(|to| to < 2)));
    let flat = |by: u64| vec![vec![by; 3]; 3];
    let others = Costs::new(&[vec![9], vec![5], vec![1]], &[], &flat(3), &flat(3)).unwrap();
    assert_eq!(best.seen(&others, &mut unit, 0), None);
}
