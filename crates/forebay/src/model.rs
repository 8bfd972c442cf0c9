//! Verbs of the workload model: `fit`, `generate`, and models in place of traces. The model itself
//! is [`forebay_model`].

pub mod fit;
pub mod generate;
pub mod judge;
pub mod open;
