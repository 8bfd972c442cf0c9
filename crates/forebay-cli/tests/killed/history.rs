//! Tracks what each sector may contain, according to the messages of the writer.

use std::collections::BTreeSet;

use crate::killed::steps::{SECTORS, Step};

pub(crate) struct History {
    /// For each sector, the steps that may have written its content, from the oldest to the newest;
    /// 0 stands for zeros.
    may_be: Vec<Vec<u64>>,
    /// Writes that were acknowledged but are not durable yet.
    answered: BTreeSet<u64>,
    /// Pending flushes, each with the writes that were acknowledged before it began.
    flushes: Vec<(u64, BTreeSet<u64>)>,
}

impl Default for History {
    fn default() -> History {
        History {
            may_be: vec![vec![0]; SECTORS as usize],
            answered: BTreeSet::new(),
            flushes: Vec::new(),
        }
    }
}

impl History {
    /// Records a message of the writer. Returns whether it was an acknowledgment.
    pub(crate) fn note(&mut self, line: &str) -> bool {
        match line.split_once(' ').map(|(word, number)| (word, number.parse())) {
            Some(("begins", Ok(number))) => self.begins(number),
            Some(("answered", Ok(number))) => {
                self.answered(number);
                return true;
            }
            Some(("failed", Ok(number))) => panic!("step {number} failed"),
            // Ignore output of the test harness.
            _ => {}
        }
        false
    }

    fn begins(&mut self, number: u64) {
        let step = Step::at(number);
        for sector in step.sectors() {
            self.may_be[sector as usize].push(number);
        }
        if let Step::Flush = step {
            self.flushes.push((number, self.answered.clone()));
        }
    }

    fn answered(&mut self, number: u64) {
        match Step::at(number) {
            Step::Write { durable: false, .. } => drop(self.answered.insert(number)),
            Step::Write { durable: true, .. } => self.is_durable(number),
            Step::Flush => {
                let at = self.flushes.iter().position(|(flush, _)| *flush == number).unwrap();
                let (_, covered) = self.flushes.remove(at);
                covered.into_iter().for_each(|number| self.is_durable(number));
            }
        }
    }

    /// Records that a write is durable, so that older content can no longer appear.
    fn is_durable(&mut self, number: u64) {
        self.answered.remove(&number);
        for sector in Step::at(number).sectors() {
            self.may_be[sector as usize].retain(|of| *of >= number);
        }
    }

    /// Checks that the content found is possible. From then on, it is the only possible content.
    pub(crate) fn hold(&mut self, found: &[u64], what: &str) {
        for (sector, (of, may_be)) in found.iter().zip(&mut self.may_be).enumerate() {
            assert!(
                may_be.contains(of),
                "{what}: sector {sector} is of step {of}, not of {may_be:?}"
            );
            *may_be = vec![*of];
        }
        self.answered.clear();
        self.flushes.clear();
    }
}
