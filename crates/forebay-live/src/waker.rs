//! Wakes the driver from outside: for a socket that is ready, or a request from another thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::Thread;

/// Ends a driver's wait from another thread. Wakers can be cloned.
#[derive(Clone)]
pub struct Waker(Way);

#[derive(Clone)]
enum Way {
    /// Increments a counter that the driver watches.
    Counter(Arc<OwnedFd>),
    /// Sends the driver a message.
    Message(Arc<dyn Fn() + Send + Sync>),
    Thread(Thread),
}

impl Waker {
    pub(crate) fn counter(counter: Arc<OwnedFd>) -> Waker {
        Waker(Way::Counter(counter))
    }

    pub(crate) fn message(send: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker(Way::Message(Arc::new(send)))
    }

    /// Creates a waker that unparks a thread.
    pub fn thread(thread: Thread) -> Waker {
        Waker(Way::Thread(thread))
    }

    /// Ends the driver's current wait or, if the driver is not waiting, its next one.
    pub fn wake(&self) {
        match &self.0 {
            Way::Counter(counter) => {
                // This fails only if the counter is at its maximum, in which case the driver is
                // woken anyway.
                let _ = rustix::io::write(counter, &1u64.to_ne_bytes());
            }
            Way::Message(send) => send(),
            Way::Thread(thread) => thread.unpark(),
        }
    }
}
