//! The verb `plan consolidate` with `--cost-us`: clients share a server on which longer requests
//! cost more.
//!
//! Compares three speeds: the sum of what the clients need on servers of their own; what they need
//! together; and what keeps the promise to each client (`shaped_speed`). For the last one, each
//! client's requests are decomposed separately, the admitted requests are merged, and all of these
//! are served in time. It is at most the sum, and at least what all need together.
//!
//! Each client's share under a common decomposition is not reported. If costs differ, several sets
//! of admitted requests are equally large, and the choice among them would determine the clients'
//! shares.

use forebay_core::Nanos;
use serde::Serialize;

use super::in_time::{Arrival, answered, first_come, least_speed, scale};
use super::{About, Cost, CostedRow, Load, as_speed, beyond, least_speeds, table};
use crate::Error;
use crate::jobs::on_all_cores;
use crate::plan::arrival_times::Span;
use crate::plan::capacity::{Promises, once};
use crate::plan::consolidate::{Begin, cautions, merged};
use forebay_ask::Share;

/// The speed that a promise to clients on one shared server needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shared {
    /// The delay of each client relative to the previous one, in seconds.
    pub shift_s: f64,
    /// The time within which requests are promised an answer.
    pub within_ms: f64,
    /// The promised share of requests, for each client alone and for all clients together.
    pub fraction: f64,
    /// The sum of the speeds that the clients need on servers of their own.
    pub sum_speed: f64,
    /// The speed that the clients need together, if the promise is about all requests.
    pub merged_speed: f64,
    /// `merged_speed` divided by `sum_speed`; 1 means that sharing saves nothing.
    pub ratio: f64,
    /// The speed that keeps the promise to every client.
    pub shaped_speed: f64,
    /// `shaped_speed` divided by `sum_speed`; 1 means that sharing saves nothing.
    pub shaped_ratio: f64,
}

/// What a client needs on a separate server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Client {
    /// The client's number: its position in the order given, counted from 1.
    pub client: usize,
    /// The client's trace.
    #[serde(flatten)]
    pub about: About,
    /// The speeds that the promises to this client need.
    pub rows: Vec<CostedRow>,
}

/// The answer of `plan consolidate` with `--cost-us`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Consolidation {
    /// The cost of a request at speed 1: microseconds, plus microseconds per KiB.
    pub cost_us: String,
    /// What each client needs on a separate server, in the order given.
    pub clients: Vec<Client>,
    /// Cautions about the answer, one sentence each.
    pub cautions: Vec<String>,
    /// What the clients need on a shared server, by promise and shift.
    pub rows: Vec<Shared>,
}

/// Finds the speeds that `promises` to `clients` need. Start times are aligned as `begin` says;
/// then client `k` is delayed by `k` shifts, for each of `shifts`.
///
/// # Errors
/// Fails if no speed up to a million keeps a promise.
pub fn consolidate(
    clients: &[&Load],
    begin: Begin,
    shifts: &[Nanos],
    promises: &Promises,
    cost: Cost,
) -> Result<Consolidation, Error> {
    let alone = alone(clients, promises, cost)?;
    let mut asked = Vec::new();
    for shift in shifts {
        for (bound, within) in promises.within.iter().enumerate() {
            asked.push((*shift, bound, *within));
        }
    }
    let rows = on_all_cores(&asked, |(shift, bound, within)| {
        let of = Question { clients, begin, shift: *shift, within: *within, cost };
        let first = bound * promises.fractions.len();
        of.rows(&promises.fractions, |fraction| {
            alone.iter().map(|client| client.rows[first + fraction].speed).collect()
        })
    })?;
    let rows = rows.into_iter().flatten().collect();
    let spans: Vec<Span<'_>> = clients.iter().map(|client| client.span()).collect();
    let own = merged(clients.iter().map(|client| (client.path.as_path(), client.cautions())));
    let cautions = once(own.into_iter().chain(cautions(&spans, begin, shifts)).collect());
    Ok(Consolidation { cost_us: cost.to_string(), clients: alone, cautions, rows })
}

fn alone(clients: &[&Load], promises: &Promises, cost: Cost) -> Result<Vec<Client>, Error> {
    let mut alone: Vec<Client> = Vec::new();
    for (k, client) in clients.iter().enumerate() {
        let same = clients[..k].iter().position(|other| std::ptr::eq(*other, *client));
        alone.push(match same {
            Some(other) => Client { client: k + 1, ..alone[other].clone() },
            None => {
                let about = About::of(client, cost);
                let rows = table(client, cost, promises, &about)?;
                Client { client: k + 1, about, rows }
            }
        });
    }
    Ok(alone)
}

/// The clients of a server, and what to compute for them.
struct Question<'a> {
    clients: &'a [&'a Load],
    begin: Begin,
    shift: Nanos,
    within: Nanos,
    cost: Cost,
}

impl Question<'_> {
    /// Builds a row for each promised share; `alone` returns the speeds that the clients need on
    /// servers of their own.
    fn rows(
        &self,
        fractions: &[Share],
        alone: impl Fn(usize) -> Vec<f64>,
    ) -> Result<Vec<Shared>, Error> {
        let (cost, within) = (self.cost, self.within);
        let all = self.merged(self.clients.iter().map(|client| client.whole.clone()));
        let prices = least_speeds(&all, cost, within, fractions);
        let row = |(of, (fraction, price)): (usize, (&Share, Option<u64>))| {
            let beyond = || beyond("all together", *fraction, within);
            let merged = price.ok_or_else(beyond)?;
            let own: Vec<u64> =
                alone(of).into_iter().map(|speed| (speed * 1e3).round() as u64).collect();
            let left = self.clients.iter().zip(&own);
            let promised =
                self.merged(left.map(|(client, speed)| {
                    answered(&client.whole, cost, within, *speed).collect()
                }));
            let shaped = least_speed(merged, |speed| all_in_time(&promised, cost, within, speed));
            let (sum, shaped) = (own.iter().sum::<u64>(), shaped.ok_or_else(beyond)?);
            Ok(Shared {
                shift_s: self.shift.as_secs_f64(),
                within_ms: within.as_millis_f64(),
                fraction: fraction.as_f64(),
                sum_speed: as_speed(sum),
                merged_speed: as_speed(merged),
                ratio: merged as f64 / sum as f64,
                shaped_speed: as_speed(shaped),
                shaped_ratio: shaped as f64 / sum as f64,
            })
        };
        fractions.iter().zip(prices).enumerate().map(row).collect()
    }

    /// Merges the requests of all clients (a list for each) in order of arrival.
    fn merged(&self, each: impl Iterator<Item = Vec<Arrival>>) -> Vec<Arrival> {
        let firsts = || self.clients.iter().map(|client| client.span().first);
        let earliest = firsts().min().unwrap_or_default();
        let mut all = Vec::new();
        for (k, (requests, first)) in each.zip(firsts()).enumerate() {
            let late = Nanos(self.shift.0.saturating_mul(k as u64));
            let first = match self.begin {
                Begin::Together => first,
                Begin::AsRecorded | Begin::OwnClocks => earliest,
            };
            all.extend(requests.into_iter().map(|(at, len)| (at - first + late, len)));
        }
        all.sort_by_key(|(at, _)| *at);
        all
    }
}

/// Returns whether a server of `speed`, in thousandths, answers all of `requests` within the time
/// bound.
fn all_in_time(requests: &[Arrival], cost: Cost, within: Nanos, speed: u64) -> bool {
    let (bound, mut all) = (u128::from(within.0) * scale(speed), true);
    first_come(requests, cost, speed, |took| all &= took <= bound);
    all
}
