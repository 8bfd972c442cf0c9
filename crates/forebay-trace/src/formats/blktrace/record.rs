//! The binary records of one file: 48 bytes each, followed by a payload of up to 65,535 bytes.
//!
//! The byte order of the traced machine is detected from the magic number of the first record. Only
//! events that concern requests are decoded; the others are skipped. Damaged parts are skipped up
//! to the next record, as far as [`BadRowsMax`] allows ([`damage`]).

mod damage;

use std::io::Read;
use std::path::PathBuf;

use crate::bad_rows::BadRowsMax;
use crate::formats::events::{BackSteps, Category, Event, EventKind, Remap, Source, Span};
use crate::{Place, TraceError};
use damage::Damage;

/// The size of a record without its payload.
const HEAD: usize = 48;
/// The size of the buffer, which exceeds that of the longest record.
const BUFFER: usize = 128 * 1024;
/// The magic number: `0x656174` followed by the version, 7.
const MAGIC: u32 = 0x6561_7407;
/// The flag of events and notes whose payload begins with a control group id of 8 bytes.
const CGROUP: u16 = 1 << 8;

/// The byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    /// Returns the byte order in which `head` is the magic number, if any.
    fn of(head: &[u8; 4]) -> Option<Order> {
        match *head {
            little if u32::from_le_bytes(little) == MAGIC => Some(Order::Little),
            big if u32::from_be_bytes(big) == MAGIC => Some(Order::Big),
            _ => None,
        }
    }

    /// Returns the bytes of the magic number.
    fn magic(self) -> [u8; 4] {
        match self {
            Order::Little => MAGIC.to_le_bytes(),
            Order::Big => MAGIC.to_be_bytes(),
        }
    }
}

/// The fixed part of a record.
struct Head<'a> {
    bytes: &'a [u8; HEAD],
    order: Order,
}

