//! The fitted parameters of the reads or the writes of a solid-state drive.

use crate::closed::Pause;

/// The fitted parameters of one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The shortest interval between two commands, in us.
    pub interval_us: f64,
    /// Whether the bottleneck is behind the flash rather than before it.
    pub behind: bool,
    /// The two latencies, in us.
    pub modes_us: [f64; 2],
    /// The share of I/Os with the first latency.
    pub first_share: f64,
    /// The share of its latency during which an I/O occupies a die.
    pub busy_share: f64,
    /// The number of dies, or of writes that can enter the buffer at the same time.
    pub lanes: u32,
    /// The host's pause between I/Os.
    pub host: Pause,
    /// The lowest depth that was fitted.
    pub depth_least: u32,
}

/// The queue depths assumed for SATA drives and, over several queues, for NVMe drives.
pub(super) const SATA_DEPTH: u16 = 32;
pub(super) const NVME_DEPTH: u16 = 1024;

/// The assumed rate of a flash channel, at which a page takes slightly more than 3 us.
pub(super) const CHANNEL_MB_PER_S: u64 = 1_200;
