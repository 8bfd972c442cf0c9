//! What the crate promises, from outside: one module a behaviour.

#![allow(clippy::unwrap_used)] // tests

mod blktrace;
mod describe_hadoop;
mod describe_reference;
mod describe_threads;
mod header;
mod others;
mod parquet;
mod partition;
mod real;
mod round_trip;
mod seeds;
