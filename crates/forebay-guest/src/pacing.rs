//! Determines when a task's I/Os are due. The guest's threads and the simulator use the same rule.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use forebay_core::Nanos;

use crate::script::Task;

/// The progress of a task.
pub(crate) struct Pacing {
    /// The index of the next I/O.
    next: usize,
    /// The times since when places are free.
    free: BinaryHeap<Reverse<Nanos>>,
}

impl Pacing {
    /// Creates the state at the beginning of a task.
    pub(crate) fn new(task: &Task) -> Pacing {
        let free = (0..task.depth).map(|_| Reverse(task.start)).collect();
        Pacing { next: 0, free }
    }

    /// Returns when the next batch is due. Returns `None` if no I/Os are left, or if other I/Os
    /// must complete first.
    pub(crate) fn due(&self, task: &Task) -> Option<Nanos> {
        let io = task.ios.get(self.next)?;
        if task.pace.is_open() {
            return Some(task.start + io.time);
        }
        let places = self.batch(task).len();
        let mut free = self.free.clone();
        let mut last = None;
        for _ in 0..places {
            last = Some(free.pop()?.0);
        }
        last.map(|free| free + io.time)
    }

    /// Returns the I/Os of the batch that is due and marks them as submitted.
    pub(crate) fn take(&mut self, task: &Task) -> Range<usize> {
        let batch = self.batch(task);
        if !task.pace.is_open() {
            for _ in batch.clone() {
                self.free.pop();
            }
        }
        self.next = batch.end;
        batch
    }

    /// Records that an I/O has completed.
    pub(crate) fn ended(&mut self, task: &Task, now: Nanos) {
        if !task.pace.is_open() {
            self.free.push(Reverse(now));
        }
    }

    /// Returns the I/Os that are submitted together. With `pace=at`, these are only I/Os that are
    /// due at the same time.
    fn batch(&self, task: &Task) -> Range<usize> {
        let end = task.ios.len().min(self.next + task.batch as usize);
        let ios = &task.ios[self.next..end];
        let together = match task.pace.is_open() {
            true => ios.iter().take_while(|io| io.time == ios[0].time).count(),
            false => ios.len(),
        };
        self.next..self.next + together
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    fn task(text: &str) -> Task {
        Script::parse(text).unwrap().tasks.remove(0)
    }

    #[test]
    fn think_time_starts_when_the_previous_io_of_the_slot_ends() {
        let task = task("task a depth=2\nread 0 1 5\nread 1 1 7\nread 2 1 3\n");
        let mut pacing = Pacing::new(&task);
        assert_eq!(pacing.due(&task), Some(Nanos(5_000)));
        assert_eq!(pacing.take(&task), 0..1);
        assert_eq!(pacing.due(&task), Some(Nanos(7_000)));
        assert_eq!(pacing.take(&task), 1..2);
        assert_eq!(pacing.due(&task), None);
        pacing.ended(&task, Nanos(20_000));
        assert_eq!(pacing.due(&task), Some(Nanos(23_000)));
        pacing.take(&task);
        assert_eq!(pacing.due(&task), None);
    }

    #[test]
    fn a_batch_waits_for_all_its_places() {
        let task = task("task a depth=2 batch=2\nread 0 1 0\nread 1 1 0\nread 2 1 1\n");
        let mut pacing = Pacing::new(&task);
        assert_eq!(pacing.take(&task), 0..2);
        assert_eq!(pacing.due(&task), None);
        pacing.ended(&task, Nanos(9_000));
        assert_eq!(pacing.due(&task), Some(Nanos(10_000)));
    }

    #[test]
    fn open_ios_are_due_whatever_ended() {
        let task = task(
            "task a pace=at batch=2 start-us=1\nread 0 1 4\nread 1 1 4\nread 2 1 4\nread 3 1 8\n",
        );
        let mut pacing = Pacing::new(&task);
        assert_eq!((pacing.due(&task), pacing.take(&task)), (Some(Nanos(5_000)), 0..2));
        assert_eq!((pacing.due(&task), pacing.take(&task)), (Some(Nanos(5_000)), 2..3));
        assert_eq!((pacing.due(&task), pacing.take(&task)), (Some(Nanos(9_000)), 3..4));
        assert_eq!(pacing.due(&task), None);
    }
}
