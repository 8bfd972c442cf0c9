//! The rows of the answer: each drive in each layout, ranked.
//!
//! Rows that keep the promises come first, and among these, the ones with enough headroom, then
//! those whose flash is not known to wear out within five years. Rows with a known price are then
//! ordered by price, followed by those without a price, ordered by power.

use std::ops::Range;

use forebay_core::Device;
use serde::Serialize;

use super::{
    Clients, Count, DriveLayout, Layout, Never, Question, Spent, TrialResult, Tried, is_pressed,
};
use crate::plan::confidence::{Bootstrap, share_interval};

/// How many years flash should last, which equals the vendors' warranty.
pub(super) const LASTS_YEARS: f64 = 5.0;

/// How clients share drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// All clients use the same drives.
    Shared,
    /// Each client has its own drives.
    Apart,
}

impl Sharing {
    /// Returns the name of this way of sharing.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Shared => "shared",
            Sharing::Apart => "apart",
        }
    }
}

/// The requirement that determines the number of drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Binds {
    /// The size of the data, without redundancy.
    Bytes,
    /// The redundancy of the data.
    Redundancy,
    /// The promised response times.
    Time,
    /// The headroom: the share of the time that drives must be idle.
    Headroom,
    /// Several requirements at once, or different ones for different clients.
    Several,
}

impl Binds {
    /// Returns the name of the requirement.
    pub fn name(self) -> &'static str {
        match self {
            Binds::Bytes => "bytes",
            Binds::Redundancy => "redundancy",
            Binds::Time => "time",
            Binds::Headroom => "headroom",
            Binds::Several => "several",
        }
    }
}

/// Which share of a client's requests is answered in time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientShare {
    /// The client's name.
    pub client: String,
    /// The share of the client's requests that is promised.
    pub fraction: f64,
    /// The share of the client's requests that was answered in time.
    pub in_time_fraction: f64,
    /// The lower end of the interval of `in_time_fraction` over other periods of the same load;
    /// `None` if no intervals are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_time_low_fraction: Option<f64>,
    /// The upper end of the interval of `in_time_fraction`; `None` if no intervals are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_time_high_fraction: Option<f64>,
}

impl ClientShare {
    /// Returns whether the promise is kept.
    pub fn is_kept(&self) -> bool {
        self.missing() <= 1e-12
    }

    /// Returns by how much the share answered in time falls short of the promise.
    fn missing(&self) -> f64 {
        self.fraction - self.in_time_fraction
    }
}

/// Why no number of drives was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuyRefusal {
    /// Single requests are too slow, even on drives whose arms never have to move.
    AnyNumber,
    /// Single requests are too slow on the maximum number of drives.
    UpToMost,
    /// The data needs more than the maximum number of drives.
    Bytes,
    /// The maximum number of drives is too slow; more drives might be enough.
    MoreMight,
}

