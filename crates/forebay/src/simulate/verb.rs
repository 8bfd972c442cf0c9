//! The inputs of `simulate`.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use forebay_ask::{AskError, Check, Given, Input as AskInput, Takes, Value};
use forebay_core::device::failing::Failure;
use serde::Serialize;

use super::page::{self, PageInput};
use super::served::ServedDisk;
use super::{Bed, LeastTime, Run, RunResult, Setup, run_all};
use crate::defragment::{self, Defragmentation};
use crate::devices::{self, OpenDevice};
use crate::progress::untold;
use crate::verb::{
    Answered, DeviceInput, JobsAsk, ReplayAsk, Session, SourceAsk, StreamsAsk, TraceInput, Verb,
    policy_exists, warn_device,
};
use crate::{Error, Input};

forebay_ask::ask! {
    /// Simulate a trace under several policies on a model of a drive, and compare the results
    pub struct SimulateAsk("simulate") {
        /// The trace; - is standard input
        trace: TraceInput [.positional()],
        /// The device: a bundled one (see `forebay devices`), a device file, or fixed:RATE for a
        /// server of RATE I/Os per second. Not needed with a configuration that emulates one
        device: Option<DeviceInput>,
        /// The policies (see `forebay policies`), each NAME[:KEY=VALUE]... At least one, unless a
        /// configuration is given
        policy: Vec<PolicyInput>,
        /// Replay clients of `forebay serve`: apply the policy and promises of this configuration
        /// to a trace that the server recorded. Policies given here replace the configured one,
        /// below the promises
        serve: Option<PathBuf> [.word("CONFIG.toml")],
        /// The disk or volume of the configuration to which the trace belongs
        served_disk: Option<String> [.word("NAME").requires("serve").otherwise("the only one")],
        /// A solid-state drive as the second device, which placements use (see `forebay policies`)
        flash: Option<DeviceInput>,
        /// The number of these devices; they share the flash. Volumes are assigned to them in turn
        disks: u16 = "1" [.word("COUNT").between(1.0, 256.0)],
        /// I/Os that fail: [lane=N:]from-s=SECONDS (the device disappears at that time),
        /// range=OFFSET+BYTES or one-in=N. Disks are lanes from 0, the flash is the last
        fail: Vec<FailureInput>,
        /// Also compute a lower bound on the time for the requests in any order, for a single plain
        /// disk (NAME:plain). This takes longer than a simulation
        least_time: bool,
        /// Also find, for each policy, the gain and the cost of placing blocks in the order in
        /// which they are read
        defragment: bool,
        replaying: ReplayAsk,
        jobs: JobsAsk,
        /// Also write the answer as an HTML report
        report: Option<PathBuf> [.short('o')],
        streams: StreamsAsk,
        source: SourceAsk,
    }
}

/// A policy to simulate: a bundled one, or one that the caller supplies.
#[derive(Clone)]
pub enum PolicyInput {
    /// The spec of a bundled policy.
    Named(String),
    /// A policy that the caller supplies.
    Own(Arc<dyn OwnPolicy>),
}

/// A policy that the caller supplies, such as a Python object.
pub trait OwnPolicy: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Fails if the policy cannot run on the devices. Called before any trace is read.
    ///
    /// # Errors
    /// If the policy cannot run on `bed`.
    fn check(&self, bed: Bed<'_>) -> Result<(), Error>;

    /// Simulates the policy as [`super::run_own`] does.
    ///
    /// # Errors
    /// Fails like [`super::run_own`]. Errors in the policy itself are returned as [`Error::Face`].
    fn run(&self, input: &Input, bed: Bed<'_>, setup: Setup) -> Result<Run, Error>;
}

impl std::fmt::Debug for PolicyInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name().unwrap_or("(own)"))
    }
}

impl PolicyInput {
    fn name(&self) -> Option<&str> {
        match self {
            PolicyInput::Named(name) => Some(name),
            PolicyInput::Own(_) => None,
        }
    }

    fn check(&self, bed: Bed<'_>) -> Result<(), Error> {
        match self {
            PolicyInput::Named(name) => bed.check(name),
            PolicyInput::Own(own) => own.check(bed),
        }
    }
}

impl Value for PolicyInput {
    const CHECK: Option<Check> = Some(policy_exists);
    const WORD: &'static str = "POLICY";
    const TAKES: Takes = Takes::Policy;
    const PYTHON: &'static str = "PolicyLike";

