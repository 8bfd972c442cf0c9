//! DiskSim's `dm_disk`: arm, rotation and layout of a disk.
//!
//! Of the layouts `dm_layout_g1` is read, of the mechanics `dm_mech_g1`, with every kind of seek
//! curve it knows. A measured curve that falls somewhere is made to rise by the least change
//! (pool adjacent violators), which is noted.

use forebay_core::Nanos;
use forebay_core::device::drive::{Defects, Format, HeadOrder, SpareRange, Sparing, ZoneFormat};
use forebay_core::device::hdd::{HddSpec, LEN_MAX, Power, SeekSpec, Zone};

use super::libparam::{Block, Entry, Fault, Value};
use super::params::Params;

/// What could not be taken over, each with its line.
pub(super) type Notes = Vec<Fault>;

/// Reads the seek curve in a file beside the model's.
pub(super) type Curve<'a> = &'a dyn Fn(&str) -> Result<Vec<(u32, f64)>, String>;

/// Arm, platters and format of the `dm_disk` in `block`.
pub(super) fn read(
    block: &Block,
    curve: Curve<'_>,
    notes: &mut Notes,
) -> Result<(HddSpec, Format), Fault> {
    let disk = Params::new(block);
    let heads = disk.needed("Number of data surfaces")? as u32;
    let cylinders = disk.needed("Number of cylinders")? as u32;
    let layout = Params::new(inner(&disk, "Layout Model", "dm_layout_g1")?);
    let mechanics = Params::new(inner(&disk, "Mechanical Model", "dm_mech_g1")?);
    let (zones, format) = layout_of(&layout, notes)?;
    let rpm = mechanics.needed("Rotation speed (in rpms)")?;
    if !(60.0..=1_000_000.0).contains(&rpm) {
        let line = mechanics.line_of("Rotation speed (in rpms)");
        return Err((line, format!("rotation speed: got {rpm}, expected 60 to 1000000 rpm")));
    }
    let seek = seek_of(&mechanics, cylinders, curve, notes)?;
    let millis = |key: &str| Ok::<Nanos, Fault>(Nanos::from_millis_f64(mechanics.time(key)?));
    let head_switch = millis("Head switch time")?;
    let spec = HddSpec {
        heads,
        zones,
        revolution: Nanos::from_secs_f64(60.0 / rpm),
        start_phase: Nanos::ZERO,
        cylinder_switch: head_switch.max(first_time(&seek)),
        seek,
        write_settle: millis("Add. write settling delay")?,
        head_switch,
        track_skew: None,
        cylinder_skew: None,
        overhead: Nanos::ZERO,
        len_max: LEN_MAX,
        power: Power::default(),
    };
    disk.number("Block count")?;
    if let Some((kind, line)) = mechanics.word("Access time type")
        && kind != "trackSwitchPlusRotation"
    {
        let kind: String = kind.chars().take(60).collect();
        let what = format!("Access time type = {kind} is not modelled: seeks and rotation are");
        notes.push((line, what));
    }
    for params in [&disk, &layout, &mechanics] {
        list_unknown(params, &["Access time type", "Skew units"], notes);
    }
    Ok((spec, format))
}

pub(super) fn list_unknown(params: &Params<'_>, without_effect: &[&str], notes: &mut Notes) {
    for Entry { key, value, line } in params.unknown(without_effect) {
        notes.push((*line, format!("{key} = {value} is not modelled")));
    }
}

