//! Tests of the crate's public behavior, one module per behavior.

#![allow(clippy::unwrap_used)] // tests

mod advise;
mod compare;
mod defragment;
mod golden;
mod pages;
mod policies_picture;
mod replays;
mod shaping;
mod verbs;
