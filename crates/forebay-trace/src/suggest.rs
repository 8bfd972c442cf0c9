//! Suggests columns for a text whose names and values do not fully determine them.
//!
//! A suggestion is only shown to the user and never used by itself. What cannot be determined is
//! replaced by a placeholder that [`Columns`] rejects (`UNIT`, `WORDS`, `OP`, `BYTES`, `TIME`).
//! Therefore, a suggestion that is used unchanged either reads the text correctly or fails. Columns
//! that a suggestion does not use are listed.
//!
//! [`Columns`]: crate::columns::Columns

mod table;

use crate::columns::notation::Mark;
use crate::rows::LEN_BYTES_MAX;
use table::{LEN_MAX, Times};
pub(crate) use table::{ROWS, Table, dated_unit, fields, is_number};

/// The maximum number of unused columns listed in a note or in a suggestion.
const UNREAD_SHOWN: usize = 5;
const UNREAD_SUGGESTED: usize = 32;

/// A declaration that is being built, and the information that is still missing.
pub(crate) struct Declaration {
    /// The names of the columns, as shown in messages.
    names: Vec<String>,
    /// The role of each column in the declaration, if it has one.
    words: Vec<Option<String>>,
    settings: Vec<String>,
    /// The information that the names of columns do not determine.
    pub(crate) unclear: Vec<String>,
    /// What the user should write in the declaration.
    instead: Vec<String>,
}

impl Declaration {
    pub(crate) fn new(names: Vec<String>) -> Declaration {
        let words = vec![None; names.len()];
        let (settings, unclear, instead) = (Vec::new(), Vec::new(), Vec::new());
        Declaration { names, words, settings, unclear, instead }
    }

    pub(crate) fn put(&mut self, column: usize, word: impl Into<String>) {
        if let Some(place) = self.words.get_mut(column) {
            *place = Some(word.into());
        }
    }

    pub(crate) fn set(&mut self, setting: impl Into<String>) {
        self.settings.push(setting.into());
    }

    /// Adds something that the user should write in the declaration, unless it was added before.
    pub(crate) fn advise(&mut self, instead: impl Into<String>) {
        let instead = instead.into();
        if !self.instead.contains(&instead) {
            self.instead.push(instead);
        }
    }

