//! The model as a JSON file. Its keys are documented in `docs/model.md`.
//!
//! No key holds an offset of the trace: places are known by shares of the space, in cells of
//! 1/65536 of it.

mod arrivals;
mod category;
mod order;
mod phrases;
mod states;

use serde::{Deserialize, Serialize};

use crate::quantities::counted;

pub use arrivals::{Arrivals, Periods, Scales};
pub use category::{Bins, CategoryModel};
pub use order::{Mix, Order, WRITTEN_MAX, written_len};
pub use states::{Joint, Places, State, Transition};

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

    /// When its first request comes.
    pub fn begin_ns(&self) -> u64 {
        (self.begin_s * 1e9).round() as u64
    }

    /// When its last request comes.
    pub fn end_ns(&self) -> u64 {
        match &self.arrivals {
            Arrivals::Scales(scales) => {
                let epochs = scales.epochs_us.iter().map(|us| (us * 1e3).round() as u64);
                epochs.fold(self.begin_ns(), u64::saturating_add)
            }
            Arrivals::Periods(periods) => (periods.end_s * 1e9).round() as u64,
        }
    }
}

impl Model {
    /// What somebody who has the model knows of the trace, one sentence each.
    pub fn reveals(&self) -> Vec<String> {
        let named = self.volumes.iter().filter(|volume| volume.name.is_some()).count()
            + self.streams.iter().filter(|stream| stream.name.is_some()).count();
        let span_mib = self.volumes.iter().map(|volume| volume.extent_mib).sum::<u64>();
        let range = binary(span_mib as f64 * f64::from(1 << 20) / 4f64.powi(self.level.into()));
        let cell = binary((span_mib as f64 * 16.0).max(f64::from(1 << 20)));
        let each = self.parts.iter().map(|part| part.order.each).min().unwrap_or(1);
        let order = if self.parts.iter().any(|part| part.order.of_places) {
            "and, request by request, in which range which operation uses new ground, or which was \
             used how long ago, about how far away"
                .to_string()
        } else {
            format!("and which ranges and operations come in each {}", counted(each, "request"))
        };
        vec![
            format!(
                "counts: {} in {} s, how many by each of {}, on {}",
                counted(self.requests, "request"),
                self.duration_s,
                counted(self.streams.len() as u64, "stream"),
                counted(self.volumes.len() as u64, "volume")
            ),
            "sizes, and how operations follow each other, as counts".to_string(),
            format!("when: how many requests come when, {order}"),
            format!(
                "where: how far volumes are used, to a MiB; how often each range of {range} is used, and \
                 each cell of {cell} or more is used first; no offset"
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

/// Bytes in the largest unit of which there is at least one.
fn binary(bytes: f64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1)];
    let (unit, worth) = units.into_iter().find(|unit| bytes >= unit.1 as f64).unwrap_or(units[3]);
    let count = bytes / worth as f64;
    let places = if count < 10.0 && worth > 1 { 2 } else { 0 };
    format!("{count:.places$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::binary;

    #[test]
    fn sizes_are_told_in_a_unit_that_shows_them() {
        let told = [5.0, 16.0, 1536.0, 371_195.0, 1.5e9, 1e14].map(binary);
        assert_eq!(told, ["5 bytes", "16 bytes", "1.50 KiB", "362 KiB", "1.40 GiB", "93132 GiB"]);
    }
}
