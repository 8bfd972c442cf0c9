//! What the crate promises, from outside: one module a behaviour.

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
