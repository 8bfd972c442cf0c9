//! Compares the latencies of two traces, group by group. A change counts if it is at least 10 % and
//! not by chance, according to the block bootstrap that the other figures use; here both traces are
//! resampled. If they have the same requests over time, the same blocks are drawn from both.

use super::super::bounds::RELATIVE_MAX;
use super::super::measure::relative;
use super::super::profile::TIME_DIGITS;
use super::super::tally::{BLOCKS, interval, whole};
use super::answer::{GroupKind, LatencyAnswer, LatencyChange, LatencyFigure, LatencyGroup};
use super::since::{ChangedSpan, changed_span};
use super::{Group, GroupKey, LATENCY_DIGITS, Latencies, LatencySum, SIZE_ENDS_KIB};
use crate::advise::judge::{REQUESTS_THAT_MATTER, TOO_FEW};

/// The share of requests by which the traces' blocks of time may differ in total for the traces to
/// be paired, block by block.
const PAIRED_SHARE: f64 = 0.01;
/// If a group has at least this share of all added latency, it is reported alone even if most
/// requests belong to other groups.
const MOSTLY_SHARE: f64 = 0.8;
/// The minimum number of reads and of writes in the first trace for their means to show what a
/// change of their mix does.
const MIXED_LEAST: u64 = 10;
/// The maximum number of groups of a kind that a sentence names.
const NAMED_MAX: usize = 2;
/// If the groups that changed have at most this share of the requests, a change of the mix is
/// reported as the cause.
const UNCHANGED_SHARE: f64 = 0.05;

/// For each resample, the weights of the blocks of both traces.
pub(super) type Draws = Vec<[Vec<u64>; 2]>;

/// Compares the latencies of both traces; `None` if either trace has none.
pub(in super::super) fn latency_answer(
    both: [&Latencies; 2],
    duration_b_s: Option<f64>,
    weights: &[Vec<u64>],
    level: f64,
) -> Option<LatencyAnswer> {
    if both.iter().any(|of| !of.is_known()) {
        return None;
    }
    let is_paired = are_paired(both);
    // Unpaired traces are resampled independently: the first from one half of the draws, the second
    // from the other.
    let half = weights.len() / 2;
    let draws: Draws = match is_paired {
        true => weights.iter().map(|one| [one.clone(), one.clone()]).collect(),
        false => (0..half).map(|at| [weights[at].clone(), weights[at + half].clone()]).collect(),
    };
    let comparison = Comparison { both, draws, level };
    let mut all = comparison.all()?;
    let mut groups = comparison.others(&all);
    if all.change != LatencyChange::TooFew && opposed(groups.iter().map(|(_, one)| one)).is_some() {
        all.change = LatencyChange::Mixed;
    }
    let change = all.change;
    let is_clear = matches!(change, LatencyChange::Slower | LatencyChange::Faster);
    let mix_of = is_clear.then(|| by_operations(&all, &groups).or(mix(&groups, change))).flatten();
    let whom = (is_clear && mix_of.is_none()).then(|| whom(&groups, change));
    let (changed_for, only) = whom.unwrap_or_default();
    let span = duration_b_s.filter(|_| is_clear).and_then(|_| {
        let key = only.unwrap_or(GroupKey::All);
        changed_span(both.map(|of| &of.groups[&key].sums), is_paired)
    });
    let in_span = span.and_then(|span| comparison.within(span, is_paired));
    let span = span.unwrap_or_default();
    let time_s = |share: Option<f64>| Some(share? * duration_b_s?);
    groups.insert(0, (GroupKey::All, all));
    Some(LatencyAnswer {
        text: String::new(),
        change,
        changed_for,
        mix_of,
        since_s: time_s(span.since),
        until_s: time_s(span.until),
        in_span,
        a_known_share: both[0].known_share(),
        b_known_share: both[1].known_share(),
        is_paired,
        groups: groups.into_iter().map(|(_, group)| group).collect(),
    })
}

