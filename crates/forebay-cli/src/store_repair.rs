//! `forebay store check` and `store repair`: find unreadable data, then save or discard it.

use std::path::PathBuf;

use forebay_ask::named;
use forebay_store::{
    Checked, Config, DiskOptions, Disks, Key, Loss, OperationError, PutSpan, Spare, Store,
    StoreError, is_among, open_disks,
};
use forebay_words::plural::{counted, verb};
use forebay_words::quantities::bytes;

use crate::output;
use crate::progress::Progress;

forebay_ask::ask! {
    /// Read every byte of a store and list the damage; nothing is written
    ///
    /// Checks every segment's checksums, order, index and filter, and compares the filter with its
    /// copy on another disk. The exit status is 1 if something cannot be read. The store must not
    /// be in use.
    pub(crate) struct StoreCheckAsk("store check") {
        /// The disks of the store, in any order
        disks: Vec<PathBuf> [.positional().word("DIR|DEVICE").at_least_one()],
        /// One disk is missing: all data that depends on it counts as lost
        without_disk: bool,
    }
}

forebay_ask::ask! {
    /// Save what can still be read of damaged data, and discard the rest
    ///
    /// Without --give-up, only lists what would be lost and exits with status 1. After data has
    /// been discarded, its keys have older values, or none. A missing disk is discarded as a whole.
    /// --new puts another disk in its place; without it, the store can only be used with
    /// --without-disk.
    pub(crate) struct StoreRepairAsk("store repair") {
        /// The remaining disks of the store, in any order
        disks: Vec<PathBuf> [.positional().word("DIR|DEVICE").at_least_one()],
        /// Discard what cannot be read, instead of only listing it
        give_up: bool,
        /// The replacement for the missing disk: a folder, the path of a new file, or a device
        new: Option<PathBuf> [.word("DIR|DEVICE")],
        /// Destroy the data on the new disk
        overwrite: bool [.requires("new")],
    }
}

/// Opens a store that is not in use.
fn open(disks: Disks, read_only: bool) -> Result<Store, StoreError> {
    Store::open(disks, Config { read_only, merges: false, ..Config::default() })
}

impl StoreCheckAsk {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let finding = DiskOptions { may_miss: self.without_disk, read_only: true };
        let checked = check(&self.disks, finding)?;
        output::though_unread(output::print(told(&checked, "cannot be read").trim_end()))?;
        ends(&checked)
    }
}

/// Reads and checks all data in the store.
fn check(disks: &[PathBuf], finding: DiskOptions) -> anyhow::Result<Checked> {
    let _progress = Progress::new("reading the store");
    let store = open(open_disks(disks, finding)?, true)?;
    let checked = store.check();
    store.close();
    Ok(checked?)
}

/// Makes the command exit with status 1 if data was lost.
fn ends(checked: &Checked) -> anyhow::Result<()> {
    if checked.losses.is_empty() {
        return Ok(());
    }
    if is_nothing_lost(checked) {
        anyhow::bail!("part of the store is damaged, but nothing is lost");
    }
    anyhow::bail!("part of the store cannot be read");
}

impl StoreRepairAsk {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let finding = DiskOptions { may_miss: true, read_only: !self.give_up };
        let disks = open_disks(&self.disks, finding)?;
        let missing = disks.missing.map(|disk| disks.layouts[disk]);
        if self.new.is_some() && missing.is_none() {
            let what = "got a complete store, expected a store with a missing disk";
            return Err(StoreError::Store(format!("{}: {what}", named("new"))).into());
        }
        if let Some(new) = self.new.as_ref().filter(|new| is_among(new, &self.disks)) {
            let new = named(&format!("new={}", new.display()));
            let what = format!("{new}: got a disk of the store, expected an empty one");
            return Err(StoreError::Store(what).into());
        }
        if !self.give_up {
            drop(disks);
            let checked = check(&self.disks, finding)?;
            let mut text = told(&checked, "would be given up");
            if !checked.losses.is_empty() || missing.is_some() {
                text += "Nothing was written; --give-up performs the repair.";
            }
            output::though_unread(output::print(&text))?;
            return ends(&checked);
        }
        let spare = match (&self.new, missing) {
            (Some(path), Some(layout)) => Some(Spare::find(path, layout, self.overwrite)?),
            _ => None,
        };
        let progress = Progress::new("repairing the store");
        let store = open(disks, false)?;
        let repaired = store.repair();
        store.close();
        let repaired = repaired?;
        spare.map_or(Ok(()), Spare::begin)?;
        drop(progress);
        let mut text = match repaired.segments {
            0 if repaired.losses.is_empty() => "Nothing was damaged.\n".into(),
            0 => String::new(),
            segments => format!(
                "{} {} replaced; {} in {} saved.\n",
                counted(segments, "segment"),
                verb(segments, "was", "were"),
                counted(repaired.records, "record"),
                bytes(repaired.bytes as f64),
            ),
        };
        if !repaired.losses.is_empty() {
            text += &losses(&repaired.losses, "was given up");
        }
        if let Some(path) = &self.new {
            text += &format!("{} takes the place of the missing disk.", path.display());
        }
        Ok(output::print(text.trim_end())?)
    }
}

