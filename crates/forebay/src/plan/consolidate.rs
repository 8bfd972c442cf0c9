//! The verb `plan consolidate`: compares the sum of the capacities that clients need on servers of
//! their own with what they need on one shared server.
//!
//! Source: the paper's section 4.5 and figures 4.5 and 4.6. A single trace is combined with copies
//! of itself: copy `k` begins `k` shifts after the first. Several traces all begin together, unless
//! they are shifted in the same way or keep a common clock ([`Begin`]).
//!
//! The paper's sums and comparisons can be read in two ways, and both are computed. `merged_iops`
//! decomposes the merged requests. `shaped_iops` decomposes each client's requests separately,
//! merges the requests that these decompositions admit (each client's Q1) and serves all of them;
//! section 4.5 speaks of aggregation after decomposition.
//!
//! The paper promises a share of all requests, regardless of the client. The lowest capacity for
//! that drops the requests of whichever client has a burst, so one client may get less than its
//! promise, and the capacity may even be below what another client needs alone. Therefore the
//! answer also reports each client's own share, and the capacity at which RTT over all clients
//! keeps the promise to each of them. A client's share does not always rise with the capacity. That
//! capacity is found by bisection; the capacity one IOPS below was tried and breaks a promise.

mod bursts;
pub mod clients;
mod merged;
mod page;
mod verb;

use std::collections::BTreeSet;
use std::path::Path;

use forebay_core::Nanos;
use forebay_core::rtt::least_rate_for_all;
use serde::Serialize;

use self::merged::Merged;
pub use self::verb::ConsolidateAsk;
use super::arrival_times::{ArrivalTimes, Arrivals, Requests, Span, size_caution};
use super::capacity::{CapacityRow, Doubt, Promises, beyond, intervals_of, once, table};
use super::confidence::Bootstrap;
use super::search::least_capacities;
use crate::jobs::on_all_cores;
use crate::quantities::{bound, counted, seconds};
use crate::{Error, ProgressReport, Telling};
use forebay_ask::Share;

/// How the clients' start times are aligned, before shifts are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// All clients start together: each client's times are relative to its first request.
    Together,
    /// Clients start as recorded on a clock that they share, such as that of the volumes of one
    /// trace.
    AsRecorded,
    /// Clients start as recorded on their sources' own clocks, which may be the same clock.
    OwnClocks,
}

/// The capacity that a promise to clients on one shared server needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shared {
    /// The delay of each client relative to the previous one, in seconds.
    pub shift_s: f64,
    /// The time within which requests are promised an answer.
    pub within_ms: f64,
    /// The promised share of requests, for each client alone and for all clients together.
    pub fraction: f64,
    /// The sum of the capacities that the clients need on servers of their own.
    pub sum_iops: u64,
    /// The capacity that the clients need together, if the promise is about all requests.
    pub merged_iops: u64,
    /// The lower end of the confidence interval of `merged_iops`, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_low_iops: Option<u64>,
    /// The upper end of the confidence interval of `merged_iops`, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_high_iops: Option<u64>,
    /// `merged_iops` divided by `sum_iops`; 1 means that sharing saves nothing.
    pub ratio: f64,
    /// The capacity that serves in time all requests that the clients' own decompositions admit.
    pub shaped_iops: u64,
    /// `shaped_iops` divided by `sum_iops`; 1 means that sharing saves nothing.
    pub shaped_ratio: f64,
    /// The number of the client ([`Client::client`]) with the lowest share in time at
    /// `merged_iops`.
    pub worst_client: usize,
    /// The trace of `worst_client`.
    pub worst_trace: String,
    /// For each client, in order, the share of its requests that is answered in time at
    /// `merged_iops`.
    pub client_fractions: Vec<f64>,
    /// The capacity at which the promised share is kept for every client.
    pub every_client_iops: u64,
    /// The number of the client ([`Client::client`]) whose promise would be broken at one IOPS less
    /// than `every_client_iops`.
    pub binding_client: usize,
    /// The trace of `binding_client`.
    pub binding_trace: String,
}

