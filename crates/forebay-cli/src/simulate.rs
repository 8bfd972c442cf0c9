//! `forebay simulate`.

use std::path::PathBuf;
use std::thread;

use clap::Args;
use comfy_table::{Cell, CellAlignment};
use forebay::defragment::{self, Defragmentation};
use forebay::devices;
use forebay::progress::Told;
use forebay::report::{self, RunsPage};
use forebay::simulate::{Bed, DeviceFigures, LeastTime, Replay, Run, RunResult, run_all};
use forebay_core::Device;
use forebay_core::device::failing::Failure;
use forebay_trace::write::Kept;
use serde::Serialize;

use crate::options::{Jobs, Reading, Replaying, TracePath, failure};
use crate::output::{self, Format, say};
use crate::progress::Progress;
use crate::report_file::ReportFile;
use crate::stdin;

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
        ("makespan s", |run| format!("{:.2}", run.figures.makespan_s)),
        ("busy s", |run| format!("{:.2}", run.figures.busy_s)),
        ("transfer bound s", |run| format!("{:.2}", run.figures.transfer_bound_s)),
        ("seek s", |run| format!("{:.2}", run.figures.seek_s)),
        ("rotation s", |run| format!("{:.2}", run.figures.rotation_s)),
        ("head movements", |run| run.figures.head_movements.to_string()),
        ("seek sweeps", |run| format!("{:.1}", run.figures.seek_sweeps)),
        ("avg seek tracks", |run| format!("{:.0}", run.figures.avg_seek_tracks)),
        ("seek stddev tracks", |run| format!("{:.0}", run.figures.seek_stddev_tracks)),
        ("read mean ms", |run| ms(run.figures.read_mean_ms)),
        ("read p50 ms", |run| ms(run.figures.read_p50_ms)),
        ("read p99 ms", |run| ms(run.figures.read_p99_ms)),
        ("read p99.9 ms", |run| ms(run.figures.read_p999_ms)),
        ("read max ms", |run| ms(run.figures.read_max_ms)),
        ("write mean ms", |run| ms(run.figures.write_mean_ms)),
        ("write p50 ms", |run| ms(run.figures.write_p50_ms)),
        ("write p99 ms", |run| ms(run.figures.write_p99_ms)),
        ("write p99.9 ms", |run| ms(run.figures.write_p999_ms)),
        ("write max ms", |run| ms(run.figures.write_max_ms)),
        ("since admission: mean ms", |run| ms(run.figures.wait_mean_ms)),
        ("since admission: p99 ms", |run| ms(run.figures.wait_p99_ms)),
        ("since admission: longest ms", |run| ms(Some(run.figures.longest_wait_ms))),
        ("energy J", |run| format!("{:.0}", run.figures.energy_j)),
        ("moved", |run| run.changed.requests_moved.to_string()),
        ("cut", |run| run.changed.requests_cut.to_string()),
        ("clipped", |run| run.changed.requests_clipped.to_string()),
        ("latencies imputed %", |run| format!("{:.1}", run.imputed_share * 100.0)),
        ("simulated requests/s", |run| format!("{:.0}", run.simulated_requests_per_s)),
    ];
    let mut table = output::table();
    let device = runs.first().map(|run| run.device.clone()).unwrap_or_default();
    let policies = runs.iter().map(|run| Cell::new(&run.policy));
    table.set_header(std::iter::once(Cell::new(device)).chain(policies));
    let failed = runs.iter().any(|run| run.figures.ios_failed + run.figures.failed > 0);
    for (name, show) in rows.iter().filter(|(name, _)| failed || !name.ends_with(" failed")) {
        let cells = runs.iter().map(|run| Cell::new(show(run)).set_alignment(CellAlignment::Right));
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
    let beyond = |run: &RunResult| (run.total_s() / least_s - 1.0) * 100.0;
    let bounded = runs.iter().filter(|run| LeastTime::holds_for(&run.policy));
    let each: Vec<String> =
        bounded.map(|run| format!("{} {:.1} %", run.policy, beyond(run))).collect();
    if least_s <= 0.0 || each.is_empty() {
        return String::new();
    }
    let said =
        format!("No order has a {what} below {least_s:.1} s. Beyond that: {}.", each.join(", "));
    output::wrapped(&said) + "\n"
}

