//! The memory of named buffers, which implements a driver's [`Slots`](forebay_core::Slots).
//!
//! A buffer lives while it is held; then its memory is reused. Names are not reused immediately: a
//! name recurs only after 255 others for the same entry, so that using a released name is detected.
//! In debug builds, a new buffer is filled with 0xEE and a freed one with 0xDD.
//!
//! While a device transfers bytes, they are *lent*. Bytes that a device writes must not be read,
//! and bytes that a device reads must not be changed. As long as addresses passed to the kernel are
//! lent, all safe code remains safe. A pool that is dropped with lent bytes leaks its memory.
//!
//! Breaking these rules panics in every build, because it is a bug in the policy or the driver.
//! Operations on a buffer without content (0) do nothing.
#![allow(unsafe_code)]

mod room;
mod slots;

pub use slots::checksum;

use std::{mem, slice};

use forebay_core::{Buf, Bytes, Piece};

use crate::Memory;
use room::{Place, Room};

/// The number of low bits of a name that contain its entry. The high bits contain how often the
/// entry was used.
const ENTRY_BITS: u32 = 24;

/// The permitted uses of a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BufferKind {
    Held,
    /// The buffer never changes.
    Constant,
    /// The buffer receives data that is not needed.
    Sink,
}

/// Bytes that a device reads or, with `writes`, changes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Loan {
    piece: Piece,
    writes: bool,
}

struct Entry {
    name: Buf,
    holds: u32,
    len: u32,
    kind: BufferKind,
    place: Place,
    /// The parts of the buffer that are lent; the buffer may otherwise only be held.
    loans: Vec<Loan>,
}

/// Buffers in real memory.
pub struct Pool {
    room: Room,
    constants: Vec<Memory>,
    entries: Vec<Entry>,
    /// Entries that are not in use.
    free: Vec<u32>,
    lent: usize,
    live: usize,
    held_bytes: u64,
    peak_bytes: u64,
}

// SAFETY: the pointers in the pool point to memory that it owns, which is not bound to a thread.
unsafe impl Send for Pool {}

impl Pool {
    /// Creates a pool whose first `arena_bytes` are contiguous, so that they can be registered with
    /// the kernel at once. Further buffers, or all buffers if this is 0, are allocated on the heap.
    pub fn new(arena_bytes: usize) -> Pool {
        let mut pool = Pool {
            room: Room::new(arena_bytes),
            constants: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            lent: 0,
            live: 0,
            held_bytes: 0,
            peak_bytes: 0,
        };
        // This is the entry of name 0, which is never held.
        pool.name(0, BufferKind::Held, (std::ptr::null_mut(), false));
        pool.entries[0].holds = 0;
        pool
    }

    /// Returns the address and the length of the arena.
    pub fn arena(&self) -> Option<(*mut u8, usize)> {
        self.room.arena().map(|arena| (arena.address(), arena.len()))
    }

    /// Returns the memory of free buffers to the system, except that of the arena.
    pub fn trim(&mut self) {
        self.room.trim();
    }

    /// Returns the number of held buffers.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Returns the peak memory of held buffers in bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Adds a permanent buffer that never changes: it needs no holds, and any part of it may be
    /// lent for reading at any time.
    pub fn constant(&mut self, memory: Memory) -> Buf {
        let len = u32::try_from(memory.len()).expect("a buffer of less than 4 GiB");
        let place = (memory.address(), false);
        self.constants.push(memory);
        self.name(len, BufferKind::Constant, place)
    }

    /// Adds a permanent buffer of `len` bytes for data that is not needed: any part of it may be
    /// lent for writing, even several times at once, and it can never be read.
    pub fn sink(&mut self, len: u32) -> Buf {
        let place = self.room.take(len);
        self.name(len, BufferKind::Sink, place)
    }

