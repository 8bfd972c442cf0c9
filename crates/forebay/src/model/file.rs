//! The model as a JSON file. Its keys are documented in `docs/model.md`.
//!
//! No key holds an offset of the trace: places are known by shares of the space, in cells of
//! 1/65536 of it.

use serde::{Deserialize, Serialize};

use super::cascade::Split;
use super::families::Gaps;

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
    /// From range to range.
    pub transitions: Vec<Transition>,
    /// How the mix of states drifts, each period a stretch of requests.
    pub periods: Vec<Period>,
    /// Sizes and the like of each category.
    pub categories: Vec<CategoryModel>,
    /// Where new places are: first cell, cells, count.
    pub heat: Vec<(u32, u32, u32)>,
    /// Share of requests that come from the stream of the one before.
    pub stay_share: f64,
}

/// When requests come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// All times are multiples of this.
    pub tick_ns: u64,
    /// Requests of an epoch, but for the last: a power of two.
    pub epoch_requests: u64,
    /// How long each epoch is.
    pub epochs_us: Vec<f64>,
    /// Operations and size classes of each epoch, as a category of the first kind, and counts.
    pub epoch_mixes: Vec<Vec<(u8, u32)>>,
    /// How epochs divide their time.
    pub splits: Vec<Split>,
}

/// What happens in a range, as a list to be short: the range (one digit 0 to 3 a level), operation with
/// kind and size class, requests, and how many requests of the range ago its place was used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State(pub String, pub u8, pub u64, pub Bins);

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
    /// Categories: that of the request before, its own, count, and counts by class of inter-arrival
    /// time.
    pub joint: Vec<Joint>,
}

/// Counts of a pair of categories: before, after, all, by class of inter-arrival time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joint(pub u8, pub u8, pub Vec<u32>);

/// The mix of states over a stretch of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// Number of a state and its requests.
    pub mix: Vec<(u32, u32)>,
}

/// What requests of a category are like wherever they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CategoryModel {
    /// The category.
    pub category: u8,
    /// Bytes, count, and how often the one before in the run or category was as large.
    pub sizes: Vec<(u32, u32, u32)>,
    /// Sequential and near ones: rank among recent ends, counts of those unlike the one before.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub ranks: Bins,
    /// Counts of those of the same rank as the one before.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub rank_repeats: Bins,
    /// Near ones: bins of distance; following ones: how many requests on.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub distances: Bins,
    /// Counts of those as far as the one before, which `distances` leaves out.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub distance_repeats: Bins,
    /// Those of another place's past: how often the size is as it was then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub same_size_share: f64,
    /// How far from the end of the request before, in powers of two of sectors.
    #[serde(default, skip_serializing_if = "Bins::is_empty")]
    pub jumps: Bins,
    /// Sequential ones: how often of the same size class as the request they continue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub same_class_share: f64,
    /// Those of another place's past: how often within it, not at its beginning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inside_share: f64,
    /// New ones: counts by `log2` of the alignment in sectors.
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
            "sizes, their order and how operations follow each other, as counts".to_string(),
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
