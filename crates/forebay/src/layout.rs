//! Places a trace's volumes on one or more identical devices.
//!
//! Volumes are laid out one after another. Each takes its extent in the trace, rounded up to 1 MiB.
//! With several devices, volumes are assigned to the devices in turn. Addresses beyond the end of a
//! device are scaled, wrapped or clipped, and counted ([`Changed`]). Before addresses are scaled,
//! long gaps without requests are shortened until everything fits. Otherwise a single distant
//! request would squeeze all others together.
//!
//! A request is always placed whole. A request that crosses the end of the device is moved back
//! until it ends there, and a request longer than the device is cut to the device's size.

use forebay_core::{Lane, Nanos, Request};
use forebay_trace::Record;
use forebay_trace::touched::{Folded, Stretch};
use serde::Serialize;

use crate::quantities::{bytes, counted};

/// How to treat a trace that extends beyond the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Map {
    /// Long gaps without requests are shortened or removed. If the trace still does not fit,
    /// addresses are scaled down. This also shrinks the gaps between requests, and adjacent
    /// requests remain adjacent only as far as rounding allows.
    #[default]
    Scale,
    /// Addresses are taken modulo the device's capacity. A request that crosses the end of the
    /// device is moved back.
    Wrap,
    /// Requests that end beyond the device are left out.
    Clip,
}

/// The size of a sector in bytes; all addresses on a device are multiples of it.
const SECTOR: u64 = 512;
/// Volumes start at multiples of this many bytes, and scaling moves pieces of this size as a whole.
const GRAIN: u64 = 1 << 20;

/// How many requests were changed to fit on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The number of requests that `--map scale` or `--map wrap` moved to another address.
    pub requests_moved: u64,
    /// The number of requests that were cut because they were longer than the device. They also
    /// count as moved if their address changed.
    pub requests_cut: u64,
    /// The number of requests that `--map clip` left out.
    pub requests_clipped: u64,
    /// How many bytes of long gaps without requests `--map scale` removed.
    pub gap_bytes_left_out: u64,
}

impl Changed {
    /// Describes each kind of change that occurred in a sentence.
    pub fn told(&self) -> Vec<String> {
        let beyond = "The trace reaches beyond the device";
        let gaps = (self.gap_bytes_left_out > 0).then(|| {
            let gaps = bytes(self.gap_bytes_left_out as f64);
            format!("{beyond}: {gaps} of long gaps without requests were left out.")
        });
        let counts = [
            (self.requests_moved, "were moved onto it", "was moved onto it"),
            (
                self.requests_cut,
                "are longer than it and were truncated",
                "is longer than it and \
                was truncated",
            ),
            (
                self.requests_clipped,
                "are beyond it and were left out",
                "is beyond it and was left out",
            ),
        ]
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, many, one)| {
            let what = if count == 1 { one } else { many };
            format!("{beyond}: {} {what}.", counted(count, "request"))
        });
        gaps.into_iter().chain(counts).collect()
    }
}

/// Converts a trace's records to requests, at locations on the devices.
#[derive(Clone, Debug)]
pub struct VolumeLayout {
    /// For each volume, its device and its first byte on that device.
    bases: Vec<(Lane, u64)>,
    /// The extent of each volume in the trace, in bytes.
    extents: Vec<u64>,
    /// For each volume, the mapping that removes its long gaps, if they are removed on its device.
    folded: Vec<Option<Folded>>,
    devices: Vec<Reach>,
    map: Map,
    changed: Changed,
}

/// A device's capacity, and the part of it that the trace uses.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    /// The capacity in bytes, rounded down to whole sectors.
    capacity: u64,
    /// The number of bytes from the start of the first volume to the end of the last, in whole
    /// grains.
    span: u64,
    /// Where the last volume ends, in bytes.
    end: u64,
}

impl Reach {
    /// Appends a volume of this extent after the existing ones, and returns where it starts.
    fn append(&mut self, extent: u64) -> u64 {
        let base = self.span;
        self.end = base.saturating_add(extent);
        self.span = base.saturating_add(extent.div_ceil(GRAIN).saturating_mul(GRAIN));
        base
    }

