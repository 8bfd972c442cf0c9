//! Interprets the columns that a header line lists, and splits rows into cells.

use std::array;

use crate::fields::digits;
use crate::formats::log::words;
use crate::rows::{RowError, shorten};

/// What a column contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Start,
    End,
    /// The time of day of the completion.
    Clock,
    Name,
    Pid,
    Tid,
    Disk,
    Kind,
    Sector,
    Bytes,
    Queued,
    Latency,
}

/// The tool that printed the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Biosnoop,
    Iosnoop,
    /// `ext4slower` and similar tools, which trace files.
    Fsslower,
}

const COLUMNS: usize = 12;

/// The heading of offsets in KiB, which tools that trace files print.
const OFFSET_KIB: &[u8] = b"OFF_KB";

/// The CSV header that file-system tools print (`xfsslower -j`).
const CSV: &str = "ENDTIME_us,TASK,PID,TYPE,BYTES,OFFSET_b,LATENCY_us,FILE";

/// The columns of [`CSV`].
const CSV_COLUMNS: [Column; 8] = [
    Column::End,
    Column::Name,
    Column::Pid,
    Column::Kind,
    Column::Bytes,
    Column::Sector,
    Column::Latency,
    Column::Disk,
];

/// The heading of latencies in microseconds rather than milliseconds.
const LATENCY_US: &[u8] = b"LAT(us)";

/// The headings of all tools.
const HEADINGS: [(&[u8], Column); 22] = [
    (b"TIME(s)", Column::End),
    (b"TIMESTAMP", Column::Clock),
    (b"TIME", Column::Clock),
    (b"STARTs", Column::Start),
    (b"ENDs", Column::End),
    (b"COMM", Column::Name),
    (b"PID", Column::Pid),
    (b"TID", Column::Tid),
    (b"DISK", Column::Disk),
    (b"DEV", Column::Disk),
    (b"FILENAME", Column::Disk),
    (b"T", Column::Kind),
    (b"TYPE", Column::Kind),
    (b"SECTOR", Column::Sector),
    (b"BLOCK", Column::Sector),
    (OFFSET_KIB, Column::Sector),
    (b"BYTES", Column::Bytes),
    (b"QUE(ms)", Column::Queued),
    (b"LAT(ms)", Column::Latency),
    (b"LATms", Column::Latency),
    (b"QUE(us)", Column::Queued),
    (LATENCY_US, Column::Latency),
];

/// The names of columns in declarations.
const DECLARED: [(Column, &str); 8] = [
    (Column::Name, "name"),
    (Column::Pid, "process"),
    (Column::Tid, "thread"),
    (Column::Disk, "volume"),
    (Column::Kind, "op"),
    (Column::Sector, "offset:sectors"),
    (Column::Bytes, "len"),
    (Column::Latency, "latency:ms"),
];

/// The columns that every header must contain.
const REQUIRED: [Column; 7] = [
    Column::Name,
    Column::Pid,
    Column::Disk,
    Column::Kind,
    Column::Sector,
    Column::Bytes,
    Column::Latency,
];

impl Column {
    pub(super) fn name(self) -> &'static str {
        match self {
            Column::Start => "STARTs",
            Column::End => "end time",
            Column::Clock => "time of day",
            Column::Name => "COMM",
            Column::Pid => "PID",
            Column::Tid => "TID",
            Column::Disk => "disk",
            Column::Kind => "T",
            Column::Sector => "sector",
            Column::Bytes => "BYTES",
            Column::Queued => "queue time",
            Column::Latency => "latency",
        }
    }
}

/// The positions of the columns in a row.
#[derive(Debug)]
pub(super) struct Layout {
    tool: Tool,
    /// Whether the rows are CSV, with times in microseconds and offsets in bytes.
    is_csv: bool,
    /// The unit of latencies as a power of ten in ns: 6 for ms, 3 for us.
    decimals: u32,
    /// The index of each column among all columns in the header.
    places: [Option<usize>; COLUMNS],
    /// The number of columns before the name, which may contain spaces, and the number after it.
    before: usize,
    behind: usize,
    /// The headings of ignored columns, with their positions.
    unread: Vec<(usize, String)>,
}

