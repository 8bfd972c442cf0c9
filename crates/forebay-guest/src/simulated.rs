//! Runs a script as a workload of the simulator, in virtual time.

use forebay_core::catalog::build;
use forebay_core::{
    Completion, Device, Done, Flags, Nanos, Observer, Op, Request, Slots, Workload, simulate,
};

use crate::disk::Disk;
use crate::outcome::{DiskIo, Outcome, Times};
use crate::pacing::Pacing;
use crate::script::{Pace, Script};

/// The duration of a system call that submits I/Os. A thread makes one call at a time, so an I/O
/// that is submitted alone reaches the disk before the next one can be merged with it.
const CALL: Nanos = Nanos::from_micros(20);

/// The I/Os of one system call that are not submitted yet: those of a task from `index` to `end`,
/// with the time when they were due and submitted.
struct Batch {
    task: usize,
    index: usize,
    end: usize,
    due: Nanos,
    at: Nanos,
}

/// The running tasks. Each is a stream.
struct Tasks<'a> {
    script: &'a Script,
    pacing: Vec<Pacing>,
    /// The time until which each task is in a system call.
    calls: Vec<Nanos>,
    begun: Option<Batch>,
    now: Nanos,
    times: Vec<Vec<Times>>,
    /// When the turn of each I/O of each task came; its thread slept until then.
    turns: Vec<Vec<Nanos>>,
}

impl Tasks<'_> {
    fn next(&self) -> Option<(Nanos, usize)> {
        let due = |(index, pacing): (usize, &Pacing)| {
            let due = pacing.due(&self.script.tasks[index])?;
            Some((due.max(self.calls[index]).max(self.now), index))
        };
        self.pacing.iter().enumerate().filter_map(due).min()
    }
}

/// Corrects due times. A thread that sleeps while it waits for a free request notices no
/// completions, so it begins to think about the next I/O only when it wakes up.
fn due_awake(script: &Script, times: &mut [Vec<Times>], turns: &[Vec<Nanos>]) {
    for ((task, times), turns) in script.tasks.iter().zip(times).zip(turns) {
        if task.pace.is_open() {
            continue;
        }
        for index in 1..times.len() {
            let (woke, asked) = (turns[index - 1], times[index - 1].submitted);
            if woke > asked {
                let thought = (woke + task.ios[index].time).min(turns[index]);
                times[index].due = times[index].due.max(thought);
            }
        }
    }
}

impl Workload for Tasks<'_> {
    fn peek(&self) -> Option<Nanos> {
        match &self.begun {
            Some(begun) => Some(begun.at),
            None => self.next().map(|(at, _)| at),
        }
    }

    fn take(&mut self) -> Request {
        let Batch { task, index, end, due, at } = match self.begun.take() {
            Some(begun) => begun,
            None => {
                let (at, task) = self.next().expect("called only after a time was returned");
                let due = self.pacing[task].due(&self.script.tasks[task]).unwrap_or(at);
                let batch = self.pacing[task].take(&self.script.tasks[task]);
                self.calls[task] = at + CALL;
                Batch { task, index: batch.start, end: batch.end, due, at }
            }
        };
        self.now = at;
        let rest = Batch { task, index: index + 1, end, due, at };
        self.begun = Some(rest).filter(|rest| rest.index < end);
        (self.times[task][index].due, self.times[task][index].submitted) = (due, at);
        let (script, io) = (&self.script.tasks[task], &self.script.tasks[task].ios[index]);
        let flags = match script.pace {
            Pace::Flushed => Flags::WRITE_BACK,
            _ if io.op == Op::Write => Flags::SYNC,
            _ => Flags::NONE,
        };
        Request {
            at,
            offset: io.offset,
            id: (task as u64) << 32 | index as u64,
            len: io.len,
            stream: task as u32,
            lane: 0,
            op: io.op,
            flags,
        }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        let (task, index) = ((done.request.id >> 32) as usize, done.request.id as u32 as usize);
        self.now = now;
        self.times[task][index].done = now;
        self.turns[task][index] = done.request.at + done.held;
        self.pacing[task].ended(&self.script.tasks[task], now);
    }
}

