//! What the crate promises, from outside: one module a behaviour.

#![allow(clippy::unwrap_used)] // tests

mod driver;
mod laws;
mod parity;
mod rig;
mod targets;