/// Formats what was checked and what is damaged.
fn told(checked: &Checked, what: &str) -> String {
    let all = format!(
        "{} in {} ({})",
        counted(checked.records, "record"),
        counted(checked.segments, "segment"),
        bytes(checked.bytes as f64)
    );
    match checked.losses.is_empty() {
        true => format!("Everything is intact: {all}.\n"),
        false if is_nothing_lost(checked) => {
            format!("Nothing is lost: {all}.\n{}", losses(&checked.losses, "is damaged"))
        }
        false => format!(
            "Part of the store cannot be read. Intact: {all}.\n{}",
            losses(&checked.losses, what)
        ),
    }
}

/// Returns whether only roots and labels are damaged, of which there are intact copies.
fn is_nothing_lost(checked: &Checked) -> bool {
    checked.losses.iter().all(|loss| is_said_elsewhere(&loss.failure))
}

fn is_said_elsewhere(failure: &OperationError) -> bool {
    matches!(failure, OperationError::Root { .. } | OperationError::Label { .. })
}

fn losses(losses: &[Loss], what: &str) -> String {
    let mut table = output::table(["keys after", "up to", "records", "put", "why"]);
    for loss in losses.iter().take(SHOWN) {
        let records = match loss.records {
            0 => "?".into(),
            records if loss.is_bound => format!("at most {records}"),
            records => records.to_string(),
        };
        let end = |key: &Option<Key>, none: &str| key.as_deref().map_or_else(|| none.into(), shown);
        let begin = match &loss.from {
            Some(from) => format!("from {}", shown(from)),
            None => end(&loss.after, "(first)"),
        };
        let why = loss.failure.to_string();
        let row = match is_said_elsewhere(&loss.failure) {
            true => ["none".into(), String::new(), "0".into(), String::new(), why],
            false => [begin, end(&loss.upto, "(last)"), records, span(loss.put), why],
        };
        table.add_row(row);
    }
    let more = losses.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
    format!("What {what}:\n\n{table}\n{more}")
}

/// Formats when lost data was put, as far as that is known.
fn span(put: PutSpan) -> String {
    match (put.from.map(utc), put.upto.map(utc)) {
        (None, None) => "?".into(),
        (Some(from), None) => format!("since {from}"),
        (None, Some(upto)) => format!("until {upto}"),
        (Some(from), Some(upto)) if from == upto => from,
        (Some(from), Some(upto)) => format!("{from} to {upto}"),
    }
}

/// Formats nanoseconds since the Unix epoch as UTC, to the second, in the proleptic Gregorian
/// calendar. The calculation uses years that begin in March (Hinnant, "chrono-compatible low-level
/// date algorithms").
fn utc(ns: u64) -> String {
    let secs = ns / 1_000_000_000;
    let (days, second) = (secs / 86_400 + 719_468, secs % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (era * 400 + year, month + 3),
        _ => (era * 400 + year + 1, month - 9),
    };
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{date:02} {hour:02}:{minute:02}:{:02} UTC", second % 60)
}

/// The maximum number of losses to list.
const SHOWN: usize = 40;

/// Formats a key as text, and shortens it.
fn shown(key: &[u8]) -> String {
    let text: String =
        key.iter().take(24).flat_map(|byte| byte.escape_ascii()).map(char::from).collect();
    if key.len() > 24 { text + "..." } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc() {
        for (secs, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_709_209_845, "2024-02-29 12:30:45 UTC"),
            (1_798_761_599, "2026-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(utc(secs * 1_000_000_000 + 999), expected);
        }
        let put = |from, upto| span(PutSpan { from, upto });
        assert_eq!(put(Some(0), None), "since 1970-01-01 00:00:00 UTC");
        assert_eq!(put(Some(5), Some(7)), "1970-01-01 00:00:00 UTC");
        assert_eq!(put(None, None), "?");
    }
}
