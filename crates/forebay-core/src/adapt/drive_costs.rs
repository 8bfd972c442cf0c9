//! The costs of writes and switches on particular drives, small enough for the label of a volume.

use super::costs::Costs;

/// The maximum number of chunks of a unit that can be RAID 6 and three copies.
const CHUNKS_MAX: usize = 5;

/// The costs of RAID 6 and of three copies on a set of drives, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveCosts {
    /// The costs of writing 1, 2 ... chunks, by layout; 0 for more chunks than a unit has.
    pub writes: [[u64; CHUNKS_MAX]; 2],
    /// The costs of switching to three copies, and back.
    pub switches: [u64; 2],
}

impl DriveCosts {
    /// The number of words of the encoded costs.
    pub const WORDS: usize = 2 * CHUNKS_MAX + 2;

    /// Returns the costs as words.
    pub fn words(self) -> impl Iterator<Item = u64> {
        self.writes.into_iter().flatten().chain(self.switches)
    }

    /// Decodes costs; `None` if the words contain no costs.
    pub fn of_words(words: &[u64]) -> Option<DriveCosts> {
        let (writes, switches) = words.split_at_checked(2 * CHUNKS_MAX)?;
        let (raid6, copies) = writes.split_first_chunk::<CHUNKS_MAX>()?;
        let costs = DriveCosts {
            writes: [*raid6, *copies.first_chunk()?],
            switches: *switches.first_chunk()?,
        };
        (costs.chunks() > 0).then_some(costs)
    }

    /// Returns the number of chunks of a unit.
    fn chunks(&self) -> usize {
        let is_known = |at: &usize| self.writes.iter().all(|row| row[*at] > 0);
        (0..CHUNKS_MAX).take_while(is_known).count()
    }

    /// Returns the costs for rules. A unit switches once the other layout would have saved a
    /// hundredth more than the switch costs; the paper's thresholds exceed the costs of switches by
    /// as little. Returns `None` if the costs of writes are unknown.
    pub fn costs(&self) -> Option<Costs> {
        let writes = self.writes.map(|row| row[..self.chunks()].to_vec());
        let square = |[there, back]: [u64; 2]| [vec![0, there], vec![back, 0]];
        let thresholds = self.switches.map(|cost| cost.saturating_add(cost / 100));
        Costs::new(&writes, &[], &square(self.switches), &square(thresholds))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RAID6, RAID10};
    use super::*;
    use crate::contract::Op;

    #[test]
    fn costs_come_back_from_words_and_rules_can_use_them() {
        let mut costs = DriveCosts { switches: [500, 300], ..DriveCosts::default() };
        assert_eq!((DriveCosts::of_words(&[0; 12]), costs.costs()), (None, None));
        costs.writes = [[70, 71, 72, 60, 0], [20, 40, 60, 80, 0]];
        let words: Vec<u64> = costs.words().collect();
        assert_eq!(words.len(), DriveCosts::WORDS);
        assert_eq!(DriveCosts::of_words(&words), Some(costs));
        assert_eq!(DriveCosts::of_words(&words[1..]), None, "a word is missing");
        let table = costs.costs().unwrap();
        let write = |chunks| table.class(Op::Write, chunks);
        assert_eq!((table.classes(), table.cheapest(write(3))), (9, RAID10));
        assert_eq!((table.cost(RAID6, write(4)), table.cost(RAID6, write(9))), (60, 60));
        assert_eq!((table.switch(RAID6, RAID10), table.threshold(RAID10, RAID6)), (500, 303));
    }

    #[test]
    fn costs_from_a_hostile_label_overflow_nothing() {
        let table = DriveCosts::of_words(&[u64::MAX; 12]).unwrap().costs().unwrap();
        assert!(table.diameter() < u64::MAX && table.cost(RAID6, 0) < u64::MAX / 4);
    }
}
