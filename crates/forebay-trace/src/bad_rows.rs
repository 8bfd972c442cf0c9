//! Counts rows that cannot be read. Readers of all formats skip such rows and list the first of
//! them in a note. If their share exceeds a limit ([`BadRows::new`]), this is an error. A single
//! unreadable row is never an error, unless no row at all can be read.

use std::fmt;
use std::str::FromStr;

use crate::{Notes, Record, TraceError};
use forebay_ask::{Takes, Value, named};
use forebay_words::plural::{counted, verb};

/// The maximum share of unreadable rows: 0 to 1, or written as a percentage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadRowsMax(f64);

impl BadRowsMax {
    /// No unreadable rows are permitted: the first one is an error.
    pub const NONE: BadRowsMax = BadRowsMax(0.0);
}

impl Default for BadRowsMax {
    fn default() -> BadRowsMax {
        BadRowsMax(0.01)
    }
}

impl fmt::Display for BadRowsMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for BadRowsMax {
    type Err = String;

    fn from_str(text: &str) -> Result<BadRowsMax, String> {
        let number = text.trim();
        let share = match number.strip_suffix('%') {
            Some(percent) => percent.trim_end().parse().map(|percent: f64| percent / 100.0),
            None => number.parse(),
        };
        let share = share.ok().filter(|share| (0.0..=1.0).contains(share)).map(BadRowsMax);
        share.ok_or_else(|| format!("got '{text}', expected a share of 0 to 1, such as 1% or 0.01"))
    }
}

/// The number of unreadable rows to list in a note.
const SHOWN: usize = 3;
/// The number of unreadable rows from which their share is checked before the end of the file.
const EARLY: u64 = 100;

impl Value for BadRowsMax {
    const WORD: &'static str = "SHARE";
    const TAKES: Takes = Takes::Number;
    const PYTHON: &'static str = "str | float";

    fn parse(text: &str) -> Result<BadRowsMax, String> {
        text.parse()
    }

    fn number(&self) -> Option<f64> {
        Some(self.0)
    }
}

/// Counts the unreadable rows of a file.
#[derive(Debug)]
pub(crate) struct BadRows {
    share_max: BadRowsMax,
    count: u64,
    /// The first unreadable rows: the place, the problem and the expected content of each.
    shown: Vec<[String; 3]>,
    first: Option<TraceError>,
}