/// Returns whether both traces have nearly the same number of requests in each block of time.
fn are_paired(both: [&Latencies; 2]) -> bool {
    let requests = |of: &Latencies, block: usize| {
        let mut weights = vec![0; BLOCKS];
        weights[block] = 1;
        of.groups[&GroupKey::All].sums.weigh(&weights).of(LatencySum::Requests as usize)
    };
    let apart: u64 =
        (0..BLOCKS).map(|block| requests(both[0], block).abs_diff(requests(both[1], block))).sum();
    apart as f64 <= both[0].known(&GroupKey::All) as f64 * PAIRED_SHARE
}

impl Latencies {
    /// Returns how many groups of a kind the trace has.
    fn count(&self, kind: GroupKind) -> usize {
        self.groups.keys().filter(|key| named(key).0 == kind).count()
    }
}

struct Comparison<'a> {
    both: [&'a Latencies; 2],
    draws: Draws,
    level: f64,
}

/// The figure by which groups are compared: the figure that changed for all requests, or both
/// figures if they changed in different directions.
#[derive(Clone, Copy)]
enum Lead {
    Mean,
    P50,
    P99,
    Each,
}

impl Comparison<'_> {
    fn all(&self) -> Option<LatencyGroup> {
        let drawn = |share: f64| {
            let figure = |of: &Latencies, weights: &[u64]| {
                of.times.weigh(weights).quantile(share, TIME_DIGITS)
            };
            self.interval(|side, weights| figure(self.both[side], weights))
        };
        let (p50, p99) = (drawn(0.5), drawn(0.99));
        let mut all = self.group(&GroupKey::All)?;
        all.p50_ms = LatencyFigure { deviation_low: p50.0, deviation_high: p50.1, ..all.p50_ms };
        all.p99_ms = LatencyFigure { deviation_low: p99.0, deviation_high: p99.1, ..all.p99_ms };
        all.change = all.change_of_each();
        Some(all)
    }

    /// Compares the groups that both traces have, apart from all requests, in the figure that
    /// changed for all requests.
    fn others(&self, all: &LatencyGroup) -> Vec<(GroupKey, LatencyGroup)> {
        let is_changed = |figure: &LatencyFigure| figure.change() == all.change;
        let lead = match () {
            () if is_changed(&all.mean_ms) => Lead::Mean,
            () if is_changed(&all.p50_ms) => Lead::P50,
            () if is_changed(&all.p99_ms) => Lead::P99,
            () if all.change == LatencyChange::Mixed => Lead::Each,
            () => Lead::Mean,
        };
        let least = if matches!(lead, Lead::P99) { REQUESTS_THAT_MATTER } else { TOO_FEW };
        let judged = |key: &GroupKey| {
            let mut group = self.group(key)?;
            group.change = match lead {
                _ if group.a_requests.min(group.b_requests) < least => LatencyChange::TooFew,
                Lead::Mean => group.mean_ms.change(),
                Lead::P50 => group.p50_ms.change(),
                Lead::P99 => group.p99_ms.change(),
                Lead::Each => group.change_of_each(),
            };
            Some((key.clone(), group))
        };
        let keys = self.both[0].groups.keys().filter(|key| **key != GroupKey::All);
        let mut groups: Vec<_> = keys.filter_map(judged).collect();
        // If both traces have a single group of a kind, it equals the group of all requests.
        groups.retain(|(_, group)| self.both.iter().any(|of| of.count(group.kind) > 1));
        // Names are sorted by their number of requests; other groups keep their order.
        groups.sort_by_key(|(key, group)| match key {
            GroupKey::Name(_) => (1, u64::MAX - group.b_requests),
            _ => (0, 0),
        });
        groups
    }

    /// Compares the latencies of one group; `None` if either trace has no such requests.
    fn group(&self, key: &GroupKey) -> Option<LatencyGroup> {
        let groups = [self.both[0].groups.get(key)?, self.both[1].groups.get(key)?];
        let (low, high) = self.interval(|side, weights| mean(groups[side], weights));
        let figure = |of: &dyn Fn(&Group) -> Option<f64>| {
            let [a, b] = [of(groups[0])? / 1e6, of(groups[1])? / 1e6];
            let (deviation_low, deviation_high) = (None, None);
            Some(LatencyFigure { a, b, deviation: relative(a, b), deviation_low, deviation_high })
        };
        let quantile =
            |share: f64| move |of: &Group| of.counts().middle_quantile(share, LATENCY_DIGITS);
        let mean = figure(&|of| mean(of, &whole()))?;
        let (kind, group) = named(key);
        Some(LatencyGroup {
            kind,
            group,
            a_requests: self.both[0].known(key),
            b_requests: self.both[1].known(key),
            change: LatencyChange::Same,
            mean_ms: LatencyFigure { deviation_low: low, deviation_high: high, ..mean },
            p50_ms: figure(&quantile(0.5))?,
            p99_ms: figure(&quantile(0.99))?,
        })
    }

    /// Compares the latencies of all requests in a span of the second trace: with those of the same
    /// blocks of the first trace if the traces are paired, else with those of the whole first
    /// trace.
    fn within(&self, span: ChangedSpan, is_paired: bool) -> Option<LatencyGroup> {
        let inside = span.weights();
        let weights = [if is_paired { inside.clone() } else { whole() }, inside];
        let figure = |of: &dyn Fn(&Latencies, &[u64]) -> Option<f64>| {
            let [a, b] = [0, 1].map(|side| Some(of(self.both[side], &weights[side])? / 1e6));
            let (a, b) = (a?, b?);
            let (deviation_low, deviation_high) = (None, None);
            Some(LatencyFigure { a, b, deviation: relative(a, b), deviation_low, deviation_high })
        };
        let quantile = |share: f64| {
            move |of: &Latencies, weights: &[u64]| {
                of.times.weigh(weights).middle_quantile(share, TIME_DIGITS)
            }
        };
        let mean_ms = figure(&|of, weights| mean(&of.groups[&GroupKey::All], weights))?;
        let [a_requests, b_requests] =
            [0, 1].map(|side| self.both[side].times.weigh(&weights[side]).total());
        Some(LatencyGroup {
            kind: GroupKind::All,
            group: "in that time".to_string(),
            a_requests,
            b_requests,
            change: mean_ms.change(),
            mean_ms,
            p50_ms: figure(&quantile(0.5))?,
            p99_ms: figure(&quantile(0.99))?,
        })
    }

    /// Returns the bootstrap interval of a figure's relative deviation.
    fn interval(
        &self,
        figure: impl Fn(usize, &[u64]) -> Option<f64>,
    ) -> (Option<f64>, Option<f64>) {
        let drawn = self.draws.iter().filter_map(|[a, b]| relative(figure(0, a)?, figure(1, b)?));
        interval(drawn.collect(), self.level).unzip()
    }
}