    fn is_beyond(&self) -> bool {
        self.end > self.capacity
    }
}

impl VolumeLayout {
    /// Lays out volumes with these `extents` on a device of `capacity` bytes.
    pub fn new(extents: &[u64], capacity: u64, map: Map) -> VolumeLayout {
        VolumeLayout::over(extents, 1, capacity, map)
    }

    /// Lays out volumes on one or more devices of `capacity` bytes each.
    pub fn over(extents: &[u64], devices: u16, capacity: u64, map: Map) -> VolumeLayout {
        let capacities = vec![capacity; usize::from(devices.max(1))];
        let lane = |volume: usize| (volume % capacities.len()) as Lane;
        let volumes = extents.iter().enumerate().map(|(volume, extent)| (*extent, lane(volume)));
        VolumeLayout::on(&volumes.collect::<Vec<_>>(), &capacities, map)
    }

    /// Lays out volumes, each given as its extent in bytes and its device, on devices with these
    /// `capacities` in bytes.
    ///
    /// # Panics
    /// Panics if a volume's device does not exist.
    pub fn on(volumes: &[(u64, Lane)], capacities: &[u64], map: Map) -> VolumeLayout {
        let whole = |capacity: &u64| capacity / SECTOR * SECTOR;
        let mut devices: Vec<Reach> = capacities
            .iter()
            .map(|capacity| Reach { capacity: whole(capacity), ..Reach::default() })
            .collect();
        let bases = volumes.iter().map(|&(extent, lane)| {
            let device = &mut devices[usize::from(lane)];
            (lane, device.append(extent))
        });
        let bases = bases.collect();
        let extents = volumes.iter().map(|volume| volume.0).collect();
        VolumeLayout {
            bases,
            extents,
            folded: Vec::new(),
            devices,
            map,
            changed: Changed::default(),
        }
    }

    /// Shortens the gaps between the used areas (`stretches`) of each volume, on devices that the
    /// trace extends beyond, if addresses are to be scaled. Gaps shrink until everything fits, or
    /// are removed entirely if it does not fit otherwise.
    #[must_use]
    pub fn without_gaps(mut self, stretches: &[Vec<Stretch>]) -> VolumeLayout {
        if self.map != Map::Scale || !self.is_beyond() {
            return self;
        }
        let of = |volume: usize| stretches.get(volume).map_or(&[][..], |all| all);
        let used = |volume: usize| Folded::new(of(volume)).bytes().min(self.extents[volume]);
        let shares: Vec<Option<(u64, u64)>> = (0..self.devices.len())
            .map(|lane| {
                let device = self.devices[lane];
                let volumes =
                    || (0..self.bases.len()).filter(|at| usize::from(self.bases[*at].0) == lane);
                let used_mib: u64 = volumes().map(|volume| used(volume).div_ceil(GRAIN)).sum();
                let gaps = volumes().map(|volume| (self.extents[volume] - used(volume)) / GRAIN);
                let spare_mib = (device.capacity / GRAIN).saturating_sub(used_mib);
                device.is_beyond().then(|| (spare_mib, gaps.fold(1, u64::saturating_add)))
            })
            .collect();
        for (device, _) in self.devices.iter_mut().zip(&shares).filter(|(_, share)| share.is_some())
        {
            (device.span, device.end) = (0, 0);
        }
        let mut folded = vec![None; self.bases.len()];
        for (volume, (lane, base)) in self.bases.iter_mut().enumerate() {
            let Some((spare_mib, gaps_mib)) = shares[usize::from(*lane)] else { continue };
            let shortened =
                |mib: u64| (u128::from(mib) * u128::from(spare_mib) / u128::from(gaps_mib)) as u64;
            let one = Folded::with_gaps(of(volume), |mib| shortened(mib).min(mib));
            let extent = self.extents[volume];
            *base = self.devices[usize::from(*lane)].append(one.bytes().min(extent));
            self.changed.gap_bytes_left_out =
                self.changed.gap_bytes_left_out.saturating_add(extent.saturating_sub(one.bytes()));
            folded[volume] = Some(one);
        }
        self.folded = folded;
        self
    }