    /// Returns whether any column has the role `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.column(name).is_some()
    }

    /// Returns the columns that have a role.
    pub(crate) fn read(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().filter(|(_, word)| word.is_some()).map(|(column, _)| column)
    }

    /// Returns the column with the role `name`.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.words
            .iter()
            .position(|word| word.as_ref().is_some_and(|w| w.split(':').next() == Some(name)))
    }

    /// Returns the role of a column, or `_` if it has none.
    pub(crate) fn word(&self, column: usize) -> &str {
        self.words.get(column).and_then(Option::as_deref).unwrap_or("_")
    }

    fn name(&self, column: usize) -> &str {
        self.names.get(column).map_or("a column", String::as_str)
    }

    /// Returns the declaration. The rows of the text follow line `line`.
    pub(crate) fn text(&self, line: u64, separator: Option<&str>) -> String {
        let read = self.words.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let words = self.words.iter().take(read).map(|word| word.as_deref().unwrap_or("_"));
        let settings = self.settings.iter().map(String::as_str).chain(separator);
        let skip = (line > 0).then(|| format!("skip={line}"));
        words.chain(settings).chain(skip.as_deref()).collect::<Vec<_>>().join(",")
    }

    /// Returns what the user should write in the declaration, and which columns the declaration
    /// does not use. May be empty.
    pub(crate) fn advice(&self) -> String {
        let with = if self.instead.is_empty() { "" } else { ", with " };
        let unread = self.unread_up_to(UNREAD_SUGGESTED).map_or(String::new(), |names| {
            format!(
                "; not read: {names} (to read a column, write volume, thread, process, name, flags, latency:UNIT or \
                 end:UNIT in its place)"
            )
        });
        format!("{with}{}{unread}", self.instead.join(" and "))
    }

    /// Returns the names of the columns without a role, if there are any.
    pub(crate) fn unread(&self) -> Option<String> {
        self.unread_up_to(UNREAD_SHOWN)
    }

    fn unread_up_to(&self, most: usize) -> Option<String> {
        let names = self.names.iter().zip(&self.words).filter(|(_, word)| word.is_none());
        let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        let shown = names.get(..most).unwrap_or(&names).join(", ");
        let more = names.len().saturating_sub(most);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| shown + &more)
    }

    /// Describes a row by the role and the value of each column.
    pub(crate) fn shown(&self, row: &[String]) -> String {
        let pairs = self.words.iter().zip(row).filter_map(|(word, value)| {
            let name = word.as_deref()?.split(':').next()?;
            Some(format!("{name} {value}"))
        });
        pairs.collect::<Vec<_>>().join(", ")
    }

    fn open(&self, fits: impl Fn(usize) -> bool) -> Vec<usize> {
        let open = self.words.iter().enumerate().filter(|(_, word)| word.is_none());
        open.map(|(column, _)| column).filter(|&column| fits(column)).collect()
    }

    fn list(&self, columns: &[usize]) -> String {
        let names: Vec<&str> = columns.iter().map(|&column| self.name(column)).collect();
        names.join(" or ")
    }

    /// Assigns missing roles to columns by the values in them.
    pub(crate) fn fill(&mut self, table: &Table) {
        self.fill_op(table);
        self.fill_time(table);
        self.fill_places(table);
        if table.mark() == Some(Mark::Comma) {
            self.set("decimal=comma");
        }
    }

    fn fill_op(&mut self, table: &Table) {
        if self.has("op") {
            return;
        }
        let ops = self.open(|column| table.is_op(column));
        let pairs = self.open(|column| table.may_be_op(column));
        match (ops.as_slice(), pairs.as_slice()) {
            ([column], _) => self.put(*column, "op"),
            ([], [column]) => {
                self.put(*column, "op:WORDS");
                let name = self.name(*column);
                self.advise(format!(
                    "the words of {name} for reads and writes, such as 0/1, for WORDS"
                ));
            }
            ([], []) => {
                self.set("op=OP");
                self.advise("read or write for OP if all requests have the same operation");
            }
            (ops, pairs) => {
                let columns = self.list(if ops.is_empty() { pairs } else { ops });
                self.set("op=OP");
                self.advise(format!("op in place of the _ of {columns} instead of op=OP"));
            }
        }
    }

    fn fill_time(&mut self, table: &Table) {
        if self.has("at") || self.has("end") && self.has("latency") {
            return;
        }
        let places = 2 - usize::from(self.has("offset")) - usize::from(self.has("len"));
        let whole = self.open(|column| table.numbers(column).is_some()).len();
        // Sorted whole numbers may also be offsets or lengths, if there are too few other
        // candidates for offsets and lengths.
        let may_be = |column: usize, times| {
            matches!(times, Times::In(_)) || whole > places || table.numbers(column).is_none()
        };
        let times: Vec<(usize, Times)> = self
            .open(|_| true)
            .into_iter()
            .filter_map(|column| Some((column, table.times(column)?)))
            .filter(|&(column, times)| may_be(column, times))
            .collect();
        let certain: Vec<(usize, &str)> = times
            .iter()
            .filter_map(
                |&(n, times)| if let Times::In(unit) = times { Some((n, unit)) } else { None },
            )
            .collect();
        // If rows contain several times, the arrival is the one that comes first in every row.
        let first = certain.iter().find(|(one, unit)| {
            certain
                .iter()
                .all(|(other, other_unit)| unit == other_unit && table.precedes(*one, *other))
        });
        match (first, certain.as_slice(), times.first()) {
            (Some(&(column, unit)), ..) => self.put(column, format!("at:{unit}")),
            (None, [], Some(&(column, _))) => {
                self.put(column, "at:UNIT");
                self.advise("ns, us, ms or s for the UNIT of at");
            }
            (None, [], None) => {
                self.set("every=TIME");
                self.advise("the time between requests, such as 1ms, for TIME");
            }
            (None, columns, _) => {
                let columns: Vec<usize> = columns.iter().map(|(column, _)| *column).collect();
                self.set("every=TIME");
                let columns = self.list(&columns);
                self.advise(format!(
                    "at:UNIT in place of the _ of {columns} instead of every=TIME"
                ));
            }
        }
    }

    /// Assigns the roles of offset and length.
    fn fill_places(&mut self, table: &Table) {
        let Some(offset) = self.column("offset").or_else(|| self.offset(table)) else { return };
        let is_len = |column: usize| {
            column != offset
                && table.numbers(column).is_some_and(|lens| {
                    lens.iter().all(|len| *len <= LEN_BYTES_MAX) && lens.iter().any(|len| *len > 0)
                })
        };
        let mut lens = self.open(|column| is_len(column) && table.is_in_steps(column));
        if lens.is_empty() {
            lens = self.open(is_len);
        }
        let is_known = self.has("offset");
        let is_sure = match lens.as_slice() {
            [len] => {
                table.is_in_bytes(offset, *len)
                    && (is_known || table.is_offset_beside(offset, *len))
            }
            _ => false,
        };
        if !is_known {
            let is_sure = is_sure && table.is_in_steps(offset);
            self.put_bytes(offset, "offset", is_sure);
        }
        match lens.as_slice() {
            _ if self.has("len") => {}
            [len] => self.put_bytes(*len, "len", is_sure),
            lens => {
                self.set("len=BYTES");
                let columns = self.list(lens);
                self.advise(match lens {
                    [] => "the bytes of each request for BYTES".to_owned(),
                    _ => format!("len:UNIT in place of the _ of {columns} instead of len=BYTES"),
                });
            }
        }
    }

    /// Returns the column that is most likely the offset: the one with the largest values, unless
    /// it is constant and another column contains 0. If all columns may be lengths, it is the one
    /// that contains 0 or, failing that, the first of the largest.
    fn offset(&self, table: &Table) -> Option<usize> {
        let numbers = |column: usize| table.numbers(column).unwrap_or_default();
        let steps = self.open(|column| table.is_in_steps(column));
        let all = self.open(|column| !numbers(column).is_empty());
        let pool = if steps.len() > 1 { steps } else { all.clone() };
        let largest = pool.into_iter().max_by_key(|&column| {
            let values = numbers(column);
            let most = values.iter().copied().max();
            (most > Some(LEN_MAX), values.contains(&0), most, std::cmp::Reverse(column))
        })?;
        let is_all = |column: usize, value: u64| numbers(column).iter().all(|one| *one == value);
        let zeros: Vec<usize> = all.into_iter().filter(|&column| is_all(column, 0)).collect();
        match zeros.as_slice() {
            [zero] if is_all(largest, numbers(largest)[0]) => Some(*zero),
            _ => Some(largest),
        }
    }

    /// Declares a column as an offset or a length, in bytes if that is certain.
    fn put_bytes(&mut self, column: usize, word: &str, is_sure: bool) {
        self.put(column, if is_sure { word.to_owned() } else { format!("{word}:UNIT") });
        if !is_sure {
            self.advise(LENGTH_UNITS);
        }
    }
}

/// The advice about the units of offsets and lengths.
pub(crate) const LENGTH_UNITS: &str =
    "bytes, sectors (512 bytes), pages (4096) or blocks:BYTES for the UNIT of offsets and lengths";
