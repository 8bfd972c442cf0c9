//! BID-Hybrid: BID-HDD on the disk, and the writes of light processes on the flash.
//!
//! Source: the **bid** paper, section "BID-hybrid", Algorithm 3. Requests are first filtered by where
//! their data are: what was placed on the flash before is read and updated there. The rest is staged
//! by process as in BID-HDD; when a staging queue is flushed, the *packing fraction* of its writes,
//! their bytes over their number after merging, decides: light ones go to the flash, where each
//! staging queue's stream is a submitter of its own, first in, first out; bulky ones, and all reads,
//! go to the disk. A staging queue of reads alone is not looked at.
//!
//! Decisions where the paper leaves room: the decision falls when the queue is marked, for the flash
//! need not wait for the disk, and again for writes that come between the mark and the flush; reads
//! staged beside light writes stay in the flush; without room on the flash writes go to the disk. A
//! request keeps its place in the disk's request queue until the flash has done it.

/// What separates light processes from bulky ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    /// Bytes a write request; fewer are light.
    pub(crate) threshold_bytes: u32,
}

impl Packing {
    /// Whether writes of these lengths, if there are any, are light.
    pub(crate) fn is_light(self, lens: impl Iterator<Item = u32>) -> bool {
        let (count, bytes) =
            lens.fold((0u64, 0u64), |(count, bytes), len| (count + 1, bytes + u64::from(len)));
        count > 0 && bytes < count * u64::from(self.threshold_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_is_less_than_the_threshold_on_average() {
        let packing = Packing { threshold_bytes: 65_536 };
        let is_light = |lens: &[u32]| packing.is_light(lens.iter().copied());
        assert!(!is_light(&[]), "reads alone");
        assert!(is_light(&[4096]) && is_light(&[65_535]) && !is_light(&[65_536]));
        // One bulky request carries fifteen small ones, not sixteen.
        let with = |small| [vec![4096; small], vec![1 << 20]].concat();
        assert!(!is_light(&with(16)) && is_light(&with(17)), "1 MiB and n of 4 KiB");
    }
}
