//! Reads plain rows, which nearly all rows are. The fields are located first ([`split`]) and then
//! read in any order, so that the processor can work on several of them at the same time.
//!
//! The result is the same as that of [`super::plan::Plan::row`]. Unusual rows (those that are not
//! plain, that contain a name not used recently, that have no length, or that are invalid) are left
//! to that function.

use forebay_core::{Flags, Nanos, Op};

use crate::Record;
use crate::columns::cursor::{Cursor, Separator};
use crate::columns::names::{Keys, Names, PARTS};
use crate::columns::notation::Mark;
use crate::columns::op_words::{OpCode, OpWords};
use crate::columns::spec::{Columns, Role};
use crate::columns::split::{Bounds, COLUMNS_MAX, split};
use crate::columns::swar::{key, number};
use crate::columns::unit::TimeUnit;
use crate::rows::{END_BYTES_MAX, LEN_BYTES_MAX, is_wrapped};

/// The columns that contain the parts of a name.
type Parts = [Option<usize>; PARTS];

/// A declaration that was prepared for reading plain rows.
pub(crate) struct Plain {
    separator: u8,
    /// Whether consecutive separators count as a single one.
    blanks: bool,
    columns: usize,
    at: Option<(usize, TimeUnit)>,
    latency: Option<(usize, TimeUnit)>,
    offset: (usize, u64),
    len: Option<(usize, u64)>,
    len_bytes: u64,
    op: Operation,
    volume: Option<Parts>,
    stream: Option<Parts>,
}

/// How rows encode operations.
enum Operation {
    Same(Op),
    Words(usize, OpWords),
    Disksim(usize),
}

/// The text of a row and the bounds of its fields.
struct FieldRow<'a> {
    text: &'a [u8],
    bounds: &'a Bounds,
    separator: u8,
}

impl FieldRow<'_> {
    /// Returns the bounds of a field.
    #[inline(always)]
    fn field(&self, column: usize) -> (usize, usize) {
        let bound = |n: usize| self.bounds[n % (COLUMNS_MAX + 1)];
        (bound(column), bound(column + 1) - 1)
    }

    #[inline(always)]
    fn number(&self, column: usize) -> Option<u64> {
        let (from, to) = self.field(column);
        number(self.text, from, to)
    }

    #[inline(always)]
    fn time_ns(&self, column: usize, unit: TimeUnit) -> Option<u64> {
        match self.number(column) {
            Some(count) => count.checked_mul(unit.ns),
            None => self.decimal_ns(column, unit),
        }
    }

    fn decimal_ns(&self, column: usize, unit: TimeUnit) -> Option<u64> {
        let (from, to) = self.field(column);
        let mut cursor = Cursor::new(self.text, Separator::Byte(self.separator));
        cursor.go(from);
        let (whole, billionths) = cursor.decimal()?;
        (cursor.position() == to && unit.ns > 1).then(|| unit.as_ns(whole, billionths))?
    }

    /// Returns the number of the name in these fields, or `None` if it is not cached.
    #[inline(always)]
    fn name(&self, parts: Option<&Parts>, names: &Names) -> Option<u32> {
        let Some(parts) = parts else { return Some(0) };
        let key = |part: usize| match parts[part] {
            Some(column) => {
                let (from, to) = self.field(column);
                key(self.text, from, to)
            }
            None => Some(0),
        };
        let keys: Keys = [key(0)?, key(1)?, key(2)?];
        names.cached(&keys)
    }
}

