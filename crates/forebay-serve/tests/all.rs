//! What the crate promises, from outside: one module a behaviour.

#![allow(clippy::unwrap_used)] // tests

mod client;
mod flash;
mod serve;
mod volumes;