fn mean(group: &Group, weights: &[u64]) -> Option<f64> {
    let sums = group.sums.weigh(weights);
    let [requests, ns] =
        [LatencySum::Requests, LatencySum::Nanoseconds].map(|sum| sums.of(sum as usize) as f64);
    (requests > 0.0).then(|| ns / requests)
}

fn named(key: &GroupKey) -> (GroupKind, String) {
    let (kind, name) = match key {
        GroupKey::All => (GroupKind::All, "all requests"),
        GroupKey::Reads => (GroupKind::Operation, "reads"),
        GroupKey::Writes => (GroupKind::Operation, "writes"),
        GroupKey::Size(0) => (GroupKind::Size, "up to 4 KiB"),
        GroupKey::Size(class) => {
            let from = SIZE_ENDS_KIB[class - 1];
            let name = match SIZE_ENDS_KIB.get(*class) {
                Some(to) => format!("over {from} to {to} KiB"),
                None => format!("over {from} KiB"),
            };
            return (GroupKind::Size, name);
        }
        GroupKey::Name(name) => (GroupKind::Name, name.as_str()),
    };
    (kind, name.to_string())
}

impl LatencyGroup {
    /// Compares the mean, the median and, if there are enough requests, the 99th percentile.
    fn change_of_each(&self) -> LatencyChange {
        let enough = self.a_requests.min(self.b_requests);
        let mut changes = vec![self.mean_ms.change(), self.p50_ms.change()];
        changes.extend((enough >= REQUESTS_THAT_MATTER).then(|| self.p99_ms.change()));
        let has = |change| changes.contains(&change);
        match (has(LatencyChange::Slower), has(LatencyChange::Faster)) {
            _ if enough < TOO_FEW => LatencyChange::TooFew,
            (true, true) => LatencyChange::Mixed,
            (true, false) => LatencyChange::Slower,
            (false, true) => LatencyChange::Faster,
            (false, false) if has(LatencyChange::Unsure) => LatencyChange::Unsure,
            (false, false) => LatencyChange::Same,
        }
    }
}

