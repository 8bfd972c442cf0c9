//! DiskSim's `dm_disk` block, which describes a disk's arm, rotation and layout.
//!
//! Supports the layout `dm_layout_g1` and the mechanics `dm_mech_g1` with every kind of seek curve.
//! Files of real drives contain small inconsistencies, which DiskSim accepts but our models don't.
//! Small ones are corrected with a note; gross ones are rejected. Measured seek curves, and fitted
//! equations at their knee, may decrease slightly: by up to [`NOISE_SHARE`] of a time or
//! [`NOISE_MS`]. Such curves are made monotonic with the smallest possible change (pool adjacent
//! violators). Unlike in DiskSim, a few points with larger errors are ignored. As in DiskSim, a
//! negative settling time makes the seeks of writes shorter than those of reads.

use forebay_core::Nanos;
use forebay_core::device::drive::Format;
use forebay_core::device::hdd::{HddSpec, LEN_MAX, Power, SeekSpec};

use crate::file::SETTLE_NEGATIVE_MS_MAX;

use super::layout::{self, Layout, MAX_CYLINDERS, MAX_HEADS};
use super::libparam::{Block, Entry, LibparamError, Value};
use super::params::Params;

/// Notes about parameters that could not be imported, each with its line.
pub(super) type Notes = Vec<(usize, String)>;

/// Reads a seek curve from the named file next to the model file.
pub(super) type Curve<'a> = &'a dyn Fn(&str) -> Result<Vec<SeekPoint>, String>;

/// A point of a measured seek curve.
pub(super) struct SeekPoint {
    pub(super) cylinders: u32,
    pub(super) ms: f64,
    /// The line in the seek file, counted from 1.
    pub(super) line: usize,
}

/// The largest correction of a measured time, as a share of that time; [`NOISE_MS`] applies if it
/// is more. The measured curve of DiskSim's own atlas10k has a point that is off by 23 %.
const NOISE_SHARE: f64 = 0.25;
const NOISE_MS: f64 = 1.0;

/// One in this many measured points may have a larger error; such points are ignored.
const OUTLIERS_ONE_IN: usize = 20;
/// The smallest number of points from which one may be ignored. With fewer, two points can disagree
/// with no majority for either.
const POINTS_FOR_ONE: usize = 4;

/// Reads the arm, platters and format from the `dm_disk` in `block`, and how much shorter the seeks
/// of writes are than those of reads.
pub(super) fn read(
    block: &Block,
    from: &Layout,
    curve: Curve<'_>,
    notes: &mut Notes,
) -> Result<(HddSpec, Format, Nanos), LibparamError> {
    let disk = Params::new(block);
    let heads = disk.needed_count("Number of data surfaces", 1..=MAX_HEADS)?;
    let cylinders = disk.needed_count("Number of cylinders", 1..=MAX_CYLINDERS)?;
    disk.entry("Layout Model"); // already read through `from`
    let mechanics = Params::new(inner(&disk, "Mechanical Model", "dm_mech_g1")?);
    let (mut zones, format) = from.read(notes)?;
    layout::check_cylinders(&disk, cylinders, &mut zones, notes)?;
    let rpm = mechanics.needed("Rotation speed (in rpms)")?;
    if !(60.0..=1_000_000.0).contains(&rpm) {
        let line = mechanics.line_of("Rotation speed (in rpms)");
        return Err((line, format!("rotation speed: got {rpm}, expected 60 to 1000000 rpm")));
    }
    let seek = seek_of(&mechanics, cylinders, curve, notes)?;
    let head_switch = mechanics.time_or_note("Head switch time", notes)?;
    let head_switch = Nanos::from_millis_f64(head_switch);
    let [write_settle, write_less] = settle(&mechanics, notes)?;
    let spec = HddSpec {
        heads,
        zones,
        revolution: Nanos::from_secs_f64(60.0 / rpm),
        start_phase: Nanos::ZERO,
        cylinder_switch: head_switch.max(first_time(&seek)),
        seek,
        write_settle,
        head_switch,
        track_skew: None,
        cylinder_skew: None,
        overhead: Nanos::ZERO,
        len_max: LEN_MAX,
        power: Power::default(),
    };
    layout::check_blocks(&disk, &spec, &format, notes)?;
    if let Some((kind, line)) = mechanics.word("Access time type")
        && kind != "trackSwitchPlusRotation"
    {
        let kind: String = kind.chars().take(60).collect();
        let what = format!(
            "Access time type = {kind} is not modeled; seeks and rotation are \
            simulated"
        );
        notes.push((line, what));
    }
    for params in [&disk, &mechanics] {
        list_unknown(params, &["Access time type", "Skew units"], notes);
    }
    Ok((spec, format, write_less))
}

