//! Tests the crate's guarantees through its public interface, with one module per behavior.

#![allow(clippy::unwrap_used)] // tests

mod validate;
