//! Wakes the driver from outside: for a socket that is ready, or a request from another thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::Thread;

/// Ends the driver's wait. To be cloned and given to others.
#[derive(Clone)]
pub struct Waker(Way);

#[derive(Clone)]
enum Way {
    /// Adds to a counter that the kernel watches.
    Counter(Arc<OwnedFd>),
    /// A message among others.
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

    /// One that unparks a thread.
    pub fn thread(thread: Thread) -> Waker {
        Waker(Way::Thread(thread))
    }

    /// Ends the driver's wait, or the next one if it does not wait.
    pub fn wake(&self) {
        match &self.0 {
            Way::Counter(counter) => {
                // It fails only where the counter is full: then the driver is woken anyway.
                let _ = rustix::io::write(counter, &1u64.to_ne_bytes());
            }
            Way::Message(send) => send(),
            Way::Thread(thread) => thread.unpark(),
        }
    }
}