/// Returns two settling times of writes relative to reads: how much longer their seeks are, and how
/// much shorter. At most one is nonzero.
fn settle(mechanics: &Params<'_>, notes: &mut Notes) -> Result<[Nanos; 2], LibparamError> {
    let key = "Add. write settling delay";
    let ms = mechanics.or_zero(key)?;
    if (-SETTLE_NEGATIVE_MS_MAX..0.0).contains(&ms) {
        let what = format!(
            "{key}: got {ms} ms; this makes the seeks of writes shorter, as in \
            DiskSim"
        );
        notes.push((mechanics.line_of(key), what));
        return Ok([Nanos::ZERO, Nanos::from_millis_f64(-ms)]);
    }
    Ok([Nanos::from_millis_f64(mechanics.time_or_note(key, notes)?), Nanos::ZERO])
}

pub(super) fn list_unknown(params: &Params<'_>, without_effect: &[&str], notes: &mut Notes) {
    for Entry { key, value, line } in params.repeated() {
        notes
            .push((*line, format!("{key} is given more than once; using the last value, {value}")));
    }
    for Entry { key, value, line } in params.unknown(without_effect) {
        notes.push((*line, format!("{key} = {value} is not modeled")));
    }
}

fn inner<'a>(params: &Params<'a>, key: &str, kind: &str) -> Result<&'a Block, LibparamError> {
    match params.entry(key) {
        Some(Entry { value: Value::Block(block), .. }) if block.kind == kind => Ok(block),
        Some(Entry { value, line, .. }) => Err((
            *line,
            format!(
                "{key}: got {value}, expected a {kind} in this file, because no other file is \
                read"
            ),
        )),
        None => Err((params.line(), format!("missing `{key}`, expected a {kind}"))),
    }
}

fn first_time(seek: &SeekSpec) -> Nanos {
    match seek {
        SeekSpec::Table(points) => points.first().map_or(Nanos::ZERO, |point| point.1),
        SeekSpec::Prefixed { first, .. } => first.first().copied().unwrap_or_default(),
        SeekSpec::Datasheet { track_to_track, .. } => *track_to_track,
        SeekSpec::Coefficients { short_ns, root_ns, .. } => {
            Nanos((short_ns + root_ns).max(0.0) as u64)
        }
    }
}

fn seek_of(
    mechanics: &Params<'_>,
    cylinders: u32,
    curve: Curve<'_>,
    notes: &mut Notes,
) -> Result<SeekSpec, LibparamError> {
    let Some((kind, line)) = mechanics.word("Seek type") else {
        return Err((mechanics.line(), "missing `Seek type`, expected its name".to_string()));
    };
    match kind {
        "extracted" => {
            let Some((file, line)) = mechanics.word("Full seek curve") else {
                return Err((
                    mechanics.line(),
                    "missing `Full seek curve`, expected a file".into(),
                ));
            };
            let points = curve(file).map_err(|what| (line, what))?;
            let points = measured(file, line, points, notes)?;
            for key in ["Single cylinder seek time", "Average seek time", "Full strobe seek time"] {
                mechanics.number(key)?;
            }
            let point = |point: SeekPoint| (point.cylinders, Nanos::from_millis_f64(point.ms));
            Ok(SeekSpec::Table(points.into_iter().map(point).collect()))
        }
        "hpl" | "hplplus10" => equation(kind, mechanics, cylinders, line, notes),
        "linear" | "curve" => three_times(kind, mechanics, cylinders, line, notes),
        "constant" => {
            let ms = match mechanics.number("Constant seek time")? {
                Some(_) => mechanics.time("Constant seek time")?,
                None => mechanics.needed_time("Single cylinder seek time")?,
            };
            let time = Nanos::from_millis_f64(ms);
            Ok(SeekSpec::Table(vec![(1, time), (cylinders.max(2), time)]))
        }
        other => Err((
            line,
            format!(
                "Seek type: got '{}', expected extracted, hpl, hplplus10, linear, curve or constant",
                other.chars().take(60).collect::<String>()
            ),
        )),
    }
}

