//! Selects the rows of a sweep for a fit.

use forebay_core::Op;
use forebay_words::plural::counted;

use super::noun;
use crate::fit::FitError;
use crate::fit::sweep::SweepRow;

/// Devices with a higher rate at depth 1, in I/Os per second, are not rotating disks.
const DISK_IOPS_MAX: f64 = 600.0;
/// The permitted relative difference between the number of outstanding I/Os and rate times latency,
/// which Little's law says are equal.
const LITTLE: f64 = 0.2;

/// Rows for each operation, sorted by depth.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub(super) reads: Vec<SweepRow>,
    pub(super) writes: Vec<SweepRow>,
}

/// Selects the consistent rows, grouped by operation and sorted by depth.
pub(super) fn sorted(rows: &[SweepRow], notes: &mut Vec<String>) -> Result<Rows, FitError> {
    let mut of = Rows::default();
    let size = common_size(rows);
    let mut of_other_size = 0;
    for row in rows {
        let list = match row.op {
            Op::Read => &mut of.reads,
            Op::Write => &mut of.writes,
            _ => continue,
        };
        let name = format!("{} at depth {}", noun(row.op), row.depth);
        if row.block_bytes != size {
            of_other_size += 1;
        } else if let Some(why) = nonsense(row) {
            notes.push(format!("{name}: left out, {why}"));
        } else if list.iter().any(|other| other.depth == row.depth) {
            notes.push(format!("{name}: left out, because there is already a row for them"));
        } else {
            list.push(row.clone());
        }
    }
    if of_other_size > 0 {
        let rows = counted(of_other_size, "row");
        notes.push(format!("{rows} of sizes other than {size} bytes left out"));
    }
    for list in [&mut of.reads, &mut of.writes] {
        list.sort_by_key(|row| row.depth);
        falls(list, notes);
    }
    is_disk(&of)?;
    Ok(of)
}

/// Returns the most common I/O size; if two sizes are equally common, the smaller one.
fn common_size(rows: &[SweepRow]) -> u32 {
    let count = |size: u32| rows.iter().filter(|row| row.block_bytes == size).count();
    let sizes = rows.iter().map(|row| row.block_bytes);
    sizes.max_by_key(|&size| (count(size), u32::MAX - size)).unwrap_or(4096)
}

/// Returns why a row is implausible, or None if it is plausible.
fn nonsense(row: &SweepRow) -> Option<String> {
    if !(row.iops.is_finite() && row.iops > 0.0) || row.depth == 0 || row.block_bytes == 0 {
        return Some(format!("got {} IOPS", row.iops));
    }
    let times = [row.mean_us, row.p50_us, row.p99_us, row.p999_us, row.max_us];
    if let Some(us) = times.into_iter().flatten().find(|us| !(us.is_finite() && *us > 0.0)) {
        return Some(format!("got a latency of {us} us"));
    }
    let rising: Vec<f64> = times[1..].iter().copied().flatten().collect();
    if rising.windows(2).any(|pair| pair[1] < pair[0] * 0.999) {
        return Some("its percentiles fall".to_string());
    }
    let outstanding = row.iops * row.mean_us? / 1e6;
    let share = outstanding / f64::from(row.depth);
    (!(1.0 - LITTLE..=1.0 + LITTLE).contains(&share))
        .then(|| format!("its rate times its mean latency is {outstanding:.1} I/Os outstanding"))
}

/// Adds a note if the rate decreases as the depth increases.
fn falls(rows: &[SweepRow], notes: &mut Vec<String>) {
    let is_write = rows.first().is_some_and(|row| row.op == Op::Write);
    let advice = match is_write {
        true => "; if the disk is shingled, add `shingled = true` to its file",
        false => "",
    };
    for pair in rows.windows(2) {
        if pair[1].iops < pair[0].iops * 0.93 {
            notes.push(format!(
                "{} drop from {:.1} IOPS at depth {} to {:.1} at depth {}; the model of a disk \
                 cannot do this{advice}",
                noun(pair[0].op),
                pair[0].iops,
                pair[0].depth,
                pair[1].iops,
                pair[1].depth
            ));
        }
    }
}

fn is_disk(rows: &Rows) -> Result<(), FitError> {
    let Some(first) = rows.reads.first().or(rows.writes.first()) else {
        return Err(FitError::TooLittle {
            what: "the sweep",
            got: "no usable row of random reads or writes".to_string(),
            expected: "random reads at queue depths 1 to 32",
        });
    };
    if first.depth > 2 {
        return Err(FitError::TooLittle {
            what: noun(first.op),
            got: format!("rows from queue depth {} on", first.depth),
            expected: "one at queue depth 1 or 2, which shows the seeks",
        });
    }
    if first.op == Op::Read && first.iops > DISK_IOPS_MAX {
        return Err(FitError::TooLittle {
            what: "the sweep of a disk",
            got: format!("{:.0} random reads a second at queue depth {}", first.iops, first.depth),
            expected: "no more than 600: a faster drive is solid-state, or its cache answered",
        });
    }
    Ok(())
}
