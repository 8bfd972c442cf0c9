//! Helps with text of no known format: guesses the columns from the first rows, for the user to correct.
//!
//! A guess is only shown, never used. Operations are recognized by their words, times by their order and size,
//! lengths and offsets by their size and their multiples.

use forebay_ask::named;
use forebay_core::Op;

use crate::columns::Columns;
use crate::columns::cursor::{Cursor, Separator};
use crate::columns::op_words::OpWords;
use crate::columns::plan::Plan;
use crate::fields::{decimal_or_power, digits};
use crate::rows::LEN_BYTES_MAX;
use crate::trace::Record;
use forebay_show::quantities;

/// The number of rows that are examined, and of those that are shown.
const ROWS: usize = 50;
const SHOWN: usize = 3;
/// The separators that are tried, and how a declaration names them.
const SEPARATORS: [(Separator, &str); 5] = [
    (Separator::Byte(b'\t'), "tab"),
    (Separator::Byte(b';'), "semicolon"),
    (Separator::Byte(b'|'), "bar"),
    (Separator::Byte(b','), "comma"),
    (Separator::Blanks, "blank"),
];
/// What other files that people have begin with, and what to do.
const OTHERS: [(&str, &str, &str); 4] = [
    (
        "<Results>",
        "the results of diskspd, which contain no requests, only totals",
        "record the requests meanwhile, with Windows Performance Recorder, and export its disk table",
    ),
    (
        "Histogram: ",
        "histograms of vscsiStats -p, which contain no requests",
        "record a command trace with vscsiStats -t",
    ),
    (
        "\"fio version\"",
        "the results of fio, which contain no requests, only totals",
        "record a log with write_iolog, or with write_lat_log and log_offset=1",
    ),
    (
        "%util",
        "the output of iostat, which contains no requests, only rates",
        "forebay plan volume --from-counters reads counters; record requests with forebay capture or blktrace",
    ),
];

/// Returns what content is that has no requests, and what to do instead.
pub(super) fn of_totals(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let begin = head.get(..4096).unwrap_or(head);
    let has = |word: &str| memchr::memmem::find(begin, word.as_bytes()).is_some();
    OTHERS.into_iter().find(|(word, ..)| has(word)).map(|(_, what, instead)| (what, instead))
}

/// Returns a hint with the columns of a text as they seem to be, and how its first rows are read with them.
pub(super) fn hint(head: &[u8]) -> Option<String> {
    let columns: Columns = declaration(head)?.parse().ok()?;
    let rows = understood(head, &columns)?;
    Some(format!(
        "if {rows}, use {}; otherwise correct the columns (_ skips one)",
        named(&format!("columns={columns}"))
    ))
}

/// Returns the lines that may be rows, with their numbers.
fn lines(head: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let lines = (1..).zip(whole.split(|&byte| byte == b'\n'));
    lines.filter(|(_, line)| !line.trim_ascii().is_empty() && !line.starts_with(b"#")).take(ROWS)
}

fn fields(line: &[u8], separator: Separator) -> Option<Vec<String>> {
    let line = [line.trim_ascii_end(), b"\n"].concat();
    let (mut cursor, mut fields) = (Cursor::new(&line, separator), Vec::new());
    cursor.first();
    loop {
        fields.push(std::str::from_utf8(cursor.field().ok()?).ok()?.to_owned());
        if cursor.next().is_err() {
            return Some(fields);
        }
    }
}

/// Guesses the declaration of the columns.
fn declaration(head: &[u8]) -> Option<String> {
    let (word, table) = SEPARATORS.into_iter().find_map(|(separator, word)| {
        let rows: Vec<Vec<String>> =
            lines(head).map(|(_, line)| fields(line, separator)).collect::<Option<_>>()?;
        let columns = rows.last()?.len();
        let even = rows.iter().filter(|row| row.len() == columns).count();
        (columns >= 4 && even * 10 >= rows.len() * 9).then_some((word, rows))
    })?;
    let has_number =
        |row: &Vec<String>| row.iter().any(|field| decimal_or_power(field.as_bytes()).is_some());
    let skipped = lines(head).zip(&table).take_while(|(_, row)| !has_number(row)).last();
    let skip = skipped.map_or(0, |((number, _), _)| number);
    let rows: Vec<&Vec<String>> = table.iter().skip_while(|row| !has_number(row)).collect();
    let mut guess = Guess::of(&rows)?;
    guess.settings.push(format!("sep={word}"));
    if skip > 0 {
        guess.settings.push(format!("skip={skip}"));
    }
    Some(guess.text())
}

