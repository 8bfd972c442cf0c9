//! Selects the time span for a closer look at two runs: the one in which they differ most in the
//! same direction as they do overall, or else one in the middle.
//!
//! A span lasts as long as a fixed number of the baseline's I/Os. The difference between two runs
//! in a span is the difference in the heads' mean distance from one I/O to the next. A span with
//! gaps contains less information, so its difference has a proportionally lower weight.

use super::heads::Points;

/// The number of the baseline's I/Os in the span.
pub(super) const CLOSER_POINTS: usize = 160;
/// The number of parts of a span that are checked for I/Os.
const SLOTS: usize = 20;

/// A time span to look at more closely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// The heads' mean distance from one I/O to the next, in cylinders, for the baseline and for
    /// the other run. `None` if no span shows the overall difference; the span is then in the
    /// middle.
    pub(super) apart: Option<[f64; 2]>,
}

/// Selects the span for a closer look at two runs; `None` if the runs are too short.
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

/// Returns a span that starts in the middle of the shorter run.
fn middle(baseline: Points<'_>, other: Points<'_>) -> Option<Look> {
    let from_s = baseline.last()?.done_s().min(other.last()?.done_s()) / 2.0;
    let first = baseline.partition_point(|point| point.done_s() < from_s);
    let to_s = baseline.get(first + CLOSER_POINTS).or(baseline.last())?.done_s();
    (to_s > from_s).then_some(Look { from_s, to_s, apart: None })
}

/// Returns the I/Os that complete within a time span.
pub(super) fn between<'a>(points: Points<'a>, (from_s, to_s): (f64, f64)) -> Points<'a> {
    let first = points.partition_point(|point| point.done_s() < from_s);
    let (_, from) = points.split_at(first);
    &from[..from.partition_point(|point| point.done_s() <= to_s)]
}

/// Returns the mean distance from one I/O to the next in cylinders.
pub(super) fn apart(points: Points<'_>) -> f64 {
    let crossed = points.windows(2).map(|two| two[0].cylinder.abs_diff(two[1].cylinder));
    crossed.map(u64::from).sum::<u64>() as f64 / (points.len() as f64 - 1.0).max(1.0)
}

/// Returns the share of a span's parts in which I/Os complete.
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
        // The heads move back and forth by 100 cylinders from 10 to 14 s, and by 900 from 30 to 34
        // s.
        let to_and_fro = run(|n| match n {
            1000..1400 => (n % 2) as u32 * 100,
            3000..3400 => (n % 2) as u32 * 900,
            _ => 7,
        });
        for (a, b) in [(&still, &to_and_fro), (&to_and_fro, &still)] {
            let look = look(a, b).unwrap();
            assert!(look.from_s > 29.9 && look.to_s < 34.1 && look.apart.is_some(), "{look:?}");
        }
        // A span in which the other run's heads move further is not typical if overall the
        // baseline's heads move further.
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
    fn mostly_empty_intervals_count_little() {
        let still = run(|_| 7);
        let mut moving = run(|n| match n {
            1000..1400 => (n % 2) as u32 * 500,
            3000..3400 => (n % 2) as u32 * 900,
            _ => 7,
        });
        let mut gaps = still.clone();
        // At the time of the largest difference, there are ten I/Os at a time and then none for a
        // minute.
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
