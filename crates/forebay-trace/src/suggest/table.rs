//! The first rows of a text, and what the values in a column show about its meaning.

use crate::columns::cursor::{Cursor, Separator};
use crate::columns::date_ns;
use crate::columns::notation::{Mark, PlainNumber, hexadecimal};
use crate::columns::op_words::OpWords;
use crate::columns::unit::{TIME_UNITS, TimeUnit};
use crate::fields::{decimal, decimal_or_power};

/// The number of rows that are examined.
pub(crate) const ROWS: usize = 50;
/// The least number of distinct values that show a step of 512 units.
const DISTINCT_LEAST: usize = 8;
/// The mean from which lengths in steps of 512 are bytes: few requests have 4096 sectors.
const MEAN_LEAST: u64 = 4096;
/// The longest request that programs make, in bytes.
pub(super) const LEN_MAX: u64 = 1 << 24;
/// The decimals of seconds that a tracer prints in nanoseconds.
const NANOSECOND_DECIMALS: usize = 9;
/// Pairs of words that mean read and write, but not which is which.
const PAIRS: [[&str; 2]; 7] = [
    ["0", "1"],
    ["true", "false"],
    ["t", "f"],
    ["yes", "no"],
    ["y", "n"],
    ["1", "2"],
    ["in", "out"],
];

/// The first rows.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    mark: Option<Mark>,
}

/// The values of a column that may be times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// Their unit is certain.
    In(&'static str),
    /// They never decrease, but may have any unit.
    Sorted,
}

/// Splits a line into fields; `None` if quotes are broken.
pub(crate) fn fields(line: &[u8], separator: Separator) -> Option<Vec<String>> {
    // An empty last field may end with the separator.
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() && separator != Separator::Byte(*byte);
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    let line = [line.get(..end).unwrap_or_default(), b"\n"].concat();
    let (mut cursor, mut fields) = (Cursor::new(&line, separator), Vec::new());
    cursor.first();
    loop {
        let field = cursor.field().ok()?;
        // Windows' ANSI is close to Latin-1, whose bytes are code points.
        let latin = || field.iter().map(|&byte| char::from(byte)).collect();
        fields.push(std::str::from_utf8(field).map_or_else(|_| latin(), str::to_owned));
        if cursor.next().is_err() {
            return Some(fields);
        }
    }
}

/// Returns a number in any notation, with its billionths.
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

    /// Returns the decimal mark, if the numbers show it.
    pub(super) fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Returns the values of a column; none if a row lacks it.
    fn column(&self, column: usize) -> Vec<&str> {
        let fields = self.rows.iter().map(|row| row.get(column).map(|field| field.trim()));
        fields.collect::<Option<_>>().unwrap_or_default()
    }

    fn decimal(&self, field: &str) -> Option<(u64, u64)> {
        number(field, self.mark.unwrap_or(Mark::Point))
    }

    /// Returns the numbers of a column, with their billionths; `None` if a value is no number.
    fn decimals(&self, column: usize) -> Option<Vec<(u64, u64)>> {
        let fields = self.column(column);
        let numbers = fields.iter().map(|field| self.decimal(field)).collect::<Option<Vec<_>>>();
        numbers.filter(|numbers| !numbers.is_empty())
    }

    /// Returns the numbers of a column; `None` if a value is no whole number.
    pub(super) fn numbers(&self, column: usize) -> Option<Vec<u64>> {
        let decimals = self.decimals(column)?;
        decimals.into_iter().map(|(whole, part)| (part == 0).then_some(whole)).collect()
    }

    /// Returns whether all values are words for operations. F alone may also mean false.
    pub(super) fn is_op(&self, column: usize) -> bool {
        let (words, fields) = (OpWords::usual(), self.column(column));
        let is_word = |field: &&str| words.word(field.as_bytes()).is_some();
        !fields.is_empty() && fields.iter().all(is_word) && !self.may_be_op(column)
    }

    /// Returns whether the values are a pair of words that may mean read and write.
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

    /// Returns what shows that the values of a column are times; `None` if they are none.
    pub(super) fn times(&self, column: usize) -> Option<Times> {
        let fields = self.column(column);
        if !fields.is_empty() && fields.iter().all(|field| date_ns(field.as_bytes()).is_some()) {
            return Some(Times::In("date"));
        }
        let values = self.decimals(column)?;
        let dated = dated_unit(values.first()?.0);
        if let Some(unit) =
            dated.filter(|_| values.iter().all(|value| dated_unit(value.0) == dated))
        {
            return Some(Times::In(unit));
        }
        let is_constant = values.len() > 1 && values.first() == values.last();
        // Numbers of rows are no times.
        let counts = values.windows(2).all(|two| two[1].1 == 0 && two[1].0 == two[0].0 + 1);
        if !values.is_sorted() || is_constant || counts && values.len() > 1 {
            return None;
        }
        let decimals =
            |field: &&str| field.len() - field.find(['.', ',']).unwrap_or(field.len() - 1) - 1;
        let is_fine = fields.iter().all(|field| decimals(field) == NANOSECOND_DECIMALS);
        Some(if is_fine { Times::In("s") } else { Times::Sorted })
    }

    /// Returns whether no time of one column is later than that of the other in its row.
    pub(super) fn precedes(&self, one: usize, other: usize) -> bool {
        let at = |field: &str| match date_ns(field.as_bytes()) {
            Some(ns) => Some((ns, 0)),
            None => self.decimal(field),
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

    /// Returns whether two columns cannot be exchanged: the first has values that are no lengths, and the second has none.
    pub(super) fn is_offset_beside(&self, offset: usize, len: usize) -> bool {
        let [offsets, lens] = [offset, len].map(|column| self.numbers(column).unwrap_or_default());
        let is_long = |numbers: &[u64]| numbers.iter().any(|number| *number > LEN_MAX);
        let has_zero = |numbers: &[u64]| numbers.contains(&0);
        !is_long(&lens) && (is_long(&offsets) || has_zero(&offsets) && !has_zero(&lens))
    }

    /// Returns whether values in steps of 512 are bytes rather than sectors: lengths are too large for sectors, or
    /// there are many values.
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

/// Returns the unit in which a number is a date from 2001 to 2039.
pub(crate) fn dated_unit(count: u64) -> Option<&'static str> {
    // 1601 to 1970, from which Windows counts.
    let epoch_ns =
        |unit: &TimeUnit| if unit.name == "filetime" { 11_644_473_600_000_000_000 } else { 0 };
    let is_date = |unit: &&TimeUnit| {
        let ns = u128::from(count) * u128::from(unit.ns);
        let s = ns.saturating_sub(epoch_ns(unit)) / 1_000_000_000;
        unit.name != "ticks" && (1_000_000_000..2_200_000_000).contains(&s)
    };
    TIME_UNITS.iter().find(is_date).map(|unit| unit.name)
}
