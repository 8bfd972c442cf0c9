//! `plan consolidate`: several clients on one server, as the sum of what each needs alone and as
//! what they truly need together.
//!
//! Source: the paper's section 4.5 and figures 4.5 and 4.6. A single trace is given with itself,
//! later: copy `k` begins `k` shifts after the first. Several traces all begin together unless they
//! are shifted in the same way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_core::Nanos;
use forebay_core::rtt::Gaps;
use serde::Serialize;

use super::arrivals::Arrivals;
use super::capacity::{Doubt, Promises, Row, beyond, on_all_cores, table};
use super::search::least_capacities;
use crate::error::Error;

/// One promise to clients that share a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shared {
    /// How much later each client begins than the one before it.
    pub shift_s: f64,
    /// The bound.
    pub within_ms: f64,
    /// The share of requests, of each client alone and of all together.
    pub fraction: f64,
    /// What the clients need alone, added up.
    pub sum_iops: u64,
    /// What they need together.
    pub merged_iops: u64,
    /// The latter over the former: 1 if sharing saves nothing.
    pub ratio: f64,
}

/// What sharing a server saves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Consolidation {
    /// What each client needs alone, in the order given.
    pub clients: Vec<Client>,
    /// What they need together.
    pub rows: Vec<Shared>,
}

/// A client alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Client {
    /// Its trace.
    pub trace: String,
    /// Its requests.
    pub requests: u64,
    /// What its promises cost.
    pub rows: Vec<Row>,
}

/// `promises` to `clients`, the `k`-th of which begins `k` shifts late, for each of `shifts`.
///
/// # Errors
/// A promise that no capacity keeps.
pub fn consolidate(
    clients: &[&Arrivals],
    shifts: &[Nanos],
    promises: &Promises,
) -> Result<Consolidation, Error> {
    let alone = alone(clients, promises)?;
    let (fractions, mut rows) = (&promises.fractions, Vec::new());
    for shift in shifts {
        let merged = merge(clients, *shift);
        let needs: Vec<u64> = fractions.iter().map(|f| f.of(merged.len() as u64)).collect();
        let prices =
            on_all_cores(&promises.within, |within| least_capacities(&merged, *within, &needs));
        let prices = promises.within.iter().zip(prices);
        for (at, (within, prices)) in prices.enumerate() {
            for (of, (fraction, price)) in fractions.iter().zip(prices).enumerate() {
                let row = at * fractions.len() + of;
                let sum_iops = alone.iter().map(|client| client.rows[row].capacity_iops).sum();
                let merged_iops = price.ok_or_else(|| beyond(clients[0], *within, *fraction))?;
                rows.push(Shared {
                    shift_s: shift.as_secs_f64(),
                    within_ms: within.as_millis_f64(),
                    fraction: fraction.as_f64(),
                    sum_iops,
                    merged_iops,
                    ratio: merged_iops as f64 / sum_iops as f64,
                });
            }
        }
    }
    Ok(Consolidation { clients: alone, rows })
}

fn alone(clients: &[&Arrivals], promises: &Promises) -> Result<Vec<Client>, Error> {
    let mut alone: Vec<Client> = Vec::new();
    for (k, client) in clients.iter().enumerate() {
        let same = clients[..k].iter().position(|other| std::ptr::eq(*other, *client));
        alone.push(match same {
            Some(other) => alone[other].clone(),
            None => Client {
                trace: client.path.display().to_string(),
                requests: client.requests(),
                rows: table(client, promises, Doubt::default())?,
            },
        });
    }
    Ok(alone)
}

/// All clients' arrivals, each counted from its own first.
fn merge(clients: &[&Arrivals], shift: Nanos) -> Gaps {
    let mut sources: Vec<_> = clients
        .iter()
        .enumerate()
        .map(|(k, client)| {
            let late = Nanos(shift.0.saturating_mul(k as u64));
            client.whole.times().map(move |at| at - client.whole.first() + late)
        })
        .collect();
    let mut heads = BinaryHeap::new();
    for (k, source) in sources.iter_mut().enumerate() {
        heads.extend(source.next().map(|at| Reverse((at, k))));
    }
    let mut merged = Gaps::default();
    while let Some(Reverse((at, k))) = heads.pop() {
        merged.push(at);
        heads.extend(sources[k].next().map(|at| Reverse((at, k))));
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn arrivals(times: &[u64]) -> Arrivals {
        Arrivals {
            path: PathBuf::from("t"),
            whole: times.iter().copied().map(Nanos).collect(),
            volumes: Vec::new(),
            notes: forebay_trace::Notes::default(),
        }
    }

    const SECOND: u64 = 1_000_000_000;

    fn rows(clients: &[&Arrivals], shift: u64) -> Vec<(u64, u64)> {
        let promises = Promises {
            within: vec![Nanos(SECOND)],
            fractions: vec!["1".parse().unwrap(), "0.5".parse().unwrap()],
        };
        let found = consolidate(clients, &[Nanos(shift)], &promises).unwrap();
        found.rows.iter().map(|row| (row.sum_iops, row.merged_iops)).collect()
    }

    #[test]
    fn bursts_that_miss_each_other_cost_as_one() {
        let client = arrivals(&[0; 10]);
        assert_eq!(rows(&[&client, &client], 0), [(20, 20), (10, 10)]);
        assert_eq!(rows(&[&client, &client], 5 * SECOND), [(20, 10), (10, 5)]);
        assert_eq!(rows(&[&client, &client, &client], 5 * SECOND), [(30, 10), (15, 5)]);
    }

    #[test]
    fn clients_are_merged_in_order_from_their_first_request() {
        let (a, b) = (arrivals(&[100, 300]), arrivals(&[7, 8, 300]));
        let times: Vec<u64> = merge(&[&a, &b], Nanos(10)).times().map(|at| at.0).collect();
        assert_eq!(times, [0, 10, 11, 200, 303]);
    }
}