impl Shared {
    /// Returns the lowest share in time among the clients.
    pub fn worst_fraction(&self) -> f64 {
        self.client_fractions.get(self.worst_client - 1).copied().unwrap_or(1.0)
    }
}

/// The answer of `plan consolidate` for a constant-rate server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Consolidation {
    /// What each client needs on a separate server, in the order given.
    pub clients: Vec<Client>,
    /// Cautions about the answer, one sentence each.
    pub cautions: Vec<String>,
    /// What the clients need on a shared server, by promise and shift.
    pub rows: Vec<Shared>,
}

/// What a client needs on a separate server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Client {
    /// The client's number: its position in the order given, counted from 1.
    pub client: usize,
    /// The client's trace.
    pub trace: String,
    /// The number of the client's requests.
    pub requests: u64,
    /// The time from the client's first request to its last, in seconds.
    pub duration_s: f64,
    /// The capacities that the promises to this client need.
    pub rows: Vec<CapacityRow>,
}

/// The relative difference below which durations count as equal.
const DURATION_TOLERANCE: f64 = 0.1;

/// Finds the capacities that `promises` to `clients` need, with separate servers and with a shared
/// one. Start times are aligned as `begin` says; then client `k` is delayed by `k` shifts, for each
/// of `shifts`. With a `bootstrap`, also computes confidence intervals.
///
/// # Errors
/// Fails if no capacity keeps a promise.
pub fn consolidate(
    clients: &[&ArrivalTimes],
    begin: Begin,
    shifts: &[Nanos],
    promises: &Promises,
    bootstrap: Option<Bootstrap>,
    progress: Telling<'_>,
) -> Result<Consolidation, Error> {
    let alone = alone(clients, promises, Doubt { bootstrap, hold_out: None }, progress)?;
    let mut rows = Vec::new();
    for (nth, shift) in shifts.iter().enumerate() {
        let done_share = 0.5 + 0.5 * nth as f64 / shifts.len() as f64;
        if progress(&ProgressReport { doing: "all clients together".into(), done_share }).is_break()
        {
            return Err(Error::Stopped);
        }
        rows.extend(together(clients, &alone, (begin, *shift), promises, bootstrap)?);
    }
    let spans: Vec<Span<'_>> = clients.iter().map(|client| client.span()).collect();
    let mut told = own_cautions(clients);
    told.extend(cautions(&spans, begin, shifts));
    told.extend(size_caution(clients.iter().copied(), &["cost_us"]));
    let cautions = once(told);
    Ok(Consolidation { clients: alone, cautions, rows })
}

/// Finds the capacities that `clients` need on a shared server, given what each needs `alone`.
///
/// # Errors
/// Fails if no capacity keeps a promise.
pub fn together(
    clients: &[&ArrivalTimes],
    alone: &[Client],
    (begin, shift): (Begin, Nanos),
    promises: &Promises,
    bootstrap: Option<Bootstrap>,
) -> Result<Vec<Shared>, Error> {
    let merged = Merged::new(clients, begin, shift);
    let bounds: Vec<usize> = (0..promises.within.len()).collect();
    let found = on_all_cores(&bounds, |bound| {
        let found = shared(&merged, alone, promises, (*bound, bootstrap));
        found.map_err(|of| beyond("all together", promises.within[of.0], of.1))
    })?;
    let rows = found.into_iter().flatten();
    Ok(rows.map(|row| Shared { shift_s: shift.as_secs_f64(), ..row }).collect())
}

/// Returns the cautions about each client by itself.
pub(super) fn own_cautions<A: Arrivals>(clients: &[&Requests<A>]) -> Vec<String> {
    merged(clients.iter().map(|client| (&*client.path, client.cautions())))
}

