//! The layers above the schedulers: placements, which decide which device stores which data, and
//! combinations of policies.
//!
//! [`placed`] puts a placement above policies and does the bookkeeping. The other modules are
//! placements, or combine policies without one.

pub mod array;
pub mod blocks;
pub mod cached;
mod link;
mod per_disk;
pub mod placed;
pub(crate) mod placement_log;
pub mod rearranged;
pub mod served;
pub(crate) mod tier;

pub use blocks::Blocks;
pub(crate) use link::Link;
pub(crate) use per_disk::PerDisk;
pub use placement_log::VERSION as PLACEMENT_LOG_VERSION;
pub use placement_log::{
    FlashLabel, LABEL_BYTES, LabelFound, Pairing, found_label, put_generation,
};
pub use rearranged::{Rearrange, Rearranged};
pub use served::Served;
