//! Runs fio jobs on a model in a closed loop: each completion is followed by the next I/O, so the
//! number of outstanding I/Os stays constant.
//!
//! The host's overhead ([`Host`]) is not part of the drive: the pause between a completion and the
//! next I/O, and the time to wake up if the host sleeps while its only I/O is in flight. I/Os that
//! the drive cannot accept yet wait in the host ([`Order`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_core::{Device, Flags, Nanos, Op, Request};

use crate::fit::sweep::SweepRow;
use crate::random::Random;

/// The host's overhead for the I/Os of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pause {
    /// The time from a completion to the next I/O.
    pub gap: Nanos,
    /// The additional delay until the host notices a completion if it slept because this was its
    /// only I/O.
    pub wake: Nanos,
}

/// The order in which a host issues I/Os that wait for the drive to accept them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By address, like Linux's mq-deadline. If the drive accepts fewer I/Os than are outstanding,
    /// latencies are spread evenly and reach 1.5 times the mean.
    #[default]
    Address,
    /// In order of arrival.
    Arrival,
}

/// The host's share of measured latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Host {
    /// The overhead of reads.
    pub reads: Pause,
    /// The overhead of writes.
    pub writes: Pause,
    /// The order in which the host issues I/Os.
    pub order: Order,
}

impl Host {
    fn of(&self, op: Op) -> Pause {
        if op == Op::Write { self.writes } else { self.reads }
    }
}

/// A fio job with its clones.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Whether I/Os go to random positions; otherwise, each clone continues where its last I/O
    /// ended.
    pub random: bool,
    /// The number of clones.
    pub clones: u32,
    /// The total number of outstanding I/Os of all clones.
    pub depth: u32,
    /// The size of each I/O in bytes.
    pub block_bytes: u32,
    /// The fraction of I/Os that are reads.
    pub reads_share: f64,
}

impl Job {
    /// Creates a job of random I/O that measures one row of a sweep.
    pub fn random(op: Op, block_bytes: u32, depth: u32) -> Job {
        let reads_share = if op == Op::Read { 1.0 } else { 0.0 };
        Job { random: true, clones: 1, depth, block_bytes, reads_share }
    }
}

/// The duration of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// The number of I/Os before measurement begins.
    pub warm: u64,
    /// The number of measured I/Os.
    pub ios: u64,
    /// The time at which the measurement ends at the latest; later completions do not count.
    pub until: Nanos,
}

/// The job and clone that issued an I/O.
type Owner = (u32, u32);

/// The state of a run.
struct Run<'a, D: Device> {
    device: &'a mut D,
    jobs: &'a [Job],
    host: Host,
    /// The times at which I/Os are issued. Equal times keep their order of insertion.
    issues: BinaryHeap<Reverse<(Nanos, u64, Owner)>>,
    waiting: Vec<Request>,
    /// The position up to which the host has issued I/Os in address order.
    head: u64,
    /// The owner of each I/O in flight, by id.
    owners: Vec<(u64, Owner)>,
    /// The next position of each clone of each job.
    next: Vec<Vec<u64>>,
    now: Nanos,
    random: Random,
    issued: u64,
}

/// Measures one row of random I/O on a disk for a minute, as fio would with a single job. The host
/// issues I/Os in order of arrival.
pub fn play_disk<D: Device>(device: &mut D, op: Op, block_bytes: u32, depth: u32) -> SweepRow {
    let job = Job::random(op, block_bytes, depth);
    let host = Host { order: Order::Arrival, ..Host::default() };
    let length = Length { warm: 0, ios: DISK_IOS_MAX, until: DISK_RUN };
    let rows = play(device, std::slice::from_ref(&job), host, length);
    let none = || row(op, &job, Vec::new(), 1.0);
    rows.into_iter().flatten().next().unwrap_or_else(none)
}

/// The simulated time for which one row is measured on a disk.
const DISK_RUN: Nanos = Nanos::from_secs(60);
/// The maximum number of I/Os per row, so that a device that answers everything from a cache
/// finishes sooner.
const DISK_IOS_MAX: u64 = 1_000_000;

/// Runs `jobs` at the same time on an idle `device`. Returns the rows of each job for reads and
/// writes, without empty rows.
pub fn play<D: Device>(
    device: &mut D,
    jobs: &[Job],
    host: Host,
    length: Length,
) -> Vec<Vec<SweepRow>> {
    let mut run = Run::new(device, jobs, host);
    let mut latencies_ns = vec![[Vec::new(), Vec::new()]; jobs.len()];
    let (mut count, mut begun, mut now) = (0, Nanos::ZERO, Nanos::ZERO);
    while count < length.warm + length.ios {
        let Some((at, op, job, latency)) = run.step() else { break };
        if at > length.until {
            break;
        }
        now = at;
        count += 1;
        if count == length.warm {
            begun = now;
        } else if count > length.warm {
            latencies_ns[job][usize::from(op == Op::Write)].push(latency.0);
        }
    }
    let seconds = (now - begun).as_secs_f64().max(1e-9);
    let rows = jobs.iter().zip(latencies_ns).map(|(job, sides)| {
        let ops = [Op::Read, Op::Write].into_iter().zip(sides);
        let some = ops.filter(|(_, latencies)| !latencies.is_empty());
        some.map(|(op, latencies)| row(op, job, latencies, seconds)).collect()
    });
    rows.collect()
}

