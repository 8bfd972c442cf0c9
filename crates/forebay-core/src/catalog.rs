//! Builds policies by name: schedulers, shapers, placements and yardsticks.

mod arrays;
mod placements;
mod schedulers;
mod shapers;
mod yardsticks;

pub use crate::contract::parameter::{Listed, Origin, Parameter};
pub use crate::contract::policy::PolicyVisitor;
pub use crate::elevator::BLOCK_PARAMETERS;
pub use arrays::{ARRAYS, array_ssds, is_array, needs_costs, volume_bytes, with_rules};
pub use placements::{
    DIVERTING, DeviceSet, FlashLane, PLACEMENTS, build_over_array, build_paired, build_placed,
    is_placement, with_placed,
};
pub use schedulers::{POLICIES, build, check, no_policy, with_policy};
pub use shapers::{SHAPER_PARAMETERS, SHAPERS, is_shaper};
pub use yardsticks::{YARDSTICKS, build_measured, is_yardstick, with_measured};
