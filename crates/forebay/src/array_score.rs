//! The cost of each RAID level on a device. An adaptive array uses these scores. Here they are
//! derived from a model of the device instead of from measurements (Jeremic et al., Table 1 and
//! section 4.2).
//!
//! Writes of one chunk up to a whole unit go to random units of a partly filled array, with a fixed
//! number outstanding. The cost of a write is the total time divided by the number of writes. (The
//! paper does not state the number outstanding, so it is varied.) The cost of a switch is the extra
//! time per write if each write is followed by a switch. As in the adaptation rules, the array
//! switches to copies after writes of one chunk, and to RAID 6 after writes of whole units.

use forebay_core::adapt::{Class, Costs, DriveCosts, First, Layout, Rule};
use forebay_core::catalog::build;
use forebay_core::contract::{AnyPolicy, Done};
use forebay_core::stack::array::{Array, Geometry, Level, Update};
use forebay_core::stack::placed::Placed;
use forebay_core::{Device, DeviceModel, Flags, Nanos, Op, Request, Slots, Workload, simulate};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use crate::{Error, OpenDevice};

mod page;
mod verb;

pub use verb::ArrayScoreAsk;

/// The array to score, and the load on it.
#[derive(Clone, Copy, Debug)]
struct ArrayLoad {
    /// The size of a chunk in bytes.
    chunk_bytes: u32,
    /// The number of data chunks in a unit.
    chunks: u8,
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

/// The number of data chunks in a unit of the paper.
const CHUNKS: u8 = 4;

/// The levels to score, which the adaptation rules call layouts 0 and 1.
const LEVELS: [Level; 2] = [Level::RAID6, Level::TRIPLE];

/// The cost of writes and switches, in milliseconds.
#[derive(Clone, Debug, Serialize)]
struct Score {
    /// The number of writes that were outstanding at any time.
    outstanding: u32,
    /// For each of [`LEVELS`], the cost of writes of 1, 2 ... chunks.
    write_ms: [Vec<f64>; 2],
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

/// The load for which the costs of particular drives are determined. The paper's Table 1 is closest
/// to 2 outstanding writes on solid-state drives and to 8 on disks (papers/raid).
const OUTSTANDING: u32 = 4;
const FILLED_BYTES: u64 = 4 << 30;
const WRITES: u32 = 500;

/// Returns the costs of writes on drives like `devices`, one for each drive, if units of this size
/// are to change between RAID 6 and three copies. Returns `None` if the drives cannot form both.
pub fn drive_costs(
    devices: &[&OpenDevice],
    chunk_bytes: u32,
    chunks: u8,
    update: Update,
) -> Option<DriveCosts> {
    let (outstanding, filled_bytes, writes, seed) = (OUTSTANDING, FILLED_BYTES, WRITES, 1);
    let load = ArrayLoad { chunk_bytes, chunks, update, filled_bytes, outstanding, writes, seed };
    let score = score(devices, load).ok()?;
    let nanos = |ms: f64| (ms * 1e6).round() as u64;
    let mut costs = DriveCosts { switches: score.switch_ms.map(nanos), ..DriveCosts::default() };
    for (row, write_ms) in costs.writes.iter_mut().zip(&score.write_ms) {
        let known = row.iter_mut().zip(write_ms);
        known.for_each(|(cost, ms)| *cost = nanos(*ms).max(1));
    }
    Some(costs)
}

/// Scores an array of drives like `devices`.
///
/// # Errors
/// Fails if the drives cannot form such an array.
fn score(devices: &[&OpenDevice], load: ArrayLoad) -> Result<Score, Error> {
    let sizes = Geometry {
        volume: 0,
        lanes: devices.len() as u16,
        chunk_bytes: load.chunk_bytes,
        chunks: load.chunks,
        copies_max: 3,
        units: 0,
        cells: 0,
        ring: 0,
        update: load.update,
    };
    let bytes: Vec<u64> = devices.iter().map(|device| device.model.capacity()).collect();
    let geometry = Geometry::fitting(sizes, Level::RAID6, &[&bytes]);
    let Some(geometry) = geometry.filter(|it| LEVELS.iter().all(|level| it.takes(*level))) else {
        return Err(Error::Unfit(format!(
            "got {} drives of {} bytes, expected 6 to 32 with space for more than 64 chunks",
            bytes.len(),
            bytes.iter().min().unwrap_or(&0)
        )));
    };
    let cost = |level: Level, chunks: u32, switches: bool| {
        measured(devices, geometry, load, level, chunks, switches)
    };
    let chunks = u32::from(load.chunks);
    let write_ms = LEVELS.map(|level| (1..=chunks).map(|size| cost(level, size, false)).collect());
    // If each write is followed by a switch, half of the switches go in each direction.
    let there_and_back = |size: u32| {
        let both: [f64; 2] = LEVELS.map(|level| cost(level, size, true));
        let alone: [f64; 2] = [0, 1].map(|level: usize| {
            let row: &Vec<f64> = &write_ms[level];
            row[size as usize - 1]
        });
        (both[0] + both[1] - alone[0] - alone[1]).max(0.0)
    };
    let [share_there, share_back] = shares(f64::from(chunks));
    let switch_ms = [there_and_back(1) * share_there, there_and_back(chunks) * share_back];
    Ok(Score { outstanding: load.outstanding, write_ms, switch_ms })
}

/// Of the chunks moved by a switch to copies and back, returns the shares moved by the switch to
/// copies, after writes of one chunk, and by the switch back, after writes of a whole unit.
///
/// A switch to copies writes two more copies of each chunk. It reads nothing, because the write
/// before it has read the other chunks for the parities, or has written all of them. A switch back
/// writes two parities and reads the chunks that were not just written.
fn shares(chunks: f64) -> [f64; 2] {
    let (there, parities) = (2.0 * chunks, 2.0);
    [there / (there + chunks - 1.0 + parities), parities / (there + parities)]
}

/// Simulates the load at `level`, and returns the milliseconds per write.
fn measured(
    devices: &[&OpenDevice],
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
            array.adapting(Always, [(); 2].map(|()| Costs::paper_hdd()), first, LEVELS.to_vec())
        }
        false => array,
    };
    let noop = |device: &&OpenDevice| build("noop", device.model.len_max()).ok();
    let schedulers: Vec<AnyPolicy> = devices.iter().filter_map(noop).collect();
    let mut models: Vec<DeviceModel> = devices.iter().map(|it| it.model.clone()).collect();
    let mut policy = Placed::over(array, schedulers);
    let mut writes = Load {
        ready: load.outstanding.into(),
        left: load.writes,
        now: Nanos::ZERO,
        draws: Xoshiro256PlusPlus::seed_from_u64(load.seed),
        units,
        unit_bytes: geometry.unit_bytes(),
        chunk_bytes: load.chunk_bytes,
        size: chunks,
        chunks: load.chunks.into(),
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
    /// The number of chunks that are written at a time, which is also the number of chunks per
    /// unit.
    size: u32,
    chunks: u32,
}

impl Workload for Load {
    fn peek(&self) -> Option<Nanos> {
        (self.ready > 0 && self.left > 0).then_some(self.now)
    }
    fn take(&mut self) -> Request {
        (self.ready, self.left) = (self.ready - 1, self.left - 1);
        let unit = self.draws.next_u64() % self.units;
        let chunk = self.draws.next_u64() % u64::from(self.chunks - self.size + 1);
        Request {
            at: self.now,
            offset: unit * self.unit_bytes + chunk * u64::from(self.chunk_bytes),
            id: self.left.into(),
            len: self.size * self.chunk_bytes,
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
    use forebay_core::adapt::RAID10;

    use super::*;
    use crate::devices::open;

    fn load(outstanding: u32) -> ArrayLoad {
        ArrayLoad {
            chunk_bytes: 65_536,
            chunks: CHUNKS,
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
        let score = score(&[&disk; 6], load(16)).unwrap();
        let [raid6, mirrors] = &score.write_ms;
        // Copies are faster for one chunk and RAID 6 for whole units; RAID 6 costs about the same
        // for all sizes.
        assert!(mirrors[0] < raid6[0] && raid6[3] < mirrors[3], "{score:?}");
        assert!(mirrors.is_sorted() && raid6[0] / raid6[3] < 1.6, "{score:?}");
        assert!(score.switch_ms[0] > score.switch_ms[1] && score.switch_ms[1] > 0.0, "{score:?}");
        let alone = super::score(&[&disk; 6], load(1)).unwrap();
        assert!(alone.write_ms[1][0] > mirrors[0], "more at a time cost less each");
    }

    #[test]
    fn too_few_drives_are_refused() {
        let disk = open("st1000nm0011:plain").unwrap();
        let said = score(&[&disk; 5], load(1)).unwrap_err().to_string();
        assert!(said.contains("got 5 drives"), "{said}");
    }

    /// In an array of such disks that writes to fresh cells, with 4 writes outstanding, three
    /// chunks cost ten times as much in RAID 6 as in three copies, though they cost less in the
    /// paper's table.
    #[test]
    fn rules_know_the_drives_and_how_a_volume_writes() {
        let costs = |name: &str, update| {
            let device = open(name).unwrap();
            drive_costs(&[&device; 6], 65_536, 4, update).unwrap()
        };
        let disk = costs("st1000nm0011", Update::Fresh);
        let [raid6, copies] = disk.writes.map(|row| row[2]);
        assert!(raid6 > 3_000_000 && copies < 1_000_000, "{disk:?}");
        let prefers_copies = |costs: &Costs| -> Vec<bool> {
            (1..=4).map(|chunks| costs.cheapest(costs.class(Op::Write, chunks)) == RAID10).collect()
        };
        assert!(!prefers_copies(&Costs::paper_hdd())[2]);
        assert!(prefers_copies(&disk.costs().unwrap())[2], "{disk:?}");
        let flash = costs("samsung-830", Update::Fresh).costs().unwrap();
        assert_eq!(prefers_copies(&flash), [true, true, true, false], "{flash:?}");
        assert_eq!(prefers_copies(&Costs::paper_ssd()), [true, true, false, false]);
    }

    #[test]
    fn drives_that_cannot_form_both_levels_have_no_costs() {
        let disk = open("fixed:300").unwrap();
        assert_eq!(drive_costs(&[&disk; 5], 65_536, 4, Update::Fresh), None);
        assert_eq!(drive_costs(&[&disk; 8], 65_536, 6, Update::Fresh), None);
        let costs = drive_costs(&[&disk; 7], 65_536, 5, Update::Fresh).unwrap();
        assert!(costs.writes.iter().flatten().all(|cost| *cost > 0), "{costs:?}");
    }
}
