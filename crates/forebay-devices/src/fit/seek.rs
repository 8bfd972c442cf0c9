//! Fits the seek curve to random latencies.
//!
//! The latency of a random read consists of overhead, seek, a rotational delay that is uniformly
//! distributed over one revolution, and the transfer of its block. Reads are grouped into bins of
//! similar seek distance. The third smallest of n latencies in a bin is expected to lie 3/(n+1) of
//! a revolution above the seek time, and is robust against single outliers. The model's curve is
//! fitted to these points by least squares: a square root up to a knee and a line beyond it, joined
//! continuously. The knee is the best value of a grid. The points of a bin are adjusted with the
//! curve of the previous iteration, so that the slope within a bin does not bias the result.

use super::{Figure, FitError, Sample, ZoneFit, cylinder};

/// The number of reads in a bin.
const BIN: usize = 100;
/// The minimum number of reads for a fit.
const POINTS_MIN: usize = 1_000;
/// The rank of the latency that is used from each bin, counted from 1.
const RANK: usize = 3;
/// The number of bootstrap resamples for the standard errors.
const RESAMPLES: usize = 40;

/// A fitted seek curve. Distances are in cylinders.
#[derive(Clone, Debug, PartialEq)]
pub struct SeekFit {
    /// The constant term for short seeks, in ms.
    pub short_ms: Figure,
    /// The coefficient of the square root of the distance, in us.
    pub short_us_per_root: Figure,
    /// The constant term for long seeks, in ms.
    pub long_ms: Figure,
    /// The slope for long seeks, in us per cylinder.
    pub long_us_per_cylinder: Figure,
    /// The knee: the distance at which long seeks begin.
    pub knee_cylinders: u32,
    /// The seek time over one cylinder.
    pub track_to_track_ms: Figure,
    /// The seek time over a third of the disk.
    pub third_stroke_ms: Figure,
    /// The seek time over the whole disk.
    pub full_stroke_ms: Figure,
    /// The root-mean-square difference between the curve and the points that it was fitted to.
    pub misfit_ms: f64,
}

/// What the fit needs to know about the disk.
pub(super) struct Frame<'a> {
    pub(super) zones: &'a [ZoneFit],
    pub(super) heads: u32,
    pub(super) revolution_ns: f64,
    pub(super) overhead_ns: f64,
    /// Returns the media rate in bytes per ns at an offset.
    pub(super) media: &'a dyn Fn(u64) -> f64,
}

/// The distance of a seek in cylinders, and its latency without overhead and transfer, in ns.
type Point = (f64, f64);

#[derive(Clone, Copy, Debug)]
struct Curve {
    short: f64,
    root: f64,
    each: f64,
    knee: f64,
}

impl Curve {
    fn at(&self, distance: f64) -> f64 {
        let beyond = (distance - self.knee).max(0.0);
        self.short + self.root * distance.min(self.knee).sqrt() + self.each * beyond
    }

    /// Returns the constant term of the line for long seeks.
    fn long(&self) -> f64 {
        self.short + self.root * self.knee.sqrt() - self.each * self.knee
    }
}

