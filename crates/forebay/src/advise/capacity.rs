//! What would keep up with a load that the device cannot keep up with: several such disks, or flash beside it.
//!
//! Disks are striped in chunks of 512 KiB, md's own, and each has the scheduler that the disk has now. Arrivals are as
//! recorded: where requests waited for answers, more of them would wait less.

use forebay_core::Device;
use serde::Serialize;

use super::{Remedy, RemedyKind, Setting};
use crate::error::Error;
use crate::progress::{Telling, Told};
use crate::simulate::{Bed, Replay, RunResult, Setup, run_on};

/// Numbers of disks that are tried.
const DISKS: [u16; 7] = [2, 3, 4, 6, 8, 12, 16];

/// A run that ends so much later than the recording, as a share of that, keeps up all the same.
pub(super) const LATE_SHARE: f64 = 0.01;

/// What would keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Enough {
    /// So many such disks, striped; none if the most that were tried do not.
    pub disks: Option<u16>,
    /// So much flash beside the disk, as the remedy that needs least uses it; none if none of those that were tried does.
    pub flash_bytes: Option<u64>,
}

impl Enough {
    /// Of a device that cannot keep up with requests that come for `span_s` seconds.
    pub(super) fn of(
        setting: &Setting<'_>,
        remedies: &[Remedy],
        span_s: f64,
        progress: Telling<'_>,
    ) -> Result<Enough, Error> {
        // Where requests wait for answers, a device that is a little slower than the recorded one adds up to a lag.
        let is_done_in_time = |run: &RunResult| {
            let is_early = run.figures.makespan_s <= span_s * (1.0 + LATE_SHARE);
            !run.figures.is_overloaded() || run.replay != Replay::Open && is_early
        };
        // Offloading works only in the kernel.
        let keeps_up = |remedy: &&Remedy| {
            remedy.kind == RemedyKind::Caching && remedy.run.as_deref().is_some_and(is_done_in_time)
        };
        let flash_bytes = remedies.iter().filter(keeps_up).map(|remedy| remedy.flash_bytes).min();
        Ok(Enough { disks: Self::disks(setting, progress)?, flash_bytes })
    }

    fn disks(setting: &Setting<'_>, progress: Telling<'_>) -> Result<Option<u16>, Error> {
        if setting.device.model.cylinders() == 0 {
            return Ok(None);
        }
        let setup = Setup { replay: Replay::Open, ..setting.setup };
        for disks in DISKS {
            let policy = format!(
                "array:level=raid0:update=in-place:chunk-kib=512:chunks={disks}:disk={}",
                setting.current
            );
            let told = Told { doing: format!("trying {disks} disks"), done_share: 1.0 };
            let bed = Bed { disks, ..Bed::of(setting.device) };
            let run = run_on(setting.input, bed, &policy, setup, &mut |_| progress(&told))?;
            if !run.result.figures.is_overloaded() {
                return Ok(Some(disks));
            }
        }
        Ok(None)
    }

    /// "two of them, or 3 GiB of flash, would".
    pub(super) fn said(self) -> Option<String> {
        let disks = self.disks.map(|disks| format!("{disks} of them"));
        let flash = self
            .flash_bytes
            .map(|bytes| format!("{} of flash", crate::quantities::bytes(bytes as f64)));
        match (disks, flash) {
            (Some(disks), Some(flash)) => Some(format!("{disks}, or {flash}, would")),
            (disks, flash) => disks.or(flash).map(|what| format!("{what} would")),
        }
    }
}
