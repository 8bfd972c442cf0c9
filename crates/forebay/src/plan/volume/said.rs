//! Formats sentences about the answer: the factor that determines the setting, cheaper
//! alternatives, and uncertainties.

use forebay_ask::named;

use super::{CheaperSetting, CountersRead, Credit, Decides, Question, Setting, VolumeRow, apply};
use crate::quantities::{achieved, bound, bytes, money, percent, promised, seconds};

/// Formats a setting, as in `8865 IOPS and 415 MiB/s`, `1234 GiB` or `P30`.
pub(super) fn choice(setting: &Setting) -> String {
    let iops = setting.iops.map(|iops| format!("{iops} IOPS"));
    let rates: Vec<String> = iops.into_iter().chain(throughput(setting)).collect();
    match (&setting.tier, rates.as_slice()) {
        (Some(tier), _) => tier.clone(),
        (None, []) if setting.is_fixed => "as it is".into(),
        (None, []) => format!("{} GiB", setting.gib),
        (None, rates) => rates.join(" and "),
    }
}

/// Formats the provisioned throughput.
pub(super) fn throughput(setting: &Setting) -> Option<String> {
    let mibps = setting.mibps.map(|mibps| format!("{mibps} MiB/s"));
    mibps.or(setting.mbps.map(|mbps| format!("{mbps} MB/s")))
}

/// Formats the monthly price with its currency.
pub(super) fn price(setting: &Setting) -> Option<String> {
    Some(money(setting.price_month?, setting.currency.as_ref()?))
}

fn priced(setting: &Setting) -> String {
    price(setting).map_or(String::new(), |price| format!(" ({price} a month)"))
}

impl Decides {
    /// Returns the name of the limit, for the start of a sentence.
    pub(super) fn name(self) -> &'static str {
        match self {
            Decides::Operations => "IOPS",
            Decides::Bytes => "throughput",
            Decides::OperationCredit => "credit of IOPS",
            Decides::ByteCredit => "credit of throughput",
        }
    }
}

/// Describes the best row in sentences; empty if no setting keeps the promise.
pub(super) fn said(
    rows: &[VolumeRow],
    current: &[VolumeRow],
    question: &Question<'_>,
) -> Vec<String> {
    let Some(best) = rows.iter().find(|row| row.keeps) else {
        return closest(rows, question).into_iter().collect();
    };
    let mut all: Vec<String> = of_current(best, current).into_iter().collect();
    all.extend(elsewhere(best, rows, question));
    all.extend(depth(best, rows));
    all.extend(larger(best, question));
    let relies_on_base = is_mostly_base(best, question);
    all.extend(relies_on_base.then(|| mostly_base(best)));
    all.push(decides(best));
    all.extend(cheaper(best));
    all.extend((!relies_on_base).then(|| base_latency(best)));
    all.extend(interval(best, question));
    all.extend(dependent(best, question));
    all.extend(burst(best, question.credit));
    all
}

/// Describes the best row found for counters, and explains how limited these are.
pub(super) fn of_counters(
    rows: &[VolumeRow],
    current: &[VolumeRow],
    read: &CountersRead,
    question: &Question<'_>,
) -> Vec<String> {
    let mut all = vec![format!(
        "This is a lower bound: the counters do not show when requests arrived within {}, and a \
         burst needs more.",
        bound((read.interval_s * 1e3).round())
    )];
    match rows.iter().find(|row| row.keeps) {
        Some(best) => {
            all.extend(of_current(best, current));
            all.extend(elsewhere(best, rows, question));
            all.extend(depth(best, rows));
            all.extend(cheaper(best));
            all.push(base_latency(best));
        }
        None => all.extend(closest(rows, question)),
    }
    all.push(
        "The shares in time are upper bounds (assuming equal request sizes within an interval); a \
         trace of a busy hour (`forebay capture`) gives the exact answer."
            .into(),
    );
    all
}

