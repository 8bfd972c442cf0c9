//! Counts what is lost in formats that contain only basic requests: streams, latencies and flags.

use crate::{Dictionary, Record};
use forebay_words::plural::counted;

/// The number of requests that lose each property.
#[derive(Default)]
pub(super) struct LossCounts {
    latencies: u64,
    flags: u64,
}

impl LossCounts {
    /// Counts the properties that a request loses.
    pub(super) fn count(&mut self, r: &Record) {
        self.latencies += u64::from(r.latency.is_some());
        self.flags += u64::from(r.flags.0 != 0);
    }

    /// Returns a sentence for each kind of loss.
    pub(super) fn sentences(&self, dictionary: &Dictionary) -> Vec<String> {
        let mut lost = Vec::new();
        let streams = dictionary.streams.len();
        if streams > 1 || dictionary.streams.iter().any(|s| *s != Default::default()) {
            let streams = counted(streams as u64, "stream");
            lost.push(format!("the submitters of requests ({streams}) are lost"));
        }
        if self.latencies > 0 {
            lost.push(format!("the latencies of {} are lost", counted(self.latencies, "request")));
        }
        if self.flags > 0 {
            lost.push(format!("the flags of {} are lost", counted(self.flags, "request")));
        }
        lost
    }
}
