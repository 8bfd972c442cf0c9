//! Fits the time of a revolution and the command overhead to reads on one track.
//!
//! *Backward reads*: after a block was read, the block before it reaches the head one revolution
//! minus two blocks later, and then takes the time of one block, regardless of the overhead.
//!
//! *Reads with gaps*: if the gap to the next block passes the head in more time than the command
//! overhead, the block is read at once; otherwise, it is missed and read one revolution later. The
//! gap at which this changes equals the overhead.

use super::{Figure, FitError, Sample, robust};

/// The minimum number of backward steps.
const STEPS_MIN: usize = 32;

/// Returns the time of a revolution in ns. `media` returns the media rate in bytes per ns at an
/// offset.
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
        expected: "32 or more, 1 to 1000 ms each (a cache hit makes them shorter)",
    })
}

/// Returns the command overhead in ns. Its error is half the distance between the two neighboring
/// gaps.
pub(super) fn overhead(
    logs: &[Vec<Sample>],
    revolution_ns: f64,
    media: impl Fn(u64) -> f64,
) -> Result<Figure, FitError> {
    // How long each gap takes to pass the head, and whether the next block was read without waiting
    // for another revolution.
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
            expected: "32 or more reads, some of them caught at once",
        });
    }
    // Find the threshold with the fewest exceptions on both sides.
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

/// Returns pairs of consecutive reads.
fn pairs(logs: &[Vec<Sample>]) -> impl Iterator<Item = (&Sample, &Sample)> {
    logs.iter().flat_map(|log| log.iter().zip(log.iter().skip(1)))
}
