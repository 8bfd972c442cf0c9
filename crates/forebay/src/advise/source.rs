//! Infers from a recording's latencies and request rate on what kind of device it was made.
//!
//! Invariant: nothing is concluded from fewer than [`TOO_FEW`] requests with latencies.

use std::collections::HashMap;

use forebay_ask::named;
use forebay_core::{Nanos, Op};
use forebay_trace::describe::Description;
use forebay_trace::describe::description::Latency;
use forebay_trace::describe::printable;

use super::judge::{REQUESTS_THAT_MATTER, TOO_FEW};
use crate::quantities::{bound, counted, millis, percent, promised, significant};
use crate::{Error, Input, RunResult};

/// The lowest possible mean latency of non-sequential reads on the fastest disks: half a revolution
/// at 15,000 rpm, without arm movement.
const POSITIONING_LEAST_MS: f64 = 2.0;

/// The share of the non-sequential reads that are faster than that on flash. A disk's cache answers
/// some reads as fast, but not nearly all of them. The share is far from those measured: 97.8 % to
/// 99.2 % on storage that was flash or had most of its data in memory, at most 93 % elsewhere, both
/// for whole traces and for their halves.
const FLASH_SHARE: f64 = 0.955;

/// The measured share must differ from [`FLASH_SHARE`] by at least this much for a clear statement
/// about the kind of device.
const CLEAR_SHARE: f64 = 0.02;

/// If the model's latencies are at least this many times the recorded ones, the model counts as
/// slower; the inverse applies to faster.
const SLOWER_TIMES: f64 = 2.0;

/// The same ratio for 99th percentiles, which vary more.
const TAIL_SLOWER_TIMES: f64 = 5.0;

/// If fewer than this share of the requests are reads, or writes, they reveal nothing about the
/// recorded device.
const KIND_THAT_MATTERS: f64 = 0.1;

/// The ratio of the length of a run to the recording at or above which the device counts as not
/// keeping up.
const LONGER_TIMES: f64 = 1.05;

/// A rate of non-sequential requests per second that no disk can serve, even with the deepest
/// queue.
const SCATTERED_MOST: f64 = 1000.0;

/// Advises the user to name a disk, to get an answer about that disk.
fn name_one() -> String {
    format!("to simulate it on a disk, specify a disk with {}", named("device"))
}

/// Returns whether the volume's name or device number is one that Linux assigns to NVMe drives and
/// their partitions. The major number is also used for the sixteenth and later partitions of other
/// disks, which are rare.
fn is_nvme(volume: &str) -> bool {
    const BLKEXT_MAJOR: &str = "259";
    let name = volume.rsplit('/').next().unwrap_or(volume);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let rest = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n'));
    let number = name.split_once([',', ':']);
    let has_number = number.is_some_and(|(major, minor)| major == BLKEXT_MAJOR && digits(minor));
    has_number
        || rest.is_some_and(|(drive, space)| {
            digits(drive) && digits(space.split_once('p').map_or(space, |(space, _)| space))
        })
}

/// The kind of device that a trace seems to have been recorded on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RecordedOn {
    /// Flash, for this reason.
    Flash(String),
    /// A disk, or an unknown device. The text is empty unless the trace almost looks like one of
    /// flash, or has too little information.
    Disk(String),
}

impl RecordedOn {
    /// Judges by the volumes' names and the latencies of reads, or by the request rate if there are
    /// no latencies.
    ///
    /// # Errors
    /// Fails if the trace cannot be read again.
    pub(super) fn of(input: &Input) -> Result<RecordedOn, Error> {
        let reads = ScatteredReads::of(input)?;
        Ok(RecordedOn::judged(&input.description, &input.volumes, reads))
    }

    fn judged(description: &Description, volumes: &[String], reads: ScatteredReads) -> RecordedOn {
        if let Some(name) = volumes.iter().find(|name| is_nvme(name)) {
            let (name, other) = (printable(name), name_one());
            return RecordedOn::Flash(format!(
                "flash, judging by the trace: its volume is called {name}; {other}"
            ));
        }
        let by_rate = || flash_by_rate(description).map(RecordedOn::Flash);
        let judged = reads.judged().or_else(by_rate);
        judged.unwrap_or_else(|| RecordedOn::Disk(reads.too_few()))
    }
}

/// The reads of a trace that do not continue the previous request of their volume, as far as their
/// latency is known.
#[derive(Clone, Copy, Debug, Default)]
struct ScatteredReads {
    reads: u64,
    /// The number of reads that took less time than a disk needs to reach a sector.
    fast: u64,
    /// The number of reads with a latency above 0. Some formats write 0 if a latency is unknown.
    timed: u64,
}

