//! Tests the crate's guarantees through its public interface, with one module per behavior.

#![allow(clippy::unwrap_used)] // tests

mod blktrace;
mod describe_hadoop;
mod describe_reference;
mod describe_threads;
mod events;
mod header;
mod others;
mod parquet;
mod partition;
mod real;
mod round_trip;
mod seeds;
mod suggestions;
mod unfinished;
mod units_grid;
