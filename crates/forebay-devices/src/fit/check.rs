//! Compares the rows of a sweep with the same workloads simulated on a device model.

use std::fmt::Write;

use forebay_core::{DeviceModel, Nanos, Op};
use forebay_words::quantities::bytes;

use super::{MixedJob, RowCheck, Sweep, SweepRow};
use crate::OpenDevice;
use crate::closed::{Job, Length, play, play_disk};

/// A measured row compared with the model.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChecked {
    /// A description of the row.
    pub what: String,
    /// Whether fits use rows of this kind. If not, the comparison shows how well the fit predicts.
    pub is_fitted: bool,
    /// The measured row and the simulated one.
    pub check: RowCheck,
}

/// The simulated time per row on a disk, which equals the run time in the fio job.
const RUN: Nanos = Nanos::from_secs(60);
/// The number of I/Os simulated per row on a solid-state drive or a volume.
const IOS: u64 = 20_000;

/// Compares each row of `sweep` with `device`.
pub fn check(device: &OpenDevice, sweep: &Sweep) -> Vec<RowChecked> {
    let fitted: Vec<&SweepRow> =
        [Op::Read, Op::Write].iter().flat_map(|op| sweep.random(*op)).collect();
    let random = sweep.rows.iter().map(|row| RowChecked {
        what: format!("random {}", named(row)),
        is_fitted: fitted.contains(&row),
        check: RowCheck { model: alone(device, row, true), measured: row.clone() },
    });
    let sequential = sweep.sequential.iter().map(|row| RowChecked {
        what: format!("sequential {}", named(row)),
        is_fitted: false,
        check: RowCheck { model: alone(device, row, false), measured: row.clone() },
    });
    let mixed = sweep.mixed.iter().flat_map(|mixed| together(device, &mixed.jobs));
    random.chain(sequential).chain(mixed).collect()
}

/// Names a row by its operation, size and depth.
pub(super) fn named(row: &SweepRow) -> String {
    let op = if row.op == Op::Write { "writes" } else { "reads" };
    format!("{op} of {} at depth {}", bytes(row.block_bytes.into()), row.depth)
}

fn length(device: &OpenDevice, depth: u32) -> Length {
    let (warm, until) = (u64::from(depth) * 4, Nanos::MAX);
    match &device.model {
        DeviceModel::Ssd(_) => Length { warm: warm + IOS / 10, ios: IOS, until },
        _ => Length { warm, ios: IOS, until: RUN },
    }
}

/// Simulates a row that was measured with a single job.
fn alone(device: &OpenDevice, row: &SweepRow, random: bool) -> SweepRow {
    let is_flash = matches!(device.model, DeviceModel::Ssd(_));
    if random && !is_flash {
        return play_disk(&mut device.model.clone(), row.op, row.block_bytes, row.depth);
    }
    let job = Job { random, ..Job::random(row.op, row.block_bytes, row.depth) };
    let length = length(device, row.depth);
    let rows = play(&mut device.model.clone(), &[job], device.host, length);
    rows.into_iter().flatten().next().unwrap_or_else(|| none(row))
}

/// Compares the rows of jobs that were measured at the same time.
fn together(device: &OpenDevice, jobs: &[MixedJob]) -> Vec<RowChecked> {
    let as_job = |job: &MixedJob| {
        let rate =
            |op: Op| job.rows.iter().filter(|row| row.op == op).map(|row| row.iops).sum::<f64>();
        let (reads, writes) = (rate(Op::Read), rate(Op::Write));
        Job {
            random: job.random,
            clones: job.clones,
            depth: job.depth(),
            block_bytes: job.rows.first().map_or(4096, |row| row.block_bytes),
            reads_share: reads / (reads + writes).max(1e-9),
        }
    };
    let played: Vec<Job> = jobs.iter().map(as_job).collect();
    let depth = played.iter().map(|job| job.depth).sum();
    let length = length(device, depth);
    let models = play(&mut device.model.clone(), &played, device.host, length);
    let each = jobs.iter().zip(models).flat_map(|(job, models)| {
        job.rows.iter().map(move |row| {
            let model = models.iter().find(|model| model.op == row.op);
            let order = if job.random { "random" } else { "sequential" };
            RowChecked {
                what: format!("beside others: {order} {}", named(row)),
                is_fitted: false,
                check: RowCheck {
                    model: model.cloned().unwrap_or_else(|| none(row)),
                    measured: row.clone(),
                },
            }
        })
    });
    each.collect()
}

/// Returns the result of a simulation that completed no I/O.
fn none(row: &SweepRow) -> SweepRow {
    let (mean_us, p50_us, p99_us, p999_us, max_us) = (None, None, None, None, None);
    SweepRow { iops: 0.0, mean_us, p50_us, p99_us, p999_us, max_us, ..row.clone() }
}

/// Returns the largest relative errors of rates and of 99th percentiles among the rows that fits
/// use.
pub fn worst(rows: &[RowChecked]) -> (Option<f64>, Option<f64>) {
    let fitted = || rows.iter().filter(|row| row.is_fitted);
    let most = |errors: &mut dyn Iterator<Item = f64>| errors.map(f64::abs).reduce(f64::max);
    (
        most(&mut fitted().map(|row| row.check.iops_error())),
        most(&mut fitted().filter_map(|row| row.check.p99_error())),
    )
}

/// Formats the rows and their errors as comments in a device file.
pub(super) fn errors_text(rows: &[RowChecked]) -> String {
    let mut text = String::new();
    if !rows.is_empty() {
        text += "#\n# row                                       measured      model    error  p99 error\n";
    }
    for RowChecked { what, check, .. } in rows {
        let p99 = check.p99_error().map_or("-".to_string(), percent);
        let _ = writeln!(
            text,
            "# {what:<38} {:>11.1} {:>10.1} {:>8}  {p99:>9}",
            check.measured.iops,
            check.model.iops,
            percent(check.iops_error()),
        );
    }
    text
}

/// Formats the `evidence` table of a device file.
pub fn evidence_text(rows: &[RowChecked]) -> String {
    let fitted = rows.iter().filter(|row| row.is_fitted).count();
    let mut text =
        format!("\n[evidence]\nbasis = \"fitted\"\nfrom = \"an fio sweep\"\nrows = {fitted}\n");
    let (rate, p99) = worst(rows);
    for (key, error) in [("rate_error_percent", rate), ("p99_error_percent", p99)] {
        if let Some(error) = error {
            let _ = writeln!(text, "{key} = {:.1}", 100.0 * error);
        }
    }
    text
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}
