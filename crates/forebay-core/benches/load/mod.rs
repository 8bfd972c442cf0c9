//! The loads for benchmarks of the simulator: disks, and streams that keep their queues filled.

#![allow(dead_code, clippy::unwrap_used)] // the bench and the test each use a part

use std::collections::VecDeque;

use forebay_core::device::drive::{
    Admits, BufferSpec, Bus, Controller, Drive, DriveSpec, QueueSpec, ReadAhead, WriteCacheSpec,
};
use forebay_core::device::hdd::{
    Hdd, HddSpec, KNEE_SHARE, LEN_MAX, Layout, Power, SeekSpec, zones,
};
use forebay_core::device::ssd;
use forebay_core::device::ssd::{Ceiling, Collection, Precondition, Ssd, SsdSpec};
use forebay_core::{Done, Flags, Nanos, Op, Request, Slots, Workload};

/// The number of streams, each with one request outstanding.
pub(crate) const STREAMS: u32 = 100;
/// The size in bytes of the area that each stream uses.
const AREA: u64 = 8 << 30;
/// The number of requests in a sequential run.
const RUN: u64 = 64;

/// Returns the disk of `devices/st1000nm0011.toml`.
pub(crate) fn disk() -> Hdd {
    Hdd::new(disk_spec()).unwrap()
}

/// Returns the same disk as it is sold: with its queue, buffer and write cache.
pub(crate) fn drive() -> Drive {
    let ns = 1700.0;
    let buffer = BufferSpec {
        segments: 16,
        segment_sectors: 4096,
        read_ahead: ReadAhead::Limit,
        read_ahead_sectors: 4096,
        hits_on_written: true,
        almost_hits: true,
        read_ahead_replaces: false,
        read_ahead_on_hit: true,
        read_before: false,
        stop_in_sector: false,
        watermark_share: 0.0,
    };
    let cache = WriteCacheSpec {
        extents: 64,
        extent_sectors: 1024,
        sectors: 65536,
        admits: Admits::Oldest,
    };
    let controller = Controller {
        bus: Bus { read_ns_per_sector: ns, write_ns_per_sector: ns },
        buffer: Some(buffer),
        write_cache: Some(cache),
        queue: QueueSpec { depth: 32, ..QueueSpec::default() },
        ..Controller::default()
    };
    Drive::new(&DriveSpec { disk: disk_spec(), format: None, controller }).unwrap()
}

fn disk_spec() -> HddSpec {
    let revolution = Nanos::from_secs_f64(60.0 / 7200.0);
    let switch = Nanos::from_millis(1);
    let layout = Layout {
        capacity_bytes: 1_000_204_886_016,
        heads: 4,
        revolution,
        head_switch: switch,
        cylinder_switch: switch,
        outer_bytes_per_s: 150e6,
        inner_bytes_per_s: 71e6,
        zones: 24,
    };
    let seek = SeekSpec::Datasheet {
        track_to_track: Nanos::from_millis_f64(0.8),
        average: Nanos::from_millis_f64(8.5),
        full_stroke: Nanos::from_millis(17),
        knee_share: KNEE_SHARE,
    };
    HddSpec {
        heads: 4,
        zones: zones(&layout).unwrap(),
        revolution,
        start_phase: Nanos::ZERO,
        seek,
        write_settle: Nanos::from_millis(1),
        head_switch: switch,
        cylinder_switch: switch,
        track_skew: None,
        cylinder_skew: None,
        overhead: Nanos::from_millis_f64(0.1),
        len_max: LEN_MAX,
        power: Power { idle_w: 6.0, seek_w: 10.0, transfer_w: 8.0, standby: None },
    }
}

