//! Text formats that are a declaration of [`Columns`]: one entry each in [`crate::formats::FORMATS`].
//!
//! Each declaration states columns, units and epoch; arrivals are made relative to the first request. Rows
//! of zero length are skipped and counted. Columns behind the declared ones are not read.
//!
//! DiskSim's default ASCII format (`time device blkno size flags`) has no fixed unit: the same
//! columns are written in ms by DiskSim, in ns for MQSim and SSDsim, in us by others, and with
//! bytes instead of sectors. Times with decimals are assumed to be ms and integers ns;
//! [`crate::units`] rejects impossible results.

use crate::columns::cursor::Cursor;
use crate::columns::cursor::Separator;
use crate::columns::plan::Plan;
use crate::columns::reader::{ColumnReader, Header};
use crate::columns::spec::Columns;
use crate::error::TraceError;
use crate::formats::Input;
use crate::order::Ordered;
use crate::trace::Reader;
use forebay_ask::named;

/// A format that consists of a declaration of columns.
pub struct Preset {
    /// Its columns, in the syntax of `--columns`.
    pub columns: &'static str,
    /// The format's own names for its columns.
    pub(super) titles: &'static str,
    /// How its rows are recognized, in addition to being readable.
    pub(super) looks: Looks,
    /// The size of its blocks, if it counts in blocks.
    pub(super) block_bytes: Option<u32>,
    /// Notes for the user about every trace of the format.
    pub(super) warnings: &'static [&'static str],
}

/// How the rows of a format are distinguished from others that are also readable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    /// By the declared columns, and possibly more.
    OrLonger,
    /// By exactly the declared columns.
    Exact,
    /// By a header.
    Titled,
    /// By the declared columns, the first of which is a number with decimals.
    DecimalFirst,
    /// By the declared columns, all of which are integers.
    Whole,
    /// Never; the format must be specified.
    Named,
}

/// The columns of DiskSim and of what took them over.
pub(super) const DISKSIM_TITLES: &str = "time,device,blkno,size,flags";

/// Opens a text whose columns the user declares.
pub(crate) fn open_columns(columns: &Columns, input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let hint = format!("the columns were declared as {columns}");
    let path = &input.path;
    let reader = ColumnReader::new(path, input.content, columns, Header::Guessed, "columns", hint);
    let (splits, reader) = (input.split_runs, reader.bad_rows(input.bad_rows_max));
    Ok(Box::new(Ordered::new(reader).splitting_runs(splits)))
}

impl Preset {
    /// Returns whether its names of columns identify it: no other format has them.
    pub(super) fn has_own_titles(&self) -> bool {
        matches!(self.looks, Looks::OrLonger | Looks::Exact | Looks::Titled)
    }

    /// Returns whether its rows are enough to recognize it.
    #[cfg(test)]
    pub(super) fn is_recognized_by_rows(&self) -> bool {
        !matches!(self.looks, Looks::Titled | Looks::Named)
    }

    /// Returns the format's names for its columns.
    pub(super) fn titles(&self) -> impl Iterator<Item = &'static str> {
        self.titles.split(',')
    }

    /// Returns how each column is declared.
    pub(super) fn words(&self) -> impl Iterator<Item = &'static str> {
        self.columns.split(',').filter(|word| !word.contains('='))
    }

    /// Returns whether `head` looks like rows of this format: one of its first lines does. A
    /// damaged first line shall be reported by the format, so it does not decide.
    pub(super) fn sniff(&self, head: &[u8]) -> bool {
        let Some(columns) = self.declared() else { return false };
        if self.looks == Looks::Named {
            return false;
        }
        let mut plan = Plan::new(&columns);
        let mut dictionary = plan.dictionary();
        let separator = columns.separator.unwrap_or(Separator::Blanks);
        let lines = head.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
        for (number, line) in lines.take(4).enumerate() {
            let text = [line, b"\n"].concat();
            let mut cursor = Cursor::new(&text, separator);
            let begun = cursor;
            if self.looks == Looks::Titled {
                return number == 0 && plan.is_titled(&begun) && plan.fits(&begun);
            }
            let reads = plan.row(&mut cursor, &mut dictionary).is_ok();
            let first = line.trim_ascii_start().split(|&b| b <= b' ').next().unwrap_or_default();
            let looks = match self.looks {
                Looks::OrLonger => true,
                Looks::DecimalFirst => plan.fits(&begun) && first.contains(&b'.'),
                Looks::Whole => {
                    plan.fits(&begun)
                        && line.iter().all(|&b| b.is_ascii_digit() || b.is_ascii_whitespace())
                }
                Looks::Exact | Looks::Titled | Looks::Named => plan.fits(&begun),
            };
            if reads && looks {
                return true;
            }
        }
        false
    }

    /// Opens a trace of this format, which is called `name`.
    pub(super) fn open(
        &self,
        name: &'static str,
        input: Input,
    ) -> Result<Box<dyn Reader>, TraceError> {
        let Some(columns) = self.declared() else {
            return Err(crate::open::unknown(&input.path, name));
        };
        let hint = format!(
            "format {} has the columns {}; if this is another format, name it with {} or {}",
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

    /// Returns whether a line is the header with its own names.
    pub(crate) fn is_titled(&self, line: &[u8]) -> bool {
        let Ok(line) = std::str::from_utf8(line) else { return false };
        let mut names = line.split(',').map(|name| name.trim().trim_matches('"'));
        let mut own = self.titles.split(',');
        own.all(|title| names.next().is_some_and(|name| name.eq_ignore_ascii_case(title)))
    }

    /// Returns its columns; a test checks that they are valid.
    fn declared(&self) -> Option<Columns> {
        Some(self.columns.parse::<Columns>().ok()?.titled(self.titles))
    }
}

#[cfg(test)]
mod tests;