    /// Returns whether a request's location relative to the start of its volume may change.
    pub fn moves(&self) -> bool {
        self.is_beyond() || !self.folded.is_empty()
    }

    /// Returns whether the trace extends beyond the end of a device.
    pub fn is_beyond(&self) -> bool {
        self.devices.iter().any(Reach::is_beyond)
    }

    /// Returns the number of bytes from the start of the first volume to the end of the last, on
    /// the device with the most.
    pub fn span(&self) -> u64 {
        self.devices.iter().map(|device| device.span).max().unwrap_or_default()
    }

    /// Returns, for each device, the number of bytes from the start of the first volume to the end
    /// of the last.
    pub fn spans(&self) -> impl Iterator<Item = u64> {
        self.devices.iter().map(|device| device.span)
    }

    /// Returns how many requests have been changed so far to fit on the devices.
    pub fn changed(&self) -> Changed {
        self.changed
    }

    /// Converts `record` to a request on a device; `None` if it is clipped.
    #[inline]
    pub fn place(&mut self, record: &Record, id: u64) -> Option<Request> {
        let (lane, base) = self.bases.get(record.volume as usize).copied().unwrap_or((0, 0));
        let mut offset = base.saturating_add(record.offset);
        let mut len = record.len;
        let device = self.devices[usize::from(lane)];
        let folded = self.folded.get(record.volume as usize).and_then(Option::as_ref);
        if folded.is_some() || device.is_beyond() {
            let at = folded.map_or(record.offset, |folded| folded.at(record.offset));
            (offset, len) = self.fit(base.saturating_add(at), len, device, at != record.offset)?;
        }
        Some(Request {
            at: record.at,
            offset,
            id,
            len,
            stream: record.stream,
            lane,
            op: record.op,
            flags: record.flags,
        })
    }

    /// Fits a request of a trace that extends beyond the device, and returns the request's new
    /// address and length. `is_moved` tells whether it was already moved when gaps were removed.
    fn fit(&mut self, offset: u64, len: u32, device: Reach, is_moved: bool) -> Option<(u64, u32)> {
        if self.map == Map::Clip {
            let inside = offset.saturating_add(u64::from(len)) <= device.capacity;
            self.changed.requests_clipped += u64::from(!inside);
            return inside.then_some((offset, len));
        }
        let mapped = match self.map {
            Map::Scale if !device.is_beyond() => offset,
            Map::Scale => scaled(offset, device),
            Map::Wrap | Map::Clip => offset % device.capacity,
        };
        let fitting = len.min(u32::try_from(device.capacity).unwrap_or(u32::MAX));
        let placed = mapped.min(device.capacity - u64::from(fitting));
        self.changed.requests_moved += u64::from(is_moved || placed != offset);
        self.changed.requests_cut += u64::from(fitting != len);
        Some((placed, fitting))
    }
}

/// Scales an offset. Whole grains move together, so that sequential requests within a grain stay
/// sequential.
fn scaled(offset: u64, device: Reach) -> u64 {
    let grains = (device.capacity / GRAIN).max(1);
    let span = (device.span / GRAIN).max(1);
    let grain = u128::from(offset / GRAIN) * u128::from(grains) / u128::from(span);
    (grain as u64).saturating_mul(GRAIN).saturating_add(offset % GRAIN)
}

