//! Infers from a recording's latencies and request rate on what kind of device it was made.
//!
//! Invariant: nothing is concluded from fewer than [`TOO_FEW`] requests with latencies.

use forebay_ask::named;
use forebay_trace::describe::Description;
use forebay_trace::describe::description::Latency;
use forebay_trace::describe::printable;

use super::judge::TOO_FEW;
use crate::quantities::{millis, percent, significant};
use crate::simulate::RunResult;

/// The lowest possible mean latency of non-sequential reads on the fastest disks: half a revolution
/// at 15,000 rpm, without arm movement.
const POSITIONING_LEAST_MS: f64 = 2.0;

/// The share of non-sequential requests that latencies must include to be conclusive. With fewer, a
/// disk's buffer may have served 99 % of requests.
const ELSEWHERE_LEAST: f64 = 0.1;

/// How many times as long as recorded the model's requests must take for the model to count as
/// slower.
const SLOWER_TIMES: f64 = 2.0;

/// How many times as long as the recording a run must take to count as not keeping up.
const LONGER_TIMES: f64 = 1.05;

/// A rate of non-sequential requests per second that no disk can serve, even with the deepest
/// queue.
const SCATTERED_MOST: f64 = 1000.0;

/// Advises the user to name a disk, to get an answer about that disk.
fn name_one() -> String {
    format!("to simulate it on a disk, name one with {}", named("device"))
}

/// Returns whether the volume's name or device number is one that Linux gives to NVMe drives and
/// their partitions. The same major number is shared by the sixteenth and later partitions of other
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

/// Explains why the recorded device cannot have been a disk, judging by the volumes' names and the
/// latencies, or by the request rate if there are no latencies. Returns `None` if it may have been
/// a disk.
pub(super) fn was_flash(description: &Description, volumes: &[String]) -> Option<String> {
    if let Some(name) = volumes.iter().find(|name| is_nvme(name)) {
        return Some(format!(
            "flash, judging by the trace: its volume is called {}; {}",
            printable(name),
            name_one()
        ));
    }
    let goes_on = description.sequential_share?;
    let Some(reads) = measured(&description.read_latency, description.reads) else {
        let is_unmeasured = measured(&description.write_latency, description.writes).is_none();
        let scattered = description.mean_iops? * (1.0 - goes_on);
        let is_flash =
            is_unmeasured && description.requests >= TOO_FEW && scattered > SCATTERED_MOST;
        return is_flash.then(|| {
            format!(
                "flash: the trace has no latencies, but {} of its requests a second do not continue where the \
                 previous one ended, and no disk answers more than some {SCATTERED_MOST:.0}; {}",
                significant(scattered),
                name_one()
            )
        });
    };
    let within_ms = reads.p99_ms?;
    (0.0 < within_ms && within_ms < POSITIONING_LEAST_MS && 1.0 - goes_on >= ELSEWHERE_LEAST).then(|| {
        format!(
            "flash, judging by the trace: 99 % of its reads took less than {}, although only {} of its requests continue \
             where the previous one ended; no disk can do that; {}",
            millis(within_ms),
            percent(goes_on),
            name_one()
        )
    })
}

/// Returns which requests are compared, and their median latency as recorded and in `run`, in
/// milliseconds; `None` if the recorded device was not faster.
fn medians(description: &Description, run: &RunResult) -> Option<(&'static str, f64, f64)> {
    let reads = measured(&description.read_latency, description.reads);
    let writes = measured(&description.write_latency, description.writes);
    let (kind, latency, ms) = match (reads, writes) {
        (Some(reads), _) => ("reads", reads, run.figures.read_p50_ms?),
        (None, Some(writes)) => ("writes", writes, run.figures.write_p50_ms?),
        (None, None) => return None,
    };
    let recorded_ms = latency.p50_ms?;
    (ms >= recorded_ms * SLOWER_TIMES).then_some((kind, recorded_ms, ms))
}

/// Formats how much faster the recorded device was than the model in `run`, as in "the median of
/// its reads was 378 us, here it is 13.1 ms"; `None` if it was not faster.
pub(super) fn faster(description: &Description, run: &RunResult) -> Option<String> {
    let (kind, recorded_ms, ms) = medians(description, run)?;
    let [recorded, here] = [recorded_ms, ms].map(millis);
    Some(format!("the median of its {kind} was {recorded}, here it is {here}"))
}

