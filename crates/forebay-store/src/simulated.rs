//! A store in virtual time: runs the engine's own code on models of disks, with the data in memory.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;

use forebay_core::{Device, Nanos, Observer};
use forebay_live::{Clock, Emulated, Store, Striped, VirtualClock, WallClock, Watch, run};

use crate::frame::BLOCK;
use crate::load::{Load, Writers};
use crate::{Config, Desk, Figures, Layout, OperationError, StageChange, StorePolicy};

const PAGE: usize = 4096;
/// The maximum length of an I/O, which is Linux's default for disks (`max_sectors_kb`).
const IO_MAX: u32 = 512 << 10;
/// The maximum capacity of a disk, because some models have no limit.
const CAPACITY_MAX: u64 = 1 << 44;

/// The content of a page.
enum Page {
    /// All bytes have this value.
    Fill(u8),
    Bytes(Box<[u8; PAGE]>),
}

/// The content of a disk, in memory. A page filled with a single byte takes almost no memory, so
/// loads of such values can be large.
#[derive(Default)]
struct Filled {
    pages: BTreeMap<u64, Page>,
}

impl Filled {
    /// Splits a range by pages; returns each page's number and the range within it.
    fn pages(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
        let end = offset + len as u64;
        let size = PAGE as u64;
        (offset / size..end.div_ceil(size)).map(move |page| {
            let from = offset.max(page * size) - page * size;
            let upto = end.min((page + 1) * size) - page * size;
            (page, from as usize, upto as usize)
        })
    }

    /// Writes bytes at an offset.
    fn lay(&mut self, offset: u64, mut from: &[u8]) {
        for (page, begin, upto) in Filled::pages(offset, from.len()) {
            let (now, later) = from.split_at(upto - begin);
            from = later;
            // Comparing the page with itself shifted by one byte shows whether all bytes are equal.
            if now.len() == PAGE && now[1..] == now[..PAGE - 1] {
                self.pages.insert(page, Page::Fill(now[0]));
                continue;
            }
            let slot = self.pages.entry(page).or_insert(Page::Fill(0));
            if let Page::Fill(byte) = *slot {
                *slot = Page::Bytes(Box::new([byte; PAGE]));
            }
            if let Page::Bytes(bytes) = slot {
                bytes[begin..upto].copy_from_slice(now);
            }
        }
    }
}

impl Store for Filled {
    fn read(&mut self, offset: u64, mut to: &mut [u8]) -> io::Result<()> {
        for (page, from, upto) in Filled::pages(offset, to.len()) {
            let (now, later) = to.split_at_mut(upto - from);
            match self.pages.get(&page) {
                None => now.fill(0),
                Some(Page::Fill(byte)) => now.fill(*byte),
                Some(Page::Bytes(bytes)) => now.copy_from_slice(&bytes[from..upto]),
            }
            to = later;
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, from: &[u8], _durable: bool) -> io::Result<()> {
        self.lay(offset, from);
        Ok(())
    }

    fn trim(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of a simulated load.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The time from the opening of the store until the last put was answered.
    pub execution: Nanos,
    /// The time until the last log had become a segment.
    pub settled: Nanos,
    /// The latencies of all puts, sorted.
    pub latencies: Vec<Nanos>,
    /// The store's counters.
    pub figures: Figures,
    /// The bytes of segments at the end, and the number of runs.
    pub segment_totals: (u64, usize),
    /// The busy time of each disk until everything was settled.
    pub busy: Vec<Nanos>,
    /// The energy used by each disk until everything was settled, in joules.
    pub energy_j: Vec<f64>,
    /// The times at which disks began each stage.
    pub stages: Vec<StageChange>,
}

impl Simulated {
    /// Returns the latency that `share` of the puts do not exceed.
    pub fn latency(&self, share: f64) -> Nanos {
        let last = self.latencies.len().saturating_sub(1);
        let at = (share * last as f64).round() as usize;
        self.latencies.get(at).copied().unwrap_or_default()
    }
}

/// The clock of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Virtual time, which advances as fast as possible and gives the same result on every machine.
    Virtual,
    /// Wall time: disks take the time of their models, and the store's own work takes its actual
    /// time.
    Wall,
}

/// Runs [`simulate`] on a given clock for as long as `go_on`, which is called often, returns true.
///
/// # Errors
/// Returns [`OperationError::Closed`] if `go_on` returned false; otherwise fails like [`simulate`].
pub(crate) fn simulate_while<D: Device>(
    time: Time,
    devices: Vec<D>,
    raid0_chunk_bytes: Option<u64>,
    config: Config,
    load: Load,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Simulated, OperationError> {
    let watch = While { go_on, is_stopped: false };
    match time {
        Time::Virtual => {
            by(VirtualClock::default(), devices, raid0_chunk_bytes, config, load, watch)
        }
        Time::Wall => by(WallClock::start(), devices, raid0_chunk_bytes, config, load, watch),
    }
}

/// Stops the simulation when `go_on` requests it.
struct While<'a> {
    go_on: &'a mut dyn FnMut() -> ControlFlow<()>,
    is_stopped: bool,
}

impl Observer for While<'_> {}

impl Watch for While<'_> {
    fn stops(&mut self, _wall: Nanos) -> bool {
        self.is_stopped = self.is_stopped || (self.go_on)().is_break();
        self.is_stopped
    }
}

