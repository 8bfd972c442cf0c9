//! Tests the guarantees of the crate from outside, with one module for each behavior.

#![allow(clippy::unwrap_used)] // tests

mod control;
mod flash;
mod reload;
mod serve;
mod volumes;