/// Reads the measured curve in `file` (named on `line`), drops outliers and makes the curve
/// monotonic.
fn measured(
    file: &str,
    line: usize,
    mut points: Vec<SeekPoint>,
    notes: &mut Notes,
) -> Result<Vec<SeekPoint>, LibparamError> {
    let said = |point: &SeekPoint| {
        format!("{file}, line {}: {} ms over {} cylinders", point.line, point.ms, point.cylinders)
    };
    if let [only] = &points[..] {
        notes.push((
            line,
            format!("{} is the only point: all seeks have this duration", said(only)),
        ));
    }
    if rise_of(&points).0.beyond_noise.is_some() {
        let out = outliers(&points);
        for point in out.iter().map(|&index| &points[index]) {
            let what = said(point);
            notes.push((line, format!("{what} is left out: it is far from its neighbors")));
        }
        let mut index = 0..;
        points.retain(|_| index.next().is_some_and(|index| out.binary_search(&index).is_err()));
    }
    let (rise, times) = rise_of(&points);
    if let Some(index) = rise.beyond_noise {
        let what = said(&points[index]);
        return Err((line, format!("{what} is too far from an increasing curve, {FALLS}")));
    }
    rise.note("the seek curve", line, notes);
    points.iter_mut().zip(times).for_each(|(point, ms)| point.ms = ms);
    Ok(points)
}

/// Returns the times of `points`, made monotonic, and the size of the corrections.
fn rise_of(points: &[SeekPoint]) -> (Rise, Vec<f64>) {
    let mut times: Vec<f64> = points.iter().map(|point| point.ms).collect();
    (made_to_rise(&mut times), times)
}

/// Returns the indices of the points, in increasing order, that are off the longest increasing part
/// of the curve by more than half the permitted noise. If there are more than may be ignored,
/// returns the farthest ones.
fn outliers(points: &[SeekPoint]) -> Vec<usize> {
    let most = (points.len() / OUTLIERS_ONE_IN).max(usize::from(points.len() >= POINTS_FOR_ONE));
    let rising = longest_rise(points);
    let mut far: Vec<(f64, usize)> = (0..points.len())
        .map(|index| (distance(points, &rising, index), index))
        .filter(|(distance, _)| *distance > 0.5)
        .collect();
    far.sort_by(|one, other| other.0.total_cmp(&one.0));
    far.truncate(most);
    let mut out: Vec<usize> = far.into_iter().map(|(_, index)| index).collect();
    out.sort_unstable();
    out
}

/// Returns how far a point is from the interval between its neighbors among the points `rising`, as
/// a multiple of the permitted noise.
fn distance(points: &[SeekPoint], rising: &[usize], index: usize) -> f64 {
    let after = rising.partition_point(|&other| other < index);
    if rising.get(after) == Some(&index) {
        return 0.0;
    }
    let ms = points[index].ms;
    let low = after.checked_sub(1).map_or(ms, |before| points[rising[before]].ms);
    let high = rising.get(after).map_or(ms, |&after| points[after].ms);
    // If the point is below the lower neighbor, that neighbor is the nearest permitted time.
    let nearest = if ms < low { low } else { high };
    (nearest - ms).abs() / (nearest * NOISE_SHARE).max(NOISE_MS)
}

