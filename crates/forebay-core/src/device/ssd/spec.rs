//! The parameters of a solid-state drive.

use super::ftl::{Collection, RESERVE_BLOCKS, Shape};
use super::modes::Modes;
use crate::contract::{Nanos, SpecError};

/// The power of a drive in watts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Power {
    /// The power while the drive is ready but idle.
    pub idle_w: f64,
    /// The power while every die reads.
    pub read_w: f64,
    /// The power while every die programs or erases.
    pub write_w: f64,
}

/// The state of the drive before the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precondition {
    /// The share of the logical capacity that contains data, written in order from the start.
    pub filled_share: f64,
    /// The number of random page writes after that, as a share of the filled pages.
    pub overwrites_share: f64,
    /// The seed of these random writes.
    pub seed: u64,
}

impl Default for Precondition {
    /// The drive is full, written in order.
    fn default() -> Precondition {
        Precondition { filled_share: 1.0, overwrites_share: 0.0, seed: 1 }
    }
}

/// The point where commands pass one at a time, which limits their rate.
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
    /// The time that a write takes to enter the buffer.
    pub times: Modes,
    /// The number of writes that can enter concurrently.
    pub lanes: u32,
}

/// The parameters of a solid-state drive.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdSpec {
    /// The capacity for the host in bytes, rounded down to whole pages.
    pub capacity_bytes: u64,
    /// The size of a page in bytes, which is the unit of mapping.
    pub page_bytes: u32,
    /// The number of pages that a die programs or reads together (in planes and cells).
    pub program_pages: u32,
    /// The number of pages per erase block; a multiple of `program_pages`.
    pub pages_per_block: u32,
    /// The number of channels.
    pub channels: u32,
    /// The number of dies per channel.
    pub dies_per_channel: u32,
    /// The additional flash, as a share of the logical capacity.
    pub over_provisioning_share: f64,
    /// The time to read a page into a die's register, by the kind of page.
    pub read: Modes,
    /// The time to program `program_pages` pages.
    pub program: Nanos,
    /// The time to erase a block.
    pub erase: Nanos,
    /// The rate of a channel in bytes per second.
    pub channel_bytes_per_s: u64,
    /// The rate of the link to the host in bytes per second.
    pub link_bytes_per_s: u64,
    /// Whether the link transfers in both directions at the same time.
    pub duplex: bool,
    /// The time for which a command occupies the controller: the reciprocal of the maximum command
    /// rate.
    pub command: Nanos,
    /// Where commands pass the controller.
    pub ceiling: Ceiling,
    /// The time for which a write occupies the controller.
    pub write_command: Nanos,
    /// Where writes pass the controller.
    pub write_ceiling: Ceiling,
    /// The overhead of a command before its data is transferred.
    pub overhead: Nanos,
    /// How a write enters the buffer, if that takes time in addition to the link's.
    pub entrance: Option<Entrance>,
    /// The capacity of the write buffer in bytes.
    pub write_buffer_bytes: u64,
    /// The capacity of the read cache in bytes; 0 for none. It contains the most recently read and
    /// written pages, which are read without the flash.
    pub read_cache_bytes: u64,
    /// Whether the buffer survives a power failure, so that Flush and FUA take no time.
    pub power_loss_protection: bool,
    /// The maximum number of commands served at a time, over all submission queues.
    pub queue_depth: u16,
    /// The rule of garbage collection.
    pub collection: Collection,
    /// The state of the drive before the run.
    pub precondition: Precondition,
    /// The longest command in bytes.
    pub len_max: u32,
    /// The power in each state.
    pub power: Power,
}

/// The maximum number of pages that preconditioning overwrites, which takes minutes to simulate.
const OVERWRITES_MAX: f64 = 1e9;

/// The maximum of all times in the parameters: one second.
const LONGEST: u64 = 1_000_000_000;

impl SsdSpec {
    /// Returns the total number of dies.
    pub fn dies(&self) -> u32 {
        self.channels.saturating_mul(self.dies_per_channel)
    }

    /// Returns the number of pages that the host can use.
    pub(super) fn logical_pages(&self) -> u32 {
        (self.capacity_bytes / u64::from(self.page_bytes)).min(u32::MAX.into()) as u32
    }

    pub(super) fn filled_pages(&self) -> u32 {
        (f64::from(self.logical_pages()) * self.precondition.filled_share).round() as u32
    }

    /// Returns the sizes of the flash: the logical capacity and over-provisioning, in whole blocks
    /// per die.
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

    /// Returns a drive of about `capacity_bytes` with the same behavior. On each die, the share of
    /// spare blocks is the same, not counting the blocks that are always reserved, whose number
    /// does not depend on the size. The capacity is rounded to whole blocks per die, at least one.
    pub fn resized(&self, capacity_bytes: u64) -> SsdSpec {
        let block_bytes = f64::from(self.pages_per_block) * f64::from(self.page_bytes);
        let row_bytes = f64::from(self.dies()) * block_bytes;
        let whole = self.capacity_bytes as f64 / row_bytes;
        // The two blocks being filled are half full on average, so they count as one.
        let kept = RESERVE_BLOCKS as f64 + 1.0;
        let spare = whole * self.over_provisioning_share - kept;
        if !(spare > 0.0 && row_bytes > 0.0) {
            return SsdSpec { capacity_bytes, ..self.clone() };
        }
        let with_spare = 1.0 + spare / whole;
        let blocks = (capacity_bytes as f64 / row_bytes * with_spare).round().max(1.0);
        let full = blocks / with_spare;
        // Slightly less than a whole number of blocks, so that rounding up gives that number.
        let over_provisioning_share = (blocks + kept - 1e-3) / full - 1.0;
        let capacity_bytes = (full * row_bytes).round() as u64;
        SsdSpec { capacity_bytes, over_provisioning_share, ..self.clone() }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// Names the first invalid parameter.
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
