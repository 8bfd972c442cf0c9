//! Volumes: arrays ([`forebay_core::stack::array`]) on real files and devices.
//!
//! A volume is found by the labels of its drives. A drive that is foreign, too short or part of
//! another volume counts as missing and is reported. With too few drives, nothing is opened or
//! written. A volume is used by one process at a time: its drives are locked.

#![forbid(unsafe_code)]

mod copies;
mod create;
mod error;
mod find;
mod grow;
mod joining;
#[cfg(test)]
mod killing;
mod labels;
mod moved;
mod online;
mod open;
mod remove;
mod signatures;
#[cfg(test)]
mod testing;
mod used;

pub use create::{Create, DRIVES_MAX, create};
pub use error::Error;
pub use find::{FoundVolume, NonMember, drives_in, find, find_cached, is_drive};
pub use grow::{grow, replace};
pub use moved::{Moved, Tell, untold};
pub use online::{Successor, admit, label, mend_labels, prepare};
pub use open::{Opened, Policied, Shape, check, flush, over, status};
pub use remove::remove;