impl LatencyFigure {
    /// Returns whether the figure is higher or lower in the second trace. Without an interval, only
    /// the size of the deviation counts.
    pub(super) fn change(&self) -> LatencyChange {
        let deviation = self.deviation.unwrap_or(f64::INFINITY);
        let beyond = |end: Option<f64>| end.unwrap_or(deviation);
        match () {
            () if deviation > RELATIVE_MAX && beyond(self.deviation_low) > 0.0 => {
                LatencyChange::Slower
            }
            () if deviation < -RELATIVE_MAX && beyond(self.deviation_high) < 0.0 => {
                LatencyChange::Faster
            }
            () if deviation.abs() > RELATIVE_MAX => LatencyChange::Unsure,
            () => LatencyChange::Same,
        }
    }
}

const KINDS: [GroupKind; 3] = [GroupKind::Operation, GroupKind::Name, GroupKind::Size];

/// Returns the groups of a kind that have enough requests to be compared.
fn of_kind(groups: &[(GroupKey, LatencyGroup)], kind: GroupKind) -> Vec<&(GroupKey, LatencyGroup)> {
    let judged = groups
        .iter()
        .filter(|(_, group)| group.kind == kind && group.change != LatencyChange::TooFew);
    judged.collect()
}

/// Returns a group whose mean is higher in the second trace and one of the same kind whose mean is
/// lower, each with the most requests, if both slower and faster groups have more than a few of the
/// requests.
pub(super) fn opposed<'a>(
    groups: impl Iterator<Item = &'a LatencyGroup> + Clone,
) -> Option<[&'a LatencyGroup; 2]> {
    [GroupKind::Operation, GroupKind::Name].into_iter().find_map(|kind| {
        let is_judged = |group: &&LatencyGroup| group.a_requests.min(group.b_requests) >= TOO_FEW;
        let of_kind = groups.clone().filter(move |group| group.kind == kind).filter(is_judged);
        let all: u64 = of_kind.clone().map(|group| group.b_requests).sum();
        let most = |change: LatencyChange| {
            let changed = of_kind.clone().filter(move |group| group.mean_ms.change() == change);
            let requests: u64 = changed.clone().map(|group| group.b_requests).sum();
            let most = changed.max_by_key(|group| group.b_requests);
            most.filter(|_| requests as f64 > all as f64 * UNCHANGED_SHARE)
        };
        Some([most(LatencyChange::Slower)?, most(LatencyChange::Faster)?])
    })
}

/// Returns a kind of group if hardly any group of that kind changed by itself. Since all requests
/// together did change, the mix of these groups must have.
fn mix(groups: &[(GroupKey, LatencyGroup)], change: LatencyChange) -> Option<GroupKind> {
    KINDS.into_iter().find(|kind| {
        let judged = of_kind(groups, *kind);
        let requests = |changed: bool| -> u64 {
            let counted = judged.iter().filter(|(_, one)| !changed || one.change == change);
            counted.map(|(_, one)| one.b_requests).sum()
        };
        let all = requests(false);
        all > 0 && requests(true) as f64 <= all as f64 * UNCHANGED_SHARE
    })
}