/// States how well the user's present volume keeps the promise.
fn of_current(best: &VolumeRow, current: &[VolumeRow]) -> Option<String> {
    let same = current.iter().find(|row| row.depth_ms == best.depth_ms).or(current.first())?;
    let both = same.setting.price_month.zip(best.setting.price_month);
    let is_one = same.setting.currency == best.setting.currency;
    let mut change = both.filter(|_| is_one).map_or(String::new(), |(now, then)| {
        let word = if then <= now { "less" } else { "more" };
        let currency = best.setting.currency.clone().unwrap_or_default();
        // Another setting of the same type does not count as another volume.
        let costs = match best.kind == same.kind {
            true => format!("{} cost", choice(&best.setting)),
            false => format!("{} costs", best.kind),
        };
        format!("; {costs} {} {word}", money((then - now).abs(), &currency))
    });
    if apply::is_same(same, best) {
        change = "; keep it".into();
    }
    Some(format!(
        "Your {}, {}, answers {}{}{change}.",
        same.kind,
        choice(&same.setting),
        in_time(same.in_time_fraction, same.uses_up_credit),
        priced(&same.setting)
    ))
}

/// Names the cheapest volume of other providers, if it costs less than the best one of the user's.
fn elsewhere(best: &VolumeRow, rows: &[VolumeRow], question: &Question<'_>) -> Option<String> {
    let here = question.provider();
    if apply::is_elsewhere(&best.kind, here) {
        let provider = here.map_or("", |here| here.trim_end_matches('-'));
        return Some(format!("No volume of your provider ({provider}-*) keeps the promise."));
    }
    let mut rows = rows.iter().filter(|row| row.keeps && row.depth_ms == best.depth_ms);
    let other = rows.find(|row| apply::is_elsewhere(&row.kind, here))?;
    let (now, then) = (best.setting.price_month?, other.setting.price_month?);
    let is_one = best.setting.currency == other.setting.currency;
    let is_cheaper = is_one && then < now;
    is_cheaper.then(|| {
        let choice = choice(&other.setting);
        format!("Elsewhere: {}, {choice}{}.", other.kind, priced(&other.setting))
    })
}

/// Formats the share of requests answered in time.
fn in_time(fraction: f64, uses_up_credit: bool) -> String {
    let used_up = if uses_up_credit { " once its credit is used up" } else { "" };
    format!("{} in time{used_up}", achieved(fraction))
}

/// States which limit delays requests.
fn decides(best: &VolumeRow) -> String {
    let (Some(_), Some(ops)) = (best.decides, best.delay_ops_share) else {
        let is_used_up = best.cheaper.iter().any(|of| of.uses_up_credit);
        return match best.smallest.is_some() || best.setting.is_fixed {
            _ if is_used_up => {
                "No request waits, but a smaller setting would use up the credit.".into()
            }
            true => "No request waits.".into(),
            false => "The smallest setting of this type is enough.".into(),
        };
    };
    for (share, of) in [(ops, Decides::Operations), (1.0 - ops, Decides::Bytes)] {
        if percent(share) == "100 %" {
            return format!("Requests wait for {} alone.", of.name());
        }
    }
    let [iops, throughput] = [ops, 1.0 - ops].map(percent);
    match ops > 0.5 {
        true => format!(
            "{iops} of all delay is due to the IOPS limit, {throughput} to the throughput limit."
        ),
        false => format!(
            "{throughput} of all delay is due to the throughput limit, {iops} to the IOPS limit."
        ),
    }
}

/// States how well cheaper settings would keep the promise.
fn cheaper(best: &VolumeRow) -> Option<String> {
    let answers = |of: &CheaperSetting| {
        let in_time = in_time(of.in_time_fraction, of.uses_up_credit);
        format!("{} answer {in_time}", choice(&of.setting))
    };
    let mut all: Vec<String> = best.cheaper.iter().map(answers).collect();
    let smallest = best.smallest.as_ref().filter(|smallest| !best.cheaper.contains(smallest));
    all.extend(smallest.map(|of| {
        let (setting, price) = (choice(&of.setting), priced(&of.setting));
        let in_time = in_time(of.in_time_fraction, of.uses_up_credit);
        format!("the smallest setting, {setting}{price}, answers {in_time}")
    }));
    (!all.is_empty()).then(|| format!("Less is not enough: {}.", all.join("; ")))
}

