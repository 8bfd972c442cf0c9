//! The figures of a solid-state drive.

use super::ftl::{Collection, RESERVE_BLOCKS, Shape};
use super::modes::Modes;
use crate::contract::spec::SpecError;
use crate::contract::time::Nanos;

/// Watts of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Power {
    /// Ready, without work.
    pub idle_w: f64,
    /// With every die reading.
    pub read_w: f64,
    /// With every die programming or erasing.
    pub write_w: f64,
}

/// What happened to the drive before the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precondition {
    /// Share of the logical capacity that holds data, written in order from the start.
    pub filled_share: f64,
    /// The number of random page writes after that, as a share of the filled pages.
    pub overwrites_share: f64,
    /// The seed of these writes.
    pub seed: u64,
}

impl Default for Precondition {
    /// Full, in order.
    fn default() -> Precondition {
        Precondition { filled_share: 1.0, overwrites_share: 0.0, seed: 1 }
    }
}

/// Where commands pass one at a time, which limits their rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ceiling {
    /// Before the flash, when a command arrives.
    #[default]
    Arrival,
    /// After the flash, when a command completes.
    Completion,
}

/// How the write buffer accepts writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Entrance {
    /// The time of an entrance.
    pub times: Modes,
    /// The number of writes that can enter at a time.
    pub lanes: u32,
}

/// All figures of a solid-state drive.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdSpec {
    /// Bytes the host sees; rounded down to whole pages.
    pub capacity_bytes: u64,
    /// Bytes in a page, the unit of mapping.
    pub page_bytes: u32,
    /// Pages a die programs at once, and reads at once (planes and cells taken together).
    pub program_pages: u32,
    /// Pages in an erase block; a multiple of `program_pages`.
    pub pages_per_block: u32,
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Flash beyond the logical capacity, as a share of the logical capacity.
    pub over_provisioning_share: f64,
    /// Reading a page into a die's register, by the kind of page.
    pub read: Modes,
    /// Programming `program_pages`.
    pub program: Nanos,
    /// Erasing a block.
    pub erase: Nanos,
    /// Rate of a channel.
    pub channel_bytes_per_s: u64,
    /// Rate of the host's link.
    pub link_bytes_per_s: u64,
    /// Whether the link carries both directions at once.
    pub duplex: bool,
    /// How long a command occupies the controller: the reciprocal of the most commands a second.
    pub command: Nanos,
    /// Where the rate limit applies.
    pub ceiling: Ceiling,
    /// The time that a write takes.
    pub write_command: Nanos,
    /// Where a write does.
    pub write_ceiling: Ceiling,
    /// The overhead of a command before its data is transferred.
    pub overhead: Nanos,
    /// How a write gets into the buffer, if that takes more than the link.
    pub entrance: Option<Entrance>,
    /// Bytes of writes the buffer holds.
    pub write_buffer_bytes: u64,
    /// Bytes of what was read or written last that are read without the flash; 0 for none.
    pub read_cache_bytes: u64,
    /// Whether the buffer survives a loss of power, so that Flush and FUA cost nothing.
    pub power_loss_protection: bool,
    /// Commands served at a time, over all submission queues.
    pub queue_depth: u16,
    /// How garbage is collected.
    pub collection: Collection,
    /// What happened before.
    pub precondition: Precondition,
    /// The longest command, bytes.
    pub len_max: u32,
    /// Watts by state.
    pub power: Power,
}

/// Pages that preconditioning overwrites at most: minutes.
const OVERWRITES_MAX: f64 = 1e9;

/// No figure in time is longer: one second.
const LONGEST: u64 = 1_000_000_000;

impl SsdSpec {
    /// Dies in all.
    pub fn dies(&self) -> u32 {
        self.channels.saturating_mul(self.dies_per_channel)
    }

    /// Pages the host sees.
    pub(super) fn logical_pages(&self) -> u32 {
        (self.capacity_bytes / u64::from(self.page_bytes)).min(u32::MAX.into()) as u32
    }

    pub(super) fn filled_pages(&self) -> u32 {
        (f64::from(self.logical_pages()) * self.precondition.filled_share).round() as u32
    }

    /// Sizes of the flash. The logical capacity and what it is over-provisioned by, in whole blocks
    /// on each die.
    pub(super) fn shape(&self) -> Result<Shape, SpecError> {
        let logical = f64::from(self.logical_pages());
        let physical = logical * (1.0 + self.over_provisioning_share);
        let per_die = physical / f64::from(self.dies().max(1));
        let blocks_per_die = (per_die / f64::from(self.pages_per_block.max(1))).ceil();
        Ok(Shape {
            logical_pages: self.logical_pages(),
            dies: self.dies(),
            blocks_per_die: blocks_per_die as u32,
            pages_per_block: self.pages_per_block,
            stripe_pages: self.program_pages,
        })
    }

