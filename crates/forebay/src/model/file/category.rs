//! What requests of a category are like wherever they are.

use serde::{Deserialize, Serialize};

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
