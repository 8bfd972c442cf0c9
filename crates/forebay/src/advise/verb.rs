//! The inputs of `advise`. If the user names a disk instead of a trace, its requests are captured.

use std::path::{Path, PathBuf};

use forebay_ask::{Choice as Word, Size, Value, named};
use forebay_core::Nanos;
use forebay_trace::TraceError;
use tempfile::TempDir;

use super::{
    Advice, AdviceOptions, ArrayDrives, Prefer, Verdict, advise, check_current, default_device,
    default_flash, redundancy,
};
use super::{LocalDisk, page};
use crate::layout::Map;
use crate::plan::buy::Reliability;
use crate::verb::{
    Answered, DeviceInput, JobsAsk, ReplayAsk, Session, SourceAsk, StreamsAsk, TraceInput, Verb,
    warn_missed,
};
use crate::{Error, Replay, Setup, devices, sample};

forebay_ask::ask! {
    /// Find out what would help a disk with this workload
    ///
    /// Describes the trace, tries every scheduler, defragmentation and flash on a model of a disk,
    /// and reports which of them help, and why.
    pub struct AdviseAsk("advise") {
        /// The trace, or a disk of this machine, e.g. /dev/sda, whose requests are captured first
        /// (this needs root); - is standard input; the bundled sample if none is given
        trace: Option<TraceInput> [.positional()],
        /// How long to capture the requests of a disk of this machine
        r#for: Option<Nanos> [.otherwise("60s")],
        /// A bundled device, a device file, or fixed:RATE
        device: Option<DeviceInput> [.otherwise("the smallest drive that holds the trace and keeps up with it")],
        /// The disk's current scheduler, to which everything is compared (on Linux:
        /// /sys/block/sdX/queue/scheduler)
        current: Option<String> [.word("POLICY").otherwise("what Linux sets: mq-deadline for a disk, none for flash")],
        /// Fit those parameters of the disk that data sheets do not specify to the first
        /// half of the trace, test them on the second half, and use them if they fit better there
        fit_device: bool,
        /// A solid-state drive to try offloading and caching with
        flash: Option<DeviceInput> [.otherwise("d7-p5520")],
        /// How much of the flash to use as a cache, e.g. 10G
        flash_size: Option<Size> [.otherwise("a size with most of the hits of a larger cache")],
        /// Also recommend a redundancy scheme for an array of this many such drives
        array: Option<u16> [.word("DRIVES").between(6.0, 32.0)],
        /// Failures per drive of the array and year (default: Backblaze's hard drives, 2024)
        failures_per_year: f64 = "0.0157" [.between(0.000001, 10.0).requires("array")],
        /// Sectors per drive that become unreadable in a year (default: one in 9,259 hours, Elerath
        /// and Pecht 2007)
        defects_per_year: f64 = "0.95" [.between(0.0, 1e6).requires("array")],
        /// The time between two scrubs, which find and repair unreadable sectors
        scrub: Nanos = "168h" [.requires("array")],
        /// The maximum rate in MB/s at which a failed drive is rebuilt
        rebuild_mb_per_s: f64 = "50" [.between(0.1, 1e5).requires("array")],
        /// Which scheduler to choose if none is best in every figure
        prefer: Prefer = "balance",
        /// Where to write the HTML report
        report: Option<PathBuf> [.short('o').default_on_command("report.html")],
        /// When requests arrive
        replay: Option<Replay> [.otherwise("open, and dependent too if the trace records latencies")],
        /// The speed at which requests arrive, relative to the recording
        intensity: f64 = "1" [.word("TIMES").between(1e-6, 1e12)],
        /// How to treat addresses beyond the device
        map: Map = "scale",
        jobs: JobsAsk,
        streams: StreamsAsk,
        source: SourceAsk,
    }
}

impl Value for Prefer {
    const WORD: &'static str = "WHAT";
    const CHOICES: &'static [Word] = &[
        Word { name: "total", about: "the shortest time" },
        Word { name: "reads", about: "the fastest 99 of 100 reads" },
        Word { name: "writes", about: "the fastest 99 of 100 writes" },
        Word { name: "balance", about: "the lowest product of all these" },
    ];

    fn parse(text: &str) -> Result<Prefer, String> {
        Prefer::named(text)
            .ok_or_else(|| format!("got '{text}', expected total, reads, writes or balance"))
    }
}

impl Verb for AdviseAsk {
    type Beyond = Advice;

    fn traces(&self) -> Vec<&TraceInput> {
        self.trace.iter().collect()
    }

