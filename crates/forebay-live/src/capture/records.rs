//! Parses the kernel's trace records, `struct blk_io_trace` of version 7, from a stream of bytes.
//!
//! A record is 48 bytes in the machine's byte order (linux/blktrace_api.h), followed by a payload.
//! The `blk` tracer's stream also contains lines of text (`CPU:0 [LOST 12 EVENTS]`) where events
//! were lost; these are skipped. Anything else that is not a record is skipped and counted.

/// The size of a record without its payload, in bytes.
pub(crate) const HEAD: usize = 48;
/// The magic number `0x656174`, followed by the version.
const MAGIC: u32 = 0x6561_7407;
/// The maximum length of a line of text in bytes.
const LINE_MAX: usize = 64;
/// The bytes with which a line of text begins.
const LINE: &[u8] = b"CPU:";

/// Category bits, in the upper half of the action.
const WRITE: u32 = 1 << 17;
const NOTIFY: u32 = 1 << 26;

/// A record with its payload.
pub(crate) struct Record<'a>(&'a mut [u8]);

/// The kind of a record, as far as it is relevant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A request was queued (Q).
    Queued { write: bool },
    /// A request was issued to the driver (D) or completed (C), or a thread is named.
    Other,
    /// A record that a trace of requests does not need.
    Needless,
}

impl Record<'_> {
    fn u32(&self, at: usize) -> u32 {
        self.0[at..].first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    pub(crate) fn kind(&self) -> RecordKind {
        let action = self.u32(28);
        // Bit 8 means that the payload names a control group.
        match action & 0xfeff {
            0 if action & NOTIFY != 0 => RecordKind::Other,
            _ if action & NOTIFY != 0 => RecordKind::Needless,
            1 => RecordKind::Queued { write: action & WRITE != 0 },
            7 | 8 => RecordKind::Other,
            _ => RecordKind::Needless,
        }
    }

    pub(crate) fn len_bytes(&self) -> u32 {
        self.u32(24)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.u32(32)
    }

    /// Sets the sequence number of the record.
    pub(crate) fn number(&mut self, sequence: u32) {
        self.0[4..8].copy_from_slice(&sequence.to_ne_bytes());
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0
    }

    /// Creates the record that precedes this one and names its thread.
    pub(crate) fn naming(&self, name: &str) -> [u8; HEAD + 16] {
        let mut bytes = [0; HEAD + 16];
        bytes[..HEAD].copy_from_slice(&self.0[..HEAD]);
        bytes[16..28].fill(0);
        bytes[28..32].copy_from_slice(&NOTIFY.to_ne_bytes());
        bytes[44..46].fill(0);
        bytes[46..48].copy_from_slice(&16u16.to_ne_bytes());
        let name = &name.as_bytes()[..name.len().min(15)];
        bytes[HEAD..HEAD + name.len()].copy_from_slice(name);
        bytes
    }
}

/// Splits a stream of bytes into records.
#[derive(Default)]
pub(crate) struct Records {
    /// The beginning of a record that is still incomplete.
    pending: Vec<u8>,
    /// The number of bytes that belong to no record and no line.
    pub(crate) foreign_bytes: u64,
}

/// The item at the start of the remaining bytes.
enum Part {
    Record(usize),
    Line(usize),
    Foreign,
    Unfinished,
}

impl Records {
    /// Adds bytes, and passes every complete record to `each`.
    pub(crate) fn add<E>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        while at < self.pending.len() {
            match part(&self.pending[at..]) {
                Part::Record(len) => {
                    each(Record(&mut self.pending[at..at + len]))?;
                    at += len;
                }
                Part::Line(len) => at += len,
                Part::Foreign => {
                    self.foreign_bytes += 1;
                    at += 1;
                }
                Part::Unfinished => break,
            }
        }
        self.pending.drain(..at);
        Ok(())
    }

    /// Returns the number of bytes in an incomplete record.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }
}

fn part(bytes: &[u8]) -> Part {
    let magic = MAGIC.to_ne_bytes();
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(a, b)| a == b);
    if begins(&magic) {
        let Some(payload) = bytes.get(HEAD - 2..HEAD) else { return Part::Unfinished };
        let len = HEAD + usize::from(u16::from_ne_bytes([payload[0], payload[1]]));
        return if bytes.len() < len { Part::Unfinished } else { Part::Record(len) };
    }
    if begins(LINE) {
        let end = bytes.iter().take(LINE_MAX).position(|&byte| byte == b'\n');
        return match end {
            Some(end) => Part::Line(end + 1),
            None if bytes.len() < LINE_MAX => Part::Unfinished,
            None => Part::Foreign,
        };
    }
    Part::Foreign
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a record of thread 77 on CPU 1 at `time_ns`.
    pub(crate) fn record(action: u32, time_ns: u64, sector: u64, bytes: u32) -> Vec<u8> {
        let mut record = MAGIC.to_ne_bytes().to_vec();
        record.extend(0u32.to_ne_bytes());
        record.extend(time_ns.to_ne_bytes());
        record.extend(sector.to_ne_bytes());
        for word in [bytes, action, 77, 7 << 20, 1] {
            record.extend(word.to_ne_bytes());
        }
        record.extend([0; 4]);
        record
    }

    const QUEUED_READ: u32 = 1 << 16 | 1;

    fn cut(stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, u64) {
        let (mut records, mut found) = (Records::default(), Vec::new());
        for bytes in stream.chunks(piece) {
            let added: Result<(), ()> = records.add(bytes, |record| {
                found.push(record.bytes().to_vec());
                Ok(())
            });
            added.unwrap();
        }
        (found, records.foreign_bytes)
    }

    #[test]
    fn records_are_split_alike_for_any_read_size() {
        let mut with_payload = record(QUEUED_READ, 2, 8, 512);
        with_payload[46..48].copy_from_slice(&3u16.to_ne_bytes());
        with_payload.extend(b"xyz");
        let parts = [record(QUEUED_READ, 1, 0, 512), with_payload, record(8, 3, 0, 512)];
        let lost = b"CPU:1 [LOST 12 EVENTS]\n";
        let stream = [&parts[0], &lost[..], &parts[1], b"??", &lost[..], &parts[2]].concat();
        for piece in 1..stream.len() {
            let (found, foreign_bytes) = cut(&stream, piece);
            assert_eq!(found, parts, "pieces of {piece}");
            assert_eq!(foreign_bytes, 2);
        }
    }

    #[test]
    fn kinds_are_those_of_the_kernel() {
        let kind = |action| Record(&mut record(action, 0, 0, 0)).kind();
        assert_eq!(kind(QUEUED_READ), RecordKind::Queued { write: false });
        assert_eq!(kind(1 << 17 | 1 << 8 | 1), RecordKind::Queued { write: true });
        assert_eq!(kind(1 << 17 | 8), RecordKind::Other);
        assert_eq!(kind(1 << 26), RecordKind::Other);
        assert_eq!(kind(1 << 26 | 2), RecordKind::Needless);
        assert_eq!(kind(1 << 16 | 2), RecordKind::Needless);
    }

    #[test]
    fn each_name_has_a_separate_record() {
        let mut bytes = record(QUEUED_READ, 9, 5, 512);
        let naming = Record(&mut bytes).naming("a name longer than the kernel's");
        assert_eq!(&naming[HEAD..], b"a name longer t\0");
        assert_eq!(naming[8..16], 9u64.to_ne_bytes());
        assert!(matches!(part(&naming), Part::Record(64)));
        assert_eq!(Record(&mut naming.to_vec()).kind(), RecordKind::Other);
        assert_eq!(Record(&mut naming.to_vec()).pid(), 77);
    }
}