/// A row of the answer: the result for a drive in a layout.
#[derive(Clone, Debug, Serialize)]
pub struct BuyRow {
    /// The name of the drive.
    pub drive: String,
    /// The layout of the data on the drives.
    pub layout: Layout,
    /// How clients share the drives.
    pub sharing: Sharing,
    /// The scheduler of each drive.
    pub scheduler: String,
    /// The policy spec of a set, as accepted by `simulate --policy`.
    pub policy: String,
    /// The smallest number of drives that keeps the promises, not counting flash caches and spares;
    /// `None` if no number up to the maximum does.
    pub drives: Option<usize>,
    /// If each client has its own drives, their number for each client, in client order.
    pub drives_each: Vec<usize>,
    /// The number of flash drives used as caches.
    pub cache_drives: usize,
    /// The name of the flash drive used as a cache.
    pub cache_drive: Option<String>,
    /// The number of spare drives to buy.
    pub spare_drives: usize,
    /// The smallest number of drives that keeps the promises, regardless of how busy they are.
    pub drives_without_headroom: Option<usize>,
    /// Whether the drives are idle for the required share of the time.
    pub has_headroom: bool,
    /// The lower end of the interval of the number of drives that other periods of the same load
    /// would need; `None` if no intervals are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drives_low: Option<usize>,
    /// The upper end of the interval of the number of drives that other periods of the same load
    /// would need; `None` if it exceeds the maximum, or if no intervals are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drives_high: Option<usize>,
    /// The number of drives that the data need without redundancy; `None` if a drive's capacity is
    /// unknown.
    pub drives_for_bytes: Option<u64>,
    /// The number of drives that the data needs with redundancy; `None` if it exceeds the maximum.
    pub drives_for_redundancy: Option<usize>,
    /// The number of drives that keeps the promises, whether or not the data fit; `None` if no
    /// number up to the maximum does.
    pub drives_for_time: Option<usize>,
    /// The requirement that determines the number of drives.
    pub binds: Option<Binds>,
    /// How many drives may fail without data loss.
    pub survives: usize,
    /// The share of each client's requests that is answered in time on these drives. If no number
    /// of drives was found, the share on the maximum number, or for single requests.
    pub clients: Vec<ClientShare>,
    /// The share answered in time while one drive is missing, for the client with the largest
    /// shortfall; `None` without redundancy.
    pub degraded: Option<ClientShare>,
    /// The share answered in time while the missing drive is being rebuilt, for the client with the
    /// largest shortfall.
    pub rebuilding: Option<ClientShare>,
    /// How long the rebuild of a drive takes, in hours; `None` if a drive's capacity is unknown.
    pub rebuild_hours: Option<f64>,
    /// How many bytes of the clients' data are expected to be lost per year; `None` if a drive's
    /// capacity is unknown.
    pub lost_per_year_bytes: Option<f64>,
    /// How many TB per year are written to the flash drive that receives most; `None` without
    /// flash.
    pub written_per_year_tb: Option<f64>,
    /// The number of years until these writes reach the drive's rated endurance; `None` if no
    /// rating is known.
    pub endurance_years: Option<f64>,
    /// The result with one drive fewer, provided that the promise determines the number and clients
    /// share the drives.
    pub one_less: Option<OneLess>,
    /// The share of the time that the drives are busy, averaged over all drives.
    pub utilisation: Option<f64>,
    /// The share of the time that the busiest drive is busy.
    pub utilisation_max: Option<f64>,
    /// The mean power of all drives together, with idle spares; `None` if any drive has no power
    /// figures.
    pub mean_power_w: Option<f64>,
    /// The price of all drives together; `None` if a price is unknown.
    pub price: Option<f64>,
    /// The currency of `price`.
    pub currency: Option<String>,
    /// The date of the oldest price.
    pub priced_on: Option<String>,
    /// Why no number of drives was found.
    pub refusal: Option<BuyRefusal>,
    /// The number of requests that were simulated on the recommended drives.
    pub simulated_requests: u64,
}

/// A number of drives that does not keep the promises.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OneLess {
    /// The number of drives that was tried.
    pub drives: usize,
    /// The client whose promise is missed by most.
    #[serde(flatten)]
    pub worst: ClientShare,
}

impl BuyRow {
    /// Returns the client with the largest shortfall from its promise, or else with the smallest
    /// margin.
    pub fn worst(&self) -> Option<&ClientShare> {
        self.clients.iter().max_by(|a, b| a.missing().total_cmp(&b.missing()))
    }

    /// Returns whether the rated endurance of the row's flash is known to be reached too early.
    pub fn wears_out(&self) -> bool {
        self.endurance_years.is_some_and(|years| years < LASTS_YEARS)
    }

    /// Returns the total number of drives to buy, including flash and spares.
    pub fn bought(&self) -> Option<usize> {
        Some(self.drives? + self.cache_drives + self.spare_drives)
    }
}

impl Tried<'_> {
    /// Returns the name of the combination for progress messages.
    pub(super) fn name(&self) -> String {
        format!("{} {} {}", self.kind.drive.name, self.kind.layout.name(), self.sharing.name())
    }

    /// Returns whether `row` is the result of this combination.
    pub(super) fn is(&self, row: &BuyRow) -> bool {
        let is_kind = self.kind.drive.name == row.drive && self.kind.layout == row.layout;
        is_kind && self.sharing == row.sharing
    }
}