impl ScatteredReads {
    fn of(input: &Input) -> Result<ScatteredReads, Error> {
        let mut counted = ScatteredReads::default();
        // Where the last request of each volume ended.
        let mut ends = HashMap::new();
        let mut records = input.records()?;
        for record in records.by_ref().filter(|record| record.op.moves_data()) {
            let end = record.offset.saturating_add(record.len.into());
            let before = ends.insert(record.volume, end);
            let is_scattered = before.is_some_and(|before| before != record.offset);
            if record.op == Op::Read && is_scattered {
                counted.add(record.latency);
            }
        }
        match records.failed().take() {
            Some(error) => Err(error.into()),
            None => Ok(counted),
        }
    }

    fn add(&mut self, latency: Option<Nanos>) {
        let Some(latency) = latency else { return };
        self.reads += 1;
        self.fast += u64::from(latency.as_millis_f64() < POSITIONING_LEAST_MS);
        self.timed += u64::from(latency > Nanos::ZERO);
    }

    /// Explains that there are too few such reads to judge by, if there are any.
    fn too_few(self) -> String {
        match self.reads {
            0 | TOO_FEW.. => String::new(),
            reads => format!(
                "a disk, for lack of evidence: the trace has only {} with a recorded latency; ",
                counted(reads, "non-sequential read")
            ),
        }
    }

    /// Returns the kind of device; `None` if there are too few reads with a latency.
    fn judged(self) -> Option<RecordedOn> {
        if self.reads < TOO_FEW || self.timed == 0 {
            return None;
        }
        let share = self.fast as f64 / self.reads as f64;
        let (is_flash, is_clear) =
            (share >= FLASH_SHARE, (share - FLASH_SHARE).abs() > CLEAR_SHARE);
        let reads = format!(
            "{} of its non-sequential reads took less than {}",
            percent(share),
            bound(POSITIONING_LEAST_MS)
        );
        let (other, limit) = (name_one(), promised(FLASH_SHARE));
        Some(match (is_flash, is_clear) {
            (true, true) => RecordedOn::Flash(format!(
                "flash, judging by the trace: {reads}, which is impossible for a disk; {other}"
            )),
            (true, false) => RecordedOn::Flash(format!(
                "flash, by a narrow margin: {reads} (from {limit} on, Forebay assumes flash); {other}"
            )),
            (false, true) => RecordedOn::Disk(String::new()),
            (false, false) => RecordedOn::Disk(format!(
                "a disk, by a narrow margin: {reads} (from {limit} on, Forebay assumes flash); "
            )),
        })
    }
}

/// Explains why a trace without latencies cannot be of a disk, judging by its request rate. Returns
/// `None` if it may be of a disk, or has latencies.
fn flash_by_rate(description: &Description) -> Option<String> {
    let is_measured = measured(&description.read_latency, description.reads).is_some()
        || measured(&description.write_latency, description.writes).is_some();
    let scattered = description.mean_iops? * (1.0 - description.sequential_share?);
    let is_flash = !is_measured && description.requests >= TOO_FEW && scattered > SCATTERED_MOST;
    is_flash.then(|| {
        format!(
            "flash: the trace has no latencies, but {} of its requests a second do not continue where the \
             previous one ended, and no disk answers more than some {SCATTERED_MOST:.0}; {}",
            significant(scattered),
            name_one()
        )
    })
}

/// A figure in which the recorded device is compared with the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantile {
    Median,
    P99,
}

/// How the recorded device compares with the model in one figure of reads or of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RecordedSpeed {
    /// "read" or "write".
    kind: &'static str,
    quantile: Quantile,
    requests: u64,
    recorded_ms: f64,
    here_ms: f64,
}

impl RecordedSpeed {
    /// Compares the recorded device with the model in `run`, by the medians of reads and of writes,
    /// or else by their 99th percentiles. If both kinds differ clearly, the more frequent one
    /// counts. Returns `None` if neither does. A kind of request that is rare does not count.
    pub(super) fn of(description: &Description, run: &RunResult) -> Option<RecordedSpeed> {
        let all = RecordedSpeed::all(description, run);
        let clearest = |quantile: Quantile, times: f64| {
            let clear = all.iter().filter(|one| one.quantile == quantile && one.times() >= times);
            clear.max_by_key(|one| one.requests).copied()
        };
        clearest(Quantile::Median, SLOWER_TIMES)
            .or_else(|| clearest(Quantile::P99, TAIL_SLOWER_TIMES))
    }

