//! The revolution and the command overhead, from reads on one track.
//!
//! *Backwards*: the block before the one just read passes the head one revolution less two blocks
//! later and takes one block, whatever the overhead. *With gaps*: a block that begins later after
//! the end of the last one than a command takes to start is caught at once, an earlier one only a
//! revolution later; the gap where that changes is the overhead.

use super::log::Sample;
use super::{Figure, FitError, robust};

/// Backward steps it takes.
const STEPS_MIN: usize = 32;

/// One turn in ns; `media` gives bytes per ns at an offset.
pub(super) fn revolution(
    logs: &[Vec<Sample>],
    media: impl Fn(u64) -> f64,
) -> Result<Figure, FitError> {
    let turns: Vec<f64> = pairs(logs)
        .filter(|(before, read)| read.offset + u64::from(read.len) == before.offset)
        .map(|(_, read)| read.latency_ns + f64::from(read.len) / media(read.offset))
        .collect();
    let found = robust::median(&turns).filter(|_| turns.len() >= STEPS_MIN);
    found.filter(|turn| (1e6..1e9).contains(&turn.value)).ok_or_else(|| FitError::TooLittle {
        what: "back*_lat.*.log",
        got: match robust::median(&turns) {
            Some(turn) => format!("{} steps back of {:.3} ms", turns.len(), turn.value / 1e6),
            None => "no steps back".to_string(),
        },
        expected: "32 or more, 1 to 1000 ms each (a cache that answers makes them shorter)",
    })
}

/// The overhead in ns, half the distance between the gaps around it as its error.
pub(super) fn overhead(
    logs: &[Vec<Sample>],
    revolution_ns: f64,
    media: impl Fn(u64) -> f64,
) -> Result<Figure, FitError> {
    // (time from the end of one block to the start of the next, whether it was caught)
    let mut tries: Vec<(f64, bool)> = pairs(logs)
        .filter_map(|(before, read)| {
            let gap = read.offset.checked_sub(before.offset + u64::from(before.len))?;
            let rate = media(read.offset);
            let (gap, block) = (gap as f64 / rate, f64::from(read.len) / rate);
            let caught = read.latency_ns < gap + block + revolution_ns / 2.0;
            (gap > 0.0 && gap < revolution_ns / 2.0).then_some((gap, caught))
        })
        .collect();
    tries.sort_by(|a, b| a.0.total_cmp(&b.0));
    let caught = tries.iter().filter(|(_, caught)| *caught).count();
    if tries.len() < STEPS_MIN || caught == 0 {
        return Err(FitError::TooLittle {
            what: "near*_lat.*.log",
            got: format!("{} reads within half a turn, {caught} caught at once", tries.len()),
            expected: "32 or more, some of them caught",
        });
    }
    // The cut with the fewest caught below and missed above it.
    let (mut wrong, mut fewest, mut cut) = (tries.len() - caught, tries.len() - caught, 0);
    for (index, (_, caught)) in tries.iter().enumerate() {
        wrong = if *caught { wrong + 1 } else { wrong - 1 };
        if wrong < fewest {
            (fewest, cut) = (wrong, index + 1);
        }
    }
    let below = if cut == 0 { 0.0 } else { tries[cut - 1].0 };
    let above = tries.get(cut).map_or(below, |(gap, _)| *gap);
    Ok(Figure { value: (below + above) / 2.0, error: (above - below) / 2.0 })
}

/// Each read with the one before it.
fn pairs(logs: &[Vec<Sample>]) -> impl Iterator<Item = (&Sample, &Sample)> {
    logs.iter().flat_map(|log| log.iter().zip(log.iter().skip(1)))
}
