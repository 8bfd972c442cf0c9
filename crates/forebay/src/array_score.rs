//! The cost of each RAID level on a device. An adaptive array uses these scores. Here they are
//! derived from a model of the device instead of from measurements (Jeremic et al., Table 1 and
//! section 4.2).
//!
//! Writes of one chunk up to a whole unit go to random units of a partly filled array, with a fixed
//! number outstanding. The cost of a write is the total time divided by the number of writes. (The
//! paper does not state the number outstanding, so it is varied.) The cost of a switch is the extra
//! time per write if each write is followed by a switch. As in the adaptation rules, the array
//! switches to copies after writes of one chunk, and to RAID 6 after writes of whole units.

use forebay_core::adapt::{Class, Costs, First, Layout, Rule};
use forebay_core::catalog::build;
use forebay_core::contract::policy::{AnyPolicy, Done};
use forebay_core::device::list::DeviceModel;
use forebay_core::simulate;
use forebay_core::stack::array::{Array, Geometry, Level, Update};
use forebay_core::stack::placed::Placed;
use forebay_core::{Device, Flags, Nanos, Op, Request, Slots, Workload};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use crate::devices::OpenDevice;
use crate::error::Error;

mod page;
mod verb;

pub use verb::ArrayScoreAsk;

/// The array to score, and the load on it.
#[derive(Clone, Copy, Debug)]
struct ArrayLoad {
    /// The number of drives, at least as many as RAID 6 needs.
    drives: u16,
    /// The size of a chunk in bytes.
    chunk_bytes: u32,
    /// Where changed chunks are written: in place or elsewhere.
    update: Update,
    /// The amount of data in the array, in bytes; writes go only to this data.
    filled_bytes: u64,
    /// The number of writes that are outstanding at any time.
    outstanding: u32,
    /// The number of writes of each size.
    writes: u32,
    /// The seed for choosing random units.
    seed: u64,
}

/// The number of data chunks in a unit; 4 as in the paper.
const CHUNKS: u8 = 4;

/// The levels to score, which the adaptation rules call layouts 0 and 1.
const LEVELS: [Level; 2] = [Level::RAID6, Level::TRIPLE];

/// The cost of writes and switches, in milliseconds.
#[derive(Clone, Debug, Serialize)]
struct Score {
    /// The number of writes that were outstanding at any time.
    outstanding: u32,
    /// For each of [`LEVELS`], the cost of writes of 1, 2, 3 and 4 chunks.
    write_ms: [[f64; CHUNKS as usize]; 2],
    /// The cost of a switch from RAID 6 to three copies, and of one back.
    switch_ms: [f64; 2],
}

impl Score {
    /// Returns the size of the largest write, in chunks, for which three copies are faster than
    /// RAID 6.
    fn copies_up_to(&self) -> usize {
        let [raid6, copies] = &self.write_ms;
        raid6.iter().zip(copies).take_while(|(raid6, copies)| copies < raid6).count()
    }
}

/// Scores a device.
///
/// # Errors
/// Fails if the device cannot form such an array.
fn score(device: &OpenDevice, load: ArrayLoad) -> Result<Score, Error> {
    let sizes = Geometry {
        volume: 0,
        lanes: load.drives,
        chunk_bytes: load.chunk_bytes,
        chunks: CHUNKS,
        copies_max: 3,
        units: 0,
        cells: 0,
        ring: 0,
        update: load.update,
    };
    let bytes = device.model.capacity();
    let disks = vec![bytes; load.drives.into()];
    let Some(geometry) = Geometry::fitting(sizes, Level::RAID6, &[&disks]) else {
        return Err(Error::Unfit(format!(
            "got {} drives of {bytes} bytes, expected 6 to 32 with space for more than 64 chunks",
            load.drives
        )));
    };
    let cost = |level: Level, chunks: u32, switches: bool| {
        measured(device, geometry, load, level, chunks, switches)
    };
    let write_ms =
        LEVELS.map(|level| std::array::from_fn(|chunks| cost(level, chunks as u32 + 1, false)));
    // If each write is followed by a switch, half of the switches go in each direction.
    let there_and_back = |chunks: u32| {
        let both: [f64; 2] = LEVELS.map(|level| cost(level, chunks, true));
        let alone: [f64; 2] = write_ms.map(|row: [f64; CHUNKS as usize]| row[chunks as usize - 1]);
        (both[0] + both[1] - alone[0] - alone[1]).max(0.0)
    };
    Ok(Score {
        outstanding: load.outstanding,
        write_ms,
        switch_ms: [there_and_back(1) * SHARE_THERE, there_and_back(CHUNKS.into()) * SHARE_BACK],
    })
}

/// Of the chunks moved by a switch to copies and back after writes of one chunk, the share moved by
/// the switch to copies. That switch writes eight chunks, because it has already read the others
/// for the parities; the switch back reads three and writes two.
const SHARE_THERE: f64 = 8.0 / 13.0;
/// Of the chunks moved by a switch to copies and back after writes of a whole unit, the share moved
/// by the switch back. Chunks just written need not be read, so the switch to copies writes eight
/// and the switch back writes two.
const SHARE_BACK: f64 = 2.0 / 10.0;

