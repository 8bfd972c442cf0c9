//! Forebay's core: requests, the policies that schedule them, the devices that serve them, and
//! virtual time.
//!
//! *A policy turns requests into I/Os; a driver gives it time.* Everything here is a pure state
//! machine: no clock, no I/O, no threads, no dependencies, no unseeded randomness. The same
//! policies run in virtual time ([`simulate`]) and, through another crate, in wall time.
//!
//! Each layer imports only those before it: [`contract`]; slabs, indices and the bookkeeping of
//! client requests; [`elevator`], [`shape`], [`cache`] and [`device`], which are independent of
//! each other; [`stack`]; [`catalog`]. [`simulate`] and [`replay`] depend only on the contract.
//! [`laws`] checks any policy.

#![forbid(unsafe_code)]

pub mod adapt;
pub mod arrange;
pub mod cache;
pub mod catalog;
pub mod contract;
pub mod device;
pub mod elevator;
mod index;
pub mod laws;
mod outstanding;
pub mod random;
pub mod rearrangement;
pub mod replay;
pub mod rtt;
pub mod shape;
pub mod simulate;
pub mod slab;
pub mod stack;
pub mod tape;

pub use contract::bytes::{Buf, Bytes, Null, Piece, Slots};
pub use contract::device::{Completion, Device, Mechanics, Positioning, WriteBack};
pub use contract::observer::Observer;
pub use contract::outcome::{Fault, Outcome, worst};
pub use contract::policy::{Cx, Done, Finished, Policy};
pub use contract::request::{BACKGROUND, Flags, Lane, Op, Request, RequestId};
pub use contract::spec::{Spec, SpecError};
pub use contract::time::Nanos;
pub use contract::workload::Workload;
pub use device::list::DeviceModel;
pub use rearrangement::Rearrangement;