/// Returns the indices of the longest subsequence of points whose times do not decrease.
fn longest_rise(points: &[SeekPoint]) -> Vec<usize> {
    // For each length, the last point of the subsequence of that length that ends with the lowest
    // time.
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        let length = tails.partition_point(|&tail| points[tail].ms <= point.ms);
        before.push(length.checked_sub(1).map(|shorter| tails[shorter]));
        match tails.get_mut(length) {
            Some(tail) => *tail = index,
            None => tails.push(index),
        }
    }
    let last = tails.last().copied();
    let mut rising: Vec<usize> = std::iter::successors(last, |&index| before[index]).collect();
    rising.reverse();
    rising
}

/// Reads Hewlett-Packard's equation: a square root up to the knee and a line beyond it. The first
/// cylinder, or the first ten, may have separate times.
fn equation(
    kind: &str,
    mechanics: &Params<'_>,
    cylinders: u32,
    line: usize,
    notes: &mut Notes,
) -> Result<SeekSpec, LibparamError> {
    let values = mechanics.numbers("HPL seek equation values")?;
    let [knee, short, root, long, each, first] = values[..] else {
        let line = mechanics.line_of("HPL seek equation values");
        return Err((line, format!("HPL seek equation: got {} values, expected 6", values.len())));
    };
    let knee = knee.max(0.0) as u32;
    let rest = SeekSpec::Coefficients {
        short_ns: short * 1e6,
        root_ns: root * 1e6,
        long_ns: long * 1e6,
        cylinder_ns: each * 1e6,
        knee,
    };
    let at = |distance: u32| match distance < knee {
        true => short + root * f64::from(distance).sqrt(),
        false => long + each * f64::from(distance),
    };
    let mut times = match kind {
        "hplplus10" => first_ten(mechanics, notes)?,
        _ if first >= 0.0 => vec![first],
        _ => Vec::new(),
    };
    for key in ["Single cylinder seek time", "Average seek time", "Full strobe seek time"] {
        mechanics.number(key)?;
    }
    let next = times.len() as u32 + 1;
    let equation = distances(next, cylinders, knee).map(|distance| (distance, at(distance)));
    let equation: Vec<(u32, f64)> = equation.collect();
    let falls = !equation.is_sorted_by(|one, other| one.1 <= other.1);
    if falls && equation.iter().all(|(_, ms)| (0.0..=1_000.0).contains(ms)) {
        let (beyond, more): (Vec<u32>, Vec<f64>) = equation.into_iter().unzip();
        times.extend(more);
        made_to_rise(&mut times).check("the seek equation", line, notes)?;
        let times = times.into_iter().map(Nanos::from_millis_f64);
        return Ok(SeekSpec::Table((1..next).chain(beyond).zip(times).collect()));
    }
    if times.is_empty() {
        return Ok(rest);
    }
    let beyond = at(next);
    times.push(beyond);
    made_to_rise(&mut times).check("the list of first seek times", line, notes)?;
    times.pop();
    let first = times.into_iter().map(|ms| Nanos::from_millis_f64(ms.min(beyond))).collect();
    Ok(SeekSpec::Prefixed { first, rest: Box::new(rest) })
}

/// Reads the seek times over one to ten cylinders. Adds a note unless there are ten of them.
fn first_ten(mechanics: &Params<'_>, notes: &mut Notes) -> Result<Vec<f64>, LibparamError> {
    let key = "First ten seek times";
    let times = mechanics.numbers(key)?;
    if times.len() != 10 {
        let got = times.len();
        let what = format!(
            "{key}: got {got} values, expected 10; the seek times of other distances are computed from the seek equation"
        );
        notes.push((mechanics.line_of(key), what));
    }
    Ok(times)
}

/// Returns distances from `first` to the full stroke in steps of 1 %, plus the distances on both
/// sides of the `knee`.
fn distances(first: u32, cylinders: u32, knee: u32) -> impl Iterator<Item = u32> {
    let last = cylinders.saturating_sub(1).max(first + 1);
    std::iter::successors(Some(first), move |&distance| {
        let next = distance.saturating_add(1 + distance / 100);
        let knees = [knee.saturating_sub(1), knee];
        let stop = knees.into_iter().find(|stop| (distance + 1..next).contains(stop));
        (distance < last).then(|| stop.unwrap_or(next).min(last))
    })
}