impl<'a, D: Device> Run<'a, D> {
    fn new(device: &'a mut D, jobs: &'a [Job], host: Host) -> Run<'a, D> {
        let capacity = device.capacity();
        let (mut issues, mut number) = (BinaryHeap::new(), 0);
        // fio starts its I/Os one after another. In arrival order, all I/Os start at once so that
        // the drive can choose among all of them from the beginning.
        let apart_ns = if host.order == Order::Arrival { 0 } else { 500 };
        for (index, job) in (0..).zip(jobs) {
            for outstanding in 0..job.depth {
                let owner = (index, outstanding % job.clones.max(1));
                issues.push(Reverse((Nanos(apart_ns * number), number, owner)));
                number += 1;
            }
        }
        let starts = |job: &Job| {
            let clones = u64::from(job.clones.max(1));
            (0..clones).map(|clone| capacity / clones * clone).collect()
        };
        let next = jobs.iter().map(starts).collect();
        let (waiting, owners) = (Vec::new(), Vec::new());
        // The fits of measured drives used these positions, so they must not change.
        let random = Random(if host.order == Order::Arrival { number } else { 7 });
        let (head, issued, now) = (0, number, Nanos::ZERO);
        Run { device, jobs, host, issues, waiting, head, owners, next, now, random, issued }
    }

    /// Advances to the next completion. Returns when the host notices it, and its operation, job
    /// and latency.
    fn step(&mut self) -> Option<(Nanos, Op, usize, Nanos)> {
        loop {
            let issue = self.issues.peek().map(|Reverse((at, _, owner))| (*at, *owner));
            // Issue I/Os that are due before asking the device, so that the drive can choose among
            // all of them.
            let is_arrival = self.host.order == Order::Arrival;
            let is_due = is_arrival && issue.is_some_and(|(at, _)| at <= self.now);
            let done = if is_due { None } else { self.device.next() };
            match (done, issue) {
                (Some(done), issue) if issue.is_none_or(|(at, _)| done <= at) => {
                    self.now = done;
                    return Some(self.complete(done));
                }
                (_, Some((at, owner))) => {
                    self.issues.pop();
                    self.now = self.now.max(at);
                    let request = self.request(at, owner);
                    self.owners.push((request.id, owner));
                    self.waiting.push(request);
                    self.start(self.now);
                }
                (_, None) => return None,
            }
        }
    }

    fn complete(&mut self, done: Nanos) -> (Nanos, Op, usize, Nanos) {
        let io = self.device.finish(done).io;
        let at = self.owners.iter().position(|(id, _)| *id == io.id);
        let owner = at.map_or((0, 0), |at| self.owners.swap_remove(at).1);
        let pause = self.host.of(io.op);
        let sleeps = self.owners.is_empty() && self.issues.is_empty();
        let seen = if sleeps { done + pause.wake } else { done };
        self.issued += 1;
        self.issues.push(Reverse((seen + pause.gap, self.issued, owner)));
        self.start(done);
        (seen, io.op, owner.0 as usize, seen - io.at)
    }

    /// Issues I/Os while the device accepts them.
    fn start(&mut self, now: Nanos) {
        while self.device.room() && !self.waiting.is_empty() {
            let rank = |io: &Request| match self.host.order {
                Order::Address => io.offset.wrapping_sub(self.head),
                Order::Arrival => io.id,
            };
            let next = (0..self.waiting.len()).min_by_key(|at| rank(&self.waiting[*at]));
            let io = self.waiting.swap_remove(next.unwrap_or(0));
            self.head = io.offset;
            self.device.start(now, io);
        }
    }

    fn request(&mut self, at: Nanos, (job, clone): Owner) -> Request {
        let Job { random, block_bytes, reads_share, .. } = self.jobs[job as usize];
        let blocks = (self.device.capacity() / u64::from(block_bytes)).max(1);
        let offset = if random {
            self.random.draw() % blocks * u64::from(block_bytes)
        } else {
            let next = &mut self.next[job as usize][clone as usize];
            let offset = *next / u64::from(block_bytes) % blocks * u64::from(block_bytes);
            *next = offset + u64::from(block_bytes);
            offset
        };
        // In arrival order, jobs that only read or only write draw no random number.
        let is_one = reads_share <= 0.0 || reads_share >= 1.0;
        let reads = match self.host.order {
            Order::Arrival if is_one => reads_share >= 1.0,
            _ => self.random.share() >= 1.0 - reads_share,
        };
        let op = if reads { Op::Read } else { Op::Write };
        self.issued += 1;
        let (len, stream) = (block_bytes, (job << 16) + clone);
        Request { at, offset, id: self.issued, len, stream, lane: 0, op, flags: Flags::NONE }
    }
}

