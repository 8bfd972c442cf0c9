//! The sentences of the answer: what decides, what would be cheaper, and what is uncertain.

use forebay_ask::named;

use super::row::{CheaperSetting, Decides, Setting, VolumeRow};
use super::{Credit, Question};
use crate::quantities::{achieved, bound, money, percent, seconds};

/// Describes a setting: `8865 IOPS and 415 MiB/s`, `1234 GiB`, `P30`.
pub(super) fn choice(setting: &Setting) -> String {
    let iops = setting.iops.map(|iops| format!("{iops} IOPS"));
    let rates: Vec<String> = iops.into_iter().chain(throughput(setting)).collect();
    match (&setting.tier, rates.as_slice()) {
        (Some(tier), _) => tier.clone(),
        (None, []) if setting.gib == 0 => "as it is".into(),
        (None, []) => format!("{} GiB", setting.gib),
        (None, rates) => rates.join(" and "),
    }
}

/// Describes the provisioned throughput.
pub(super) fn throughput(setting: &Setting) -> Option<String> {
    let mibps = setting.mibps.map(|mibps| format!("{mibps} MiB/s"));
    mibps.or(setting.mbps.map(|mbps| format!("{mbps} MB/s")))
}

/// Returns the price of a month with its currency.
pub(super) fn price(setting: &Setting) -> Option<String> {
    Some(money(setting.price_month?, setting.currency.as_ref()?))
}

fn priced(setting: &Setting) -> String {
    price(setting).map_or(String::new(), |price| format!(" ({price} a month)"))
}

impl Decides {
    /// Returns what it is, at the start of a sentence.
    pub(super) fn name(self) -> &'static str {
        match self {
            Decides::Operations => "IOPS",
            Decides::Bytes => "throughput",
            Decides::OperationCredit => "credit of IOPS",
            Decides::ByteCredit => "credit of throughput",
        }
    }
}

/// Describes the best row; nothing if no setting keeps the promise.
pub(super) fn said(
    rows: &[VolumeRow],
    current: &[VolumeRow],
    question: &Question<'_>,
) -> Vec<String> {
    let Some(best) = rows.iter().find(|row| row.keeps) else {
        return closest(rows).into_iter().collect();
    };
    let mut all: Vec<String> = of_current(best, current).into_iter().collect();
    all.push(decides(best));
    all.extend(cheaper(best));
    all.extend(depth(best, rows));
    all.push(format!(
        "Every latency includes an assumed {} for a read and {} for a write ({}).",
        bound(best.base_read_ms),
        bound(best.base_write_ms),
        named("base_latency")
    ));
    all.extend(dependent(best, question));
    all.extend(burst(best, question.credit));
    all
}

/// Says what the user's volume does.
fn of_current(best: &VolumeRow, current: &[VolumeRow]) -> Option<String> {
    let same = current.iter().find(|row| row.depth_ms == best.depth_ms)?;
    let both = same.setting.price_month.zip(best.setting.price_month);
    let is_one = same.setting.currency == best.setting.currency;
    let change = both.filter(|_| is_one).map_or(String::new(), |(now, then)| {
        let word = if then <= now { "less" } else { "more" };
        let currency = best.setting.currency.clone().unwrap_or_default();
        format!("; this one costs {} {word}", money((then - now).abs(), &currency))
    });
    Some(format!(
        "Your {}, {}, answers {} in time{}{change}.",
        same.kind,
        choice(&same.setting),
        achieved(same.in_time_fraction),
        priced(&same.setting)
    ))
}

/// Says which limit requests wait for.
fn decides(best: &VolumeRow) -> String {
    let (Some(decides), Some(ops)) = (best.decides, best.delay_ops_share) else {
        return "The smallest setting of this type is enough.".into();
    };
    if percent(ops) == "100 %" {
        return "Requests wait for IOPS alone.".into();
    }
    format!(
        "Requests wait mostly for {}: {} of all delay is for IOPS, the rest for throughput.",
        decides.name(),
        percent(ops)
    )
}

/// Says what cheaper settings would do.
fn cheaper(best: &VolumeRow) -> Option<String> {
    let answers = |of: &CheaperSetting| {
        format!("{} answer {} in time", choice(&of.setting), achieved(of.in_time_fraction))
    };
    let mut all: Vec<String> = best.cheaper.iter().map(answers).collect();
    let smallest = best.smallest.as_ref().filter(|smallest| !best.cheaper.contains(smallest));
    all.extend(smallest.map(|of| format!("{}{}", answers(of), priced(&of.setting))));
    (!all.is_empty()).then(|| format!("Less is not enough: {}.", all.join("; ")))
}

/// Describes what passes at once beyond the rate.
pub(super) fn passes(depth_ms: f64) -> String {
    if depth_ms == 0.0 { "nothing".into() } else { format!("{} of the rate", bound(depth_ms)) }
}

/// Says how the unknown depth changes the result.
fn depth(best: &VolumeRow, rows: &[VolumeRow]) -> Option<String> {
    let same = rows.iter().filter(|row| row.kind == best.kind && row.depth_ms != best.depth_ms);
    let other = same.max_by(|a, b| a.depth_ms.total_cmp(&b.depth_ms))?;
    let [less, more] = [best, other].map(|row| passes(row.depth_ms));
    let unknown = "No provider says how much passes at once beyond the rate";
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

/// Says what happens if requests wait for one another.
fn dependent(best: &VolumeRow, question: &Question<'_>) -> Option<String> {
    let share = best.dependent_in_time_fraction?;
    let less = if share < question.fraction.as_f64() { ", less than promised" } else { "" };
    Some(format!(
        "If requests wait for one another as recorded, {} are in time{less}.",
        achieved(share)
    ))
}

/// Says how long the credit of a volume lasts.
fn burst(best: &VolumeRow, credit: Credit) -> Option<String> {
    let start = match credit {
        Credit::Full => "all of it at the start",
        Credit::Empty => "none at the start",
        Credit::Steady => "the trace repeated",
    };
    Some(format!(
        "Full credit lasts {} at the highest rate; this result is for {start} ({}).",
        seconds(best.burst_s?),
        named("credit")
    ))
}

/// Says which setting comes closest if none keeps the promise.
fn closest(rows: &[VolumeRow]) -> Option<String> {
    let best = rows.iter().max_by(|a, b| a.in_time_fraction.total_cmp(&b.in_time_fraction))?;
    Some(format!(
        "{} comes closest: with {} it answers {} in time.",
        best.kind,
        choice(&best.setting),
        achieved(best.in_time_fraction)
    ))
}

/// Returns cautions about prices; one sentence each.
pub(super) fn cautions(rows: &[VolumeRow]) -> Vec<String> {
    let mut all = Vec::new();
    let kept = || rows.iter().filter(|row| row.keeps);
    let mut days: Vec<&str> = kept().filter_map(|row| row.setting.priced_on.as_deref()).collect();
    days.sort_unstable();
    if let (Some(first), Some(last)) = (days.first(), days.last()) {
        let when =
            if first == last { format!("of {first}") } else { format!("of {first} to {last}") };
        all.push(format!(
            "Prices are third parties', {when}: check them, or give {}.",
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
        all.push(format!("No price is known, so these are not ranked: {names}."));
    }
    all
}
