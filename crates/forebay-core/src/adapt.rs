//! Adaptation: which RAID layout each unit of an array has, chosen by its own workload
//! (Jeremic, Parzyjegla, Mühl and Richling, *Towards workload-driven adaptation of data organization
//! in heterogeneous storage systems*).
//!
//! A unit serves each request in the layout that it has, and may switch *after* the request, which
//! costs something once. [`Costs`] says what requests and switches cost, a [`Rule`] decides without
//! knowing what comes, [`Optimum`] is the least that anybody could have paid who knew it all.
//! [`Mix`] makes the paper's workloads, and [`trial`] holds rules against the optimum on them.
//!
//! A rule's own state is shared by all units of a volume; what it keeps of one unit is 32 bytes at most, since
//! a terabyte has four million units. Reliability and capacity are objectives beside speed:
//! see [`Objective`].

mod best;
mod bonus_malus;
mod costs;
mod first;
mod never;
mod objective;
mod optimum;
mod rule;
mod trial;
mod work_function;
mod workload;

pub use best::{Best, BestUnit, Simple, Tuning};
pub use bonus_malus::{BonusMalus, Factor, Scored};
pub use costs::{Class, Costs, LAYOUTS_MAX, Layout, RAID6, RAID10};
pub use first::First;
pub use never::Never;
pub use objective::Objective;
pub use optimum::{Optimum, optimum, regret};
pub use rule::Rule;
pub use trial::{Trial, trial};
pub use work_function::{WorkFunction, Worked};
pub use workload::{After, Draws, Mix, Within};