/// Puts a load into a new store on these disks; with `raid0_chunk_bytes`, on a RAID 0 of all of
/// them.
///
/// # Errors
/// Returns [`OperationError`] if the store could not take the load, for example because a disk is
/// full.
pub fn simulate<D: Device>(
    devices: Vec<D>,
    raid0_chunk_bytes: Option<u64>,
    config: Config,
    load: Load,
) -> Result<Simulated, OperationError> {
    let go_on = &mut || ControlFlow::Continue(());
    simulate_while(Time::Virtual, devices, raid0_chunk_bytes, config, load, go_on)
}

fn by<D: Device, C: Clock>(
    clock: C,
    devices: Vec<D>,
    raid0_chunk_bytes: Option<u64>,
    config: Config,
    load: Load,
    mut watch: While<'_>,
) -> Result<Simulated, OperationError> {
    let least = devices.iter().map(Device::capacity).min().unwrap_or(0);
    let capacity_bytes = least.min(CAPACITY_MAX) / 4096 * 4096;
    let len_max = devices.iter().map(Device::len_max).min().unwrap_or(IO_MAX).min(IO_MAX);
    let count = devices.len();
    let (disks, capacity_bytes) = match raid0_chunk_bytes {
        Some(_) => (1, capacity_bytes * count as u64),
        None => (count, capacity_bytes),
    };
    let layouts = Layout::all(load.seed, disks as u16, capacity_bytes, &config);
    let desk = Desk::default();
    let mut policy = StorePolicy::new(&layouts, config, len_max, desk.clone());
    let mut writers = Writers::new(load, &desk);
    let failed = |error: io::Error| panic!("lanes in memory do not fail: {error}");
    let stores = blank(&layouts, count, raid0_chunk_bytes);
    let stores = stores.into_iter().map(|store| Box::new(store) as Box<dyn Store>).collect();
    let lanes = Emulated::new(devices, clock).storing(stores);
    let (settled, lanes) = match raid0_chunk_bytes {
        Some(chunk) => {
            let mut lanes = Striped::new(lanes, chunk);
            let end = run(&mut policy, &mut lanes, &mut writers, &mut watch).unwrap_or_else(failed);
            (end, lanes.into_lanes())
        }
        None => {
            let mut lanes = lanes;
            let end = run(&mut policy, &mut lanes, &mut writers, &mut watch).unwrap_or_else(failed);
            (end, lanes)
        }
    };
    if watch.is_stopped {
        return Err(OperationError::Closed);
    }
    if let Some(failure) = writers.failure {
        return Err(failure);
    }
    let view = policy.view();
    writers.latencies.sort_unstable();
    Ok(Simulated {
        execution: writers.answered - writers.opened,
        settled,
        latencies: writers.latencies,
        figures: view.figures(),
        segment_totals: view.segment_totals(),
        busy: lanes.devices().iter().map(|device| device.busy(settled)).collect(),
        energy_j: lanes.devices().iter().map(|device| device.joules(settled)).collect(),
        stages: view.stage_changes(),
    })
}

