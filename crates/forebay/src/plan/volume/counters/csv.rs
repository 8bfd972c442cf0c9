//! Parses counters in CSV, with a row per reading and the names of the columns in the first line.
//!
//! ```text
//! time,read_ops,write_ops,read_bytes,write_bytes
//! 2026-11-29T07:38:18Z,3,2001,94208,131076096
//! ```
//!
//! Each figure covers the time since the previous row. The column names of CloudWatch, the
//! CloudWatch agent, EBS's NVMe statistics, node_exporter and `sadf -d` are accepted as well. A
//! column `disk` is optional.

use super::{BadRows, Meaning, Parsed, Reading, clock};

/// What a column contains.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Time,
    Disk,
    /// The number of operations: 0 for reads, 1 for writes, 2 for both together.
    Ops(usize),
    /// The amount of data: 0 for data read, 1 for data written; and the number of bytes per unit.
    Bytes(usize, f64),
    Discards,
}

use Meaning::{Counts, Rates, Totals};
use Role::{Bytes, Discards, Disk, Ops, Time};

/// The accepted names of columns, in lower case, with what each counts.
const NAMES: &[(&str, Role, Option<Meaning>)] = &[
    ("time", Time, None),
    ("timestamp", Time, None),
    ("disk", Disk, None),
    ("device", Disk, None),
    ("dev", Disk, None),
    ("volumeid", Disk, None),
    ("read_ops", Ops(0), Some(Counts)),
    ("write_ops", Ops(1), Some(Counts)),
    ("read_bytes", Bytes(0, 1.0), Some(Counts)),
    ("write_bytes", Bytes(1, 1.0), Some(Counts)),
    // CloudWatch, with the statistic `Sum`.
    ("volumereadops", Ops(0), Some(Counts)),
    ("volumewriteops", Ops(1), Some(Counts)),
    ("volumereadbytes", Bytes(0, 1.0), Some(Counts)),
    ("volumewritebytes", Bytes(1, 1.0), Some(Counts)),
    // The CloudWatch agent.
    ("diskio_reads", Ops(0), Some(Counts)),
    ("diskio_writes", Ops(1), Some(Counts)),
    ("diskio_read_bytes", Bytes(0, 1.0), Some(Counts)),
    ("diskio_write_bytes", Bytes(1, 1.0), Some(Counts)),
    // EBS's NVMe statistics, which count since the volume was attached.
    ("total_read_ops", Ops(0), Some(Totals)),
    ("total_write_ops", Ops(1), Some(Totals)),
    ("total_read_bytes", Bytes(0, 1.0), Some(Totals)),
    ("total_write_bytes", Bytes(1, 1.0), Some(Totals)),
    ("node_disk_reads_completed_total", Ops(0), Some(Totals)),
    ("node_disk_writes_completed_total", Ops(1), Some(Totals)),
    ("node_disk_read_bytes_total", Bytes(0, 1.0), Some(Totals)),
    ("node_disk_written_bytes_total", Bytes(1, 1.0), Some(Totals)),
    // The output of `sadf -d`.
    ("tps", Ops(2), Some(Rates)),
    ("rkb/s", Bytes(0, 1024.0), Some(Rates)),
    ("wkb/s", Bytes(1, 1024.0), Some(Rates)),
    ("dkb/s", Discards, Some(Rates)),
];

const EXPECTED: &str = "expected the columns time, read_ops, write_ops, read_bytes and \
    write_bytes, or the output of `iostat -x -t 1`, `sar -d 1` or node_exporter \
    (docs/plan-volume.md)";

