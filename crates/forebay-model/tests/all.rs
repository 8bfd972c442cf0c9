//! Tests of the crate's guarantees through its public interface, one module per behavior.

#![allow(clippy::unwrap_used)] // tests

mod model;