/// Returns a curve of `kind` through the three seek times of a data sheet.
fn three_times(
    kind: &str,
    mechanics: &Params<'_>,
    cylinders: u32,
    line: usize,
    notes: &mut Notes,
) -> Result<SeekSpec, LibparamError> {
    let given = [
        mechanics.needed_time("Single cylinder seek time")?,
        mechanics.needed_time("Average seek time")?,
        mechanics.needed_time("Full strobe seek time")?,
    ];
    let points = match kind {
        "linear" => three_points(cylinders, given),
        _ => lee_curve(cylinders, given),
    };
    let (distances, mut times): (Vec<u32>, Vec<f64>) = points.into_iter().unzip();
    made_to_rise(&mut times).check("the curve through the three seek times", line, notes)?;
    let times = times.into_iter().map(Nanos::from_millis_f64);
    Ok(SeekSpec::Table(distances.into_iter().zip(times).collect()))
}

/// Returns straight lines through the seek times of one cylinder, a third of the stroke, and the
/// full stroke.
fn three_points(cylinders: u32, [one, average, full]: [f64; 3]) -> Vec<(u32, f64)> {
    let last = cylinders.saturating_sub(1).max(3);
    vec![(1, one), ((last / 3).max(2), average), (last, full)]
}

/// Returns the curve a * sqrt(d - 1) + b * (d - 1) + c through the three times (Lee and Katz: "An
/// analytic performance model of disk arrays", SIGMETRICS 1993), at distances spaced by a
/// hundredth.
fn lee_curve(cylinders: u32, [one, average, full]: [f64; 3]) -> Vec<(u32, f64)> {
    let all = f64::from(cylinders.max(2));
    let root = (-10.0 * one + 15.0 * average - 5.0 * full) / (3.0 * all.sqrt());
    let each = (7.0 * one - 15.0 * average + 8.0 * full) / (3.0 * all);
    let point = |distance: u32| {
        let beyond = f64::from(distance - 1);
        (distance, root * beyond.sqrt() + each * beyond + one)
    };
    distances(1, cylinders, 1).map(point).collect()
}

const FALLS: &str = "expected increasing times, except for noise (25 % or 1 ms, whichever is more)";

/// The size of the corrections that made a curve monotonic.
struct Rise {
    /// The maximum correction, in ms.
    most: f64,
    /// The point with the largest correction, if that exceeds the permitted noise.
    beyond_noise: Option<usize>,
}

impl Rise {
    fn note(&self, what: &str, line: usize, notes: &mut Notes) {
        if self.most > 0.0 {
            let most = self.most;
            notes.push((line, format!("{what} decreases; corrected by at most {most:.3} ms")));
        }
    }

    fn check(&self, what: &str, line: usize, notes: &mut Notes) -> Result<(), LibparamError> {
        if self.beyond_noise.is_some() {
            let most = self.most;
            return Err((line, format!("{what} decreases by about {most:.3} ms, {FALLS}")));
        }
        self.note(what, line, notes);
        Ok(())
    }
}

/// Replaces `times` by the nearest monotonic sequence (least squares).
fn made_to_rise(times: &mut [f64]) -> Rise {
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for &time in times.iter() {
        let mut block = (time, 1);
        while let Some(&(mean, count)) = blocks.last()
            && mean > block.0
        {
            blocks.pop();
            let all = count + block.1;
            block = ((mean * count as f64 + block.0 * block.1 as f64) / all as f64, all);
        }
        blocks.push(block);
    }
    let risen = blocks.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count));
    let mut rise = Rise { most: 0.0, beyond_noise: None };
    for (index, (time, risen)) in times.iter_mut().zip(risen).enumerate() {
        let moved = (*time - risen).abs();
        if moved > rise.most {
            rise.most = moved;
            let noise = (*time * NOISE_SHARE).max(NOISE_MS);
            rise.beyond_noise = (moved > noise).then_some(index).or(rise.beyond_noise);
        }
        *time = risen;
    }
    rise
}