fn inner<'a>(params: &Params<'a>, key: &str, kind: &str) -> Result<&'a Block, Fault> {
    match params.entry(key) {
        Some(Entry { value: Value::Block(block), .. }) if block.kind == kind => Ok(block),
        Some(Entry { value, line, .. }) => Err((
            *line,
            format!("{key}: got {value}, expected a {kind} in this file, no other is read"),
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

fn layout_of(layout: &Params<'_>, notes: &mut Notes) -> Result<(Vec<Zone>, Format), Fault> {
    let refuse = |key: &str, got: u64, expected: &str| {
        Err((layout.line_of(key), format!("{key}: got {got}, expected {expected}")))
    };
    let (mapping, scheme) = ("LBN-to-PBN mapping scheme", "Sparing scheme used");
    let head_order = match layout.count(mapping)? {
        0 => HeadOrder::Forward,
        1 => HeadOrder::SerpentineByZone,
        2 => HeadOrder::Serpentine,
        got => return refuse(mapping, got, "0 to 2"),
    };
    let range = layout.count("Rangesize for sparing")?.clamp(1, 1 << 20) as u32;
    let cylinder = Sparing { range: SpareRange::Cylinders(1), turns: true, ..Sparing::default() };
    let sparing = match layout.count(scheme)? {
        0 | 9 => Sparing::default(),
        1 => Sparing { whole_tracks: true, ..Sparing::default() },
        2 => cylinder,
        3 => Sparing { range: SpareRange::Track, turns: true, ..Sparing::default() },
        4 => Sparing { to_zone_end: true, ..cylinder },
        5 => Sparing { at_front: true, ..cylinder },
        6 => Sparing { at_front: true, to_zone_end: true, ..cylinder },
        7 => Sparing { to_zone_end: true, turns: false, ..cylinder },
        8 => Sparing { range: SpareRange::Cylinders(range), ..Sparing::default() },
        10 => Sparing { to_zone_end: true, ..Sparing::default() },
        got => return refuse(scheme, got, "0 to 10"),
    };
    let listed = match layout.entry("Zones") {
        Some(Entry { value: Value::List(zones), .. }) => zones,
        _ => return Err((layout.line(), "missing `Zones`, expected a list of them".to_string())),
    };
    let (mut zones, mut formats) = (Vec::new(), Vec::new());
    for value in listed {
        let Value::Block(block) = value else {
            return Err((layout.line_of("Zones"), format!("Zones: got {value}, expected a block")));
        };
        let zone = Params::new(block);
        zones.push(Zone {
            first_cylinder: zone.needed("First cylinder number")? as u32,
            last_cylinder: zone.needed("Last cylinder number")? as u32,
            sectors_per_track: zone.needed("Blocks per track")? as u32,
        });
        formats.push(zone_format(&zone)?);
        list_unknown(&zone, &["Skew units"], notes);
    }
    Ok((zones, Format { head_order, sparing, zones: formats }))
}

fn zone_format(zone: &Params<'_>) -> Result<ZoneFormat, Fault> {
    let remaps = zone.counts("defects")?;
    if remaps.len() % 2 == 1 {
        return Err((zone.line_of("defects"), "defects: got an odd number, expected pairs".into()));
    }
    let mut slips = zone.counts("slips")?;
    slips.sort_unstable();
    slips.dedup();
    Ok(ZoneFormat {
        first_angle_sectors: zone.or_zero("Offset of first block")?,
        reserved_sectors: zone.count("Empty space at zone front")?,
        track_skew_sectors: zone.or_zero("Skew for track switch")?,
        cylinder_skew_sectors: zone.or_zero("Skew for cylinder switch")?,
        defects: Defects {
            spares: zone.count("Number of spares")?,
            slips,
            remaps: remaps.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
        },
    })
}

fn seek_of(
    mechanics: &Params<'_>,
    cylinders: u32,
    curve: Curve<'_>,
    notes: &mut Notes,
) -> Result<SeekSpec, Fault> {
    let Some((kind, line)) = mechanics.word("Seek type") else {
        return Err((mechanics.line(), "missing `Seek type`, expected its name".to_string()));
    };
    let millis = |key: &str| Ok::<Nanos, Fault>(Nanos::from_millis_f64(mechanics.needed(key)?));
    match kind {
        "extracted" => {
            let Some((file, line)) = mechanics.word("Full seek curve") else {
                return Err((
                    mechanics.line(),
                    "missing `Full seek curve`, expected a file".into(),
                ));
            };
            let points = curve(file).map_err(|what| (line, what))?;
            let mut times: Vec<f64> = points.iter().map(|point| point.1).collect();
            made_to_rise(&mut times, &mut |most| {
                notes.push((
                    line,
                    format!("the seek curve falls; made to rise, by {most:.3} ms at most"),
                ));
            });
            let distances = points.iter().map(|point| point.0);
            for key in ["Single cylinder seek time", "Average seek time", "Full strobe seek time"] {
                mechanics.number(key)?;
            }
            Ok(SeekSpec::Table(
                distances.zip(times.into_iter().map(Nanos::from_millis_f64)).collect(),
            ))
        }
        "hpl" | "hplplus10" => {
            let values = mechanics.numbers("HPL seek equation values")?;
            let [knee, short, root, long, each, first] = values[..] else {
                let line = mechanics.line_of("HPL seek equation values");
                return Err((
                    line,
                    format!("HPL seek equation: got {} values, expected 6", values.len()),
                ));
            };
            let rest = SeekSpec::Coefficients {
                short_ns: short * 1e6,
                root_ns: root * 1e6,
                long_ns: long * 1e6,
                cylinder_ns: each * 1e6,
                knee: knee.max(0.0) as u32,
            };
            let mut times = match kind {
                "hplplus10" => mechanics.numbers("First ten seek times")?,
                _ if first >= 0.0 => vec![first],
                _ => return Ok(rest),
            };
            let next = f64::from(times.len() as u32 + 1);
            let beyond = if next < knee { short + root * next.sqrt() } else { long + each * next };
            times.push(beyond);
            made_to_rise(&mut times, &mut |most| {
                notes.push((
                    line,
                    format!("the first seek times fall; made to rise, by {most:.3} ms at most"),
                ));
            });
            times.pop();
            let first =
                times.into_iter().map(|ms| Nanos::from_millis_f64(ms.min(beyond))).collect();
            for key in ["Single cylinder seek time", "Average seek time", "Full strobe seek time"] {
                mechanics.number(key)?;
            }
            Ok(SeekSpec::Prefixed { first, rest: Box::new(rest) })
        }
        "linear" | "curve" => three_times(kind, mechanics, cylinders, line, notes),
        "constant" => {
            let time = match mechanics.number("Constant seek time")? {
                Some(ms) => Nanos::from_millis_f64(ms),
                None => millis("Single cylinder seek time")?,
            };
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

/// A curve of `kind` through the three times that data sheets give.
fn three_times(
    kind: &str,
    mechanics: &Params<'_>,
    cylinders: u32,
    line: usize,
    notes: &mut Notes,
) -> Result<SeekSpec, Fault> {
    let given = [
        mechanics.needed("Single cylinder seek time")?,
        mechanics.needed("Average seek time")?,
        mechanics.needed("Full strobe seek time")?,
    ];
    let points = match kind {
        "linear" => three_points(cylinders, given),
        _ => lee_curve(cylinders, given),
    };
    let (distances, mut times): (Vec<u32>, Vec<f64>) = points.into_iter().unzip();
    made_to_rise(&mut times, &mut |most| {
        let what = "the curve through the three seek times falls; made to rise, by";
        notes.push((line, format!("{what} {most:.3} ms at most")));
    });
    let times = times.into_iter().map(Nanos::from_millis_f64);
    Ok(SeekSpec::Table(distances.into_iter().zip(times).collect()))
}

/// Straight lines through the time of one cylinder, of a third of the stroke, of all of it.
fn three_points(cylinders: u32, [one, average, full]: [f64; 3]) -> Vec<(u32, f64)> {
    let last = cylinders.saturating_sub(1).max(3);
    vec![(1, one), ((last / 3).max(2), average), (last, full)]
}

/// The curve a * sqrt(d - 1) + b * (d - 1) + c with the three times (Lee and Katz: "An analytic
/// performance model of disk arrays", SIGMETRICS 1993), at distances a hundredth apart.
fn lee_curve(cylinders: u32, [one, average, full]: [f64; 3]) -> Vec<(u32, f64)> {
    let all = f64::from(cylinders.max(2));
    let root = (-10.0 * one + 15.0 * average - 5.0 * full) / (3.0 * all.sqrt());
    let each = (7.0 * one - 15.0 * average + 8.0 * full) / (3.0 * all);
    let (mut points, mut distance) = (Vec::new(), 1_u32);
    loop {
        let beyond = f64::from(distance - 1);
        points.push((distance, root * beyond.sqrt() + each * beyond + one));
        if distance >= cylinders.saturating_sub(1).max(2) {
            return points;
        }
        let next = distance.saturating_add(1 + distance / 100);
        distance = next.min(cylinders.saturating_sub(1).max(2));
    }
}

/// The rising sequence nearest to `times` by least squares; says by how much it moved one at most.
fn made_to_rise(times: &mut [f64], changed: &mut dyn FnMut(f64)) {
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
    let mut most = 0.0_f64;
    for (time, risen) in times.iter_mut().zip(risen) {
        most = most.max((*time - risen).abs());
        *time = risen;
    }
    if most > 0.0 {
        changed(most);
    }
}

#[cfg(test)]
mod tests {
    use super::{lee_curve, made_to_rise, three_points};

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
        let mut most = 0.0;
        made_to_rise(&mut times, &mut |by| most = by);
        assert_eq!((times, most), ([1.0, 2.5, 2.5, 2.5, 4.0], 0.5));
        made_to_rise(&mut times, &mut |_| panic!("it rises"));
    }
}
