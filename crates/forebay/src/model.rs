//! The workload model: a small file that stands for a trace, and traces drawn from it.
//!
//! Source: the storage workload model of the paper in `papers/model`: ranges of the disk as states of
//! a hierarchical chain, each transition with its share, sizes, direction, sequentiality and
//! inter-arrival times. Departures: ranges split further where requests are (`leaf_ranges`); what a means-only
//! chain misses is fitted beside it: the envelope and burstiness of arrivals at every scale (`cascade`),
//! re-references (`history`) and in which order states come (`file::Order`).

pub mod base91;
pub mod bins;
pub mod cascade;
pub mod check;
pub mod compare;
pub mod families;
pub mod file;
pub mod fit;
pub mod generate;
pub mod history;
pub mod leaf_ranges;
pub mod level;
pub mod open;
pub mod relative_place;
pub mod space;
pub mod state;
