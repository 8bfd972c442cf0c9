//! A small generative model of a storage workload. It is fitted to a trace, stored in a file of
//! about 10 to 40 KiB, and read like a trace.
//!
//! Based on the storage workload model of the paper in `papers/model`, in which ranges of the disk
//! are states of a hierarchical Markov chain, and transitions between them have features. There are
//! two differences. A state also has a class: operation, length, and how its place relates to
//! earlier requests. And what makes disks and caches fast or slow is reproduced by separate
//! mechanisms, each in a module: recent ends that requests continue ([`places`], `trail`), how long
//! ago blocks were last used, arrivals at every scale (`arrivals`), and lengths (`sizes`). Each can
//! be switched off to measure its effect ([`generate::Mechanism`]).
//!
//! A model holds counts and is not a copy of the trace: the order of requests is drawn at random.

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
