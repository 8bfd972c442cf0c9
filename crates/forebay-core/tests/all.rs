//! Tests of the crate's guarantees through its public interface, one module per behavior.

#![allow(clippy::unwrap_used)] // tests

mod adaptation;
mod allocations;
mod block_laws;
mod device_laws;
mod devices;
mod golden;
mod idling;
mod laws;
#[path = "../benches/load/mod.rs"]
mod load;
mod reference;
mod shaping;
mod streams;
mod worked_example;
