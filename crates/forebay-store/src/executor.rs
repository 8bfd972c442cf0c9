//! Executes the engine's tasks: straight-line `async` functions that are woken by I/Os, timers and
//! each other, in the order of these events.
//!
//! The executor has no clock and no thread, and does not use the standard library's wakers: a
//! driver sets the time, takes the requested I/Os and reports their results. A run is therefore as
//! repeatable as a state machine. Tasks may be woken spuriously and must recheck their conditions.
//! A task with much work to do yields occasionally, and continues in the driver's next pass.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use forebay_core::{Fault, Lane, Nanos};

/// An I/O requested by a task. Offsets and lengths are multiples of 4096 bytes.
#[derive(Debug)]
pub(crate) enum Io {
    /// Reads `len` bytes.
    Read { offset: u64, len: usize },
    /// Writes these bytes; with `durable`, they survive a power cut once the write has ended.
    Write { offset: u64, data: Vec<u8>, durable: bool },
    /// Makes all earlier writes durable.
    Flush,
}

/// The result of an I/O, with the bytes of a read.
pub(crate) type IoOutcome = Result<Vec<u8>, Fault>;

/// The id of an I/O, valid from its request until its end.
pub(crate) type IoId = usize;

type TaskId = usize;

/// The fixed cost of processing a record, expressed in bytes.
const RECORD_BYTES: usize = 512;
type Task = Pin<Box<dyn Future<Output = ()>>>;

enum Slot {
    Free,
    UnderWay {
        waiter: Option<TaskId>,
    },
    /// The I/O is in flight, but nothing waits for its result any longer.
    Abandoned,
    Ended(IoOutcome),
}

/// The tasks, and the I/Os and timers that they wait for.
#[derive(Default)]
pub(crate) struct Executor {
    tasks: RefCell<Vec<Option<Task>>>,
    free_tasks: RefCell<Vec<TaskId>>,
    ready: RefCell<VecDeque<TaskId>>,
    /// Tasks that have yielded; they run in the driver's next pass.
    later: RefCell<Vec<TaskId>>,
    current: Cell<TaskId>,
    now: Cell<Nanos>,
    timers: RefCell<BinaryHeap<Reverse<(Nanos, u64, TaskId)>>>,
    timers_set: Cell<u64>,
    slots: RefCell<Vec<Slot>>,
    free_slots: RefCell<Vec<IoId>>,
    asked: RefCell<VecDeque<(IoId, Lane, Io)>>,
}

impl Executor {
    /// Returns the current time.
    pub(crate) fn now(&self) -> Nanos {
        self.now.get()
    }

