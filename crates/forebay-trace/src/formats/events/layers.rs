//! Handles requests that a trace shows at several layers: LVM, md, dm-crypt, multipath, partitions.
//!
//! A remap (`A`) means that a request to one device was passed on to another, or to several. Each
//! request counts at one layer:
//!
//! - With [`Layer::Bottom`], a request does not count if another one arrived where it was remapped
//!   to, because the lower request shows everything that happened to it.
//! - With [`Layer::Top`], a request does not count if a request of another device in the trace was
//!   just remapped to its sector. Other requests to the lower device do count, because it may
//!   contain more than one volume.
//!
//! Some devices show only completions and no arrivals, such as a path of a multipath disk. Their
//! completions end the requests that were remapped to them.
//!
//! Since Linux 5.12, tracepoints name the partition of a queued request but the disk of a completed
//! one, both with sectors of the disk. [`Layers::partition_of`] recognizes such pairs by their
//! numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::event::{Category, Remap, SECTOR_BYTES, Span};
use forebay_ask::named;
use forebay_words::plural::{counted, verb};

/// The layer at which requests count if a trace shows them at several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// At the volume nearest to the programs.
    Top,
    /// At the device nearest to the hardware.
    #[default]
    Bottom,
    /// At every layer, so that a request may count several times.
    Every,
}

/// The maximum number of remapped requests that are expected at lower devices.
const EXPECTED_MAX: usize = 1 << 16;

/// A device and a sector. All flushes of a device have the same place.
type Place = (u32, u64);

/// A remapped request, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) device: u32,
    pub(super) id: u64,
    /// The number of sectors that were remapped together.
    pub(super) sectors: u64,
}

/// Tracks requests from layer to layer.
#[derive(Default)]
pub(super) struct Layers {
    pub(super) layer: Layer,
    /// The requests that are expected at each place, because they were remapped to it.
    expected: BTreeMap<Place, VecDeque<Origin>>,
    /// The requests that arrived at a place without being counted there. They may be remapped
    /// again.
    passed: HashMap<Place, Origin>,
    /// The devices to which the requests of each device were remapped.
    below: BTreeMap<u32, BTreeSet<u32>>,
    /// The number of requests that are not counted, by their device and the device at which they
    /// are counted instead.
    excluded: BTreeMap<(u32, u32), u64>,
}

/// Whether an arriving request counts.
pub(super) enum Arrival {
    Counts,
    /// The request is counted here, in place of this request at the layer above.
    CountsFor(u64),
    /// The request is not counted here, but at the layer above.
    IsExcluded,
}

fn place(device: u32, sector: u64, bytes: u32) -> Place {
    (device, if bytes == 0 { u64::MAX } else { sector })
}

impl Layers {
    /// Processes a remap. `request` is the request that was remapped, if it is counted at its
    /// device.
    pub(super) fn remap(&mut self, remap: &Remap, request: Option<u64>) {
        if remap.from != remap.to {
            self.below.entry(remap.from).or_default().insert(remap.to);
        }
        // There may be several remaps in a row: from a volume to a partition, and from there to its
        // disk. Both events may name the disk as their device.
        let [above, beside] =
            [remap.from, remap.to].map(|device| place(device, remap.from_sector, remap.bytes));
        let own = request.filter(|_| remap.from != remap.to).map(|id| Origin {
            device: remap.from,
            id,
            sectors: u64::from(remap.bytes).div_ceil(SECTOR_BYTES),
        });
        let earlier = self.meet(above).or_else(|| self.meet(beside));
        let Some(origin) = earlier.or_else(|| self.passed.remove(&above)).or(own) else { return };
        self.expect(place(remap.to, remap.sector, remap.bytes), origin);
    }

    /// Returns all devices below a device, directly or indirectly.
    pub(super) fn below(&self, device: u32) -> BTreeSet<u32> {
        let (mut all, mut next) = (BTreeSet::new(), vec![device]);
        while let Some(device) = next.pop() {
            let below = self.below.get(&device).into_iter().flatten();
            next.extend(below.filter(|below| all.insert(**below)));
        }
        all
    }

