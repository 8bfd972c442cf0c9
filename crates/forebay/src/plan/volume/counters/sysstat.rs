//! Parses the output of `iostat -x -t` and `sar -d` (sysstat).
//!
//! The first report of iostat is left out. It covers the time since the machine was booted, unless
//! `-y` is given, and the output does not show whether it is.

use super::csv::number;
use super::{BadRows, Meaning, Parsed, Reading, clock};

/// Returns whether the text is sysstat's output: it begins like it, or contains one of its tables.
pub(super) fn is_one(text: &str) -> bool {
    text.lines().take(20).any(|line| is_iostat(line) || is_sar(line))
}

fn is_iostat(line: &str) -> bool {
    line.starts_with("Device")
        && line.split_whitespace().nth(1).is_some_and(|of| of != ",")
        && !line.contains([',', ';'])
}

fn is_sar(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.any(|word| word == "DEV") && words.any(|word| word == "tps")
}

pub(super) fn parsed(text: &str) -> Result<Parsed, String> {
    match text.lines().find(|line| is_iostat(line) || is_sar(line)) {
        Some(line) if is_iostat(line) => iostat(text),
        _ => Ok(sar(text)),
    }
}

/// The positions of the columns in a table.
struct Heads {
    reads: usize,
    writes: usize,
    bytes: [(usize, f64); 2],
    count: usize,
}

impl Heads {
    fn of(line: &str) -> Option<Heads> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |name: &str| words.iter().position(|word| *word == name);
        let bytes = |side: &str| {
            let units = [("kB/s", 1024.0), ("MB/s", 1_048_576.0), ("sec/s", 512.0)];
            units.into_iter().find_map(|(unit, bytes)| Some((at(&format!("{side}{unit}"))?, bytes)))
        };
        Some(Heads {
            reads: at("r/s")?,
            writes: at("w/s")?,
            bytes: [bytes("r")?, bytes("w")?],
            count: words.len(),
        })
    }
}

fn iostat(text: &str) -> Result<Parsed, String> {
    let (mut readings, mut bad) = (Vec::new(), BadRows::default());
    let (mut at_s, mut heads, mut reports) = (None, None, 0);
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            heads = None;
        } else if is_iostat(line) {
            reports += 1;
            heads = Heads::of(line);
            if heads.is_none() || at_s.is_none() {
                return Err(format!(
                    "line {}: got iostat's output without {}, expected that of `iostat -x -t 1`",
                    at + 1,
                    if heads.is_none() { "r/s and rkB/s" } else { "times" }
                ));
            }
        } else if let Some(heads) = &heads {
            // The first report covers the time since the machine was booted.
            if reports == 1 {
                continue;
            }
            match row(at + 1, &words, heads, at_s.unwrap_or_default()) {
                Some(reading) => readings.push(reading),
                None => bad.add(at + 1, format!("expected {} columns of numbers", heads.count)),
            }
        } else if let Some(found) = clock::seconds(line) {
            at_s = Some(found);
        }
    }
    Ok(Parsed { format: "iostat", meaning: Meaning::Rates, readings, bad })
}

fn row(line: usize, words: &[&str], heads: &Heads, at_s: f64) -> Option<Reading> {
    if words.len() != heads.count {
        return None;
    }
    // Some locales use a decimal comma.
    let value = |at: usize| number(&words[at].replace(',', "."));
    let bytes = |(at, unit): (usize, f64)| Some(value(at)? * unit);
    Some(Reading {
        line,
        at_s,
        disk: words[0].into(),
        ops: [value(heads.reads)?, value(heads.writes)?, 0.0],
        bytes: [bytes(heads.bytes[0])?, bytes(heads.bytes[1])?],
        has_discards: false,
    })
}

/// Reads rows such as `07:38:21  vda  26.00  0.00  16.00 ...`. If a row's time is before that of
/// the previous row, the row belongs to the next day.
fn sar(text: &str) -> Parsed {
    let (mut readings, mut bad) = (Vec::new(), BadRows::default());
    let mut heads: Vec<String> = Vec::new();
    let (mut day_s, mut last_s) = (0.0, f64::NEG_INFINITY);
    for (at, line) in text.lines().enumerate() {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let ["Linux", ..] = words.as_slice() {
            day_s = words.iter().find_map(|word| clock::day_s(word)).unwrap_or(day_s);
            last_s = f64::NEG_INFINITY;
            continue;
        }
        if words.is_empty() || words[0].starts_with("Average") || line.contains("LINUX RESTART") {
            continue;
        }
        let mut time = words.remove(0).to_string();
        if let Some(half) = words.first().filter(|word| ["AM", "PM"].contains(word)) {
            time = format!("{time} {half}");
            words.remove(0);
        }
        if words.first() == Some(&"DEV") {
            heads = words.iter().map(|word| (*word).into()).collect();
            continue;
        }
        let Some(of_day_s) = clock::time_of_day_s(&time) else {
            bad.add(at + 1, format!("got '{time}', expected a time"));
            continue;
        };
        if day_s + of_day_s < last_s {
            day_s += 86_400.0;
        }
        last_s = day_s + of_day_s;
        match sar_row(at + 1, &words, &heads, last_s) {
            Some(reading) => readings.push(reading),
            None => bad.add(at + 1, format!("expected {} columns of numbers", heads.len())),
        }
    }
    Parsed { format: "sar", meaning: Meaning::Rates, readings, bad }
}

fn sar_row(line: usize, words: &[&str], heads: &[String], at_s: f64) -> Option<Reading> {
    if words.len() != heads.len() {
        return None;
    }
    let value = |name: &str| {
        let at = heads.iter().position(|head| head == name)?;
        number(&words[at].replace(',', "."))
    };
    let bytes = |side: &str| {
        let kib = value(&format!("{side}kB/s")).map(|kib| kib * 1024.0);
        let before = ["rd_sec/s", "wr_sec/s"][usize::from(side == "w")];
        kib.or_else(|| Some(value(before)? * 512.0))
    };
    Some(Reading {
        line,
        at_s,
        disk: (*words.first()?).into(),
        ops: [0.0, 0.0, value("tps")?],
        bytes: [bytes("r")?, bytes("w")?],
        // sar includes discards in tps, so these intervals are marked.
        has_discards: value("dkB/s").is_some_and(|discards| discards > 0.0),
    })
}