/// Names the client of each caution. Cautions that differ only in their figures are merged into the
/// first of them.
pub(super) fn merged<'a>(clients: impl Iterator<Item = (&'a Path, Vec<String>)>) -> Vec<String> {
    let mut all: Vec<(String, &Path, BTreeSet<&Path>)> = Vec::new();
    for (path, cautions) in clients {
        for caution in cautions {
            match all.iter_mut().find(|(first, ..)| kind(first) == kind(&caution)) {
                Some((_, _, paths)) => drop(paths.insert(path)),
                None => all.push((caution, path, BTreeSet::from([path]))),
            }
        }
    }
    let one = |(caution, path, paths): (String, &Path, BTreeSet<_>)| match paths.len() - 1 {
        0 => format!("{}: {caution}", path.display()),
        others => {
            format!("{} and {}: {caution}", path.display(), counted(others as u64, "other client"))
        }
    };
    all.into_iter().map(one).collect()
}

/// Returns the part of a caution that precedes its first figure.
fn kind(caution: &str) -> &str {
    caution.find(|c: char| c.is_ascii_digit()).map_or(caution, |figure| &caution[..figure])
}

/// Finds the capacities for one time bound. If no capacity keeps one of the promises, fails with
/// the indices of the bound and the promised share.
fn shared(
    merged: &Merged,
    alone: &[Client],
    promises: &Promises,
    (bound, bootstrap): (usize, Option<Bootstrap>),
) -> Result<Vec<Shared>, (usize, Share)> {
    let (within, fractions) = (promises.within[bound], &promises.fractions);
    let needs: Vec<u64> = fractions.iter().map(|f| f.of(merged.times.len() as u64)).collect();
    let prices = least_capacities(&merged.times, within, &needs);
    let beyond = |of: usize| (bound, fractions[of]);
    let prices = prices.into_iter().enumerate().map(|(of, price)| price.ok_or(beyond(of)));
    let prices = prices.collect::<Result<Vec<u64>, _>>()?;
    let intervals = intervals_of(&merged.times, within, fractions, &prices, bootstrap);
    let mut rows = Vec::new();
    for (of, (fraction, merged_iops)) in fractions.iter().zip(prices).enumerate() {
        let row = bound * fractions.len() + of;
        let each = || alone.iter().map(|client| client.rows[row].capacity_iops);
        let (sum_iops, most): (u64, u64) = (each().sum(), each().max().unwrap_or(0));
        let answered = merged.answered(within, merged_iops);
        let shares = answered.iter().zip(&merged.requests);
        // A capacity that keeps the promise to every client also keeps it to each of them alone and
        // to all together, so the search starts there.
        let least = merged_iops.max(most);
        let every = merged.every_client(within, *fraction, least).ok_or((bound, *fraction))?;
        let own: Vec<u64> = each().collect();
        let binding = merged.misses(within, *fraction, every - 1).unwrap_or_else(|| most_of(&own));
        let promised = merged.shaped(within, &own);
        // The admitted requests need at most the sum of the capacities, so this fails only if no
        // supported rate is enough.
        let shaped_iops = least_rate_for_all(&promised, within).ok_or((bound, *fraction))?;
        let client_fractions: Vec<f64> =
            shares.map(|(in_time, all)| *in_time as f64 / *all as f64).collect();
        let worst = worst(&client_fractions);
        rows.push(Shared {
            shift_s: 0.0,
            within_ms: within.as_millis_f64(),
            fraction: fraction.as_f64(),
            sum_iops,
            merged_iops,
            merged_low_iops: intervals[of].map(|interval| interval.capacity_low_iops),
            merged_high_iops: intervals[of].map(|interval| interval.capacity_high_iops),
            ratio: merged_iops as f64 / sum_iops as f64,
            shaped_iops,
            shaped_ratio: shaped_iops as f64 / sum_iops as f64,
            worst_client: worst + 1,
            worst_trace: alone[worst].trace.clone(),
            client_fractions,
            every_client_iops: every,
            binding_client: binding + 1,
            binding_trace: alone[binding].trace.clone(),
        });
    }
    Ok(rows)
}

/// Returns the index of the client that needs most, or of the first such client.
fn most_of(needs_iops: &[u64]) -> usize {
    let most = needs_iops.iter().max();
    needs_iops.iter().position(|need| Some(need) == most).unwrap_or(0)
}

