//! Files and block devices through plain reads and writes on threads, where io_uring is not to be had.
//!
//! Each lane has threads of its own, as many as it takes I/Os at a time. Targets and data are those of
//! [`crate::Uring`]; times are less precise, since each I/O passes from thread to thread twice.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use forebay_core::{Completion, Flags, Lane, Mechanics, Nanos, Op, Request};
use rustix::fs::{FallocateFlags, fallocate};

use crate::clock::{Clock, SPIN, WallClock};
use crate::lanes::{Ended, Failure, Lanes};
use crate::memory::Memory;
use crate::target::Target;
use crate::wire::{Extent, WIRE_MAX, outcome, source, source_at};

/// The most threads a lane has.
const THREADS_MAX: u32 = 64;

/// An I/O on its way.
struct Job {
    io: Request,
    started: Nanos,
    extent: Extent,
}

/// One target with its threads.
struct Served {
    target: Arc<Target>,
    jobs: Option<Sender<Job>>,
    in_flight: u32,
    threads: Vec<JoinHandle<()>>,
}

/// Targets as lanes.
pub struct Threads {
    served: Vec<Served>,
    depth: u32,
    done: Receiver<(Job, Option<Failure>)>,
    /// What ended and was not reaped yet.
    waiting: Vec<(Job, Option<Failure>)>,
    clock: WallClock,
    now: Nanos,
}

impl Threads {
    /// Lane `i` is `targets[i]`; each takes `depth` I/Os at a time, 64 at most. The run's time starts
    /// now.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn new(targets: Vec<Target>, depth: u32) -> io::Result<Threads> {
        let depth = depth.clamp(1, THREADS_MAX);
        let (finished, done) = channel();
        let source = Arc::new(source());
        let mut served = Vec::new();
        for target in targets {
            let target = Arc::new(target);
            let (jobs, queue) = channel();
            let queue = Arc::new(Mutex::new(queue));
            let threads = (0..depth).map(|_| {
                let worker = Worker {
                    target: Arc::clone(&target),
                    source: Arc::clone(&source),
                    sink: Memory::zeroed(WIRE_MAX),
                };
                let (queue, finished) = (Arc::clone(&queue), finished.clone());
                Builder::new().name("play".into()).spawn(move || worker.work(&queue, &finished))
            });
            let threads = threads.collect::<Result<_, _>>()?;
            served.push(Served { target, jobs: Some(jobs), in_flight: 0, threads });
        }
        let (waiting, clock) = (Vec::new(), WallClock::start());
        Ok(Threads { served, depth, done, waiting, clock, now: Nanos::ZERO })
    }

    /// The targets.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.served.iter().map(|served| &*served.target)
    }
}

/// What a thread has.
struct Worker {
    target: Arc<Target>,
    source: Arc<Memory>,
    sink: Memory,
}

impl Worker {
    fn work(mut self, queue: &Mutex<Receiver<Job>>, finished: &Sender<(Job, Option<Failure>)>) {
        loop {
            let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            let failure = match self.serve(&job) {
                Ok(moved) => outcome(job.io.op, job.extent, moved),
                Err(error) => Some(Failure::of(&error)),
            };
            if finished.send((job, failure)).is_err() {
                return;
            }
        }
    }

    /// Does it; answers the bytes moved.
    fn serve(&mut self, job: &Job) -> io::Result<u64> {
        let Job { io, extent: Extent { offset, len }, .. } = *job;
        let file = self.target.file();
        let len_bytes = len as usize;
        match io.op {
            Op::Read => Ok(file.read_at(&mut self.sink.bytes_mut()[..len_bytes], offset)? as u64),
            Op::Write => {
                let at = source_at(offset);
                let moved = file.write_at(&self.source.bytes()[at..at + len_bytes], offset)?;
                if io.flags.has(Flags::FUA) || io.flags.has(Flags::PREFLUSH) {
                    file.sync_data()?;
                }
                Ok(moved as u64)
            }
            Op::Flush => file.sync_data().map(|()| 0),
            Op::Trim if len == 0 => Ok(0),
            Op::Trim => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, how, offset, u64::from(len))?;
                Ok(0)
            }
            Op::Park => Ok(0),
        }
    }
}

impl Lanes for Threads {
    fn count(&self) -> usize {
        self.served.len()
    }

    fn reap(&mut self, _next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        self.waiting.extend(self.done.try_iter());
        self.now = self.clock.now();
        for (Job { io, started, .. }, failure) in self.waiting.drain(..) {
            self.served[usize::from(io.lane)].in_flight -= 1;
            let (at, mechanics) = (self.now, Mechanics::default());
            ended.push(Ended { completion: Completion { io, started, at, mechanics }, failure });
        }
        Ok(self.now)
    }

    fn wall(&mut self) -> Nanos {
        self.now = self.clock.now();
        self.now
    }

    fn room(&self, lane: Lane) -> bool {
        self.served[usize::from(lane)].in_flight < self.depth
    }

    fn start(&mut self, now: Nanos, io: Request) {
        let served = &mut self.served[usize::from(io.lane)];
        served.in_flight += 1;
        let nothing = Extent { offset: 0, len: 0 };
        match served.target.shape().extent(&io) {
            Err(failure) => {
                self.waiting.push((Job { io, started: now, extent: nothing }, Some(failure)));
            }
            Ok(extent) => {
                let job = Job { io, started: now, extent };
                let sent = served.jobs.as_ref().map(|jobs| jobs.send(job));
                debug_assert!(matches!(sent, Some(Ok(()))), "threads live as long as their lane");
            }
        }
    }

    fn under_way(&self) -> usize {
        self.served.iter().map(|served| served.in_flight as usize).sum()
    }

    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        let left = until - self.clock.now() - SPIN;
        if left > Nanos::ZERO && self.waiting.is_empty() {
            match self.done.recv_timeout(Duration::from_nanos(left.0)) {
                Ok(done) => self.waiting.push(done),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("every thread of the driver has ended"));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for served in &mut self.served {
            served.jobs = None;
            for thread in served.threads.drain(..) {
                // It ends once the queue is empty; what it panicked with is its own affair.
                let _ = thread.join();
            }
        }
    }
}
