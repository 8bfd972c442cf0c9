//! DiskSim's layout of a disk (`dm_layout_g1`): zones, sparing and skews.
//!
//! The layout is either inside the `dm_disk` block or in a separate file named by `source FILE`.

use forebay_core::device::drive::{
    Defects, DriveSpec, Format, HeadOrder, SpareRange, Sparing, ZoneFormat,
};
use forebay_core::device::hdd::{HddSpec, Zone};

use super::libparam::{Block, Entry, LibparamError, Value};
use super::model::{Notes, list_unknown};
use super::params::Params;

/// The disk model's maximum number of cylinders. It is checked here so that the error uses
/// DiskSim's terms.
pub(super) const MAX_CYLINDERS: u32 = 1 << 22;
pub(super) const MAX_HEADS: u32 = 64;
const MAX_TRACK: u32 = (1 << 20) - 1;

/// The block with the layout, and where it was found.
pub(super) struct Layout {
    /// A `dm_layout_g1` block.
    pub(super) block: Block,
    /// The separate file that contains the block, if any.
    pub(super) file: Option<String>,
    /// The line of the model file that refers to the layout.
    pub(super) line: usize,
}

impl Layout {
    /// Reads the zones and their format. Errors in a separate file are reported at the line of the
    /// model file that names it.
    pub(super) fn read(&self, notes: &mut Notes) -> Result<(Vec<Zone>, Format), LibparamError> {
        let mut own = Notes::new();
        let of_model = |(line, what): LibparamError| match &self.file {
            None => (line, what),
            Some(file) => (self.line, format!("{file}, line {line}: {what}")),
        };
        let read = layout_of(&Params::new(&self.block), &mut own).map_err(of_model);
        notes.extend(own.into_iter().map(of_model));
        read
    }
}

/// Checks that the zones lie within the cylinders of `disk`. A zone that ends one cylinder too
/// late, as if cylinders were counted from 1, is clipped.
pub(super) fn check_cylinders(
    disk: &Params<'_>,
    cylinders: u32,
    zones: &mut [Zone],
    notes: &mut Notes,
) -> Result<(), LibparamError> {
    let key = "Number of cylinders";
    let used = zones.last().map_or(0, |zone| zone.last_cylinder + 1);
    if let Some(zone) = zones.last_mut()
        && zone.last_cylinder == cylinders
        && zone.first_cylinder < cylinders
    {
        zone.last_cylinder -= 1;
        let what =
            format!("{key}: got {cylinders}, the last zone ends at {cylinders}; clipped by 1");
        notes.push((disk.line_of(key), what));
        return Ok(());
    }
    if cylinders < used {
        let what = format!("{key}: got {cylinders}, expected {used} or more, where the zones end");
        return Err((disk.line_of(key), what));
    }
    if cylinders > used {
        let what = format!("no zone covers the cylinders {used} to {}", cylinders - 1);
        notes.push((disk.line_of(key), what));
    }
    Ok(())
}

/// Adds a note if `Block count` differs from the size of the zones by more than spares and defects
/// explain.
pub(super) fn check_blocks(
    disk: &Params<'_>,
    spec: &HddSpec,
    format: &Format,
    notes: &mut Notes,
) -> Result<(), LibparamError> {
    let key = "Block count";
    if disk.number(key)?.is_none() {
        return Ok(());
    }
    let (got, heads) = (disk.count(key)?, u64::from(spec.heads));
    let sectors = |zone: &Zone| {
        let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder) + 1;
        cylinders * heads * u64::from(zone.sectors_per_track)
    };
    let most: u64 = spec.zones.iter().map(sectors).sum();
    let held = held(spec, format).unwrap_or(most);
    // Spare, slipped and reserved sectors may also have been counted differently, which permits the
    // same difference again.
    let least = held.saturating_sub(most - held.min(most));
    if !(least..=most).contains(&got) {
        let what = format!("{key}: got {got}, but the zones hold {held}; using the zones");
        notes.push((disk.line_of(key), what));
    }
    Ok(())
}

/// Returns the number of sectors that hold data.
fn held(spec: &HddSpec, format: &Format) -> Option<u64> {
    use forebay_core::Device;
    use forebay_core::device::drive::{Controller, Drive};
    let (disk, format) = (spec.clone(), Some(format.clone()));
    let drive = Drive::new(&DriveSpec { disk, format, controller: Controller::default() }).ok()?;
    Some(drive.capacity() / 512)
}

fn layout_of(layout: &Params<'_>, notes: &mut Notes) -> Result<(Vec<Zone>, Format), LibparamError> {
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
        _ => return Err((layout.line(), "missing `Zones`, expected a list of zones".to_string())),
    };
    let (mut zones, mut formats): (Vec<Zone>, _) = (Vec::new(), Vec::new());
    for value in listed {
        let Value::Block(block) = value else {
            return Err((layout.line_of("Zones"), format!("Zones: got {value}, expected a block")));
        };
        let zone = Params::new(block);
        let next = zones.last().map_or(0, |zone| zone.last_cylinder + 1);
        zones.push(zone_of(&zone, next, notes)?);
        formats.push(zone_format(&zone)?);
        list_unknown(&zone, &["Skew units"], notes);
    }
    list_unknown(layout, &["Skew units"], notes);
    Ok((zones, Format { head_order, sparing, zones: formats }))
}

/// Reads a zone's position and track length. Cylinders before `next` belong to earlier zones.
fn zone_of(zone: &Params<'_>, next: u32, notes: &mut Notes) -> Result<Zone, LibparamError> {
    let (first, last) = ("First cylinder number", "Last cylinder number");
    let first_cylinder = zone.needed_count(first, 0..=MAX_CYLINDERS - 1)?;
    if first_cylinder < next {
        let what =
            format!("{first}: got {first_cylinder}, expected {next}, where the zone before ends");
        return Err((zone.line_of(first), what));
    }
    if first_cylinder > next {
        let what = format!("no zone covers the cylinders {next} to {}", first_cylinder - 1);
        notes.push((zone.line_of(first), what));
    }
    Ok(Zone {
        first_cylinder,
        last_cylinder: zone.needed_count(last, first_cylinder..=MAX_CYLINDERS - 1)?,
        sectors_per_track: zone.needed_count("Blocks per track", 1..=MAX_TRACK)?,
    })
}

fn zone_format(zone: &Params<'_>) -> Result<ZoneFormat, LibparamError> {
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
