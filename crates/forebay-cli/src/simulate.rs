//! `forebay simulate`.

use std::path::PathBuf;
use std::thread;

use clap::Args;
use forebay::defragment::{self, Defragmentation};
use forebay::devices;
use forebay::progress::Told;
use forebay::report::{self, RunsPage};
use forebay::simulate::{Bed, DeviceFigures, LeastTime, Replay, Run, RunResult, run_all};
use forebay::statistics::StreamShare;
use forebay_core::Device;
use forebay_core::device::failing::Failure;
use forebay_trace::quantities::{
    NONE, bound, bytes, joules, millis, named, or_none, percent, seconds, significant,
};
use forebay_trace::write::Kept;
use serde::Serialize;

use crate::options::{Jobs, Reading, Replaying, TracePath, failure};
use crate::output::{self, Format, say};
use crate::progress::Progress;
use crate::report_file::ReportFile;
use crate::stdin;
use forebay_trace::grid::{Cell, right};

/// Run a trace through policies on a model of a drive, side by side
#[derive(Args)]
pub(crate) struct Simulate {
    /// The trace; - is standard input
    #[arg(value_parser = stdin::trace_path())]
    trace: TracePath,
    /// A bundled device (see `forebay devices`), a device file, or fixed:RATE
    #[arg(long, value_name = "DEVICE")]
    device: String,
    /// A solid-state drive, the second device of placements (see `forebay policies`)
    #[arg(long, value_name = "DEVICE")]
    flash: Option<String>,
    /// How many such devices, sharing the flash; volumes are spread over them in turn
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    disks: u16,
    /// Policies (see `forebay policies`), comma-separated, each NAME[:KEY=VALUE]...
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', required = true)]
    policy: Vec<String>,
    /// Let I/Os fail: [lane=N:]from-s=SECONDS (the device is gone from then on), range=OFFSET+BYTES
    /// or one-in=N; disks are lanes from 0, the flash is the last. May be given several times
    #[arg(long, value_name = "FAILURE", value_parser = failure)]
    fail: Vec<Failure>,
    /// Also say, for each policy, what it gains and costs to lay blocks in the order they are read
    #[arg(long)]
    defragment: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    replaying: Replaying,
    #[command(flatten)]
    jobs: Jobs,
    /// Also write an HTML report
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How to print the results
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Serialize)]
struct Results {
    trace: String,
    runs: Vec<RunResult>,
    /// What no order of the requests can take less than, on one disk of arm and platters.
    least_time: Option<LeastTime>,
    /// Of each policy, where it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    defragmentation: Vec<Defragmentation>,
}

