//! Schedulers for one disk: the block layer, and one file per elevator, which decides the order of
//! requests.
//!
//! The [`BlockLayer`] admits, splits and merges requests; an [`Elevator`] sees only the requests
//! that it has queued.

pub(crate) mod anticipatory;
pub(crate) mod bfq;
pub(crate) mod bid;
mod block;
pub(crate) mod cfq;
pub(crate) mod clook;
pub(crate) mod deadline;
pub(crate) mod forebay;
mod gate;
mod history;
pub(crate) mod kyber;
mod limits;
pub(crate) mod mq_deadline;
pub(crate) mod none;
pub(crate) mod noop;
pub(crate) mod packing;
mod paper;
mod queue;
mod scheduler;
mod seek_order;
mod sorted;
pub(crate) mod sptf;
mod tags;
pub(crate) mod tier_lba;
#[cfg(test)]
pub(crate) mod trial;
mod writeback;

pub use anticipatory::{Anticipatory, AnticipatoryConfig};
pub use bfq::{Bfq, BfqConfig};
pub(crate) use bid::PARAMETERS as BID_PARAMETERS;
pub use bid::{Bid, BidConfig};
pub use block::{BlockLayer, Elevator, bios};
pub use cfq::{Cfq, CfqConfig};
pub use clook::CLook;
pub use deadline::{Deadline, DeadlineConfig};
pub use forebay::{Forebay, ForebayConfig};
use gate::{Gate, Held, Place, RequestKind};
use history::ThinkTime;
pub use kyber::Kyber;
pub use limits::{BLOCK_PARAMETERS, Limits, Waiting};
use limits::{SATA_TAGS, SERVED};
pub use mq_deadline::MqDeadline;
pub use none::NoScheduler;
pub use noop::Noop;
use packing::Packing;
pub use paper::{PaperCfq, PaperDeadline};
pub use queue::{List, Queue, Queued, QueuedId};
use queue::{NIL, Owner, Part, fits};
pub use scheduler::{ElevatorVisitor, Scheduler};
use seek_order::{BackSeek, SeekOrder};
use sorted::Sorted;
pub use sptf::Sptf;
use tags::Tags;
use writeback::Writeback;
