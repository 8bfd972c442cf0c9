//! The verb `play`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use forebay::Error;
use forebay::simulate::FailureInput;
use forebay::verb::{
    Answered, DeviceInput, LiveTell, ReplayAsk, SecondInterruption, Session, SourceAsk, StreamsAsk,
    TraceInput, Verb, policy_exists, shortened,
};
use forebay_ask::{Takes, Value};
use forebay_core::Nanos;
use forebay_words::plural::counted;
use forebay_words::quantities::millis;
use serde::Serialize;

use crate::play_target::PlayTarget;
use crate::{Driver, Plan, PlayNews, PlayResult, check, page, play};

forebay_ask::ask! {
    /// Play a trace on real files and devices, or on an emulated one, in wall time
    ///
    /// Writes carry pseudo-random data. Existing data are protected: a trace with writes requires a
    /// file that does not exist yet, or permission to overwrite. Ctrl-C ends the run early. On the
    /// command line it prints the results so far, and a second Ctrl-C does not wait for pending
    /// I/Os.
    pub struct PlayAsk("play") {
        /// The trace; - reads standard input
        trace: TraceInput [.positional()],
        /// The file or block device to play the trace on; a file that does not exist is created
        target: Option<PathBuf> [.excludes(&["emulate", "volume"])],
        /// A volume of the trace, and the file or block device to play it on
        map_volume: Vec<VolumeTarget> [.repeated().excludes(&["emulate", "volume"])],
        /// Play the trace on the volume of these drives, or of the drives in this folder (see
        /// `forebay volume`). The policy is then either the scheduler of each drive, or `array`
        /// with a rule for changing levels
        volume: Vec<PathBuf> [.word("DIR|DEVICE").excludes(&["emulate", "flash", "buffered"])],
        /// Emulate this device instead (see `forebay devices`): I/Os complete at the times that its
        /// model predicts
        emulate: Option<DeviceInput> [.excludes(&["driver", "buffered", "depth"])],
        /// A file or block device to use as the flash of placement policies; with an emulated
        /// device, the name of a device
        flash: Option<DeviceInput> [.word("FILE|DEVICE").checked(|_| Ok(()))],
        /// Make I/Os of the emulated device fail (see `forebay simulate --help`)
        fail: Vec<FailureInput> [.requires("emulate")],
        /// The policy to apply (see `forebay policies`)
        policy: Option<String> [.word("POLICY").checked(policy_exists).otherwise(
            "requests as recorded, without merging; noop on a volume, to merge a chunk and its \
             checksums into one write")],
        /// Stop after this time: 60s, 5m, 1h
        r#for: Option<Nanos>,
        /// Let writes destroy the data on the target
        overwrite: bool,
        /// How to submit I/Os to the target
        driver: Option<Driver> [.otherwise("io_uring if available")],
        /// Use the page cache
        buffered: bool,
        /// Run with real-time priority, to issue requests on time on a busy machine; needs root
        realtime: bool,
        /// The maximum number of I/Os in flight on a target
        depth: Option<u32> [.word("COUNT").between(1.0, 4096.0).otherwise("256")],
        replaying: ReplayAsk,
        streams: StreamsAsk,
        source: SourceAsk,
    }
}

/// A volume of a trace and the file or block device to play it on, as `NAME=FILE`. The name may be
/// empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeTarget {
    /// The name of the volume.
    pub volume: String,
    /// The file or block device.
    pub target: PathBuf,
}

impl Value for VolumeTarget {
    const WORD: &'static str = "NAME=FILE";
    const TAKES: Takes = Takes::TextOrDict;
    const PYTHON: &'static str = "str | Mapping[str, str | PathLike[str]]";

    fn parse(text: &str) -> Result<VolumeTarget, String> {
        match text.split_once('=') {
            Some((volume, target)) if !target.is_empty() => {
                Ok(VolumeTarget { volume: volume.to_string(), target: PathBuf::from(target) })
            }
            _ => Err(format!("got '{text}', expected NAME=FILE, e.g. vol0=/dev/sdb")),
        }
    }
}

/// The answer of `play`.
#[derive(Serialize)]
struct PlayAnswer {
    trace: String,
    #[serde(flatten)]
    result: PlayResult,
}

impl Verb for PlayAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let target = PlayTarget::of(&self)?;
        let (on, policy) = (target.on(), target.policy(self.policy.as_deref()));
        check(on, policy)?;
        let input = self.source.read(&self.trace, self.streams.by(), session)?;
        let setup = self.replaying.setup(&input, session)?;
        let plan = Plan { policy, setup, length: self.r#for, realtime: self.realtime };
        session.begin("playing", None);
        let run = |stop: &AtomicBool, tell: LiveTell<'_>| {
            let mut before = PlayNews::default();
            play(&input, on, plan, stop, |news| {
                tell(line(&before, news), share(news.elapsed, plan.length));
                before = *news;
            })
        };
        let result = shortened(session, SecondInterruption::Ends, run)??;
        for note in result.changed.told().iter().chain(&result.notes) {
            session.warn(Path::new(""), note);
        }
        // Failed I/Os are expected if the user injected faults, so they do not make the run fail.
        let ios_failed = result.figures.ios_failed;
        let failed = (self.fail.is_empty() && ios_failed > 0)
            .then(|| format!("{} failed; see the verdict", counted(ios_failed, "I/O")));
        let failure = result.flush_error.clone().or(failed);
        let page = page::page(&input.path, &result);
        let answer = PlayAnswer { trace: input.path.display().to_string(), result };
        Ok(Answered::new(&answer, page)?.failing(failure))
    }
}

/// Returns the elapsed share of a duration.
pub(crate) fn share(elapsed: Nanos, length: Option<Nanos>) -> Option<f64> {
    length.map(|length| (elapsed.as_secs_f64() / length.as_secs_f64()).min(1.0))
}

/// Formats the activity between two progress reports.
fn line(before: &PlayNews, now: &PlayNews) -> String {
    let seconds = (now.elapsed - before.elapsed).as_secs_f64().max(1e-3);
    format!(
        "playing: {} requests, {:.0}/s, {} outstanding, {} late, {} I/Os failed",
        now.finished,
        (now.finished - before.finished) as f64 / seconds,
        now.issued - now.finished,
        millis(now.late.as_millis_f64()),
        now.failed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_mapped_by_name() {
        let mapped = |text: &str| VolumeTarget::parse(text).map(|it| (it.volume, it.target));
        assert_eq!(mapped("usr/0=/tmp/a=b"), Ok(("usr/0".into(), "/tmp/a=b".into())));
        assert_eq!(mapped("=x"), Ok((String::new(), "x".into())));
        assert!(mapped("usr").is_err() && mapped("usr=").is_err());
    }
}
