//! What ordinary fio results say of a drive: one row for each operation, size and queue depth.
//!
//! The results are files that fio wrote with `--output-format=json` or `json+`, one run a file, as
//! fio-plot's bench script leaves them, or many jobs in one. Jobs that ran at the same time are one row:
//! clones of one job add their depths, and jobs that differ are a mixed row, which no fit uses.

mod fio;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_core::Op;
use forebay_trace::whole;

use super::FitError;

/// One operation of one size at one queue depth.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRow {
    /// Read or write.
    pub op: Op,
    /// Bytes of each I/O.
    pub block_bytes: u32,
    /// I/Os outstanding, over all jobs.
    pub depth: u32,
    /// I/Os a second.
    pub iops: f64,
    /// Mean completion latency. Latencies are in microseconds, and none where the file has none.
    pub mean_us: Option<f64>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
    /// Longest.
    pub max_us: Option<f64>,
}

/// A job of a mixed row, with all its clones.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedJob {
    /// What the job is called.
    pub name: String,
    /// Whether it goes to random places, or on from where its last I/O ended.
    pub random: bool,
    /// Clones, each of which goes on by itself.
    pub clones: u32,
    /// What it measured of reads, and of writes.
    pub rows: Vec<SweepRow>,
}

impl MixedJob {
    /// I/Os outstanding over all clones.
    pub fn depth(&self) -> u32 {
        self.rows.iter().map(|row| row.depth).max().unwrap_or(1)
    }
}

/// Jobs that ran at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedRow {
    /// The jobs; one that reads and writes may be by itself.
    pub jobs: Vec<MixedJob>,
}

/// What fio measured on one drive.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Random I/O, by operation, size and depth; one row of each.
    pub rows: Vec<SweepRow>,
    /// Sequential I/O, in the same order.
    pub sequential: Vec<SweepRow>,
    /// Jobs that ran beside others.
    pub mixed: Vec<MixedRow>,
    /// What was measured, as fio was told: `/dev/nvme0n1`.
    pub targets: Vec<String>,
    /// What was left out, and what to doubt: a sentence each.
    pub notes: Vec<String>,
    /// The files that were read.
    pub paths: Vec<PathBuf>,
}

/// Bytes of one file; `json+` of many jobs has megabytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// What the files are called in messages.
const WHAT: &str = "fio's results (--output-format=json)";
/// Folders within folders that are looked into: fio-plot's bench script makes three.
const LEVELS_MAX: u32 = 6;
/// Files of one sweep.
const FILES_MAX: usize = 10_000;

impl Sweep {
    /// Reads fio's results at `paths`, which are files, or folders with `.json` files at any level.
    ///
    /// # Errors
    /// A file that cannot be read, that fio did not write, or no file at all.
    pub fn read(paths: &[PathBuf]) -> Result<Sweep, FitError> {
        let mut files = Vec::new();
        for path in paths {
            if path.is_dir() {
                files_in(path, LEVELS_MAX, &mut files)?
            } else {
                files.push(path.clone())
            }
        }
        let read = |path: PathBuf| {
            let bytes = whole::read(&path, FILE_BYTES_MAX, WHAT)
                .map_err(|source| FitError::Io { path: path.clone(), source })?;
            Ok((path, bytes))
        };
        let nothing = paths.first().cloned().unwrap_or_default();
        Sweep::of(files.into_iter().map(read), nothing)
    }

    /// What files with these contents say; `whole` is what they are called together.
    ///
    /// # Errors
    /// The first file that fio did not write, or no I/O in any.
    pub fn of(
        files: impl IntoIterator<Item = Result<(PathBuf, Vec<u8>), FitError>>,
        whole: PathBuf,
    ) -> Result<Sweep, FitError> {
        let (mut sweep, mut found) = (Sweep::default(), Found::default());
        for file in files {
            let (path, bytes) = file?;
            let groups = fio::groups(&path, &bytes, &mut sweep.notes, &mut sweep.targets)?;
            groups.into_iter().for_each(|group| found.add(group));
            sweep.paths.push(path);
        }
        if found.is_empty() {
            // What was left out says more than that nothing was left.
            let why = sweep.notes.first().map_or(String::new(), |note| format!(" ({note})"));
            return Err(FitError::Results {
                path: whole,
                got: format!("no I/O by any job{why}"),
                expected: "reads or writes at one or more queue depths",
            });
        }
        (sweep.rows, sweep.sequential) = (one_each(found.random), one_each(found.sequential));
        sweep.mixed = found.mixed;
        Ok(sweep)
    }

    /// Whether there is a `.json` file in `folder` or the folders in it.
    pub fn is_in(folder: &Path) -> bool {
        let mut files = Vec::new();
        files_in(folder, LEVELS_MAX, &mut files).is_ok() && !files.is_empty()
    }

    /// Whether a file has the name of fio's results.
    pub fn is_file(path: &Path) -> bool {
        path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
    }