#[cfg(test)]
mod tests {
    use super::{SeekPoint, lee_curve, made_to_rise, measured, three_points};

    /// Reads a curve with these times in ms. Returns its times and the number of notes.
    fn read_curve(times: &[f64]) -> Result<(Vec<f64>, usize), String> {
        let point = |(index, ms): (usize, &f64)| SeekPoint {
            cylinders: index as u32 + 1,
            ms: *ms,
            line: index + 2,
        };
        let points = times.iter().enumerate().map(point).collect();
        let mut notes = Vec::new();
        let points = measured("c.seek", 1, points, &mut notes).map_err(|(_, what)| what)?;
        Ok((points.iter().map(|point| point.ms).collect(), notes.len()))
    }

    #[test]
    fn points_off_an_increasing_majority_are_left_out() {
        // Three adjacent points of 80, at most four of which may be wrong.
        let rising: Vec<f64> = (0..80).map(|index| 1.0 + f64::from(index) * 0.1).collect();
        let mut dip = rising.clone();
        dip[40..43].fill(1.0);
        let mut expected = rising.clone();
        expected.drain(40..43);
        assert_eq!(read_curve(&dip), Ok((expected, 3)));
        dip[40..45].fill(1.0);
        assert!(read_curve(&dip).unwrap_err().contains("too far from an increasing curve"));
        // One point of a short curve, in the middle and at either end.
        for (times, expected) in [
            ([1.0, 2.0, 4.0, 1.5, 6.0, 7.0], [1.0, 2.0, 4.0, 6.0, 7.0]),
            ([9.0, 2.0, 4.0, 5.0, 6.0, 7.0], [2.0, 4.0, 5.0, 6.0, 7.0]),
            ([1.0, 2.0, 4.0, 5.0, 6.0, 0.5], [1.0, 2.0, 4.0, 5.0, 6.0]),
        ] {
            assert_eq!(read_curve(&times), Ok((expected.to_vec(), 1)), "{times:?}");
        }
        assert!(read_curve(&[1.0, 900.0, 3.0]).is_err());
    }

    #[test]
    fn a_curve_of_one_point_has_a_note() {
        assert_eq!(read_curve(&[1.5]), Ok((vec![1.5], 1)));
        assert_eq!(read_curve(&[1.5, 2.0]), Ok((vec![1.5, 2.0], 0)));
    }

    #[test]
    fn curves_go_through_the_three_times() {
        assert_eq!(three_points(301, [1.0, 5.0, 9.0]), [(1, 1.0), (100, 5.0), (300, 9.0)]);
        // a = (-10 + 75 - 45) / 30 = 2/3 and b = (7 - 75 + 72) / 300 = 4/300.
        let curve = lee_curve(100, [1.0, 5.0, 9.0]);
        let at = |distance| curve.iter().find(|point| point.0 == distance).unwrap().1;
        assert!((at(1) - 1.0).abs() < 1e-12);
        assert!((at(50) - (2.0 / 3.0 * 7.0 + 49.0 * 4.0 / 300.0 + 1.0)).abs() < 1e-12);
        assert_eq!(curve.last().unwrap().0, 99);
    }

    #[test]
    fn a_falling_curve_is_made_to_rise_by_the_least_change() {
        let mut times = [1.0, 3.0, 2.0, 2.5, 4.0];
        let rise = made_to_rise(&mut times);
        assert_eq!((times, rise.most, rise.beyond_noise), ([1.0, 2.5, 2.5, 2.5, 4.0], 0.5, None));
        assert_eq!(made_to_rise(&mut times).most, 0.0);
        assert_eq!(made_to_rise(&mut [1.0, 2.0, 900.0, 4.0, 5.0]).beyond_noise, Some(2));
        assert_eq!(made_to_rise(&mut [100.0, 112.0, 100.0]).beyond_noise, None);
    }
}
