//! Lays out both traces' volumes on a device. If both have the same volumes, these have the same
//! locations.

use std::ops::ControlFlow;

use forebay_trace::Record;
use forebay_trace::describe::description::VolumeRow;
use forebay_trace::touched::{Stretch, Touched};

use crate::layout::{Map, VolumeLayout};
use crate::progress::Meter;
use crate::{Error, Input};

/// The volumes of one of the traces, in layout order.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// The length of each volume in bytes, in layout order.
    pub(super) extents: Vec<u64>,
    /// For each of the trace's volumes, its index in layout order.
    order: Vec<u32>,
    /// The areas of each volume that the trace uses.
    stretches: Vec<Vec<Stretch>>,
}

/// The layout of both traces' volumes.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) sides: [Side; 2],
    /// Where ranges with equal shares of the used addresses start, as (volume in layout order, byte
    /// offset). The first range is omitted, as it starts at 0.
    pub(super) edges: Vec<(u32, u64)>,
    /// The number of used bytes in each range.
    pub(super) range_bytes: u64,
    /// Whether each volume of one trace corresponds to a volume of the other.
    pub(super) shared: bool,
}

impl Layout {
    /// Lays out both traces and divides their used addresses into `ranges`. Reads both traces once
    /// more.
    pub(super) fn of(
        a: &Input,
        b: &Input,
        ranges: usize,
        progress: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Layout, Error> {
        let orders = [order(a, b), order(b, a)];
        let laid = |input: &Input, order: &[u32]| {
            let mut extents = vec![0; order.len()];
            for (&place, &extent) in order.iter().zip(&input.extents) {
                extents[place as usize] = extent;
            }
            extents
        };
        let mut extents = [laid(a, &orders[0]), laid(b, &orders[1])];
        let shared = extents[0].len() == extents[1].len();
        if shared {
            let longer = extents[0].iter().zip(&extents[1]).map(|(a, b)| *a.max(b)).collect();
            extents = [Vec::clone(&longer), longer];
        }
        let ground = [touched(a, &orders[0], progress)?, touched(b, &orders[1], progress)?];
        let both = Touched::clone(&ground[0]).with(&ground[1]);
        let (edges, bytes) = (both.edges(ranges), both.bytes());
        let ground = if shared { [both.clone(), both] } else { ground };
        let [a, b] = extents;
        let [order_a, order_b] = orders;
        let side = |extents: Vec<u64>, order, ground: &Touched| {
            let mut stretches = ground.stretches();
            stretches.resize(extents.len(), Vec::new());
            Side { extents, order, stretches }
        };
        let sides = [side(a, order_a, &ground[0]), side(b, order_b, &ground[1])];
        Ok(Layout { sides, edges, range_bytes: bytes.div_ceil(ranges as u64), shared })
    }
}

/// Returns the address areas that `input` uses, with the volumes in the given `order`.
fn touched(
    input: &Input,
    order: &[u32],
    progress: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Touched, Error> {
    let records = input.records()?;
    let mut tell = |_| progress();
    let (failed, mut meter) = (records.failed(), Meter::new(&mut tell));
    let mut touched = Touched::default();
    for record in records {
        if meter.stops_after(1) {
            return Err(Error::Stopped);
        }
        if record.op.moves_data() {
            touched.add(&renamed(order, record));
        }
    }
    match failed.take() {
        Some(error) => Err(error.into()),
        None => Ok(touched),
    }
}

/// Replaces the record's volume by that volume's index in layout order.
#[inline]
fn renamed(order: &[u32], mut record: Record) -> Record {
    record.volume = order.get(record.volume as usize).copied().unwrap_or(0);
    record
}

impl Side {
    /// Replaces the record's volume by that volume's index in layout order.
    #[inline]
    pub(super) fn renamed(&self, record: Record) -> Record {
        renamed(&self.order, record)
    }

    /// Places the volumes on a device of `capacity` bytes. If they do not fit, long gaps that
    /// neither trace uses are left out.
    pub(super) fn on(&self, capacity: u64) -> VolumeLayout {
        VolumeLayout::new(&self.extents, capacity, Map::Scale).without_gaps(&self.stretches)
    }
}

/// Orders the volumes: by name if both traces have the same names; else by load, busiest first, if
/// both have equally many volumes, because a model does not have to keep names; else in the trace's
/// order.
fn order(of: &Input, other: &Input) -> Vec<u32> {
    let rows = |input: &Input| {
        let rows = &input.description.by_volume;
        (rows.len() == input.extents.len()).then(|| rows.clone())
    };
    let (Some(mine), Some(theirs)) = (rows(of), rows(other)) else {
        return (0..of.extents.len() as u32).collect();
    };
    let sorted = |rows: &[VolumeRow]| -> Vec<String> {
        let mut names: Vec<String> = rows.iter().map(|row| row.label.clone()).collect();
        names.sort_unstable();
        names
    };
    let names = sorted(&mine);
    let are_distinct = names.is_sorted_by(|a, b| a < b);
    if are_distinct && names == sorted(&theirs) {
        let place = |row: &VolumeRow| names.partition_point(|other| *other < row.label) as u32;
        return mine.iter().map(place).collect();
    }
    if mine.len() != theirs.len() {
        return (0..mine.len() as u32).collect();
    }
    let mut busiest: Vec<usize> = (0..mine.len()).collect();
    busiest.sort_by_key(|&volume| std::cmp::Reverse(mine[volume].requests));
    let mut places = vec![0; mine.len()];
    for (place, volume) in (0..).zip(busiest) {
        places[volume] = place;
    }
    places
}
