//! A sweep of fio results for one drive: a row for each operation, I/O size and queue depth.
//!
//! The results are files written by fio with `--output-format=json` or `json+`: either one run per
//! file, as created by fio-plot's bench script, or many jobs in one file. Jobs that ran at the same
//! time form one row. Clones of one job are combined by adding their depths; different jobs form a
//! mixed row, which fits do not use.

mod drives;
mod fio;
mod options;
mod origin;
mod series;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_core::Op;
use forebay_trace::whole;

use super::{FitError, named};
use origin::Origin;

/// The results for one operation, I/O size and queue depth.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRow {
    /// The operation, read or write.
    pub op: Op,
    /// The size of each I/O in bytes.
    pub block_bytes: u32,
    /// The total number of outstanding I/Os of all jobs.
    pub depth: u32,
    /// The rate in I/Os per second.
    pub iops: f64,
    /// The mean completion latency. All latencies are in microseconds, and None if fio did not
    /// report them.
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

/// One of the jobs of a mixed row, including its clones.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedJob {
    /// The name of the job.
    pub name: String,
    /// Whether I/Os go to random positions; otherwise, each I/O follows the previous one.
    pub random: bool,
    /// The number of clones, each of which proceeds independently.
    pub clones: u32,
    /// The measured rows: one for reads, one for writes, or both.
    pub rows: Vec<SweepRow>,
    /// The device or file that the job measured, as in its options.
    pub target: Option<String>,
}

impl MixedJob {
    /// Returns the number of outstanding I/Os of all clones.
    pub fn depth(&self) -> u32 {
        self.rows.iter().map(|row| row.depth).max().unwrap_or(1)
    }
}

/// The results of jobs that ran at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedRow {
    /// The jobs. A single job that both reads and writes is also a mixed row.
    pub jobs: Vec<MixedJob>,
}

/// The fio measurements of one drive.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Random I/O: one row for each operation, size and depth, sorted in this order.
    pub rows: Vec<SweepRow>,
    /// Sequential I/O, sorted like `rows`.
    pub sequential: Vec<SweepRow>,
    /// The results of jobs that ran at the same time.
    pub mixed: Vec<MixedRow>,
    /// The measured devices as named in fio's options, such as `/dev/nvme0n1`.
    pub targets: Vec<String>,
    /// The smallest area that a job of random I/O was limited to by its options, in bytes.
    pub covered_bytes: Option<u64>,
    /// Notes about ignored or questionable data, one sentence each.
    pub notes: Vec<String>,
    /// The files that were read.
    pub paths: Vec<PathBuf>,
}

/// The maximum size of a file. `json+` results of many jobs take several MB.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The name of these files in messages.
const WHAT: &str = "fio's results (--output-format=json)";
/// What to do if a file was not written by fio.
const HINT: &str = "run fio with --output-format=json";
/// What to do if fio's results are unusable.
const HINT_UNUSABLE: &str = "docs/measure-a-drive.md has the fio jobs";
/// The maximum nesting of the folders to search. fio-plot's bench script creates three levels.
const LEVELS_MAX: u32 = 6;
/// The maximum number of files in a sweep.
const FILES_MAX: usize = 10_000;

impl Sweep {
    /// Reads fio results from `paths`: files, or folders that contain `.json` files at any level.
    ///
    /// # Errors
    /// Fails if a file cannot be read or was not written by fio, or if there are no files.
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

    /// Parses files with the given contents. `whole` is the name for all of them in messages.
    ///
    /// # Errors
    /// Fails if a file was not written by fio, if no file contains I/O, or if the files measure
    /// more than one drive.
    pub fn of(
        files: impl IntoIterator<Item = Result<(PathBuf, Vec<u8>), FitError>>,
        whole: PathBuf,
    ) -> Result<Sweep, FitError> {
        let (mut sweep, mut found) = (Sweep::default(), FitRows::default());
        for file in files {
            let (path, bytes) = file?;
            let groups = fio::groups(&path, &bytes, &mut sweep)?;
            groups.into_iter().for_each(|group| found.add(group, &path));
            sweep.paths.push(path);
        }
        if found.is_empty() {
            // If no row is left, report why the first one was ignored, because that is the most
            // helpful message.
            let why = sweep.notes.first().map_or(String::new(), |note| format!(" ({note})"));
            let hint = if sweep.notes.is_empty() { HINT } else { HINT_UNUSABLE };
            return Err(FitError::Results {
                path: whole,
                got: format!("no I/O by any job{why}"),
                expected: "reads or writes at one or more queue depths",
                hint,
            });
        }
        let of_two = |[one, other]: [&str; 2]| FitError::Results {
            path: whole.clone(),
            got: format!("results of {one} and {other}"),
            expected: "those of one drive",
            hint: "specify only the files of one drive",
        };
        if let Some(two) = drives::different(&sweep.targets) {
            return Err(of_two(two));
        }
        let mixed_up = |two: [String; 2]| of_two([&two[0], &two[1]]);
        sweep.rows = one_each(found.random, "random", &mut sweep.notes).map_err(mixed_up)?;
        sweep.sequential =
            one_each(found.sequential, "sequential", &mut sweep.notes).map_err(mixed_up)?;
        sweep.mixed = found.mixed;
        Ok(sweep)
    }

