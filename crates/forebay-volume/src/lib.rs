//! Volumes: arrays ([`forebay_core::stack::array`]) on real files and devices.
//!
//! A volume is found by the labels of its drives. Whatever is foreign, short, doubled or of another
//! volume is named and nothing is written; too few drives are no volume. A volume is used by one process
//! at a time: its drives are locked.

#![forbid(unsafe_code)]

mod create;
mod error;
mod find;
mod grow;
mod moved;
mod open;

pub use create::{Create, DRIVES_MAX, create};
pub use error::Error;
pub use find::{Found, drives_in, find, find_cached, is_drive};
pub use grow::{grow, replace};
pub use moved::{Moved, Tell};
pub use open::{Opened, Policied, Shape, check, flush, over, status};
