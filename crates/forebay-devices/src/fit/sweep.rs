//! A sweep of fio results for a drive: one row for each operation, size and queue depth.
//!
//! The results are files that fio wrote with `--output-format=json` or `json+`: either one run per
//! file, as fio-plot's bench script creates them, or many jobs in one file. Jobs that ran at the
//! same time form one row: clones of one job add their depths, and different jobs form a mixed row,
//! which fits do not use.

mod fio;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_core::Op;
use forebay_trace::whole;

use super::FitError;

/// One operation with one size at one queue depth.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRow {
    /// The operation, read or write.
    pub op: Op,
    /// The size of each I/O in bytes.
    pub block_bytes: u32,
    /// The number of outstanding I/Os of all jobs.
    pub depth: u32,
    /// The rate in I/Os per second.
    pub iops: f64,
    /// The mean completion latency. Latencies are in microseconds, and None if the file does not
    /// contain them.
    pub mean_us: Option<f64>,
    /// The median latency.
    pub p50_us: Option<f64>,
    /// The 99th percentile of the latency.
    pub p99_us: Option<f64>,
    /// The 99.9th percentile of the latency.
    pub p999_us: Option<f64>,
    /// The maximum latency.
    pub max_us: Option<f64>,
}

/// A job of a mixed row, with all its clones.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedJob {
    /// The name of the job.
    pub name: String,
    /// Whether each I/O goes to a random position, or continues after the previous one.
    pub random: bool,
    /// The number of clones, each of which continues independently.
    pub clones: u32,
    /// The measured rows for reads and for writes.
    pub rows: Vec<SweepRow>,
}

impl MixedJob {
    /// Returns the number of outstanding I/Os of all clones.
    pub fn depth(&self) -> u32 {
        self.rows.iter().map(|row| row.depth).max().unwrap_or(1)
    }
}

/// Jobs that ran at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedRow {
    /// The jobs; there may be a single one that both reads and writes.
    pub jobs: Vec<MixedJob>,
}

/// The fio measurements of one drive.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Random I/O, sorted by operation, size and depth, with one row for each.
    pub rows: Vec<SweepRow>,
    /// Sequential I/O, in the same order.
    pub sequential: Vec<SweepRow>,
    /// Jobs that ran at the same time as others.
    pub mixed: Vec<MixedRow>,
    /// The measured devices, as given to fio: `/dev/nvme0n1`.
    pub targets: Vec<String>,
    /// Notes about omitted and questionable data, one sentence each.
    pub notes: Vec<String>,
    /// The files that were read.
    pub paths: Vec<PathBuf>,
}

/// The maximum size of a file; `json+` results of many jobs take megabytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The description of the files in messages.
const WHAT: &str = "fio's results (--output-format=json)";
/// The maximum nesting of folders to search; fio-plot's bench script creates three levels.
const LEVELS_MAX: u32 = 6;
/// The maximum number of files in a sweep.
const FILES_MAX: usize = 10_000;

impl Sweep {
    /// Reads fio results from `paths`, which are files, or folders with `.json` files at any level.
    ///
    /// # Errors
    /// A file cannot be read or was not written by fio, or there is no file.
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

    /// Parses files with these contents; `whole` is their common name in messages.
    ///
    /// # Errors
    /// A file was not written by fio, or no file contains I/O.
    pub fn of(
        files: impl IntoIterator<Item = Result<(PathBuf, Vec<u8>), FitError>>,
        whole: PathBuf,
    ) -> Result<Sweep, FitError> {
        let (mut sweep, mut found) = (Sweep::default(), FitRows::default());
        for file in files {
            let (path, bytes) = file?;
            let groups = fio::groups(&path, &bytes, &mut sweep.notes, &mut sweep.targets)?;
            groups.into_iter().for_each(|group| found.add(group));
            sweep.paths.push(path);
        }
        if found.is_empty() {
            // The reason for an omission is more helpful than saying that nothing is left.
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

    /// Returns whether there is a `.json` file in `folder` or its subfolders.
    pub fn is_in(folder: &Path) -> bool {
        let mut files = Vec::new();
        files_in(folder, LEVELS_MAX, &mut files).is_ok() && !files.is_empty()
    }

    /// Returns whether a file's name is that of fio results.
    pub fn is_file(path: &Path) -> bool {
        path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
    }

    /// Returns the rows of random I/O for one operation and its most common size, sorted by depth.
    pub fn random(&self, op: Op) -> Vec<&SweepRow> {
        let mut of_size: BTreeMap<u32, Vec<&SweepRow>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.op == op) {
            of_size.entry(row.block_bytes).or_default().push(row);
        }
        // If two sizes are equally common, the smaller one counts.
        let most = of_size.into_values().rev().max_by_key(Vec::len);
        most.unwrap_or_default()
    }
}

/// Rows in the order of the files, each with its number of jobs.
#[derive(Default)]
struct FitRows {
    random: Vec<(SweepRow, u32)>,
    sequential: Vec<(SweepRow, u32)>,
    mixed: Vec<MixedRow>,
}

impl FitRows {
    fn is_empty(&self) -> bool {
        self.random.is_empty() && self.sequential.is_empty() && self.mixed.is_empty()
    }

    /// Adds jobs that ran at the same time.
    fn add(&mut self, jobs: Vec<MixedJob>) {
        let jobs = alike_as_one(jobs);
        match jobs.as_slice() {
            [] => {}
            // Several sequential readers are not equivalent to one with a greater depth.
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

/// Combines equal jobs that ran at the same time into one with a greater depth.
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

/// Combines two rows measured at the same time by adding rates and depths. The percentiles of the
/// combination are unknown; the mean weighted by I/Os is used instead.
fn beside_each_other(one: &SweepRow, other: &SweepRow) -> SweepRow {
    let iops = one.iops + other.iops;
    SweepRow {
        depth: one.depth.saturating_add(other.depth),
        iops,
        max_us: one.max_us.zip(other.max_us).map(|(a, b)| a.max(b)),
        ..weighted(one, one.iops / iops, other)
    }
}

/// Combines latencies as a weighted mean, in which `one` has the weight `share`.
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

/// Reduces the rows to one for each operation, size and depth: the mean of those with the fewest
/// jobs, because each job is another thread on the host.
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

/// Collects the `.json` files in `folder` and its subfolders, in order of their names.
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
