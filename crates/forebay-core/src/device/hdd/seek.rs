//! The seek curve: the time of an arm movement by its distance in cylinders, including settling.
//!
//! Short movements, in which the arm never stops accelerating, take `a + b*sqrt(d)`; from the knee
//! on, where it coasts at full speed, they take `c + e*d` (Ruemmler and Wilkes, "An introduction to
//! disk drive modeling", 1994). The curve never decreases; no movement takes no time.

use crate::contract::{Nanos, SpecError};

/// The maximum time of any move, which keeps all sums far from overflow.
const LONGEST_NS: f64 = 10e9;

/// A seek curve, given by its coefficients or by data-sheet figures.
#[derive(Clone, Debug, PartialEq)]
pub enum SeekSpec {
    /// The coefficients in nanoseconds.
    Coefficients {
        /// `a`: the constant of short seeks, in ns.
        short_ns: f64,
        /// `b`: ns per square root of a cylinder.
        root_ns: f64,
        /// `c`: the constant of long seeks, in ns.
        long_ns: f64,
        /// `e`: ns per cylinder.
        cylinder_ns: f64,
        /// The shortest long seek, in cylinders.
        knee: u32,
    },
    /// Three data-sheet figures, from which the coefficients are computed so that the curve is
    /// continuous at the knee.
    Datasheet {
        /// The time of a seek by one cylinder.
        track_to_track: Nanos,
        /// The mean over all pairs of different cylinders, each equally likely.
        average: Nanos,
        /// The time of a seek across all cylinders.
        full_stroke: Nanos,
        /// The distance where long seeks begin, as a share of all cylinders; see [`KNEE_SHARE`].
        knee_share: f64,
    },
    /// A measured curve: distances in ascending order with their times, and straight lines between
    /// them. Shorter distances take the first time; longer ones continue the last line.
    Table(Vec<(u32, Nanos)>),
    /// The times of the shortest moves, from one cylinder on, and a curve for all longer moves.
    Prefixed {
        /// The times of moves by 1, 2, 3... cylinders.
        first: Vec<Nanos>,
        /// The curve for longer moves, which must not be a table.
        rest: Box<SeekSpec>,
    },
}

/// The share where long seeks begin if no better figure is known: a fifth of all cylinders.
pub const KNEE_SHARE: f64 = 0.2;

/// A seek curve whose parameters have been checked.
#[derive(Clone, Debug)]
pub(in crate::device) struct SeekCurve {
    points: Points,
    short_ns: f64,
    root_ns: f64,
    long_ns: f64,
    cylinder_ns: f64,
    knee: u32,
}

impl SeekCurve {
    pub(in crate::device) fn new(spec: &SeekSpec, cylinders: u32) -> Result<SeekCurve, SpecError> {
        let none = Points::default();
        let curve = match *spec {
            SeekSpec::Coefficients { short_ns, root_ns, long_ns, cylinder_ns, knee } => {
                SeekCurve { points: none, short_ns, root_ns, long_ns, cylinder_ns, knee }
            }
            SeekSpec::Datasheet { track_to_track, average, full_stroke, knee_share } => {
                solve([track_to_track, average, full_stroke], knee_share, cylinders)?
            }
            SeekSpec::Table(ref points) => return SeekCurve::measured(points, cylinders),
            SeekSpec::Prefixed { ref first, ref rest } => {
                return SeekCurve::prefixed(first, rest, cylinders);
            }
        };
        curve.check(cylinders.saturating_sub(1))?;
        Ok(curve)
    }

    fn measured(points: &[(u32, Nanos)], cylinders: u32) -> Result<SeekCurve, SpecError> {
        let points = Points::new(points.to_vec(), false)?;
        let farthest = cylinders.saturating_sub(1);
        if points.time(farthest.max(1)).is_none_or(|time| time as f64 > LONGEST_NS) {
            return Err(SpecError(format!(
                "seek: got a curve beyond {LONGEST_NS} ns at {farthest} cylinders"
            )));
        }
        let flat = SeekSpec::Coefficients {
            short_ns: 0.0,
            root_ns: 0.0,
            long_ns: 0.0,
            cylinder_ns: 0.0,
            knee: 1,
        };
        Ok(SeekCurve { points, ..SeekCurve::new(&flat, 1)? })
    }

