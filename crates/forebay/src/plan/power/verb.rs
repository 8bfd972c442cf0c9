//! The inputs of `plan power`.

use std::path::{Path, PathBuf};

use forebay_ask::Share;
use forebay_core::Nanos;
use serde::Serialize;

use super::page;
use super::{Disk, Power, Question, power};
use crate::plan::arrival_times::{ArrivalTimes, Clock};
use crate::plan::page::undecided;
use crate::plan::read::read;
use crate::verb::{Answered, Session, SourceAsk, TraceInput, Verb, warn_all, warn_missed};
use crate::{Error, devices, shingled};

forebay_ask::ask! {
    /// Find how much energy a promise requires if pools of disks can be switched off
    pub struct PowerAsk("plan power") {
        /// The traces; each is analyzed separately
        traces: Vec<TraceInput> [.positional().at_least_one()],
        /// A bundled disk, or a device file with standby figures
        device: String = "ultrastar-36z15" [.word("DEVICE")],
        /// Requests per second of one disk
        disk_iops: Option<u64> [.word("IOPS").between(1.0, 1e9).otherwise("random 4 KiB reads, simulated")],
        /// The power of a disk that is off, in watts; the paper assumes 0
        off_w: Option<f64> [.word("WATTS").between(0.0, 1e6).otherwise("the disk's standby power")],
        /// Disks in a pool
        pool_disks: u64 = "4" [.between(1.0, 1e6)],
        /// The time within which requests must be answered
        within: Nanos = "20ms",
        /// The share of each epoch's requests that is promised within the time
        fraction: Share = "0.99",
        /// The share of all requests for which the baseline has enough pools
        baseline_fraction: Share = "1",
        /// The time between decisions about which pools are on
        epoch: Nanos = "1h",
        /// The number of past epochs that a prediction considers; it uses the maximum that any of
        /// them needed
        history: u16 = "1" [.word("EPOCHS").between(1.0, 65535.0)],
        /// Also write the answer as an HTML report
        report: Option<PathBuf> [.short('o')],
        /// Trust the traces' times even if their clocks seem too coarse for the question
        trust_times: bool,
        source: SourceAsk,
    }
}

/// The options of `plan power`, and the result for each trace.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Answer {
    pub(super) within_ms: f64,
    pub(super) fraction: f64,
    pub(super) baseline_fraction: f64,
    pub(super) epoch_s: f64,
    pub(super) traces: Vec<OfTrace>,
}

/// The result of `plan power` for one trace.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OfTrace {
    pub(super) trace: String,
    #[serde(flatten)]
    pub(super) power: Power,
}

impl Verb for PowerAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        self.traces.iter().collect()
    }

    fn files(&self) -> Vec<&Path> {
        vec![devices::file_of(&self.device)]
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let mut disk = Disk::open(&self.device, self.disk_iops)?;
        disk.standby_w = self.off_w.unwrap_or(disk.standby_w);
        let device = devices::open(&self.device)?;
        warn_missed(session, &device);
        let note = shingled::note(&device);
        warn_all(session, Path::new(""), note.as_slice());
        let question = Question {
            within: self.within,
            fraction: self.fraction,
            baseline: self.baseline_fraction,
            epoch: self.epoch,
            history: usize::from(self.history),
            pool_disks: self.pool_disks,
            disk,
        };
        let clock = Clock::of([self.within], self.trust_times);
        let (mut traces, mut data_requests) = (Vec::new(), 0);
        for trace in &self.traces {
            let arrivals: ArrivalTimes = read(&self.source, trace, None, clock, session)?;
            data_requests += arrivals.data_requests;
            session.begin("switching pools", None);
            let power = power(&arrivals, &question)?;
            warn_all(session, trace.name(), power.epoch_caution().as_slice());
            traces.push(OfTrace { trace: trace.name().display().to_string(), power });
        }
        let answer = Answer {
            within_ms: self.within.as_millis_f64(),
            fraction: self.fraction.as_f64(),
            baseline_fraction: self.baseline_fraction.as_f64(),
            epoch_s: self.epoch.as_secs_f64(),
            traces,
        };
        Answered::new(&answer, undecided(page::page(&answer, &question), data_requests))
    }
}
