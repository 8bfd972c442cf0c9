//! The contract: requests, and the traits of those who send, schedule, serve and observe them.
//!
//! It imports nothing else from this crate. A [`Policy`] turns requests into I/Os, a [`Device`]
//! serves them, a [`Workload`] sends requests, and an [`Observer`] observes; bytes are named
//! ([`bytes`]) but never stored; every answer contains an outcome ([`outcome`]).

mod bare;
pub mod bytes;
pub mod device;
pub mod near;
pub mod observer;
pub mod outcome;
pub mod parameter;
pub mod policy;
pub mod request;
pub mod spec;
mod sysfs;
pub mod time;
pub mod volume;
pub mod workload;

pub use bare::Bare;
