//! A drive model whose data are spread over the whole drive, as a file system would spread them.
//!
//! Simulated layouts pack data at the start of a drive, which on a disk is the fast outer edge,
//! where arms hardly have to move. This module divides the data into pieces and places these at
//! equal distances over the whole drive, like the block groups of a file system. Drives without an
//! arm are left unchanged.

use forebay_core::{Completion, Device, DeviceModel, Nanos, Request};

/// The size of a piece is a multiple of this many bytes.
const GRAIN_BYTES: u64 = 1 << 20;
/// The maximum size of a piece in bytes, which is that of a block group of ext4.
const PIECE_MAX_BYTES: u64 = 128 << 20;
/// The minimum number of pieces, unless there is too little data for one grain per piece.
const PIECES: u64 = 64;

/// A drive with its data spread over the whole drive.
#[derive(Clone)]
pub(super) struct Spread {
    model: DeviceModel,
    piece_bytes: u64,
    /// The distance between the starts of two adjacent pieces; equal to `piece_bytes` if data are
    /// not spread.
    apart_bytes: u64,
}

impl Spread {
    /// Spreads data that would end at `data_bytes` over all of `model`.
    pub(super) fn new(model: DeviceModel, data_bytes: u64) -> Spread {
        let capacity = model.capacity();
        let piece_bytes =
            (data_bytes / PIECES / GRAIN_BYTES * GRAIN_BYTES).clamp(GRAIN_BYTES, PIECE_MAX_BYTES);
        let pieces = data_bytes.div_ceil(piece_bytes).max(1);
        let apart_bytes = match model.cylinders() {
            0 => piece_bytes,
            _ => (capacity / pieces / GRAIN_BYTES * GRAIN_BYTES).max(piece_bytes),
        };
        Spread { model, piece_bytes, apart_bytes }
    }

    fn placed(&self, io: Request) -> Request {
        if self.apart_bytes == self.piece_bytes {
            return io;
        }
        let (piece, within) = (io.offset / self.piece_bytes, io.offset % self.piece_bytes);
        let offset = piece.saturating_mul(self.apart_bytes).saturating_add(within);
        let last = self.model.capacity().saturating_sub(u64::from(io.len));
        Request { offset: offset.min(last), ..io }
    }

    fn asked(&self, io: Request) -> Request {
        if self.apart_bytes == self.piece_bytes {
            return io;
        }
        let (piece, within) = (io.offset / self.apart_bytes, io.offset % self.apart_bytes);
        Request { offset: piece * self.piece_bytes + within, ..io }
    }
}

impl Device for Spread {
    fn room(&self) -> bool {
        self.model.room()
    }
    fn start(&mut self, now: Nanos, io: Request) {
        self.model.start(now, self.placed(io));
    }
    fn next(&self) -> Option<Nanos> {
        self.model.next()
    }
    fn finish(&mut self, now: Nanos) -> Completion {
        let done = self.model.finish(now);
        Completion { io: self.asked(done.io), ..done }
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
    fn cylinders(&self) -> u32 {
        self.model.cylinders()
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
    use crate::devices;
    use forebay_core::{Flags, Op};

    #[test]
    fn pieces_lie_over_the_whole_disk_and_an_io_comes_back_as_it_was_started() {
        let model = devices::open("hc550").unwrap().model;
        let (capacity, data) = (model.capacity(), 10u64 << 30);
        let mut spread = Spread::new(model, data);
        let io = |offset| Request {
            at: Nanos::ZERO,
            offset,
            id: 1,
            len: 4096,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        let places: Vec<u64> =
            (0..80).map(|piece| spread.placed(io(piece * (128 << 20) + 8192)).offset).collect();
        assert_eq!(places[0], 8192);
        assert!(places[79] > capacity / 80 * 78, "{places:?}");
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] == places[1] - 8192));
        for offset in [0, 4096, data - 4096, (128 << 20) - 512] {
            spread.start(Nanos::ZERO, io(offset));
            let at = spread.next().unwrap();
            assert_eq!(spread.finish(at).io, io(offset));
            spread = Spread::new(spread.model.without_content(), data);
        }
    }

    #[test]
    fn flash_and_full_disks_are_left_as_they_are() {
        let ssd = devices::open("samsung-830").unwrap().model;
        let disk = devices::open("sata250:plain").unwrap().model;
        let full = disk.capacity();
        for (model, data) in [(ssd, 1 << 30), (disk, full)] {
            let spread = Spread::new(model, data);
            assert_eq!(spread.apart_bytes, spread.piece_bytes);
        }
    }
}