/// Returns how many times as fast as the model in `run` the recorded device was; `None` if it was
/// not faster.
pub(super) fn times_faster(description: &Description, run: &RunResult) -> Option<f64> {
    let (_, recorded_ms, ms) = medians(description, run)?;
    (recorded_ms > 0.0).then_some(ms / recorded_ms)
}

/// Formats how much faster the recorded device was than the model in `run`, with the rates of both;
/// `None` if it was not faster.
pub(super) fn was_faster(
    description: &Description,
    run: &RunResult,
    device: &str,
) -> Option<String> {
    let faster = faster(description, run)?;
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
    Some(format!(
        "The device of the recording was faster than {device}: {faster}{rates}. The results are \
         for {device}, not for the recorded device; name that one with --device.",
    ))
}

/// Returns the latency statistics of `requests`, if enough of them have a latency.
fn measured(latency: &Latency, requests: u64) -> Option<&Latency> {
    let measured = latency.measured_share.unwrap_or(0.0) * requests as f64;
    (measured >= TOO_FEW as f64).then_some(latency)
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

    #[test]
    fn scattered_reads_that_no_disk_answers_so_fast_are_from_flash() {
        let flash = was_flash(&recorded(0.055, 0.094, 0.001), &[]).unwrap();
        assert!(flash.contains("took less than 94 µs, although only 0.1 %"), "{flash}");
        assert_eq!(was_flash(&recorded(0.05, 9.0, 0.001), &[]), None, "a cache before a disk");
        assert_eq!(was_flash(&recorded(0.05, 0.1, 0.95), &[]), None, "read ahead by a disk");
        let mut few = recorded(0.05, 0.1, 0.0);
        few.reads = TOO_FEW - 1;
        assert_eq!(was_flash(&few, &[]), None);
        let named = |name: &str| was_flash(&few, &["sda".to_string(), name.to_string()]);
        assert!(
            named("nvme0n1").unwrap().starts_with("flash, judging by the trace: its volume is")
        );
        assert!(named("/dev/nvme12n3p4").is_some() && named("259,0").is_some());
        for name in [
            "nvme", "nvmen1", "nvme0", "nvme0nx", "nvme0n1x", "xnvme0n1", "nvme0n", "8,259", "259",
            "259,",
        ] {
            assert_eq!(named(name), None, "{name}");
        }
        let mut unmeasured = recorded(0.05, 0.1, 0.0);
        unmeasured.read_latency.measured_share = Some(0.02);
        assert_eq!(was_flash(&unmeasured, &[]), None);
        // Without latencies, the request rate decides.
        unmeasured.mean_iops = Some(51_000.0);
        let flash = was_flash(&unmeasured, &[]).unwrap();
        assert!(flash.contains("no latencies, but 51000 of its requests a second"), "{flash}");
        unmeasured.sequential_share = Some(0.99);
        assert_eq!(was_flash(&unmeasured, &[]), None, "a disk can go on as fast");
        (unmeasured.sequential_share, unmeasured.mean_iops) = (Some(0.0), Some(900.0));
        assert_eq!(was_flash(&unmeasured, &[]), None);
    }

    #[test]
    fn a_recording_is_faster_by_its_latencies_and_its_rate() {
        let mut run = sample::advice().runs[0].clone();
        (run.figures.requests, run.figures.read_p50_ms) = (4000, Some(9.0));
        let mut description = recorded(4.0, 30.0, 0.0);
        (description.duration_s, run.figures.makespan_s) = (10.0, 10.1);
        let said = was_faster(&description, &run, "D").unwrap();
        assert!(said.contains("was 4 ms, here it is 9 ms. The results"), "{said}");
        run.figures.makespan_s = 40.0;
        let said = was_faster(&description, &run, "D").unwrap();
        assert!(said.contains("it did 400 requests a second where D does 100."), "{said}");
        assert_eq!(was_faster(&recorded(4.6, 30.0, 0.0), &run, "D"), None);
        // The recorded device is fast, but the model is just as fast.
        run.figures.read_p50_ms = Some(0.07);
        assert_eq!(was_faster(&recorded(0.05, 0.1, 0.0), &run, "D"), None);
        (description.reads, run.figures.write_p50_ms) = (0, Some(9.0));
        assert_eq!(was_faster(&description, &run, "D"), None, "no latencies of writes");
        description.writes = 4000;
        description.write_latency = description.read_latency.clone();
        assert!(was_faster(&description, &run, "D").unwrap().contains("the median of its writes"));
    }
}
