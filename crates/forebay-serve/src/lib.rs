//! The verb `serve`: a network block device (NBD) server with Forebay's policies in the I/O path.
//!
//! Clients' requests are a workload of the live driver: they are accepted as they arrive and
//! answered when they are finished. Sockets and disks share one ring, on one thread for each back.
//! The policies are those of the simulator.
//!
//! From client to disk: [`mod@address`] and [`listen`] accept clients, `handshake` negotiates an
//! export, `front` converts the input to requests, `drive` presents them to the driver, and `back`
//! contains the targets.

#![forbid(unsafe_code)]

mod address;
mod attach;
mod back;
mod broken;
mod check;
mod check_labels;
mod config;
mod connection;
pub mod control;
mod devices;
mod drain;
mod drive;
mod driver;
mod error;
mod export;
pub mod figures;
pub mod file;
mod flash;
mod front;
mod grown;
mod handshake;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod journal;
mod kernel_scheduler;
mod lanes;
#[cfg(test)]
mod laws;
mod listen;
mod mark;
mod marking;
mod opening;
mod outputs;
mod outstanding_ios;
mod paired;
mod pairing;
mod protocol;
mod rearrange;
mod record;
mod request_memory;
mod reread;
mod running;
mod server;
mod stored;
mod switching;
mod tally;
mod traced;
mod traces;
mod volume;

pub use address::{Address, address};
pub use attach::{Attach, AttachEvent, Attached};
pub use config::{Back, Blocks, Config, Named, On, Promise, Scrub, SocketAccess};
pub use devices::detach;
pub use error::Error;
pub use export::Export;
pub use front::Streams;
pub use reread::Reloaded;
pub use server::Server;
pub use volume::{ServedDrive, ServedDriveState, ServedVolume, VolumeHealth};
