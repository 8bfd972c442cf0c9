//! Contention: which streams pull the heads away from each other, and what that costs.
//!
//! An I/O whose head movement follows an I/O of another stream is a *switch*; its seek and
//! rotational wait are attributed to the pair of streams. Movement within a stream is attributed to
//! the stream.

use forebay_core::{BACKGROUND, Completion, Nanos, Observer};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Returns the name of `stream`, given the names of all streams.
pub(crate) fn stream_label(labels: &[String], stream: u32) -> String {
    match labels.get(stream as usize) {
        _ if stream == BACKGROUND => "(background)".to_string(),
        Some(label) => label.clone(),
        None => stream.to_string(),
    }
}

/// Observes the I/Os of a run.
#[derive(Clone, Debug, Default)]
pub struct Contention {
    /// The last stream of each disk.
    last_stream: Vec<Option<u32>>,
    /// Results are sorted, so the order of the map does not matter.
    pairs: FxHashMap<(u32, u32), Switches>,
    within: Nanos,
    between: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct Switches {
    count: u64,
    cost: Nanos,
}

impl Observer for Contention {
    fn io(&mut self, completion: &Completion) {
        let (io, mechanics) = (&completion.io, &completion.mechanics);
        if !io.op.moves_data() {
            return;
        }
        let cost = mechanics.seek + mechanics.rotation;
        let lane = usize::from(io.lane);
        if lane >= self.last_stream.len() {
            self.last_stream.resize(lane + 1, None);
        }
        match self.last_stream[lane].replace(io.stream) {
            Some(last) if last != io.stream => {
                self.between += cost;
                let pair = (last.min(io.stream), last.max(io.stream));
                let switches = self.pairs.entry(pair).or_default();
                switches.count += 1;
                switches.cost += cost;
            }
            _ => self.within += cost,
        }
    }
}

/// Two streams that compete for the heads.
#[derive(Clone, Debug, Serialize)]
pub struct Fight {
    /// One of the streams.
    pub stream_a: String,
    /// The other stream.
    pub stream_b: String,
    /// The number of times that the heads moved from one to the other.
    pub switches: u64,
    /// The seek and rotational time of these switches.
    pub cost_s: f64,
}

/// The cost of head movement and the streams that cause it.
#[derive(Clone, Debug, Serialize)]
pub struct ContentionFigures {
    /// Seek and rotational time when the disk switched between streams.
    pub between_streams_s: f64,
    /// Seek and rotational time within a stream.
    pub within_streams_s: f64,
    /// The costliest pairs, in descending order of cost.
    pub fights: Vec<Fight>,
}

impl Contention {
    /// Computes the figures, with the `most` costliest pairs; `labels` names the streams.
    pub fn figures(&self, most: usize, labels: &[String]) -> ContentionFigures {
        let label = |stream: u32| stream_label(labels, stream);
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_by_key(|(pair, switches)| (std::cmp::Reverse(switches.cost), **pair));
        ContentionFigures {
            between_streams_s: self.between.as_secs_f64(),
            within_streams_s: self.within.as_secs_f64(),
            fights: pairs
                .into_iter()
                .take(most)
                .map(|(&(a, b), switches)| Fight {
                    stream_a: label(a),
                    stream_b: label(b),
                    switches: switches.count,
                    cost_s: switches.cost.as_secs_f64(),
                })
                .collect(),
        }
    }
}
