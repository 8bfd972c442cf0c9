//! When requests come, in either of two forms that are told apart by their keys.

use serde::{Deserialize, Deserializer, Serialize};

use super::super::cascade::{Division, Split};

/// When requests come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, try_from = "Keys")]
pub enum Arrivals {
    /// By how stretches of requests divide their time, at every scale.
    Scales(Scales),
    /// By intensity period by period and the families of transitions, as the paper has it.
    Periods(Periods),
}

/// Requests of each period of wall time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Periods {
    /// All times are multiples of this.
    pub tick_ns: u64,
    /// How long a period is; the first begins with the trace.
    pub period_s: f64,
    /// When the part's last request comes.
    pub end_s: f64,
    /// Requests of each period.
    pub requests: Vec<u64>,
}

/// Arrivals by division of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scales {
    /// All times are multiples of this.
    pub tick_ns: u64,
    /// Requests of an epoch, but for the last: a power of two.
    pub epoch_requests: u64,
    /// How long each epoch is.
    pub epochs_us: Vec<f64>,
    /// How blocks of the coarser scales divide their time, each for itself.
    pub divisions: Vec<Division>,
    /// How finer blocks do, by their scale and duration.
    pub splits: Vec<Split>,
}

impl Arrivals {
    /// All times are multiples of this.
    pub fn tick_ns(&self) -> u64 {
        match self {
            Arrivals::Scales(scales) => scales.tick_ns,
            Arrivals::Periods(periods) => periods.tick_ns,
        }
    }
}

/// The keys of both forms, so that a message names the one that is wrong.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    tick_ns: u64,
    #[serde(default, deserialize_with = "given")]
    epoch_requests: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    epochs_us: Option<Vec<f64>>,
    #[serde(default, deserialize_with = "given")]
    divisions: Option<Vec<Division>>,
    #[serde(default, deserialize_with = "given")]
    splits: Option<Vec<Split>>,
    #[serde(default, deserialize_with = "given")]
    period_s: Option<f64>,
    #[serde(default, deserialize_with = "given")]
    end_s: Option<f64>,
    #[serde(default, deserialize_with = "given")]
    requests: Option<Vec<u64>>,
}

/// A key that is there has a value: null is none.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl TryFrom<Keys> for Arrivals {
    type Error = String;

    fn try_from(keys: Keys) -> Result<Arrivals, String> {
        let Keys { tick_ns, epoch_requests, epochs_us, divisions, splits, .. } = keys;
        let (period_s, end_s, requests) = (keys.period_s, keys.end_s, keys.requests);
        let by_epoch = [
            ("epoch_requests", epoch_requests.is_some()),
            ("epochs_us", epochs_us.is_some()),
            ("divisions", divisions.is_some()),
            ("splits", splits.is_some()),
        ];
        let by_period = [
            ("period_s", period_s.is_some()),
            ("end_s", end_s.is_some()),
            ("requests", requests.is_some()),
        ];
        let first = |keys: &[(&str, bool)], is_given: bool| {
            keys.iter().find(|key| key.1 == is_given).map(|key| key.0.to_string())
        };
        if let (Some(epoch), Some(period)) = (first(&by_epoch, true), first(&by_period, true)) {
            return Err(format!("both `{epoch}`, of epochs, and `{period}`, of periods"));
        }
        let (scales, periods) = (
            epoch_requests.zip(epochs_us).zip(divisions.zip(splits)),
            period_s.zip(end_s).zip(requests),
        );
        match (scales, periods) {
            (Some(((epoch_requests, epochs_us), (divisions, splits))), _) => {
                Ok(Arrivals::Scales(Scales {
                    tick_ns,
                    epoch_requests,
                    epochs_us,
                    divisions,
                    splits,
                }))
            }
            (_, Some(((period_s, end_s), requests))) => {
                Ok(Arrivals::Periods(Periods { tick_ns, period_s, end_s, requests }))
            }
            (None, None) => {
                let is_by_period = by_period.iter().any(|key| key.1);
                let keys: &[(&str, bool)] = if is_by_period { &by_period } else { &by_epoch };
                Err(format!("missing field `{}`", first(keys, false).unwrap_or_default()))
            }
        }
    }
}
