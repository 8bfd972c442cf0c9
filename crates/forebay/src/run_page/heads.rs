//! Draws head positions: a chart of cylinder over time for one run.
//!
//! A complete run has up to about 100,000 points. They are counted in cells of two by two picture
//! units and drawn as vertical strokes of cells in four shades. This way, a picture stays below 120
//! kB for runs of any length. A closer look, which has few points, is drawn as a line from point to
//! point.

use std::fmt::Write;

use super::closer::{self, CLOSER_POINTS, Look};
use crate::contention::stream_label;
use crate::head::HeadPoint;
use forebay_show::html::axis::Axis;
use forebay_show::html::charts::STRIPS;
use forebay_show::html::plot::{BOTTOM, Caption, LEFT, Plot, RIGHT, TOP};
use forebay_show::html::text::{bytes, count, seconds, significant};

/// The width of a picture in picture units.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 330.0;
/// The width and the height of a cell in picture units.
const CELL: f64 = 2.0;
const COLUMNS: usize = ((WIDTH - LEFT - RIGHT) / CELL) as usize;
const ROWS: usize = ((HEIGHT - TOP - BOTTOM) / CELL) as usize;
/// The number of shades for densities. The classes `d1` to `d4` of the style sheet set their
/// colors.
const SHADES: usize = 4;

/// The I/Os of a run in order of time.
pub(super) type Points<'a> = &'a [HeadPoint];

/// The maximum number of I/Os with a tooltip in a closer look.
const NAMED_MAX: usize = 4 * CLOSER_POINTS;

/// The scales that both pictures of a pair share: the time span, the cylinders, and the density of
/// the darkest shade.
pub(super) struct Ground {
    from_s: f64,
    to_s: f64,
    /// The lowest and the highest cylinder in the picture.
    cylinders: (u32, u32),
    densest: u32,
}

/// Returns the lowest and the highest cylinder of `points`, with a difference of at least one.
fn reached<'a>(points: impl Iterator<Item = &'a HeadPoint>) -> (u32, u32) {
    let (mut lowest, mut highest) = (u32::MAX, 0);
    for &HeadPoint { cylinder, .. } in points {
        (lowest, highest) = (lowest.min(cylinder), highest.max(cylinder));
    }
    let lowest = lowest.min(highest);
    (lowest, highest.max(lowest.saturating_add(1)))
}

impl Ground {
    /// Returns the scales for the pictures of two complete runs.
    pub(super) fn whole(a: Points<'_>, b: Points<'_>) -> Ground {
        let end = |points: Points<'_>| points.last().map_or(0.0, HeadPoint::done_s);
        let to_s = end(a).max(end(b));
        let cylinders = reached(a.iter().chain(b));
        let mut ground = Ground { from_s: 0.0, to_s, cylinders, densest: 1 };
        ground.densest = typical_densest(&ground.cells(a)).max(typical_densest(&ground.cells(b)));
        ground
    }

