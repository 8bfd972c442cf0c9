//! The picture of head positions: one run in a plot, cylinder over time.
//!
//! A whole run has up to some 100 000 points. They are counted in cells of two picture units and
//! drawn as vertical runs of cells in four shades, so that a picture stays below 120 kB however
//! long the run was. A closer look at few points is drawn as a line from point to point.

use std::fmt::Write;

use super::axis::Axis;
use super::plot::{BOTTOM, Caption, LEFT, Plot, RIGHT, TOP};

/// Size of a picture.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 330.0;
/// Picture units a cell is wide and high.
const CELL: f64 = 2.0;
const COLUMNS: usize = ((WIDTH - LEFT - RIGHT) / CELL) as usize;
const ROWS: usize = ((HEIGHT - TOP - BOTTOM) / CELL) as usize;
/// Shades of density, told apart by the style sheet's classes `d1` to `d4`.
const SHADES: usize = 4;
/// Points that a closer look shows of the baseline.
const CLOSER_POINTS: usize = 160;

/// (seconds, cylinder) of I/Os in time order.
pub(super) type Points<'a> = &'a [(f64, u32)];

/// What both pictures of a pair share: time span, cylinders and what the darkest shade means.
pub(super) struct Ground {
    from_s: f64,
    to_s: f64,
    /// The lowest and the highest that is drawn.
    cylinders: (u32, u32),
    densest: u32,
}

/// The lowest and the highest cylinder of `points`, at least one apart.
fn reached<'a>(points: impl Iterator<Item = &'a (f64, u32)>) -> (u32, u32) {
    let (mut lowest, mut highest) = (u32::MAX, 0);
    for &(_, cylinder) in points {
        (lowest, highest) = (lowest.min(cylinder), highest.max(cylinder));
    }
    let lowest = lowest.min(highest);
    (lowest, highest.max(lowest.saturating_add(1)))
}

impl Ground {
    /// For two whole runs.
    pub(super) fn whole(a: Points<'_>, b: Points<'_>) -> Ground {
        let end = |points: Points<'_>| points.last().map_or(0.0, |point| point.0);
        let to_s = end(a).max(end(b));
        let cylinders = reached(a.iter().chain(b));
        let mut ground = Ground { from_s: 0.0, to_s, cylinders, densest: 1 };
        ground.densest = typical_densest(&ground.cells(a)).max(typical_densest(&ground.cells(b)));
        ground
    }

    /// For a closer look at the middle of the shorter run, long enough for some of the
    /// baseline's movements. `None` where the whole picture shows as much.
    pub(super) fn closer(baseline: Points<'_>, other: Points<'_>) -> Option<Ground> {
        let from_s = baseline.last()?.0.min(other.last()?.0) / 2.0;
        let first = baseline.partition_point(|point| point.0 < from_s);
        if baseline.len() < 4 * CLOSER_POINTS {
            return None;
        }
        let to_s = baseline.get(first + CLOSER_POINTS).or(baseline.last())?.0;
        let shown = baseline.iter().chain(other);
        let cylinders = reached(shown.filter(|point| (from_s..=to_s).contains(&point.0)));
        (to_s > from_s).then_some(Ground { from_s, to_s, cylinders, densest: 1 })
    }

    fn x(&self) -> Axis {
        let (left, right) = Plot::across(WIDTH);
        Axis::between(self.from_s, self.to_s, left, right)
    }

    fn y(&self) -> Axis {
        let (bottom, top) = Plot::upwards(HEIGHT);
        let (lowest, highest) = self.cylinders;
        Axis::between(f64::from(lowest), f64::from(highest), bottom, top)
    }

    /// Points in each cell, column by column from the top.
    fn cells(&self, points: Points<'_>) -> Vec<u32> {
        let (x, y) = (self.x(), self.y());
        let mut cells = vec![0u32; COLUMNS * ROWS];
        for &(s, cylinder) in points {
            let column = ((x.at(s) - LEFT) / CELL) as usize;
            let row = ((y.at(f64::from(cylinder)) - TOP) / CELL) as usize;
            if let Some(cell) = cells.get_mut(column.min(COLUMNS - 1) * ROWS + row.min(ROWS - 1)) {
                *cell += 1;
            }
        }
        cells
    }

    /// A whole run as shades of density.
    pub(super) fn density(&self, caption: &Caption<'_>, points: Points<'_>) -> String {
        let mut plot = self.plot(caption);
        let cells = self.cells(points);
        let most = f64::from(self.densest.max(1)).ln_1p();
        let shade = |count: u32| match count {
            0 => 0,
            count => ((f64::from(count).ln_1p() / most * SHADES as f64) as usize).clamp(1, SHADES),
        };
        let shades: Vec<usize> = cells.iter().map(|count| shade(*count)).collect();
        plot.add(&format!(
            "<g class=\"density\" transform=\"translate({LEFT} {TOP}) scale({CELL})\">"
        ));
        for level in 1..=SHADES {
            let path = runs(&shades, level);
            if !path.is_empty() {
                plot.add(&format!("<path class=\"d{level}\" d=\"{path}\"/>"));
            }
        }
        plot.add("</g>");
        plot.finish()
    }

