//! Measures contention: which streams pull the heads away from each other, and how much time that
//! costs.
//!
//! An I/O that follows an I/O of another stream is a *switch*. The seek and the rotational wait of
//! a switch are attributed to the pair of streams; those of all other I/Os are attributed to their
//! own stream.

use std::cmp::Reverse;

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

/// An observer that counts the switches between streams in a run.
#[derive(Clone, Debug, Default)]
pub struct Contention {
    /// For each disk, the stream of its last I/O.
    last_stream: Vec<Option<u32>>,
    /// Switches by pair of streams. The order of this map does not matter, because results are
    /// sorted.
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

/// Two streams that compete for the heads, and the cost of this competition.
#[derive(Clone, Debug, Serialize)]
pub struct Fight {
    /// The name of one of the streams.
    pub stream_a: String,
    /// The name of the other stream.
    pub stream_b: String,
    /// How often the heads moved from one stream to the other.
    pub switches: u64,
    /// The seek and rotational time of these switches, in seconds.
    pub cost_s: f64,
    /// The numbers of the streams in the trace.
    #[serde(skip)]
    pub(crate) numbers: (u32, u32),
}

/// How much time head movement costs, and which streams cause it.
#[derive(Clone, Debug, Serialize)]
pub struct ContentionFigures {
    /// The seek and rotational time of I/Os that follow another stream's, in seconds.
    pub between_streams_s: f64,
    /// The seek and rotational time of I/Os that follow one of their own stream, in seconds.
    pub within_streams_s: f64,
    /// The pairs of streams whose switches cost most, in descending order of cost. Devices without
    /// heads lose no time; their pairs are in descending order of switches.
    pub fights: Vec<Fight>,
}

impl Contention {
    /// Computes the figures, with the `most` costliest pairs of streams; `labels` are the streams'
    /// names.
    pub fn figures(&self, most: usize, labels: &[String]) -> ContentionFigures {
        let label = |stream: u32| stream_label(labels, stream);
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_by_key(|(pair, switches)| (Reverse((switches.cost, switches.count)), **pair));
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
                    numbers: (a, b),
                })
                .collect(),
        }
    }
}