    fn prefixed(first: &[Nanos], rest: &SeekSpec, cylinders: u32) -> Result<SeekCurve, SpecError> {
        if matches!(rest, SeekSpec::Table(_) | SeekSpec::Prefixed { .. }) {
            return Err(SpecError(
                "seek: got the times of the first distances in addition to a table of times; put \
                 them into the table"
                    .into(),
            ));
        }
        let rest = SeekCurve::new(rest, cylinders)?;
        let points = (1..).zip(first.iter().copied()).collect();
        let points = Points::new(points, true)?;
        let next = first.len() as u32 + 1;
        if let Some(last) = first.last()
            && next < cylinders
            && rest.time(next) < last.0
        {
            return Err(SpecError(format!(
                "the seek curve decreases after the first times: got {last}, then {}",
                Nanos(rest.time(next))
            )));
        }
        Ok(SeekCurve { points, ..rest })
    }

    /// Returns the time to move by `distance` cylinders.
    #[inline]
    pub(in crate::device) fn time(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        self.points.time(distance).unwrap_or_else(|| (self.at(distance) + 0.5) as u64)
    }

    #[inline]
    fn at(&self, distance: u32) -> f64 {
        let cylinders = f64::from(distance);
        // Computes both branches, because the right one is unpredictable, and a misprediction costs
        // more than a square root.
        let short = self.short_ns + self.root_ns * cylinders.sqrt();
        let long = self.long_ns + self.cylinder_ns * cylinders;
        std::hint::select_unpredictable(distance < self.knee, short, long)
    }

    /// Checks that the curve does not decrease. Both parts are monotone by the signs of their
    /// slopes, so only the ends and the knee must be checked.
    fn check(&self, farthest: u32) -> Result<(), SpecError> {
        let falls = |where_: &str, what: String| {
            Err(SpecError(format!(
                "the seek curve decreases {where_}: {what}, expected it to \
                increase"
            )))
        };
        for figure in [self.short_ns, self.root_ns, self.long_ns, self.cylinder_ns] {
            if !figure.is_finite() {
                return Err(SpecError(format!("seek: got a coefficient {figure}")));
            }
        }
        if farthest == 0 {
            return Ok(());
        }
        if self.root_ns < 0.0 && self.knee > 2 {
            return falls("before the knee", format!("got {} ns a root", self.root_ns));
        }
        if self.cylinder_ns < 0.0 && farthest > self.knee {
            return falls("after the knee", format!("got {} ns a cylinder", self.cylinder_ns));
        }
        // At the knee, a thousandth of a nanosecond is tolerated, because coefficients computed to
        // make the curve continuous have rounding errors.
        if (2..=farthest).contains(&self.knee) && self.at(self.knee) + 1e-3 < self.at(self.knee - 1)
        {
            let (from, to) = (self.at(self.knee - 1), self.at(self.knee));
            return falls("at the knee", format!("got {from} ns, then {to} ns"));
        }
        let (least, most) = (self.at(1), self.at(farthest));
        if least < 0.0 || most > LONGEST_NS {
            return Err(SpecError(format!(
                "seek times: got {least} to {most} ns, expected 0 to {LONGEST_NS} ns"
            )));
        }
        Ok(())
    }
}

/// The measured part of a curve; empty if it is entirely an equation.
#[derive(Clone, Debug, Default)]
struct Points {
    distances: Vec<u32>,
    times: Vec<u64>,
    /// Whether an equation applies after the last point.
    ends: bool,
}

impl Points {
    fn new(points: Vec<(u32, Nanos)>, ends: bool) -> Result<Points, SpecError> {
        let (distances, times): (Vec<u32>, Vec<u64>) =
            points.iter().map(|(distance, time)| (*distance, time.0)).unzip();
        if points.is_empty() || distances[0] == 0 || !distances.is_sorted_by(|a, b| a < b) {
            return Err(SpecError(
                "seek: got distances that are not ascending from 1 cylinder on, expected \
                 ascending distances"
                    .into(),
            ));
        }
        if let Some(pair) = points.windows(2).find(|pair| pair[1].1 < pair[0].1) {
            return Err(SpecError(format!(
                "the seek curve decreases from {} to {} cylinders: got {}, then {}, expected it \
                 to increase",
                pair[0].0, pair[1].0, pair[0].1, pair[1].1
            )));
        }
        if times.iter().any(|&time| time as f64 > LONGEST_NS) {
            return Err(SpecError(format!("seek times: expected 0 to {LONGEST_NS} ns")));
        }
        Ok(Points { distances, times, ends })
    }

