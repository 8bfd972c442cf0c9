//! Computes how a throttled volume delays the requests of a trace, and which of its limits do so.
//!
//! Requests arrive at their recorded times, however late the volume answers. The result is the
//! delay that the limits add, not a simulation of the host.

use std::collections::VecDeque;

use forebay_core::device::throttled::{Meter, Releases, Throttled, side, to_nanos};
use forebay_core::{Device, DeviceModel, Nanos, Request};
use forebay_words::plural::listed;
use serde::Serialize;

use crate::devices::volume::bucket_text;
use crate::quantities::{millis, percent};
use crate::statistics::Latencies;
use crate::{Error, Input, OpenDevice};

/// How the limits of a volume delay requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Throttling {
    /// The number of reads and writes in the trace.
    pub requests: u64,
    /// The share of reads and writes that a limit delays.
    pub delayed_share: f64,
    /// The mean delay of all reads and writes.
    pub delay_mean_ms: f64,
    /// The 99th percentile of the delays of reads and writes.
    pub delay_p99_ms: f64,
    /// The longest delay of a read or write.
    pub longest_delay_ms: f64,
    /// The limits of the volume, in the order of the device file.
    pub limits: Vec<ThrottlingLimit>,
}

/// A limit of a volume, with the delays that it determines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThrottlingLimit {
    /// The limit in words, such as `3000 IOPS (300 at once)`.
    pub limit: String,
    /// The share of reads and writes that wait for this limit longer than for any other.
    pub delayed_share: f64,
    /// The share of the total delay that this limit determines.
    pub delay_share: f64,
}

impl Throttling {
    /// Computes the delays of `input` on `device` if requests arrive `times` as fast as recorded.
    /// Returns `None` for a device that is not throttled.
    ///
    /// # Errors
    /// Fails if the trace cannot be read again.
    pub fn of(input: &Input, device: &OpenDevice, times: f64) -> Result<Option<Throttling>, Error> {
        let DeviceModel::Throttled(model) = &device.model else { return Ok(None) };
        let mut tally = Tally::new((**model).clone());
        let mut records = input.records()?;
        for (id, record) in (0..).zip(records.by_ref()).filter(|(_, it)| it.op.moves_data()) {
            let at = Nanos((record.at.0 as f64 / times) as u64);
            // The trace's volumes are placed far apart on the device, so that no request continues
            // one on another volume.
            let offset = record.offset.wrapping_add(u64::from(record.volume) << 48);
            let (op, len, stream, flags) = (record.op, record.len, record.stream, record.flags);
            tally.add(Request { at, offset, id, len, stream, lane: 0, op, flags });
        }
        if let Some(error) = records.failed().take() {
            return Err(error.into());
        }
        Ok(Some(tally.finish()))
    }

    /// States in a few words which share of the requests is delayed, and which limit delays most.
    pub fn in_short(&self) -> String {
        match self.decisive() {
            None => "its limits delay no request".to_string(),
            Some(limit) => format!(
                "it delays {} of the requests, by up to {}, mostly because of its {}",
                percent(self.delayed_share),
                millis(self.longest_delay_ms),
                limit.limit.split(" (").next().unwrap_or_default()
            ),
        }
    }

    /// States how long requests are delayed, and by which limits.
    pub fn told(&self) -> String {
        if self.decisive().is_none() {
            return "No request waits for a limit of the volume: with requests at their recorded \
                    times, no limit is ever reached."
                .to_string();
        }
        let of_limit = |limit: &ThrottlingLimit| {
            format!(
                "{} for {} of the requests and {} of the delay",
                limit.limit,
                percent(limit.delayed_share),
                percent(limit.delay_share)
            )
        };
        let deciding = self.limits.iter().filter(|limit| limit.delayed_share > 0.0);
        let deciding: Vec<String> = deciding.map(of_limit).collect();
        format!(
            "With requests at their recorded times, the limits of the volume delay {} of them: by \
             {} on average over all, 99 % by at most {}, the longest by {}. The deciding limit: \
             {}. Higher limits help, and so does merging small requests; changing their order does not.",
            percent(self.delayed_share),
            millis(self.delay_mean_ms),
            millis(self.delay_p99_ms),
            millis(self.longest_delay_ms),
            listed(&deciding)
        )
    }

    /// Returns the limit that causes most of the delay; `None` if nothing is delayed.
    pub fn decisive(&self) -> Option<&ThrottlingLimit> {
        let delaying = self.limits.iter().filter(|limit| limit.delay_share > 0.0);
        delaying.max_by(|a, b| a.delay_share.total_cmp(&b.delay_share))
    }
}

/// The sums over the requests of a run.
struct Tally {
    device: Throttled,
    meter: Meter,
    releases: Releases,
    delays: Latencies,
    delayed: u64,
    /// If reads and writes wait separately for a bucket, this holds the limit that delays each
    /// request in progress, by the request's number relative to `first`; `None` if it is not
    /// delayed.
    decides: VecDeque<Option<usize>>,
    first: u64,
    /// For each limit, the number of requests that it delays, and the sum of their delays in ns.
    limits: Vec<(u64, u128)>,
}

impl Tally {
    fn new(device: Throttled) -> Tally {
        let throttle = device.throttle();
        Tally {
            meter: Meter::new(throttle),
            releases: Releases::new(throttle),
            delays: Latencies::new(3),
            delayed: 0,
            decides: VecDeque::new(),
            first: 0,
            limits: vec![(0, 0); throttle.buckets.len()],
            device,
        }
    }

    /// Adds a request. The order of releases is usually known immediately, so a backlog takes no
    /// memory.
    fn add(&mut self, request: Request) {
        if !self.device.throttle().is_ordered() {
            return self.add_waiting(request);
        }
        let (side, at_ns) = (side(request.op), request.at.0 as f64);
        let decides = self.releases.decides(side, at_ns);
        let release_ns = self.releases.pass(side, at_ns, self.meter.cost(&request));
        self.record(to_nanos(release_ns) - request.at, decides);
    }

