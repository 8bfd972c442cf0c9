//! The workload model among the verbs: `fit`, and models where a trace would do. The model itself is
//! [`forebay_model`].

pub mod fit;
pub mod generate;
pub mod judge;
pub mod open;
