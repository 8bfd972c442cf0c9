//! What each RAID level costs on a device: the scores that an adaptive array goes by, from a model
//! instead of from measurements (Jeremic et al., Table 1 and section 4.2).
//!
//! Writes of 1 chunk to a whole unit go to random units of an array that is filled in part, so many at a
//! time; what one costs is the time of all, divided by their number. (The paper does not say how many it
//! had outstanding: so it is swept.) What a switch costs is what writes cost more where each is followed
//! by a switch: to copies after writes of one chunk, to RAID 6 after whole units, as rules have it.

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

/// What is scored.
#[derive(Clone, Copy, Debug)]
struct ArrayLoad {
    /// Drives, at least as many as RAID 6 needs.
    drives: u16,
    /// Bytes of a chunk.
    chunk_bytes: u32,
    /// How chunks are written.
    update: Update,
    /// Bytes of data that the array holds and writes go to.
    filled_bytes: u64,
    /// Writes outstanding.
    outstanding: u32,
    /// Writes of each kind.
    writes: u32,
    /// Where units are drawn from.
    seed: u64,
}

/// Data chunks of a unit, as in the paper.
const CHUNKS: u8 = 4;

/// The levels that are scored: layouts 0 and 1 of the rules.
const LEVELS: [Level; 2] = [Level::RAID6, Level::TRIPLE];

/// What writes and switches cost, in milliseconds.
#[derive(Clone, Debug, Serialize)]
struct Score {
    /// Writes outstanding.
    outstanding: u32,
    /// By level of [`LEVELS`]: a write of 1, 2, 3, 4 chunks.
    write_ms: [[f64; CHUNKS as usize]; 2],
    /// A switch from RAID 6 to three copies, and back.
    switch_ms: [f64; 2],
}

impl Score {
    /// Up to how many chunks three copies are faster.
    fn copies_up_to(&self) -> usize {
        let [raid6, copies] = &self.write_ms;
        raid6.iter().zip(copies).take_while(|(raid6, copies)| copies < raid6).count()
    }
}

/// Scores a device.
///
/// # Errors
/// Where there can be no such array.
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
            "got {} drives of {bytes} bytes, expected 6 to 32 with room for more than 64 chunks",
            load.drives
        )));
    };
    let cost = |level: Level, chunks: u32, switches: bool| {
        measured(device, geometry, load, level, chunks, switches)
    };
    let write_ms =
        LEVELS.map(|level| std::array::from_fn(|chunks| cost(level, chunks as u32 + 1, false)));
    // Where each write of so many chunks is followed by a switch, half of them are of either kind.
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

/// A unit goes to copies after writes of one chunk. Of the chunks that a switch there and back then moves,
/// those of the way there: it writes eight, the others having been read for the parities; back it reads
/// three and writes two.
const SHARE_THERE: f64 = 8.0 / 13.0;
/// It goes back after writes of all its chunks, which then need not be read: eight there, two back.
const SHARE_BACK: f64 = 2.0 / 10.0;

/// Milliseconds a write.
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

/// Switches after every request.
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

/// Writes of so many chunks to random units, so many at a time.
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
        // Mirrors are better for one chunk, RAID 6 for whole units; RAID 6 costs much the same for all.
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
