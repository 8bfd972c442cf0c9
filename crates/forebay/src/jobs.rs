//! Runs the parts of a verb's work in parallel, each on its own thread.
//!
//! Invariants: results are in the order of the parts and do not depend on the number of threads. If
//! several parts fail, the error of the first one in that order is returned. Progress callbacks run
//! on the calling thread.

use std::fs;
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use forebay_core::replay::AHEAD_MAX;

use crate::progress::{ProgressReport, Telling, unheard};
use crate::replayed::{Replay, Setup};
use crate::{Error, Input};

/// The least memory that is assumed to be free for the waiting requests of all concurrent runs.
const WAITING_BYTES_LEAST: u64 = 1 << 30;

/// The share of the machine's memory that the waiting requests of all concurrent runs may take.
const WAITING_MEMORY_SHARE: u64 = 4;

/// The memory that a waiting request takes in open replay: `elevator/block` uses 64 bytes.
const WAITING_BYTES: u64 = 64;

/// The memory that a request takes in closed replay, which holds all requests, and in dependent
/// replay, which reads ahead.
const HELD_BYTES: u64 = 150;

/// Returns the number of available processors.
pub fn all() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns the memory for the waiting requests of all concurrent runs: a quarter of what the
/// machine has, or of what this process's container may use.
fn waiting_bytes_max() -> u64 {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total_kib = meminfo.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    let limits = [
        total_kib.map(|kib| kib << 10),
        number("/sys/fs/cgroup/memory.max"),
        number("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ];
    let memory = limits.into_iter().flatten().min().unwrap_or(0);
    WAITING_BYTES_LEAST.max(memory / WAITING_MEMORY_SHARE)
}

/// Returns how many of `jobs` runs may run concurrently without exceeding the memory limit, but at
/// least one. `waiting_max` is the highest number of requests that wait at any time in a run of
/// `input`; `None` if unknown, in which case all might wait.
pub(crate) fn within_memory(
    jobs: usize,
    input: &Input,
    setup: Setup,
    waiting_max: Option<u64>,
) -> usize {
    within(waiting_bytes_max(), jobs, input, setup, waiting_max)
}

fn within(
    bytes_max: u64,
    jobs: usize,
    input: &Input,
    setup: Setup,
    waiting_max: Option<u64>,
) -> usize {
    let requests = input.description.records;
    let bytes = match setup.replay {
        Replay::Closed => requests.saturating_mul(HELD_BYTES),
        Replay::Dependent => requests.min(AHEAD_MAX as u64) * HELD_BYTES,
        Replay::Open => waiting_max.unwrap_or(requests).saturating_mul(WAITING_BYTES),
    };
    let fitting = bytes_max / bytes.max(1);
    jobs.min(usize::try_from(fitting).unwrap_or(usize::MAX)).max(1)
}

/// A message from a thread about its part of the work.
enum News {
    Begun(usize),
    /// The part with this index has counted up to this number.
    Counted(usize, u64),
    Ended(usize),
}

/// A callback that reports the progress of one part, and returns whether to continue.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Runs parts of the work in parallel, up to `jobs` at a time. `names` are the parts' names, and
/// `work` gets the index of its part. Each part counts up to about `steps`. All parts together are
/// the given `share` of the verb's work, for `progress`.
///
/// # Errors
/// Returns the error of the first part that failed; [`Error::Stopped`] if `progress` requests a
/// stop.
pub(crate) fn side_by_side<T: Send>(
    names: &[&str],
    (jobs, steps): (usize, u64),
    share: Range<f64>,
    work: impl Fn(usize, Tell<'_>) -> Result<T, Error> + Sync,
    progress: Telling<'_>,
) -> Result<Vec<T>, Error> {
    let answers: Vec<_> = names.iter().map(|_| Mutex::new(None)).collect();
    let run = |part: usize, tell: Tell<'_>| {
        let answer = work(part, tell);
        let is_ok = answer.is_ok();
        *answers[part].lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        is_ok
    };
    run_parts(Parts::new(names, steps, share), jobs, &run, progress)?;
    answers.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect()
}

/// Runs all parts. `run` keeps the result of a part, and returns whether it succeeded. The results'
/// type is not known here, so this is compiled only once.
fn run_parts(
    mut parts: Parts<'_>,
    jobs: usize,
    run: &(dyn Fn(usize, Tell<'_>) -> bool + Sync),
    progress: Telling<'_>,
) -> Result<(), Error> {
    let (next, stopped, failed) =
        (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let count = parts.names.len();
    let worker = |news: Sender<News>| {
        while !failed.load(Ordering::Relaxed) && !stopped.load(Ordering::Relaxed) {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= count {
                return;
            }
            // Sending cannot fail: the receiver exists until all threads have ended.
            let _ = news.send(News::Begun(part));
            let mut tell = |count| {
                let _ = news.send(News::Counted(part, count));
                match stopped.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            };
            failed.fetch_or(!run(part, &mut tell), Ordering::Relaxed);
            let _ = news.send(News::Ended(part));
        }
    };
    thread::scope(|scope| {
        let (sender, news) = mpsc::channel();
        for _ in 0..jobs.clamp(1, count.max(1)) {
            let sender = sender.clone();
            scope.spawn(|| worker(sender));
        }
        drop(sender);
        for one in news {
            if parts.hear(one) && progress(&parts.told()).is_break() {
                stopped.store(true, Ordering::Relaxed);
            }
        }
    });
    if stopped.into_inner() { Err(Error::Stopped) } else { Ok(()) }
}

/// Runs `work` on each of `parts`, one per processor at a time, and returns the results in order.
/// `called` names a part in progress messages. All parts together are the given `share` of the
/// verb's work, for `progress`.
///
/// # Errors
/// Returns the error of the first part that failed; [`Error::Stopped`] if `progress` requests a
/// stop.
pub(crate) fn each_told<J: Sync, T: Send>(
    parts: &[J],
    called: impl Fn(&J) -> String,
    share: Range<f64>,
    work: impl Fn(&J) -> Result<T, Error> + Sync,
    progress: Telling<'_>,
) -> Result<Vec<T>, Error> {
    let names: Vec<String> = parts.iter().map(called).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    side_by_side(&names, (all(), 1), share, |part, _| work(&parts[part]), progress)
}

/// Runs `work` on each of `parts`, one per processor at a time and without reporting progress, and
/// returns the results in order.
///
/// # Errors
/// Returns the error of the first part that failed.
pub(crate) fn on_all_cores<J: Sync, T: Send>(
    parts: &[J],
    work: impl Fn(&J) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let names = vec![""; parts.len()];
    side_by_side(&names, (all(), 1), 0.0..1.0, |part, _| work(&parts[part]), &mut unheard)
}

/// The progress of all parts.
struct Parts<'a> {
    names: &'a [&'a str],
    steps: u64,
    share: Range<f64>,
    /// The count of each running part; `None` before the part begins and after it ends.
    under_way: Vec<Option<u64>>,
    /// The number of parts that have ended.
    ended: usize,
}

impl<'a> Parts<'a> {
    fn new(names: &'a [&'a str], steps: u64, share: Range<f64>) -> Parts<'a> {
        Parts { names, steps, share, under_way: vec![None; names.len()], ended: 0 }
    }

    /// Processes a message from a thread, and returns whether it is worth reporting.
    fn hear(&mut self, news: News) -> bool {
        match news {
            News::Begun(part) => self.under_way[part] = Some(0),
            // If a part consists of several runs, each run counts from 0.
            News::Counted(part, count) => {
                self.under_way[part] = self.under_way[part].max(Some(count));
            }
            News::Ended(part) => {
                self.under_way[part] = None;
                self.ended += 1;
                return false;
            }
        }
        true
    }

    fn told(&self) -> ProgressReport {
        let of = |count: &u64| (*count as f64 / self.steps.max(1) as f64).min(1.0);
        let done = self.ended as f64 + self.under_way.iter().flatten().map(of).sum::<f64>();
        let whole = self.share.end - self.share.start;
        let doing = self.names.iter().zip(&self.under_way).filter(|(_, count)| count.is_some());
        ProgressReport {
            doing: doing.map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
            done_share: self.share.start + whole * done / self.names.len().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::sample;
    use forebay_trace::streams::StreamBy;

    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

    fn squares(jobs: usize) -> Result<Vec<usize>, Error> {
        let work = |part: usize, _: Tell<'_>| Ok(part * part);
        side_by_side(&NAMES, (jobs, 1), 0.0..1.0, work, &mut unheard)
    }

    #[test]
    fn answers_come_in_order_whatever_the_number_of_threads() {
        for jobs in [0, 1, 2, 5, 99] {
            assert_eq!(squares(jobs).unwrap(), [0, 1, 4, 9, 16], "{jobs}");
        }
        let none = side_by_side(&[], (2, 1), 0.0..1.0, |_, _| Ok(()), &mut unheard);
        assert_eq!(none.unwrap(), []);
    }

    #[test]
    fn as_many_are_under_way_as_there_are_jobs() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let count = |meets: &dyn Fn()| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            meets();
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        let alone = |_: usize, _: Tell<'_>| count(&|| ());
        side_by_side(&NAMES, (1, 1), 0.0..1.0, alone, &mut unheard).unwrap();
        assert_eq!(most.swap(0, Ordering::SeqCst), 1);
        // The barrier deadlocks unless two parts run at the same time.
        let pair = Barrier::new(2);
        let met = |_: usize, _: Tell<'_>| count(&|| _ = pair.wait());
        side_by_side(&NAMES[..4], (2, 1), 0.0..1.0, met, &mut unheard).unwrap();
        assert_eq!(most.into_inner(), 2);
    }

    #[test]
    fn the_first_error_in_order_is_told_and_nothing_begins_after_one() {
        let begun = AtomicUsize::new(0);
        let work = |part: usize, _: Tell<'_>| {
            begun.fetch_add(1, Ordering::Relaxed);
            let fails = |name: &str| Err::<(), _>(Error::Unfit(name.to_string()));
            if part >= 1 { fails(NAMES[part]) } else { Ok(()) }
        };
        let error = side_by_side(&NAMES, (1, 1), 0.0..1.0, work, &mut unheard).unwrap_err();
        assert_eq!((error.to_string().as_str(), begun.into_inner()), ("b", 2));
    }

    #[test]
    fn progress_rises_within_its_share_and_can_stop_all() {
        let mut told = Vec::new();
        // A part that consists of two runs counts from 0 twice.
        let counts = (1..=4).chain(1..=4);
        let work =
            |_: usize, tell: Tell<'_>| match counts.clone().any(|count| tell(count).is_break()) {
                true => Err(Error::Stopped),
                false => Ok(()),
            };
        let mut keep = |now: &ProgressReport| {
            told.push((now.doing.clone(), now.done_share));
            std::ops::ControlFlow::Continue(())
        };
        side_by_side(&NAMES, (1, 4), 0.5..1.0, work, &mut keep).unwrap();
        assert_eq!((told[0].0.as_str(), told[0].1), ("a", 0.5));
        assert!(told.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{told:?}");
        assert_eq!(told.last().map(|last| (last.0.as_str(), last.1)), Some(("e", 1.0)));
        let mut calls = 0;
        let mut stop = |_: &ProgressReport| {
            calls += 1;
            ControlFlow::Break(())
        };
        let stopped = side_by_side(&NAMES, (1, 4), 0.0..1.0, work, &mut stop);
        assert!(matches!(stopped, Err(Error::Stopped)) && calls >= 1);
    }

    #[test]
    fn fewer_run_where_more_would_not_fit() {
        let mut input = sample::read(StreamBy::Thread, &mut crate::progress::untold).unwrap();
        input.description.records = 20_000_000;
        let (open, closed) =
            (Setup::default(), Setup { replay: Replay::Closed, ..Setup::default() });
        let fit = |setup, waiting_max| within(1 << 30, 4, &input, setup, waiting_max);
        assert_eq!(fit(open, None), 1, "all may wait");
        assert_eq!(fit(open, Some(1_000_000)), 4);
        assert_eq!(fit(open, Some(5_000_000)), 3);
        assert_eq!(fit(closed, Some(0)), 1);
        assert!(within_memory(4, &input, open, Some(1_000_000)) == 4);
        input.description.records = 100;
        assert_eq!(within(1 << 30, 4, &input, open, None), 4);
    }
}