/// Classes of service and their response times under each policy that has any.
fn classes(runs: &[RunResult]) -> String {
    if runs.iter().all(|run| run.figures.classes.is_empty()) {
        return String::new();
    }
    let mut table = output::table();
    table.set_header([
        "policy",
        "class",
        "requests",
        "bound ms",
        "within %",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "longest ms",
    ]);
    for run in runs {
        for class in &run.figures.classes {
            let within = class.within_bound_share.map(|share| share * 100.0);
            let figures = [
                class.requests.to_string(),
                class.bound_ms.to_string(),
                ms(within),
                ms(class.mean_ms),
                ms(class.p50_ms),
                ms(class.p99_ms),
                ms(class.longest_ms),
            ];
            let cells = figures.map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right));
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
                "{}: its bound of {} ms was not held: {} I/Os waited longer, up to {:.1} ms\n",
                run.policy,
                figure(run, "bound_ms"),
                figure(run, "ios_beyond_bound"),
                figure(run, "longest_queue_wait_ms"),
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
    let mut table = output::table();
    table.set_header([
        "policy",
        "device",
        "role",
        "I/Os",
        "read MB",
        "written MB",
        "busy s",
        "energy J",
        "write amplification",
        "erases",
        "erases max",
    ]);
    for run in runs {
        for device in &run.devices {
            let cells = device_cells(device)
                .map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
            let names = [&run.policy, &device.device, device.role].map(Cell::new);
            table.add_row(names.into_iter().chain(cells));
        }
    }
    let counted: String = runs
        .iter()
        .filter(|run| !run.placement.is_empty())
        .map(|run| {
            let figures: Vec<String> =
                run.placement.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
            output::wrapped(&format!("{}: {}", run.policy, figures.join(", "))) + "\n"
        })
        .collect();
    format!("{table}\n{counted}")
}

fn device_cells(device: &DeviceFigures) -> [String; 8] {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_string());
    [
        device.ios.to_string(),
        format!("{:.1}", device.read_bytes as f64 / 1e6),
        format!("{:.1}", device.written_bytes as f64 / 1e6),
        format!("{:.2}", device.busy_s),
        format!("{:.0}", device.energy_j),
        or_none(device.write_amplification.map(|value| format!("{value:.3}"))),
        or_none(device.erases.map(|value| value.to_string())),
        or_none(device.erases_max.map(|value| value.to_string())),
    ]
}

/// The streams that take most of the device's time, under each policy.
fn streams(runs: &[RunResult]) -> String {
    const SHOWN: usize = 8;
    let mut table = output::table();
    let header = runs.iter().map(|run| format!("{}: under way, p99 ms", run.policy));
    table.set_header(std::iter::once("stream".to_string()).chain(header));
    let Some(first) = runs.first() else { return String::new() };
    for share in first.figures.streams.iter().take(SHOWN) {
        let cells = runs.iter().map(|run| {
            let same = run.figures.streams.iter().find(|other| other.stream == share.stream);
            let text = same.map_or("-".to_string(), |same| {
                format!("{:.2}  {}", same.busy_share, ms(same.p99_ms))
            });
            Cell::new(text).set_alignment(CellAlignment::Right)
        });
        table.add_row(std::iter::once(Cell::new(&share.stream)).chain(cells));
    }
    let left = first.figures.streams.len().saturating_sub(SHOWN);
    let more = if left > 0 {
        format!("\n({left} more streams: --format json has them all)")
    } else {
        String::new()
    };
    format!("{table}{more}")
}

fn ms(value: Option<f64>) -> String {
    value.map_or("-".to_string(), |value| format!("{value:.2}"))
}