impl BadRows {
    /// Creates a counter for a file in which at most `share_max` of the rows may be unreadable.
    pub(crate) fn new(share_max: BadRowsMax) -> BadRows {
        BadRows { share_max, count: 0, shown: Vec::new(), first: None }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether the first unreadable row is an error.
    pub(crate) fn is_strict(&self) -> bool {
        self.share_max == BadRowsMax::NONE
    }

    /// Counts an unreadable row. `read` is the number of readable rows so far.
    ///
    /// # Errors
    /// Fails if there are too many unreadable rows.
    #[cold]
    pub(crate) fn add(
        &mut self,
        read: u64,
        error: impl FnOnce() -> TraceError,
    ) -> Result<(), TraceError> {
        self.add_several(1, error)?;
        if self.count >= EARLY && self.is_too_many(read) { Err(self.refusal(read)) } else { Ok(()) }
    }

    /// Handles the result of reading a record of a binary file: a request, another record that is
    /// skipped, or an error. `read` is the number of readable records so far.
    ///
    /// # Errors
    /// Fails if there are too many unreadable records.
    pub(crate) fn take(
        &mut self,
        record: Result<Option<Record>, TraceError>,
        read: &mut u64,
        notes: &mut Notes,
        batch: &mut Vec<Record>,
    ) -> Result<(), TraceError> {
        match record {
            Ok(Some(record)) => batch.push(record),
            Ok(None) => notes.rows_skipped += 1,
            Err(error) => {
                notes.rows_bad += 1;
                return self.add(*read, || error);
            }
        }
        *read += 1;
        Ok(())
    }

    /// Counts several unreadable rows in one place. Their share is checked at the end of the file,
    /// because such a place may be anywhere.
    ///
    /// # Errors
    /// Fails if every row must be readable.
    #[cold]
    pub(crate) fn add_several(
        &mut self,
        count: u64,
        error: impl FnOnce() -> TraceError,
    ) -> Result<(), TraceError> {
        self.count += count;
        if self.is_strict() {
            return Err(error());
        }
        if self.shown.len() < SHOWN {
            let error = error();
            self.shown.extend(error.parts());
            self.first.get_or_insert(error);
        }
        Ok(())
    }

    /// Returns the note about unreadable rows at the end of a file with `read` readable rows.
    ///
    /// # Errors
    /// Fails if there are too many unreadable rows.
    pub(crate) fn finish(&mut self, read: u64) -> Result<Option<String>, TraceError> {
        if self.count == 0 {
            return Ok(None);
        }
        if read == 0 || self.count > 1 && self.is_too_many(read) {
            return Err(self.refusal(read));
        }
        let (count, shown) = (std::mem::take(&mut self.count), std::mem::take(&mut self.shown));
        let more = count - shown.len() as u64;
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        Ok(Some(format!(
            "{} cannot be read and {} left out: {}{more}",
            counted(count, "row"),
            verb(count, "is", "are"),
            described(&shown).join("; ")
        )))
    }

    fn is_too_many(&self, read: u64) -> bool {
        self.count as f64 > (read + self.count) as f64 * self.share_max.0
    }

    /// Creates the error about too many unreadable rows, which refers to the first of them.
    fn refusal(&mut self, read: u64) -> TraceError {
        let rows = self.count + read;
        let told = match described(&self.shown).get(1..) {
            Some(others) if !others.is_empty() => format!("; also {}", others.join("; ")),
            _ => String::new(),
        };
        let told = match (read, rows) {
            (0, 1) => "no row can be read".into(),
            (0, _) => format!("none of the first {rows} rows can be read{told}"),
            _ => format!(
                "{} of the first {} cannot be read; at most {} % (and always one row) is \
                 skipped{told}; to leave them out, use {}",
                self.count,
                counted(rows, "row"),
                (self.share_max.0 * 1e6).round() / 1e4,
                named(&format!("bad_rows={}%", percent_needed(self.count, rows)))
            ),
        };
        let first = self.first.take();
        first.map_or_else(TraceError::no_row, |error| error.with_hint(&told))
    }
}

/// Returns the lowest percentage that permits `count` of `rows` rows.
fn percent_needed(count: u64, rows: u64) -> u64 {
    (count * 100).div_ceil(rows)
}

/// Describes unreadable rows. The expected content is omitted where it is the same as for the first
/// row.
fn described(rows: &[[String; 3]]) -> Vec<String> {
    let first = rows.first().map(|[_, _, expected]| expected);
    let one = |(at, [place, got, expected]): (usize, &[String; 3])| match Some(expected) == first {
        true if at > 0 => format!("{place} (got {got})"),
        _ => format!("{place} (got {got}, expected {expected})"),
    };
    rows.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;
    use forebay_ask::{Spelling, spelled};

    fn error(line: u64) -> TraceError {
        TraceError::Malformed {
            path: "t".into(),
            place: Place::Line(line),
            got: format!("\"x{line}\""),
            expected: "a number".into(),
            hint: "is it one?".into(),
        }
    }

    fn told(share: f64, bad: u64, rows: u64) -> Result<Option<String>, String> {
        let mut counter = BadRows::new(BadRowsMax(share));
        let told = |error: TraceError| error.to_string();
        (1..=bad).try_for_each(|line| counter.add(rows - bad, || error(line))).map_err(told)?;
        counter.finish(rows - bad).map_err(told)
    }

    #[test]
    fn a_few_bad_rows_are_left_out_and_more_are_an_error() {
        assert_eq!(told(0.01, 0, 10), Ok(None));
        let one = "1 row cannot be read and is left out: line 1 (got \"x1\", expected a number)";
        assert_eq!(told(0.01, 1, 2), Ok(Some(one.into())));
        let many = told(0.01, 5, 500).unwrap().unwrap();
        assert!(many.starts_with("5 rows cannot be read and are left out: line 1 (got"), "{many}");
        assert!(many.ends_with("; line 3 (got \"x3\"); and 2 more"), "{many}");
        for (bad, rows) in [(2, 199), (6, 500), (200, 400)] {
            let refused = told(0.01, bad, rows).unwrap_err();
            assert!(refused.starts_with("t, line 1: got \"x1\", expected a number; "), "{refused}");
            let early = bad.min(EARLY);
            let count = format!("; {early} of the first {} row", rows - bad + early);
            let limit = " cannot be read; at most 1 % (and always one row) is skipped";
            assert!(refused.contains(&count) && refused.contains(limit), "{refused}");
            assert!(refused.ends_with("; is it one?"), "{refused}");
        }
        for (bad, rows, needed) in [(2, 199, 2), (6, 500, 2), (30, 200, 15), (1, 2, 50)] {
            let share = if bad == 1 { 0.0 } else { 0.01 };
            let refused = told(share, bad, rows).unwrap_err();
            let advice = spelled(&refused, Spelling::Command);
            assert_eq!(
                advice.contains(&format!("use --bad-rows {needed}%; ")),
                bad > 1,
                "{advice}"
            );
            assert!(told(needed as f64 / 100.0, bad, rows).is_ok());
        }
        for bad in [1, 3, 150] {
            let refused = told(0.01, bad, bad).unwrap_err();
            let none = if bad == 1 { "; no row can be read; " } else { "; none of the first " };
            assert!(refused.contains(none), "{refused}");
            assert!(!refused.contains("bad"), "{refused}");
        }
        assert!(told(0.0, 1, 1000).unwrap_err().ends_with("expected a number; is it one?"));
        assert!(told(1.0, 300, 400).unwrap().unwrap().contains("and 297 more"));
    }
}
