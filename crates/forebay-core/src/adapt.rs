//! Adaptation: chooses the RAID layout of each unit of an array according to its workload (Jeremic,
//! Parzyjegla, Mühl and Richling, *Towards workload-driven adaptation of data organization in
//! heterogeneous storage systems*).
//!
//! A unit serves each request in its current layout, and may switch *after* the request, at a fixed
//! cost. [`Costs`] contains the costs of requests and switches, a [`Rule`] decides without
//! knowledge of the future, and [`Optimum`] is the minimum possible cost with that knowledge.
//! [`Mix`] generates the paper's workloads, and [`trial()`] compares rules with the optimum on
//! them.
//!
//! A rule's own state is shared by all units of a volume. Its state per unit takes at most 32
//! bytes, because a terabyte has four million units. Besides speed, reliability and capacity can be
//! objectives: see [`Objective`].

mod best;
mod bonus_malus;
mod costs;
mod drive_costs;
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
pub use drive_costs::DriveCosts;
pub use first::First;
pub use never::Never;
pub use objective::Objective;
pub use optimum::{Optimum, optimum, regret};
pub use rule::Rule;
pub use trial::{Trial, trial};
pub use work_function::{WorkFunction, Worked};
pub use workload::{After, Draws, Mix, Within};
