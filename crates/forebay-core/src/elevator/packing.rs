//! BID-Hybrid: BID-HDD on the disk, with the writes of light processes on the flash.
//!
//! Source: the **bid** paper, section "BID-hybrid", Algorithm 3. Requests are first separated by
//! location: data that was placed on the flash before is read and updated there. All other requests
//! are staged by process as in BID-HDD. When a staging queue is flushed, the *packing fraction* of
//! its writes (their bytes divided by their number after merging) decides. Light writes go to the
//! flash, where each staging queue's stream is a separate submitter, first in, first out; bulky
//! writes and all reads go to the disk. A staging queue that contains only reads is not evaluated.
//!
//! Decisions that the paper leaves open: the decision is made when the queue is marked, because the
//! flash need not wait for the disk, and again for writes that arrive between marking and flushing;
//! reads staged with light writes stay in the flush; without space on the flash, writes go to the
//! disk. A request keeps its slot in the disk's request queue until the flash has completed it.

/// The rule that distinguishes light processes from bulky ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    /// Writes are light if their mean length is below this, in bytes.
    pub(crate) threshold_bytes: u32,
}

impl Packing {
    /// Returns whether writes of these lengths are light. No writes are not light.
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
        // Together with a write of 1 MiB, it takes 17 writes of 4 KiB to lower the mean below 64
        // KiB.
        let with = |small| [vec![4096; small], vec![1 << 20]].concat();
        assert!(!is_light(&with(16)) && is_light(&with(17)), "1 MiB and n of 4 KiB");
    }
}
