//! Text formats that consist of a declaration of [`Columns`]. Each is an entry in
//! [`crate::formats::FORMATS`].
//!
//! A declaration states columns, units and epoch. Arrival times are converted to be relative to the
//! first request. Rows of zero length are skipped and counted. Columns after the declared ones are
//! ignored.
//!
//! DiskSim's default ASCII format (`time device blkno size flags`) has no fixed unit. The same
//! columns are written in ms by DiskSim, in ns for MQSim and SSDsim, in us by others, and with
//! bytes instead of sectors. Times with decimals are assumed to be in ms, and integers in ns;
//! [`crate::units`] rejects results that are impossible.

use crate::columns::cursor::Cursor;
use crate::columns::cursor::Separator;
use crate::columns::name_words;
use crate::columns::plan::Plan;
use crate::columns::reader::{ColumnReader, Header};
use crate::columns::spec::Columns;
use crate::formats::Input;
use crate::order::Ordered;
use crate::{Reader, TraceError};
use forebay_ask::named;

/// A format that consists of a declaration of columns.
pub struct Preset {
    /// The columns, in the syntax of `--columns`.
    pub columns: &'static str,
    /// The names of the columns in the format itself.
    pub(super) titles: &'static str,
    /// How rows are recognized, beyond being readable.
    pub(super) recognition: Recognition,
    /// The size of a block, if the format counts in blocks.
    pub(super) block_bytes: Option<u32>,
    /// Notes for the user about every trace in the format.
    pub(super) warnings: &'static [&'static str],
}

/// How the rows of a format are distinguished from others that can be read too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Recognition {
    /// Rows have the declared columns, and possibly more.
    OrLonger,
    /// Rows have exactly the declared columns.
    Exact,
    /// A header precedes the rows.
    Titled,
    /// Rows have the declared columns, and the first value is a number with decimals.
    DecimalFirst,
    /// Rows have the declared columns, and all values are integers.
    Whole,
    /// Rows are never recognized, so the user must name the format.
    Named,
}

/// The names of columns in DiskSim and in formats derived from it.
pub(super) const DISKSIM_TITLES: &str = "time,device,blkno,size,flags";

/// Opens a text whose columns were declared by the user.
pub(crate) fn open_columns(columns: &Columns, input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let hint = format!("the columns were declared as {columns}");
    let path = &input.path;
    let reader = ColumnReader::new(path, input.content, columns, Header::Guessed, "columns", hint);
    let (splits, reader) = (input.split_runs, reader.bad_rows(input.bad_rows_max));
    Ok(Box::new(Ordered::new(reader).splitting_runs(splits)))
}

impl Preset {
    /// A declaration without columns, to be completed, of rows that have exactly these columns.
    pub(super) const EXACT: Preset = Preset {
        columns: "",
        titles: "",
        recognition: Recognition::Exact,
        block_bytes: None,
        warnings: &[],
    };

    /// Returns whether the format can be recognized by its column names, because no other format
    /// has them.
    pub(super) fn has_own_titles(&self) -> bool {
        matches!(self.recognition, Recognition::OrLonger | Recognition::Exact | Recognition::Titled)
    }

    /// Returns whether the format can be recognized by its rows.
    #[cfg(test)]
    pub(super) fn is_recognized_by_rows(&self) -> bool {
        !matches!(self.recognition, Recognition::Titled | Recognition::Named)
    }