/// Fits the curve. Also returns how many reads were too fast for a disk, so that the drive's cache
/// must have answered them.
pub(super) fn fit(logs: &[Vec<Sample>], frame: &Frame<'_>) -> Result<(SeekFit, u64), FitError> {
    let (mut points, cached) = points(logs, frame);
    let too_little = |got: String| FitError::TooLittle {
        what: "seek*_lat.*.log",
        got,
        expected: "1000 or more random reads over the whole disk, with latencies that increase \
            with distance",
    };
    if points.len() < POINTS_MIN {
        return Err(too_little(format!("{} reads on another cylinder", points.len())));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let last =
        frame.zones.last().map_or(0, |zone| zone.first_cylinder.saturating_add(zone.cylinders));
    let farthest = f64::from(last.saturating_sub(1).max(1));
    let flat = Curve { short: 0.0, root: 0.0, each: 0.0, knee: 1.0 };
    let mut curve = flat;
    for _ in 0..3 {
        let found = best(&envelope(&points, &curve, frame.revolution_ns), farthest);
        curve =
            found.ok_or_else(|| too_little("latencies that decrease with distance".to_string()))?;
    }
    let mut random = Random(1);
    let mut others = Vec::new();
    for _ in 0..RESAMPLES {
        let drawn: Vec<Point> = points.chunks(BIN).flat_map(|bin| random.resample(bin)).collect();
        others.extend(best(&envelope(&drawn, &curve, frame.revolution_ns), farthest));
    }
    let misfit_ms = misfit(&envelope(&points, &curve, frame.revolution_ns), &curve) / 1e6;
    Ok((SeekFit { misfit_ms, ..described(&curve, &others, farthest) }, cached))
}

/// Returns the root-mean-square difference between `points` and the curve.
fn misfit(points: &[Point], curve: &Curve) -> f64 {
    let squares: f64 = points.iter().map(|(d, seek)| (curve.at(*d) - seek).powi(2)).sum();
    (squares / points.len().max(1) as f64).sqrt()
}

fn points(logs: &[Vec<Sample>], frame: &Frame<'_>) -> (Vec<Point>, u64) {
    let (mut points, mut cached) = (Vec::new(), 0);
    for (before, read) in logs.iter().flat_map(|log| log.iter().zip(log.iter().skip(1))) {
        let at = |offset| cylinder(frame.zones, frame.heads, offset);
        let distance = (at(read.offset) - at(before.offset + u64::from(before.len))).abs();
        let block = f64::from(read.len) / (frame.media)(read.offset);
        let rest = read.latency_ns - frame.overhead_ns - block;
        if distance < 1.0 {
            continue;
        }
        if rest <= 0.0 {
            cached += 1;
        } else {
            points.push((distance, rest));
        }
    }
    (points, cached)
}

/// Returns the mean distance and the seek time of each bin. `level` corrects for the slope within a
/// bin.
fn envelope(points: &[Point], level: &Curve, revolution_ns: f64) -> Vec<Point> {
    let bins = points.chunks(BIN).filter(|bin| bin.len() > BIN / 2);
    bins.map(|bin| {
        let count = bin.len() as f64;
        let distance = bin.iter().map(|point| point.0).sum::<f64>() / count;
        let mut above: Vec<f64> = bin.iter().map(|point| point.1 - level.at(point.0)).collect();
        let (_, ranked, _) = above.select_nth_unstable_by(RANK - 1, f64::total_cmp);
        let lowest = *ranked - revolution_ns * RANK as f64 / (count + 1.0);
        (distance, lowest + level.at(distance))
    })
    .collect()
}

/// Returns the best monotonic curve (least squares) over a grid of knees.
fn best(points: &[Point], farthest: f64) -> Option<Curve> {
    let curves = (1..=30).filter_map(|step| {
        let knee = (farthest * f64::from(step) * 0.02).round().max(2.0);
        let curve = least_squares(points, knee)?;
        let rises = curve.short + curve.root >= 0.0 && curve.root >= 0.0 && curve.each >= 0.0;
        let error: f64 = points.iter().map(|(d, seek)| (curve.at(*d) - seek).powi(2)).sum();
        rises.then_some((error, curve))
    });
    curves.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, curve)| curve)
}

/// Fits `short + root * sqrt(min(d, knee)) + each * max(d - knee, 0)` by solving the normal
/// equations.
fn least_squares(points: &[Point], knee: f64) -> Option<Curve> {
    let mut rows = [[0.0; 4]; 3];
    for (distance, seek) in points {
        let basis = [1.0, (distance.min(knee) / knee).sqrt(), (distance - knee).max(0.0) / knee];
        for (row, left) in rows.iter_mut().zip(basis) {
            for (cell, right) in row.iter_mut().zip(basis.into_iter().chain([*seek])) {
                *cell += left * right;
            }
        }
    }
    let [short, root, each] = solve(rows)?;
    Some(Curve { short, root: root / knee.sqrt(), each: each / knee, knee })
}

/// Solves the equations by Gaussian elimination with pivoting. Returns `None` if the points do not
/// determine the curve.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let largest =
            |a: &usize, b: &usize| rows[*a][column].abs().total_cmp(&rows[*b][column].abs());
        let pivot = (column..3).max_by(largest)?;
        rows.swap(column, pivot);
        let top = rows[column];
        if top[column].abs() < 1e-9 {
            return None;
        }
        for (index, row) in rows.iter_mut().enumerate() {
            if index != column {
                let share = row[column] / top[column];
                row.iter_mut().zip(top).for_each(|(cell, above)| *cell -= share * above);
            }
        }
    }
    Some([0, 1, 2].map(|index| rows[index][3] / rows[index][index]))
}

fn described(curve: &Curve, others: &[Curve], farthest: f64) -> SeekFit {
    let figure = |of: &dyn Fn(&Curve) -> f64, scale: f64| {
        let value = of(curve);
        let squares: f64 = others.iter().map(|other| (of(other) - value).powi(2)).sum();
        let error = (squares / others.len().max(1) as f64).sqrt();
        Figure { value, error }.scaled(scale)
    };
    SeekFit {
        short_ms: figure(&|curve| curve.short, 1e-6),
        short_us_per_root: figure(&|curve| curve.root, 1e-3),
        long_ms: figure(&Curve::long, 1e-6),
        long_us_per_cylinder: figure(&|curve| curve.each, 1e-3),
        knee_cylinders: curve.knee as u32,
        track_to_track_ms: figure(&|curve| curve.at(1.0), 1e-6),
        third_stroke_ms: figure(&|curve| curve.at(farthest / 3.0), 1e-6),
        full_stroke_ms: figure(&|curve| curve.at(farthest), 1e-6),
        misfit_ms: 0.0,
    }
}

/// A 64-bit linear congruential generator of which only the high bits are used.
struct Random(u64);

impl Random {
    fn resample(&mut self, bin: &[Point]) -> Vec<Point> {
        let mut draw = || {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            bin[(self.0 >> 33) as usize % bin.len()]
        };
        (0..bin.len()).map(|_| draw()).collect()
    }
}
