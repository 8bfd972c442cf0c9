//! The contract: what a request is, who decides about it, who serves it, who asks and who watches.
//!
//! It imports nothing of the house. A [`Policy`] turns requests into I/Os, a [`Device`] serves them, a
//! [`Workload`] asks, an [`Observer`] watches; bytes are named ([`bytes`]), never held; every answer
//! says what came of it ([`outcome`]).

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
pub mod time;
pub mod workload;

pub use bare::Bare;
