//! Measures how sequential streams are before and after blocks are rearranged (**model**, Table
//! VIII).

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_core::{Op, Rearrangement};

use crate::progress::{Meter, Progress};
use crate::simulate::{Bed, Setup, requests};
use crate::{Error, Input};

/// The share of reads and writes that start where the previous request of the same stream and
/// operation ended, before and after rearranging.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sequential {
    pub(super) before_share: f64,
    pub(super) after_share: f64,
}

/// Computes both shares for the requests in `range`: at the trace's locations, and at the locations
/// that `map` assigns.
pub(super) fn sequential(
    input: &Input,
    (bed, setup): (Bed<'_>, Setup),
    range: Range<u64>,
    map: &Rearrangement,
    progress: Progress<'_>,
) -> Result<Sequential, Error> {
    let (placed, failed) = requests(input, bed, setup)?;
    let mut meter = Meter::new(progress);
    let mut ends: BTreeMap<(u32, Op), [u64; 2]> = BTreeMap::new();
    let (mut continued, mut all) = ([0u64; 2], 0u64);
    let left = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    for request in placed.skip(range.start as usize).take(left) {
        if meter.stops_after(1) {
            return Err(Error::Stopped);
        }
        if !request.op.moves_data() || request.len == 0 {
            continue;
        }
        let pieces: Vec<_> = map.pieces(request.offset, u64::from(request.len)).collect();
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { continue };
        let (starts, now) =
            ([request.offset, first.0], [request.end(), last.0.saturating_add(last.1)]);
        if let Some(before) = ends.insert((request.stream, request.op), now) {
            (0..2).for_each(|way| continued[way] += u64::from(before[way] == starts[way]));
        }
        all += 1;
    }
    if let Some(error) = failed.take() {
        return Err(error.into());
    }
    let [before_share, after_share] = continued.map(|count| count as f64 / all.max(1) as f64);
    Ok(Sequential { before_share, after_share })
}
