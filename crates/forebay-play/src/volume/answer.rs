//! The state of a volume as data.

use std::path::PathBuf;

use forebay_core::stack::array::{Census, DriveKind, Geometry, KINDS};
use forebay_volume::{NonMember, Opened};
use serde::Serialize;

/// The answer of all volume verbs.
#[derive(Serialize)]
pub(super) struct VolumeAnswer {
    pub(super) volume: String,
    pub(super) capacity_bytes: u64,
    pub(super) drives: usize,
    pub(super) ssds: usize,
    pub(super) spare_drives: usize,
    pub(super) drives_missing: Vec<u8>,
    pub(super) drives_replaced: Vec<u8>,
    pub(super) drives_joining: Vec<u8>,
    pub(super) not_members: Vec<NotMember>,
    pub(super) replace_command: Option<String>,
    pub(super) notes: Vec<String>,
    pub(super) label_format: u64,
    pub(super) drives_without_end_label: Vec<u8>,
    pub(super) chunk_bytes: u32,
    pub(super) chunks: u8,
    pub(super) openings: u64,
    pub(super) units: Vec<(&'static str, u64)>,
    pub(super) ssd_units: u64,
    pub(super) degraded_units: u64,
    pub(super) lost_units: u64,
    pub(super) lost_bytes: u64,
    pub(super) lost: Vec<LostRange>,
    pub(super) written_bytes: u64,
    pub(super) free_cells_least: u32,
    pub(super) table_bytes: u64,
    pub(super) records_per_drive_bytes: u64,
    /// The costs of writes on the drives of each kind, if the labels have them.
    pub(super) costs: Vec<KnownCosts>,
}

/// What writes and switches cost on the drives of a kind, for the adaptive rule.
#[derive(Serialize)]
pub(super) struct KnownCosts {
    pub(super) kind: &'static str,
    /// In RAID 6 and in three copies: writes of 1, 2 ... chunks.
    pub(super) write_ms: [Vec<f64>; 2],
    /// A switch to three copies, and one back.
    pub(super) switch_ms: [f64; 2],
}

/// A path that the user named but that is not part of the volume.
#[derive(Serialize)]
pub(super) struct NotMember {
    path: String,
    why: String,
}

/// A range that cannot be read.
#[derive(Serialize)]
pub(super) struct LostRange {
    pub(super) unit: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) drives: Vec<u8>,
}

impl VolumeAnswer {
    /// Returns the state of the volume that was found on `drives`.
    pub(super) fn of(opened: &Opened, drives: &[PathBuf]) -> VolumeAnswer {
        let (geometry, census) = (&opened.geometry, &opened.census);
        let not_member =
            |it: &NonMember| NotMember { path: it.path.display().to_string(), why: it.why.clone() };
        let is_stale =
            |number: &u8| !census.members.contains(number) && !opened.joining.contains(number);
        let stale = census.drives.iter().map(|drive| drive.number).filter(is_stale);
        let units: u64 = census.units.iter().map(|(_, count)| count).sum();
        let free = census.drives.iter().filter(|it| it.is_present).map(|it| it.free_cells).min();
        VolumeAnswer {
            volume: format!("{:016x}", geometry.volume),
            capacity_bytes: geometry.capacity_bytes(),
            drives: census.members.len(),
            ssds: census.drives.iter().filter(|drive| drive.kind == DriveKind::Ssd).count(),
            spare_drives: opened.spare_drives,
            drives_missing: opened.missing(),
            drives_replaced: stale.collect(),
            drives_joining: opened.joining.clone(),
            not_members: opened.others.iter().map(not_member).collect(),
            replace_command: opened.replace_command(drives),
            notes: opened.notes.clone(),
            label_format: opened.format,
            drives_without_end_label: opened.without_end_label.clone(),
            chunk_bytes: geometry.chunk_bytes,
            chunks: geometry.chunks,
            openings: census.openings,
            units: census.units.iter().map(|(level, count)| (level.name(), *count)).collect(),
            ssd_units: census.ssd_units,
            degraded_units: census.degraded_units,
            lost_units: census.lost_units,
            lost_bytes: census.lost_bytes,
            lost: losses(census),
            written_bytes: units * geometry.unit_bytes(),
            free_cells_least: free.unwrap_or(0),
            table_bytes: geometry.table_bytes(),
            records_per_drive_bytes: geometry.ring * Geometry::RECORD_BYTES,
            costs: KINDS.into_iter().filter_map(|kind| known_costs(opened, kind)).collect(),
        }
    }
}

fn known_costs(opened: &Opened, kind: DriveKind) -> Option<KnownCosts> {
    let costs = opened.costs[kind as usize]?;
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let write_ms = costs.writes.map(|row| row.into_iter().filter(|it| *it > 0).map(ms).collect());
    Some(KnownCosts { kind: kind.name(), write_ms, switch_ms: costs.switches.map(ms) })
}

fn losses(census: &Census) -> Vec<LostRange> {
    let of_unit = census.lost.iter().flat_map(|unit| unit.ranges.iter().map(move |it| (unit, it)));
    let loss = of_unit.map(|(unit, range)| LostRange {
        unit: unit.unit,
        offset: range.offset,
        bytes: range.bytes,
        drives: unit.drives.clone(),
    });
    loss.collect()
}