/// Returns an SSD like `devices/samsung-830.toml`, with a capacity of 64 GB.
pub(crate) fn ssd() -> Ssd {
    Ssd::new(SsdSpec {
        capacity_bytes: 64_000_000_000,
        page_bytes: 4096,
        program_pages: 2,
        pages_per_block: 256,
        channels: 8,
        dies_per_channel: 8,
        over_provisioning_share: 0.0734,
        read: Nanos::from_micros(60).into(),
        program: Nanos::from_micros(1300),
        erase: Nanos::from_millis(3),
        channel_bytes_per_s: 133_000_000,
        link_bytes_per_s: 520_000_000,
        duplex: false,
        command: Nanos(12_500),
        write_command: Nanos(12_500),
        ceiling: Ceiling::Arrival,
        write_ceiling: Ceiling::Arrival,
        entrance: None,
        overhead: Nanos::from_micros(20),
        write_buffer_bytes: 16 << 20,
        read_cache_bytes: 0,
        power_loss_protection: false,
        queue_depth: 32,
        collection: Collection::Greedy,
        precondition: Precondition::default(),
        len_max: 1 << 20,
        power: ssd::Power { idle_w: 0.3, read_w: 2.5, write_w: 5.0 },
    })
    .unwrap()
}

/// Returns the next pseudo-random number.
#[inline]
pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 29)
}

/// A closed load: each stream issues its next request as soon as the previous one completes. Of
/// every ten streams, five read and two write sequential runs of 64 KiB requests, and three read or
/// write at random.
pub(crate) struct Streams {
    due: VecDeque<Request>,
    next_offset: Vec<u64>,
    left: u64,
    id: u64,
    state: u64,
}

impl Streams {
    /// Creates streams that issue `requests` requests in total.
    pub(crate) fn new(requests: u64) -> Streams {
        let mut streams = Streams {
            due: VecDeque::with_capacity(2 * STREAMS as usize),
            next_offset: vec![0; STREAMS as usize],
            left: requests,
            id: 0,
            state: 1,
        };
        (0..STREAMS).for_each(|stream| streams.ask(Nanos::ZERO, stream));
        streams
    }

    #[inline]
    fn ask(&mut self, at: Nanos, stream: u32) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.id += 1;
        let dice = random(&mut self.state);
        let area = u64::from(stream) * AREA;
        let kind = stream % 10;
        let next = &mut self.next_offset[stream as usize];
        let (offset, len) = if kind < 7 {
            if dice.is_multiple_of(RUN) {
                *next = ((dice >> 32) % (AREA >> 16)) << 16;
            }
            (*next, 65_536)
        } else {
            (((dice >> 32) % (AREA >> 12)) << 12, 4096)
        };
        *next = (offset + u64::from(len)) % AREA;
        let op = if kind == 5 || kind == 6 || kind == 9 { Op::Write } else { Op::Read };
        let (lane, flags, id) = (0, Flags::NONE, self.id);
        self.due.push_back(Request { at, offset: area + offset, id, len, stream, lane, op, flags });
    }
}

impl Workload for Streams {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        self.due.front().map(|request| request.at)
    }

    #[inline]
    fn take(&mut self) -> Request {
        self.due.pop_front().unwrap()
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.ask(now, done.request.stream);
    }
}

/// A closed load of random 4 KiB requests, of which 70 % are reads, with 64 outstanding.
pub(crate) struct Small {
    due: VecDeque<Request>,
    left: u64,
    state: u64,
}

impl Small {
    /// Creates a load of `requests` requests in total.
    pub(crate) fn new(requests: u64) -> Small {
        let mut small = Small { due: VecDeque::with_capacity(128), left: requests, state: 1 };
        (0..64).for_each(|stream| small.ask(Nanos::ZERO, stream));
        small
    }

    #[inline]
    fn ask(&mut self, at: Nanos, stream: u32) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let dice = random(&mut self.state);
        let op = if dice % 10 < 7 { Op::Read } else { Op::Write };
        let offset = ((dice >> 32) % (60_000_000_000 >> 12)) << 12;
        let (lane, flags, id, len) = (0, Flags::NONE, self.left, 4096);
        self.due.push_back(Request { at, offset, id, len, stream, lane, op, flags });
    }
}

impl Workload for Small {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        self.due.front().map(|request| request.at)
    }

    #[inline]
    fn take(&mut self) -> Request {
        self.due.pop_front().unwrap()
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.ask(now, done.request.stream);
    }
}
