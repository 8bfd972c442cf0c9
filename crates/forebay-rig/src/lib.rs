//! What tests of the data path share: disks whose power can be cut ([`Medium`], driven by [`Crash`]), and a client of the
//! network block device ([`nbd`]).

// Tests.
#![allow(clippy::unwrap_used)]

mod crash;
mod medium;
pub mod nbd;

pub use crash::{Crash, Lie, Troubles};
pub use medium::{Medium, SECTOR, Tear};