/// Columns as they seem to be.
struct Guess {
    words: Vec<Option<String>>,
    settings: Vec<String>,
}

impl Guess {
    fn of(rows: &[&Vec<String>]) -> Option<Guess> {
        let count = rows.first()?.len();
        let column = |n: usize| -> Vec<&str> {
            rows.iter().filter_map(|row| row.get(n)).map(String::as_str).collect()
        };
        let mut guess = Guess { words: vec![None; count], settings: Vec::new() };
        guess.put((0..count).find(|&n| is_op(&column(n))), "op".into());
        let moments = (0..count).filter(|&n| guess.is_open(n));
        let moments = moments.filter_map(|n| Some((n, time(&column(n))?)));
        // Sorted whole numbers may also be offsets.
        let is_weak = |n: usize, unit: &str| unit == "us" && is_small(rows, n);
        let moment = moments.min_by_key(|(n, unit)| (is_weak(*n, unit), *n));
        let is_number =
            |n: &usize| column(*n).iter().all(|field| digits(field.as_bytes()).is_some());
        let moment = moment
            .filter(|(n, unit)| !is_weak(*n, unit) || (0..count).filter(is_number).count() > 2);
        if let Some((n, unit)) = moment {
            guess.put(Some(n), format!("at:{unit}"));
        }
        let numbers = |n: usize| {
            column(n).iter().map(|field| digits(field.as_bytes())).collect::<Option<Vec<u64>>>()
        };
        let numeric: Vec<(usize, Vec<u64>)> = (0..count)
            .filter(|&n| guess.is_open(n))
            .filter_map(|n| Some((n, numbers(n)?)))
            .collect();
        let most = |values: &Vec<u64>| values.iter().copied().max().unwrap_or(0);
        let (offset, places) = numeric.iter().max_by_key(|(_, values)| most(values))?;
        let whole = |values: &Vec<u64>| values.iter().all(|value| value.is_multiple_of(512));
        guess.put(Some(*offset), if whole(places) { "offset" } else { "offset:sectors" }.into());
        let is_len = |(n, values): &&(usize, Vec<u64>)| {
            n != offset && values.iter().all(|&value| value > 0 && value <= LEN_BYTES_MAX)
        };
        let len = numeric.iter().filter(is_len).max_by_key(|(n, values)| {
            (whole(values), *n > *offset, std::cmp::Reverse(n.abs_diff(*offset)))
        })?;
        guess.put(Some(len.0), if whole(&len.1) { "len" } else { "len:sectors" }.into());
        if guess.words.iter().flatten().all(|word| !word.starts_with("op")) {
            let flags = numeric
                .iter()
                .find(|(n, values)| guess.is_open(*n) && values.iter().all(|&value| value < 2));
            match flags {
                Some((n, _)) => guess.put(Some(*n), "op:0/1".into()),
                None => guess.settings.push("op=read".into()),
            }
        }
        if moment.is_none() {
            guess.settings.push("every=1ms".into());
        }
        Some(guess)
    }

    fn is_open(&self, column: usize) -> bool {
        self.words.get(column).is_some_and(Option::is_none)
    }

    fn put(&mut self, column: Option<usize>, word: String) {
        if let Some(place) = column.and_then(|column| self.words.get_mut(column)) {
            *place = Some(word);
        }
    }

    fn text(&self) -> String {
        let read = self.words.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let words = self.words.iter().take(read).map(|word| word.as_deref().unwrap_or("_"));
        words.chain(self.settings.iter().map(String::as_str)).collect::<Vec<_>>().join(",")
    }
}

/// Returns whether no number of a column is as large as the microseconds of a date.
fn is_small(rows: &[&Vec<String>], column: usize) -> bool {
    let number = |row: &&Vec<String>| row.get(column).and_then(|field| digits(field.as_bytes()));
    rows.iter().filter_map(number).all(|number| number < 1_000_000_000_000_000)
}