    /// The rows of random I/O of one operation and the size that most of them have, by depth.
    pub fn random(&self, op: Op) -> Vec<&SweepRow> {
        let mut of_size: BTreeMap<u32, Vec<&SweepRow>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.op == op) {
            of_size.entry(row.block_bytes).or_default().push(row);
        }
        // Of two sizes with as many rows the smaller.
        let most = of_size.into_values().rev().max_by_key(Vec::len);
        most.unwrap_or_default()
    }
}

/// Rows in the order of the files, and how many jobs each took.
#[derive(Default)]
struct Found {
    random: Vec<(SweepRow, u32)>,
    sequential: Vec<(SweepRow, u32)>,
    mixed: Vec<MixedRow>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.random.is_empty() && self.sequential.is_empty() && self.mixed.is_empty()
    }

    /// Takes over jobs that ran at the same time.
    fn add(&mut self, jobs: Vec<MixedJob>) {
        let jobs = alike_as_one(jobs);
        match jobs.as_slice() {
            [] => {}
            // Several sequential readers are no sequential reader of more depth.
            [MixedJob { random, clones, rows, .. }]
                if rows.len() == 1 && (*random || *clones == 1) =>
            {
                let rows = rows.iter().map(|row| (row.clone(), *clones));
                if *random { self.random.extend(rows) } else { self.sequential.extend(rows) }
            }
            _ => self.mixed.push(MixedRow { jobs }),
        }
    }
}

/// Jobs that do the same beside each other are one of more depth.
fn alike_as_one(jobs: Vec<MixedJob>) -> Vec<MixedJob> {
    let mut merged: Vec<MixedJob> = Vec::new();
    for job in jobs {
        let kind = |job: &MixedJob| {
            let rows = job.rows.iter().map(|row| (row.op, row.block_bytes));
            (job.random, rows.collect::<Vec<_>>())
        };
        match merged.iter_mut().find(|other| kind(other) == kind(&job)) {
            Some(other) => {
                other.clones += job.clones;
                let pairs = other.rows.iter_mut().zip(&job.rows);
                pairs.for_each(|(row, beside)| *row = beside_each_other(row, beside));
            }
            None => merged.push(job),
        }
    }
    merged
}

/// Two rows that were measured at the same time: rates and depths add up. Percentiles of both
/// together cannot be told from percentiles of each; their mean, weighted by I/Os, stands in.
fn beside_each_other(one: &SweepRow, other: &SweepRow) -> SweepRow {
    let iops = one.iops + other.iops;
    SweepRow {
        depth: one.depth.saturating_add(other.depth),
        iops,
        max_us: one.max_us.zip(other.max_us).map(|(a, b)| a.max(b)),
        ..weighted(one, one.iops / iops, other)
    }
}

/// The latencies of `one`, which counts for `share`, and `other`.
fn weighted(one: &SweepRow, share: f64, other: &SweepRow) -> SweepRow {
    let mean =
        |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a * share + b * (1.0 - share));
    SweepRow {
        mean_us: mean(one.mean_us, other.mean_us),
        p50_us: mean(one.p50_us, other.p50_us),
        p99_us: mean(one.p99_us, other.p99_us),
        p999_us: mean(one.p999_us, other.p999_us),
        ..one.clone()
    }
}

/// One row of each operation, size and depth: of several those by the fewest jobs, since each job is
/// another thread on the host, and the mean of those.
fn one_each(rows: Vec<(SweepRow, u32)>) -> Vec<SweepRow> {
    let mut of_kind: BTreeMap<(bool, u32, u32), (u32, u32, SweepRow)> = BTreeMap::new();
    for (row, jobs) in rows {
        let key = (row.op == Op::Write, row.block_bytes, row.depth);
        match of_kind.get_mut(&key) {
            Some((fewest, _, _)) if *fewest < jobs => {}
            Some((fewest, count, mean)) if *fewest == jobs => {
                let share = f64::from(*count) / f64::from(*count + 1);
                let iops = mean.iops * share + row.iops * (1.0 - share);
                let max_us = mean.max_us.zip(row.max_us).map(|(a, b)| a.max(b));
                *mean = SweepRow { iops, max_us, ..weighted(mean, share, &row) };
                *count += 1;
            }
            _ => {
                of_kind.insert(key, (jobs, 1, row));
            }
        }
    }
    of_kind.into_values().map(|(_, _, row)| row).collect()
}

/// The `.json` files in `folder` and the folders in it, in the order of their names.
fn files_in(folder: &Path, levels: u32, files: &mut Vec<PathBuf>) -> Result<(), FitError> {
    let io = |source| FitError::Io { path: folder.to_path_buf(), source };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        entries.push(entry.map_err(io)?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if levels > 0 {
                files_in(&path, levels - 1, files)?;
            }
        } else if Sweep::is_file(&path) {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return Err(FitError::Results {
                path: folder.to_path_buf(),
                got: format!("more than {FILES_MAX} files"),
                expected: "one drive's results",
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