    /// Returns the figure in which the model in `run` is slower than the recorded device by the
    /// largest factor; `None` if it is slower in none.
    pub(super) fn slowest(description: &Description, run: &RunResult) -> Option<RecordedSpeed> {
        let slower =
            RecordedSpeed::all(description, run).into_iter().filter(|one| one.was_faster());
        slower.max_by(|one, other| one.times().total_cmp(&other.times()))
    }

    fn all(description: &Description, run: &RunResult) -> Vec<RecordedSpeed> {
        let Description { reads, writes, .. } = *description;
        let of = &run.figures;
        let least = KIND_THAT_MATTERS * (reads + writes) as f64;
        let kinds = [
            ("read", reads, &description.read_latency, [of.read_p50_ms, of.read_p99_ms]),
            ("write", writes, &description.write_latency, [of.write_p50_ms, of.write_p99_ms]),
        ];
        let mut all = Vec::new();
        for (kind, requests, latency, [median_ms, p99_ms]) in kinds {
            let measured = measured(latency, requests).filter(|_| requests as f64 >= least);
            let Some(latency) = measured else { continue };
            let p99_counts = requests >= REQUESTS_THAT_MATTER;
            let pairs = [
                (Quantile::Median, latency.p50_ms.zip(median_ms)),
                (Quantile::P99, latency.p99_ms.zip(p99_ms).filter(|_| p99_counts)),
            ];
            all.extend(pairs.into_iter().filter_map(|(quantile, pair)| {
                let (recorded_ms, here_ms) = pair?;
                Some(RecordedSpeed { kind, quantile, requests, recorded_ms, here_ms })
            }));
        }
        all
    }

    /// Returns whether the recorded device was faster than the model, rather than slower.
    pub(super) fn was_faster(self) -> bool {
        self.recorded_ms < self.here_ms
    }

    /// Returns whether only the 99th percentiles differ, and the recorded one was longer. No model
    /// of a healthy drive explains that.
    pub(super) fn is_unexplained_tail(self) -> bool {
        self.quantile == Quantile::P99 && !self.was_faster()
    }

    /// Returns whether medians differ, so that [`RecordedSpeed::in_short`] gives their ratio.
    pub(super) fn is_ratio(self) -> bool {
        self.quantile == Quantile::Median
    }

    /// Returns the ratio of the two speeds, at least 1.
    pub(super) fn times(self) -> f64 {
        let ratio = self.here_ms / self.recorded_ms.max(1e-6);
        ratio.max(1.0 / ratio.max(1e-9))
    }

    /// Returns "faster" or "slower".
    pub(super) fn how(self) -> &'static str {
        if self.was_faster() { "faster" } else { "slower" }
    }

    /// Formats the comparison without the model's name, as in "the recorded reads were 26 times as
    /// fast" or "the recorded read p99 was 5 s, not 16 ms".
    pub(super) fn in_short(self) -> String {
        let RecordedSpeed { kind, recorded_ms, here_ms, .. } = self;
        let times = self.times();
        match (self.quantile, self.was_faster()) {
            (Quantile::P99, _) => {
                let [recorded, here] = [recorded_ms, here_ms].map(millis);
                format!("the recorded {kind} p99 was {recorded}, not {here}")
            }
            (Quantile::Median, true) => {
                format!("the recorded {kind}s were {times:.0} times as fast")
            }
            (Quantile::Median, false) => {
                format!("the recorded {kind}s were {times:.0} times slower")
            }
        }
    }

    /// Formats a tail that no model explains, with both figures.
    pub(super) fn unexplained(self) -> String {
        let [recorded, here] = [self.recorded_ms, self.here_ms].map(millis);
        let kind = self.kind;
        format!("The recorded {kind} p99 was {recorded}: this model ({here}) does not explain it")
    }

    /// Returns the figures compared, as in "the median of its reads was 378 us, here it is 13.1
    /// ms".
    pub(super) fn figures(self) -> String {
        let [recorded, here] = [self.recorded_ms, self.here_ms].map(millis);
        let quantile = match self.quantile {
            Quantile::Median => "median",
            Quantile::P99 => "99th percentile",
        };
        format!("the {quantile} of its {}s was {recorded}, compared with {here} here", self.kind)
    }
}

/// Returns the recorded 99th percentiles of reads and of writes, of kinds whose latencies were
/// recorded.
pub(super) fn recorded_tails(description: &Description) -> [Option<f64>; 2] {
    let Description { reads, writes, read_latency, write_latency, .. } = description;
    let kinds = [measured(read_latency, *reads), measured(write_latency, *writes)];
    kinds.map(|latency| latency.and_then(|latency| latency.p99_ms))
}

