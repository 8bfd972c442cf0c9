//! Estimates how reliable a price is: a confidence interval by block bootstrap over time, as for
//! capacities ([`crate::plan::confidence`]).
//!
//! The trace is divided into blocks of equal time. The cheapest setting is found for several
//! numbers of late requests, and for each setting, the number of late requests in each block. A
//! resample draws as many blocks as there are, with replacement, and takes the cheapest of these
//! settings in which no more of its requests are late than promised. The backlog and the credit at
//! the start of a block are those in the trace.
//!
//! Limitation: the interval cannot account for bursts that are too rare to occur in the trace.

use forebay_ask::Share;

use super::drain::Costed;
use super::find::{Bound, Case, Demand};
use super::row::Finder;
use crate::jobs::on_all_cores;
use crate::plan::confidence::{BLOCKS, Bootstrap, ends, resamples, sizes};

/// The numbers of late requests for which to find settings, as multiples of the number that the
/// promise allows.
const LEVELS: [f64; 11] = [0.0, 0.1, 0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 4.0];

/// Further numbers of late requests for which to find settings, to be added to the number that the
/// promise allows, since that may be 0.
const MORE: [u64; 5] = [1, 3, 10, 30, 100];

/// A setting's price, with the number of late requests in each block.
struct Priced {
    amount: f64,
    late: Vec<u64>,
}

/// Returns the confidence interval of the price of the setting that `finder` finds; `None` if it
/// has no price.
pub(super) fn interval(
    finder: &Finder<'_>,
    fraction: Share,
    bootstrap: Bootstrap,
) -> Option<(f64, f64)> {
    let Demand::Requests(requests) = finder.demand else { return None };
    let ends_of_blocks = block_ends(requests);
    let late_max = finder.case.bound.late_max;
    let shares = LEVELS.iter().map(|share| (late_max as f64 * share) as u64);
    let mut levels: Vec<u64> = shares.chain(MORE.map(|more| late_max + more)).collect();
    levels.sort_unstable();
    levels.dedup();
    let priced = |late_max: &u64| {
        let bound = Bound { late_max: *late_max, ..finder.case.bound };
        let case = Case { bound, ..finder.case.clone() };
        let knobs = case.find(finder.shape, finder.demand)?;
        let amount = case.kind.price(&knobs)?.amount;
        Some(Priced { amount, late: case.late_by_part(requests, &knobs, &ends_of_blocks)? })
    };
    let all: Vec<Option<Priced>> =
        on_all_cores(&levels, |level| Ok::<_, crate::error::Error>(priced(level))).ok()?;
    let mut settings: Vec<Priced> = all.into_iter().flatten().collect();
    settings.sort_by(|a, b| a.amount.total_cmp(&b.amount));
    let sizes = sizes(&ends_of_blocks);
    let drawn = resamples(sizes.len(), bootstrap.seed, |weigh| {
        let requests = weigh(&sizes);
        let late_max = requests - fraction.of(requests).min(requests);
        // The most expensive setting has no late requests, or as few as the type allows.
        let enough = settings.iter().find(|setting| weigh(&setting.late) <= late_max);
        Some(enough.or(settings.last())?.amount)
    });
    let drawn = drawn.collect::<Option<Vec<f64>>>()?;
    let (low, high) = ends(drawn, bootstrap.level);
    let cents = |amount: f64| (amount * 1e6).round() / 1e6;
    Some((cents(low), cents(high)))
}

/// Returns where each block of time ends, as an index into the requests.
fn block_ends(requests: &Costed) -> Vec<usize> {
    let times: Vec<u64> = requests.times().map(|at| at.0).collect();
    let first = times.first().copied().unwrap_or_default();
    let duration = u128::from(times.last().map_or(0, |last| last - first)) + 1;
    let block_ends = (1..=BLOCKS).map(|block| {
        let until = u128::from(block) * duration / u128::from(BLOCKS);
        times.partition_point(|at| u128::from(at - first) < until)
    });
    block_ends.collect()
}
