//! The parts of Forebay that act on the running machine, in wall time.
//!
//! [`run()`] is the live driver: it runs any policy of the core between a workload and real files
//! and devices ([`Uring`], [`Threads`]) or emulated ones ([`Emulated`]). [`capture`] supports only
//! the kernel's own records; pass its spool to a reader of blktrace to get a trace. Lanes that are
//! [`SocketLanes`] also wait for clients' sockets.

#![deny(unsafe_code)]

pub mod aio;
pub mod capture;
mod clock;
mod cpu;
mod driver;
mod emulated;
pub mod galois;
mod held_up;
mod inherited;
mod lanes;
mod lent;
mod memory;
mod page_cache;
mod patterned;
mod polled;
mod pool;
mod priority;
mod ring;
mod run;
mod socket_clock;
mod sockets;
mod store;
mod striped;
mod target;
mod threads;
pub mod ublk;
mod uring;
mod vectored;
mod waker;
mod wire;

pub use clock::{Clock, Punctual, VirtualClock, WallClock};
pub use cpu::CpuTime;
pub use driver::Driver;
pub use emulated::Emulated;
pub use inherited::inherited_sockets;
pub use lanes::{Ended, Failure, Lanes};
pub use memory::Memory;
pub use patterned::Patterned;
pub use pool::{Pool, checksum, entry_of};
pub use run::{Watch, run};
pub use socket_clock::SocketClock;
pub use sockets::{PIECES_MAX, Plug, SocketEvent, SocketLanes};
pub use store::{PAGE, Page, Sparse, Store, pages};
pub use striped::Striped;
pub use target::{DeviceNumber, Target, TargetError, TargetKind, TargetOptions};
pub use threads::Threads;
pub use uring::Uring;
pub use waker::Waker;
pub use wire::{LEN_MAX, payload};