    /// Returns the bytes of a piece.
    ///
    /// # Panics
    /// The buffer is not held or is shorter, or a device writes to these bytes.
    #[track_caller]
    pub fn view(&self, piece: Piece) -> &[u8] {
        let start = self.readable(piece);
        // SAFETY: these are initialized bytes in a live buffer. No device writes to them, and other
        // code needs `&mut` access to the pool, which this borrow prevents.
        unsafe { slice::from_raw_parts(start, piece.len as usize) }
    }

    /// Returns the bytes of a piece for modification.
    ///
    /// # Panics
    /// Panics like [`Pool::view`], and if a device reads these bytes or the buffer is a constant.
    #[track_caller]
    pub fn view_mut(&mut self, piece: Piece) -> &mut [u8] {
        let start = self.writable(piece);
        // SAFETY: as in `view`; no device reads the bytes either, and the pool is borrowed
        // exclusively.
        unsafe { slice::from_raw_parts_mut(start, piece.len as usize) }
    }

    /// Returns the address of a piece for a device, and whether it is in the arena. The bytes stay
    /// there while they are lent, and may be used only then: read, or also written if they are lent
    /// for writing.
    ///
    /// # Panics
    /// The buffer is not held or is shorter.
    #[track_caller]
    pub fn address(&self, piece: Piece) -> (*mut u8, bool) {
        let (start, inside) = self.entry(piece).place;
        (start.wrapping_add(piece.at as usize), inside)
    }

    /// Lends bytes to a device that reads them or, with `writes`, changes them.
    ///
    /// # Panics
    /// Another device changes bytes that this one uses, or uses bytes that this one changes; a
    /// constant would be changed, or a sink read.
    #[track_caller]
    pub fn lend(&mut self, piece: Piece, writes: bool) {
        match (self.entry(piece).kind, writes) {
            (BufferKind::Held, _) => {
                self.nobody_uses(piece, writes);
                self.entries[entry_of(piece.buf)].loans.push(Loan { piece, writes });
            }
            (BufferKind::Constant, false) | (BufferKind::Sink, true) => {}
            (BufferKind::Constant, true) => panic!("buffer {:#x} is constant", piece.buf),
            (BufferKind::Sink, false) => panic!("buffer {:#x} is a sink", piece.buf),
        }
        self.lent += 1;
    }

    /// Ends a loan after the device has finished.
    ///
    /// # Panics
    /// The bytes were not lent.
    #[track_caller]
    pub fn give_back(&mut self, piece: Piece, writes: bool) {
        if self.entry(piece).kind == BufferKind::Held {
            let loans = &mut self.entries[entry_of(piece.buf)].loans;
            let loan = Loan { piece, writes };
            let Some(at) = loans.iter().position(|lent| *lent == loan) else {
                panic!("{} not lent {}", told(piece), if writes { "to change" } else { "to read" });
            };
            loans.swap_remove(at);
        }
        self.lent = self.lent.checked_sub(1).expect("no more is returned than was lent");
    }

    /// Creates the name of a buffer with one hold.
    fn name(&mut self, len: u32, kind: BufferKind, place: Place) -> Buf {
        if let Some(free) = self.free.pop() {
            let entry = &mut self.entries[free as usize];
            (entry.holds, entry.len, entry.kind, entry.place) = (1, len, kind, place);
            return entry.name;
        }
        let name = self.entries.len() as Buf;
        assert!(name < 1 << ENTRY_BITS, "no more than {} buffers", 1 << ENTRY_BITS);
        self.entries.push(Entry { name, holds: 1, len, kind, place, loans: Vec::new() });
        name
    }

    /// Returns the entry of a buffer, which must be held.
    #[track_caller]
    fn held(&self, buf: Buf) -> &Entry {
        match self.entries.get(entry_of(buf)) {
            Some(entry) if entry.name == buf && entry.holds > 0 => entry,
            _ => panic!("buffer {buf:#x} is not held"),
        }
    }

