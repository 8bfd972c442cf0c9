//! The dies and channels of a solid-state drive, and when they are free.

use super::ftl::Work;
use super::modes::Times;
use super::spec::SsdSpec;
use super::time_of;

/// The dies and channels, with the times of flash operations.
#[derive(Clone, Debug)]
pub(super) struct Flash {
    channels: u32,
    reads: Times,
    /// The mean time for which a read occupies a die.
    read_ns: u64,
    /// The time of a program, divided by its number of pages.
    program_page_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    page_bytes: u64,
    channel_bytes_per_s: u64,
    page_transfer_ns: u64,
    /// When each die will have completed all its operations.
    die_free: Vec<u64>,
    /// When each die will have completed its reads.
    reads_free: Vec<u64>,
    /// When each channel will have completed all its transfers.
    channel_free: Vec<u64>,
    /// The energy of a die's work in joules per nanosecond, in addition to idling: for reading, and
    /// for programming or erasing.
    read_j_per_ns: f64,
    change_j_per_ns: f64,
    reading_ns: u64,
    changing_ns: u64,
}

impl Flash {
    pub(super) fn new(spec: &SsdSpec) -> Flash {
        let dies = spec.dies();
        let page_bytes = u64::from(spec.page_bytes);
        let extra = |watts: f64| (watts - spec.power.idle_w).max(0.0) / f64::from(dies) / 1e9;
        Flash {
            channels: spec.channels,
            reads: Times::new(&spec.read),
            read_ns: (spec.read.mean().0 as f64 * spec.read.busy_share).round() as u64,
            program_page_ns: spec.program.0.div_ceil(spec.program_pages.into()),
            program_ns: spec.program.0,
            erase_ns: spec.erase.0,
            page_bytes,
            channel_bytes_per_s: spec.channel_bytes_per_s,
            page_transfer_ns: time_of(page_bytes, spec.channel_bytes_per_s),
            die_free: vec![0; dies as usize],
            reads_free: vec![0; dies as usize],
            channel_free: vec![0; spec.channels as usize],
            read_j_per_ns: extra(spec.power.read_w),
            change_j_per_ns: extra(spec.power.write_w),
            reading_ns: 0,
            changing_ns: 0,
        }
    }

    /// Returns when `bytes` of the pages in `row`, which are read together, have left the die.
    #[inline]
    pub(super) fn read(&mut self, die: u32, row: u32, ready: u64, bytes: u64) -> u64 {
        let (before, read_ns) = self.reads.of(row.into());
        let done = self.sense(die as usize, ready + before, read_ns);
        let transfer = if bytes == self.page_bytes {
            self.page_transfer_ns
        } else {
            time_of(bytes, self.channel_bytes_per_s)
        };
        let channel = &mut self.channel_free[(die % self.channels) as usize];
        *channel = ready.max(*channel) + transfer;
        (done + transfer).max(*channel)
    }

    /// Returns when a die has read a page. Reads precede buffered writes, but not the current
    /// operation.
    #[inline]
    fn sense(&mut self, die: usize, ready: u64, read_ns: u64) -> u64 {
        let backlog = self.die_free[die].saturating_sub(ready);
        let current = if backlog > self.program_ns { backlog % self.program_ns } else { backlog };
        let done = (ready + current).max(self.reads_free[die]) + read_ns;
        self.reads_free[die] = done;
        self.die_free[die] = (self.die_free[die] + read_ns).max(done);
        self.reading_ns += read_ns;
        done
    }

    /// Reads the rest of a page that is partially written. The die does this in order with its
    /// other operations.
    pub(super) fn read_back(&mut self, die: u32, at: u64) {
        let free = &mut self.die_free[die as usize];
        *free = at.max(*free) + self.read_ns;
        self.reading_ns += self.read_ns;
    }

    /// Returns when a page that enters the buffer at `at` is programmed.
    #[inline]
    pub(super) fn program(&mut self, die: u32, at: u64) -> u64 {
        let channel = &mut self.channel_free[(die % self.channels) as usize];
        *channel = at.max(*channel) + self.page_transfer_ns;
        let free = &mut self.die_free[die as usize];
        // A page is programmed together with others, and takes its share of the die's time.
        let done = at.max(*free).max(*channel) + self.program_page_ns;
        *free = done;
        self.changing_ns += self.program_page_ns;
        done
    }

    /// Returns a handle for garbage collection at the time `at`.
    #[inline]
    pub(super) fn at(&mut self, at: u64) -> Collecting<'_> {
        Collecting { flash: self, at }
    }

    /// Returns the energy used in addition to idling, in joules.
    pub(super) fn joules(&self) -> f64 {
        self.reading_ns as f64 * self.read_j_per_ns + self.changing_ns as f64 * self.change_j_per_ns
    }
}

/// The work of garbage collection, which occupies the die that runs out of blocks.
pub(super) struct Collecting<'a> {
    flash: &'a mut Flash,
    at: u64,
}

impl Work for Collecting<'_> {
    #[inline]
    fn copied(&mut self, die: u32) {
        let flash = &mut *self.flash;
        let free = &mut flash.die_free[die as usize];
        *free = self.at.max(*free) + flash.read_ns + flash.program_page_ns;
        flash.reading_ns += flash.read_ns;
        flash.changing_ns += flash.program_page_ns;
    }

    fn erased(&mut self, die: u32) {
        let flash = &mut *self.flash;
        let free = &mut flash.die_free[die as usize];
        *free = self.at.max(*free) + flash.erase_ns;
        flash.changing_ns += flash.erase_ns;
    }
}