/// Returns the index of the client with the lowest share, or of the first such client.
fn worst(fractions: &[f64]) -> usize {
    let least = |(best, least): (usize, f64), (client, share): (usize, &f64)| {
        if *share < least { (client, *share) } else { (best, least) }
    };
    fractions.iter().enumerate().fold((0, f64::INFINITY), least).0
}

/// Returns cautions if `clients` overlap so little in time that their common capacity is not
/// meaningful; one sentence each.
pub fn cautions(clients: &[Span<'_>], begin: Begin, shifts: &[Nanos]) -> Vec<String> {
    let lasts = |client: &Span<'_>| client.duration();
    let longest = clients.iter().map(lasts).max().unwrap_or_default();
    let shortest = clients.iter().map(lasts).min().unwrap_or_default();
    let mut said = Vec::new();
    let together = begin == Begin::Together;
    if together && longest.as_secs_f64() > shortest.as_secs_f64() * (1.0 + DURATION_TOLERANCE) {
        said.push(format!(
            "The clients' traces last from {} to {}: once the shortest has ended, the others have \
             the server to themselves, so the result for all clients together is too low; cut the \
             traces to the same length",
            seconds(shortest.as_secs_f64()),
            seconds(longest.as_secs_f64())
        ));
    }
    if !together {
        let apart = (0..clients.len()).filter(|one| is_apart(*one, clients));
        said.extend(apart.map(|one| {
            format!(
                "{}: according to its clock, it does not overlap any of the other traces; a trace \
                 converted to Parquet keeps the clock of its source, other formats lose it",
                clients[one].path.display()
            )
        }));
    }
    let at_zero = clients.iter().filter(|client| client.first == Nanos::ZERO).count();
    if begin == Begin::OwnClocks && at_zero > 1 {
        said.push(format!(
            "{at_zero} clients begin at 0 of their own clocks: if they did not begin together, \
             their offsets are unknown"
        ));
    }
    said.extend(shifts.iter().filter(|shift| **shift > longest).map(|shift| {
        format!(
            "Shifted by {}, each client ends before the next begins: no trace is longer than {}",
            bound(shift.as_millis_f64()),
            seconds(longest.as_secs_f64())
        )
    }));
    said
}

/// Returns whether client number `one` does not overlap in time with any other client.
fn is_apart(one: usize, clients: &[Span<'_>]) -> bool {
    let own = &clients[one];
    let meets = |other: &Span<'_>| own.first <= other.last && other.first <= own.last;
    let others = clients.iter().enumerate().filter(|(place, _)| *place != one);
    !others.map(|(_, other)| other).any(meets)
}

/// Finds what each client needs on a separate server, which is the first half of the work.
fn alone(
    clients: &[&ArrivalTimes],
    promises: &Promises,
    doubt: Doubt,
    progress: Telling<'_>,
) -> Result<Vec<Client>, Error> {
    let mut alone: Vec<Client> = Vec::new();
    for (k, client) in clients.iter().enumerate() {
        let same = clients[..k].iter().position(|other| std::ptr::eq(*other, *client));
        alone.push(match same {
            Some(other) => Client { client: k + 1, ..alone[other].clone() },
            None => Client {
                client: k + 1,
                trace: client.path.display().to_string(),
                requests: client.requests(),
                duration_s: client.duration().as_secs_f64(),
                rows: table(client, promises, doubt, &mut |told: &ProgressReport| {
                    let done_share = 0.5 * (k as f64 + told.done_share) / clients.len() as f64;
                    let doing = format!("client {} alone, {}", k + 1, told.doing);
                    progress(&ProgressReport { doing, done_share })
                })?,
            },
        });
    }
    Ok(alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(times: &[u64]) -> ArrivalTimes {
        ArrivalTimes::of(times.iter().copied().map(Nanos).collect())
    }

    const SECOND: u64 = 1_000_000_000;

    fn rows(clients: &[&ArrivalTimes], shift: u64) -> Vec<(u64, u64)> {
        let promises = Promises {
            within: vec![Nanos(SECOND)],
            fractions: vec!["1".parse().unwrap(), "0.5".parse().unwrap()],
        };
        let found = consolidate(
            clients,
            Begin::Together,
            &[Nanos(shift)],
            &promises,
            None,
            &mut crate::progress::unheard,
        )
        .unwrap();
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
    fn a_client_that_bursts_pays_for_the_other_and_each_ones_share_is_reported() {
        // One client sends a request per second and the other sends thirty at once. Half of all 60
        // requests are promised an answer within a second.
        let steady: Vec<u64> = (0..30).map(|second| second * SECOND).collect();
        let (steady, burst) = (arrivals(&steady), arrivals(&[100; 30]));
        let promises =
            Promises { within: vec![Nanos(SECOND)], fractions: vec!["0.5".parse().unwrap()] };
        let found = consolidate(
            &[&steady, &burst],
            Begin::Together,
            &[Nanos::ZERO],
            &promises,
            None,
            &mut crate::progress::unheard,
        )
        .unwrap();
        let row = &found.rows[0];
        // Alone, the second client needs 15 IOPS to answer half of its requests. Together, 1 IOPS
        // is enough, because it answers all requests of the first client.
        assert_eq!((row.sum_iops, row.merged_iops), (16, 1));
        assert_eq!((row.client_fractions.as_slice(), row.worst_client), (&[1.0, 0.0][..], 2));
        assert_eq!((found.clients[1].client, row.worst_trace.as_str()), (2, "t"));
        // Each client alone is promised 15 requests. Those of the burst arrive at once, and one of
        // the other client's arrives with them.
        assert_eq!((row.shaped_iops, row.shaped_ratio), (16, 1.0));
        // The first client's first request takes a slot from the burst, which needs 15.
        assert_eq!(row.every_client_iops, 16);
    }

    #[test]
    fn rows_come_by_shift_then_bound_then_fraction() {
        let client = arrivals(&[0; 10]);
        let promises = Promises {
            within: vec![Nanos(SECOND), Nanos(SECOND / 2)],
            fractions: vec!["1".parse().unwrap(), "0.5".parse().unwrap()],
        };
        let shifts = [Nanos::ZERO, Nanos(5 * SECOND)];
        let found = consolidate(
            &[&client, &client],
            Begin::Together,
            &shifts,
            &promises,
            None,
            &mut crate::progress::unheard,
        )
        .unwrap();
        let rows: Vec<_> = found
            .rows
            .iter()
            .map(|row| (row.shift_s, row.within_ms, row.fraction, row.sum_iops, row.merged_iops))
            .collect();
        let expected = [
            (0.0, 1000.0, 1.0, 20, 20),
            (0.0, 1000.0, 0.5, 10, 10),
            (0.0, 500.0, 1.0, 40, 40),
            (0.0, 500.0, 0.5, 20, 20),
            (5.0, 1000.0, 1.0, 20, 10),
            (5.0, 1000.0, 0.5, 10, 5),
            (5.0, 500.0, 1.0, 40, 20),
            (5.0, 500.0, 0.5, 20, 10),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn promising_all_requests_together_promises_all_to_each_client() {
        let (a, b) = (arrivals(&[0, 0, 5]), arrivals(&[0, SECOND]));
        let promises = Promises { within: vec![Nanos(SECOND)], fractions: vec![Share::ALL] };
        let row = &consolidate(
            &[&a, &b],
            Begin::Together,
            &[Nanos::ZERO],
            &promises,
            None,
            &mut crate::progress::unheard,
        )
        .unwrap()
        .rows[0];
        assert_eq!((row.merged_iops, row.every_client_iops), (4, 4));
        assert_eq!(row.client_fractions, [1.0, 1.0]);
    }

    #[test]
    fn a_common_clock_keeps_bursts_apart() {
        let (first, second) = (arrivals(&[0; 10]), arrivals(&[5 * SECOND; 10]));
        let promises = Promises { within: vec![Nanos(SECOND)], fractions: vec![Share::ALL] };
        let needs = |begin| {
            let found = consolidate(
                &[&first, &second],
                begin,
                &[Nanos::ZERO],
                &promises,
                None,
                &mut crate::progress::unheard,
            )
            .unwrap();
            (found.rows[0].sum_iops, found.rows[0].merged_iops, found.rows[0].shaped_iops)
        };
        assert_eq!(needs(Begin::Together), (20, 20, 20));
        assert_eq!(needs(Begin::AsRecorded), (20, 10, 10));
    }

    #[test]
    fn each_clients_promise_is_kept_even_if_the_pool_needs_less() {
        // Half of each burst of ten is promised, so each client alone needs 5. Merged, any ten of
        // the twenty requests are enough.
        let (first, second) = (arrivals(&[0; 10]), arrivals(&[5 * SECOND; 10]));
        let half = vec!["0.5".parse().unwrap()];
        let promises = Promises { within: vec![Nanos(SECOND)], fractions: half };
        let clients = [&first, &second];
        let found = consolidate(
            &clients,
            Begin::AsRecorded,
            &[Nanos::ZERO],
            &promises,
            None,
            &mut crate::progress::unheard,
        )
        .unwrap();
        assert_eq!((found.rows[0].sum_iops, found.rows[0].shaped_iops), (10, 5));
        let found = consolidate(
            &clients,
            Begin::Together,
            &[Nanos::ZERO],
            &promises,
            None,
            &mut crate::progress::unheard,
        )
        .unwrap();
        assert_eq!((found.rows[0].sum_iops, found.rows[0].shaped_iops), (10, 10));
    }

    #[test]
    fn alike_cautions_are_given_once() {
        let client = |name: &'static str, said: &[&str]| {
            (Path::new(name), said.iter().map(|said| said.to_string()).collect())
        };
        let said = merged(
            [
                client("a", &["the clock steps by 2 ms"]),
                client("b", &["it has only one request", "the clock steps by 3 ms"]),
                client("c", &["the clock steps by 2 ms"]),
            ]
            .into_iter(),
        );
        let clock = "a and 2 other clients: the clock steps by 2 ms";
        assert_eq!(said, [clock, "b: it has only one request"]);
    }

    #[test]
    fn clients_that_hardly_meet_are_reported() {
        let (short, long) = (arrivals(&[0, 60 * SECOND]), arrivals(&[0, 67 * SECOND]));
        let said = cautions(&[short.span(), long.span()], Begin::Together, &[Nanos::ZERO]);
        assert!(said.len() == 1 && said[0].contains("from 60.0 s to 67.0 s"), "{said:?}");
        let later = arrivals(&[90 * SECOND, 91 * SECOND]);
        let said =
            cautions(&[short.span(), long.span(), later.span()], Begin::AsRecorded, &[Nanos::ZERO]);
        assert!(said.len() == 1 && said[0].contains("does not overlap any"), "{said:?}");
        let near = arrivals(&[0, 66 * SECOND]);
        let both = [short.span(), near.span()];
        let said = cautions(&both, Begin::OwnClocks, &[Nanos::ZERO]);
        assert!(said.len() == 1 && said[0].contains("2 clients begin at 0"), "{said:?}");
        assert!(cautions(&both, Begin::AsRecorded, &[Nanos::ZERO]).is_empty());
        assert!(cautions(&both, Begin::Together, &[Nanos(66 * SECOND)]).is_empty());
        let apart = cautions(&[short.span(), short.span()], Begin::Together, &[Nanos(61 * SECOND)]);
        assert!(apart.len() == 1 && apart[0].contains("before the next begins"), "{apart:?}");
    }

    #[test]
    fn an_excessive_combined_load_is_reported_for_all() {
        let client = arrivals(&[0; 6]);
        let promises = Promises { within: vec![Nanos(6)], fractions: vec![Share::ALL] };
        let said = consolidate(
            &[&client, &client],
            Begin::Together,
            &[Nanos::ZERO],
            &promises,
            None,
            &mut crate::progress::unheard,
        )
        .unwrap_err();
        assert!(said.to_string().starts_with("all together: a fraction of 1"), "{said}");
    }
}
