//! Runs a store for a long virtual time: tests its use of space, the amount written, and the result
//! of a day's ingest.

mod asking;
mod day;
mod keys;
mod space;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use forebay_core::Nanos;
use forebay_core::device::fixed::Fixed;
use forebay_live::{Emulated, Sparse, Store, VirtualClock, run};
use forebay_store::{
    Answer, Config, Desk, Figures, Layout, Operation, OperationError, StorePolicy,
};

use self::asking::Asking;
use self::keys::{Load, Model, Told, Work};

const DISKS: u16 = 4;

/// The content of a disk, which survives a run, and the number of bytes written to it.
#[derive(Clone, Default)]
struct Kept {
    bytes: Rc<RefCell<Sparse>>,
    written: Rc<Cell<u64>>,
}

impl Store for Kept {
    fn read(&mut self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.bytes.borrow_mut().read(offset, to)
    }
    fn write(&mut self, offset: u64, from: &[u8], durable: bool) -> io::Result<()> {
        self.written.set(self.written.get() + from.len() as u64);
        self.bytes.borrow_mut().write(offset, from, durable)
    }
    fn trim(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A store's disks.
struct Disks {
    layouts: Vec<Layout>,
    config: Config,
    kept: Vec<Kept>,
}

/// The outcome of a life of the store.
struct Life {
    told: Told,
    figures: Figures,
    /// The maximum memory use that the store reported; it was sampled at each answer.
    memory_max: u64,
    at: Nanos,
}

impl Disks {
    fn new(capacity_bytes: u64, config: Config) -> Disks {
        let layouts = Layout::all(7, DISKS, capacity_bytes, &config);
        assert!(layouts[0].is_sound());
        let kept: Vec<Kept> = layouts.iter().map(|_| Kept::default()).collect();
        for (layout, kept) in layouts.iter().zip(&kept) {
            for (at, bytes) in layout.blank() {
                kept.clone().write(at, &bytes, true).unwrap();
            }
        }
        Disks { layouts, config, kept }
    }

    fn written(&self) -> u64 {
        self.kept.iter().map(|kept| kept.written.get()).sum()
    }

    /// Returns the number of bytes available to segments.
    fn room(&self) -> u64 {
        let of = |layout: &Layout| layout.capacity_bytes - layout.segments_at();
        self.layouts.iter().map(of).sum()
    }

    fn lanes(&self) -> Emulated<Fixed, VirtualClock> {
        let devices = (0..DISKS).map(|_| Fixed::new(500.0).unwrap()).collect();
        let stores =
            self.kept.iter().map(|kept| Box::new(kept.clone()) as Box<dyn Store>).collect();
        Emulated::new(devices, VirtualClock::default()).storing(stores)
    }

    /// Runs operations, `depth` at a time, in a life that ends with a kill; returns their answers.
    fn ask(
        &self,
        depth: usize,
        operations: impl Iterator<Item = Operation>,
    ) -> Vec<Result<Answer, OperationError>> {
        let (mut lanes, desk) = (self.lanes(), Desk::default());
        let config = self.config.clone();
        let mut policy = StorePolicy::new(&self.layouts, config, 1 << 20, desk.clone());
        let mut work = Asking::new(&desk, [Operation::Open].into_iter().chain(operations), depth);
        run(&mut policy, &mut lanes, &mut work, &mut ()).unwrap();
        work.answers.into_values().skip(1).collect()
    }

    fn live(&self, load: Load, model: &mut Model, closes: bool, at: Nanos) -> Life {
        let (mut lanes, desk) = (self.lanes(), Desk::default());
        let mut policy =
            StorePolicy::new(&self.layouts, self.config.clone(), 1 << 20, desk.clone());
        let view = policy.view();
        let mut work = Work::new((&desk, policy.view()), load, model, closes, at);
        let at = run(&mut policy, &mut lanes, &mut work, &mut ()).unwrap();
        let (told, memory_max) = (work.told, work.memory_max);
        Life { told, figures: view.figures(), memory_max, at }
    }
}
