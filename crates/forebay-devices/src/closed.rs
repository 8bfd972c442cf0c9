//! fio on a model: so many I/Os outstanding, each followed by the next.
//!
//! What a host does beside the drive is kept apart ([`Host`]): the pause between a completion and the
//! next I/O, and the time it takes to wake up where it sleeps while its only I/O is under way. What the
//! drive has no room for waits in the host ([`Order`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_core::{Device, Flags, Nanos, Op, Request};

use crate::fit::sweep::SweepRow;

/// What a host adds to the I/Os of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pause {
    /// From a completion to the next I/O.
    pub gap: Nanos,
    /// By how much later the host sees a completion that it sleeps for: its only I/O.
    pub wake: Nanos,
}

/// In what order a host sends on what waits for room in the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// In the order of addresses, as Linux's mq-deadline does: with more I/Os than the drive takes their
    /// latencies spread evenly, up to half as long again as the mean.
    #[default]
    Address,
    /// First come, first served.
    Arrival,
}

/// What the host of a measurement adds; no part of the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Host {
    /// To reads.
    pub reads: Pause,
    /// To writes.
    pub writes: Pause,
    /// And in what order it sends I/Os on.
    pub order: Order,
}

impl Host {
    fn of(&self, op: Op) -> Pause {
        if op == Op::Write { self.writes } else { self.reads }
    }
}

/// One fio job and its clones.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// To random places, or each clone on from where it was.
    pub random: bool,
    /// Clones.
    pub clones: u32,
    /// I/Os outstanding, over all clones.
    pub depth: u32,
    /// Bytes of each I/O.
    pub block_bytes: u32,
    /// The share of I/Os that read.
    pub reads_share: f64,
}

impl Job {
    /// The job that measures a row of random I/O.
    pub fn random(op: Op, block_bytes: u32, depth: u32) -> Job {
        let reads_share = if op == Op::Read { 1.0 } else { 0.0 };
        Job { random: true, clones: 1, depth, block_bytes, reads_share }
    }
}

/// How long jobs are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// I/Os before anything counts.
    pub warm: u64,
    /// I/Os that count.
    pub ios: u64,
    /// The end, if it comes first: what completes later does not count.
    pub until: Nanos,
}

/// An I/O, by the job and the clone that it belongs to.
type Owner = (u32, u32);

/// The state of a run.
struct Run<'a, D: Device> {
    device: &'a mut D,
    jobs: &'a [Job],
    host: Host,
    /// When I/Os are issued; of equal times the first given first.
    issues: BinaryHeap<Reverse<(Nanos, u64, Owner)>>,
    waiting: Vec<Request>,
    /// Where the host's order of addresses has come to.
    head: u64,
    /// The owner of each I/O under way, by its number.
    owners: Vec<(u64, Owner)>,
    /// Where each clone of each job goes on.
    next: Vec<Vec<u64>>,
    now: Nanos,
    random: u64,
    issued: u64,
}

/// The row of random I/O on a disk for a minute, as fio would measure it with one job: the host sends I/Os on as
/// they come.
pub fn play_disk<D: Device>(device: &mut D, op: Op, block_bytes: u32, depth: u32) -> SweepRow {
    let job = Job::random(op, block_bytes, depth);
    let host = Host { order: Order::Arrival, ..Host::default() };
    let length = Length { warm: 0, ios: DISK_IOS_MAX, until: DISK_RUN };
    let rows = play(device, std::slice::from_ref(&job), host, length);
    let none = || row(op, &job, Vec::new(), 1.0);
    rows.into_iter().flatten().next().unwrap_or_else(none)
}

/// How long each row of a disk is measured.
const DISK_RUN: Nanos = Nanos::from_secs(60);
/// I/Os of such a row at most: a device that answers all from a cache ends sooner.
const DISK_IOS_MAX: u64 = 1_000_000;

/// Measures `jobs`, which run at the same time, on `device`, which is idle. The rows of each job are its
/// reads, then its writes, without those of which there are none.
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
        // Not all at once: fio begins with one after the other. What is served as it comes is there from the start,
        // for the drive to choose from.
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
        // Measured drives were fitted on these places, which fits of theirs are to find again.
        let random = if host.order == Order::Arrival { number } else { 7 };
        let (head, issued, now) = (0, number, Nanos::ZERO);
        Run { device, jobs, host, issues, waiting, head, owners, next, now, random, issued }
    }

    /// Goes on to the next completion: when the host sees it, its operation, job and latency.
    fn step(&mut self) -> Option<(Nanos, Op, usize, Nanos)> {
        loop {
            let issue = self.issues.peek().map(|Reverse((at, _, owner))| (*at, *owner));
            // What is due comes before the device is asked: a drive may choose among all that came.
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

    /// Sends on what the device has room for.
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
            self.draw() % blocks * u64::from(block_bytes)
        } else {
            let next = &mut self.next[job as usize][clone as usize];
            let offset = *next / u64::from(block_bytes) % blocks * u64::from(block_bytes);
            *next = offset + u64::from(block_bytes);
            offset
        };
        // Where I/Os go by arrival nothing is drawn for a job that only reads or only writes.
        let is_one = reads_share <= 0.0 || reads_share >= 1.0;
        let reads = match self.host.order {
            Order::Arrival if is_one => reads_share >= 1.0,
            _ => (self.draw() >> 11) as f64 / (1_u64 << 53) as f64 >= 1.0 - reads_share,
        };
        let op = if reads { Op::Read } else { Op::Write };
        self.issued += 1;
        let (len, stream) = (block_bytes, (job << 16) + clone);
        Request { at, offset, id: self.issued, len, stream, lane: 0, op, flags: Flags::NONE }
    }

    /// The next pseudo-random number (Steele, Lea and Flood 2014).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
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

    /// The only row of a job on a server of 1000 I/Os a second, one at a time.
    fn only(job: Job, host: Host) -> SweepRow {
        let rows = play(&mut Fixed::new(1_000.0).unwrap(), &[job], host, LENGTH);
        rows.into_iter().flatten().next().unwrap()
    }

    #[test]
    fn what_waits_in_the_host_goes_in_the_order_of_addresses() {
        let row = only(Job::random(Op::Write, 4096, 8), Host::default());
        assert!((row.iops - 1_000.0).abs() < 1.0 && row.op == Op::Write, "{row:?}");
        assert!((row.mean_us.unwrap() - 8_000.0).abs() < 20.0, "{row:?}");
        // One is served and seven wait: their wait is spread from none to twice the mean.
        let p99 = row.p99_us.unwrap();
        assert!((13_000.0..18_000.0).contains(&p99), "{row:?}");
        assert_eq!(row.p50_us, Some(8_000.0));
    }

    #[test]
    fn what_waits_in_the_host_may_go_first_come_first_served() {
        let host = Host { order: Order::Arrival, ..Host::default() };
        let row = only(Job::random(Op::Write, 4096, 8), host);
        // Each waits for all the others.
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
    fn jobs_beside_each_other_have_rows_of_their_own() {
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