    /// Starts a task, which runs after all tasks that are ready now.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let mut tasks = self.tasks.borrow_mut();
        let id = self.free_tasks.borrow_mut().pop().unwrap_or_else(|| {
            tasks.push(None);
            tasks.len() - 1
        });
        tasks[id] = Some(Box::pin(task));
        self.ready.borrow_mut().push_back(id);
    }

    /// Runs all tasks that are ready or due until none are left. Time does not advance in the
    /// meantime.
    pub(crate) fn run(&self, now: Nanos) {
        if now > self.now.replace(now) {
            self.ready.borrow_mut().extend(self.later.borrow_mut().drain(..));
        }
        loop {
            self.ring(now);
            let Some(id) = self.ready.borrow_mut().pop_front() else { return };
            // A task that was woken twice may have ended in between.
            let Some(mut task) = self.tasks.borrow_mut()[id].take() else { continue };
            self.current.set(id);
            match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => self.tasks.borrow_mut()[id] = Some(task),
                Poll::Ready(()) => self.free_tasks.borrow_mut().push(id),
            }
        }
    }

    /// Wakes the tasks whose timers have expired.
    fn ring(&self, now: Nanos) {
        let mut timers = self.timers.borrow_mut();
        while let Some(&Reverse((at, _, task))) = timers.peek()
            && at <= now
        {
            timers.pop();
            self.ready.borrow_mut().push_back(task);
        }
    }

    /// Returns when the next task is due.
    pub(crate) fn wakeup(&self) -> Option<Nanos> {
        let soon = (!self.later.borrow().is_empty()).then(|| self.now() + Nanos(1));
        self.timers.borrow().peek().map(|timer| timer.0.0).into_iter().chain(soon).min()
    }

    /// Yields to other tasks and to the driver.
    async fn give_way(&self) {
        let mut gave = false;
        poll_fn(|_| match std::mem::replace(&mut gave, true) {
            true => Poll::Ready(()),
            false => {
                self.later.borrow_mut().push(self.current.get());
                Poll::Pending
            }
        })
        .await;
    }

    /// Returns the next requested I/O.
    pub(crate) fn next_io(&self) -> Option<(IoId, Lane, Io)> {
        self.asked.borrow_mut().pop_front()
    }

    /// Registers the end of an I/O.
    pub(crate) fn complete(&self, io: IoId, outcome: IoOutcome) {
        let mut slots = self.slots.borrow_mut();
        match std::mem::replace(&mut slots[io], Slot::Ended(outcome)) {
            Slot::UnderWay { waiter } => self.ready.borrow_mut().extend(waiter),
            _ => {
                slots[io] = Slot::Free;
                self.free_slots.borrow_mut().push(io);
            }
        }
    }

    /// Requests an I/O, which proceeds even if nothing waits for it.
    pub(crate) fn io(self: &Rc<Self>, lane: Lane, io: Io) -> Pending {
        let mut slots = self.slots.borrow_mut();
        let id = self.free_slots.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(Slot::Free);
            slots.len() - 1
        });
        slots[id] = Slot::UnderWay { waiter: None };
        self.asked.borrow_mut().push_back((id, lane, io));
        Pending { executor: Rc::clone(self), id }
    }

    /// Waits for a duration.
    pub(crate) async fn sleep(&self, time: Nanos) {
        let until = self.now() + time;
        self.timers_set.set(self.timers_set.get() + 1);
        let timer = Reverse((until, self.timers_set.get(), self.current.get()));
        self.timers.borrow_mut().push(timer);
        poll_fn(|_| if self.now() >= until { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// The amount of work that a task has done since it last yielded.
pub(crate) struct Work {
    executor: Rc<Executor>,
    bytes: usize,
    /// The amount of work after which the task yields.
    bytes_max: usize,
}

impl Work {
    pub(crate) fn new(executor: &Rc<Executor>, bytes_max: usize) -> Work {
        Work { executor: Rc::clone(executor), bytes: 0, bytes_max }
    }

    /// Registers processed records, and yields if enough work has been done.
    pub(crate) async fn did(&mut self, bytes: usize, records: usize) {
        self.bytes += bytes + records * RECORD_BYTES;
        if self.bytes >= self.bytes_max {
            self.bytes = 0;
            self.executor.give_way().await;
        }
    }
}

/// An I/O in flight.
pub(crate) struct Pending {
    executor: Rc<Executor>,
    id: IoId,
}

impl Future for Pending {
    type Output = IoOutcome;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<IoOutcome> {
        let slot = &mut self.executor.slots.borrow_mut()[self.id];
        match std::mem::replace(slot, Slot::Abandoned) {
            Slot::Ended(outcome) => Poll::Ready(outcome),
            _ => {
                *slot = Slot::UnderWay { waiter: Some(self.executor.current.get()) };
                Poll::Pending
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let slot = &mut self.executor.slots.borrow_mut()[self.id];
        match slot {
            Slot::UnderWay { .. } => *slot = Slot::Abandoned,
            // The result has been taken, or the I/O ended without anything waiting for it.
            _ => {
                *slot = Slot::Free;
                self.executor.free_slots.borrow_mut().push(self.id);
            }
        }
    }
}

/// Wakes all tasks that wait for a condition, so that they check it again.
pub(crate) struct Signal {
    executor: Rc<Executor>,
    waiters: RefCell<Vec<TaskId>>,
}

impl Signal {
    /// Creates a signal that no task waits for.
    pub(crate) fn new(executor: &Rc<Executor>) -> Signal {
        Signal { executor: Rc::clone(executor), waiters: RefCell::default() }
    }

    /// Signals that something has changed.
    pub(crate) fn notify(&self) {
        self.executor.ready.borrow_mut().extend(self.waiters.borrow_mut().drain(..));
    }

    /// Waits until `condition` returns a value; it is checked immediately and after every change.
    pub(crate) async fn until<T>(&self, mut condition: impl FnMut() -> Option<T>) -> T {
        poll_fn(|_| match condition() {
            Some(value) => Poll::Ready(value),
            None => {
                let (mut waiters, current) =
                    (self.waiters.borrow_mut(), self.executor.current.get());
                // A task that waits for several conditions registers with each again after every
                // wakeup.
                if waiters.last() != Some(&current) {
                    waiters.push(current);
                }
                Poll::Pending
            }
        })
        .await
    }
}

/// Runs these futures concurrently until all have ended or one has failed.
pub(crate) async fn together<E>(
    futures: impl Iterator<Item = impl Future<Output = Result<(), E>>>,
) -> Result<(), E> {
    let mut left: Vec<_> = futures.map(Box::pin).collect();
    poll_fn(|cx| {
        let mut outcome = Ok(());
        left.retain_mut(|future| match future.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(ended) => {
                outcome = std::mem::replace(&mut outcome, Ok(())).and(ended);
                false
            }
        });
        match outcome {
            Ok(()) if !left.is_empty() => Poll::Pending,
            _ => Poll::Ready(outcome),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> (Rc<RefCell<Vec<String>>>, impl Fn(&str) + Clone) {
        let list = Rc::new(RefCell::new(Vec::new()));
        let to = Rc::clone(&list);
        (list, move |what: &str| to.borrow_mut().push(what.into()))
    }

    #[test]
    fn tasks_resume_when_their_io_completes() {
        let executor = Rc::new(Executor::default());
        let (list, tell) = told();
        let signal = Rc::new(Signal::new(&executor));
        let gate = Rc::new(Cell::new(0));
        {
            let (executor, tell) = (Rc::clone(&executor), tell.clone());
            let (signal, gate) = (Rc::clone(&signal), Rc::clone(&gate));
            Rc::clone(&executor).spawn(async move {
                let both = (executor.io(1, Io::Flush), executor.io(0, Io::Flush));
                tell(&format!("{:?}", both.1.await));
                tell(&format!("{:?}", both.0.await));
                executor.sleep(Nanos(5)).await;
                tell("slept");
                signal.until(|| (gate.get() > 1).then_some(())).await;
                tell("through");
            });
        }
        executor.run(Nanos(1));
        let (first, second) = (executor.next_io().unwrap(), executor.next_io().unwrap());
        assert_eq!((first.1, second.1), (1, 0));
        assert!(executor.next_io().is_none());
        // The second I/O, which is not awaited yet, ends first.
        executor.complete(first.0, Err(Fault::Full));
        executor.run(Nanos(2));
        assert!(list.borrow().is_empty());
        executor.complete(second.0, Ok(vec![1]));
        executor.run(Nanos(3));
        assert_eq!(*list.borrow(), ["Ok([1])", "Err(Full)"]);
        assert_eq!(executor.wakeup(), Some(Nanos(8)));
        executor.run(Nanos(7));
        assert_eq!(list.borrow().len(), 2);
        executor.run(Nanos(8));
        assert_eq!((list.borrow().len(), executor.wakeup()), (3, None));
        for value in 1..=2 {
            gate.set(value);
            signal.notify();
            executor.run(Nanos(9));
            assert_eq!(list.borrow().len(), 2 + value);
        }
        assert_eq!(executor.free_slots.borrow().len(), 2);
        assert_eq!(executor.free_tasks.borrow().len(), 1);
    }

    #[test]
    fn concurrent_tasks_run_until_one_fails() {
        let executor = Rc::new(Executor::default());
        let (list, tell) = told();
        let begin = |lanes: [Lane; 3]| {
            let (theirs, tell) = (Rc::clone(&executor), tell.clone());
            executor.spawn(async move {
                let one = |lane| {
                    let io = theirs.io(lane, Io::Flush);
                    async { io.await.map(drop) }
                };
                tell(&format!("{:?}", together(lanes.into_iter().map(one)).await));
            });
            asked_by(&executor)
        };
        let asked = begin([0, 1, 2]);
        // The I/Os may end in any order, because all were requested at once.
        for io in [asked[1], asked[2], asked[0]] {
            assert!(list.borrow().is_empty());
            executor.complete(io, Ok(Vec::new()));
            executor.run(Nanos(2));
        }
        assert_eq!(*list.borrow(), ["Ok(())"]);
        let asked = begin([0, 1, 2]);
        executor.complete(asked[1], Err(Fault::Full));
        executor.run(Nanos(3));
        assert_eq!(list.borrow()[1], "Err(Full)");
        executor.complete(asked[0], Ok(Vec::new()));
        executor.complete(asked[2], Ok(Vec::new()));
        assert_eq!(executor.free_slots.borrow().len(), 3);
    }

    /// Runs the tasks; returns the I/Os that they request.
    fn asked_by(executor: &Executor) -> Vec<IoId> {
        executor.run(Nanos(1));
        std::iter::from_fn(|| executor.next_io()).map(|(id, ..)| id).collect()
    }

    #[test]
    fn an_io_that_nobody_waits_for_leaves_nothing_behind() {
        let executor = Rc::new(Executor::default());
        drop(executor.io(0, Io::Flush));
        let (id, ..) = executor.next_io().unwrap();
        assert!(executor.free_slots.borrow().is_empty(), "it is under way");
        executor.complete(id, Ok(Vec::new()));
        assert_eq!(executor.free_slots.borrow()[..], [id]);
        // The I/O ends before its result is dropped.
        let pending = executor.io(0, Io::Flush);
        let (id, ..) = executor.next_io().unwrap();
        executor.complete(id, Ok(Vec::new()));
        drop(pending);
        assert_eq!(executor.free_slots.borrow()[..], [id]);
    }
}
