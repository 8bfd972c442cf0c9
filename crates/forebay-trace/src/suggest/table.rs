//! The first rows of a text, and what the values in its columns reveal about their meaning.

use crate::columns::cursor::{Cursor, Separator};
use crate::columns::date_ns;
use crate::columns::notation::{Mark, PlainNumber, hexadecimal};
use crate::columns::op_words::{OpWords, scsi};
use crate::columns::span::{self, Span};
use crate::columns::unit::{TIME_UNITS, TimeUnit};
use crate::fields::{decimal, decimal_or_power};
use crate::formats::clock::time_of_day;
use forebay_core::Op;

/// The maximum number of rows that are examined.
pub(crate) const ROWS: usize = 50;
/// The minimum number of distinct values from which a step of 512 units is recognized.
const DISTINCT_LEAST: usize = 8;
/// If the mean length is at least this, lengths in steps of 512 are bytes, because few requests
/// have 4096 sectors.
const MEAN_LEAST: u64 = 4096;
/// The maximum length of requests that programs submit, in bytes.
pub(super) const LEN_MAX: u64 = 1 << 24;
/// The number of decimals in seconds of a tracer that measures nanoseconds.
const NANOSECOND_DECIMALS: usize = 9;
/// Pairs of words, one of which means read and the other write, but it is unknown which is which.
const PAIRS: [[&str; 2]; 7] = [
    ["0", "1"],
    ["true", "false"],
    ["t", "f"],
    ["yes", "no"],
    ["y", "n"],
    ["1", "2"],
    ["in", "out"],
];

/// The declaration of operations that are SCSI operation codes in decimal.
const SCSI_DECIMAL: &str = "op:8+40+136+168/10+42+138+170";

/// The first rows of a text.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    mark: Option<Mark>,
}

/// How certain it is that the values of a column are times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// The values are times in this unit.
    In(&'static str),
    /// The values never decrease, so they may be times in any unit.
    Sorted,
}

/// Splits a line into fields. Returns `None` if quotes do not match.
pub(crate) fn fields(line: &[u8], separator: Separator) -> Option<Vec<String>> {
    // The separator may be whitespace that ends an empty last field.
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() && separator != Separator::Byte(*byte);
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    let line = [line.get(..end).unwrap_or_default(), b"\n"].concat();
    let (mut cursor, mut fields) = (Cursor::new(&line, separator), Vec::new());
    cursor.first();
    loop {
        let field = cursor.field().ok()?;
        // The Windows encodings called ANSI are close to Latin-1, whose bytes are code points.
        let latin = || field.iter().map(|&byte| char::from(byte)).collect();
        fields.push(std::str::from_utf8(field).map_or_else(|_| latin(), str::to_owned));
        if cursor.next().is_err() {
            return Some(fields);
        }
    }
}

/// Parses a number in any notation. Returns its integer part and its billionths.
fn number(field: &str, mark: Mark) -> Option<(u64, u64)> {
    if let Some(number) = hexadecimal(field.as_bytes()) {
        return Some((number, 0));
    }
    let number = PlainNumber::of(field.as_bytes(), mark)?;
    decimal(number.bytes()).or_else(|| decimal_or_power(number.bytes()))
}

/// Returns whether a field is a number in any notation.
pub(crate) fn is_number(field: &str) -> bool {
    [Mark::Point, Mark::Comma].iter().any(|mark| number(field.trim(), *mark).is_some())
}

impl Table {
    pub(crate) fn new(rows: Vec<Vec<String>>) -> Table {
        let mut marks: Vec<Mark> =
            rows.iter().flatten().filter_map(|field| Mark::of_decimal(field.as_bytes())).collect();
        marks.dedup();
        let mark = if marks.len() == 1 { marks.pop() } else { None };
        Table { rows, mark }
    }

    /// Returns the decimal mark, if the numbers reveal it.
    pub(super) fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Returns the values of a column. Returns none if any row lacks it.
    fn column(&self, column: usize) -> Vec<&str> {
        let fields = self.rows.iter().map(|row| row.get(column).map(|field| field.trim()));
        fields.collect::<Option<_>>().unwrap_or_default()
    }

    fn decimal(&self, field: &str) -> Option<(u64, u64)> {
        number(field, self.mark.unwrap_or(Mark::Point))
    }

    /// Returns the numbers in a column, with their billionths. Returns `None` if any value is not a
    /// number.
    fn decimals(&self, column: usize) -> Option<Vec<(u64, u64)>> {
        let fields = self.column(column);
        let numbers = fields.iter().map(|field| self.decimal(field)).collect::<Option<Vec<_>>>();
        numbers.filter(|numbers| !numbers.is_empty())
    }

    /// Returns the numbers in a column. Returns `None` if any value is not a whole number.
    pub(super) fn numbers(&self, column: usize) -> Option<Vec<u64>> {
        let decimals = self.decimals(column)?;
        decimals.into_iter().map(|(whole, part)| (part == 0).then_some(whole)).collect()
    }

    /// Returns whether all values are words for operations. `F` alone may also mean false.
    pub(super) fn is_op(&self, column: usize) -> bool {
        self.has_op_words(column) && !self.may_be_op(column)
    }

    /// Returns whether all values are words for operations.
    fn has_op_words(&self, column: usize) -> bool {
        let (words, fields) = (OpWords::usual(), self.column(column));
        let is_word = |field: &&str| words.word(field.as_bytes()).is_some();
        !fields.is_empty() && fields.iter().all(is_word)
    }

    /// Returns whether the values are two words that may mean read and write, and do not all mean
    /// operations themselves, as F does.
    pub(crate) fn is_open_pair(&self, column: usize) -> bool {
        self.may_be_op(column) && !self.has_op_words(column)
    }

