//! Prepares a declaration of columns for reading rows.

mod explain;

use forebay_core::{Flags, Nanos, Op};

use crate::columns::cursor::{CellError, Cursor};
use crate::columns::names::{Keys, Names, PARTS};
use crate::columns::notation::Mark;
use crate::columns::op_words::{OpCode, is_write_zeroes};
use crate::columns::spec::{Columns, Role};
use crate::columns::unit::{CLOCK, TimeUnit};
use crate::columns::values::{
    letters, operation, optional_bytes, optional_end, optional_time, time,
};
use crate::fields::digits;
use crate::formats::clock::DayClock;
use crate::naming::NameBudget;
use crate::rows::{END_BYTES_MAX, LEN_BYTES_MAX, LongRequests, is_placeless, is_wrapped};
use crate::{Dictionary, Record, Stream};

/// An error in a field of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// The index of the column.
    column: usize,
    /// The position at which the field begins.
    from: usize,
    fault: CellError,
}

impl FieldError {
    /// Converts the position of the error from that in a larger text to that in the row, which
    /// begins at `begun`.
    pub(crate) fn of_row(self, begun: usize) -> FieldError {
        FieldError { from: self.from.saturating_sub(begun), ..self }
    }

    /// Returns whether a quoted field does not end on its line.
    pub(crate) fn is_open_quote(self) -> bool {
        self.fault == CellError::Quotes
    }

    /// Changes the error to one about a lack of space for the name.
    fn named(self) -> FieldError {
        FieldError { fault: CellError::Name, ..self }
    }
}

/// The positions of a name's fields within a row.
#[derive(Clone, Copy)]
struct Name {
    keys: Keys,
    /// The position at which each field begins. Parts that are missing from the row have the
    /// positions of their defaults.
    starts: [usize; PARTS],
    /// Whether the keys represent the complete name.
    short: bool,
}

impl Name {
    const NONE: Name = Name { keys: [0; PARTS], starts: [0; PARTS], short: true };

    #[inline(always)]
    fn part(&mut self, part: usize, cursor: &mut Cursor<'_>) -> Result<(), CellError> {
        let part = part % PARTS;
        self.starts[part] = cursor.position();
        match cursor.short() {
            Some(key) => self.keys[part] = key,
            None => {
                self.short = false;
                cursor.field()?;
            }
        }
        Ok(())
    }
}

/// The fields of a row, and the positions at which some of them begin.
struct Fields {
    at: Option<u64>,
    end: Option<u64>,
    end_from: usize,
    latency: Option<u64>,
    offset: u64,
    offset_from: usize,
    len: u64,
    /// The unit of the length in bytes.
    len_unit: u64,
    /// The error if the length is not acceptable.
    len_bad: Option<FieldError>,
    /// The column and the position of an offset or a length without a value.
    empty: Option<(usize, usize)>,
    op: Option<Op>,
    op_from: usize,
    flags: Flags,
    volume: Name,
    stream: Name,
}

impl Fields {
    const NONE: Fields = Fields {
        at: None,
        end: None,
        end_from: 0,
        latency: None,
        offset: 0,
        offset_from: 0,
        len: 0,
        len_unit: 1,
        len_bad: None,
        empty: None,
        op: None,
        op_from: 0,
        flags: Flags::NONE,
        volume: Name::NONE,
        stream: Name::NONE,
    };

    /// Returns the length of a request that is too long for a record, unless it fits as a trim.
    /// Fails with `bad` if no request is that long.
    fn long_len(
        &mut self,
        bad: FieldError,
        cursor: &Cursor<'_>,
    ) -> Result<Option<u64>, FieldError> {
        let Fields { len, len_unit, .. } = *self;
        // Like a trim, writing zeroes transfers no data.
        if self.op == Some(Op::Write) && is_write_zeroes(field_at(cursor, self.op_from)) {
            self.op = Some(Op::Trim);
        }
        // A long read or write whose unit is not bytes was most likely recorded in bytes.
        let is_long =
            |op: Op| (op == Op::Trim || len_unit == 1) && LongRequests::may_split(op, len);
        match self.op {
            Some(Op::Trim) if len <= u64::from(u32::MAX) => Ok(None),
            Some(op) if is_long(op) => Ok(Some(len)),
            _ => Err(bad),
        }
    }
}