impl Plain {
    /// Prepares a declaration. Returns `None` if it contains unusual columns.
    pub(crate) fn new(columns: &Columns, separator: Separator) -> Option<Plain> {
        let (separator, blanks) = match separator {
            Separator::Byte(separator) => (separator, false),
            Separator::Blanks => (b' ', true),
        };
        let (mut at, mut latency, mut offset, mut len) = (None, None, None, None);
        let mut op = columns.op.map(Operation::Same);
        let (mut volume, mut stream): (Option<Parts>, Option<Parts>) = (None, None);
        let mut volume_parts = 0..PARTS;
        for (column, role) in columns.roles.iter().enumerate() {
            let mut stream_part = |part: usize| {
                stream.get_or_insert_default()[part] = Some(column);
            };
            match role {
                Role::Skip => {}
                Role::At(unit) | Role::Latency(unit) if unit.is_date() => return None,
                Role::At(unit) => at = Some((column, *unit)),
                Role::Latency(unit) => latency = Some((column, *unit)),
                Role::Offset(unit) => offset = Some((column, *unit)),
                Role::Len(unit) => len = Some((column, *unit)),
                Role::Op(OpCode::Words(words)) => {
                    op = Some(Operation::Words(column, words.clone()))
                }
                Role::Op(OpCode::Disksim) => op = Some(Operation::Disksim(column)),
                Role::Volume(_) => {
                    volume.get_or_insert_default()[volume_parts.next()?] = Some(column);
                }
                Role::Thread => stream_part(super::plan::THREAD),
                Role::Process => stream_part(super::plan::PROCESS),
                Role::Name => stream_part(super::plan::NAME),
                Role::End(_) | Role::Flags | Role::Op(OpCode::Scsi) => return None,
            }
        }
        let known = columns.roles.len() <= COLUMNS_MAX && columns.mark != Some(Mark::Comma);
        known.then_some(Plain {
            separator,
            blanks,
            columns: columns.roles.len(),
            at,
            latency,
            offset: offset?,
            len,
            len_bytes: columns.len_bytes.unwrap_or(0),
            op: op?,
            volume,
            stream,
        })
    }

