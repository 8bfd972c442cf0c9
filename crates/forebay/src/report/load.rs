//! How many requests a trace has, in the words of every page.
//!
//! Invariant: *requests* are all that a trace asks for, flushes and trims too, as runs and plans count them. What is
//! counted of some of them only says of which.

use forebay_show::html::text::{NONE, count, seconds, significant};
use forebay_trace::describe::Description;

/// "3 requests", "1 flush".
pub(super) fn counted(number: u64, what: &str) -> String {
    let words = forebay_show::plural::counted(number, what);
    words.replacen(&number.to_string(), &count(number), 1)
}

/// Flushes by themselves; those ahead of a write are part of it.
fn flushes(d: &Description) -> u64 {
    d.records.saturating_sub(d.requests + d.trims)
}

/// Every kind there is, with its number.
fn kinds(kinds: &[(u64, &str)]) -> String {
    let there = kinds.iter().filter(|(number, _)| *number > 0);
    there.map(|&(number, what)| counted(number, what)).collect::<Vec<_>>().join(", ")
}

/// All requests by what they do.
pub(super) fn directions(d: &Description) -> String {
    let all =
        kinds(&[(d.reads, "read"), (d.writes, "write"), (flushes(d), "flush"), (d.trims, "trim")]);
    if all.is_empty() { counted(0, "request") } else { all }
}

/// How many requests come, in what time, and how many a second.
pub(super) fn load(d: &Description) -> String {
    let (flushes, all) = (flushes(d), counted(d.records, "request"));
    let others = kinds(&[(flushes, "flush"), (d.trims, "trim")]);
    let all = match (others.as_str(), d.requests) {
        ("", _) => all,
        (others, 0) => others.to_string(),
        (others, _) => format!("{all}, {others} among them,"),
    };
    let rate = match d.duration_s > 0.0 {
        true => significant(d.records as f64 / d.duration_s),
        false => NONE.to_string(),
    };
    format!("{all} in {} ({rate} requests/s)", seconds(d.duration_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(reads: u64, writes: u64, flushes: u64, trims: u64) -> Description {
        Description {
            records: reads + writes + flushes + trims,
            requests: reads + writes,
            reads,
            writes,
            // Two more stand ahead of writes.
            flushes: flushes + 2,
            trims,
            duration_s: 10.0,
            mean_iops: Some((reads + writes) as f64 / 10.0),
            ..crate::advise::sample::advice().description
        }
    }

    #[test]
    fn what_is_no_read_and_no_write_is_counted_and_named() {
        let said = |d: &Description| [load(d), directions(d)];
        assert_eq!(
            said(&trace(1000, 500, 0, 0)),
            [
                "1\u{202f}500 requests in 10.0\u{a0}s (150 requests/s)",
                "1\u{202f}000 reads, 500 writes"
            ]
        );
        assert_eq!(
            said(&trace(3, 1, 1, 5)),
            [
                "10 requests, 1 flush, 5 trims among them, in 10.0\u{a0}s (1.00 requests/s)",
                "3 reads, 1 write, 1 flush, 5 trims"
            ]
        );
        assert_eq!(
            said(&trace(0, 0, 12, 0)),
            ["12 flushes in 10.0\u{a0}s (1.20 requests/s)", "12 flushes"]
        );
        let none = Description { duration_s: 0.0, ..trace(0, 0, 0, 0) };
        assert_eq!(said(&none), ["0 requests in 0\u{a0}s (– requests/s)", "0 requests"]);
    }
}
