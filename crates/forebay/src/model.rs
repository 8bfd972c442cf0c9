//! The workload model: how alike a trace and its twin are.

pub mod compare;