/// Builds the row from `found`, the results for each group of clients.
pub(super) fn row(
    kind: &DriveLayout<'_>,
    sharing: Sharing,
    clients: &Clients<'_>,
    found: Vec<TrialResult>,
    question: &Question<'_>,
) -> BuyRow {
    let each: Option<Vec<usize>> = found.iter().map(|one| one.drives).collect();
    let drives = each.as_ref().map(|each| each.iter().sum::<usize>());
    let drives_each = each.unwrap_or_default();
    let spare_drives = if drives.is_some() { question.spare } else { 0 };
    let cache_drives = drives_each.iter().map(|drives| kind.caches(*drives)).sum();
    let spent = Spent { kind, found: &found, drives, cache_drives, spare_drives, question };
    let price = spent.price();
    let counts = || found.iter().filter_map(|one| one.count.as_ref());
    let capacity = kind.drive.model.capacity();
    let sized = drives.map(|_| capacity).filter(|capacity| *capacity < u64::MAX);
    let worn = drives.and_then(|_| worn(kind, &found));
    let range = || found.iter().map(|one| one.range);
    let requests = counts().flat_map(|count| &count.of).map(|of| of.0).sum();
    let weigh = |share: fn(&Count) -> f64| {
        let parts = counts().zip(&drives_each).map(|(count, n)| share(count) * *n as f64);
        drives.map(|all| parts.sum::<f64>() / all.max(1) as f64)
    };
    BuyRow {
        drive: kind.drive.name.clone(),
        layout: kind.layout,
        sharing,
        scheduler: kind.scheduler.to_string(),
        policy: kind.named(),
        drives,
        cache_drives,
        cache_drive: (cache_drives > 0).then(|| kind.flash.map(|f| f.name.clone())).flatten(),
        spare_drives,
        drives_without_headroom: found.iter().map(|one| one.without_headroom).sum(),
        has_headroom: found.iter().all(|one| one.has_headroom),
        drives_low: range().map(|range| range.map(|(low, _)| low)).sum(),
        drives_high: range().map(|range| range.and_then(|(_, high)| high)).sum(),
        drives_for_bytes: found.iter().map(|one| one.for_bytes).sum(),
        drives_for_redundancy: found.iter().map(|one| one.for_redundancy).sum(),
        drives_for_time: found.iter().map(|one| one.for_time).sum(),
        binds: binds(&found, kind.layout.width()),
        survives: kind.layout.survives(),
        clients: shares(clients, sharing, &found, question.bootstrap),
        degraded: worst_of(clients, sharing, &found, |one| one.degraded.as_ref()),
        rebuilding: worst_of(clients, sharing, &found, |one| one.rebuilding.as_ref()),
        rebuild_hours: sized.map(|capacity| question.reliability.rebuild_s(capacity) / 3600.0),
        lost_per_year_bytes: sized.map(|capacity| {
            let set_ups = found.iter().zip(&drives_each);
            set_ups
                .map(|(one, drives)| lost(kind.layout, question, capacity, one.bytes, *drives))
                .sum()
        }),
        written_per_year_tb: worn.map(|(tb, _)| tb),
        endurance_years: worn.and_then(|(tb, rated)| Some(rated? / tb.max(1e-9))),
        one_less: match (&found[..], sharing) {
            ([one], Sharing::Shared) => one_less(clients, one),
            _ => None,
        },
        utilisation: weigh(|count| count.busy.0),
        utilisation_max: drives.and_then(|_| counts().map(|c| c.busy.1).max_by(f64::total_cmp)),
        mean_power_w: spent.watts(),
        price: price.as_ref().map(|price| price.0),
        currency: price.as_ref().map(|price| price.1.clone()),
        priced_on: price.map(|price| price.2),
        refusal: found.iter().find_map(refusal),
        drives_each,
        simulated_requests: if drives.is_some() { requests } else { 0 },
    }
}

/// Returns how many of `bytes` on `drives` are expected to be lost per year.
fn lost(
    layout: Layout,
    question: &Question<'_>,
    capacity_bytes: u64,
    bytes: u64,
    drives: usize,
) -> f64 {
    let (rates, units) = (question.reliability, layout.redundancy());
    match layout.is_lost_at_once() {
        true => rates.striped_lost_per_year(units, capacity_bytes, bytes, drives),
        false => rates.lost_per_year(units, capacity_bytes, bytes),
    }
}

