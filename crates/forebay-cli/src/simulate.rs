//! `forebay simulate`.

mod told;

use std::path::PathBuf;
use std::thread;

use clap::Args;
use forebay::defragment::{self, Defragmentation};
use forebay::devices;
use forebay::progress::{Told, untold};
use forebay::report::{self, RunsPage};
use forebay::simulate::{Bed, LeastTime, Run, RunResult, run_all};
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
        let mut told = |told: &Told| progress.tell(told);
        let jobs = self.jobs.count();
        // It takes longer than a run: where there are several threads, one does it meanwhile.
        let (runs, least_time) = thread::scope(|scope| {
            let meanwhile = (jobs > 1).then(|| scope.spawn(|| LeastTime::of(&input, bed, setup)));
            let runs = run_all(&input, bed, &policies, setup, jobs, &mut told);
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
            let _ = progress.say(format!("defragmenting under {policy} on {}", device.name));
            defragmentation.push(defragment::study(&input, bed, policy, setup, &mut untold)?);
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
                let answer = format!("{}.", report::runs_headline(&runs));
                let mut parts = vec![output::emphasised(&output::wrapped(&answer))];
                parts.extend(told::parts(&runs, least_time.as_ref()));
                let moved = defragmentation.iter().flat_map(|d| d.told());
                let moved: Vec<String> = moved.map(|said| output::wrapped(&said)).collect();
                parts.extend((!moved.is_empty()).then(|| moved.join("\n")));
                parts.extend((!input.names_submitters).then(|| output::wrapped(told::ONE_LINE)));
                output::print(&parts.join("\n\n"))?;
            }
        }
        Ok(())
    }
}
