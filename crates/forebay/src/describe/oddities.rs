//! Finds what is unusual about a trace and matters to its users. The first screen shows at most
//! three sentences, the most important first.

use forebay_trace::describe::Description;
use forebay_trace::describe::description::Latency;

use crate::quantities::{counted, millis, percent, significant};

/// The maximum number of sentences.
const SAID_MAX: usize = 3;
/// If the busiest second's rate is at least this many times the mean rate, it counts as a burst.
const BURST_TIMES: f64 = 5.0;
/// The minimum number of seconds in the trace for a burst to be meaningful.
const SECONDS_LEAST: u64 = 10;
/// If at least this share of requests is sequential only within the request's stream, streams count
/// as interrupting one another.
const INTERRUPTED_SHARE: f64 = 0.1;
/// If a 99th percentile is at least this many times the median, it counts as a long tail.
const TAIL_TIMES: f64 = 50.0;
/// If there are at most this many writes per flush, flushes count as frequent, because they make
/// writes wait for the medium.
const WRITES_PER_FLUSH: f64 = 20.0;

pub(super) fn oddities(of: &Description) -> Vec<String> {
    let all = [unknown(of), shared_times(of), bursts(of), interrupted(of), flushes(of), tail(of)];
    all.into_iter().flatten().take(SAID_MAX).collect()
}

/// Reports requests without a recorded latency, if others have one.
fn unknown(of: &Description) -> Option<String> {
    let known =
        |count: u64, latency: &Latency| latency.measured_share.unwrap_or(0.0) * count as f64;
    let known = known(of.reads, &of.read_latency) + known(of.writes, &of.write_latency);
    let share = 1.0 - known / of.requests.max(1) as f64;
    (known > 0.0 && share > 0.0)
        .then(|| format!("{} of the requests have no recorded latency.", percent(share)))
}

/// Reports that most requests share their time with another, which indicates a coarse clock.
fn shared_times(of: &Description) -> Option<String> {
    (of.inter_arrival.p50_ms == Some(0.0)).then(|| {
        "Most requests have the same time as the one before: rates and bursts within a step of the clock are unknown."
            .to_string()
    })
}

fn bursts(of: &Description) -> Option<String> {
    let second = of.arrivals.iter().find(|bins| bins.bin_ms == 1000)?;
    let peak_iops = second.peak_iops.filter(|_| second.bins >= SECONDS_LEAST)?;
    let times = peak_iops / of.mean_iops?;
    (times >= BURST_TIMES).then(|| {
        format!(
            "Bursts: the busiest second has {} requests, {} times the mean.",
            significant(peak_iops),
            significant(times)
        )
    })
}

fn interrupted(of: &Description) -> Option<String> {
    let (disk, stream) = of.sequential_share.zip(of.sequential_share_by_stream)?;
    let (stream_share, disk_share) = (percent(stream), percent(disk));
    (stream - disk >= INTERRUPTED_SHARE).then(|| match of.streams {
        1 => format!(
            "Sequential runs interleave: {stream_share} of the requests continue one, but only {disk_share} continue the \
             request before them."
        ),
        _ => format!(
            "Streams interrupt one another: {stream_share} of their requests are sequential, but only {disk_share} on \
             the disk."
        ),
    })
}

fn flushes(of: &Description) -> Option<String> {
    let each = of.writes as f64 / of.flushes as f64;
    (of.flushes > 0 && each <= WRITES_PER_FLUSH).then(|| {
        format!(
            "Writes are flushed often: {} for {}.",
            counted(of.flushes, "flush"),
            counted(of.writes, "write")
        )
    })
}

fn tail(of: &Description) -> Option<String> {
    let long = |name: &str, latency: &Latency| {
        let (p50_ms, p99_ms) = latency.p50_ms.zip(latency.p99_ms)?;
        (p50_ms > 0.0 && p99_ms >= p50_ms * TAIL_TIMES).then(|| {
            format!(
                "Long tail: the p99 of {name} is {}, their median {}.",
                millis(p99_ms),
                millis(p50_ms)
            )
        })
    };
    long("reads", &of.read_latency).or_else(|| long("writes", &of.write_latency))
}
