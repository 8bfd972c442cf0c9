//! Measures the peak rates of one drive as Linux's `io.cost.model` requires them: bytes per second
//! of sequential I/O, and I/Os per second of sequential and of random 4 KiB I/O, for reads and for
//! writes, at the queue depth that the drive accepts. A disk gets sequential reads one at a time,
//! because it reads ahead by itself. Flash has no such figures: a model that was never written to
//! is faster than a real drive is in the long run.

use forebay_core::{Device, DeviceModel, Flags, Nanos, Op, Request};

/// The peak rates of a drive for reads and for writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    pub(super) read: Direction,
    pub(super) write: Direction,
}

/// The peak rates of reads, or of writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction {
    pub(super) bytes_per_s: u64,
    pub(super) sequential_iops: u64,
    pub(super) random_iops: u64,
}

const SMALL: u32 = 4096;
const LARGE: u32 = 1 << 20;
/// The maximum queue depth to use.
const DEPTH: usize = 32;

impl Speed {
    /// Measures a disk or a constant-rate server; returns `None` for flash.
    pub(super) fn of(model: &DeviceModel) -> Option<Speed> {
        if matches!(model, DeviceModel::Ssd(_)) {
            return None;
        }
        let direction = |op| Direction {
            bytes_per_s: (rate(model, op, LARGE, false) * f64::from(large(model))) as u64,
            sequential_iops: rate(model, op, SMALL, false) as u64,
            random_iops: rate(model, op, SMALL, true) as u64,
        };
        Some(Speed { read: direction(Op::Read), write: direction(Op::Write) })
    }
}

fn large(model: &DeviceModel) -> u32 {
    LARGE.min(model.len_max())
}

/// Returns the rate in I/Os per second, after enough I/Os to fill the drive's buffer.
fn rate(model: &DeviceModel, op: Op, len: u32, at_random: bool) -> f64 {
    let (mut device, len) = (model.clone(), len.min(model.len_max()));
    let ios: u64 = if len <= SMALL { 20_000 } else { 2_000 };
    let blocks = (device.capacity() / u64::from(len)).max(1);
    let (mut now, mut state, mut under_way, mut halfway) = (Nanos::ZERO, 1u64, 0, Nanos::ZERO);
    let reads_ahead = op == Op::Read && !at_random && device.cylinders() > 0;
    let depth = if reads_ahead { 1 } else { DEPTH };
    let (mut begun, mut ended) = (0u64, 0u64);
    while ended < ios {
        while begun < ios && under_way < depth && device.room() {
            // Marsaglia's xorshift64, so that every run has the same I/Os.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let block = if at_random { state } else { begun } % blocks;
            let offset = block * u64::from(len);
            let flags = Flags::NONE;
            device.start(
                now,
                Request { at: now, offset, id: begun, len, stream: 0, lane: 0, op, flags },
            );
            (begun, under_way) = (begun + 1, under_way + 1);
        }
        let Some(at) = device.next() else { break };
        now = at;
        device.finish(now);
        (ended, under_way) = (ended + 1, under_way - 1);
        if ended == ios / 2 {
            halfway = now;
        }
    }
    (ios - ios / 2) as f64 / (now - halfway).as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices;

    #[test]
    fn a_server_of_constant_rate_has_that_rate_and_a_disk_seeks() {
        let fixed = Speed::of(&devices::open("fixed:500").unwrap().model).unwrap();
        for iops in [fixed.read.sequential_iops, fixed.read.random_iops, fixed.write.random_iops] {
            assert!((499..=500).contains(&iops), "{fixed:?}");
        }
        let disk = Speed::of(&devices::open("hc550").unwrap().model).unwrap();
        let mb_per_s = disk.read.bytes_per_s / 1_000_000;
        assert!((230..=275).contains(&mb_per_s), "{disk:?}");
        let mb_per_s = disk.write.bytes_per_s / 1_000_000;
        assert!((220..=275).contains(&mb_per_s), "{disk:?}");
        assert!((100..400).contains(&disk.read.random_iops), "{disk:?}");
        assert!(disk.read.sequential_iops > 20 * disk.read.random_iops, "{disk:?}");
        assert!(Speed::of(&devices::open("d7-p5520").unwrap().model).is_none());
    }
}