/// The I/Os that reached the disk.
#[derive(Default)]
struct Seen(Vec<DiskIo>);

impl Observer for Seen {
    fn io(&mut self, completion: &Completion) {
        let Request { at: accepted, offset, len, op, .. } = completion.io;
        self.0.push(DiskIo { op, offset, len, accepted, done: completion.at });
    }
}

/// Runs `script` under `scheduler` on `device`, whose platters have already rotated for `phase`.
///
/// # Errors
/// Fails if there is no such device or scheduler.
pub(crate) fn simulated(
    script: &Script,
    device: &str,
    scheduler: &str,
    phase: Nanos,
) -> Result<Outcome, String> {
    let disk = Disk::open(device)?.taken_ahead();
    let mut policy = build(scheduler, disk.len_max()).map_err(|error| error.to_string())?;
    let mut shifted = script.clone();
    shifted.tasks.iter_mut().for_each(|task| task.start += phase);
    let times = |task: &crate::script::Task| vec![Times::default(); task.ios.len()];
    let mut tasks = Tasks {
        script: &shifted,
        pacing: shifted.tasks.iter().map(Pacing::new).collect(),
        calls: vec![Nanos::ZERO; shifted.tasks.len()],
        begun: None,
        now: Nanos::ZERO,
        times: shifted.tasks.iter().map(times).collect(),
        turns: shifted.tasks.iter().map(|task| vec![Nanos::ZERO; task.ios.len()]).collect(),
    };
    let (mut seen, mut disks) = (Seen::default(), [disk]);
    let last = simulate::run(&mut policy, &mut disks, &mut tasks, &mut seen);
    due_awake(&shifted, &mut tasks.times, &tasks.turns);
    let mut outcome =
        Outcome { end: last - phase, busy: disks[0].busy(last), ios: seen.0, times: tasks.times };
    outcome.ios.iter_mut().for_each(|io| {
        (io.accepted, io.done) = (io.accepted - phase, io.done - phase);
    });
    outcome.times.iter_mut().flatten().for_each(|times| {
        times.due = times.due - phase;
        (times.submitted, times.done) = (times.submitted - phase, times.done - phase);
    });
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(script: &str, scheduler: &str) -> Vec<Vec<(u64, u64)>> {
        let script = Script::parse(script).unwrap();
        let outcome = simulated(&script, "fixed:1000", scheduler, Nanos(0)).unwrap();
        let us = |times: &Times| (times.due.0 / 1000, times.done.0 / 1000);
        outcome.times.iter().map(|task| task.iter().map(us).collect()).collect()
    }

    #[test]
    fn a_closed_loop_thinks_after_each_answer() {
        let script = "task a\nread 0 4096 500\nread 1048576 4096 250\n";
        assert_eq!(times(script, "none"), [[(500, 1500), (1750, 2750)]]);
    }

    #[test]
    fn calls_take_time_but_a_batch_starts_at_once() {
        // Adjacent I/Os of one call are merged. With two calls, the first I/O is already on the
        // disk when the second is submitted.
        let ios = "read 0 4096 0\nread 4096 4096 0\n";
        let apart = times(&format!("task a depth=2\n{ios}"), "none");
        assert_eq!(apart, [[(0, 1000), (0, 2000)]]);
        let together = times(&format!("task a depth=2 batch=2\n{ios}"), "none");
        assert_eq!(together, [[(0, 1000), (0, 1000)]]);
    }

    #[test]
    fn phases_do_not_affect_times() {
        let script = Script::parse("task a start-us=100\nread 0 4096 0\n").unwrap();
        let outcome = simulated(&script, "fixed:1000", "none", Nanos::from_millis(7)).unwrap();
        assert_eq!(outcome.times[0][0].due, Nanos::from_micros(100));
        assert_eq!(outcome.end, Nanos::from_micros(1100));
        assert_eq!(outcome.ios[0].accepted, Nanos::from_micros(100));
    }
}
