//! Tests the command as users run it: each test starts the real binary.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // tests

mod arguments;
mod bad_input;
mod capture;
mod command;
mod compare;
mod convert;
mod dependencies;
mod device;
mod documents;
mod examples;
mod guide;
mod install;
mod kept;
mod killed;
mod limited;
mod memory;
mod model;
mod parameters;
mod plan;
mod plan_buy;
mod play;
mod probe;
mod refusals;
mod reports;
mod schema;
mod serve;
mod serve_config;
mod serve_denied;
mod serve_devices;
mod serve_ends;
mod serve_filesystem;
mod serve_goes_on;
mod serve_hostile;
mod serve_rearranged;
mod served;
mod shell;
mod signals;
mod simulate;
mod simulate_served;
mod stdin;
mod store;
mod store_bench;
mod store_server;
mod terminal;
mod threads;
mod usage;
mod volume;
mod volume_served;