fn row(op: Op, job: &Job, mut latencies_ns: Vec<u64>, seconds: f64) -> SweepRow {
    latencies_ns.sort_unstable();
    let us = |ns: u64| ns as f64 / 1e3;
    let count = latencies_ns.len();
    let rank = |share: f64| ((count as f64 * share) as usize).min(count.saturating_sub(1));
    let percentile = |share: f64| latencies_ns.get(rank(share)).map(|ns| us(*ns));
    SweepRow {
        op,
        block_bytes: job.block_bytes,
        depth: job.depth,
        iops: count as f64 / seconds,
        mean_us: (count > 0)
            .then(|| latencies_ns.iter().map(|ns| us(*ns)).sum::<f64>() / count as f64),
        p50_us: percentile(0.5),
        p99_us: percentile(0.99),
        p999_us: percentile(0.999),
        max_us: latencies_ns.last().map(|ns| us(*ns)),
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::device::fixed::Fixed;

    use super::*;

    const LENGTH: Length = Length { warm: 100, ios: 4_000, until: Nanos::MAX };

    /// Returns the row of `job` on a server that handles 1000 I/Os per second, one at a time.
    fn only(job: Job, host: Host) -> SweepRow {
        let rows = play(&mut Fixed::new(1_000.0).unwrap(), &[job], host, LENGTH);
        rows.into_iter().flatten().next().unwrap()
    }

    #[test]
    fn requests_waiting_in_the_host_are_sorted_by_address() {
        let row = only(Job::random(Op::Write, 4096, 8), Host::default());
        assert!((row.iops - 1_000.0).abs() < 1.0 && row.op == Op::Write, "{row:?}");
        assert!((row.mean_us.unwrap() - 8_000.0).abs() < 20.0, "{row:?}");
        // One I/O is served while seven wait. Service times are between zero and twice the mean.
        let p99 = row.p99_us.unwrap();
        assert!((13_000.0..18_000.0).contains(&p99), "{row:?}");
        assert_eq!(row.p50_us, Some(8_000.0));
    }

    #[test]
    fn requests_waiting_in_the_host_may_go_in_order_of_arrival() {
        let host = Host { order: Order::Arrival, ..Host::default() };
        let row = only(Job::random(Op::Write, 4096, 8), host);
        // Each I/O waits for all the others.
        assert_eq!((row.p50_us, row.p99_us), (Some(8_000.0), Some(8_000.0)), "{row:?}");
    }

    #[test]
    fn a_disk_s_row_lasts_a_minute() {
        let row = play_disk(&mut Fixed::new(100.0).unwrap(), Op::Read, 4096, 4);
        assert!((row.iops - 100.0).abs() < 0.1 && row.depth == 4, "{row:?}");
        let never = play_disk(&mut Fixed::new(0.01).unwrap(), Op::Write, 4096, 1);
        assert_eq!((never.iops, never.mean_us, never.op), (0.0, None, Op::Write));
    }

    #[test]
    fn a_host_pauses_between_ios_and_wakes_late_for_its_only_one() {
        let pause = Pause { gap: Nanos::from_micros(250), wake: Nanos::from_micros(750) };
        let host = Host { reads: pause, ..Host::default() };
        let alone = only(Job::random(Op::Read, 4096, 1), host);
        assert!((alone.iops - 500.0).abs() < 1.0 && alone.p50_us == Some(1_750.0), "{alone:?}");
        let two = only(Job::random(Op::Read, 4096, 2), host);
        assert!((two.iops - 1_000.0).abs() < 1.0 && two.p50_us == Some(1_750.0), "{two:?}");
        let write = only(Job::random(Op::Write, 4096, 1), host);
        assert_eq!(write.p50_us, Some(1_000.0));
    }

    #[test]
    fn concurrent_jobs_have_separate_rows() {
        let streams =
            Job { random: false, clones: 4, depth: 4, block_bytes: 65_536, reads_share: 1.0 };
        let both = Job { reads_share: 0.25, ..Job::random(Op::Read, 4096, 4) };
        let rows =
            play(&mut Fixed::new(1_000.0).unwrap(), &[streams, both], Host::default(), LENGTH);
        let shape: Vec<Vec<(Op, u32)>> =
            rows.iter().map(|rows| rows.iter().map(|row| (row.op, row.depth)).collect()).collect();
        assert_eq!(shape, [vec![(Op::Read, 4)], vec![(Op::Read, 4), (Op::Write, 4)]]);
        let [reads, writes] = [&rows[1][0], &rows[1][1]].map(|row| row.iops);
        assert!((writes / reads - 3.0).abs() < 0.5, "{reads} and {writes}");
        let all: f64 = rows.iter().flatten().map(|row| row.iops).sum();
        assert!((all - 1_000.0).abs() < 1.0, "{all}");
    }
}