    /// Returns the entry of a buffer, which must be held and contain these bytes.
    #[track_caller]
    fn entry(&self, piece: Piece) -> &Entry {
        let entry = self.held(piece.buf);
        let end = u64::from(piece.at) + u64::from(piece.len);
        assert!(end <= u64::from(entry.len), "{} of {}", told(piece), entry.len);
        entry
    }

    /// Panics if a device uses these bytes in a way that conflicts with reading or, with `writes`,
    /// changing them.
    #[track_caller]
    fn nobody_uses(&self, piece: Piece, writes: bool) {
        let loans = &self.entries[entry_of(piece.buf)].loans;
        if loans.is_empty() {
            return;
        }
        let clash = |loan: &&Loan| (loan.writes || writes) && overlap(loan.piece, piece);
        if let Some(loan) = loans.iter().find(clash) {
            let how = if loan.writes { "changes" } else { "reads" };
            panic!("{} in use: a device {how} {}", told(piece), told(loan.piece));
        }
    }

    #[track_caller]
    fn readable(&self, piece: Piece) -> *const u8 {
        let entry = self.entry(piece);
        assert!(entry.kind != BufferKind::Sink, "buffer {:#x} is a sink", piece.buf);
        self.nobody_uses(piece, false);
        entry.place.0.wrapping_add(piece.at as usize)
    }

    #[track_caller]
    fn writable(&self, piece: Piece) -> *mut u8 {
        let entry = self.entry(piece);
        assert!(entry.kind == BufferKind::Held, "buffer {:#x} is constant or a sink", piece.buf);
        self.nobody_uses(piece, true);
        entry.place.0.wrapping_add(piece.at as usize)
    }

    /// Returns up to two blocks of `len` bytes for writing, and stores the blocks to read at the
    /// same time in `sources`. If a block has no content, returns `None` and does not change
    /// `sources`.
    #[track_caller]
    fn apart<'a>(
        &'a mut self,
        len: u32,
        from: impl Iterator<Item = Option<Bytes>> + Clone,
        sources: &mut [&'a [u8]],
        to: impl Iterator<Item = Bytes> + Clone,
    ) -> Option<[&'a mut [u8]; 2]> {
        if from.clone().flatten().chain(to.clone()).any(|bytes| bytes.buf == 0) {
            return None;
        }
        for (nth, written) in to.clone().enumerate() {
            let others = from.clone().flatten().chain(to.clone().skip(nth + 1));
            for other in others.map(|other| other.len(len)) {
                let written = written.len(len);
                let apart = !overlap(written, other);
                assert!(apart, "{} written over {}", told(written), told(other));
            }
        }
        for (source, bytes) in sources.iter_mut().zip(from) {
            let Some(bytes) = bytes else { continue };
            let start = self.readable(bytes.len(len));
            // SAFETY: as in `view`; moreover, nothing written here overlaps the block.
            *source = unsafe { slice::from_raw_parts(start, len as usize) };
        }
        let mut targets = [[].as_mut_slice(), [].as_mut_slice()];
        for (target, bytes) in targets.iter_mut().zip(to) {
            let start = self.writable(bytes.len(len));
            // SAFETY: as in `view_mut`; moreover, nothing else read or written here overlaps the
            // block.
            *target = unsafe { slice::from_raw_parts_mut(start, len as usize) };
        }
        Some(targets)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.lent > 0 {
            // A device may still use the memory.
            mem::forget((mem::take(&mut self.room), mem::take(&mut self.constants)));
        }
    }
}

/// Returns the index of a buffer's entry in its pool. Buffers held at the same time have different
/// indices, and indices are small.
pub fn entry_of(buf: Buf) -> usize {
    (buf & ((1 << ENTRY_BITS) - 1)) as usize
}

fn overlap(a: Piece, b: Piece) -> bool {
    let ends = |piece: Piece| u64::from(piece.at) + u64::from(piece.len);
    let together = u64::from(a.at.max(b.at)) < ends(a).min(ends(b));
    a.buf == b.buf && together
}