impl Simulate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let device = devices::open(&self.device)?;
        let flash = self.flash.as_deref().map(devices::open).transpose()?;
        let bed = Bed {
            disks: self.disks,
            flash: flash.as_ref(),
            failures: &self.fail,
            ..Bed::of(&device)
        };
        for policy in &self.policy {
            bed.check(policy)?;
        }
        if self.defragment {
            defragment::check(bed)?;
        }
        let named = std::iter::once(&self.device).chain(&self.flash).map(String::as_str);
        let kept = devices::and_kept(Kept::trace(&self.trace), named);
        let report = ReportFile::begin(self.output.as_deref(), &kept)?;
        let input = self.reading.read(&self.trace)?;
        for told in bed.idle_parts(&input, &self.policy) {
            say!("{told}");
        }
        let setup = self.replaying.setup(&input)?;
        let progress = Progress::new("simulating");
        let policies: Vec<&str> = self.policy.iter().map(String::as_str).collect();
        let told = |told: &Told| progress.tell(told);
        let jobs = self.jobs.count();
        // It takes longer than a run: where there are several threads, one does it meanwhile.
        let (runs, least_time) = thread::scope(|scope| {
            let meanwhile = (jobs > 1).then(|| scope.spawn(|| LeastTime::of(&input, bed, setup)));
            let runs = run_all(&input, bed, &policies, setup, jobs, told);
            let least_time = meanwhile.map(|thread| thread.join());
            (runs, least_time)
        });
        let named = |run: Run| (run.result.policy.clone(), run);
        let runs: Vec<(String, Run)> = runs?.into_iter().map(named).collect();
        let least_time = match least_time {
            Some(found) => {
                found.map_err(|_| anyhow::anyhow!("the least time: its thread ended"))??
            }
            None => LeastTime::of(&input, bed, setup)?,
        };
        let mut defragmentation = Vec::new();
        for policy in self.policy.iter().filter(|_| self.defragment) {
            progress.say(format!("defragmenting under {policy} on {}", device.name));
            defragmentation.push(defragment::study(&input, bed, policy, setup, |_| ())?);
        }
        drop(progress);
        let cautions = bed.cautions(runs.first().map(|(_, run)| &run.result));
        for caution in &cautions {
            say!("{caution}");
        }
        if let Some(report) = report {
            let findings: Vec<String> = defragmentation.iter().flat_map(|d| d.told()).collect();
            report.write(&report::runs_html(&RunsPage {
                trace: &self.trace.display().to_string(),
                description: &input.description,
                device: &device.name,
                cylinders: device.model.cylinders(),
                streams: &input.labels,
                intensity: setup.intensity.times(),
                arrivals: input.arrival_rates(setup.intensity.times())?,
                runs: &runs,
                least_time: least_time.as_ref(),
                findings: &findings,
                cautions: &cautions,
            }))?;
        }
        let runs: Vec<RunResult> = runs.into_iter().map(|(_, run)| run.result).collect();
        match self.format {
            Format::Json | Format::Csv => {
                let trace = self.trace.display().to_string();
                output::print_data(
                    self.format,
                    &Results { trace, runs, least_time, defragmentation },
                )?;
            }
            Format::Table => {
                let told: Vec<String> = defragmentation.iter().flat_map(|d| d.told()).collect();
                let told =
                    if told.is_empty() { told } else { [vec![String::new()], told].concat() };
                let least = least_time.map_or(String::new(), |least| beyond_least(&least, &runs));
                let answer = format!("{}.", report::runs_headline(&runs));
                let answer = output::emphasised(&output::wrapped(&answer));
                let told = told.join("\n");
                output::print(&format!("{answer}\n\n{}\n{least}{told}", table(&runs)))?;
            }
        }
        Ok(())
    }
}