impl Layout {
    /// Parses a header line. Returns `None` if the line is not a header.
    pub(super) fn of(line: &[u8]) -> Option<Layout> {
        if line.trim_ascii() == CSV.as_bytes() {
            return Layout::of_csv();
        }
        let (mut places, mut count, mut unread) = ([None; COLUMNS], 0, Vec::new());
        let (mut tool, mut decimals) = (Tool::Biosnoop, 6);
        for (place, word) in words(line).enumerate() {
            count += 1;
            match word {
                b"LATms" => tool = Tool::Iosnoop,
                LATENCY_US => decimals = 3,
                word if word == OFFSET_KIB => tool = Tool::Fsslower,
                _ => {}
            }
            let known = HEADINGS.iter().find(|(heading, _)| *heading == word);
            match known {
                Some(&(_, column)) => *places.get_mut(column as usize)? = Some(place),
                None => unread.push((place, shorten(word))),
            }
        }
        let place = |column: Column| places.get(column as usize).copied().flatten();
        let whole = REQUIRED.iter().all(|&column| place(column).is_some());
        let before = place(Column::Name).filter(|_| whole)?;
        let behind = count - before - 1;
        Some(Layout { tool, is_csv: false, decimals, places, before, behind, unread })
    }

    fn of_csv() -> Option<Layout> {
        let mut places = [None; COLUMNS];
        for (place, column) in CSV_COLUMNS.into_iter().enumerate() {
            *places.get_mut(column as usize)? = Some(place);
        }
        let (tool, decimals, behind) = (Tool::Fsslower, 3, CSV_COLUMNS.len() - 2);
        Some(Layout { tool, is_csv: true, decimals, places, before: 1, behind, unread: Vec::new() })
    }

    /// Splits a row of CSV into cells. Commas in the last cell are part of the file name.
    fn csv_cells<'a>(&self, line: &'a [u8]) -> Result<Cells<'a>, RowError> {
        let fields: Vec<&[u8]> =
            line.trim_ascii().splitn(CSV_COLUMNS.len(), |&b| b == b',').collect();
        if fields.len() < CSV_COLUMNS.len() {
            return Err(RowError::new("row", line.trim_ascii(), "a field for each heading"));
        }
        let cell = |place: usize| fields.get(place).copied();
        let cells = array::from_fn(|column| self.places.get(column).copied()?.and_then(cell));
        Ok(Cells { tool: self.tool, is_csv: true, decimals: self.decimals, line, cells })
    }

    /// Returns whether the latency is the last column.
    pub(super) fn ends_with_latency(&self) -> bool {
        let last = Some(self.before + self.behind);
        self.places.get(Column::Latency as usize).copied().flatten() == last
    }

    /// Returns the headings of the columns that are ignored.
    pub(super) fn unread(&self) -> impl Iterator<Item = &str> {
        self.unread.iter().map(|(_, heading)| heading.as_str())
    }

    /// Returns whether an ignored column may contain the times, which are in no other column. It
    /// must precede the names.
    pub(super) fn may_have_time(&self) -> bool {
        let has = |column: Column| self.places.get(column as usize).copied().flatten().is_some();
        let is_timed = has(Column::Start) || has(Column::End) || has(Column::Clock);
        !is_timed && self.unread.iter().any(|(place, _)| *place < self.before)
    }

    /// Returns a declaration of these columns, with the ignored columns declared as times.
    pub(super) fn declaration(&self) -> String {
        let mut words = vec!["_"; self.before + 1 + self.behind];
        for (column, place) in self.places.iter().enumerate() {
            let word = DECLARED.iter().find(|(known, _)| *known as usize == column);
            if let (Some((_, word)), Some(place)) = (word, place) {
                words[*place] = word;
            }
        }
        let latency = self.places.get(Column::Latency as usize).copied().flatten();
        if let Some(place) = latency.filter(|_| self.decimals == 3) {
            words[place] = "latency:us";
        }
        if let Some((place, _)) = self.unread.first() {
            words[*place] = "end:UNIT";
        }
        format!("{},sep=blank,skip=1", words.join(","))
    }

    /// Splits a row into cells. Returns `None` if biosnoop knew neither the process nor the disk.
    pub(super) fn cells<'a>(&self, line: &'a [u8]) -> Result<Option<Cells<'a>>, RowError> {
        if self.is_csv {
            return self.csv_cells(line).map(Some);
        }
        let words: Vec<&[u8]> = words(line).collect();
        let count = words.len();
        let fixed = self.before + self.behind;
        if count == fixed && words.get(self.before) == Some(&&b"?"[..]) {
            return Ok(None);
        }
        if count <= fixed {
            return Err(RowError::new("row", line.trim_ascii(), "a word for each heading"));
        }
        let named = self.named(&words, count - fixed);
        let ends_with_name =
            self.places.get(Column::Disk as usize).copied().flatten() == Some(fixed);
        let cell = |place: usize| match place {
            _ if place == fixed && ends_with_name => span(line, words.get(place + named - 1..)?),
            _ if place < self.before => words.get(place).copied(),
            _ if place == self.before => span(line, words.get(place..place + named)?),
            _ => words.get(place + named - 1).copied(),
        };
        let cells = array::from_fn(|column| self.places.get(column).copied()?.and_then(cell));
        Ok(Some(Cells { tool: self.tool, is_csv: false, decimals: self.decimals, line, cells }))
    }
}