    /// Returns a drive of about `capacity_bytes` that behaves alike: of each die's blocks the same
    /// share is spare beyond those that it always keeps back, which do not shrink with the drive.
    /// The capacity is the nearest that takes whole blocks of each die, one at least.
    pub fn resized(&self, capacity_bytes: u64) -> SsdSpec {
        let block_bytes = f64::from(self.pages_per_block) * f64::from(self.page_bytes);
        let row_bytes = f64::from(self.dies()) * block_bytes;
        let whole = self.capacity_bytes as f64 / row_bytes;
        // The two blocks being filled are half full on average.
        let kept = RESERVE_BLOCKS as f64 + 1.0;
        let spare = whole * self.over_provisioning_share - kept;
        if !(spare > 0.0 && row_bytes > 0.0) {
            return SsdSpec { capacity_bytes, ..self.clone() };
        }
        let with_spare = 1.0 + spare / whole;
        let blocks = (capacity_bytes as f64 / row_bytes * with_spare).round().max(1.0);
        let full = blocks / with_spare;
        // A little less than a whole number of blocks, which rounding up makes whole.
        let over_provisioning_share = (blocks + kept - 1e-3) / full - 1.0;
        let capacity_bytes = (full * row_bytes).round() as u64;
        SsdSpec { capacity_bytes, over_provisioning_share, ..self.clone() }
    }

    /// Fails on the first figure that makes no sense.
    pub fn check(&self) -> Result<(), SpecError> {
        let refuse = |what: &str, got: String, expected: &str| {
            Err(SpecError(format!("{what}: got {got}, expected {expected}")))
        };
        if self.page_bytes < 512 || !self.page_bytes.is_multiple_of(512) {
            return refuse("page", self.page_bytes.to_string(), "a multiple of 512 bytes");
        }
        let capacity = self.capacity_bytes;
        if capacity / u64::from(self.page_bytes) >= u64::from(u32::MAX) {
            return refuse("capacity", format!("{capacity} bytes"), "fewer than 2^32 pages");
        }
        for (what, count) in [
            ("program pages", self.program_pages),
            ("pages per block", self.pages_per_block),
            ("channels", self.channels),
            ("dies per channel", self.dies_per_channel),
            ("queue depth", self.queue_depth.into()),
        ] {
            if !(1..=1 << 16).contains(&count) {
                return refuse(what, count.to_string(), "1 to 65536");
            }
        }
        self.read.check("read")?;
        if let Some(Entrance { times, lanes }) = &self.entrance {
            times.check("entrance")?;
            if !(1..=1 << 10).contains(lanes) {
                return refuse("entrance", format!("{lanes} lanes"), "1 to 1024");
            }
        }
        for (what, time, least) in [
            ("program", self.program, 1),
            ("erase", self.erase, 0),
            ("command", self.command, 0),
            ("command of a write", self.write_command, 0),
            ("overhead", self.overhead, 0),
        ] {
            if !(least..=LONGEST).contains(&time.0) {
                return refuse(
                    what,
                    format!("{} ns", time.0),
                    "more than 0 and at most one second",
                );
            }
        }
        for (what, rate) in
            [("channel rate", self.channel_bytes_per_s), ("link rate", self.link_bytes_per_s)]
        {
            if !(1_000_000..=1_000_000_000_000).contains(&rate) {
                return refuse(what, format!("{rate} bytes/s"), "1e6 to 1e12 bytes/s");
            }
        }
        let Power { idle_w, read_w, write_w } = self.power;
        let Precondition { filled_share, overwrites_share, .. } = self.precondition;
        for (what, value, most) in [
            ("idle power", idle_w, 1e4),
            ("read power", read_w, 1e4),
            ("write power", write_w, 1e4),
            ("over-provisioning", self.over_provisioning_share, 100.0),
            ("filled share", filled_share, 1.0),
            ("overwrites share", overwrites_share, 100.0),
        ] {
            if !(0.0..=most).contains(&value) {
                return refuse(what, value.to_string(), &format!("0 to {most}"));
            }
        }
        if self.write_buffer_bytes > 1 << 32 {
            let got = format!("{} bytes", self.write_buffer_bytes);
            return refuse("write buffer", got, "4 GiB at most");
        }
        if self.read_cache_bytes > 1 << 36 {
            let got = format!("{} bytes", self.read_cache_bytes);
            return refuse("read cache", got, "64 GiB at most");
        }
        if capacity < u64::from(self.page_bytes) {
            return refuse("capacity", format!("{capacity} bytes"), "a page or more");
        }
        let overwritten = f64::from(self.filled_pages()) * overwrites_share;
        if overwritten > OVERWRITES_MAX {
            let got = format!("{overwritten:.0} pages in all");
            return refuse("overwrites", got, "at most 1e9; a smaller drive behaves similarly");
        }
        if self.len_max < self.page_bytes {
            return refuse("longest command", self.len_max.to_string(), "a page or more");
        }
        Ok(())
    }
}
