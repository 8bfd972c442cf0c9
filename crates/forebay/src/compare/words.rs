//! Features for readers: their names in words and their figures with units. What stands behind a colon names one of several.

use forebay_trace::quantities::{self, named, percent};

use super::card::Feature;

impl Feature {
    /// What it is, in words: "mean size", "requests of 4 KiB", "requests of write-back", "requests in part 3/16".
    pub fn words(&self) -> String {
        match self.name.split_once(':') {
            Some(("size_share", size)) => {
                let bytes = size.strip_suffix("_bytes").and_then(|bytes| bytes.parse().ok());
                format!("requests of {}", bytes.map_or(size.to_string(), quantities::bytes))
            }
            Some(("stream_weight", stream)) => format!("requests of {stream}"),
            Some(("state_weight", part)) => format!("requests in part {part}"),
            _ => quantities::words(&self.name),
        }
    }

    /// How much it is where it is `value`.
    pub fn shown(&self, value: f64) -> String {
        match self.name.contains(':') || self.name.contains("_share") {
            true => percent(value),
            false => named(&self.name, value).1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{DeviationKind, Quantity};

    #[test]
    fn keys_are_told_as_words_and_values_with_units() {
        for (key, words, value, shown) in [
            ("mean_size_bytes", "mean size", 307_615.0, "300 KiB"),
            ("size_share:4096_bytes", "requests of 4 KiB", 0.065_28, "6.53 %"),
            ("sequential_share_by_stream", "sequential share by stream", 0.649_7, "65.0 %"),
            ("mean_inter_arrival_ms", "mean inter arrival", 5.186, "5.19 ms"),
            ("stream_weight:a_b", "requests of a_b", 0.1, "10.0 %"),
            ("stream_weight:a:b_bytes", "requests of a:b_bytes", 0.1, "10.0 %"),
            ("state_weight:1/16", "requests in part 1/16", 0.0, "0 %"),
        ] {
            let feature = Feature {
                name: key.into(),
                deviation_kind: DeviationKind::Points,
                quantity: Quantity { a: 0.0, b: 0.0, deviation: None, a_low: 0.0, a_high: 0.0 },
            };
            assert_eq!((feature.words().as_str(), feature.shown(value).as_str()), (words, shown));
        }
    }
}
