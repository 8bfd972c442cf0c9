//! The verbs of the workload model, `fit` and `generate`, and reading models in place of traces.
//! The model itself is in [`forebay_model`].

pub mod fit;
pub mod generate;
pub mod judge;
pub mod open;
