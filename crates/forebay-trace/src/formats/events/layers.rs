//! Requests that a trace shows at several layers: LVM, md, dm-crypt, multipath, partitions.
//!
//! A remap (`A`) says that a request of one device goes on to another, or to several. Each request
//! counts at one layer:
//!
//! - [`Layer::Bottom`]: a device is *above* if its requests are remapped, in one step or several, to
//!   another device at which the trace has requests. None of its requests count, because the
//!   devices below show all that became of them.
//! - [`Layer::Top`]: a request at the sector to which a request of another device of the trace was
//!   just remapped does not count. Other requests of the lower device do: it may hold more than
//!   one volume.
//!
//! Since Linux 5.12, tracepoints name the partition of a queued request but the disk of a completed
//! one, both with sectors of the disk. [`Layers::partition_of`] recognizes such pairs by their
//! numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::event::{Remap, Span};
use forebay_ask::named;
use forebay_show::plural::counted;

/// The layer at which a request counts if a trace shows it at several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// At the volume nearest to the programs.
    Top,
    /// At the device nearest to the hardware.
    #[default]
    Bottom,
    /// At each layer, so several times.
    Every,
}

/// The most pairs of devices that are followed.
const EDGES_MAX: usize = 4096;
/// The most remapped requests that are awaited at a lower device.
const EXPECTED_MAX: usize = 1 << 16;

/// Follows requests from layer to layer.
#[derive(Default)]
pub(super) struct Layers {
    pub(super) layer: Layer,
    edges: BTreeSet<(u32, u32)>,
    /// The devices that have requests.
    busy: BTreeSet<u32>,
    /// The devices whose requests do not count, and the device below that shows them.
    above: BTreeMap<u32, u32>,
    /// How many requests are expected at a device and sector, because they were remapped there.
    expected: HashMap<(u32, u64), u32>,
    /// The number of requests that do not count, by their device and the other device that has them.
    left_out: BTreeMap<(u32, u32), u64>,
}

impl Layers {
    /// Processes a remap. Returns the devices that have turned out to be above others.
    pub(super) fn remap(&mut self, remap: &Remap) -> Vec<u32> {
        if remap.from != remap.to && self.edges.len() < EDGES_MAX {
            let is_new = self.edges.insert((remap.from, remap.to));
            if is_new && self.layer == Layer::Bottom {
                return self.find_above();
            }
        }
        if self.layer == Layer::Top {
            self.expect(remap);
        }
        Vec::new()
    }

    /// Processes the first request of a device. Returns the devices that have turned out to be
    /// above others.
    pub(super) fn begin(&mut self, device: u32) -> Vec<u32> {
        self.busy.insert(device);
        match self.layer {
            Layer::Bottom if !self.edges.is_empty() => self.find_above(),
            _ => Vec::new(),
        }
    }

    fn find_above(&mut self) -> Vec<u32> {
        let sources: BTreeSet<u32> = self.edges.iter().map(|&(from, _)| from).collect();
        let found = |from: &u32| Some((*from, self.below(*from)?));
        let new: Vec<(u32, u32)> = sources
            .iter()
            .filter(|from| self.busy.contains(from) && !self.above.contains_key(from))
            .filter_map(found)
            .collect();
        self.above.extend(new.iter().copied());
        new.into_iter().map(|(from, _)| from).collect()
    }

    /// Returns the nearest device with requests to which those of `device` are remapped.
    fn below(&self, device: u32) -> Option<u32> {
        let (mut seen, mut next) = (BTreeSet::from([device]), vec![device]);
        while let Some(from) = next.pop() {
            for &(_, to) in self.edges.range((from, 0)..=(from, u32::MAX)) {
                if seen.insert(to) {
                    if self.busy.contains(&to) {
                        return Some(to);
                    }
                    next.push(to);
                }
            }
        }
        None
    }

    /// Expects a remapped request at its new place, if the trace has it above.
    fn expect(&mut self, remap: &Remap) {
        // Remaps in a row: from a volume to a partition, and from there to its disk, which is the
        // device that both events may name.
        let step = [remap.from, remap.to].map(|device| (device, remap.from_sector));
        let earlier = step.into_iter().find(|place| self.expected.contains_key(place));
        if let Some(place) = earlier {
            self.meet(place);
        } else if remap.from == remap.to || !self.busy.contains(&remap.from) {
            return;
        }
        if self.expected.len() >= EXPECTED_MAX {
            self.expected.clear();
        }
        *self.expected.entry((remap.to, remap.sector)).or_default() += 1;
    }

    /// Returns whether a request is expected at this place, which happens once.
    fn meet(&mut self, place: (u32, u64)) -> bool {
        let Some(count) = self.expected.get_mut(&place) else { return false };
        *count -= 1;
        if *count == 0 {
            self.expected.remove(&place);
        }
        true
    }

    /// Returns whether an arriving request counts at another layer.
    pub(super) fn leaves_out(&mut self, span: &Span) -> bool {
        if self.above.is_empty() && self.expected.is_empty() {
            return false;
        }
        if self.meet((span.device, span.sector)) {
            let above = self.edges.iter().find(|(_, to)| *to == span.device).map(|&(from, _)| from);
            *self.left_out.entry((span.device, above.unwrap_or(span.device))).or_default() += 1;
            return true;
        }
        let is_above = self.above.contains_key(&span.device);
        if is_above {
            self.count_above(span.device);
        }
        is_above
    }

    /// Counts a request of a device that is above another.
    pub(super) fn count_above(&mut self, device: u32) {
        if let Some(&below) = self.above.get(&device) {
            *self.left_out.entry((device, below)).or_default() += 1;
        }
    }

    /// Returns whether `device` can be a partition of `disk`, by the kernel's numbers.
    pub(super) fn partition_of(device: u32, disk: u32) -> bool {
        /// The major number of devices whose minor numbers are assigned on demand.
        const EXTENDED: u32 = 259;
        let (major, is_same) = (device >> 20, device >> 20 == disk >> 20);
        is_same && device > disk && (major == EXTENDED || device - disk < 16)
    }

    pub(super) fn sentences(&self) -> Vec<String> {
        let sentence = |(&(device, other), &count): (&(u32, u32), &u64)| {
            let (device, other, requests) = (name(device), name(other), counted(count, "request"));
            match self.layer {
                Layer::Top => format!(
                    "{requests} of volume {device} come from volume {other} and count once, there; \
                     {} counts them at the lower one",
                    named("layer=bottom")
                ),
                _ => format!(
                    "volume {device} is a layer above volume {other} (the trace has remaps): its \
                     {requests} count once, as the requests of the volume below; {} counts those \
                     above",
                    named("layer=top")
                ),
            }
        };
        self.left_out.iter().map(sentence).collect()
    }
}

/// Returns the name of a device: its major and minor number.
pub(super) fn name(device: u32) -> String {
    format!("{},{}", device >> 20, device & 0xf_ffff)
}
