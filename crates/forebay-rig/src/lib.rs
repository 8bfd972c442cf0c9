//! Shared parts of tests of the data path: disks whose power can be cut ([`Medium`], driven by
//! [`Crash`]), clients of the network block device ([`nbd`]) and of the store ([`redis`]), folders
//! with files that represent disks ([`Folder`]), and waiting ([`wait_until`]).

// This crate is used only in tests.
#![allow(clippy::unwrap_used)]

mod crash;
mod folder;
mod medium;
pub mod nbd;
mod patience;
pub mod redis;

pub use crash::{Crash, Lie, Troubles};
pub use folder::{Folder, holes};
pub use medium::{Medium, SECTOR, Tear};
pub use patience::{PATIENCE, is_of_a_busy_machine, one_succeeds, wait_until, wait_until_free};
