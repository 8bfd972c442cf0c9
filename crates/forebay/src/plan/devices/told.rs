//! Formats sentences about a number of devices.

use forebay_ask::named;

use super::{Binds, DevicesRow};
use crate::quantities::{achieved, bound, bytes, money, promised, watts};

impl DevicesRow {
    /// Describes the row, if up to `max` devices called `device` were tried.
    pub fn told(&self, device: &str, max: usize) -> String {
        sentence(self, device, max)
    }
}

/// Adds sentences to a headline that states the number of devices and the result with one device
/// fewer.
pub(in crate::plan) fn beside_headline(
    row: &DevicesRow,
    device: &str,
    max: usize,
) -> Option<String> {
    let devices = row.devices?;
    let rate =
        row.capacity_iops.map(|iops| format!("A server of constant rate would need {iops} IOPS."));
    let decides = match (row.binds?, row.devices_for_bytes, row.devices_for_time) {
        (Binds::Bytes, _, Some(time)) => {
            Some(format!("The amount of data determines the number: {time} would be fast enough."))
        }
        (Binds::Time, Some(data), _) => {
            Some(format!("{data} {device} would be enough for the data."))
        }
        _ => None,
    };
    let price = row.price.map(|price| {
        let verb = if devices == 1 { "It costs" } else { "Together they cost" };
        format!("{verb} {}.", money(price, "in the currency of the price"))
    });
    let power = row.mean_power_w.map(|power| format!("Mean power: {}.", watts(power)));
    let cache = write_cache(row, devices, max).map(|said| said.trim_start().to_string());
    let all: Vec<String> = [rate, decides, price, power, cache].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(" "))
}

fn sentence(row: &DevicesRow, device: &str, max: usize) -> String {
    let promise = format!("{} within {}", promised(row.fraction), bound(row.within_ms));
    let rate = match row.capacity_iops {
        Some(iops) => format!("{iops} IOPS keep {promise}; "),
        None => format!("{promise}: "),
    };
    let Some(devices) = row.devices else { return rate + &refusal(row, device, max) };
    let verb = |devices: usize| if devices == 1 { "is" } else { "are" };
    let less = match row.one_less_fraction {
        Some(share) => {
            let (one_less, share) = (devices - 1, achieved(share));
            format!("{one_less} {device} {} not enough ({share}), ", verb(one_less))
        }
        None => String::new(),
    };
    let needs = match (row.devices_for_bytes, row.devices_for_time) {
        (Some(bytes), Some(time)) => format!(" ({bytes} for the data, {time} for the time)"),
        _ => String::new(),
    };
    let binds = match row.binds {
        Some(Binds::Bytes) => ": the data decide",
        Some(Binds::Time) => ": the time decides",
        Some(Binds::Both) | None => "",
    };
    let price = row.price.map_or(String::new(), |price| {
        format!(", for {}", money(price, "in the currency of the price"))
    });
    let watts = row.mean_power_w.map_or(String::new(), |power| format!(", at {}", watts(power)));
    let verb = verb(devices);
    let cache = write_cache(row, devices, max).unwrap_or_default();
    format!("{rate}{less}{devices} {device} {verb} enough{needs}{binds}{price}{watts}.{cache}")
}

/// Describes what changes with the write cache off, compared with `devices` devices; `None` if
/// nothing does.
fn write_cache(row: &DevicesRow, devices: usize, max: usize) -> Option<String> {
    let without = row.without_write_cache.as_ref()?;
    let takes = match without.devices {
        Some(off) if off == devices => return None,
        Some(off) => format!("with it off, the answer is {off}"),
        None => {
            format!("with it off, {max} are not enough ({})", achieved(without.achieved_fraction))
        }
    };
    Some(format!(
        " The result depends on the drive's write cache: {takes}. A power cut loses writes in the \
         cache that were not flushed."
    ))
}

/// Explains why no number of devices was found.
fn refusal(row: &DevicesRow, device: &str, max: usize) -> String {
    match (row.alone_fraction, row.devices_for_bytes) {
        (Some(alone), _) if alone < row.fraction && !row.has_arm => format!(
            "no number of {device} is enough: an idle one answers only {} in time, one request at \
             a time.",
            achieved(alone)
        ),
        (Some(alone), _) if alone < row.fraction => format!(
            "no number of {device} up to {max} is enough, because each is too slow: with {max} \
             idle ones and one request at a time, {} are in time. With more devices, seeks \
             get shorter ({}), but a faster drive is more likely to be enough.",
            achieved(alone),
            named("devices_max")
        ),
        (_, Some(bytes)) if bytes > max as u64 => format!(
            "the data alone needs {bytes} {device}, more than the {max} allowed; raise {}.",
            named("devices_max")
        ),
        _ if row.apart_fraction.is_some_and(|apart| apart < row.fraction) => format!(
            "no number of {device} is enough: too many requests meet on a few stripes of {}, and \
             each stripe is on one drive. {max} answer {} in time; only a faster drive or a cache \
             helps.",
            bytes(super::STRIPE_BYTES as f64),
            achieved(row.achieved_fraction)
        ),
        (alone, _) => format!(
            "{max} {device} are not enough ({}); more may be, because an idle one answers {} in \
             time; raise {}.",
            achieved(row.achieved_fraction),
            achieved(alone.unwrap_or(1.0)),
            named("devices_max")
        ),
    }
}
