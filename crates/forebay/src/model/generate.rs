//! Traces from models.

pub mod verb;
