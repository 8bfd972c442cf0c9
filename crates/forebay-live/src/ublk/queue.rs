//! Receives the requests of one device and answers them in a separate ring.
#![allow(unsafe_code)]

use std::io;

use forebay_core::Nanos;
use io_uring::IoUring;
use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};

use super::channel::{Channel, UblkRequest};

/// The queue of a device. Only the thread that opened the queue may serve it.
pub struct Queue {
    ring: IoUring,
    channel: Channel,
}

impl Queue {
    /// Opens the queue of `device`, whose depth is `depth`, and fetches its requests.
    ///
    /// # Errors
    /// The device does not exist, or is already served.
    pub fn open(device: u32, depth: u16) -> io::Result<Queue> {
        let channel = Channel::open(device, depth)?;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(u32::from(depth).next_power_of_two())?;
        let mut queue = Queue { ring, channel };
        for tag in 0..depth {
            queue.push(queue.channel.fetch(tag), tag)?;
        }
        queue.ring.submit()?;
        Ok(queue)
    }

    /// Submits answers, waits until a request arrives or `wait` is over, and adds the requests that
    /// have arrived to `asked`. Without `wait`, it waits until a request arrives.
    ///
    /// # Errors
    /// io_uring itself fails.
    pub fn wait(&mut self, wait: Option<Nanos>, asked: &mut Vec<UblkRequest>) -> io::Result<()> {
        let is_empty = self.ring.completion().is_empty();
        let want = usize::from(is_empty && wait != Some(Nanos::ZERO));
        let entered = match wait.filter(|_| want > 0) {
            None => self.ring.submitter().submit_and_wait(want),
            Some(span) => {
                let (s, ns) = (span.0 / 1_000_000_000, (span.0 % 1_000_000_000) as u32);
                let time = Timespec::new().sec(s).nsec(ns);
                self.ring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(&time))
            }
        };
        match entered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY), _)) => {}
            Err((_, error)) => return Err(error),
        }
        for entry in self.ring.completion() {
            asked.extend(self.channel.ended(entry.user_data() as u16, entry.result()));
        }
        Ok(())
    }

    /// Returns whether the device was stopped and sends no more requests.
    pub fn is_over(&self) -> bool {
        self.channel.is_over()
    }

    /// Returns the channel, through which the data of requests is accessed.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Answers a request with the number of bytes transferred, or the negated error number of the
    /// system. The next [`Queue::wait`] submits the answer.
    ///
    /// # Errors
    /// A tag is answered twice.
    pub fn answer(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.push(self.channel.answer(tag, result), tag)
    }

    fn push(&mut self, entry: Entry, tag: u16) -> io::Result<()> {
        // SAFETY: the command contains its data and refers to no memory.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(tag.into())) };
        pushed.map_err(|_| io::Error::other(format!("ublk: tag {tag} is answered twice")))
    }
}