/// What to do with a column.
enum Step {
    Skip,
    At(TimeUnit),
    End(TimeUnit),
    Latency(TimeUnit),
    Offset(u64),
    Len(u64),
    Op(OpCode),
    /// Part of the volume's name, with its index.
    Volume(usize),
    /// Part of the stream's name, with its index.
    Stream(usize),
    Flags,
}

/// The indices of the parts in a stream's name.
pub(crate) const THREAD: usize = 0;
pub(crate) const PROCESS: usize = 1;
pub(crate) const NAME: usize = 2;

/// Reads rows according to a declaration.
pub(crate) struct Plan {
    steps: Vec<Step>,
    roles: Vec<Role>,
    titles: Vec<String>,
    op: Option<Op>,
    len: u64,
    /// The decimal mark of the text, if known.
    pub(crate) mark: Option<Mark>,
    /// Whether arrival times are computed from completion times.
    has_end: bool,
    /// Whether times are times of day, and on which day the last of them was.
    has_clock: bool,
    pub(crate) day: DayClock,
    has_volume: bool,
    has_stream: bool,
    volumes: Names,
    streams: Names,
    room: NameBudget,
    /// Counts of rows that were only read in part.
    pub(crate) odd: PartialRows,
    /// The length of the request in the last row, if it is too long for a record.
    pub(crate) long_len: Option<u64>,
}

/// Counts of rows with values that cannot be represented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartialRows {
    /// Latencies that are unknown because they are negative differences.
    pub(crate) wrapped: u64,
}

impl Plan {
    /// Creates a plan for reading rows with these columns.
    pub(crate) fn new(columns: &Columns) -> Plan {
        let mut volume_parts = 0..;
        let steps = columns.roles.iter().map(|role| match role {
            Role::Skip => Step::Skip,
            Role::At(unit) => Step::At(*unit),
            Role::End(unit) => Step::End(*unit),
            Role::Latency(unit) => Step::Latency(*unit),
            Role::Offset(bytes) => Step::Offset(*bytes),
            Role::Len(bytes) => Step::Len(*bytes),
            Role::Op(code) => Step::Op(code.clone()),
            Role::Volume(_) => Step::Volume(volume_parts.next().unwrap_or_default()),
            Role::Thread => Step::Stream(THREAD),
            Role::Process => Step::Stream(PROCESS),
            Role::Name => Step::Stream(NAME),
            Role::Flags => Step::Flags,
        });
        let steps: Vec<Step> = steps.collect();
        Plan {
            has_end: steps.iter().any(|step| matches!(step, Step::End(_))),
            has_clock: steps.iter().any(|step| matches!(step, Step::At(CLOCK) | Step::End(CLOCK))),
            day: DayClock::default(),
            has_volume: steps.iter().any(|step| matches!(step, Step::Volume(_))),
            has_stream: steps.iter().any(|step| matches!(step, Step::Stream(_))),
            steps,
            roles: columns.roles.clone(),
            titles: columns.titles.clone(),
            op: columns.op,
            len: columns.len_bytes.unwrap_or(0),
            mark: columns.mark,
            volumes: Names::default(),
            streams: Names::default(),
            room: NameBudget::default(),
            odd: PartialRows::default(),
            long_len: None,
        }
    }

    /// Returns the volumes and the streams that were seen so far.
    #[inline]
    pub(crate) fn names(&self) -> (&Names, &Names) {
        (&self.volumes, &self.streams)
    }