/// Formats how much may pass at once, beyond the rate.
pub(super) fn passes(depth_ms: f64) -> String {
    if depth_ms == 0.0 { "nothing".into() } else { format!("{} of the rate", bound(depth_ms)) }
}

/// States how the unknown bucket depth affects the result.
fn depth(best: &VolumeRow, rows: &[VolumeRow]) -> Option<String> {
    let others = || rows.iter().filter(|row| row.depth_ms != best.depth_ms);
    let depth_ms = others().map(|row| row.depth_ms).reduce(f64::max)?;
    let [less, more] = [best.depth_ms, depth_ms].map(passes);
    let unknown = "Providers do not document how large a burst beyond the rate passes at once";
    let cheapest = others().find(|row| row.depth_ms == depth_ms && row.keeps);
    let is_priced = |row: &&VolumeRow| row.setting.price_month.is_some();
    if let Some(cheapest) = cheapest.filter(|row| row.kind != best.kind).filter(is_priced) {
        return Some(format!(
            "{unknown}. If it is {more}, {}, {}{}, is the cheapest.",
            cheapest.kind,
            choice(&cheapest.setting),
            priced(&cheapest.setting)
        ));
    }
    let other = others().find(|row| row.depth_ms == depth_ms && row.kind == best.kind)?;
    if !other.keeps {
        return Some(format!("{unknown}. If it is {more}, no {} keeps the promise.", other.kind));
    }
    if choice(&other.setting) == choice(&best.setting) {
        return Some(format!("{unknown}; with {less} and with {more} the answer is the same."));
    }
    Some(format!(
        "{unknown}. If it is {more}, {}{} are enough; {} are needed if it is {less}.",
        choice(&other.setting),
        priced(&other.setting),
        choice(&best.setting)
    ))
}

fn base_latency(best: &VolumeRow) -> String {
    format!(
        "Latencies include an assumed {} to read and {} to write ({}).",
        bound(best.base_read_ms),
        bound(best.base_write_ms),
        named("base_latency")
    )
}

/// The share of the promised time at or above which the answer relies on the assumed base latency.
const MOSTLY_BASE_SHARE: f64 = 0.5;

fn is_mostly_base(best: &VolumeRow, question: &Question<'_>) -> bool {
    let base_ms = best.base_read_ms.max(best.base_write_ms);
    base_ms >= question.within.as_millis_f64() * MOSTLY_BASE_SHARE
}

/// Warns if the promise is kept only if the volume is always as fast as assumed.
fn mostly_base(best: &VolumeRow) -> String {
    format!(
        "This relies on a base latency that is assumed to be constant, {} to read and {} to write: \
         measure it ({}).",
        bound(best.base_read_ms),
        bound(best.base_write_ms),
        named("base_latency")
    )
}

/// Warns if the size up to the highest address, without long gaps, is less than half, and says how
/// to name a smaller size. `used` is the size without long gaps, and the bytes that requests touch.
pub(super) fn gaps(used: (u64, u64), question: &Question<'_>) -> Option<String> {
    let gib = question.gib;
    let [used_bytes, touched] = [used.0, used.1].map(|bytes| bytes as f64 * question.growth);
    let used_gib = (used_bytes / f64::from(1 << 30)).ceil().max(1.0) as u64;
    (!question.is_size_given && used_gib <= gib / 2).then(|| {
        format!(
            "The {gib} GiB are the highest address of the trace. Without long unused gaps it is {}, of \
             which requests touch {}. If your data needs less space, specify its size ({} {used_gib}).",
            bytes(used_bytes),
            bytes(touched),
            named("gib")
        )
    })
}

/// The ratio of a volume's size to the needed size at or above which the answer mentions it.
const LARGER_TIMES: u64 = 10;

