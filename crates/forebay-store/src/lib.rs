//! A key-value store on several plain disks, each of which does one thing at a time (Workload
//! Shifting, Pan, Yue and Xiong).
//!
//! Puts are appended to the log of one disk. When the log is long enough, the duty of accepting
//! puts passes to another disk, and the finished log is converted to a sorted segment on an idle
//! disk. Runs of segments are merged while disks are idle. Incoming data therefore never competes
//! with reorganization. A put is durable before it is acknowledged. There is no redundancy: losing
//! a disk loses its data.
//!
//! The engine accepts operations and issues I/Os without using threads, files or clocks: it is a
//! policy of the core's contract. The live driver runs it on files and devices; other drivers run
//! it in virtual time on models of disks with content, and on lanes that simulate power cuts.

#![forbid(unsafe_code)]

mod advice;
mod arrangement;
mod batch;
mod config;
mod disks;
mod engine;
mod executor;
mod filter;
mod frame;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod inplace;
mod layout;
mod load;
mod operation;
mod policy;
mod prediction;
mod record;
mod root;
mod segment;
mod server;
mod simulate;
mod simulated;
mod space;
mod store;
mod summary;

pub use config::{Config, InPlace, Transformation, Tree, TreeSync};
pub use disks::{
    DISKS_MAX, DISKS_MIN, DiskOptions, Disks, Spare, StoreError, create, find, is_among, open_disks,
};
pub use engine::{DiskHealth, Figures, Stage, StageChange};
pub use layout::Layout;
pub use load::{Keys, Load};
pub use operation::{Answer, Checked, Loss, Operation, OperationError, Page, PutSpan};
pub use policy::{Desk, StorePolicy, View};
pub use prediction::{Predicted, predict};
pub use record::{KEY_MAX, Key, VALUE_MAX, Value};
pub use server::{Limits, Server};
pub use simulate::StoreSimulateAsk;
pub use simulated::{Simulated, simulate};
pub use store::{AnswerCallback, OperationResult, Records, Snapshot, Status, Store};