    /// Returns the scales for a closer look at two runs; `None` if it would show no more than the
    /// complete picture.
    pub(super) fn closer(baseline: Points<'_>, other: Points<'_>) -> Option<(Ground, Look)> {
        if baseline.len() < 4 * CLOSER_POINTS {
            return None;
        }
        let look = closer::look(baseline, other)?;
        let Look { from_s, to_s, .. } = look;
        let shown = [baseline, other].map(|points| closer::between(points, (from_s, to_s)));
        let cylinders = reached(shown.into_iter().flatten());
        Some((Ground { from_s, to_s, cylinders, densest: 1 }, look))
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

    /// Returns the number of points in each cell, column by column, each from the top down.
    fn cells(&self, points: Points<'_>) -> Vec<u32> {
        let (x, y) = (self.x(), self.y());
        let mut cells = vec![0u32; COLUMNS * ROWS];
        for point in points {
            let column = ((x.at(point.done_s()) - LEFT) / CELL) as usize;
            let row = ((y.at(f64::from(point.cylinder)) - TOP) / CELL) as usize;
            if let Some(cell) = cells.get_mut(column.min(COLUMNS - 1) * ROWS + row.min(ROWS - 1)) {
                *cell += 1;
            }
        }
        cells
    }

    /// Draws a complete run, with densities as shades. Each vertical strip has a tooltip with the
    /// number of its I/Os and the slowest of them.
    pub(super) fn density(
        &self,
        caption: &Caption<'_>,
        points: Points<'_>,
        streams: &[String],
    ) -> String {
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
        self.strips(&mut plot, points, streams);
        plot.finish()
    }

    fn strips(&self, plot: &mut Plot, points: Points<'_>, streams: &[String]) {
        let width = (self.to_s - self.from_s) / STRIPS as f64;
        let mut rest = points;
        for strip in 0..STRIPS {
            let (from_s, to_s) = (strip as f64 * width, (strip + 1) as f64 * width);
            let is_last = strip + 1 == STRIPS;
            let end = rest.partition_point(|point| is_last || point.done_s() < to_s);
            let (within, after) = rest.split_at(end);
            rest = after;
            let Some(slowest) = within.iter().max_by_key(|point| point.took()) else { continue };
            let told = format!(
                "{} to {}: {} I/Os; the slowest: {}",
                seconds(from_s),
                seconds(to_s),
                count(within.len() as u64),
                told(slowest, streams)
            );
            plot.strip((from_s, to_s), &told);
        }
    }

    /// Returns the points within the time span.
    pub(super) fn within<'a>(&self, points: Points<'a>) -> Points<'a> {
        /// The maximum number of points that a picture can show separately.
        const POINTS_MAX: usize = 2000;
        let within = closer::between(points, (self.from_s, self.to_s));
        &within[..within.len().min(POINTS_MAX)]
    }

    /// Draws the points within the time span as a line from each I/O to the next, with a tooltip
    /// for each I/O.
    pub(super) fn path(
        &self,
        caption: &Caption<'_>,
        points: Points<'_>,
        streams: &[String],
    ) -> String {
        let within = self.within(points);
        let at = |point: &HeadPoint| (point.done_s(), f64::from(point.cylinder));
        let places: Vec<(f64, f64)> = within.iter().map(at).collect();
        let mut plot = self.plot(caption);
        plot.zoomable();
        plot.line(&places, "head-line");
        plot.dots(&places, "head-dots");
        for point in within.iter().step_by(within.len().div_ceil(NAMED_MAX).max(1)) {
            plot.spot(at(point), &told(point, streams));
        }
        plot.finish()
    }

    /// Describes the picture in words, for readers who cannot see it.
    pub(super) fn told(&self, points: Points<'_>) -> String {
        let within = closer::between(points, (self.from_s, self.to_s));
        let (lowest, highest) = reached(within.iter());
        match within.len() {
            0 => "no reads and no writes".to_string(),
            all => format!(
                "{} reads and writes at cylinders {} to {}, {} apart on average",
                count(all as u64),
                count(lowest.into()),
                count(highest.into()),
                significant(closer::apart(within))
            ),
        }
    }

    /// Returns whether there are few enough points to draw them as a line.
    pub(super) fn is_sparse(a: Points<'_>, b: Points<'_>) -> bool {
        a.len().max(b.len()) < 4 * CLOSER_POINTS
    }

    fn plot(&self, caption: &Caption<'_>) -> Plot {
        Plot::new(caption, (WIDTH, HEIGHT), (self.x(), "time, s"), (self.y(), "cylinder"))
    }
}

/// Formats an I/O with its stream and its time, for a tooltip.
fn told(point: &HeadPoint, streams: &[String]) -> String {
    format!(
        "{} of {} by {} at cylinder {}, dispatched at {}, done in {}",
        point.op.name(),
        bytes(f64::from(point.len)),
        stream_label(streams, point.stream),
        count(point.cylinder.into()),
        seconds_exactly(point.started.as_secs_f64()),
        seconds(point.took().as_secs_f64()),
    )
}

/// The table cells of an I/O: its start time, operation, size in bytes, stream, cylinder and
/// duration.
pub(crate) type IoRow = [String; 6];

/// The column headings for the cells of [`IoRow`].
pub(crate) const IO_HEADS: [&str; 6] =
    ["dispatched at", "operation", "bytes", "stream", "cylinder", "done in"];

/// Returns the table rows of the first `most` I/Os.
pub(super) fn io_rows(points: Points<'_>, streams: &[String], most: usize) -> Vec<IoRow> {
    let row = |point: &HeadPoint| {
        [
            seconds_exactly(point.started.as_secs_f64()),
            point.op.name().to_string(),
            bytes(f64::from(point.len)),
            stream_label(streams, point.stream),
            count(point.cylinder.into()),
            seconds(point.took().as_secs_f64()),
        ]
    };
    points.iter().take(most).map(row).collect()
}

/// Formats a time with enough digits to distinguish it from the times of neighboring I/Os.
fn seconds_exactly(s: f64) -> String {
    format!("{s:.4}\u{a0}s")
}

/// Returns the 95th percentile of the counts in cells that are not empty.
fn typical_densest(cells: &[u32]) -> u32 {
    let mut counts: Vec<u32> = cells.iter().copied().filter(|count| *count > 0).collect();
    counts.sort_unstable();
    counts.get(counts.len() * 19 / 20).copied().unwrap_or(1)
}

