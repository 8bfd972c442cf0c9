//! What the crate promises, from outside: one module a behaviour.

#![allow(clippy::unwrap_used)] // tests

mod crash;
mod long;
mod prediction;
mod verbs;
mod wall;