    /// Reads the row that begins at `start`. Returns its record and the start of the next row.
    /// `bounds` is a buffer whose content is overwritten. `volumes` and `streams` contain the
    /// numbers of names.
    #[inline(always)]
    pub(crate) fn row(
        &self,
        text: &[u8],
        start: usize,
        bounds: &mut Bounds,
        (volumes, streams): (&Names, &Names),
    ) -> Option<(Record, usize)> {
        let next = split(text, start, self.separator, self.columns, bounds)?;
        let row = FieldRow { text, bounds, separator: self.separator };
        if self.blanks && (0..self.columns).any(|n| row.field(n).0 == row.field(n).1) {
            return None;
        }
        let at = match self.at {
            Some((column, unit)) => row.time_ns(column, unit)?,
            None => 0,
        };
        let latency = match self.latency {
            Some((column, unit)) if row.field(column).0 < row.field(column).1 => {
                let ns = row.time_ns(column, unit)?;
                if is_wrapped(ns, unit.ns) {
                    return None;
                }
                Some(Nanos(ns))
            }
            _ => None,
        };
        let offset = row.number(self.offset.0)?.checked_mul(self.offset.1)?;
        let len = match self.len {
            Some((column, unit)) => row.number(column)?.checked_mul(unit)?,
            None => self.len_bytes,
        };
        if len == 0 || len > LEN_BYTES_MAX || offset >= END_BYTES_MAX - len {
            return None;
        }
        let op = match &self.op {
            Operation::Same(op) => *op,
            Operation::Words(column, words) => {
                let (from, to) = row.field(*column);
                words.short(key(text, from, to)?)?
            }
            Operation::Disksim(column) if row.number(*column)? & 1 == 1 => Op::Read,
            Operation::Disksim(_) => Op::Write,
        };
        let volume = row.name(self.volume.as_ref(), volumes)?;
        let stream = row.name(self.stream.as_ref(), streams)?;
        let flags = Flags::NONE;
        let record =
            Record { at: Nanos(at), offset, latency, len: len as u32, stream, volume, op, flags };
        Some((record, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::plan::Plan;
    use crate::columns::split::NO_BOUNDS;
    use crate::lines::PADDING_BYTES;
    use proptest::prelude::*;

    /// Reads a row first with the plan and then, when its names are known, with the fast path.
    fn both(declared: &str, row: &str) -> [Option<(Record, usize)>; 2] {
        let columns: Columns = declared.parse().unwrap();
        let separator = columns.separator.unwrap();
        let text = [row.as_bytes(), b"\n", &[b'7'; PADDING_BYTES]].concat();
        let mut plan = Plan::new(&columns);
        let mut dictionary = plan.dictionary();
        let mut cursor = Cursor::new(&text, separator);
        let slow = plan.row(&mut cursor, &mut dictionary).ok().flatten();
        let slow = slow.map(|record| (record, cursor.position()));
        let plain = Plain::new(&columns, separator).unwrap();
        [slow, plain.row(&text, 0, &mut NO_BOUNDS.clone(), plan.names())]
    }

    const MSR: &str =
        "at:filetime,volume,volume:number,op:Read/Write,offset,len,latency:ticks,sep=comma";
    const DECLARED: [&str; 4] = [
        MSR,
        "at:s,latency:us,op:0/1,thread,offset:sectors,len,name,sep=comma",
        "_,at:ms,op:disksim,process,offset,len:sectors,volume,sep=blank",
        "at:ns,_,op,name,offset:kib,len:pages,volume,sep=tab",
    ];

    #[test]
    fn usual_rows_are_read() {
        for (declared, row) in DECLARED.iter().zip([
            "128166372003061629,src1,0,Read,7014609920,24576,41286,more",
            "1700000000.123456,,1,12,88,4096,nginx",
            "x 12.5 3 7 4096 8 0",
            "18446744073709551,x,\tD\tname\t4\t1\tsda\r".replace(",x,", "\tx").as_str(),
        ]) {
            let [slow, fast] = both(declared, row);
            assert!(slow.is_some(), "{row}");
            assert_eq!(fast, slow, "{row}");
        }
    }

    #[test]
    fn unusual_rows_are_left_to_the_general_reader() {
        for row in [
            "1,a,0,Read,0,0,5",
            "1,a,0,rEaD,0,512,5",
            "1,longer-than-seven,0,Read,0,512,5",
            "1,a,0,Read,9223372036854775807,512,5",
            "99999999999999999999,a,0,Read,0,512,5",
            "1,a,0,Read,0,512",
        ] {
            assert_eq!(both(MSR, row)[1], None, "{row}");
        }
        assert!(
            Plain::new(&"at:s,end:s,op,offset,len".parse().unwrap(), Separator::Blanks).is_none()
        );
    }

    fn field() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "[0-9]{1,6}",
            2 => "[0-9]{7,20}",
            1 => "[0-9]{1,10}\\.[0-9]{0,12}",
            1 => "[rRwWdD]|Read|Write|write",
            1 => "[a-z]{0,9}",
            1 => "[ -~\\t\\r]{0,3}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn agrees_with_the_plan(
            declared in 0..DECLARED.len(),
            fields in prop::collection::vec(field(), 6..9),
            usual in prop::collection::vec(any::<bool>(), 9),
        ) {
            let declared = DECLARED[declared];
            let separator = match declared.rsplit_once('=').unwrap().1 {
                "comma" => ",",
                "tab" => "\t",
                _ => " ",
            };
            // Most fields must be valid; otherwise, hardly any row would be readable.
            let roles: Vec<&str> = declared.split(',').collect();
            let fields: Vec<String> = fields.iter().enumerate().map(|(n, field)| {
                match roles.get(n).and_then(|role| role.split(':').next()) {
                    Some("op") if usual[n] && declared == MSR => "Write".to_owned(),
                    Some("op") if usual[n] => "1".to_owned(),
                    Some(_) if usual[n] => field.bytes().map(|b| char::from(b'0' + b % 10)).take(9).collect(),
                    _ => field.clone(),
                }
            }).collect();
            let [slow, fast] = both(declared, &fields.join(separator));
            if fast.is_some() {
                prop_assert_eq!(fast, slow);
            }
        }
    }
}
