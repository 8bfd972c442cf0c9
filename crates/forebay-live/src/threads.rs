//! Files and block devices through blocking reads and writes on threads, for systems without
//! io_uring.
//!
//! Each lane has its own threads, one for each I/O that it accepts at a time. Threads read into and
//! write from the pool's memory. Times are less precise than those of [`crate::Uring`], because
//! each I/O passes from thread to thread twice. Clients' sockets are polled.
//!
//! Invariant: bytes are lent from before an I/O is passed to a thread until the thread has passed
//! it back. Dropping the driver waits for the threads.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use forebay_core::{Buf, Flags, Lane, Nanos, Op, Piece, Request, Slots};
use rustix::fs::{FallocateFlags, fallocate};

use crate::clock::{Clock, SPIN, WallClock};
use crate::lent::Lent;
use crate::polled::Polled;
use crate::priority::{NO_PRIORITY, promised_priority, set_thread_priority};
use crate::vectored::Vectors;
use crate::wire::{Extent, LEN_MAX, Shape, outcome, source};
use crate::{Ended, Failure, Lanes, Plug, Pool, SocketEvent, SocketLanes, Target, Waker};

/// The maximum number of threads per lane.
const THREADS_MAX: u32 = 64;

/// An I/O that is passed to a thread and back.
struct Job {
    io: Request,
    started: Nanos,
    extent: Extent,
    lent: Lent,
    /// The addresses of the lent bytes.
    vectors: Option<Vectors>,
}

/// A target with its threads.
struct Served {
    target: Arc<Target>,
    shape: Shape,
    jobs: Option<Sender<Job>>,
    in_flight: u32,
    threads: Vec<JoinHandle<()>>,
}

impl Served {
    /// Starts the threads of a target.
    fn start(
        target: Target,
        depth: u32,
        polled: Option<&Polled>,
        finished: &Sender<Message>,
    ) -> io::Result<Served> {
        let (shape, target) = (target.shape(), Arc::new(target));
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let promised = promised_priority();
        let threads = (0..depth).map(|_| {
            let (target, waker) = (Arc::clone(&target), polled.map(Polled::waker));
            let worker = Worker { target, waker, promised, priority: NO_PRIORITY };
            let (queue, finished) = (Arc::clone(&queue), finished.clone());
            Builder::new().name("play".into()).spawn(move || worker.work(&queue, &finished))
        });
        let threads = threads.collect::<Result<_, _>>()?;
        Ok(Served { target, shape, jobs: Some(jobs), in_flight: 0, threads })
    }
}

/// Lanes on targets, whose I/Os are executed by threads.
pub struct Threads {
    served: Vec<Served>,
    depth: u32,
    done: Receiver<Message>,
    /// The sending side of the driver's messages, for wakers.
    messages: Sender<Message>,
    /// I/Os that have ended but have not been reaped.
    waiting: Vec<(Job, Option<Failure>)>,
    pool: Pool,
    pattern: Buf,
    /// The buffer for reads whose data is not needed.
    sink: Buf,
    /// The lists of ended I/Os, for reuse.
    spare: Vec<Lent>,
    /// The sockets of clients; None if the driver does not wait for sockets.
    polled: Option<Polled>,
    clock: WallClock,
    now: Nanos,
}

/// A message to the driver.
enum Message {
    Done(Job, Option<Failure>),
    Wake,
}