    /// Returns the time for `distance`; `None` if the equation applies.
    #[inline]
    fn time(&self, distance: u32) -> Option<u64> {
        let last = self.distances.len().checked_sub(1)?;
        let after = self.distances.partition_point(|&point| point < distance);
        if after > last && self.ends {
            return None;
        }
        let after = after.min(last);
        if after == 0 {
            return Some(self.times[0]);
        }
        let (from, to) = (self.distances[after - 1], self.distances[after]);
        let (low, high) = (self.times[after - 1], self.times[after]);
        Some(low + (high - low) * u64::from(distance - from) / u64::from(to - from))
    }
}

/// Solves the four linear equations: one per figure, and continuity at the knee.
fn solve(figures: [Nanos; 3], knee_share: f64, cylinders: u32) -> Result<SeekCurve, SpecError> {
    let [track_to_track, average, full_stroke] = figures.map(|figure| figure.0 as f64);
    if cylinders < 4 {
        return Err(SpecError(format!(
            "seek: got {cylinders} cylinders, expected at least 4 to solve a curve from data-sheet \
             figures"
        )));
    }
    if !(knee_share > 0.0 && knee_share < 1.0) {
        return Err(SpecError(format!(
            "seek: got a knee share of {knee_share}, expected between 0 and 1"
        )));
    }
    if !(track_to_track <= average && average <= full_stroke) {
        return Err(SpecError(format!(
            "seek: got track-to-track {}, average {}, full stroke {}, expected increasing times",
            figures[0], figures[1], figures[2]
        )));
    }
    let farthest = cylinders - 1;
    let knee = ((knee_share * f64::from(farthest)).round() as u32).clamp(2, farthest - 1);
    let (far, root) = (f64::from(farthest), f64::from(knee).sqrt());
    // The moments of the distance between two different cylinders, split at the knee.
    let pairs = f64::from(cylinders) * far / 2.0;
    let (mut short, mut short_roots, mut long, mut long_sum) = (0.0, 0.0, 0.0, 0.0);
    for distance in 1..=farthest {
        let d = f64::from(distance);
        let share = (f64::from(cylinders) - d) / pairs;
        if distance < knee {
            short += share;
            short_roots += share * d.sqrt();
        } else {
            long += share;
            long_sum += share * d;
        }
    }
    let lever = (long * far - long_sum) / (far - f64::from(knee));
    let rise = full_stroke - track_to_track;
    let root_ns = (average - short * track_to_track - long * full_stroke + lever * rise)
        / (short_roots - short + lever * (root - 1.0));
    let cylinder_ns = (rise - root_ns * (root - 1.0)) / (far - f64::from(knee));
    if root_ns < 0.0 || cylinder_ns < 0.0 {
        return Err(SpecError(format!(
            "the seek curve decreases: no increasing curve with its knee at {knee_share} of the \
             cylinders has track-to-track {}, average {}, full stroke {}; change the knee share \
             or check the figures",
            figures[0], figures[1], figures[2]
        )));
    }
    Ok(SeekCurve {
        points: Points::default(),
        short_ns: track_to_track - root_ns,
        root_ns,
        long_ns: full_stroke - cylinder_ns * far,
        cylinder_ns,
        knee,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(track_ms: f64, average_ms: f64, full_ms: f64, knee_share: f64) -> SeekSpec {
        SeekSpec::Datasheet {
            track_to_track: Nanos::from_millis_f64(track_ms),
            average: Nanos::from_millis_f64(average_ms),
            full_stroke: Nanos::from_millis_f64(full_ms),
            knee_share,
        }
    }

    #[test]
    fn the_solved_curve_meets_its_figures() {
        let cylinders = 20_000;
        let curve = SeekCurve::new(&sheet(0.8, 8.5, 18.0, KNEE_SHARE), cylinders).unwrap();
        assert_eq!(curve.time(0), 0);
        assert_eq!(curve.time(1), 800_000);
        assert_eq!(curve.time(cylinders - 1), 18_000_000);
        let mut sum = 0.0;
        let mut before = 0;
        for distance in 1..cylinders {
            let time = curve.time(distance);
            assert!(time >= before, "falls at {distance}");
            assert!(distance == 1 || time - before < 400_000, "jumps at {distance}");
            before = time;
            sum += time as f64 * f64::from(cylinders - distance);
        }
        let average = sum / (f64::from(cylinders) * f64::from(cylinders - 1) / 2.0);
        assert!((average - 8.5e6).abs() < 10.0, "{average}");
    }

    #[test]
    fn the_two_parts_of_the_seek_curve_meet_at_the_knee() {
        let spec = SeekSpec::Coefficients {
            short_ns: 100.0,
            root_ns: 50.0,
            long_ns: 200.0,
            cylinder_ns: 10.0,
            knee: 9,
        };
        let curve = SeekCurve::new(&spec, 100).unwrap();
        assert_eq!(curve.time(4), 200);
        assert_eq!(curve.time(9), 290);
        assert_eq!(curve.time(99), 1_190);
    }

    #[test]
    fn a_measured_curve_is_met_and_joined_by_lines() {
        let points = [(2, 1_000), (4, 3_000), (10, 3_600)].map(|(d, t)| (d, Nanos(t)));
        let curve = SeekCurve::new(&SeekSpec::Table(points.to_vec()), 100).unwrap();
        let times = [0, 1, 2, 3, 4, 7, 10, 20].map(|distance| curve.time(distance));
        assert_eq!(times, [0, 1_000, 1_000, 2_000, 3_000, 3_300, 3_600, 4_600]);
        let said = |points: &[(u32, u64)]| {
            let points = points.iter().map(|&(d, t)| (d, Nanos(t))).collect();
            SeekCurve::new(&SeekSpec::Table(points), 100).unwrap_err().0
        };
        assert!(said(&[(1, 10), (2, 9)]).contains("decreases from 1 to 2 cylinders"));
        assert!(said(&[(2, 10), (2, 19)]).contains("are not ascending"));
        assert!(said(&[(1, 0), (2, 9_000_000_000)]).contains("beyond"));
        assert!(said(&[]).contains("are not ascending"));
    }

    #[test]
    fn measured_first_times_override_the_equation() {
        let rest = SeekSpec::Coefficients {
            short_ns: 100.0,
            root_ns: 50.0,
            long_ns: 200.0,
            cylinder_ns: 10.0,
            knee: 9,
        };
        let with = |first: &[u64]| SeekSpec::Prefixed {
            first: first.iter().copied().map(Nanos).collect(),
            rest: Box::new(rest.clone()),
        };
        let curve = SeekCurve::new(&with(&[90, 120, 130]), 100).unwrap();
        assert_eq!([1, 2, 3, 4, 99].map(|d| curve.time(d)), [90, 120, 130, 200, 1_190]);
        let error = SeekCurve::new(&with(&[90, 120, 201]), 100).unwrap_err();
        assert!(error.0.contains("decreases after the first times"), "{error}");
    }

    #[test]
    fn falling_curves_are_refused() {
        let said = |spec: SeekSpec| SeekCurve::new(&spec, 1_000).unwrap_err().0;
        let bare = |root_ns, long_ns, cylinder_ns| SeekSpec::Coefficients {
            short_ns: 1e6,
            root_ns,
            long_ns,
            cylinder_ns,
            knee: 100,
        };
        assert!(said(bare(-1.0, 1e6, 1.0)).contains("decreases before the knee"));
        assert!(said(bare(10.0, 1e6, 0.5)).contains("decreases at the knee"));
        assert!(said(bare(10.0, 2e6, -0.5)).contains("decreases after the knee"));
        assert!(said(bare(f64::NAN, 2e6, 1.0)).contains("NaN"));
        assert!(said(bare(1.0, 2e6, 1e9)).contains("expected 0 to"));
        assert!(said(sheet(9.0, 8.5, 18.0, 0.2)).contains("expected increasing times"));
        assert!(said(sheet(0.8, 17.9, 18.0, 0.2)).contains("change the knee share"));
        assert!(said(sheet(0.8, 8.5, 18.0, 1.0)).contains("between 0 and 1"));
        assert!(SeekCurve::new(&sheet(0.8, 8.5, 18.0, 0.2), 3).is_err());
    }
}