    /// Returns the names of the columns in the format itself.
    pub(super) fn titles(&self) -> impl Iterator<Item = &'static str> {
        self.titles.split(',')
    }

    /// Returns the declaration of each column.
    pub(super) fn words(&self) -> impl Iterator<Item = &'static str> {
        self.columns.split(',').filter(|word| !word.contains('='))
    }

    /// Returns whether `head` looks like this format, which is the case if one of its first lines
    /// does. The very first line alone does not decide, because if it is damaged, the format should
    /// report that.
    pub(super) fn sniff(&self, head: &[u8]) -> bool {
        let Some(columns) = self.declared() else { return false };
        if self.recognition == Recognition::Named {
            return false;
        }
        let mut plan = Plan::new(&columns);
        let mut dictionary = plan.dictionary();
        let separator = columns.separator.unwrap_or(Separator::Blanks);
        let lines = head.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
        for (number, line) in lines.take(4).enumerate() {
            let text = [line, b"\n"].concat();
            let begun = Cursor::new(&text, separator);
            if self.recognition == Recognition::Titled {
                return number == 0 && plan.is_titled(&begun) && plan.fits(&begun);
            }
            let mut reads =
                |row: &[u8]| plan.row(&mut Cursor::new(row, separator), &mut dictionary).is_ok();
            if !reads(&text)
                && name_words::quoted(line, &columns, separator).iter().any(|row| reads(row))
            {
                return true;
            }
            let reads = reads(&text);
            let first = line.trim_ascii_start().split(|&b| b <= b' ').next().unwrap_or_default();
            let looks = match self.recognition {
                Recognition::OrLonger => true,
                Recognition::DecimalFirst => plan.fits(&begun) && first.contains(&b'.'),
                Recognition::Whole => {
                    plan.fits(&begun)
                        && line.iter().all(|&b| b.is_ascii_digit() || b.is_ascii_whitespace())
                }
                Recognition::Exact | Recognition::Titled | Recognition::Named => plan.fits(&begun),
            };
            if reads && looks {
                return true;
            }
        }
        false
    }

    /// Returns the number of columns if the first lines of `head` would be rows of this format but
    /// for additional columns at their end. Only formats whose rows must have exactly the declared
    /// columns are considered.
    pub(crate) fn columns_read(&self, head: &[u8]) -> Option<usize> {
        let columns = self.declared()?;
        let is_decimal = match self.recognition {
            Recognition::DecimalFirst => true,
            Recognition::Whole => false,
            _ => return None,
        };
        let mut plan = Plan::new(&columns);
        let mut dictionary = plan.dictionary();
        let separator = columns.separator?;
        let mut reads = |line: &[u8]| {
            let text = [line, b"\n"].concat();
            let first = line.trim_ascii_start().split(|&b| b <= b' ').next().unwrap_or_default();
            first.contains(&b'.') == is_decimal
                && plan.row(&mut Cursor::new(&text, separator), &mut dictionary).is_ok()
        };
        let lines = head.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
        lines.take(4).all(&mut reads).then_some(columns.roles.len())
    }

    /// Opens a trace in this format. `name` is the name of the format.
    pub(super) fn open(
        &self,
        name: &'static str,
        input: Input,
    ) -> Result<Box<dyn Reader>, TraceError> {
        let Some(columns) = self.declared() else {
            return Err(crate::open::unknown_format(&input.path, name));
        };
        let hint = format!(
            "format {} has the columns {}; if this is a different format, specify it with {} or {}",
            name,
            self.titles,
            named("from"),
            named("columns")
        );
        let mut reader =
            ColumnReader::new(&input.path, input.content, &columns, Header::Preset, name, hint);
        if columns.every_ns.is_some() {
            reader = reader.timeless();
        }
        if let Some(bytes) = self.block_bytes {
            reader = reader.in_blocks(bytes);
        }
        for warning in self.warnings {
            reader = reader.warn(*warning);
        }
        let (splits, reader) = (input.split_runs, reader.bad_rows(input.bad_rows_max));
        Ok(Box::new(Ordered::new(reader).splitting_runs(splits)))
    }

    /// Returns whether a line is a header with the format's own column names.
    pub(crate) fn is_titled(&self, line: &[u8]) -> bool {
        let Ok(line) = std::str::from_utf8(line) else { return false };
        let mut names = line.split(',').map(|name| name.trim().trim_matches('"'));
        let mut own = self.titles.split(',');
        // The header may be a comment.
        let plain = |name: &str| name.trim_start_matches('#').to_ascii_lowercase();
        own.all(|title| names.next().is_some_and(|name| plain(name) == plain(title)))
    }

    /// Returns the declared columns. A test checks that the declaration is valid.
    fn declared(&self) -> Option<Columns> {
        Some(self.columns.parse::<Columns>().ok()?.titled(self.titles))
    }
}

#[cfg(test)]
mod tests;