    /// Returns the initial dictionary. If no column contains the names of volumes or of streams,
    /// the dictionary has one volume or one stream.
    pub(crate) fn dictionary(&self) -> Dictionary {
        let mut dictionary = Dictionary::default();
        if !self.has_volume {
            dictionary.volumes.push(String::new());
        }
        if !self.has_stream {
            dictionary.streams.push(Stream::default());
        }
        dictionary
    }

    /// Reads the row at the cursor and moves to the next. Returns `None` if the row contains no
    /// request to keep. Without a column of times, the request arrives at 0.
    #[inline]
    pub(crate) fn row(
        &mut self,
        cursor: &mut Cursor<'_>,
        dictionary: &mut Dictionary,
    ) -> Result<Option<Record>, FieldError> {
        let mut fields = self.fields(cursor)?;
        if let Some((column, from)) = fields.empty.filter(|_| fields.op != Some(Op::Flush)) {
            return Err(FieldError { column, from, fault: CellError::Field });
        }
        if let Some(bad) = fields.len_bad.filter(|_| fields.len > LEN_BYTES_MAX) {
            self.long_len = fields.long_len(bad, cursor)?.or(self.long_len);
        }
        let Fields { len, op, flags, .. } = fields;
        // The offset of an empty flush has no meaning; tracers set all its bits.
        if fields.offset >= END_BYTES_MAX - len && op.is_some_and(|op| is_placeless(op, len)) {
            fields.offset = 0;
        }
        if fields.offset >= END_BYTES_MAX - len {
            let from = fields.offset_from;
            return Err(FieldError { column: 0, from, fault: CellError::Address });
        }
        let (at, latency) = self.times(&fields)?;
        let Some(op) = op.filter(|op| len > 0 || *op == Op::Flush) else { return Ok(None) };
        let volume = if self.has_volume {
            match self.volumes.cached(&fields.volume.keys) {
                Some(number) if fields.volume.short => number,
                _ => self.volume(cursor, fields.volume, dictionary)?,
            }
        } else {
            0
        };
        let stream = if self.has_stream {
            match self.streams.cached(&fields.stream.keys) {
                Some(number) if fields.stream.short => number,
                _ => self.stream(cursor, fields.stream, dictionary)?,
            }
        } else {
            0
        };
        Ok(Some(Record {
            at: Nanos(at),
            offset: fields.offset,
            latency: latency.map(Nanos),
            len: len as u32,
            stream,
            volume,
            op,
            flags,
        }))
    }

    /// Reads the fields of the row at the cursor and moves to the next row.
    #[inline(always)]
    fn fields(&mut self, cursor: &mut Cursor<'_>) -> Result<Fields, FieldError> {
        let mut to = Fields { len: self.len, op: self.op, ..Fields::NONE };
        cursor.first();
        for (column, step) in self.steps.iter().enumerate() {
            if column > 0 {
                cursor.next().map_err(|fault| FieldError {
                    column,
                    from: cursor.position(),
                    fault,
                })?;
            }
            let from = cursor.position();
            let read = match step {
                Step::Skip => cursor.skip(),
                Step::At(unit) => time(cursor, *unit, self.mark).map(|ns| to.at = Some(ns)),
                Step::End(unit) => optional_end(cursor, *unit, self.mark).map(|ns| {
                    (to.end, to.end_from) = (ns, from);
                }),
                Step::Latency(unit) => optional_time(cursor, *unit, self.mark).map(|ns| {
                    to.latency = ns.filter(|&ns| !is_wrapped(ns, unit.ns.max(1)));
                    self.odd.wrapped += u64::from(to.latency.is_none() && ns.is_some());
                }),
                Step::Offset(unit) => optional_bytes(cursor, *unit, self.mark).map(|bytes| {
                    to.offset_from = from;
                    to.empty = if bytes.is_none() { Some((column, from)) } else { to.empty };
                    to.offset = bytes.unwrap_or(0);
                }),
                Step::Len(unit) => optional_bytes(cursor, *unit, self.mark).map(|bytes| {
                    to.len_bad = Some(FieldError { column, from, fault: CellError::Length });
                    to.len_unit = *unit;
                    to.empty = if bytes.is_none() { Some((column, from)) } else { to.empty };
                    to.len = bytes.unwrap_or(0);
                }),
                Step::Op(code) => {
                    operation(cursor, code).map(|found| (to.op, to.op_from) = (found, from))
                }
                Step::Volume(part) => to.volume.part(*part, cursor),
                Step::Stream(part) => to.stream.part(*part, cursor),
                Step::Flags => letters(cursor).map(|found| to.flags = found),
            };
            read.map_err(|fault| FieldError { column, from, fault })?;
        }
        match cursor.end_line() {
            Ok(()) => Ok(to),
            Err(fault) => {
                let column = self.steps.len().saturating_sub(1);
                Err(FieldError { column, from: cursor.position(), fault })
            }
        }
    }

