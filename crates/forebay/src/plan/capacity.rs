//! `plan capacity`: the least capacity for each bound and fraction.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use forebay_core::Nanos;
use forebay_core::rtt::{Gaps, RATE_MAX_IOPS};
use serde::Serialize;

use super::amount::Fraction;
use super::arrivals::Arrivals;
use super::search::least_capacities;
use crate::error::Error;

/// The promises whose price is asked: every bound with every fraction.
#[derive(Clone, Debug)]
pub struct Promises {
    /// Bounds, each above zero.
    pub within: Vec<Nanos>,
    /// Shares of all requests.
    pub fractions: Vec<Fraction>,
}

/// The price of one promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The volume; none for the trace as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The bound.
    pub within_ms: f64,
    /// The share of requests.
    pub fraction: f64,
    /// The least whole number of requests a second.
    pub capacity_iops: u64,
}

/// The price of `promises` for the whole trace, then for each of its volumes, on as many threads
/// as the machine has.
///
/// # Errors
/// A promise that takes more than [`RATE_MAX_IOPS`].
pub fn table(arrivals: &Arrivals, promises: &Promises) -> Result<Vec<Row>, Error> {
    let whole = std::iter::once((None, &arrivals.whole));
    let volumes = arrivals.volumes.iter().map(|(name, gaps)| (Some(name), gaps));
    let traces: Vec<(Option<&String>, &Gaps)> = whole.chain(volumes).collect();
    let jobs: Vec<(usize, Nanos)> = (0..traces.len())
        .flat_map(|trace| promises.within.iter().map(move |within| (trace, *within)))
        .collect();
    let prices = on_all_cores(&jobs, |(trace, within)| {
        let gaps = traces[*trace].1;
        let requests = gaps.len() as u64;
        let needs: Vec<u64> = promises.fractions.iter().map(|f| f.of(requests)).collect();
        least_capacities(gaps, *within, &needs)
    });
    let mut rows = Vec::new();
    for ((trace, within), prices) in jobs.iter().zip(prices) {
        for (fraction, price) in promises.fractions.iter().zip(prices) {
            let price = price.ok_or_else(|| beyond(arrivals, *within, *fraction))?;
            rows.push(Row {
                volume: traces[*trace].0.cloned(),
                within_ms: within.as_millis_f64(),
                fraction: fraction.as_f64(),
                capacity_iops: price,
            });
        }
    }
    Ok(rows)
}

/// Says that a promise cannot be kept by any capacity.
pub(super) fn beyond(arrivals: &Arrivals, within: Nanos, fraction: Fraction) -> Error {
    Error::Unfit(format!(
        "{}: a fraction of {fraction} within {within} takes more than {RATE_MAX_IOPS} IOPS, \
         expected a promise that takes less; allow more time or a smaller fraction",
        arrivals.path.display()
    ))
}

/// `work` on each of `jobs`, answers in their order.
pub(super) fn on_all_cores<J: Sync, T: Send>(jobs: &[J], work: impl Fn(&J) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    if threads <= 1 {
        return jobs.iter().map(work).collect();
    }
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let answer = (index, work(job));
                    answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|answer| answer.0);
    answers.into_iter().map(|answer| answer.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn arrivals(times: impl Iterator<Item = u64>) -> Arrivals {
        Arrivals {
            path: PathBuf::from("t"),
            whole: times.map(Nanos).collect(),
            volumes: vec![("a".into(), [Nanos(0)].into_iter().collect())],
            notes: forebay_trace::Notes::default(),
        }
    }

    fn promises(within: &[u64], fractions: &[&str]) -> Promises {
        Promises {
            within: within.iter().copied().map(Nanos).collect(),
            fractions: fractions.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn rows_come_by_trace_then_bound_then_fraction() {
        // Ten at once: the last takes ten services.
        let rows = table(
            &arrivals([0; 10].into_iter()),
            &promises(&[1_000_000_000, 500_000_000], &["0.5", "1"]),
        )
        .unwrap();
        let shown: Vec<_> = rows
            .iter()
            .map(|r| (r.volume.as_deref(), r.within_ms, r.fraction, r.capacity_iops))
            .collect();
        assert_eq!(
            shown[..4],
            [
                (None, 1000.0, 0.5, 5),
                (None, 1000.0, 1.0, 10),
                (None, 500.0, 0.5, 10),
                (None, 500.0, 1.0, 20),
            ]
        );
        assert_eq!(shown[4..6], [(Some("a"), 1000.0, 0.5, 1), (Some("a"), 1000.0, 1.0, 1)]);
        assert_eq!(rows.len(), 8);
    }

    #[test]
    fn what_no_capacity_keeps_is_said() {
        let refused = table(&arrivals([0; 10].into_iter()), &promises(&[9], &["0.5", "1"]));
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("a fraction of 1 within") && text.contains("1000000000"), "{text}");
    }
}