    /// Returns whether `folder` contains a `.json` file at any level.
    pub fn is_in(folder: &Path) -> bool {
        let mut files = Vec::new();
        files_in(folder, LEVELS_MAX, &mut files).is_ok() && !files.is_empty()
    }

    /// Returns whether the name of a file suggests fio results.
    pub fn is_file(path: &Path) -> bool {
        path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
    }

    /// Returns the rows of random I/O for an operation at its most common size, sorted by depth.
    pub fn random(&self, op: Op) -> Vec<&SweepRow> {
        let mut of_size: BTreeMap<u32, Vec<&SweepRow>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.op == op) {
            of_size.entry(row.block_bytes).or_default().push(row);
        }
        // If two sizes are equally common, use the smaller one.
        let most = of_size.into_values().rev().max_by_key(Vec::len);
        most.unwrap_or_default()
    }
}

/// A row, its number of jobs, and where it was measured.
type FoundRow = (SweepRow, u32, Origin);

/// The rows in the order of the files.
#[derive(Default)]
struct FitRows {
    random: Vec<FoundRow>,
    sequential: Vec<FoundRow>,
    mixed: Vec<MixedRow>,
}

impl FitRows {
    fn is_empty(&self) -> bool {
        self.random.is_empty() && self.sequential.is_empty() && self.mixed.is_empty()
    }

    /// Adds the results in the file at `path` of jobs that ran at the same time.
    fn add(&mut self, jobs: Vec<MixedJob>, path: &Path) {
        let jobs = alike_as_one(jobs);
        match jobs.as_slice() {
            [] => {}
            // Several sequential readers are not equivalent to a single one with a greater depth.
            [MixedJob { random, clones, rows, target, .. }]
                if rows.len() == 1 && (*random || *clones == 1) =>
            {
                let origin = Origin::of(target.as_deref(), path);
                let rows = rows.iter().map(|row| (row.clone(), *clones, origin.clone()));
                if *random { self.random.extend(rows) } else { self.sequential.extend(rows) }
            }
            _ => self.mixed.push(MixedRow { jobs }),
        }
    }
}

/// Combines equal jobs that ran at the same time into one job with a greater depth.
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

/// Combines two rows that were measured at the same time by adding their rates and depths. The true
/// percentiles are unknown, so means weighted by the number of I/Os are used instead.
fn beside_each_other(one: &SweepRow, other: &SweepRow) -> SweepRow {
    let iops = one.iops + other.iops;
    SweepRow {
        depth: one.depth.saturating_add(other.depth),
        iops,
        max_us: one.max_us.zip(other.max_us).map(|(a, b)| a.max(b)),
        ..weighted(one, one.iops / iops, other)
    }
}

/// Combines the latencies of two rows as weighted means. `one` has the weight `share`.
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

/// Reduces the rows to one per operation, size and depth: the mean of those with the fewest jobs,
/// because every job is another thread on the host. Fails with the names of two drives if repeated
/// rows seem to be of different drives. Adds a note for rows whose rates differ. `order` is random
/// or sequential.
fn one_each(
    rows: Vec<FoundRow>,
    order: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<SweepRow>, [String; 2]> {
    let mut of_kind: BTreeMap<(bool, u32, u32), Vec<FoundRow>> = BTreeMap::new();
    for found in rows {
        let (row, ..) = &found;
        let key = (row.op == Op::Write, row.block_bytes, row.depth);
        of_kind.entry(key).or_default().push(found);
    }
    of_kind.into_values().map(|rows| mean_row(rows, order, notes)).collect()
}

/// Repeated rates that differ from their mean by more than this share have a note.
const REPEATS_APART: f64 = 0.2;

/// Returns the mean of repeated rows.
fn mean_row(
    rows: Vec<FoundRow>,
    order: &str,
    notes: &mut Vec<String>,
) -> Result<SweepRow, [String; 2]> {
    let fewest = rows.iter().map(|(_, jobs, _)| *jobs).min();
    let mut rows = rows.into_iter().filter(|(_, jobs, _)| Some(*jobs) == fewest);
    let Some((mut mean, _, origin)) = rows.next() else { return Err(Default::default()) };
    let mut rates = vec![mean.iops];
    for ((row, _, other), count) in rows.zip(1..) {
        if !origin.is_same(&other) {
            return Err(origin.distinct_names(&other));
        }
        rates.push(row.iops);
        let share = f64::from(count) / f64::from(count + 1);
        let iops = mean.iops * share + row.iops * (1.0 - share);
        let max_us = mean.max_us.zip(row.max_us).map(|(a, b)| a.max(b));
        mean = SweepRow { iops, max_us, ..weighted(&mean, share, &row) };
    }
    notes.extend(apart(&mean, &rates, order));
    Ok(mean)
}

/// Returns a note if some of the `rates` of repeated rows are far from their mean.
fn apart(mean: &SweepRow, rates: &[f64], order: &str) -> Option<String> {
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    let near = mean.iops * (1.0 - REPEATS_APART)..=mean.iops * (1.0 + REPEATS_APART);
    (!near.contains(&least) || !near.contains(&most)).then(|| {
        format!(
            "{order} {}: {} results from {least:.1} to {most:.1} IOPS; their mean is used, so specify \
             only the files with the results to use",
            named(mean),
            rates.len()
        )
    })
}

/// Appends the `.json` files in `folder` and its subfolders to `files`, sorted by name.
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
                hint: "specify only the files of one drive",
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