fn is_op(column: &[&str]) -> bool {
    let words = OpWords::usual();
    !column.is_empty() && column.iter().all(|field| words.word(field.as_bytes()).is_some())
}

/// Returns the likely unit of a column of times; `None` if it is none.
fn time(column: &[&str]) -> Option<&'static str> {
    if column.iter().all(|field| crate::columns::date_ns(field.as_bytes()).is_some()) {
        return Some("date");
    }
    let values: Vec<(u64, u64)> =
        column.iter().map(|field| decimal_or_power(field.as_bytes())).collect::<Option<_>>()?;
    let has_decimals = values.iter().any(|(_, billionths)| *billionths > 0);
    if !values.is_sorted() || values.first() == values.last() && values.len() > 1 {
        return None;
    }
    Some(match values.first()?.0 {
        1_000_000_000_000_000_000.. => "ns",
        100_000_000_000_000_000.. => "filetime",
        1_000_000_000_000_000.. => "us",
        1_000_000_000_000.. => "ms",
        _ if has_decimals => "s",
        1_000_000_000..4_000_000_000 => "s",
        _ => "us",
    })
}

/// Describes the first rows, read by these columns; `None` if one cannot be read.
fn understood(head: &[u8], columns: &Columns) -> Option<String> {
    let separator = columns.separator?;
    let mut plan = Plan::new(columns);
    let mut dictionary = plan.dictionary();
    let rows = lines(head).filter(|(number, _)| *number > columns.skip_lines).take(SHOWN);
    let told = rows.map(|(number, line)| {
        let text = [line, b"\n"].concat();
        let row = plan.row(&mut Cursor::new(&text, separator), &mut dictionary);
        Some(format!("line {number} is {}", described(&row.ok()??)))
    });
    let told: Vec<String> = told.collect::<Option<_>>()?;
    (!told.is_empty()).then(|| told.join(", "))
}

fn described(record: &Record) -> String {
    let what = match record.op {
        Op::Read => "a read",
        Op::Write => "a write",
        Op::Trim => "a trim",
        _ => "a flush",
    };
    let len = quantities::bytes(f64::from(record.len));
    let at = quantities::seconds(record.at.0 as f64 / 1e9);
    format!("{what} of {len} at byte {} at {at}", record.offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_ask::{Spelling, spelled};

    fn told(text: &str) -> String {
        hint(text.as_bytes()).map_or(String::new(), |hint| spelled(&hint, Spelling::Command))
    }

    #[test]
    fn the_first_rows_are_shown_as_they_would_be_read() {
        let text = "host a b c d\nx1 0.5 R 8192 4096\nx1 0.75 W 65536 512\nx2 1.5 R 0 4096\nx2 1.5 R 0 4096\n";
        assert_eq!(
            told(text),
            "if line 2 is a read of 4 KiB at byte 8192 at 500 ms, line 3 is a write of 512 B at byte 65536 at \
             750 ms, line 4 is a read of 4 KiB at byte 0 at 1.50 s, use --columns \
             _,at:s,op,offset,len,sep=blank,skip=1; otherwise correct the columns (_ skips one)"
        );
    }

    #[test]
    fn units_come_from_the_size_of_numbers() {
        for (text, columns) in [
            (
                "1716900000000;7;128;1\n1716900000005;900;8;0\n",
                "at:ms,offset:sectors,len:sectors,op:0/1,sep=semicolon",
            ),
            (
                "4096|8192|read|1716900000.25\n512|16384|write|1716900001\n",
                "len,offset,op,at:s,sep=bar",
            ),
            ("a,7,8,x\nb,99,16,x\n", "_,offset:sectors,len:sectors,op=read,every=1ms,sep=comma"),
        ] {
            assert!(
                told(text).contains(&format!("--columns {columns};")),
                "{text}: {}",
                told(text)
            );
        }
        for nothing in ["", "one line\n", "a b c d\ne f g h\n", "1,2\n3,4\n"] {
            assert_eq!(told(nothing), "", "{nothing}");
        }
    }

    #[test]
    fn totals_are_no_traces() {
        assert!(
            of_totals(b"<Results>\n<System>").is_some_and(|(what, _)| what.contains("diskspd"))
        );
        assert_eq!(of_totals(b"1,2,3"), None);
    }
}