/// Returns how many TB per year are written to the flash drive that receives most, and the TB that
/// it is rated for.
fn worn(kind: &DriveLayout<'_>, found: &[TrialResult]) -> Option<(f64, Option<f64>)> {
    const YEAR_S: f64 = 365.25 * 86_400.0;
    let written =
        || found.iter().filter_map(|one| one.count.as_ref()).map(|count| count.written_per_s);
    let (device, per_s) = match (kind.flash, kind.drive.model.wear()) {
        (Some(flash), _) => (flash, written().map(|(_, flash)| flash).fold(0.0, f64::max)),
        (None, Some(_)) => (kind.drive, written().map(|(drive, _)| drive).fold(0.0, f64::max)),
        (None, None) => return None,
    };
    Some((per_s * YEAR_S / 1e12, device.endurance_tb))
}

/// Returns the requirement that determines the number of drives, over all groups. `least` is the
/// smallest number of drives that the layout needs.
fn binds(found: &[TrialResult], least: usize) -> Option<Binds> {
    let each: Option<Vec<Binds>> = found.iter().map(|one| binds_of(one, least)).collect();
    let each = each?;
    let first = *each.first()?;
    Some(if each.iter().all(|one| *one == first) { first } else { Binds::Several })
}

fn binds_of(found: &TrialResult, least: usize) -> Option<Binds> {
    let (drives, held) = (found.drives?, found.for_redundancy?);
    // If the smallest number of drives for the layout is already fast enough, the promise does not
    // determine the number.
    let is_by_time = found.for_time == Some(drives) && drives > least;
    if found.without_headroom.is_some_and(|first| drives > first) {
        return Some(Binds::Headroom);
    }
    if drives > held {
        return Some(Binds::Time);
    }
    if is_by_time {
        return Some(Binds::Several);
    }
    let is_by_bytes = found.for_bytes == Some(held as u64);
    Some(if is_by_bytes { Binds::Bytes } else { Binds::Redundancy })
}

/// Returns the share of requests answered in time, for each client of `group`, from `count`.
fn shares_of<'a>(
    clients: &'a Clients<'_>,
    group: impl Iterator<Item = usize> + 'a,
    count: &'a Count,
) -> impl Iterator<Item = ClientShare> + 'a {
    group.zip(&count.of).map(|(client, (all, in_time))| {
        let client = &clients.clients[client];
        ClientShare {
            client: client.name.clone(),
            fraction: client.promise.fraction.as_f64(),
            in_time_fraction: *in_time as f64 / (*all).max(1) as f64,
            in_time_low_fraction: None,
            in_time_high_fraction: None,
        }
    })
}

/// Returns the client with the largest shortfall among the runs of all groups; `None` if there were
/// no runs.
fn worst_of(
    clients: &Clients<'_>,
    sharing: Sharing,
    found: &[TrialResult],
    run: impl Fn(&TrialResult) -> Option<&Count>,
) -> Option<ClientShare> {
    let of = |(at, one): (usize, &TrialResult)| {
        let group = group(clients, sharing, at);
        run(one).map(|count| shares_of(clients, group, count).collect::<Vec<_>>())
    };
    let each = found.iter().enumerate().filter_map(of).flatten();
    each.max_by(|a, b| a.missing().total_cmp(&b.missing()))
}

/// Returns the clients of group number `at`.
fn group(clients: &Clients<'_>, sharing: Sharing, at: usize) -> Range<usize> {
    if sharing == Sharing::Shared { 0..clients.clients.len() } else { at..at + 1 }
}

fn shares(
    clients: &Clients<'_>,
    sharing: Sharing,
    found: &[TrialResult],
    bootstrap: Option<Bootstrap>,
) -> Vec<ClientShare> {
    let mut shares = Vec::new();
    for (at, one) in found.iter().enumerate() {
        let group = group(clients, sharing, at);
        match (&one.never, &one.count) {
            (Some(Never::AnyNumber(count) | Never::UpTo(count)), _) => {
                shares.extend(shares_of(clients, group, count));
            }
            (None, Some(count)) => {
                let each = shares_of(clients, group, count).zip(&count.blocks);
                shares.extend(each.map(|(share, blocks)| {
                    let ends = bootstrap.map(|bootstrap| share_interval(blocks, bootstrap));
                    ClientShare {
                        in_time_low_fraction: ends.map(|ends| ends.0),
                        in_time_high_fraction: ends.map(|ends| ends.1),
                        ..share
                    }
                }));
            }
            (None, None) => {}
        }
    }
    shares
}

