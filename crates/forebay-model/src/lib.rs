//! A small generative model of a storage workload: fitted on a trace, kept as a file of some 10 to 40 KiB, drawn from
//! as a trace is read.
//!
//! Source: the storage workload model of the paper in `papers/model`: ranges of the disk are states of a
//! hierarchical chain, and transitions between them have features. Departures: a state also has a class, its
//! operation, size and how its place came about; what makes disks and caches fast or slow is kept by mechanisms
//! of its own, one a module: recent ends that are gone on from ([`places`], `trail`), how long ago
//! ground was used, arrivals at every scale (`arrivals`), lengths (`sizes`). Each can be switched off
//! ([`generate::Mechanism`]), to see what it is worth.
//!
//! A model holds counts and is no copy: which request follows which is drawn.

#![forbid(unsafe_code)]

mod address;
mod arrivals;
mod bins;
mod bytes;
mod chain;
mod class;
mod coarsen;
mod counts;
mod dice;
mod ends;
pub mod file;
pub mod fit;
pub mod generate;
mod ground;
mod model;
mod parts;
mod past;
mod places;
mod sizes;
mod space;
mod submitters;
mod trail;

pub use coarsen::BUDGET_BYTES;
pub use model::Model;
pub use space::{LEVEL_MAX, USED_MIB_MAX, Volume, Volumes};
pub use submitters::Submitter;
