//! Handles requests that are passed on to lower devices: at which layer they count, and where they
//! complete.
//!
//! A device above others may complete its requests itself, later than the devices below. If it does
//! not, as for a multipath disk of NVMe, its requests end with their last completion below. It is
//! not known in advance which is the case, so the first requests of a device wait for their own
//! completion.

use forebay_core::Nanos;

use forebay_ask::named;
use forebay_words::plural::{counted, verb};

use super::super::event::{Category, Remap, Span};
use super::super::layers::{Layer, name};
use super::Pairing;
use super::waiting::{Exclusion, Pending, Volume};

/// If this many requests of a device had no completion event of that device, the device does not
/// complete requests itself.
const BELOW_MIN: u32 = 16;

impl Pairing {
    pub(super) fn remap(&mut self, remap: &Remap) {
        let volume = self.volumes.find(remap.from);
        let request = volume.and_then(|one| one.newest(remap.from_sector, remap.bytes == 0));
        if let Some(pending) = request.and_then(|id| self.pending(id)) {
            pending.remapped |= remap.from != remap.to;
        }
        self.layers.remap(remap, request);
    }

    /// Returns notes about devices that remap only some of their requests, such as dm-crypt and
    /// RAID 5. Their other requests may also count at the devices below.
    pub(super) fn unremapped_sentences(&self) -> Vec<String> {
        if self.layers.layer == Layer::Every {
            return Vec::new();
        }
        let sentence = |above: &Volume| {
            let below = self.layers.below(above.device);
            let list = self.volumes.list().iter();
            let below: Vec<&Volume> =
                list.filter(|volume| below.contains(&volume.device)).collect();
            let own: u64 = below.iter().map(|volume| volume.own).sum();
            let names: Vec<String> = below.iter().map(|volume| name(volume.device)).collect();
            (above.unremapped > 0 && own > 0).then(|| {
                format!(
                    "{} of volume {} {} not remapped to {} below it, and {} there {} not come from above: this is \
                     typical of dm-crypt and RAID 5, whose writes count at both layers; {} reads only one of them",
                    counted(above.unremapped, "request"),
                    name(above.device),
                    verb(above.unremapped, "is", "are"),
                    names.join(", "),
                    counted(own, "request"),
                    verb(own, "does", "do"),
                    named(&format!("only_volume={}", name(above.device))),
                )
            })
        };
        self.volumes.list().iter().filter_map(sentence).collect()
    }

    /// Leaves out a request that counts at the device below instead.
    pub(super) fn leave_out_above(&mut self, id: u64, below: u32) {
        let Some(pending) = self.pending(id).filter(|pending| pending.excluded.is_none()) else {
            return;
        };
        (pending.done, pending.excluded) = (true, Some(Exclusion::Above));
        let place = pending.record.volume;
        if let Some(volume) = self.volumes.get(place) {
            self.layers.count(volume.device, below);
        }
    }

    /// Processes a completion that no request to its device awaits. One with an error ends nothing,
    /// because the device above may send the request elsewhere.
    pub(super) fn complete_below(&mut self, span: &Span, at: Nanos) {
        let completed = self.layers.complete(span);
        if span.category.has(Category::FAILED) {
            return;
        }
        for (origin, sectors) in completed {
            let Some(volume) = self.volumes.find(origin.device) else { continue };
            if volume.completes {
                continue;
            }
            let is_sure = volume.completed_below >= BELOW_MIN;
            let Some(pending) = self.pending(origin.id).filter(|pending| !pending.done) else {
                continue;
            };
            pending.below = (pending.below.0 + sectors, Some(at));
            if is_sure {
                pending.complete_below();
            } else if pending.is_complete_below() {
                self.count_below(origin.device);
            }
        }
    }

    /// Counts a request that completed below. When there are enough of them, the device's requests
    /// no longer wait for completions of its own.
    fn count_below(&mut self, device: u32) {
        let Some(place) = self.volumes.find_place(device) else { return };
        let Some(volume) = self.volumes.get(place) else { return };
        volume.completed_below += 1;
        if volume.completed_below == BELOW_MIN {
            let own = self.pending.iter_mut().filter(|pending| pending.record.volume == place);
            own.for_each(Pending::complete_below);
        }
    }
}

impl Pending {
    fn is_complete_below(&self) -> bool {
        self.below.1.is_some() && self.below.0 >= self.end() - self.sector
    }

    /// Ends the request with its last completion below, unless the device completed it itself.
    pub(super) fn complete_below(&mut self) {
        if !self.done && self.record.latency.is_none() && self.is_complete_below() {
            self.record.latency = self.below.1.map(|at| at - self.record.at);
            self.done = true;
        }
    }
}
