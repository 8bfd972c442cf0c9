//! Where the volumes of both traces lie: at the same places if both have the same ones.

use forebay_trace::Record;
use forebay_trace::describe::description::VolumeRow;

use crate::input::Input;
use crate::layout::{Map, VolumeLayout};

/// One trace's volumes.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// How far each reaches, in the order in which they are laid.
    pub(super) extents: Vec<u64>,
    /// The place of each of the trace's volumes in that order.
    order: Vec<u32>,
}

/// The volumes of both.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) sides: [Side; 2],
    /// Bytes that the longer of both spans.
    pub(super) span: u64,
    /// Whether a volume of one stands for one of the other.
    pub(super) shared: bool,
}

impl Layout {
    pub(super) fn of(a: &Input, b: &Input) -> Layout {
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
        let span = |extents: &Vec<u64>| VolumeLayout::new(extents, u64::MAX, Map::Clip).span();
        let span = extents.iter().map(span).max().unwrap_or(0);
        let [a, b] = extents;
        let [order_a, order_b] = orders;
        let sides = [Side { extents: a, order: order_a }, Side { extents: b, order: order_b }];
        Layout { sides, span, shared }
    }
}

impl Side {
    /// The record with its volume's place for its volume.
    #[inline]
    pub(super) fn renamed(&self, mut record: Record) -> Record {
        record.volume = self.order.get(record.volume as usize).copied().unwrap_or(0);
        record
    }

    /// Lays records on a device of `capacity` bytes.
    pub(super) fn on(&self, capacity: u64) -> VolumeLayout {
        VolumeLayout::new(&self.extents, capacity, Map::Scale)
    }
}

/// By name where both traces have the same names; by load, the busiest first, where they have as many
/// others, since a model need not tell names; else as they come.
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
