//! The rows of the result: each drive in each layout, ranked.
//!
//! Rows that keep the promises come first, those with the headroom before those without, ordered by
//! price, then those without a known price, ordered by power.

use std::ops::Range;

use forebay_core::Device;
use serde::Serialize;

use super::clients::Clients;
use super::layout::{DriveLayout, Layout, is_pressed};
use super::run::Count;
use super::spent::Spent;
use super::trial::{Never, TrialResult};
use super::{Question, Tried};
use crate::plan::confidence::{Bootstrap, share_interval};

/// Whether clients share drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// All clients on the same drives.
    Shared,
    /// Each client on its own drives.
    Apart,
}

impl Sharing {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Shared => "shared",
            Sharing::Apart => "apart",
        }
    }
}

/// What determines the number of drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Binds {
    /// The data, without redundancy.
    Bytes,
    /// The redundancy of the data.
    Redundancy,
    /// The promise.
    Time,
    /// The headroom.
    Headroom,
    /// Several of them, or different ones for different clients.
    Several,
}

impl Binds {
    /// Returns its name.
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

/// The share of a client's requests that is answered in time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientShare {
    /// The client's name.
    pub client: String,
    /// The promised share of its requests.
    pub fraction: f64,
    /// The share that was answered in time.
    pub in_time_fraction: f64,
    /// The lower end of its interval over other periods of the same load, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_time_low_fraction: Option<f64>,
    /// The upper end of that interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_time_high_fraction: Option<f64>,
}

impl ClientShare {
    /// Whether the promise is kept.
    pub fn is_kept(&self) -> bool {
        self.missing() <= 1e-12
    }

    /// Returns the shortfall from the promise.
    fn missing(&self) -> f64 {
        self.fraction - self.in_time_fraction
    }
}

/// The reason that no number of drives was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuyRefusal {
    /// Single requests are too slow even on drives whose arms never have to move.
    AnyNumber,
    /// Single requests are too slow on the maximum number of drives.
    UpToMost,
    /// The data need more drives than the maximum.
    Bytes,
    /// The maximum number of drives is too slow; more might be enough.
    MoreMight,
}

/// The result of a drive in a layout.
#[derive(Clone, Debug, Serialize)]
pub struct BuyRow {
    /// The drive.
    pub drive: String,
    /// The layout.
    pub layout: Layout,
    /// Whether clients share drives.
    pub sharing: Sharing,
    /// The scheduler of each drive.
    pub scheduler: String,
    /// The policy of a set, as accepted by `simulate --policy`.
    pub policy: String,
    /// The least number of drives that keeps the promises, without shared flash and spares; none if
    /// no allowed number does.
    pub drives: Option<usize>,
    /// The number of drives of each client on its own, in client order.
    pub drives_each: Vec<usize>,
    /// The number of flash cache drives.
    pub cache_drives: usize,
    /// The flash cache drive.
    pub cache_drive: Option<String>,
    /// The number of spare drives.
    pub spare_drives: usize,
    /// The least number of drives that keeps the promises, however busy they are.
    pub drives_without_headroom: Option<usize>,
    /// Whether the drives have the headroom.
    pub has_headroom: bool,
    /// The least number of drives that another period of the same load might need, if intervals
    /// are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drives_low: Option<usize>,
    /// The number that another period is sure not to exceed; none if it is above the maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drives_high: Option<usize>,
    /// The number of drives that the data need without redundancy; none if a drive has no size.
    pub drives_for_bytes: Option<u64>,
    /// The number of drives that the data need with redundancy; none if above the maximum.
    pub drives_for_redundancy: Option<usize>,
    /// The number of drives that keeps the promises regardless of whether the data fit; none if no
    /// allowed number does.
    pub drives_for_time: Option<usize>,
    /// Which of the three determines the number.
    pub binds: Option<Binds>,
    /// The number of drives that may fail without data loss.
    pub survives: usize,
    /// The share in time of each client on these drives; if no number was found, on the maximum
    /// number, or of single requests.
    pub clients: Vec<ClientShare>,
    /// The share in time of the client that gets least with one drive missing; none without
    /// redundancy.
    pub degraded: Option<ClientShare>,
    /// The same while that drive is made anew.
    pub rebuilding: Option<ClientShare>,
    /// The time in which a drive is made anew; none if a drive has no size.
    pub rebuild_hours: Option<f64>,
    /// The bytes of the clients' data that are expected to be lost in a year; none if a drive has
    /// no size.
    pub lost_per_year_bytes: Option<f64>,
    /// The TB that are written in a year to the flash drive that gets most; none without flash.
    pub written_per_year_tb: Option<f64>,
    /// The years in which that is as much as the drive is rated for; none if no rating is known.
    pub endurance_years: Option<f64>,
    /// The next smaller number of drives, if the promise determines the number and clients share.
    pub one_less: Option<OneLess>,
    /// The mean share of time that the drives are busy.
    pub utilisation: Option<f64>,
    /// The highest share of any drive.
    pub utilisation_max: Option<f64>,
    /// The mean power of all drives together, with spares idle; none if any drive has no power
    /// figures.
    pub mean_power_w: Option<f64>,
    /// The price of all drives; none if a price is unknown.
    pub price: Option<f64>,
    /// The currency of the price.
    pub currency: Option<String>,
    /// The date of the oldest price.
    pub priced_on: Option<String>,
    /// The reason that no number was found.
    pub refusal: Option<BuyRefusal>,
    /// The number of requests simulated on the proposed drives.
    pub simulated_requests: u64,
}

