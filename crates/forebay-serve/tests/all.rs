//! What the crate promises, from outside: one module a behaviour.

#![allow(clippy::unwrap_used)] // tests

mod flash;
mod serve;
mod volumes;