    fn add_waiting(&mut self, request: Request) {
        self.take_until(request.at);
        if self.decides.is_empty() {
            self.first = request.id;
        }
        // Flushes are not added, so the request numbers have gaps.
        let gap = (request.id - self.first) as usize;
        self.decides.resize(gap, None);
        self.decides.push_back(self.device.decides(request.at, request.op));
        self.device.start(request.at, request);
    }

    /// Removes the requests that are done by `until`, and adds their delays to the sums.
    fn take_until(&mut self, until: Nanos) {
        while let Some(at) = self.device.next().filter(|at| *at <= until) {
            let done = self.device.finish(at);
            let latency = self.device.throttle().latency(done.io.op);
            let decides = self.decided(done.io.id);
            self.record((done.at - done.started) - latency, decides);
            while self.decides.front() == Some(&None) {
                self.decides.pop_front();
                self.first += 1;
            }
        }
    }

    /// Removes a request, and returns the limit that delayed it; `None` if it was not delayed.
    fn decided(&mut self, id: u64) -> Option<usize> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        self.decides.get_mut(index)?.take()
    }

    fn record(&mut self, delay: Nanos, decides: Option<usize>) {
        self.delays.record(delay);
        if delay == Nanos::ZERO {
            return;
        }
        self.delayed += 1;
        if let Some((requests, delay_ns)) = decides.and_then(|one| self.limits.get_mut(one)) {
            *requests += 1;
            *delay_ns += u128::from(delay.0);
        }
    }

    fn finish(mut self) -> Throttling {
        self.take_until(Nanos::MAX);
        let requests = self.delays.count();
        let share = |count: u64| count as f64 / requests.max(1) as f64;
        let all_ns: u128 = self.limits.iter().map(|(_, delay_ns)| delay_ns).sum();
        let limit = |(bucket, (count, delay_ns)): (&_, &(u64, u128))| ThrottlingLimit {
            limit: bucket_text(bucket),
            delayed_share: share(*count),
            delay_share: *delay_ns as f64 / (all_ns.max(1)) as f64,
        };
        let buckets = &self.device.throttle().buckets;
        Throttling {
            requests,
            delayed_share: share(self.delayed),
            delay_mean_ms: self.delays.mean_ms().unwrap_or(0.0),
            delay_p99_ms: self.delays.quantile_ms(0.99).unwrap_or(0.0),
            longest_delay_ms: self.delays.max().as_millis_f64(),
            limits: buckets.iter().zip(&self.limits).map(limit).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Flags, Op};
    use forebay_trace::Record;

    use super::*;
    use crate::devices;

    fn of(device: &str, rows: &[(u64, Op, u32)]) -> Option<Throttling> {
        let record = |(index, &(ms, op, len)): (usize, &(u64, Op, u32))| Record {
            at: Nanos::from_millis(ms),
            latency: None,
            offset: (index as u64) << 30,
            len,
            stream: 0,
            volume: 0,
            op,
            flags: Flags::NONE,
        };
        let records = rows.iter().enumerate().map(record).collect();
        let input = Input::from_records(records, vec!["a".to_string()]);
        Throttling::of(&input, &devices::open(device).unwrap(), 1.0).unwrap()
    }

    #[test]
    fn delays_are_those_of_the_limit_that_decides() {
        let small = (0, Op::Read, 4096);
        let found = of("iotune:total-iops-sec=10", &[small; 10]).unwrap();
        assert_eq!(
            (found.requests, found.delayed_share),
            (10, 0.8),
            "one token, and one overdrawn"
        );
        assert_eq!(found.longest_delay_ms, 800.0);
        assert_eq!(found.limits.len(), 1);
        assert_eq!((found.limits[0].delayed_share, found.limits[0].delay_share), (0.8, 1.0));
        let short = found.in_short();
        assert!(short.ends_with("mostly because of its 10 IOPS"), "{short}");
        assert!(found.told().contains("80.0 % of them"), "{}", found.told());
    }

    #[test]
    fn the_larger_delay_decides() {
        let volume = "ebs-gp3:gib=9:depth-ms=0";
        let rows = [(0, Op::Read, 1 << 20), (0, Op::Flush, 0), (0, Op::Read, 4096)];
        let found = of(volume, &rows).unwrap();
        assert_eq!((found.requests, found.longest_delay_ms), (2, 8.0));
        let shares: Vec<f64> = found.limits.iter().map(|limit| limit.delay_share).collect();
        assert_eq!(shares, [0.0, 1.0], "8 ms for a MiB, 1.3 ms for four operations");
        assert!(found.decisive().unwrap().limit.starts_with("125 MiB/s"));
    }

    #[test]
    fn requests_before_and_after_a_quiet_time_are_distinguished() {
        let burst = |ms: u64| [(ms, Op::Write, 4096); 4];
        let found = of("iotune:write-iops-sec=10", &[burst(0), burst(10_000)].concat()).unwrap();
        assert_eq!((found.requests, found.delayed_share, found.longest_delay_ms), (8, 0.5, 200.0));
    }

    #[test]
    fn unthrottled_traces_are_reported_as_such() {
        let found = of("ebs-gp3:gib=9", &[(0, Op::Read, 4096), (1, Op::Write, 4096)]).unwrap();
        assert_eq!((found.delayed_share, found.decisive()), (0.0, None));
        assert!(found.in_short().contains("delay no request"));
        assert!(found.told().contains("no limit is ever reached"));
        assert_eq!(of("sata250", &[(0, Op::Read, 4096)]), None);
    }
}
