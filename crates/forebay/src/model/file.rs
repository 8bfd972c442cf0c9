//! The model as a JSON file. Its keys are documented in `docs/model.md`.
//!
//! No key holds an offset of the trace: places are known by shares of the space, in cells of
//! 1/65536 of it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::cascade::{Division, Split};
use super::families::Gaps;
use super::letters::{BASE, PAIRS, letter, numbers, push_pair};
use super::order::Order;

/// The version that is written and read.
pub const VERSION: u32 = 1;

/// A whole model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The version of the form.
    pub forebay_model: u32,
    /// Requests it was fitted on.
    pub requests: u64,
    /// From the first of them to the last.
    pub duration_s: f64,
    /// Levels of the hierarchy of ranges.
    pub level: u8,
    /// Whether any range leads to any other, not only siblings.
    pub flat: bool,
    /// By how many bytes places used before are told apart: a power of two.
    pub grain_bytes: u32,
    /// Largest sizes of the size classes but the last.
    pub size_bounds_bytes: Vec<u32>,
    /// Volumes, one after another.
    pub volumes: Vec<Volume>,
    /// Who asked.
    pub streams: Vec<Submitter>,
    /// Models of single streams, or one of all.
    pub parts: Vec<Part>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// How far it was used, rounded up to whole MiB.
    pub extent_mib: u64,
    /// Its name, where names were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submitter {
    /// Its requests.
    pub requests: u64,
    /// Its name, where names were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A model of one stream or of all together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The stream it is of; none for all.
    pub stream: Option<u32>,
    /// Requests it was fitted on.
    pub requests: u64,
    /// When its first request comes.
    pub begin_s: f64,
    /// When requests come.
    pub arrivals: Arrivals,
    /// Ranges with what happens in them.
    pub states: Vec<State>,
    /// How categories follow each other within a range and from any to another.
    pub follows: [Vec<Joint>; 2],
    /// From range to range.
    pub transitions: Vec<Transition>,
    /// In which order states come, as closely as a bounded list can tell.
    pub order: Order,
    /// Sizes and the like of each category.
    pub categories: Vec<CategoryModel>,
    /// Where new places are: first cell, cells, count.
    pub heat: Vec<(u32, u32, u32)>,
    /// Share of requests that come from the stream of the one before.
    pub stay_share: f64,
}

impl Part {
    /// The places of all states: the state of each, and its number in that.
    pub fn places(&self) -> impl Iterator<Item = (u32, usize)> {
        let of_state = |(state, number): (&State, u32)| {
            (0..state.5.0.len().max(1)).map(move |place| (number, place))
        };
        self.states.iter().zip(0..).flat_map(of_state)
    }
}

/// When requests come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "arrivals of other keys than docs/model.md has for epochs or periods"
)]
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

/// What happens in a range, as a list to be short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State(
    /// The range: one digit 0 to 3 a level.
    pub String,
    /// Operation, kind and size class.
    pub u16,
    /// Requests.
    pub u64,
    /// Counts by class of the inter-arrival time before it.
    pub Vec<u32>,
    /// The same after it.
    pub Vec<u32>,
    /// Where it is: how many requests of the range ago its place was used (a bin; 0 for new places),
    /// how far from the end of the one before in the range (a bin), count.
    pub Places,
);

/// Where requests of a state are: entries of two bins and a count. Of a place used again: how many
/// requests of the range ago, and how far from the end of the one before in the range; of a new one
/// how it is aligned, and the latter; of a run that goes on: its rank among the latest, and 1 where it is that of the one
/// before. As text: a letter for each bin and two for the count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places(pub Vec<(u8, u8, u32)>);

impl Serialize for Places {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::new();
        for &(first, second, count) in &self.0 {
            text.extend([letter(first.into()), letter(second.into())]);
            push_pair(&mut text, (count as usize).min(PAIRS - 1));
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Places {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Places, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || D::Error::custom("places that are no groups of four letters");
        let numbers = numbers(&text).ok_or_else(wrong)?;
        let (groups, rest) = numbers.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(wrong());
        }
        let place = |g: &[usize; 4]| (g[0] as u8, g[1] as u8, (g[2] * BASE + g[3]) as u32);
        Ok(Places(groups.iter().map(place).collect()))
    }
}

/// Counts of bins from the first that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bins(pub u32, pub Vec<u32>);

impl Bins {
    /// From all counts.
    pub fn new(counts: &[u32]) -> Bins {
        let Some(first) = counts.iter().position(|&count| count > 0) else {
            return Bins::default();
        };
        let end = counts.iter().rposition(|&count| count > 0).unwrap_or(first) + 1;
        Bins(first as u32, counts[first..end].to_vec())
    }

    /// Whether nothing is counted.
    pub fn is_empty(&self) -> bool {
        self.1.is_empty()
    }
}

/// From one range to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// The range it leaves.
    pub from: String,
    /// The range it enters.
    pub to: String,
    /// Its share of all requests.
    pub share: f64,
    /// How long after the request before.
    pub inter_arrival: Gaps,
    /// How categories follow each other on it.
    pub joint: Vec<Joint>,
}

/// A pair of categories: before, after, count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joint(pub u16, pub u16, pub u32);

/// What requests of a category are like wherever they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CategoryModel {
    /// The category.
    pub category: u16,
    /// Bytes, count, and how often the one before in the run or category was as large.
    pub sizes: Vec<(u32, u32, u32)>,
    /// Following ones: how many requests on, counts of those unlike the one before.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub distances: Bins,
    /// Counts of those as far on as the one before.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub distance_repeats: Bins,
    /// Those where another began before: how often the size is as it was then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub same_size_share: f64,
    /// Sequential ones: how often of the same size class as the request they continue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub same_class_share: f64,
    /// Sequential ones: how often of the same stream as the request they continue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub same_stream_share: f64,
    /// Sequential ones: how often of the same operation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub same_op_share: f64,
    /// How they are aligned: counts of bins.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub alignments: Bins,
    /// Flags and counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<(u8, u32)>,
}

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

impl Model {
    /// What somebody who has the model knows of the trace, one sentence each.
    pub fn reveals(&self) -> Vec<String> {
        let named = self.volumes.iter().filter(|volume| volume.name.is_some()).count()
            + self.streams.iter().filter(|stream| stream.name.is_some()).count();
        let cell =
            self.volumes.iter().map(|volume| volume.extent_mib).sum::<u64>() as f64 / 65_536.0;
        vec![
            format!(
                "counts: {} requests in {} s on {} volumes by {} streams",
                self.requests,
                self.duration_s,
                self.volumes.len(),
                self.streams.len()
            ),
            "sizes, and how operations follow each other, as counts".to_string(),
            format!(
                "when: how many requests come when, and in which order ranges and operations come, for \
                 every {} requests",
                self.parts.iter().map(|part| part.order.each).min().unwrap_or(1)
            ),
            format!(
                "where: how often each range of {:.0} MiB is used, and each cell of {cell:.2} MiB or more \
                 is used first; no offset",
                cell * 65_536.0 / f64::from(1u32 << (2 * self.level))
            ),
            format!("names: {}", if named > 0 { "of volumes and streams" } else { "none" }),
        ]
    }

    /// As JSON text.
    pub fn json(&self) -> String {
        // Numbers, strings and lists always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let places = Places(vec![(0, 44, 1), (90, 0, 8280), (7, 88, 91)]);
        let text = serde_json::to_string(&places).unwrap();
        assert_eq!(serde_json::from_str::<Places>(&text).unwrap(), places);
        assert!(serde_json::from_str::<Places>("\"abc\"").is_err());
    }
}