/// Returns an SVG path with one vertical stroke for each sequence of cells of shade `level`, in
/// units of cells.
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
            // The first stroke starts at an absolute position, in the middle of its column; the
            // others are relative to the end of the previous stroke.
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

    use forebay_core::{Nanos, Op};

    const CAPTION: Caption<'_> = Caption { id: "x", title: "t", description: "d" };

    fn point(s: f64, cylinder: u32) -> HeadPoint {
        let done = Nanos((s * 1e9) as u64);
        let started = Nanos(done.0.saturating_sub(5_000_000));
        HeadPoint { started, done, cylinder, len: 65_536, stream: 1, op: Op::Write }
    }

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
        let points: Vec<HeadPoint> = (0..100_000)
            .map(|index| point(index as f64 / 100.0, scattered(index) % 1000))
            .collect();
        let svg = Ground::whole(&points, &points).density(&CAPTION, &points, &[]);
        assert!(svg.len() < 180_000, "{}", svg.len());
        roxmltree::Document::parse(&svg).unwrap();
    }

    #[test]
    fn each_part_of_a_run_counts_its_ios_and_names_the_slowest() {
        let mut points: Vec<HeadPoint> =
            (0..6001).map(|index| point(f64::from(index), 7)).collect();
        points[150].started = Nanos(100_000_000_000);
        let streams = ["zero".to_string(), "<one>".to_string()];
        let svg = Ground::whole(&points, &points).density(&CAPTION, &points, &streams);
        let document = roxmltree::Document::parse(&svg).unwrap();
        let strips: Vec<&str> = document
            .descendants()
            .filter(|node| node.attribute("class") == Some("strip"))
            .filter_map(|node| node.first_element_child()?.text())
            .collect();
        assert_eq!(strips.len(), STRIPS);
        assert!(strips[0].starts_with("0\u{a0}s to 100\u{a0}s: 100 I/Os; "), "{}", strips[0]);
        assert!(strips[1].ends_with(
            "the slowest: write of 64\u{a0}KiB by <one> at cylinder 7, dispatched at 100.0000\u{a0}s, done in 50.0\u{a0}s"
        ), "{}", strips[1]);
        // The last strip ends where the run ends.
        assert!(strips[STRIPS - 1].contains(" 101 I/Os"), "{}", strips[STRIPS - 1]);
    }

    #[test]
    fn each_io_of_a_closer_look_says_what_it_is() {
        let points: Vec<HeadPoint> =
            (0..5000).map(|index| point(f64::from(index), index)).collect();
        let ground = Ground { from_s: 10.0, to_s: 19.0, cylinders: (0, 5000), densest: 1 };
        let svg = ground.path(&CAPTION, &points, &[]);
        let spots: Vec<&str> = svg.split("class=\"spot\"").skip(1).collect();
        assert_eq!(spots.len(), 10);
        assert!(
            spots[0].contains("write of 64\u{a0}KiB by 1 at cylinder 10, dispatched at 9.9950")
        );
        let told = ground.told(&points);
        assert_eq!(told, "10 reads and writes at cylinders 10 to 19, 1.00 apart on average");
        assert_eq!(ground.told(&points[..5]), "no reads and no writes");
        let long = Ground { from_s: 0.0, to_s: 5000.0, ..ground };
        let svg = long.path(&CAPTION, &points, &[]);
        assert!((NAMED_MAX / 2..=NAMED_MAX).contains(&svg.matches("class=\"spot\"").count()));
        let rows = io_rows(ground.within(&points), &[], 3);
        assert_eq!((rows.len(), &rows[0][..2]), (3, &["9.9950\u{a0}s".into(), "write".into()][..]));
    }

    #[test]
    fn the_lowest_cylinder_is_at_the_bottom() {
        let ground = Ground { from_s: 0.0, to_s: 1.0, cylinders: (0, 10), densest: 1 };
        let cells = ground.cells(&[point(0.0, 0), point(1.0, 10)]);
        assert_eq!((cells[ROWS - 1], cells[(COLUMNS - 1) * ROWS]), (1, 1));
    }

    #[test]
    fn a_closer_look_lies_within_both_runs() {
        let slow: Vec<HeadPoint> = (0..1000).map(|index| point(f64::from(index), 1)).collect();
        let fast: Vec<HeadPoint> =
            (0..1000).map(|index| point(f64::from(index) / 2.0, 1)).collect();
        let (ground, _) = Ground::closer(&slow, &fast).unwrap();
        assert!(ground.from_s < 250.0 && ground.to_s > ground.from_s && ground.to_s < 499.0);
        assert!(Ground::closer(&slow[..3], &fast).is_none());
        assert!(Ground::closer(&[], &fast).is_none());
    }
}