    fn files(&self) -> Vec<&Path> {
        let devices = self.device.iter().chain(&self.flash);
        devices.map(|device| devices::file_of(&device.0)).collect()
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(mut self, session: &mut dyn Session) -> Result<Answered<Advice>, Error> {
        self.current.as_deref().map(check_current).transpose()?;
        let flash = match &self.flash {
            Some(flash) => devices::open(&flash.0)?,
            None => default_flash()?,
        };
        let captured = self.capture(session)?;
        let device = self.device.as_ref().map(|device| devices::open(&device.0)).transpose()?;
        if self.fit_device && device.is_none() {
            let (fit, device) = (named("fit_device"), named("device"));
            let said = format!("{fit}: has an effect only with {device}; add it");
            return Err(Error::Unfit(said));
        }
        let input = match &self.trace {
            Some(trace) => {
                let mut input = self.source.read(trace, self.streams.by(), session)?;
                if let Some(captured) = &captured {
                    input.path.clone_from(&captured.disk.path);
                }
                input
            }
            None => {
                let path = Path::new("the bundled trace");
                sample::read(self.streams.by(), &mut |requests| session.read(path, requests))?
            }
        };
        let setup = self.setup(&input, session)?;
        let is_named = captured.as_ref().map_or(device.is_some(), |captured| captured.is_known);
        session.begin("simulating", None);
        let node = captured.as_ref().map(|captured| captured.disk.node.clone());
        let is_device_default = device.is_none();
        let (device, reason) = match device {
            Some(device) => {
                let reason = captured.map(|captured| captured.reason);
                (device, reason.unwrap_or_else(|| "as asked for".to_string()))
            }
            None => {
                let current = self.current.as_deref();
                default_device(&input, current, setup, &mut |told| session.progress(told))?
            }
        };
        let options = AdviceOptions {
            current: self.current.clone(),
            flash_bytes: self.flash_size.map(|size| size.bytes),
            prefer: self.prefer,
            jobs: self.jobs.count(),
            both_replays: self.replay.is_none(),
            device_named: is_named,
            fit_device: self.fit_device,
        };
        let mut advice = advise(&input, &device, reason, &flash, setup, options, &mut |told| {
            session.progress(told)
        })?;
        warn_missed(session, &device);
        advice.stands_in = node.is_some() && !is_named;
        advice.is_device_default = is_device_default;
        if let Some(node) = node {
            advice.name_disk(&node);
        }
        let tells = !matches!(advice.verdict, Verdict::TooShort | Verdict::NoTimes);
        if let Some(drives) = self.array.filter(|_| tells) {
            session.begin("trying redundancy", None);
            let scheduler = advice.recommended.as_ref().unwrap_or(&advice.baseline);
            let asked = self.device.as_ref().map_or(&device.name, |asked| &asked.0);
            let reliability = self.reliability();
            let drives =
                ArrayDrives { device: &device, asked, count: drives, scheduler, reliability };
            let tried = redundancy(&input, drives, setup, &mut |told| session.progress(told))?;
            advice.redundancy = Some(tried);
        }
        let page = page::page(&advice);
        Ok(Answered::new(&advice, page)?.with(advice))
    }
}

/// A recording of a disk of this machine.
struct CapturedDisk {
    disk: LocalDisk,
    /// Why the simulated device was chosen to represent the disk.
    reason: String,
    /// Whether the simulated device is a model of exactly this drive.
    is_known: bool,
    /// The temporary folder of the trace, deleted when this value is dropped.
    _folder: TempDir,
}

impl AdviseAsk {
    /// Records the requests of a block device, if the user names one instead of a trace. Inputs
    /// that the user left out are set to the disk's scheduler and to a model of the disk.
    fn capture(&mut self, session: &mut dyn Session) -> Result<Option<CapturedDisk>, Error> {
        let Some(trace) = self.trace.as_ref().filter(|trace| trace.is_file()) else {
            return Ok(None);
        };
        let Some(disk) = LocalDisk::find(trace.name()) else {
            if self.r#for.is_some() {
                return Err(Error::Unfit(format!(
                    "{}: got a trace, {}, expected a disk of this machine to capture from; leave it out",
                    named("for"),
                    trace.name().display()
                )));
            }
            return Ok(None);
        };
        let model = disk.model()?;
        if let Some(device) = &self.device {
            devices::open(&device.0)?;
        }
        let folder = tempfile::tempdir()
            .map_err(|error| TraceError::no_temporary_file(&error, "the captured trace"))?;
        let output = folder.path().join("captured.parquet");
        let length = self.r#for.unwrap_or(Nanos::from_secs(60));
        session.capture(&disk.path, length, &output)?;
        let is_named = self.device.is_some();
        self.trace = Some(output.into());
        self.current = self.current.take().or_else(|| disk.scheduler.clone());
        self.device.get_or_insert(DeviceInput(model.device));
        let reason = if is_named { "as asked for".to_string() } else { model.reason };
        let is_known = is_named || model.is_known;
        Ok(Some(CapturedDisk { disk, reason, is_known, _folder: folder }))
    }

    fn reliability(&self) -> Reliability {
        Reliability {
            failures_per_year: self.failures_per_year,
            defects_per_year: self.defects_per_year,
            scrub: self.scrub,
            rebuild_bytes_per_s: self.rebuild_mb_per_s * 1e6,
        }
    }

    fn setup(
        &self,
        input: &crate::input::Input,
        session: &mut dyn Session,
    ) -> Result<Setup, Error> {
        let replay = self.replay.unwrap_or(Replay::Open);
        let replaying = ReplayAsk { replay, intensity: self.intensity, map: self.map };
        // Forebay's own schedulers are simulated with the overhead of the server that they need.
        Ok(Setup { serves_own: true, ..replaying.setup(input, session)? })
    }
}
