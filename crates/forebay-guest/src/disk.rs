//! The disk that both the kernel and the simulator use: a device model behind a queue of fixed
//! depth.

use std::collections::VecDeque;

use forebay_core::{Completion, Device, DeviceModel, Nanos, Request};

/// The number of commands that every disk here accepts, as SATA drives do. A scheduler may hold
/// twice as many requests.
pub(crate) const DEPTH: u16 = 32;
/// The maximum size of a request in the block layer, which is the simulator's default.
pub(crate) const REQUEST_BYTES_MAX: u32 = 512 << 10;
/// The size assumed for devices whose model has no capacity.
const CAPACITY: u64 = 250_000_000_000;

/// A device model. If it accepts fewer commands than [`DEPTH`], there is a first-come-first-served
/// queue in front of it.
pub(crate) struct Disk {
    model: DeviceModel,
    line: VecDeque<Request>,
    under_way: usize,
    /// How many requests more than [`DEPTH`] are taken from the scheduler.
    ahead: usize,
}

impl Disk {
    /// Opens the disk `device`.
    ///
    /// # Errors
    /// Fails if there is no such device.
    pub(crate) fn open(device: &str) -> Result<Disk, String> {
        let open = forebay_devices::open(device).map_err(|error| error.to_string())?;
        Ok(Disk { model: open.model, line: VecDeque::new(), under_way: 0, ahead: 0 })
    }

    /// Makes the disk behave like a disk without a budget in Linux's block layer, such as ublk's:
    /// one more request than the disk accepts is taken from the scheduler, and passed on as soon as
    /// possible.
    pub(crate) fn taken_ahead(self) -> Disk {
        Disk { ahead: 1, ..self }
    }

    /// Returns the size of the disk in bytes, rounded down to whole blocks.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = self.model.capacity();
        (if bytes == u64::MAX { CAPACITY } else { bytes }) / 4096 * 4096
    }
}

impl Device for Disk {
    fn room(&self) -> bool {
        self.under_way < usize::from(DEPTH) + self.ahead
    }
    fn start(&mut self, now: Nanos, io: Request) {
        self.under_way += 1;
        let accepted = self.under_way <= usize::from(DEPTH);
        match self.line.is_empty() && accepted && self.model.room() {
            true => self.model.start(now, io),
            false => self.line.push_back(io),
        }
    }
    fn next(&self) -> Option<Nanos> {
        self.model.next()
    }
    fn finish(&mut self, now: Nanos) -> Completion {
        let completion = self.model.finish(now);
        self.under_way -= 1;
        // The disk now accepts the command that was taken in advance.
        if self.under_way == usize::from(DEPTH)
            && let Some(ahead) = self.line.back_mut()
        {
            ahead.at = now;
        }
        while self.model.room()
            && let Some(io) = self.line.pop_front()
        {
            self.model.start(now, io);
        }
        completion
    }
    fn joules(&self, now: Nanos) -> f64 {
        self.model.joules(now)
    }
    fn busy(&self, now: Nanos) -> Nanos {
        self.model.busy(now)
    }
    fn floor(&self, io: &Request) -> Nanos {
        self.model.floor(io)
    }
    fn capacity(&self) -> u64 {
        self.model.capacity()
    }
    fn len_max(&self) -> u32 {
        self.model.len_max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::{Flags, Op};

    #[test]
    fn requests_that_the_model_cannot_accept_are_queued() {
        let mut disk = Disk::open("fixed:1000").unwrap();
        let io = |id| Request {
            at: Nanos::ZERO,
            offset: 0,
            id,
            len: 4096,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        (0..32).for_each(|id| disk.start(Nanos::ZERO, io(id)));
        assert!(!disk.room());
        for id in 0..32 {
            let at = Nanos::from_millis(id + 1);
            assert_eq!(disk.next(), Some(at));
            assert_eq!(disk.finish(at).io.id, id);
        }
        assert_eq!(disk.next(), None);
    }
}