    fn parse(text: &str) -> Result<PolicyInput, String> {
        Ok(PolicyInput::Named(text.to_string()))
    }

    fn of_object(input: &AskInput, given: &Given) -> Option<Vec<PolicyInput>> {
        given.as_object::<Vec<PolicyInput>>(input.name).cloned()
    }
}

/// The value of the option that makes I/Os fail.
#[derive(Clone, Copy, Debug)]
pub struct FailureInput(pub Failure);

impl Value for FailureInput {
    const WORD: &'static str = "FAILURE";

    fn parse(text: &str) -> Result<FailureInput, String> {
        Failure::parse(text).map(FailureInput).map_err(|error| error.0)
    }
}

/// The answer of `simulate`.
#[derive(Serialize)]
struct Results {
    trace: String,
    runs: Vec<RunResult>,
    /// A lower bound of the time for any order of requests, if requested and possible.
    least_time: Option<LeastTime>,
    /// The results of defragmentation under each policy, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    defragmentation: Vec<Defragmentation>,
}

impl Verb for SimulateAsk {
    type Beyond = Vec<Run>;

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn files(&self) -> Vec<&Path> {
        let devices = self.device.iter().chain(&self.flash);
        let devices = devices.map(|device| devices::file_of(&device.0));
        devices.chain(self.serve.as_deref()).collect()
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(mut self, session: &mut dyn Session) -> Result<Answered<Vec<Run>>, Error> {
        let served = self.serve.as_ref();
        let served = served.map(|file| session.served_disk(file, self.served_disk.as_deref()));
        let served = served.transpose()?;
        let (device, flash) = self.devices(served.as_ref())?;
        let shown = served.as_ref().map(|served| served.policies(self.names()));
        self.policy = self.policies(served.as_ref())?;
        let promises = served.as_ref().map(ServedDisk::promises).unwrap_or_default();
        let failures: Vec<Failure> = self.fail.iter().map(|failure| failure.0).collect();
        let (disks, disk_bytes_max) = self.drives(served.as_ref())?;
        let bed = Bed {
            disks,
            disk_bytes_max,
            flash: flash.as_ref(),
            failures: &failures,
            slices: self.policy.len() > 1,
            promises: &promises,
            ..Bed::of(&device)
        };
        self.policy.iter().try_for_each(|policy| policy.check(bed))?;
        if self.defragment {
            defragment::check(bed)?;
        }
        let input = match &served {
            Some(served) => served.input(&self.source, &self.trace, &self.streams, session)?,
            None => self.source.read(&self.trace, self.streams.by(), session)?,
        };
        let names: Vec<String> = self.names().into_iter().map(str::to_string).collect();
        for warning in bed.warnings(&input, &names) {
            session.warn(self.trace.name(), &warning);
        }
        let setup = self.replaying.setup(&input, session)?;
        session.begin("simulating", None);
        let (runs, least_time) = self.runs(&input, bed, setup, session)?;
        let mut defragmentation = Vec::new();
        for policy in names.iter().filter(|_| self.defragment) {
            session.begin(&format!("defragmenting under {policy} on {}", device.name), None);
            defragmentation.push(defragment::study(&input, bed, policy, setup, &mut untold)?);
        }
        let cautions = bed.cautions(runs.first().map(|run| &run.result));
        warn_device(session, &device, &cautions);
        let results = Results {
            trace: self.trace.name().display().to_string(),
            runs: runs.iter().map(|run| run.result.clone()).collect(),
            least_time,
            defragmentation,
        };
        // A page names policies as users do, without the promises above them.
        let shown = shown.map(|names| {
            let named = |(run, policy): (&RunResult, String)| RunResult { policy, ..run.clone() };
            results.runs.iter().zip(names).map(named).collect::<Vec<RunResult>>()
        });
        let on_page = shown.as_ref().unwrap_or(&results.runs);
        let names = on_page.iter().map(|run| run.policy.clone());
        let runs: Vec<(String, Run)> = names.zip(runs).collect();
        let findings: Vec<String> = results.defragmentation.iter().flat_map(|d| d.told()).collect();
        let told = PageInput {
            input: &input,
            bed,
            setup,
            results: on_page,
            runs: &runs,
            least_time: least_time.as_ref(),
            findings: &findings,
            cautions: &cautions,
        };
        let page = page::page(&told)?;
        let runs = runs.into_iter().map(|(_, run)| run).collect();
        Ok(Answered::new(&results, page)?.with(runs))
    }
}

impl SimulateAsk {
    /// Opens the device and the flash: those that are named, or else those that the configuration
    /// emulates.
    fn devices(
        &self,
        served: Option<&ServedDisk>,
    ) -> Result<(OpenDevice, Option<OpenDevice>), Error> {
        let (device, flash) = served.map(|served| served.devices.clone()).unwrap_or_default();
        let opened = |input: &Option<DeviceInput>, other| match input {
            Some(device) => devices::open(&device.0).map(Some),
            None => Ok(other),
        };
        let missing = || {
            let expected = match served {
                Some(_) => {
                    "the model of the configured disk or drives, because the configuration \
                     emulates none"
                }
                None => "a device",
            };
            AskError::new(
                "device",
                format!("got none, expected {expected} (see `forebay devices`)"),
            )
        };
        Ok((opened(&self.device, device)?.ok_or_else(missing)?, opened(&self.flash, flash)?))
    }

