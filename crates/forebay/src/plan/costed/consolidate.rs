//! `plan consolidate --cost-us`: clients that share a server where long requests cost more.
//!
//! What each needs alone, added up, beside what they need together, and what keeps the promise to each: each client's
//! requests are decomposed alone, what is left of them is merged, and all of that is kept (`shaped_speed`). It is at most
//! the sum, and at least what they need together.
//!
//! What each client gets where all are decomposed together is not told: with unequal costs several sets of requests are
//! equally large, and which of them is put aside decides whose they are.

use forebay_core::Nanos;
use serde::Serialize;

use super::in_time::{Arrival, answered, first_come, least_speed, scale};
use super::{About, Cost, Load, Row, as_speed, beyond, least_speeds, table};
use crate::error::Error;
use crate::jobs::on_all_cores;
use crate::plan::arrival_times::Span;
use crate::plan::capacity::{Promises, once};
use crate::plan::consolidate::{Begin, cautions, named};
use forebay_ask::Share;

/// One promise to clients that share a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shared {
    /// How much later each client begins than the one before it.
    pub shift_s: f64,
    /// The bound.
    pub within_ms: f64,
    /// The share of requests, of each client alone and of all together.
    pub fraction: f64,
    /// The speeds that the clients need alone, added up.
    pub sum_speed: f64,
    /// What they need together.
    pub merged_speed: f64,
    /// The latter over the former: 1 if sharing saves nothing.
    pub ratio: f64,
    /// What keeps the promise to each client.
    pub shaped_speed: f64,
    /// That over the sum.
    pub shaped_ratio: f64,
}

/// A client alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Client {
    /// Its place in the order given, from 1 on.
    pub client: usize,
    /// Its trace.
    #[serde(flatten)]
    pub about: About,
    /// What its promises cost.
    pub rows: Vec<Row>,
}

/// What sharing a server saves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Consolidation {
    /// What a request takes a server of speed 1, in microseconds, and for each KiB.
    pub cost_us: String,
    /// What each client needs alone, in the order given.
    pub clients: Vec<Client>,
    /// What to keep in mind of them; one sentence each.
    pub cautions: Vec<String>,
    /// What they need together.
    pub rows: Vec<Shared>,
}

/// `promises` to `clients`, which begin as `begin` says, the `k`-th `k` shifts later, for each of `shifts`.
///
/// # Errors
/// A promise that no speed up to a million keeps.
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
    let own = clients.iter().flat_map(|client| named(&client.path, client.cautions()));
    let cautions = once(own.chain(cautions(&spans, begin, shifts)).collect());
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

/// Who shares a server, and what is asked of it.
struct Question<'a> {
    clients: &'a [&'a Load],
    begin: Begin,
    shift: Nanos,
    within: Nanos,
    cost: Cost,
}

impl Question<'_> {
    /// A row for each fraction; `alone` has the speeds that the clients need by themselves.
    fn rows(
        &self,
        fractions: &[Share],
        alone: impl Fn(usize) -> Vec<f64>,
    ) -> Result<Vec<Shared>, Error> {
        let (cost, within) = (self.cost, self.within);
        let all = self.merged(self.clients.iter().map(|client| client.requests.clone()));
        let prices = least_speeds(&all, cost, within, fractions);
        let row = |(of, (fraction, price)): (usize, (&Share, Option<u64>))| {
            let beyond = || beyond("all together", *fraction, within);
            let merged = price.ok_or_else(beyond)?;
            let own: Vec<u64> =
                alone(of).into_iter().map(|speed| (speed * 1e3).round() as u64).collect();
            let left = self.clients.iter().zip(&own);
            let promised =
                self.merged(left.map(|(client, speed)| {
                    answered(&client.requests, cost, within, *speed).collect()
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

    /// The requests of all clients, some of whose are given, in the order in which they come.
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

/// Whether all of `requests` are answered within the bound at so many thousandths of speed.
fn all_in_time(requests: &[Arrival], cost: Cost, within: Nanos, speed: u64) -> bool {
    let (bound, mut all) = (u128::from(within.0) * scale(speed), true);
    first_come(requests, cost, speed, |took| all &= took <= bound);
    all
}
