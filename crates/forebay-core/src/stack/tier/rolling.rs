//! Distinguishes light and bulky tasks as bcache does: by how much a task reads or writes
//! sequentially.
//!
//! Source: Linux `drivers/md/bcache/request.c`, `check_should_bypass`. Two figures count: a task's
//! current run of adjacent requests, and the rolling average of its runs (with a weight of one
//! eighth). If either reaches the cut-off, the task's requests bypass the flash. Deviation: one run
//! per task is tracked, while bcache finds the run by address among the last 128.

use super::Choose;
use crate::contract::{Op, Request};

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    end: u64,
    run_bytes: u64,
    average_bytes: u64,
}

/// Decides by task whether writes go to the flash.
#[derive(Clone, Debug)]
pub(crate) struct Rolling {
    cutoff_bytes: u64,
    tasks: Vec<Task>,
}

impl Rolling {
    pub(crate) fn new(cutoff_bytes: u64) -> Rolling {
        Rolling { cutoff_bytes, tasks: Vec::new() }
    }
}

impl Choose for Rolling {
    fn is_for_flash(&mut self, request: &Request) -> bool {
        let index = request.stream as usize;
        if index >= self.tasks.len() {
            self.tasks.resize(index + 1, Task::default());
        }
        let task = &mut self.tasks[index];
        if request.offset == task.end {
            task.run_bytes += u64::from(request.len);
        } else {
            task.average_bytes = (7 * task.average_bytes + task.run_bytes) / 8;
            task.run_bytes = request.len.into();
        }
        task.end = request.end();
        request.op == Op::Write && task.run_bytes.max(task.average_bytes) < self.cutoff_bytes
    }

    fn begin_stream(&mut self, stream: u32) {
        if let Some(task) = self.tasks.get_mut(stream as usize) {
            *task = Task::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Flags, Nanos};

    #[test]
    fn long_runs_reach_the_cut_off_and_are_remembered() {
        let mut rolling = Rolling::new(8192);
        let mut light = |stream, offset, len| {
            let (at, id, lane, op, flags) = (Nanos::ZERO, 0, 0, Op::Write, Flags::NONE);
            rolling.is_for_flash(&Request { at, offset, id, len, stream, lane, op, flags })
        };
        assert!(light(1, 1000, 4096) && !light(1, 5096, 4096) && light(2, 9192, 4096));
        // After a long run, the average exceeds the cut-off also for requests elsewhere.
        assert!(!light(1, 9192, 1 << 20));
        assert!(!light(1, 50, 512), "average 1/8 of 1 MiB");
        assert!(light(2, 50, 512));
    }

    #[test]
    fn a_run_has_weight_one_eighth_in_the_average() {
        for (run, expected) in [(65_536, false), (65_528, true)] {
            let mut rolling = Rolling::new(8192);
            let mut light = |offset, len| {
                let (at, id, lane, op, flags) = (Nanos::ZERO, 0, 0, Op::Write, Flags::NONE);
                rolling.is_for_flash(&Request { at, offset, id, len, stream: 0, lane, op, flags })
            };
            light(1 << 30, run);
            assert_eq!(light(1 << 20, 512), expected, "{run} / 8");
            // The average fades: 7 * 8192 plus 512 is less than 8 * 8192.
            assert!(light(1 << 25, 512));
        }
    }
}