impl Threads {
    /// Creates lanes on these targets: lane `i` is `targets[i]`. Each lane accepts `depth` I/Os at
    /// a time, 64 at most. The run's time starts now.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub fn new(targets: Vec<Target>, depth: u32) -> io::Result<Threads> {
        Threads::waiting_in(None, targets, depth)
    }

    /// Creates lanes like [`Threads::new`] that also wait for up to `sockets_max` sockets
    /// ([`SocketLanes`]).
    ///
    /// # Errors
    /// Fails like [`Threads::new`].
    pub fn with_sockets(targets: Vec<Target>, depth: u32, sockets_max: u32) -> io::Result<Threads> {
        Threads::waiting_in(Some(Polled::new(sockets_max)?), targets, depth)
    }

    fn waiting_in(polled: Option<Polled>, targets: Vec<Target>, depth: u32) -> io::Result<Threads> {
        let depth = depth.clamp(1, THREADS_MAX);
        let (finished, done) = channel();
        let serve = |target| Served::start(target, depth, polled.as_ref(), &finished);
        let served = targets.into_iter().map(serve).collect::<io::Result<_>>()?;
        let mut pool = Pool::new(0);
        let (pattern, sink) = (pool.constant(source()), pool.sink(LEN_MAX));
        Ok(Threads {
            served,
            depth,
            done,
            messages: finished,
            waiting: Vec::new(),
            pool,
            pattern,
            sink,
            spare: Vec::new(),
            polled,
            clock: WallClock::start(),
            now: Nanos::ZERO,
        })
    }

    /// Returns the targets.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.served.iter().map(|served| &*served.target)
    }

    /// Returns the buffer for [`crate::Patterned`].
    pub fn pattern(&self) -> Buf {
        self.pattern
    }

    /// Lends the bytes of an I/O to a thread.
    fn lend(&mut self, job: &mut Job, pieces: &[Piece]) -> Result<(), Failure> {
        let io = job.io;
        let shape = self.served[usize::from(io.lane)].shape;
        job.extent = shape.extent(&io)?;
        if io.op.moves_data() {
            job.lent.lend(&io, pieces, shape.block, self.sink, &mut self.pool)?;
            // SAFETY: the bytes are lent until `settle` receives the job, for writing if the I/O is a
            // read.
            job.vectors = Some(unsafe { Vectors::of(&job.lent, &self.pool) });
        }
        Ok(())
    }

    /// Takes back the memory of an I/O that a thread has passed back.
    fn settle(&mut self, mut job: Job) {
        if job.vectors.take().is_some() {
            job.lent.settle(job.io.op, self.sink, &mut self.pool);
        }
        self.spare.push(job.lent);
    }
}

/// The state of a thread.
struct Worker {
    target: Arc<Target>,
    /// Wakes the driver if it also waits for sockets.
    waker: Option<Waker>,
    /// The priority of I/Os that a promise depends on, and that of the thread's I/Os now.
    promised: u16,
    priority: u16,
}

impl Worker {
    fn work(mut self, queue: &Mutex<Receiver<Job>>, finished: &Sender<Message>) {
        loop {
            let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(mut job) = job else { return };
            self.prioritize(&job.io);
            let served = loop {
                match self.serve(&mut job) {
                    // A signal arrived before anything was transferred.
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    served => break served,
                }
            };
            let failure = match served {
                Ok(moved) => outcome(job.io.op, job.extent, moved),
                Err(error) => Some(Failure::of(&error)),
            };
            if finished.send(Message::Done(job, failure)).is_err() {
                return;
            }
            if let Some(waker) = &self.waker {
                waker.wake();
            }
        }
    }

    /// Gives the thread the priority of an I/O.
    fn prioritize(&mut self, io: &Request) {
        let priority = if io.flags.has(Flags::PROMISED) { self.promised } else { NO_PRIORITY };
        if priority != self.priority && set_thread_priority(priority) {
            self.priority = priority;
        }
    }

    /// Performs the I/O; returns the number of bytes transferred.
    fn serve(&self, job: &mut Job) -> io::Result<u64> {
        let Job { io, extent: Extent { offset, len }, vectors, .. } = job;
        let (file, offset, len) = (self.target.file(), *offset, *len);
        match (io.op, vectors) {
            (Op::Read, Some(vectors)) => vectors.read(file, offset),
            (Op::Write, Some(vectors)) => {
                vectors.write(file, offset)?;
                if io.flags.has(Flags::FUA) {
                    file.sync_data()?;
                }
                Ok(u64::from(len))
            }
            (Op::Flush, _) => file.sync_data().map(|()| 0),
            (Op::Trim, _) if len > 0 => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, how, offset, u64::from(len))?;
                Ok(0)
            }
            _ => Ok(0),
        }
    }
}