pub(super) fn parsed(text: &str) -> Result<Parsed, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((at, head)) = lines.next() else { return Err(format!("got nothing, {EXPECTED}")) };
    let separator = ['\t', ';', ','].into_iter().find(|sign| head.contains(*sign)).unwrap_or(',');
    let columns = Columns::of(head, separator)
        .map_err(|got| format!("line {}: got {got}, {EXPECTED}", at + 1))?;
    let (mut readings, mut bad) = (Vec::new(), BadRows::default());
    for (at, line) in lines {
        let fields: Vec<&str> = fields(line, separator).collect();
        // sadf repeats the line of names after a restart.
        if line.starts_with('#') || line.trim() == head.trim() {
            continue;
        }
        match columns.reading(at + 1, &fields) {
            Ok(reading) => readings.push(reading),
            Err(what) => bad.add(at + 1, what),
        }
    }
    Ok(Parsed { format: "CSV", meaning: columns.meaning, readings, bad })
}

fn fields(line: &str, separator: char) -> impl Iterator<Item = &str> {
    line.split(separator).map(|field| field.trim().trim_matches('"'))
}

struct Columns {
    names: Vec<String>,
    roles: Vec<Option<Role>>,
    meaning: Meaning,
}

impl Columns {
    /// Returns the columns named by the first line; if required ones are missing, fails with those
    /// that it has.
    fn of(head: &str, separator: char) -> Result<Columns, String> {
        let names: Vec<String> =
            fields(head.trim_start_matches(['#', ' ']), separator).map(String::from).collect();
        let known = |name: &String| {
            let lower = name.to_ascii_lowercase();
            NAMES.iter().find(|(known, ..)| *known == lower)
        };
        let found: Vec<_> = names.iter().map(known).collect();
        let meanings: Vec<Meaning> = found.iter().flatten().filter_map(|of| of.2).collect();
        let roles: Vec<Option<Role>> = found.iter().map(|of| of.map(|of| of.1)).collect();
        let has = |wanted: &dyn Fn(Role) -> bool| {
            roles.iter().flatten().filter(|role| wanted(**role)).count() == 1
        };
        let has_ops = has(&|role| role == Ops(0)) && has(&|role| role == Ops(1))
            || has(&|role| role == Ops(2));
        let bytes = |side| has(&|role| matches!(role, Bytes(of, _) if of == side));
        let is_whole = has(&|role| role == Time) && has_ops && bytes(0) && bytes(1);
        match meanings.first() {
            Some(first) if is_whole && meanings.iter().all(|of| of == first) => {
                Ok(Columns { names, meaning: *first, roles })
            }
            _ => Err(shown(head)),
        }
    }

    fn reading(&self, line: usize, fields: &[&str]) -> Result<Reading, String> {
        if fields.len() != self.roles.len() {
            let (got, expected) = (fields.len(), self.roles.len());
            return Err(format!("got {got} fields, expected {expected}"));
        }
        let mut reading = Reading {
            line,
            at_s: 0.0,
            disk: String::new(),
            ops: [0.0; 3],
            bytes: [0.0; 2],
            has_discards: false,
        };
        for ((role, field), name) in self.roles.iter().zip(fields).zip(&self.names) {
            let number =
                || number(field).ok_or_else(|| format!("{name}: got '{field}', expected a number"));
            match role {
                None => {}
                Some(Time) => {
                    reading.at_s = clock::seconds(field)
                        .ok_or_else(|| format!("{name}: got '{field}', expected a time"))?;
                }
                Some(Disk) => reading.disk = (*field).into(),
                Some(Ops(side)) => reading.ops[*side] = number()?,
                Some(Bytes(side, unit)) => reading.bytes[*side] = number()? * unit,
                Some(Discards) => reading.has_discards = number()? > 0.0,
            }
        }
        Ok(reading)
    }
}

/// Parses a count or a rate.
pub(super) fn number(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number| (0.0..1e18).contains(number))
}

/// Returns the beginning of a line, in quotes.
fn shown(line: &str) -> String {
    const CHARS: usize = 60;
    let short: String = line.chars().filter(|letter| !letter.is_control()).take(CHARS).collect();
    let more = if line.chars().count() > CHARS { "…" } else { "" };
    format!("'{short}{more}'")
}
