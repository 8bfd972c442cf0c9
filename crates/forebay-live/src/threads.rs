//! Files and block devices through blocking reads and writes on threads, for systems without
//! io_uring.
//!
//! Each lane has its own threads, one for each I/O that it accepts at a time. An I/O has its own
//! copy of the bytes. Times are less precise than those of [`crate::Uring`], because bytes are
//! copied once more and each I/O passes from thread to thread twice. Clients' sockets are polled.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use forebay_core::{Buf, Flags, Lane, Nanos, Op, Piece, Request, Slots};
use rustix::fs::{FallocateFlags, fallocate};

use crate::clock::{Clock, SPIN, WallClock};
use crate::lanes::{Ended, Failure, Lanes};
use crate::memory::Memory;
use crate::polled::Polled;
use crate::pool::Pool;
use crate::sockets::{Plug, SocketEvent, SocketLanes};
use crate::target::Target;
use crate::waker::Waker;
use crate::wire::{Extent, LEN_MAX, Shape, outcome, source};

/// The maximum number of threads per lane.
const THREADS_MAX: u32 = 64;

/// An I/O that is passed to a thread and back.
struct Job {
    io: Request,
    started: Nanos,
    extent: Extent,
    pieces: Vec<Piece>,
    /// The data to write, or the data read; `None` if nothing is transferred.
    memory: Option<Memory>,
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
        let threads = (0..depth).map(|_| {
            let worker = Worker { target: Arc::clone(&target), waker: polled.map(Polled::waker) };
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
    /// Memory of ended I/Os, for reuse.
    spare: Vec<Memory>,
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
        let pattern = pool.constant(source());
        Ok(Threads {
            served,
            depth,
            done,
            messages: finished,
            waiting: Vec::new(),
            pool,
            pattern,
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

    /// Returns memory for an I/O, with the data to write if it is a write.
    fn memory(&mut self, io: &Request, pieces: &[Piece]) -> Result<Option<Memory>, Failure> {
        if !io.op.moves_data() || io.len == 0 {
            return Ok(None);
        }
        let named: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
        assert!(named == u64::from(io.len), "{io:?} names {named} bytes");
        let mut memory = self.spare.pop().unwrap_or_else(|| Memory::zeroed(LEN_MAX as usize));
        if io.op == Op::Read {
            return Ok(Some(memory));
        }
        let mut at = 0;
        for piece in pieces {
            if piece.buf == 0 {
                self.spare.push(memory);
                return Err(Failure::Empty);
            }
            let end = at + piece.len as usize;
            memory.bytes_mut()[at..end].copy_from_slice(self.pool.view(*piece));
            at = end;
        }
        Ok(Some(memory))
    }

    /// Copies the data that was read to its destination.
    fn hand_out(&mut self, job: &mut Job, failure: Option<Failure>) {
        let Some(memory) = job.memory.take() else { return };
        let mut at = 0;
        for piece in &job.pieces {
            let end = at + piece.len as usize;
            // The data of a read without a destination is discarded.
            if piece.buf != 0 && job.io.op == Op::Read && failure.is_none() {
                self.pool.view_mut(*piece).copy_from_slice(&memory.bytes()[at..end]);
            }
            at = end;
        }
        self.spare.push(memory);
    }
}

/// The state of a thread.
struct Worker {
    target: Arc<Target>,
    /// Wakes the driver if it also waits for sockets.
    waker: Option<Waker>,
}

impl Worker {
    fn work(self, queue: &Mutex<Receiver<Job>>, finished: &Sender<Message>) {
        loop {
            let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(mut job) = job else { return };
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

    /// Performs the I/O; returns the number of bytes transferred.
    fn serve(&self, job: &mut Job) -> io::Result<u64> {
        let Job { io, extent: Extent { offset, len }, memory, .. } = job;
        let (file, offset, len) = (self.target.file(), *offset, *len);
        let bytes = memory.as_mut().map(|memory| &mut memory.bytes_mut()[..len as usize]);
        match io.op {
            Op::Read => Ok(file.read_at(bytes.unwrap_or_default(), offset)? as u64),
            Op::Write => {
                // If the file system is nearly full, writes may be partial; the last one then
                // returns the error.
                file.write_all_at(bytes.unwrap_or_default(), offset)?;
                if io.flags.has(Flags::FUA) {
                    file.sync_data()?;
                }
                Ok(u64::from(len))
            }
            Op::Flush => file.sync_data().map(|()| 0),
            Op::Trim if len == 0 => Ok(0),
            Op::Trim => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, how, offset, u64::from(len))?;
                Ok(0)
            }
            Op::Park | Op::Open => Ok(0),
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
        for (mut job, failure) in std::mem::take(&mut self.waiting) {
            self.served[usize::from(job.io.lane)].in_flight -= 1;
            self.hand_out(&mut job, failure);
            ended.push(Ended::new(job.io, job.started, self.now, failure));
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
            pieces: pieces.to_vec(),
            memory: None,
        };
        let known = self.served[lane].shape.extent(&io);
        match known.and_then(|extent| Ok((extent, self.memory(&io, pieces)?))) {
            Err(failure) => self.waiting.push((job, Some(failure))),
            Ok((extent, memory)) => {
                (job.extent, job.memory) = (extent, memory);
                let sent = self.served[lane].jobs.as_ref().map(|jobs| jobs.send(job));
                debug_assert!(matches!(sent, Some(Ok(()))), "threads live as long as their lane");
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
    }
}