    /// What lies within the span, as a line from I/O to I/O.
    pub(super) fn path(&self, caption: &Caption<'_>, points: Points<'_>) -> String {
        /// More than a picture can tell apart.
        const POINTS_MAX: usize = 2000;
        let first = points.partition_point(|point| point.0 < self.from_s);
        let within = points.iter().skip(first).take_while(|point| point.0 <= self.to_s);
        let within = within.take(POINTS_MAX);
        let within: Vec<(f64, f64)> = within.map(|&(s, c)| (s, f64::from(c))).collect();
        let mut plot = self.plot(caption);
        plot.line(&within, "head-line");
        plot.dots(&within, "head-dots");
        plot.finish()
    }

    /// Whether so few points are best drawn as a line.
    pub(super) fn is_sparse(a: Points<'_>, b: Points<'_>) -> bool {
        a.len().max(b.len()) < 4 * CLOSER_POINTS
    }

    fn plot(&self, caption: &Caption<'_>) -> Plot {
        Plot::new(caption, (WIDTH, HEIGHT), (self.x(), "time, s"), (self.y(), "cylinder"))
    }
}

/// The count that all but the densest twentieth of the touched cells stay below.
fn typical_densest(cells: &[u32]) -> u32 {
    let mut counts: Vec<u32> = cells.iter().copied().filter(|count| *count > 0).collect();
    counts.sort_unstable();
    counts.get(counts.len() * 19 / 20).copied().unwrap_or(1)
}

/// A path of one vertical stroke for each run of cells of shade `level`, in units of cells.
fn runs(shades: &[usize], level: usize) -> String {
    let mut path = String::new();
    let (mut pen_column, mut pen_row) = (0i64, 0i64);
    for (column, rows) in shades.chunks(ROWS).enumerate() {
        let mut row = 0;
        while row < rows.len() {
            let length = rows[row..].iter().take_while(|shade| **shade == level).count();
            if length == 0 {
                row += 1;
                continue;
            }
            let (right, down) = (column as i64 - pen_column, row as i64 - pen_row);
            // The first stroke starts in the middle of its column, the others follow from it.
            let start = if path.is_empty() { format!("M{right}.5") } else { format!("m{right}") };
            let gap = if down < 0 { "" } else { " " };
            let _ = write!(path, "{start}{gap}{down}v{length}");
            row += length;
            (pen_column, pen_row) = (column as i64, row as i64);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTION: Caption<'_> = Caption { id: "x", title: "t", description: "d" };

    #[test]
    fn runs_are_strokes_relative_to_each_other() {
        let mut shades = vec![0; 3 * ROWS];
        shades[4..7].fill(1);
        shades[2 * ROWS + 1] = 1;
        shades[2 * ROWS + 3] = 2;
        assert_eq!(runs(&shades, 1), "M0.5 4v3m2-6v1");
        assert_eq!(runs(&shades, 2), "M2.5 3v1");
        assert_eq!(runs(&shades, 3), "");
    }

    #[test]
    fn any_run_fits_the_page() {
        let scattered = |index: u64| (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32;
        let points: Vec<(f64, u32)> =
            (0..100_000).map(|index| (index as f64 / 100.0, scattered(index) % 1000)).collect();
        let svg = Ground::whole(&points, &points).density(&CAPTION, &points);
        assert!(svg.len() < 160_000, "{}", svg.len());
        roxmltree::Document::parse(&svg).unwrap();
    }

    #[test]
    fn the_lowest_cylinder_is_at_the_bottom() {
        let ground = Ground { from_s: 0.0, to_s: 1.0, cylinders: (0, 10), densest: 1 };
        let cells = ground.cells(&[(0.0, 0), (1.0, 10)]);
        assert_eq!((cells[ROWS - 1], cells[(COLUMNS - 1) * ROWS]), (1, 1));
    }

    #[test]
    fn a_closer_look_lies_within_both_runs() {
        let slow: Vec<(f64, u32)> = (0..1000).map(|index| (f64::from(index), 1)).collect();
        let fast: Vec<(f64, u32)> = (0..1000).map(|index| (f64::from(index) / 2.0, 1)).collect();
        let ground = Ground::closer(&slow, &fast).unwrap();
        assert!(ground.from_s < 250.0 && ground.to_s > ground.from_s && ground.to_s < 499.0);
        assert!(Ground::closer(&slow[..3], &fast).is_none());
        assert!(Ground::closer(&[], &fast).is_none());
    }
}