    /// Returns the arrival and the latency of a request.
    #[inline(always)]
    fn times(&mut self, fields: &Fields) -> Result<(u64, Option<u64>), FieldError> {
        let (mut at, mut end, mut latency) = (fields.at, fields.end, fields.latency);
        if self.has_clock {
            at = at.map(|ns| self.day.follow(ns));
            end = end.map(|ns| self.day.follow(ns));
        }
        let backwards =
            FieldError { column: 0, from: fields.end_from, fault: CellError::Backwards };
        let at = match (at, end) {
            (Some(at), None) => at,
            (Some(at), Some(end)) => {
                latency = u64::checked_sub(end, at);
                self.odd.wrapped += u64::from(latency.is_none());
                at
            }
            (None, Some(end)) => u64::checked_sub(end, latency.unwrap_or(0)).ok_or(backwards)?,
            (None, None) if self.has_end => {
                return Err(FieldError { fault: CellError::Field, ..backwards });
            }
            (None, None) => 0,
        };
        Ok((at, latency))
    }

    /// Returns the number of a volume whose name is not in the cache.
    #[cold]
    fn volume(
        &mut self,
        cursor: &Cursor<'_>,
        name: Name,
        dictionary: &mut Dictionary,
    ) -> Result<u32, FieldError> {
        let mut whole = Vec::new();
        let mut last = FieldError { column: 0, from: 0, fault: CellError::Field };
        for (column, step) in self.steps.iter().enumerate() {
            let Step::Volume(part) = step else { continue };
            let from = name.starts[part % PARTS];
            let mut field = field_at(cursor, from);
            last = FieldError { column, from, fault: CellError::Field };
            if matches!(self.roles.get(column), Some(Role::Volume(true))) {
                if digits(field).is_none() {
                    return Err(last);
                }
                let zeros = field.iter().take_while(|&&byte| byte == b'0').count();
                field = field.get(zeros.min(field.len() - 1)..).unwrap_or_default();
            }
            if *part > 0 {
                whole.push(b'.');
            }
            whole.extend_from_slice(field);
        }
        let number = match self.volumes.number_of(&whole) {
            Some(number) => number,
            None => {
                self.room.take("", &whole).map_err(|_| last.named())?;
                let number = dictionary.volumes.len() as u32;
                self.volumes.add(&whole, number);
                dictionary.volumes.push(unquoted_name(&whole));
                number
            }
        };
        self.volumes.remember(name.short.then_some(name.keys), number);
        Ok(number)
    }