fn one_less(clients: &Clients<'_>, found: &TrialResult) -> Option<OneLess> {
    let (drives, count) = found.one_less.as_ref()?;
    let each = shares_of(clients, 0..clients.clients.len(), count);
    let worst = each.max_by(|a, b| a.missing().total_cmp(&b.missing()))?;
    Some(OneLess { drives: *drives, worst })
}

fn refusal(found: &TrialResult) -> Option<BuyRefusal> {
    match (&found.never, found.for_time, found.drives) {
        (_, _, Some(_)) => None,
        (Some(Never::AnyNumber(_)), _, _) => Some(BuyRefusal::AnyNumber),
        (Some(Never::UpTo(_)), _, _) => Some(BuyRefusal::UpToMost),
        (None, Some(_), None) if found.for_redundancy.is_none() => Some(BuyRefusal::Bytes),
        (None, _, None) => Some(BuyRefusal::MoreMight),
    }
}

/// Sorts the rows, the best first.
pub(super) fn rank(rows: &mut [BuyRow]) {
    let or_last = |figure: Option<f64>| figure.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| {
        let price = || or_last(a.price).total_cmp(&or_last(b.price));
        let watts = || or_last(a.mean_power_w).total_cmp(&or_last(b.mean_power_w));
        let none = a.drives.is_none().cmp(&b.drives.is_none());
        let none = none.then_with(|| b.has_headroom.cmp(&a.has_headroom));
        let none = none.then_with(|| a.wears_out().cmp(&b.wears_out()));
        none.then_with(price).then_with(watts).then_with(|| a.bought().cmp(&b.bought()))
    });
}

/// Returns whether the row's array was simulated with its data compressed into a smaller address
/// space.
pub(super) fn is_any_pressed(row: &BuyRow, bytes: u64) -> bool {
    let sets = row.drives.and_then(|drives| row.layout.sets(drives)).unwrap_or(1);
    is_pressed(row.layout, bytes, sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: u64, redundancy: usize, time: usize, drives: usize) -> TrialResult {
        TrialResult {
            for_bytes: Some(bytes),
            for_redundancy: Some(redundancy),
            for_time: Some(time),
            without_headroom: Some(drives),
            drives: Some(drives),
            ..TrialResult::default()
        }
    }

    #[test]
    fn the_constraint_that_needs_this_many_devices_is_named() {
        for (least, numbers, decides) in [
            (6, (1, 6, 6, 6), Binds::Redundancy),
            (2, (1, 6, 6, 6), Binds::Several),
            (6, (1, 6, 7, 7), Binds::Time),
            (1, (3, 3, 1, 3), Binds::Bytes),
            (6, (3, 8, 6, 8), Binds::Redundancy),
            (1, (1, 1, 1, 1), Binds::Bytes),
            // The real simulation, with the data at their locations, needs more drives than either
            // requirement alone.
            (2, (2, 3, 2, 4), Binds::Time),
        ] {
            let (bytes, redundancy, time, drives) = numbers;
            let one = found(bytes, redundancy, time, drives);
            assert_eq!(binds(&[one], least), Some(decides), "{numbers:?}");
        }
        let roomy = TrialResult { without_headroom: Some(3), ..found(1, 1, 3, 4) };
        assert_eq!(binds(&[roomy], 1), Some(Binds::Headroom));
        let two = [found(3, 3, 1, 3), found(1, 1, 2, 2)];
        assert_eq!(binds(&two, 1), Some(Binds::Several));
        assert_eq!(binds(&[found(1, 1, 1, 1), TrialResult::default()], 1), None);
    }

    #[test]
    fn reasons_for_failure_are_distinguished() {
        let none = TrialResult { drives: None, ..found(1, 1, 1, 1) };
        assert_eq!(refusal(&found(1, 1, 1, 1)), None);
        assert_eq!(refusal(&none), Some(BuyRefusal::MoreMight));
        let full = TrialResult { for_redundancy: None, ..none.clone() };
        assert_eq!(refusal(&full), Some(BuyRefusal::Bytes));
        let slow = TrialResult { for_time: None, for_redundancy: None, ..none.clone() };
        assert_eq!(refusal(&slow), Some(BuyRefusal::MoreMight));
        let never = TrialResult { never: Some(Never::AnyNumber(Count::default())), ..slow };
        assert_eq!(refusal(&never), Some(BuyRefusal::AnyNumber));
    }
}