impl Lanes for Threads {
    fn count(&self) -> usize {
        self.served.len()
    }

    fn reap(&mut self, _next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        while let Ok(message) = self.done.try_recv() {
            if let Message::Done(job, failure) = message {
                self.waiting.push((job, failure));
            }
        }
        self.now = self.clock.now();
        for (job, failure) in std::mem::take(&mut self.waiting) {
            self.served[usize::from(job.io.lane)].in_flight -= 1;
            ended.push(Ended::new(job.io, job.started, self.now, failure));
            self.settle(job);
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

    fn slots(&mut self) -> &mut dyn Slots {
        &mut self.pool
    }

    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        let lane = usize::from(io.lane);
        self.served[lane].in_flight += 1;
        let mut job = Job {
            io,
            started: now,
            extent: Extent { offset: 0, len: 0 },
            lent: self.spare.pop().unwrap_or_default(),
            vectors: None,
        };
        match self.lend(&mut job, pieces) {
            Err(failure) => self.waiting.push((job, Some(failure))),
            Ok(()) => {
                let jobs = self.served[lane].jobs.as_ref();
                let is_sent = jobs.is_some_and(|jobs| jobs.send(job).is_ok());
                debug_assert!(is_sent, "threads live as long as their lane");
            }
        }
    }

    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        None
    }

    fn in_flight(&self) -> usize {
        self.served.iter().map(|served| served.in_flight as usize).sum()
    }

    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        let left = until - self.clock.now() - SPIN;
        if left > Nanos::ZERO && self.waiting.is_empty() {
            if let Some(polled) = &mut self.polled {
                return polled.wait(left);
            }
            match self.done.recv_timeout(Duration::from_nanos(left.0)) {
                Ok(Message::Done(job, failure)) => self.waiting.push((job, failure)),
                Ok(Message::Wake) => {}
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("every thread of the driver has ended"));
                }
            }
        }
        Ok(())
    }

    fn waker(&mut self) -> io::Result<Waker> {
        if let Some(polled) = &self.polled {
            return Ok(polled.waker());
        }
        let messages = self.messages.clone();
        Ok(Waker::message(move || drop(messages.send(Message::Wake))))
    }
}

impl Threads {
    /// # Panics
    /// Panics if the lanes were created without sockets.
    fn sockets(&mut self) -> (&mut Polled, &mut Pool) {
        let polled = self.polled.as_mut().expect("threads with room for sockets");
        (polled, &mut self.pool)
    }
}

impl SocketLanes for Threads {
    fn add(&mut self, target: Target) -> io::Result<Lane> {
        self.served.push(Served::start(target, self.depth, self.polled.as_ref(), &self.messages)?);
        Ok((self.served.len() - 1) as Lane)
    }

