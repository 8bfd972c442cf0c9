//! Encodes a record of 48 bytes, little-endian, with the layout of the kernel's `struct
//! blk_io_trace`.

use forebay_core::{Flags, Nanos, Op};

use crate::formats::events::Category;

/// The magic number: `0x656174` followed by the version, 7.
const MAGIC: u32 = 0x6561_7407;
/// The number of bytes for a thread's name, including the final zero.
const NAME_BYTES: usize = 16;

/// An action: its number and its category in the kernel.
pub(super) type Action = (u16, u16);

pub(super) const QUEUE: Action = (1, 1 << 4);
pub(super) const GET_REQUEST: Action = (4, 1 << 4);
pub(super) const ISSUE: Action = (7, 1 << 6);
pub(super) const COMPLETE: Action = (8, 1 << 7);
pub(super) const INSERT: Action = (12, 1 << 4);

/// An event of a request.
pub(super) struct Event {
    pub(super) at: Nanos,
    pub(super) sector: u64,
    pub(super) bytes: u32,
    pub(super) action: Action,
    pub(super) categories: u16,
    pub(super) pid: u32,
    /// The device: the major number << 20 | the minor number.
    pub(super) device: u32,
}

/// Returns the categories of a request.
pub(super) fn categories(op: Op, flags: Flags) -> u16 {
    let of_op = match op {
        Op::Read => Category::READ,
        Op::Write => Category::WRITE,
        Op::Trim => Category::WRITE.with(Category::DISCARD),
        Op::Flush | Op::Park | Op::Open => Category::WRITE.with(Category::FLUSH),
    };
    let pairs = [
        (Flags::SYNC, Category::SYNC),
        (Flags::FUA, Category::FUA),
        (Flags::META, Category::META),
        (Flags::READAHEAD, Category::AHEAD),
        (Flags::PREFLUSH, Category::FLUSH),
    ];
    let carried = pairs.iter().filter(|(flag, _)| flags.has(*flag));
    carried.fold(of_op, |all, &(_, category)| all.with(category)).0
}

impl Event {
    /// Encodes the event as a record.
    pub(super) fn bytes(&self, sequence: u32) -> [u8; 48] {
        let (kind, filed) = self.action;
        let action = u32::from(self.categories | filed) << 16 | u32::from(kind);
        let mut bytes = [0; 48];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC.to_le_bytes());
        put(4, &sequence.to_le_bytes());
        put(8, &self.at.0.to_le_bytes());
        put(16, &self.sector.to_le_bytes());
        put(24, &self.bytes.to_le_bytes());
        put(28, &action.to_le_bytes());
        put(32, &self.pid.to_le_bytes());
        put(36, &self.device.to_le_bytes());
        bytes
    }

    /// Encodes a record that states the name of a thread, and its payload. It has no sequence
    /// number.
    pub(super) fn name(at: Nanos, pid: u32, device: u32, name: &str) -> [u8; 48 + NAME_BYTES] {
        let notify = (0, Category::NOTIFY.0);
        let note = Event { at, sector: 0, bytes: 0, action: notify, categories: 0, pid, device };
        let mut bytes = [0; 48 + NAME_BYTES];
        bytes[..48].copy_from_slice(&note.bytes(0));
        bytes[46..48].copy_from_slice(&(NAME_BYTES as u16).to_le_bytes());
        let name = fitting(name).as_bytes();
        bytes[48..48 + name.len()].copy_from_slice(name);
        bytes
    }
}

/// Truncates a name to the length that fits into a record.
pub(super) fn fitting(name: &str) -> &str {
    let name = name.split('\0').next().unwrap_or_default();
    let mut end = name.len().min(NAME_BYTES - 1);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
