//! Where two runs are looked at more closely: where they differ most in the way that they do on the whole, or else in the
//! middle.
//!
//! A look is as long as some of the baseline's movements take. Two runs differ there by how far the heads go from I/O to
//! I/O on average; what has gaps in it shows less, and counts for as much less.

use super::heads::Points;

/// I/Os of the baseline that a closer look shows.
pub(super) const CLOSER_POINTS: usize = 160;
/// Parts of a look that are empty or not.
const SLOTS: usize = 20;

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// Cylinders from I/O to I/O on average, of the baseline and of the other run; none in the middle, where no stretch
    /// shows a difference.
    pub(super) apart: Option<[f64; 2]>,
}

/// The look at two runs, which are long enough for one.
pub(super) fn look(baseline: Points<'_>, other: Points<'_>) -> Option<Look> {
    let sign = (apart(baseline) - apart(other)).signum();
    let begins = (0..baseline.len().saturating_sub(CLOSER_POINTS)).step_by(CLOSER_POINTS / 4);
    let looks = begins.filter_map(|first| {
        let (a, last) =
            (&baseline[first..=first + CLOSER_POINTS], &baseline[first + CLOSER_POINTS]);
        let (from_s, to_s) = (baseline[first].done_s(), last.done_s());
        let b = between(other, (from_s, to_s));
        if to_s <= from_s || b.len() < CLOSER_POINTS / 2 {
            return None;
        }
        let apart = [a, b].map(apart);
        let full = [a, b].map(|points| filled(points, (from_s, to_s)));
        let shown = (apart[0] - apart[1]) * sign * full[0].min(full[1]);
        Some((shown, Look { from_s, to_s, apart: Some(apart) }))
    });
    let most = looks.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(shown, _)| *shown > 0.0);
    most.map(|(_, look)| look).or_else(|| middle(baseline, other))
}

/// In the middle of the shorter run.
fn middle(baseline: Points<'_>, other: Points<'_>) -> Option<Look> {
    let from_s = baseline.last()?.done_s().min(other.last()?.done_s()) / 2.0;
    let first = baseline.partition_point(|point| point.done_s() < from_s);
    let to_s = baseline.get(first + CLOSER_POINTS).or(baseline.last())?.done_s();
    (to_s > from_s).then_some(Look { from_s, to_s, apart: None })
}

/// The I/Os that are done within a stretch.
pub(super) fn between<'a>(points: Points<'a>, (from_s, to_s): (f64, f64)) -> Points<'a> {
    let first = points.partition_point(|point| point.done_s() < from_s);
    let (_, from) = points.split_at(first);
    &from[..from.partition_point(|point| point.done_s() <= to_s)]
}

/// Cylinders from I/O to I/O, on average.
pub(super) fn apart(points: Points<'_>) -> f64 {
    let crossed = points.windows(2).map(|two| two[0].cylinder.abs_diff(two[1].cylinder));
    crossed.map(u64::from).sum::<u64>() as f64 / (points.len() as f64 - 1.0).max(1.0)
}

/// The share of a stretch in which I/Os are done.
fn filled(points: Points<'_>, (from_s, to_s): (f64, f64)) -> f64 {
    let mut slots = [false; SLOTS];
    for point in points {
        let share = (point.done_s() - from_s) / (to_s - from_s);
        slots[((share * SLOTS as f64) as usize).min(SLOTS - 1)] = true;
    }
    slots.iter().filter(|slot| **slot).count() as f64 / SLOTS as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::HeadPoint;
    use forebay_core::{Nanos, Op};

    fn run(cylinder: impl Fn(u64) -> u32) -> Vec<HeadPoint> {
        let point = |n: u64| HeadPoint {
            started: Nanos::from_millis(n * 10),
            done: Nanos::from_millis(n * 10 + 5),
            cylinder: cylinder(n),
            len: 4096,
            stream: 0,
            op: Op::Read,
        };
        (0..4000).map(point).collect()
    }

    #[test]
    fn two_runs_are_looked_at_where_they_differ_most() {
        let still = run(|_| 7);
        // From 10 to 14 s it goes to and fro by 100, from 30 to 34 s by 900.
        let to_and_fro = run(|n| match n {
            1000..1400 => (n % 2) as u32 * 100,
            3000..3400 => (n % 2) as u32 * 900,
            _ => 7,
        });
        for (a, b) in [(&still, &to_and_fro), (&to_and_fro, &still)] {
            let look = look(a, b).unwrap();
            assert!(look.from_s > 29.9 && look.to_s < 34.1 && look.apart.is_some(), "{look:?}");
        }
        // A stretch where the other goes further tells nothing of a run in which the baseline does on the whole.
        let further_once = run(|n| match n {
            1000..1400 => (n % 2) as u32 * 900,
            _ => 7,
        });
        let always = run(|n| (n % 2) as u32 * 200);
        let whole = look(&always, &further_once).unwrap();
        assert!(whole.apart.is_some_and(|[a, b]| a > b), "{whole:?}");
        let same = look(&still, &still).unwrap();
        assert!((same.from_s - 20.0).abs() < 0.1 && same.apart.is_none(), "{same:?}");
        assert_eq!(look(&[], &[]), None);
    }

    #[test]
    fn what_is_mostly_empty_counts_for_little() {
        let still = run(|_| 7);
        let mut moving = run(|n| match n {
            1000..1400 => (n % 2) as u32 * 500,
            3000..3400 => (n % 2) as u32 * 900,
            _ => 7,
        });
        let mut gaps = still.clone();
        // Ten at a time and then nothing for a minute, where they are furthest apart.
        for points in [&mut gaps, &mut moving] {
            for (n, point) in points.iter_mut().enumerate().skip(2900) {
                point.done = Nanos::from_millis(n as u64 * 10 + (n as u64 / 100) * 60_000);
            }
        }
        let look = look(&gaps, &moving).unwrap();
        assert!(look.to_s < 15.0, "{look:?}");
    }

    #[test]
    fn averages_are_from_io_to_io() {
        let points = run(|n| (n * 3) as u32);
        assert_eq!((apart(&points), apart(&points[..1]), apart(&[])), (3.0, 0.0, 0.0));
        assert_eq!(between(&points, (0.005, 0.035)).len(), 4);
        assert_eq!(filled(&points[..3], (0.0, 0.2)), 0.15);
    }
}