    /// Returns the names of the devices below each device.
    pub(super) fn legs(&self) -> Vec<Vec<String>> {
        let names = |device: &u32| self.below(*device).into_iter().map(name).collect();
        self.below.keys().map(names).collect()
    }

    fn expect(&mut self, place: Place, origin: Origin) {
        if self.expected.len() >= EXPECTED_MAX {
            self.expected.clear();
        }
        self.expected.entry(place).or_default().push_back(origin);
    }

    /// Returns the request that is expected at this place, and removes it from the expected
    /// requests.
    fn meet(&mut self, place: Place) -> Option<Origin> {
        let origins = self.expected.get_mut(&place)?;
        let origin = origins.pop_front();
        if origins.is_empty() {
            self.expected.remove(&place);
        }
        origin
    }

    /// Processes an arriving request.
    pub(super) fn arrive(&mut self, span: &Span) -> Arrival {
        if self.expected.is_empty() {
            return Arrival::Counts;
        }
        let here = place(span.device, span.sector, span.bytes);
        let Some(origin) = self.meet(here) else { return Arrival::Counts };
        match self.layer {
            Layer::Top => {
                if self.passed.len() >= EXPECTED_MAX {
                    self.passed.clear();
                }
                self.passed.insert(here, origin);
                self.count(span.device, origin.device);
                Arrival::IsExcluded
            }
            Layer::Bottom => Arrival::CountsFor(origin.id),
            Layer::Every => Arrival::Counts,
        }
    }

    /// Counts a request to `device` that is counted at `other` instead.
    pub(super) fn count(&mut self, device: u32, other: u32) {
        *self.excluded.entry((device, other)).or_default() += 1;
    }

    /// Processes a completion at a device where no request awaits it. Returns the requests that
    /// were remapped to that place, and how many of their sectors it completes.
    pub(super) fn complete(&mut self, span: &Span) -> Vec<(Origin, u64)> {
        if self.expected.is_empty() {
            return Vec::new();
        }
        if span.bytes == 0 {
            let flush = span.category.has(Category::WRITE).then(|| place(span.device, 0, 0));
            return flush
                .and_then(|place| self.meet(place))
                .map(|one| (one, 0))
                .into_iter()
                .collect();
        }
        let (first, end) = ((span.device, span.sector), (span.device, span.end()));
        let places: Vec<Place> = self.expected.range(first..end).map(|(place, _)| *place).collect();
        let mut completed = Vec::new();
        for (device, sector) in places {
            let Some(origin) = self.meet((device, sector)) else { continue };
            let sectors = origin.sectors.min(span.end() - sector);
            completed.push((origin, sectors));
            if sectors < origin.sectors {
                let rest = Origin { sectors: origin.sectors - sectors, ..origin };
                self.expect((device, sector + sectors), rest);
            }
        }
        completed
    }

    /// Returns whether `device` can be a partition of `disk`, according to the kernel's numbering.
    pub(super) fn partition_of(device: u32, disk: u32) -> bool {
        /// The major number of devices whose minor numbers are assigned dynamically.
        const EXTENDED: u32 = 259;
        let (major, is_same) = (device >> 20, device >> 20 == disk >> 20);
        is_same && device > disk && (major == EXTENDED || device - disk < 16)
    }

    pub(super) fn sentences(&self) -> Vec<String> {
        let sentence = |(&(device, other), &count): (&(u32, u32), &u64)| {
            let (device, other, requests) = (name(device), name(other), counted(count, "request"));
            let counts = verb(count, "counts", "count");
            match self.layer {
                Layer::Top => format!(
                    "{requests} of volume {device} {} from volume {other} and {counts} once, there; \
                     {} counts {} at the lower one",
                    verb(count, "comes", "come"),
                    named("layer=bottom"),
                    verb(count, "it", "them"),
                ),
                _ => format!(
                    "volume {device} is a layer above volume {other} (the trace has remaps): its \
                     {requests} at both {counts} once, at the volume below; {} counts {} above",
                    named("layer=top"),
                    verb(count, "it", "them"),
                ),
            }
        };
        self.excluded.iter().map(sentence).collect()
    }
}

/// Returns the name of a device, which consists of its major and minor number.
pub(super) fn name(device: u32) -> String {
    format!("{},{}", device >> 20, device & 0xf_ffff)
}