impl Head<'_> {
    fn u64(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.bytes[at..at + 8]);
        match self.order {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        }
    }

    fn u32(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.bytes[at..at + 4]);
        match self.order {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u16(&self, at: usize) -> u16 {
        let bytes = [self.bytes[at], self.bytes[at + 1]];
        match self.order {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    fn payload(&self) -> usize {
        usize::from(self.u16(46))
    }

    /// Returns the category of a completion, which has an error number.
    fn completed(&self, category: Category) -> Category {
        if self.u16(44) == 0 { category } else { category.with(Category::FAILED) }
    }

    /// Decodes the event, or returns None if it does not concern a request.
    fn event_kind(&self, payload: &[u8]) -> Option<EventKind> {
        let action = self.u32(28);
        let (kind, category) = (action as u16, Category((action >> 16) as u16));
        if category.has(Category::NOTIFY) {
            return (kind == 0 && !payload.is_empty()).then(|| {
                let end = payload.iter().position(|&byte| byte == 0).unwrap_or(payload.len());
                EventKind::Name(String::from_utf8_lossy(&payload[..end.min(16)]).into())
            });
        }
        let span =
            || Span { sector: self.u64(16), bytes: self.u32(24), device: self.u32(36), category };
        match kind & !CGROUP {
            1 => Some(EventKind::Queue(span())),
            6 => Some(EventKind::Requeue(span())),
            7 => Some(EventKind::Issue(span())),
            8 => Some(EventKind::Complete(Span { category: self.completed(category), ..span() })),
            12 => Some(EventKind::Insert(span())),
            15 => {
                let payload = if kind & CGROUP == 0 { payload } else { payload.get(8..)? };
                self.remap(payload)
            }
            _ => None,
        }
    }

    /// Decodes the payload of a remap, which is always big-endian: the device above, the device of
    /// the request, and the sector above.
    fn remap(&self, payload: &[u8]) -> Option<EventKind> {
        let (from, rest) = payload.split_first_chunk::<4>()?;
        let from_sector = rest.get(4..)?.first_chunk::<8>()?;
        Some(EventKind::Remap(Box::new(Remap {
            to: self.u32(36),
            sector: self.u64(16),
            from: u32::from_be_bytes(*from),
            from_sector: u64::from_be_bytes(*from_sector),
            bytes: self.u32(24),
        })))
    }
}

/// The result of reading a record.
enum Step {
    Event(Event),
    /// A record that does not concern a request.
    Other,
    /// The end of the file was reached.
    End,
}

/// Reads the records of one file.
pub(crate) struct Cursor {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    order: Option<Order>,
    buffer: Vec<u8>,
    /// The part of the buffer that has not been read yet.
    unread: std::ops::Range<usize>,
    /// The position of the first unread byte in the file.
    at: u64,
    ended: bool,
    /// The number of events so far, and the steps back of their clock.
    events: u64,
    back: BackSteps,
    /// The number of records so far, including damaged ones.
    records: u64,
    damage: Damage,
    pub(crate) warnings: Vec<String>,
}

impl Cursor {
    pub(crate) fn new(
        path: PathBuf,
        input: Box<dyn Read + Send>,
        bad_rows_max: BadRowsMax,
    ) -> Cursor {
        let buffer = vec![0; BUFFER];
        Cursor {
            path,
            input,
            order: None,
            buffer,
            unread: 0..0,
            at: 0,
            ended: false,
            events: 0,
            back: BackSteps::default(),
            records: 0,
            damage: Damage::new(bad_rows_max),
            warnings: Vec::new(),
        }
    }

    /// Returns whether the file is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.ended && self.order.is_none() && self.warnings.is_empty()
    }

    /// Ensures that the buffer contains at least `needed` unread bytes, or all that remain in the
    /// file. `needed` must not exceed the size of the buffer.
    fn fill(&mut self, needed: usize) -> Result<bool, TraceError> {
        if self.unread.len() >= needed {
            return Ok(true);
        }
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        while self.unread.len() < needed {
            match self.input.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) => return Ok(false),
                Ok(n) => self.unread.end += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(TraceError::Io { path: self.path.clone(), source }),
            }
        }
        Ok(true)
    }

    fn skip(&mut self, bytes: usize) {
        self.unread.start += bytes;
        self.at += bytes as u64;
    }

    fn step(&mut self) -> Result<Step, TraceError> {
        if !self.fill(HEAD)? {
            return self.end();
        }
        let unread = &self.buffer[self.unread.clone()];
        let Some(bytes) = unread.first_chunk::<HEAD>() else { return self.end() };
        let Some(order) = self.checked_order(bytes) else { return self.foreign(*bytes) };
        self.order = Some(order);
        let size = HEAD + Head { bytes, order }.payload();
        if self.has_wrong_length(size, order)? {
            let got = format!("a record of {size} bytes");
            let error = self.malformed(got, "another record after it", DAMAGED);
            return self.leave_out(MAGIC_BYTES, order, error);
        }
        if !self.fill(size)? {
            return self.end();
        }
        let unread = &self.buffer[self.unread.clone()];
        let Some((bytes, rest)) = unread.split_first_chunk::<HEAD>() else { return self.end() };
        let head = Head { bytes, order };
        let Some(what) = head.event_kind(&rest[..size - HEAD]) else {
            self.skip(size);
            self.records += 1;
            return Ok(Step::Other);
        };
        let (time_ns, sequence, pid) = (head.u64(8), head.u32(4), head.u32(32));
        if let Some((got, expected)) = what.span().and_then(Span::impossible_value) {
            let error = self.malformed(got, expected, DAMAGED);
            return self.leave_out(size, order, error);
        }
        self.skip(size);
        self.records += 1;
        self.events += 1;
        if !matches!(what, EventKind::Name(_)) {
            self.back.follow(self.events, time_ns, sequence);
        }
        Ok(Step::Event(Event { time_ns, sequence, pid, kind: what }))
    }

    fn checked_order(&self, bytes: &[u8; HEAD]) -> Option<Order> {
        let found = Order::of(&[bytes[0], bytes[1], bytes[2], bytes[3]])?;
        (self.order.is_none_or(|order| order == found)).then_some(found)
    }

    /// Handles the end of the file, which may be within a record.
    fn end(&mut self) -> Result<Step, TraceError> {
        self.finish()?;
        let rest = &self.buffer[self.unread.clone()];
        if rest.is_empty() {
            return Ok(Step::End);
        }
        let begins = rest.first_chunk::<4>().is_some_and(|magic| Order::of(magic).is_some());
        if self.order.is_none() && !begins {
            let got = shown(rest);
            return Err(self.malformed(got, EXPECTED, HINT));
        }
        self.warnings.push(format!(
            "{}, byte {}: the last record is truncated; all earlier ones are used",
            self.path.display(),
            self.at
        ));
        Ok(Step::End)
    }

    /// Handles a record without the magic number. The file is damaged there, unless the rest of it
    /// is zeros, which blktrace leaves if it is killed. If the first record is damaged, those after
    /// it show the byte order.
    fn foreign(&mut self, head: [u8; HEAD]) -> Result<Step, TraceError> {
        let error = self.malformed(shown(&head[..MAGIC_BYTES]), EXPECTED, HINT);
        if self.order.is_none() {
            self.fill(BUFFER)?;
            self.order = damage::order_in(&self.buffer[self.unread.clone()]);
        }
        match self.order {
            Some(order) => self.leave_out(0, order, error),
            None => Err(error),
        }
    }

    /// Completes the notes at the end of the file.
    fn finish(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        self.tell_back();
        self.warnings.extend(self.damage.finish(&self.path, self.records)?);
        Ok(())
    }

    /// Returns the approximate number of records that were skipped.
    pub(crate) fn records_bad(&self) -> u64 {
        self.damage.records()
    }

    fn tell_back(&mut self) {
        let wild = self.back.wild_sentence("event");
        self.warnings.extend(wild.map(|told| format!("{told} ({})", self.path.display())));
        let Some(told) = self.back.sentence("event") else { return };
        self.warnings.push(format!(
            "{told} ({}): a clock was set there, or another recording begins; record each run in \
             a separate file and read the files one at a time",
            self.path.display()
        ));
    }

    fn malformed(&self, got: String, expected: &str, hint: &str) -> TraceError {
        TraceError::Malformed {
            path: self.path.clone(),
            place: Place::Byte(self.at),
            got,
            expected: expected.to_owned(),
            hint: hint.to_owned(),
        }
    }
}

/// The size of the magic number in bytes.
const MAGIC_BYTES: usize = 4;
const DAMAGED: &str = "the record is damaged";
const EXPECTED: &str = "a blktrace record (magic 65617407, in the file's byte order)";
const HINT: &str = "is this an intact blktrace file of version 7?";

/// Formats the first bytes in hexadecimal, for a message.
fn shown(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("bytes {digits}")
}

impl Source for Cursor {
    fn next(&mut self) -> Result<Option<Event>, TraceError> {
        while !self.ended {
            match self.step()? {
                Step::Event(event) => return Ok(Some(event)),
                Step::Other => {}
                Step::End => break,
            }
        }
        Ok(None)
    }
}

/// Returns whether a file that begins with `head` contains blktrace records. The first of them may
/// be damaged.
pub fn sniff(head: &[u8]) -> bool {
    let is_intact = head.first_chunk::<4>().is_some_and(|magic| Order::of(magic).is_some());
    is_intact || damage::order_in(head).is_some()
}
