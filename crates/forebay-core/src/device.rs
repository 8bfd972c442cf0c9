//! Device models: disks, solid-state drives, servers of constant rate, throttled volumes, and
//! failures of any of them.

pub mod drive;
pub mod failing;
pub mod fixed;
pub mod hdd;
pub mod list;
pub mod ssd;
pub mod throttled;