/// Describes a piece for panic messages.
fn told(piece: Piece) -> String {
    let Piece { buf, at, len } = piece;
    format!("bytes {at}..{} of buffer {buf:#x}", u64::from(at) + u64::from(len))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use forebay_core::Slots;

    use super::*;

    /// Returns the panic message of `act`.
    fn refusal(act: impl FnOnce()) -> String {
        let told = catch_unwind(AssertUnwindSafe(act)).expect_err("it panics");
        match told.downcast::<String>() {
            Ok(text) => *text,
            Err(told) => (*told.downcast::<&str>().expect("a message")).into(),
        }
    }

    fn piece(buf: Buf, at: u32, len: u32) -> Piece {
        Piece { buf, at, len }
    }

    #[test]
    fn a_buffer_lives_as_long_as_it_is_held() {
        let mut pool = Pool::new(0);
        let buf = pool.take(8);
        pool.put(piece(buf, 0, 8), b"contents");
        pool.keep(buf);
        pool.free(buf);
        assert_eq!(pool.view(piece(buf, 1, 3)), b"ont");
        assert_eq!((pool.live(), pool.peak_bytes()), (1, 4096));
        pool.free(buf);
        assert_eq!(pool.live(), 0);
        let told = format!("buffer {buf:#x} is not held");
        assert_eq!(refusal(|| pool.free(buf)), told);
        assert_eq!(refusal(|| pool.keep(buf)), told);
        assert_eq!(refusal(|| drop(pool.view(piece(buf, 0, 1)).to_vec())), told);
        let again = pool.take(8);
        assert_eq!(refusal(|| pool.view_mut(piece(0, 0, 0)).fill(0)), "buffer 0x0 is not held");
        assert_ne!(again, buf, "the same memory has another name");
        assert_eq!(refusal(|| pool.free(buf)), told);
        assert_eq!(pool.live(), 1);
    }

    #[test]
    fn ranges_end_within_their_buffers() {
        let mut pool = Pool::new(0);
        let buf = pool.take(8);
        assert_eq!(pool.view(piece(buf, 8, 0)), b"");
        let told = format!("bytes 4..9 of buffer {buf:#x} of 8");
        assert_eq!(refusal(|| pool.zero(piece(buf, 4, 5))), told);
        assert_eq!(refusal(|| assert!(pool.address(piece(buf, 4, 5)).1)), told);
        assert!(refusal(|| pool.zero(piece(buf, u32::MAX, u32::MAX))).contains("of 8"));
    }

    #[test]
    fn device_writes_are_isolated_and_memory_being_read_is_immutable() {
        let mut pool = Pool::new(0);
        let buf = pool.take(100);
        let (changed, read) = (piece(buf, 10, 10), piece(buf, 40, 10));
        pool.lend(changed, true);
        pool.lend(read, false);
        pool.lend(read, false);
        for apart in [piece(buf, 0, 10), piece(buf, 20, 20), piece(buf, 15, 0)] {
            pool.zero(apart);
        }
        assert_eq!(pool.view(piece(buf, 35, 20)).len(), 20, "reading beside reading");
        for at in [piece(buf, 0, 11), piece(buf, 19, 1), piece(buf, 12, 2), piece(buf, 0, 100)] {
            let told = refusal(|| drop(pool.view(at).to_vec()));
            assert!(told.ends_with(&format!("a device changes bytes 10..20 of buffer {buf:#x}")));
            assert!(!refusal(|| pool.zero(at)).is_empty());
            assert!(!refusal(|| pool.lend(at, false)).is_empty());
            assert!(!refusal(|| pool.lend(at, true)).is_empty());
        }
        let told = refusal(|| pool.zero(piece(buf, 49, 2)));
        assert!(told.ends_with(&format!("a device reads bytes 40..50 of buffer {buf:#x}")));
        assert!(!refusal(|| pool.lend(piece(buf, 40, 1), true)).is_empty());
        pool.give_back(read, false);
        assert!(!refusal(|| pool.zero(read)).is_empty(), "lent once more");
        assert!(refusal(|| pool.free(buf)).contains("freed while a device uses it"));
        pool.give_back(read, false);
        assert!(refusal(|| pool.give_back(read, false)).ends_with("not lent to read"));
        assert!(refusal(|| pool.give_back(changed, false)).ends_with("not lent to read"));
        pool.give_back(changed, true);
        pool.zero(piece(buf, 0, 100));
        pool.free(buf);
    }

    #[test]
    fn constants_never_change_and_sinks_are_never_seen() {
        let mut pool = Pool::new(0);
        let mut memory = Memory::zeroed(8);
        memory.bytes_mut().copy_from_slice(b"constant");
        let (constant, sink) = (pool.constant(memory), pool.sink(5000));
        pool.keep(constant);
        for _ in 0..3 {
            pool.free(constant);
        }
        assert_eq!(pool.view(piece(constant, 3, 5)), b"stant");
        assert_eq!(pool.live(), 0);
        for _ in 0..2 {
            pool.lend(piece(constant, 0, 8), false);
            pool.lend(piece(sink, 0, 5000), true);
        }
        assert!(refusal(|| pool.zero(piece(constant, 0, 1))).contains("is constant"));
        assert!(refusal(|| pool.lend(piece(constant, 0, 1), true)).contains("is constant"));
        assert!(refusal(|| drop(pool.view(piece(sink, 0, 1)).to_vec())).contains("is a sink"));
        assert!(refusal(|| pool.lend(piece(sink, 0, 1), false)).contains("is a sink"));
        assert_eq!(pool.lent, 4);
        for _ in 0..2 {
            pool.give_back(piece(constant, 0, 8), false);
            pool.give_back(piece(sink, 0, 5000), true);
        }
        assert!(!refusal(|| pool.give_back(piece(sink, 0, 1), true)).is_empty());
    }

    #[test]
    fn addresses_are_those_of_the_content() {
        let mut pool = Pool::new(1 << 20);
        let (inside, outside) = (pool.take(1 << 20), pool.take(4096));
        let (start, len) = pool.arena().expect("an arena");
        assert_eq!(len, 1 << 20);
        assert_eq!(pool.address(piece(inside, 512, 1)), (start.wrapping_add(512), true));
        assert!(!pool.address(piece(outside, 0, 1)).1);
        let lent = piece(inside, 512, 4);
        pool.lend(lent, true);
        let (address, _) = pool.address(lent);
        // SAFETY: the bytes are lent for writing.
        unsafe { std::ptr::copy_nonoverlapping(b"read".as_ptr(), address, 4) };
        pool.give_back(lent, true);
        assert_eq!(pool.view(lent), b"read");
        assert!(Pool::new(0).arena().is_none());
    }

    #[test]
    fn a_warm_pool_allocates_nothing() {
        let mut pool = Pool::new(0);
        let round = |pool: &mut Pool| {
            let bufs: Vec<Buf> = (0..20).map(|nth| pool.take(3000 * nth)).collect();
            let starts = bufs.iter().map(|buf| pool.address(piece(*buf, 0, 0)).0 as usize);
            let mut starts: Vec<usize> = starts.collect();
            bufs.iter().for_each(|buf| pool.free(*buf));
            starts.sort_unstable();
            starts
        };
        let first = round(&mut pool);
        for _ in 0..3 {
            assert_eq!(round(&mut pool), first);
        }
        assert_eq!((pool.entries.len(), pool.live()), (21, 0));
    }

    #[test]
    fn memory_that_is_lent_survives_the_pool() {
        let mut pool = Pool::new(64 << 20);
        let buf = pool.take(1 << 20);
        pool.lend(piece(buf, 0, 1), true);
        let (address, _) = pool.address(piece(buf, 0, 1));
        drop(pool);
        // SAFETY: the bytes are lent, so a device could still write to them. If the memory had been
        // freed, such a large block would have been unmapped.
        unsafe { address.write_volatile(1) };
    }
}