/// A number of drives that breaks a promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OneLess {
    /// The number of drives.
    pub drives: usize,
    /// The client furthest below its promise.
    #[serde(flatten)]
    pub worst: ClientShare,
}

impl BuyRow {
    /// Returns the client with the largest shortfall or the smallest margin.
    pub fn worst(&self) -> Option<&ClientShare> {
        self.clients.iter().max_by(|a, b| a.missing().total_cmp(&b.missing()))
    }

    /// Returns the number of all drives to buy, including flash and spares.
    pub fn bought(&self) -> Option<usize> {
        Some(self.drives? + self.cache_drives + self.spare_drives)
    }
}

impl Tried<'_> {
    /// Returns the name that progress messages use.
    pub(super) fn name(&self) -> String {
        format!("{} {} {}", self.kind.drive.name, self.kind.layout.name(), self.sharing.name())
    }

    /// Whether `row` is the result of this combination.
    pub(super) fn is(&self, row: &BuyRow) -> bool {
        let is_kind = self.kind.drive.name == row.drive && self.kind.layout == row.layout;
        is_kind && self.sharing == row.sharing
    }
}

/// Makes the row from the results `found` for each group of clients.
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
            let bytes = found.iter().map(|one| one.bytes).fold(0, u64::saturating_add);
            question.reliability.lost_per_year(kind.layout, capacity, bytes)
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

/// Returns the TB written in a year to the flash drive that gets most, and what it is rated for.
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

/// Returns what determines the number of drives, over all groups. `least` is the least number of
/// drives that the layout needs.
fn binds(found: &[TrialResult], least: usize) -> Option<Binds> {
    let each: Option<Vec<Binds>> = found.iter().map(|one| binds_of(one, least)).collect();
    let each = each?;
    let first = *each.first()?;
    Some(if each.iter().all(|one| *one == first) { first } else { Binds::Several })
}

fn binds_of(found: &TrialResult, least: usize) -> Option<Binds> {
    let (drives, held) = (found.drives?, found.for_redundancy?);
    // If the least number of drives that the layout needs is fast enough, the promise does not
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

/// Returns the share in time of each client of `group` from `count`.
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

/// Returns the client with the largest shortfall in a run of each group; none if there is none.
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

/// Returns the clients of a group, by its position.
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
        none.then_with(price).then_with(watts).then_with(|| a.bought().cmp(&b.bought()))
    });
}

/// Whether the row's array is simulated with its data compressed into a smaller space.
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
    fn what_binds_is_what_asks_for_as_many() {
        for (least, numbers, decides) in [
            (6, (1, 6, 6, 6), Binds::Redundancy),
            (2, (1, 6, 6, 6), Binds::Several),
            (6, (1, 6, 7, 7), Binds::Time),
            (1, (3, 3, 1, 3), Binds::Bytes),
            (6, (3, 8, 6, 8), Binds::Redundancy),
            (1, (1, 1, 1, 1), Binds::Bytes),
            // With the data at their real places it needs more drives than for either requirement
            // alone.
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
    fn why_none_does_is_told_apart() {
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