impl Layout {
    /// Returns how many words the process name has, at most `most`. A file name in the last column
    /// may also contain spaces, so the first arrangement with numbers in the right places is used.
    fn named(&self, words: &[&[u8]], most: usize) -> usize {
        let fits = |named: &usize| {
            [Column::Pid, Column::Sector, Column::Bytes].into_iter().all(|column| {
                let place = self.places.get(column as usize).copied().flatten();
                let word = place.and_then(|place| words.get(place + named - 1));
                word.is_some_and(|word| digits(word).is_some())
            })
        };
        match self.tool {
            Tool::Fsslower => (1..=most).find(fits).unwrap_or(most),
            Tool::Biosnoop | Tool::Iosnoop => most,
        }
    }
}

/// Returns the part of a line that contains these words, including the spaces between them.
fn span<'a>(line: &'a [u8], words: &[&'a [u8]]) -> Option<&'a [u8]> {
    let start = words.first()?.as_ptr() as usize - line.as_ptr() as usize;
    let last = words.last()?;
    let end = last.as_ptr() as usize - line.as_ptr() as usize + last.len();
    line.get(start..end)
}

/// The cells of a row.
pub(super) struct Cells<'a> {
    tool: Tool,
    is_csv: bool,
    decimals: u32,
    line: &'a [u8],
    cells: [Option<&'a [u8]>; COLUMNS],
}

impl<'a> Cells<'a> {
    pub(super) fn find(&self, column: Column) -> Option<&'a [u8]> {
        self.cells.get(column as usize).copied().flatten()
    }

    /// Returns the cell of a column that every header contains.
    pub(super) fn get(&self, column: Column) -> &'a [u8] {
        self.find(column).unwrap_or_default()
    }

    /// Returns the unit of latencies as a power of ten in ns.
    pub(super) fn decimals(&self) -> u32 {
        self.decimals
    }

    /// Returns whether the row is CSV, with times in microseconds and offsets in bytes.
    pub(super) fn is_csv(&self) -> bool {
        self.is_csv
    }

    pub(super) fn tool(&self) -> Tool {
        self.tool
    }

    pub(super) fn line(&self) -> &'a [u8] {
        self.line
    }
}