/// Simulates the load at `level`, and returns the milliseconds per write.
fn measured(
    device: &OpenDevice,
    geometry: Geometry,
    load: ArrayLoad,
    level: Level,
    chunks: u32,
    switches: bool,
) -> f64 {
    let units = (load.filled_bytes / geometry.unit_bytes()).clamp(1, geometry.units);
    let array = Array::new(geometry, level).filled(units);
    let array = match switches {
        true => {
            let first = LEVELS.iter().position(|known| *known == level).unwrap_or(0);
            let first = First::Fixed(first as Layout);
            array.adapting(Always, Costs::paper_hdd(), first, LEVELS.to_vec())
        }
        false => array,
    };
    let disks = usize::from(load.drives);
    let schedulers: Vec<AnyPolicy> =
        (0..disks).filter_map(|_| build("noop", device.model.len_max()).ok()).collect();
    let mut models: Vec<DeviceModel> = vec![device.model.clone(); disks];
    let mut policy = Placed::over(array, schedulers);
    let mut writes = Load {
        ready: load.outstanding.into(),
        left: load.writes,
        now: Nanos::ZERO,
        draws: Xoshiro256PlusPlus::seed_from_u64(load.seed),
        units,
        unit_bytes: geometry.unit_bytes(),
        chunk_bytes: load.chunk_bytes,
        chunks,
    };
    simulate::run(&mut policy, &mut models, &mut writes, &mut ());
    writes.now.as_secs_f64() * 1e3 / f64::from(load.writes.max(1))
}

/// An adaptation rule that switches levels after every request.
struct Always;

impl Rule for Always {
    type Unit = Layout;
    fn begin(&mut self, _: &Costs, first: Layout, _: Class, _: u64) -> Layout {
        first
    }
    fn seen(&mut self, _: &Costs, unit: &mut Layout, _: Class) -> Option<Layout> {
        *unit = 1 - *unit;
        Some(*unit)
    }
    fn layout(&self, unit: &Layout) -> Layout {
        *unit
    }
}

/// A workload that writes a fixed number of chunks to random units, with a fixed number of writes
/// outstanding.
struct Load {
    ready: u64,
    left: u32,
    now: Nanos,
    draws: Xoshiro256PlusPlus,
    units: u64,
    unit_bytes: u64,
    chunk_bytes: u32,
    chunks: u32,
}

impl Workload for Load {
    fn peek(&self) -> Option<Nanos> {
        (self.ready > 0 && self.left > 0).then_some(self.now)
    }
    fn take(&mut self) -> Request {
        (self.ready, self.left) = (self.ready - 1, self.left - 1);
        let unit = self.draws.next_u64() % self.units;
        let chunk = self.draws.next_u64() % u64::from(u32::from(CHUNKS) - self.chunks + 1);
        Request {
            at: self.now,
            offset: unit * self.unit_bytes + chunk * u64::from(self.chunk_bytes),
            id: self.left.into(),
            len: self.chunks * self.chunk_bytes,
            stream: 0,
            lane: 0,
            op: Op::Write,
            flags: Flags::NONE,
        }
    }
    fn finished(&mut self, now: Nanos, _done: &Done, _slots: &mut dyn Slots) {
        (self.ready, self.now) = (self.ready + 1, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::open;

    fn load(outstanding: u32) -> ArrayLoad {
        ArrayLoad {
            drives: 6,
            chunk_bytes: 65_536,
            update: Update::InPlace,
            filled_bytes: 4 << 30,
            outstanding,
            writes: 400,
            seed: 1,
        }
    }

    #[test]
    fn a_disk_is_scored_as_the_paper_found_it() {
        let disk = open("st1000nm0011:plain").unwrap();
        let score = score(&disk, load(16)).unwrap();
        let [raid6, mirrors] = score.write_ms;
        // Copies are faster for one chunk and RAID 6 for whole units; RAID 6 costs about the same
        // for all sizes.
        assert!(mirrors[0] < raid6[0] && raid6[3] < mirrors[3], "{score:?}");
        assert!(mirrors.is_sorted() && raid6[0] / raid6[3] < 1.6, "{score:?}");
        assert!(score.switch_ms[0] > score.switch_ms[1] && score.switch_ms[1] > 0.0, "{score:?}");
        let alone = super::score(&disk, load(1)).unwrap();
        assert!(alone.write_ms[1][0] > mirrors[0], "more at a time cost less each");
    }

    #[test]
    fn too_few_drives_are_refused() {
        let disk = open("st1000nm0011:plain").unwrap();
        let said = score(&disk, ArrayLoad { drives: 5, ..load(1) }).unwrap_err().to_string();
        assert!(said.contains("got 5 drives"), "{said}");
    }
}