/// A figure's name and how a run shows it.
type Row = (&'static str, fn(&RunResult) -> String);

/// Figures down, policies across.
fn table(runs: &[RunResult]) -> String {
    let rows: &[Row] = &[
        ("replay", |run| format!("{:?}", run.replay).to_lowercase()),
        ("requests", |run| run.figures.requests.to_string()),
        ("reads", |run| run.figures.reads.to_string()),
        ("writes", |run| run.figures.writes.to_string()),
        ("flushes", |run| run.figures.flushes.to_string()),
        ("trims", |run| run.figures.trims.to_string()),
        ("I/Os", |run| run.figures.ios.to_string()),
        ("requests failed", |run| run.figures.failed.to_string()),
        ("I/Os failed", |run| run.figures.ios_failed.to_string()),
        ("makespan", |run| seconds(run.figures.makespan_s)),
        ("busy time", |run| seconds(run.figures.busy_s)),
        ("transfer bound", |run| seconds(run.figures.transfer_bound_s)),
        ("seek", |run| seconds(run.figures.seek_s)),
        ("rotation", |run| seconds(run.figures.rotation_s)),
        ("head movements", |run| run.figures.head_movements.to_string()),
        ("seek sweeps", |run| significant(run.figures.seek_sweeps)),
        ("avg seek tracks", |run| format!("{:.0}", run.figures.avg_seek_tracks)),
        ("seek stddev tracks", |run| format!("{:.0}", run.figures.seek_stddev_tracks)),
        ("read mean", |run| or_none(run.figures.read_mean_ms, millis)),
        ("read p50", |run| or_none(run.figures.read_p50_ms, millis)),
        ("read p99", |run| or_none(run.figures.read_p99_ms, millis)),
        ("read p99.9", |run| or_none(run.figures.read_p999_ms, millis)),
        ("read max", |run| or_none(run.figures.read_max_ms, millis)),
        ("write mean", |run| or_none(run.figures.write_mean_ms, millis)),
        ("write p50", |run| or_none(run.figures.write_p50_ms, millis)),
        ("write p99", |run| or_none(run.figures.write_p99_ms, millis)),
        ("write p99.9", |run| or_none(run.figures.write_p999_ms, millis)),
        ("write max", |run| or_none(run.figures.write_max_ms, millis)),
        ("since admission: mean", |run| or_none(run.figures.wait_mean_ms, millis)),
        ("since admission: p99", |run| or_none(run.figures.wait_p99_ms, millis)),
        ("since admission: longest", |run| millis(run.figures.longest_wait_ms)),
        ("energy", |run| joules(run.figures.energy_j)),
        ("moved", |run| run.changed.requests_moved.to_string()),
        ("cut", |run| run.changed.requests_cut.to_string()),
        ("clipped", |run| run.changed.requests_clipped.to_string()),
        ("latencies imputed", |run| percent(run.imputed_share)),
        ("simulated requests/s", |run| format!("{:.0}", run.simulated_requests_per_s)),
    ];
    let device = runs.first().map(|run| run.device.clone()).unwrap_or_default();
    let policies = runs.iter().map(|run| run.policy.clone());
    let mut table = output::table([device].into_iter().chain(policies));
    let failed = runs.iter().any(|run| run.figures.ios_failed + run.figures.failed > 0);
    for (name, show) in rows.iter().filter(|(name, _)| failed || !name.ends_with(" failed")) {
        let cells = runs.iter().map(|run| right(show(run)));
        table.add_row(std::iter::once(Cell::new(name)).chain(cells));
    }
    let (bounds, devices) = (broken_bounds(runs), devices_table(runs));
    format!("{table}\n{bounds}{}{devices}{}", classes(runs), streams(runs))
}

/// How far each run is from what no order can beat.
fn beyond_least(least: &LeastTime, runs: &[RunResult]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let (least_s, what) = match first.replay {
        Replay::Closed => (least.makespan_s, "makespan"),
        Replay::Open | Replay::Dependent => (least.busy_s, "busy time"),
    };
    let beyond = |run: &RunResult| percent(run.total_s() / least_s - 1.0);
    let bounded = runs.iter().filter(|run| LeastTime::holds_for(&run.policy));
    let each: Vec<String> = bounded.map(|run| format!("{} {}", run.policy, beyond(run))).collect();
    if least_s <= 0.0 || each.is_empty() {
        return String::new();
    }
    let said = format!(
        "No order has a {what} below {}. Beyond that: {}.",
        seconds(least_s),
        each.join(", ")
    );
    output::wrapped(&said) + "\n"
}

/// Classes of service and their response times under each policy that has any.
fn classes(runs: &[RunResult]) -> String {
    if runs.iter().all(|run| run.figures.classes.is_empty()) {
        return String::new();
    }
    let mut table = output::table([
        "policy",
        "class",
        "requests",
        "bound",
        "within it",
        "mean",
        "p50",
        "p99",
        "longest",
    ]);
    for run in runs {
        for class in &run.figures.classes {
            let figures = [
                class.requests.to_string(),
                bound(class.bound_ms),
                or_none(class.within_bound_share, percent),
                or_none(class.mean_ms, millis),
                or_none(class.p50_ms, millis),
                or_none(class.p99_ms, millis),
                or_none(class.longest_ms, millis),
            ];
            let cells = figures.map(right);
            table.add_row(
                [Cell::new(&run.policy), Cell::new(&class.class)].into_iter().chain(cells),
            );
        }
    }
    format!("{table}\n")
}

/// A line for each run whose policy promised a bound and did not hold it.
fn broken_bounds(runs: &[RunResult]) -> String {
    let broken = |run: &&RunResult| run.placement.get("bound_held") == Some(&0.0);
    let figure = |run: &RunResult, name: &str| run.placement.get(name).copied().unwrap_or(0.0);
    runs.iter()
        .filter(broken)
        .map(|run| {
            format!(
                "{}: its bound of {} was not held: {} I/Os waited longer, up to {}\n",
                run.policy,
                bound(figure(run, "bound_ms")),
                figure(run, "ios_beyond_bound"),
                millis(figure(run, "longest_queue_wait_ms")),
            )
        })
        .collect()
}

/// Each device of each run, where there are several or flash wears, and what placements counted.
fn devices_table(runs: &[RunResult]) -> String {
    let several = runs.iter().any(|run| run.devices.len() > 1);
    if !several && runs.iter().all(|run| run.erases.is_none()) {
        return String::new();
    }
    let mut table = output::table([
        "policy",
        "device",
        "role",
        "I/Os",
        "read",
        "written",
        "busy time",
        "energy",
        "write amplification",
        "erases",
        "erases max",
    ]);
    for run in runs {
        for device in &run.devices {
            let cells = device_cells(device).map(right);
            let names = [&run.policy, &device.device, device.role].map(Cell::new);
            table.add_row(names.into_iter().chain(cells));
        }
    }
    let told = |key: &str, value: f64| {
        let (words, shown) = named(key, value);
        format!("{words} {shown}")
    };
    let counted: String = runs
        .iter()
        .filter(|run| !run.placement.is_empty())
        .map(|run| {
            let figures: Vec<String> =
                run.placement.iter().map(|(key, value)| told(key, *value)).collect();
            output::wrapped(&format!("{}: {}", run.policy, figures.join(", "))) + "\n"
        })
        .collect();
    format!("{table}\n{counted}")
}

fn device_cells(device: &DeviceFigures) -> [String; 8] {
    let or_dash = |value: Option<u64>| value.map_or(NONE.into(), |value| value.to_string());
    [
        device.ios.to_string(),
        bytes(device.read_bytes as f64),
        bytes(device.written_bytes as f64),
        seconds(device.busy_s),
        joules(device.energy_j),
        or_none(device.write_amplification, significant),
        or_dash(device.erases),
        or_dash(device.erases_max),
    ]
}

/// The streams with most requests under way: how many those are on average, and their tail, policies across.
fn streams(runs: &[RunResult]) -> String {
    const SHOWN: usize = 8;
    type Row = (&'static str, fn(&StreamShare) -> String);
    const ROWS: [Row; 2] =
        [("under way", |of| significant(of.busy_share)), ("p99", |of| or_none(of.p99_ms, millis))];
    let Some(first) = runs.first() else { return String::new() };
    let mut table =
        output::table(["stream", ""].into_iter().chain(runs.iter().map(|run| run.policy.as_str())));
    for share in first.figures.streams.iter().take(SHOWN) {
        for (index, (what, show)) in ROWS.iter().enumerate() {
            let name = if index == 0 { share.stream.as_str() } else { "" };
            let cells = runs.iter().map(|run| {
                let same = run.figures.streams.iter().find(|other| other.stream == share.stream);
                right(same.map_or(NONE.into(), show))
            });
            table.add_row([Cell::new(name), Cell::new(what)].into_iter().chain(cells));
        }
    }
    let left = first.figures.streams.len().saturating_sub(SHOWN);
    let more = match left {
        0 => String::new(),
        left => format!("\n({left} more: --format json has them all)"),
    };
    format!("{table}{more}")
}