    /// Returns whether the values are two words that may mean read and write.
    pub(super) fn may_be_op(&self, column: usize) -> bool {
        let column = self.column(column);
        let is_of = |pair: &[&str; 2]| {
            column.iter().all(|field| {
                let field = field.strip_suffix(".0").unwrap_or(field);
                pair.iter().any(|word| word.eq_ignore_ascii_case(field))
            })
        };
        !column.is_empty() && PAIRS.iter().any(is_of)
    }

    /// Returns the declaration of a column of SCSI operation codes, in hexadecimal or decimal.
    pub(crate) fn scsi(&self, column: usize) -> Option<&'static str> {
        let column = self.column(column);
        let are = |is: fn(&str) -> bool| !column.is_empty() && column.iter().all(|field| is(field));
        let is_hexadecimal =
            |field: &str| matches!(scsi(field.as_bytes()), Some(Some(Op::Read | Op::Write)));
        let is_decimal =
            |field: &str| SCSI_DECIMAL.split([':', '+', '/']).any(|word| word == field);
        match () {
            () if are(is_hexadecimal) => Some("op:scsi"),
            () if are(is_decimal) => Some(SCSI_DECIMAL),
            () => None,
        }
    }

    /// Returns how certain it is that the values of a column are times. Returns `None` if they
    /// cannot be.
    pub(super) fn times(&self, column: usize) -> Option<Times> {
        let fields = self.column(column);
        if !fields.is_empty() && fields.iter().all(|field| date_ns(field.as_bytes()).is_some()) {
            return Some(Times::In("date"));
        }
        if !fields.is_empty() && fields.iter().all(|field| span::is_certain(field.as_bytes())) {
            return Some(Times::In("timedelta"));
        }
        if !fields.is_empty() && fields.iter().all(|field| time_of_day(field.as_bytes()).is_some())
        {
            return Some(Times::In("clock"));
        }
        let values = self.decimals(column)?;
        let dated = dated_unit(values.first()?.0);
        if let Some(unit) =
            dated.filter(|_| values.iter().all(|value| dated_unit(value.0) == dated))
        {
            return Some(Times::In(unit));
        }
        let is_constant = values.len() > 1 && values.first() == values.last();
        // Row numbers are not times.
        let counts = values.windows(2).all(|two| two[1].1 == 0 && two[1].0 == two[0].0 + 1);
        if !values.is_sorted() || is_constant || counts && values.len() > 1 {
            return None;
        }
        let decimals =
            |field: &&str| field.len() - field.find(['.', ',']).unwrap_or(field.len() - 1) - 1;
        let is_fine = fields.iter().all(|field| decimals(field) == NANOSECOND_DECIMALS);
        Some(if is_fine { Times::In("s") } else { Times::Sorted })
    }

    /// Returns whether the times in column `one` are never later than those in column `other` of
    /// the same row.
    pub(super) fn precedes(&self, one: usize, other: usize) -> bool {
        let at = |field: &str| match date_ns(field.as_bytes()) {
            Some(ns) => Some((ns, 0)),
            None => match span::of(field.as_bytes()) {
                Some(Span::Ns(ns)) => Some((ns, 0)),
                _ => self.decimal(field),
            },
        };
        self.column(one)
            .into_iter()
            .zip(self.column(other))
            .all(|(one, other)| at(one) <= at(other))
    }

    /// Returns whether all values are multiples of 512, and not all zero.
    pub(super) fn is_in_steps(&self, column: usize) -> bool {
        self.numbers(column).is_some_and(|numbers| {
            numbers.iter().all(|number| number.is_multiple_of(512))
                && numbers.iter().any(|n| *n > 0)
        })
    }

    /// Returns whether the two columns cannot be swapped: the first contains values that cannot be
    /// lengths, and the second does not.
    pub(super) fn is_offset_beside(&self, offset: usize, len: usize) -> bool {
        let [offsets, lens] = [offset, len].map(|column| self.numbers(column).unwrap_or_default());
        let is_long = |numbers: &[u64]| numbers.iter().any(|number| *number > LEN_MAX);
        let has_zero = |numbers: &[u64]| numbers.contains(&0);
        !is_long(&lens) && (is_long(&offsets) || has_zero(&offsets) && !has_zero(&lens))
    }

    /// Returns whether values in steps of 512 are bytes rather than sectors, because lengths are
    /// too large for sectors or there are many distinct values.
    pub(super) fn is_in_bytes(&self, offset: usize, len: usize) -> bool {
        let (Some(mut offsets), Some(lens)) = (self.numbers(offset), self.numbers(len)) else {
            return false;
        };
        let mean =
            lens.iter().map(|&len| u128::from(len)).sum::<u128>() / lens.len().max(1) as u128;
        offsets.sort_unstable();
        offsets.dedup();
        self.is_in_steps(len)
            && (mean >= u128::from(MEAN_LEAST)
                || offsets.len() >= DISTINCT_LEAST && self.is_in_steps(offset))
    }
}

/// Returns the unit in which `count` is a date from 2001 to 2039.
pub(crate) fn dated_unit(count: u64) -> Option<&'static str> {
    // The time from 1601, when Windows begins to count, to 1970.
    let epoch_ns =
        |unit: &TimeUnit| if unit.name == "filetime" { 11_644_473_600_000_000_000 } else { 0 };
    let is_date = |unit: &&TimeUnit| {
        let ns = u128::from(count) * u128::from(unit.ns);
        let s = ns.saturating_sub(epoch_ns(unit)) / 1_000_000_000;
        unit.name != "ticks" && (1_000_000_000..2_200_000_000).contains(&s)
    };
    TIME_UNITS.iter().find(is_date).map(|unit| unit.name)
}