/// Returns the kind of reads and writes if most of the change of the mean is due to their mix: it
/// remains if reads and writes in the second trace are as fast as in the first.
fn by_operations(all: &LatencyGroup, groups: &[(GroupKey, LatencyGroup)]) -> Option<GroupKind> {
    let share = |requests: u64, of: u64| requests as f64 / of as f64;
    let mut by_mix = 0.0;
    for (_, group) in groups.iter().filter(|(_, group)| group.kind == GroupKind::Operation) {
        if group.a_requests < MIXED_LEAST {
            return None;
        }
        let (a, b) =
            (share(group.a_requests, all.a_requests), share(group.b_requests, all.b_requests));
        by_mix += (b - a) * group.mean_ms.a;
    }
    let by_all = all.mean_ms.b - all.mean_ms.a;
    (by_mix / by_all >= MOSTLY_SHARE).then_some(GroupKind::Operation)
}

/// Describes the groups whose latencies changed, unless all groups changed. Returns the group
/// itself if there is only one.
fn whom(
    groups: &[(GroupKey, LatencyGroup)],
    change: LatencyChange,
) -> (Option<String>, Option<GroupKey>) {
    let mut parts = [String::new(), String::new(), String::new()];
    let mut only = None;
    for (part, kind) in parts.iter_mut().zip(KINDS) {
        let judged = of_kind(groups, kind);
        let changed = changed_of(&judged, change);
        if changed.is_empty() || changed.len() == judged.len() {
            continue;
        }
        *part = match changed.len() {
            ..=NAMED_MAX => {
                let names: Vec<&str> = changed.iter().map(|(_, one)| one.group.as_str()).collect();
                names.join(" and ")
            }
            count => format!("{count} of {} {}", judged.len(), plural(kind)),
        };
        if let [(key, _)] = changed[..] {
            only.get_or_insert(key.clone());
        }
    }
    let [operation, name, size] = parts;
    let mut text = if operation.is_empty() { "requests".to_string() } else { operation.clone() };
    if !name.is_empty() {
        text += &format!(" of {name}");
    }
    if !size.is_empty() {
        text += &format!(" of {size}");
    }
    let is_told = !(operation.is_empty() && name.is_empty() && size.is_empty());
    (is_told.then_some(text), only)
}

/// Returns the groups that changed; all groups if those that changed have little of the added
/// latency. If all of them changed, returns only the one with most of the added latency, if there
/// is one and most requests belong to other groups.
fn changed_of<'a>(
    judged: &[&'a (GroupKey, LatencyGroup)],
    change: LatencyChange,
) -> Vec<&'a (GroupKey, LatencyGroup)> {
    let changed: Vec<_> = judged.iter().copied().filter(|(_, one)| one.change == change).collect();
    let added = |(_, one): &(GroupKey, LatencyGroup)| {
        (one.mean_ms.b - one.mean_ms.a) * one.b_requests as f64
    };
    let all: f64 = judged.iter().map(|one| added(one)).sum();
    if changed.len() < judged.len() {
        let carried: f64 = changed.iter().map(|one| added(one)).sum();
        return if carried / all >= MOSTLY_SHARE { changed } else { judged.to_vec() };
    }
    let requests: u64 = judged.iter().map(|(_, one)| one.b_requests).sum();
    let is_most = |one: &&(GroupKey, LatencyGroup)| {
        added(one) / all >= MOSTLY_SHARE && one.1.b_requests * 2 < requests
    };
    match judged.iter().copied().find(is_most) {
        Some(one) => vec![one],
        None => changed,
    }
}

pub(super) fn plural(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::All | GroupKind::Operation => "operations",
        GroupKind::Size => "sizes",
        GroupKind::Name => "names",
    }
}