    fn enlarge(&mut self, lane: Lane, bytes: u64) {
        self.served[usize::from(lane)].shape.capacity = bytes;
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn plug(&mut self, socket: OwnedFd) -> Result<Plug, OwnedFd> {
        self.sockets().0.plug(socket)
    }

    fn receive(&mut self, plug: Plug, into: &[Piece], whole: bool) {
        self.sockets().0.receive(plug, into, whole);
    }

    fn send(&mut self, plug: Plug, from: &[Piece]) {
        self.sockets().0.send(plug, from);
    }

    fn unplug(&mut self, plug: Plug) {
        self.sockets().0.unplug(plug);
    }

    fn moved(&mut self, moved: &mut Vec<SocketEvent>) -> io::Result<()> {
        let (polled, pool) = self.sockets();
        polled.moved(moved, pool)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for served in &mut self.served {
            served.jobs = None;
            for thread in served.threads.drain(..) {
                // The thread ends once its queue is empty. A panic in it has been reported already.
                let _ = thread.join();
            }
        }
        // No thread uses the lent bytes any longer.
        let mut ended = Vec::new();
        let _ = self.reap(Nanos::MAX, &mut ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetOptions;
    use crate::priority::{REAL_TIME, priority_of, thread_priority};

    /// The best-effort class with its highest level, which every process may use.
    const BEST_EFFORT: u16 = 2 << 13;

    fn target() -> (tempfile::TempDir, Target) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let how = TargetOptions { writes: true, overwrite: true, need_bytes: 0, direct: false };
        let target = Target::open(&path, how).unwrap();
        (folder, target)
    }

    fn io(op: Op, flags: Flags) -> Request {
        Request { at: Nanos::ZERO, offset: 0, id: 0, len: 4096, stream: 0, lane: 0, op, flags }
    }

    #[test]
    fn a_thread_has_the_priority_of_its_io() {
        let (_folder, target) = target();
        let target = Arc::new(target);
        let before = thread_priority();
        for (flags, expected) in [(Flags::PROMISED, BEST_EFFORT), (Flags::NONE, before)] {
            let (jobs, queue) = channel();
            let io = io(Op::Flush, flags);
            let extent = Extent { offset: 0, len: 0 };
            let (started, lent, vectors) = (Nanos::ZERO, Lent::default(), None);
            jobs.send(Job { io, started, extent, lent, vectors }).unwrap();
            drop(jobs);
            let target = Arc::clone(&target);
            // The thread had the other priority before.
            let priority = if flags == Flags::NONE { BEST_EFFORT } else { NO_PRIORITY };
            let worker = Worker { target, waker: None, promised: BEST_EFFORT, priority };
            worker.work(&Mutex::new(queue), &channel().0);
            assert_eq!(thread_priority(), expected, "{flags:?}");
        }
    }

    /// Returns the priorities of the threads that serve targets.
    fn priorities() -> Vec<u16> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap());
        let is_ours = |task: &std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "play\n")
        };
        let number = |task: std::fs::DirEntry| task.file_name().to_str().unwrap().parse().unwrap();
        tasks.filter(is_ours).map(|task| priority_of(number(task))).collect()
    }

    #[test]
    fn a_promised_io_gives_its_thread_the_priority_of_promises() {
        let (_folder, target) = target();
        let mut threads = Threads::new(vec![target], 1).unwrap();
        assert!(!priorities().contains(&REAL_TIME));
        threads.start(Nanos::ZERO, io(Op::Flush, Flags::PROMISED), &[]);
        ends(&mut threads);
        assert_eq!(priorities().contains(&REAL_TIME), promised_priority() == REAL_TIME);
        threads.start(Nanos::ZERO, io(Op::Flush, Flags::NONE), &[]);
        ends(&mut threads);
        assert!(!priorities().contains(&REAL_TIME));
    }

    fn ends(threads: &mut Threads) {
        let mut ended = Vec::new();
        while ended.is_empty() {
            threads.proceed(Nanos::MAX).unwrap();
            threads.reap(Nanos::MAX, &mut ended).unwrap();
        }
        assert_eq!(ended[0].failure, None);
    }

    #[test]
    fn ios_use_the_memory_of_the_pool() {
        let (_folder, target) = target();
        let mut threads = Threads::new(vec![target], 8).unwrap();
        let before = threads.pool.peak_bytes();
        let buf = threads.pool.take(8192);
        let piece = |at| Piece { buf, at, len: 4096 };
        threads.pool.view_mut(piece(0)).fill(7);
        for (op, at) in [(Op::Write, 0), (Op::Read, 4096)] {
            threads.start(Nanos::ZERO, io(op, Flags::NONE), &[piece(at)]);
            ends(&mut threads);
        }
        assert_eq!(threads.pool.view(piece(4096)), [7; 4096]);
        assert_eq!(threads.pool.peak_bytes() - before, 8192);
    }
}