/// Creates the content of a new store's disks; with `chunk_bytes`, the only disk is striped over
/// `count` devices.
fn blank(layouts: &[Layout], count: usize, chunk_bytes: Option<u64>) -> Vec<Filled> {
    let mut stores: Vec<Filled> = (0..count).map(|_| Filled::default()).collect();
    for (disk, layout) in layouts.iter().enumerate() {
        for (at, bytes) in layout.blank() {
            for (block, at) in bytes.chunks(BLOCK).zip((at..).step_by(BLOCK)) {
                let (disk, at) = match chunk_bytes {
                    None => (disk, at),
                    Some(chunk) => {
                        let (row, column) = (at / chunk / count as u64, at / chunk % count as u64);
                        (column as usize, row * chunk + at % chunk)
                    }
                };
                stores[disk].lay(at, block);
            }
        }
    }
    stores
}

#[cfg(test)]
mod tests {
    use forebay_core::device::fixed::Fixed;

    use super::*;
    use crate::{Keys, Transformation};

    #[test]
    fn pages_hold_what_was_written() {
        let mut filled = Filled::default();
        let mut model = vec![0; 5 * PAGE];
        for (at, len, byte) in
            [(0, 2 * PAGE, 3), (100, 50, 4), (PAGE - 1, 2, 5), (PAGE, PAGE, 6), (3 * PAGE, 9, 1)]
        {
            let bytes = vec![byte; len];
            filled.write(at as u64, &bytes, false).unwrap();
            model[at..at + len].copy_from_slice(&bytes);
            let mut seen = vec![0xAA; 5 * PAGE - 7];
            filled.read(7, &mut seen).unwrap();
            assert!(seen == model[7..], "after {len} bytes at {at}");
        }
        assert!(matches!(filled.pages[&1], Page::Fill(6)));
    }

    fn small(transformation: Transformation, raid0: Option<u64>) -> Simulated {
        let devices = (0..4).map(|_| Fixed::new(1000.0).unwrap()).collect();
        let config = Config {
            log_bytes: 400_000,
            tunes: false,
            transformation,
            fan_in: 4,
            segment_bytes: 1 << 20,
            ..Config::default()
        };
        let load = Load {
            value_bytes: 10_000,
            total_bytes: 20_000_000,
            writers: 2,
            host: Nanos::from_millis(2),
            keys: Keys::Random,
            seed: 3,
        };
        simulate(devices, raid0, config, load).unwrap()
    }

    #[test]
    fn every_put_is_answered_and_every_log_transformed() {
        let enhanced = small(Transformation::Enhanced, None);
        let figures = enhanced.figures;
        assert_eq!((enhanced.latencies.len(), figures.put_bytes), (2000, 2000 * 10_016));
        assert_eq!(figures.logs, figures.transformations);
        assert!(figures.logs >= 50 && figures.merges > 3, "{figures:?}");
        assert!(enhanced.segment_totals.0 > 20_000_000 && enhanced.settled >= enhanced.execution);
        // Two runs give the same times to the nanosecond, and the same energy to the joule.
        let again = small(Transformation::Enhanced, None);
        assert_eq!((again.latencies, again.energy_j), (enhanced.latencies, enhanced.energy_j));
        let logged = small(Transformation::None, None);
        assert_eq!(logged.segment_totals.1, 0);
        let raid0 = small(Transformation::Basic, Some(65536));
        assert_eq!(raid0.figures.transformations, raid0.figures.logs);
        assert_eq!(raid0.busy.len(), 4);
    }
}