/// Warns if most of the volume is bought for its speed, and says how to compare the types at its
/// size.
fn larger(best: &VolumeRow, question: &Question<'_>) -> Option<String> {
    let (gib, needed) = (best.setting.gib, question.gib);
    (gib >= needed.max(1).saturating_mul(LARGER_TIMES)).then(|| {
        format!(
            "The data need only {needed} GiB; the rest of the {gib} GiB is bought for its speed. If you \
             would fill it, compare all types at that size ({} {gib}).",
            named("gib")
        )
    })
}

/// States how reliable the price is.
fn interval(best: &VolumeRow, question: &Question<'_>) -> Option<String> {
    let level = question.bootstrap?.level;
    let (low, high) = best.price_low_month.zip(best.price_high_month)?;
    let currency = best.setting.currency.as_ref()?;
    Some(format!(
        "In {} of resamples of the trace, {} costs {} to {}; bursts that are too rare to appear in \
         the trace may cost more.",
        promised(level),
        best.kind,
        money(low, currency),
        money(high, currency)
    ))
}

/// States how the result changes if requests wait for earlier ones.
fn dependent(best: &VolumeRow, question: &Question<'_>) -> Option<String> {
    let share = best.dependent_in_time_fraction?;
    let less = if share < question.fraction.as_f64() { ", less than promised" } else { "" };
    Some(format!(
        "If requests wait for one another as recorded, {} are in time{less}.",
        achieved(share)
    ))
}

/// States how long the credit of the volume lasts.
fn burst(best: &VolumeRow, credit: Credit) -> Option<String> {
    let start = match credit {
        Credit::Full => "the full credit at the start",
        Credit::Empty => "none at the start",
        Credit::Steady => "the trace repeated",
    };
    Some(format!(
        "Full credit lasts {} at the highest rate; this result is for {start} ({}).",
        seconds(best.burst_s?),
        named("credit")
    ))
}

/// If no setting keeps the promise, states which setting comes closest, or that no setting can,
/// because the base latency alone exceeds the promised time.
fn closest(rows: &[VolumeRow], question: &Question<'_>) -> Option<String> {
    let best = rows.iter().max_by(|a, b| a.in_time_fraction.total_cmp(&b.in_time_fraction))?;
    let base_ms =
        rows.iter().map(|row| row.base_read_ms.min(row.base_write_ms)).reduce(f64::min)?;
    if base_ms > question.within.as_millis_f64() {
        return Some(format!(
            "No volume answers even a single request in time: the fastest one takes {} without any \
             queueing (assumed; set another latency with {}).",
            bound(base_ms),
            named("base_latency")
        ));
    }
    Some(format!(
        "{}, {}, comes closest: it answers {}.",
        best.kind,
        choice(&best.setting),
        in_time(best.in_time_fraction, best.uses_up_credit)
    ))
}

/// Returns cautions about prices and about the instance, one sentence each.
pub(super) fn cautions(rows: &[VolumeRow], question: &Question<'_>) -> Vec<String> {
    let mut all: Vec<String> =
        question.instance.and_then(|instance| instance.note.clone()).into_iter().collect();
    let kept = || rows.iter().filter(|row| row.keeps);
    let mut days: Vec<&str> = kept().filter_map(|row| row.setting.priced_on.as_deref()).collect();
    days.sort_unstable();
    if let (Some(first), Some(last)) = (days.first(), days.last()) {
        let when = if first == last { first.to_string() } else { format!("{first} to {last}") };
        all.push(format!(
            "Prices come from third parties ({when}); check them, or specify your own ({}).",
            named("prices")
        ));
    }
    let mut unpriced: Vec<&str> = kept()
        .filter(|row| row.setting.price_month.is_none())
        .map(|row| row.kind.as_str())
        .collect();
    unpriced.sort_unstable();
    unpriced.dedup();
    if !unpriced.is_empty() {
        let names = unpriced.join(", ");
        all.push(format!(
            "The prices of the following are unknown, so they are not ranked: {names}."
        ));
    }
    all
}