    /// Returns the number of a stream whose name is not in the cache.
    #[cold]
    fn stream(
        &mut self,
        cursor: &Cursor<'_>,
        name: Name,
        dictionary: &mut Dictionary,
    ) -> Result<u32, FieldError> {
        let mut fields: [Option<&[u8]>; PARTS] = [None; PARTS];
        let mut ids = [None; PARTS];
        let mut whole = Vec::new();
        let mut last = FieldError { column: 0, from: 0, fault: CellError::Field };
        for (column, step) in self.steps.iter().enumerate() {
            let Step::Stream(part) = step else { continue };
            let (part, from) = (part % PARTS, name.starts[part % PARTS]);
            let field = field_at(cursor, from);
            last = FieldError { column, from, fault: CellError::Field };
            fields[part] = Some(field);
            if part != NAME && !field.is_empty() {
                let id = digits(field).and_then(|id| u32::try_from(id).ok());
                let wrong = last;
                ids[part] = Some(id.ok_or(wrong)?);
            }
        }
        for field in fields {
            // Separate the fields by line feeds, which no field contains.
            whole.extend_from_slice(field.unwrap_or_default());
            whole.push(b'\n');
        }
        let number = match self.streams.number_of(&whole) {
            Some(number) => number,
            None => {
                self.room.take("", &whole).map_err(|_| last.named())?;
                let number = dictionary.streams.len() as u32;
                self.streams.add(&whole, number);
                dictionary.streams.push(Stream {
                    thread: ids[THREAD],
                    process: ids[PROCESS],
                    name: unquoted_name(fields[NAME].unwrap_or_default()),
                });
                number
            }
        };
        self.streams.remember(name.short.then_some(name.keys), number);
        Ok(number)
    }

    /// Returns whether a line begins with the name of the first column.
    pub(crate) fn is_titled(&self, line: &Cursor<'_>) -> bool {
        let first = field_at(line, line.position());
        let plain = |name: &[u8]| name.strip_prefix(b"#").unwrap_or(name).to_ascii_lowercase();
        self.titles.first().is_some_and(|title| plain(first) == plain(title.as_bytes()))
    }

    /// Returns whether a line contains words where numbers are expected.
    pub(crate) fn has_no_number(&self, line: &Cursor<'_>) -> bool {
        let mut cursor = *line;
        cursor.first();
        for (column, role) in self.roles.iter().enumerate() {
            if column > 0 && cursor.next().is_err() {
                return false;
            }
            let Ok(field) = cursor.field() else { return false };
            let text = matches!(
                role,
                Role::Skip | Role::Op(_) | Role::Volume(_) | Role::Name | Role::Flags
            );
            if !text && !field.first().is_some_and(u8::is_ascii_alphabetic) {
                return false;
            }
        }
        true
    }

    /// Returns whether a line that is not a row contains the column names: words in place of both
    /// numbers and operations.
    pub(crate) fn is_header(&self, line: &Cursor<'_>) -> bool {
        let mut cursor = *line;
        cursor.first();
        let mut is_request = false;
        for role in &self.roles {
            let mut field = cursor;
            is_request |= matches!(role, Role::Op(code) if operation(&mut field, code).is_ok());
            if cursor.field().is_err() || cursor.next().is_err() {
                break;
            }
        }
        !is_request && (self.is_titled(line) || self.has_no_number(line))
    }

    /// Returns whether the number of fields in a line equals the number of columns. Columns that
    /// have a title but no role may be missing.
    pub(crate) fn fits(&self, line: &Cursor<'_>) -> bool {
        let mut cursor = *line;
        cursor.first();
        for column in 0..self.roles.len().max(self.titles.len()) {
            if column > 0 && cursor.next().is_err() {
                return column >= self.roles.len();
            }
            if cursor.field().is_err() {
                return false;
            }
        }
        cursor.next().is_err()
    }
}

/// Returns the content of the field that begins at `from`.
fn field_at<'a>(cursor: &Cursor<'a>, from: usize) -> &'a [u8] {
    let mut cursor = *cursor;
    cursor.go(from);
    cursor.field().unwrap_or_default()
}

/// Returns a name as text. A quoted field doubles the quotes that belong to it.
fn unquoted_name(field: &[u8]) -> String {
    String::from_utf8_lossy(field).replace("\"\"", "\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_that_belong_to_a_name_are_single() {
        assert_eq!(unquoted_name(b"disk \"\"A\"\""), "disk \"A\"");
        assert_eq!(unquoted_name(b"plain"), "plain");
    }
}