    /// Returns the number of disks and how much of each is used. For a volume, the configuration
    /// determines both.
    fn drives(&self, served: Option<&ServedDisk>) -> Result<(u16, u64), Error> {
        let Some(drives) = served.and_then(|served| served.drives) else {
            return Ok((self.disks, u64::MAX));
        };
        match self.disks {
            1 => Ok((drives.count, drives.bytes)),
            disks => {
                let expected = format!("none, because the volume has {} drives", drives.count);
                Err(AskError::new("disks", format!("got {disks}, expected {expected}")).into())
            }
        }
    }

    /// Returns the names of the bundled policies that the user gave.
    fn names(&self) -> Vec<&str> {
        self.policy.iter().filter_map(PolicyInput::name).collect()
    }

    /// Returns the policies to simulate, with the promises of the configuration above them.
    fn policies(&self, served: Option<&ServedDisk>) -> Result<Vec<PolicyInput>, Error> {
        let Some(served) = served else {
            return match self.policy.is_empty() {
                true => {
                    let said = "got none, expected at least one (see `forebay policies`)";
                    Err(AskError::new("policy", said).into())
                }
                false => Ok(self.policy.clone()),
            };
        };
        if self.names().len() < self.policy.len() {
            let said = "got a policy of your own, expected the name of one that the server has";
            return Err(AskError::new("policy", said).into());
        }
        Ok(served.specs(self.names())?.into_iter().map(PolicyInput::Named).collect())
    }

    /// Runs each policy, and computes the shortest time. Bundled policies run in parallel; the
    /// caller's own policies follow one at a time.
    fn runs(
        &self,
        input: &Input,
        bed: Bed<'_>,
        setup: Setup,
        session: &mut dyn Session,
    ) -> Result<(Vec<Run>, Option<LeastTime>), Error> {
        let names = self.names();
        let jobs = self.jobs.count();
        let mut tell = |told: &crate::progress::ProgressReport| session.progress(told);
        // Computing the shortest time takes longer than a run. If there are several threads, one of
        // them does it while the others run policies.
        let (named, least_time) = thread::scope(|scope| {
            let least = || LeastTime::of(input, bed, setup);
            let meanwhile = (self.least_time && jobs > 1).then(|| scope.spawn(least));
            let named = run_all(input, bed, &names, setup, jobs, &mut tell);
            (named, meanwhile.map(|thread| thread.join()))
        });
        let mut named = named?.into_iter();
        let least_time = match least_time {
            Some(Ok(found)) => found?,
            Some(Err(_)) => {
                let what = "the shortest possible time was not computed: its thread ended early";
                return Err(Error::Unfit(what.into()));
            }
            None if self.least_time => LeastTime::of(input, bed, setup)?,
            None => None,
        };
        let run = |policy: &PolicyInput| match policy {
            PolicyInput::Named(_) => named.next().map(Ok),
            PolicyInput::Own(own) => Some(own.run(input, bed, setup)),
        };
        let runs: Result<Vec<Run>, Error> = self.policy.iter().filter_map(run).collect();
        Ok((runs?, least_time))
    }
}