/// Formats how the recorded device compares with the model in `run`, with the rates of both; `None`
/// if neither was clearly faster.
pub(super) fn compared(description: &Description, run: &RunResult, device: &str) -> Option<String> {
    let speed = RecordedSpeed::of(description, run)?;
    let duration_s = description.duration_s;
    let rate = |s: f64| significant(run.figures.requests as f64 / s.max(1e-9));
    let rates = match run.figures.makespan_s > duration_s * LONGER_TIMES {
        true => format!(
            ", and it did {} requests a second where {device} does {}",
            rate(duration_s),
            rate(run.figures.makespan_s)
        ),
        false => String::new(),
    };
    let (how, figures) = (speed.how(), speed.figures());
    Some(format!(
        "The device of the recording was {how} than {device}: {figures}{rates}. The results are for {device}; if \
         you know the recorded device, name it."
    ))
}

/// Returns the latency statistics of `requests`, if enough of them have a latency. Some formats
/// write 0 if a latency is unknown.
fn measured(latency: &Latency, requests: u64) -> Option<&Latency> {
    let measured = latency.measured_share.unwrap_or(0.0) * requests as f64;
    let is_known = latency.p50_ms.is_some_and(|ms| ms > 0.0);
    (measured >= TOO_FEW as f64 && is_known).then_some(latency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::sample;

    /// Returns the description of a trace of 4000 reads with this median, 99th percentile and
    /// sequential share.
    fn recorded(p50_ms: f64, p99_ms: f64, sequential_share: f64) -> Description {
        let mut description = sample::advice().description;
        (description.reads, description.writes) = (4000, 0);
        description.read_latency.measured_share = Some(1.0);
        description.read_latency.p50_ms = Some(p50_ms);
        description.read_latency.p99_ms = Some(p99_ms);
        description.sequential_share = Some(sequential_share);
        description
    }

    fn scattered(reads: u64, fast: u64) -> ScatteredReads {
        ScatteredReads { reads, fast, timed: reads }
    }

    #[test]
    fn the_share_of_fast_scattered_reads_decides() {
        let on = |fast| scattered(1000, fast).judged().unwrap();
        let RecordedOn::Flash(clear) = on(985) else { panic!("{:?}", on(985)) };
        assert!(
            clear.contains("98.5 % of its non-sequential reads took less than 2 ms"),
            "{clear}"
        );
        let RecordedOn::Flash(close) = on(960) else { panic!("{:?}", on(960)) };
        assert!(close.starts_with("flash, by a narrow margin: 96.0 %"), "{close}");
        let RecordedOn::Disk(close) = on(950) else { panic!("{:?}", on(950)) };
        assert!(close.starts_with("a disk, by a narrow margin: 95.0 %"), "{close}");
        // The shares measured on other storage, and on the halves of its traces, leave no doubt.
        for fast in [0, 440, 710, 770, 930] {
            assert_eq!(on(fast), RecordedOn::Disk(String::new()), "{fast}");
        }
        assert_eq!(scattered(TOO_FEW - 1, TOO_FEW - 1).judged(), None);
        let placeholders = ScatteredReads { timed: 0, ..scattered(1000, 1000) };
        assert_eq!(placeholders.judged(), None);
        assert_eq!(placeholders.too_few(), "");
        let few = scattered(6, 6).too_few();
        assert!(
            few.starts_with("a disk, for lack of evidence: the trace has only 6 non-seq"),
            "{few}"
        );
    }

    #[test]
    fn the_name_of_the_volume_or_the_rate_shows_flash() {
        let none = ScatteredReads::default();
        let mut description = recorded(0.05, 0.1, 0.0);
        let is_flash = |description: &Description, name: &str| {
            let names = ["sda".to_string(), name.to_string()];
            match RecordedOn::judged(description, &names, none) {
                RecordedOn::Flash(why) => Some(why),
                RecordedOn::Disk(_) => None,
            }
        };
        let named = is_flash(&description, "nvme0n1").unwrap();
        assert!(named.starts_with("flash, judging by the trace: its volume is"), "{named}");
        for name in ["/dev/nvme12n3p4", "259,0"] {
            assert!(is_flash(&description, name).is_some(), "{name}");
        }
        for name in [
            "nvme", "nvmen1", "nvme0", "nvme0nx", "nvme0n1x", "xnvme0n1", "nvme0n", "8,259", "259",
            "259,",
        ] {
            assert_eq!(is_flash(&description, name), None, "{name}");
        }
        // Without latencies, the request rate decides.
        description.mean_iops = Some(51_000.0);
        assert_eq!(is_flash(&description, "sdb"), None, "it has latencies");
        description.read_latency.measured_share = Some(0.02);
        let by_rate = is_flash(&description, "sdb").unwrap();
        assert!(by_rate.contains("no latencies, but 51000 of its requests a second"), "{by_rate}");
        description.sequential_share = Some(0.99);
        assert_eq!(is_flash(&description, "sdb"), None, "a disk can go on as fast");
        (description.sequential_share, description.mean_iops) = (Some(0.0), Some(900.0));
        assert_eq!(is_flash(&description, "sdb"), None);
    }

    #[test]
    fn latencies_and_rate_show_a_faster_recording() {
        let mut run = sample::advice().runs[0].clone();
        (run.figures.requests, run.figures.read_p50_ms) = (4000, Some(9.0));
        let mut description = recorded(4.0, 30.0, 0.0);
        (description.duration_s, run.figures.makespan_s) = (10.0, 10.1);
        let said = compared(&description, &run, "D").unwrap();
        assert!(said.contains("was 4.00 ms, compared with 9.00 ms here. The results"), "{said}");
        run.figures.makespan_s = 40.0;
        let said = compared(&description, &run, "D").unwrap();
        assert!(said.contains("it did 400 requests a second where D does 100."), "{said}");
        run.figures.read_p99_ms = Some(60.0);
        assert_eq!(compared(&recorded(4.6, 30.0, 0.0), &run, "D"), None);
        // The recorded device is fast, but the model is just as fast.
        (run.figures.read_p50_ms, run.figures.read_p99_ms) = (Some(0.07), Some(0.2));
        assert_eq!(compared(&recorded(0.05, 0.1, 0.0), &run, "D"), None);
        (description.reads, run.figures.write_p50_ms) = (0, Some(9.0));
        assert_eq!(compared(&description, &run, "D"), None, "no latencies of writes");
        description.writes = 4000;
        description.write_latency = description.read_latency.clone();
        assert!(compared(&description, &run, "D").unwrap().contains("the median of its writes"));
    }

    /// Regression test: the fast reads decided, although they were only 2 % of the requests and the
    /// writes were slow.
    #[test]
    fn the_more_frequent_requests_decide() {
        let mut run = sample::advice().runs[0].clone();
        (run.figures.read_p50_ms, run.figures.write_p50_ms) = (Some(13.0), Some(20.0));
        let mut description = recorded(0.4, 30.0, 0.0);
        (description.reads, description.writes) = (122, 5874);
        description.write_latency = description.read_latency.clone();
        description.write_latency.p50_ms = Some(294.0);
        let speed = RecordedSpeed::of(&description, &run).unwrap();
        assert!(!speed.was_faster() && speed.times() > 14.0);
        assert_eq!(
            speed.figures(),
            "the median of its writes was 294 ms, compared with 20.0 ms here"
        );
        // Reads were 32 times as fast, but there are twice as many writes, so the writes decide.
        description.reads = 3000;
        let speed = RecordedSpeed::of(&description, &run).unwrap();
        assert_eq!(speed.in_short(), "the recorded writes were 15 times slower");
        // Unless the writes hardly differ.
        description.write_latency.p50_ms = Some(22.0);
        let speed = RecordedSpeed::of(&description, &run).unwrap();
        assert_eq!(speed.in_short(), "the recorded reads were 32 times as fast");
    }

    /// The medians are alike, but 2 % of the recorded reads took 5 s.
    #[test]
    fn a_recorded_tail_that_the_model_does_not_explain_is_found() {
        let mut run = sample::advice().runs[0].clone();
        (run.figures.read_p50_ms, run.figures.read_p99_ms) = (Some(9.5), Some(16.0));
        let long = recorded(9.0, 5000.0, 0.0);
        let speed = RecordedSpeed::of(&long, &run).unwrap();
        assert!(speed.is_unexplained_tail() && speed.times() > 300.0, "{speed:?}");
        assert_eq!(RecordedSpeed::of(&recorded(9.0, 60.0, 0.0), &run), None);
        // The p99 of a few hundred requests is that of a handful.
        let few = Description { reads: 500, ..long };
        assert_eq!(RecordedSpeed::of(&few, &run), None);
    }

    #[test]
    fn latencies_of_0_are_unknown() {
        let mut run = sample::advice().runs[0].clone();
        (run.figures.read_p50_ms, run.figures.read_p99_ms) = (Some(9.5), Some(16.0));
        let zero = recorded(0.0, 0.0, 0.0);
        assert_eq!(RecordedSpeed::of(&zero, &run), None);
        assert_eq!(recorded_tails(&zero), [None; 2]);
        assert_eq!(recorded_tails(&recorded(0.4, 30.0, 0.0)), [Some(30.0), None]);
    }
}
