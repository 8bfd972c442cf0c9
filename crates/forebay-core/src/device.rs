//! Device models: disks, solid-state drives, servers of constant rate, and failures of any of them.

pub mod drive;
pub mod failing;
pub mod fixed;
pub mod hdd;
pub mod list;
pub mod ssd;