/// The latency to assume for records without one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Imputed {
    /// The latency of reads, and of other requests for which a process waits.
    pub read: Nanos,
    /// The latency of writes.
    pub write: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::{Flags, Op};
    use forebay_trace::touched::Touched;

    fn record(volume: u32, offset: u64) -> Record {
        Record {
            at: Nanos::ZERO,
            offset,
            latency: None,
            len: 4096,
            stream: 0,
            volume,
            op: Op::Read,
            flags: Flags::NONE,
        }
    }

    #[test]
    fn volumes_follow_one_another() {
        let mut layout = VolumeLayout::new(&[GRAIN + 1, 5 * GRAIN], 100 * GRAIN, Map::Scale);
        assert_eq!(layout.place(&record(0, 4096), 0).unwrap().offset, 4096);
        assert_eq!(layout.place(&record(1, 4096), 0).unwrap().offset, 2 * GRAIN + 4096);
        assert!(!layout.is_beyond());
    }

    #[test]
    fn volumes_are_dealt_over_devices() {
        let extents = [GRAIN, 2 * GRAIN, 5 * GRAIN, 90 * GRAIN];
        let mut layout = VolumeLayout::over(&extents, 2, 50 * GRAIN, Map::Wrap);
        let mut at = |volume, offset| {
            let request = layout.place(&record(volume, offset), 0).unwrap();
            (request.lane, request.offset)
        };
        assert_eq!((at(0, 0), at(1, 0)), ((0, 0), (1, 0)));
        assert_eq!((at(2, 4096), at(3, 0)), ((0, GRAIN + 4096), (1, 2 * GRAIN)));
        // The trace extends beyond only the second device.
        assert_eq!((at(3, 49 * GRAIN), at(2, 49 * GRAIN)), ((1, GRAIN), (0, 50 * GRAIN)));
        assert!(layout.is_beyond() && layout.span() == 92 * GRAIN);
    }

    #[test]
    fn a_trace_that_ends_with_the_device_is_not_beyond_it() {
        let capacity = 5 * GRAIN + 4096;
        assert!(!VolumeLayout::new(&[capacity], capacity, Map::Scale).is_beyond());
        assert!(VolumeLayout::new(&[capacity + 512], capacity, Map::Scale).is_beyond());
    }

    #[test]
    fn beyond_the_device() {
        let (extents, capacity) = ([100 * GRAIN], 50 * GRAIN);
        let at =
            |map, offset| VolumeLayout::new(&extents, capacity, map).place(&record(0, offset), 0);
        assert_eq!(at(Map::Clip, 60 * GRAIN), None);
        assert_eq!(at(Map::Wrap, 60 * GRAIN).unwrap().offset, 10 * GRAIN);
        assert_eq!(at(Map::Scale, 60 * GRAIN).unwrap().offset, 30 * GRAIN);
        assert_eq!(at(Map::Scale, 60 * GRAIN + 512).unwrap().offset, 30 * GRAIN + 512);
        for map in [Map::Wrap, Map::Scale] {
            let end = at(map, 100 * GRAIN - 4096).unwrap().end();
            assert!(end <= capacity, "{map:?} ends at {end}");
        }
    }

    /// Distant requests do not change the distances between the others, wherever the distant ones
    /// are and however the volume begins. Requests at the start of the volume are not moved at all.
    #[test]
    fn distant_requests_leave_all_others_where_they_were() {
        // Two distant areas stay as far apart as the device allows.
        let ends =
            [Stretch { begin_mib: 0, end_mib: 10 }, Stretch { begin_mib: 5000, end_mib: 5010 }];
        let mut apart = VolumeLayout::new(&[5010 * GRAIN], 3000 * GRAIN, Map::Scale)
            .without_gaps(&[ends.to_vec()]);
        let at = |layout: &mut VolumeLayout, offset| layout.place(&record(0, offset), 0).unwrap();
        assert_eq!(at(&mut apart, 9 * GRAIN).offset, 9 * GRAIN);
        let far = at(&mut apart, 5000 * GRAIN).offset / GRAIN;
        assert!((2980..=2990).contains(&far), "{far}");
        for from in [0, 700 << 10, 1 << 25] {
            let near: Vec<Record> =
                (0..2000).map(|n| record(0, (from + n * 617 % 2000) * GRAIN)).collect();
            for far in [3u64 << 40, 1 << 50, 1 << 63, u64::MAX - 4096] {
                let mut touched = Touched::default();
                let far = record(1, far);
                near.iter().chain([&far]).for_each(|record| touched.add(record));
                let extents = [(from + 2000) * GRAIN, far.offset.saturating_add(4096)];
                let mut layout = VolumeLayout::new(&extents, 4000 * GRAIN, Map::Scale)
                    .without_gaps(&touched.stretches());
                assert!(layout.moves() && !layout.is_beyond());
                let first = layout.place(&near[0], 0).unwrap().offset;
                for record in &near {
                    let placed = layout.place(record, 0).unwrap();
                    assert_eq!(
                        (placed.offset - first, placed.len),
                        (record.offset - near[0].offset, 4096)
                    );
                }
                let moved = if from == 0 { 0 } else { near.len() as u64 + 1 };
                assert_eq!(layout.changed().requests_moved, moved);
                assert!(layout.place(&far, 0).unwrap().end() <= 4000 * GRAIN);
                assert_eq!(layout.changed().requests_moved, moved + 1);
                let told = layout.changed().told();
                assert!(told[0].contains("of long gaps without requests were left out"));
                // A request that lies in a gap, such as a trim of the whole volume, still ends up
                // on the device.
                let trim = Record { len: u32::MAX, op: Op::Trim, ..record(0, 5 << 40) };
                assert!(layout.place(&trim, 0).unwrap().end() <= 4000 * GRAIN);
            }
        }
        // Without gaps to remove, the trace is scaled by `Map::Scale` and wrapped by `Map::Wrap` as
        // usual.
        let extents = [100 * GRAIN];
        let all = [vec![Stretch { begin_mib: 0, end_mib: 100 }]];
        for map in [Map::Scale, Map::Wrap, Map::Clip] {
            let plain = VolumeLayout::new(&extents, 50 * GRAIN, map);
            let mut both = [plain.clone(), plain.without_gaps(&all)];
            for offset in [0, 60 * GRAIN + 512, 99 * GRAIN] {
                let [a, b] = both.each_mut().map(|layout| layout.place(&record(0, offset), 0));
                assert_eq!(a, b);
            }
        }
    }

    #[test]
    fn changed_requests_are_counted() {
        let capacity = 50 * GRAIN;
        let after = |map, records: &[Record]| {
            let mut layout = VolumeLayout::new(&[100 * GRAIN], capacity, map);
            let placed: Vec<_> = records.iter().map(|record| layout.place(record, 0)).collect();
            let Changed { requests_moved, requests_cut, requests_clipped, .. } = layout.changed();
            (placed, [requests_moved, requests_cut, requests_clipped])
        };
        // The three requests lie within the device, across its end, and beyond it.
        let records = [record(0, 0), record(0, capacity - 512), record(0, capacity + 512)];
        let offsets = |placed: Vec<Option<Request>>| -> Vec<Option<u64>> {
            placed.iter().map(|request| request.map(|request| request.offset)).collect()
        };
        let (placed, counts) = after(Map::Wrap, &records);
        assert_eq!(offsets(placed), [Some(0), Some(capacity - 4096), Some(512)]);
        assert_eq!(counts, [2, 0, 0]);
        let (placed, counts) = after(Map::Clip, &records);
        assert_eq!((offsets(placed), counts), (vec![Some(0), None, None], [0, 0, 2]));
        assert_eq!(after(Map::Scale, &records).1, [2, 0, 0]);
        let long = Record { len: 60 << 20, ..record(0, 0) };
        let (placed, counts) = after(Map::Wrap, &[long]);
        assert_eq!((placed[0].unwrap().len, counts), (50 << 20, [0, 1, 0]));
        let mut fits = VolumeLayout::new(&[capacity], capacity, Map::Clip);
        assert_eq!(fits.place(&record(0, capacity - 4096), 0).unwrap().end(), capacity);
        assert_eq!(fits.changed(), Changed::default());
    }
}
