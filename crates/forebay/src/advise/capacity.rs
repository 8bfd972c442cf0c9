//! If the disk cannot keep up with the load, finds a configuration that can: several such disks, or
//! flash used as a cache.
//!
//! Disks are striped in chunks of 512 KiB, md's default, and each has the present scheduler.
//! Arrivals are as recorded.

use std::ops::ControlFlow;

use forebay_core::{Device, Nanos};
use serde::Serialize;

use super::{Remedy, RemedyKind, Setting, with_data};
use crate::simulate::{Bed, LateCount, Replay, RunResult, Setup, run_on};
use crate::{Error, ProgressReport, Telling};

/// The numbers of striped disks to try.
const DISKS: [u16; 7] = [2, 3, 4, 6, 8, 12, 16];

/// The maximum number of chunks in a unit of the array. With more disks, the units lie on different
/// subsets of them.
const CHUNKS_MAX: u16 = 8;

/// How much longer than the recording a run may take and still count as keeping up, as a share.
const LATE_SHARE: f64 = 0.01;

/// How soon striped disks have to answer 99 % of reads and 99 % of writes to count as keeping up.
const ANSWERED_WITHIN: Nanos = Nanos::from_secs(1);

/// Returns whether striped disks finish by the end of the recording, and answer 99 % of reads and
/// 99 % of writes within [`ANSWERED_WITHIN`]. The second condition is necessary because an array
/// accepts every request immediately, so its lag does not show a backlog.
fn is_kept_up(run: &RunResult, span_s: f64) -> bool {
    let figures = &run.figures;
    let tails = [figures.read_p99_ms, figures.write_p99_ms];
    figures.makespan_s <= span_s * (1.0 + LATE_SHARE)
        && tails.into_iter().flatten().all(|ms| ms <= ANSWERED_WITHIN.as_millis_f64())
}

/// The number of disks, or the size of flash, that would keep up with the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Enough {
    /// The number of striped disks; `None` if even 16 fall behind.
    pub disks: Option<u16>,
    /// The size of the flash cache in bytes; `None` if no cache that was tried keeps up.
    pub flash_bytes: Option<u64>,
}

impl Enough {
    /// Finds configurations that keep up with requests that arrive within `span_s` seconds.
    ///
    /// # Errors
    /// Fails if the trace cannot be read a second time.
    pub(super) fn of(
        setting: &Setting<'_>,
        remedies: &[Remedy],
        span_s: f64,
        progress: Telling<'_>,
    ) -> Result<Enough, Error> {
        // If requests wait for earlier responses, small delays add up to a lag, so the time of the
        // last completion decides.
        let is_done_in_time = |run: &RunResult| {
            let is_early = run.figures.makespan_s <= span_s * (1.0 + LATE_SHARE);
            !run.figures.is_overloaded() || run.replay != Replay::Open && is_early
        };
        // Offloading is left out, because it is only possible inside the kernel.
        let keeps_up = |remedy: &&Remedy| {
            remedy.kind == RemedyKind::Caching && remedy.run.as_deref().is_some_and(is_done_in_time)
        };
        let flash_bytes = remedies.iter().filter(keeps_up).map(|remedy| remedy.flash_bytes).min();
        Ok(Enough { disks: Self::disks(setting, span_s, progress)?, flash_bytes })
    }

    fn disks(
        setting: &Setting<'_>,
        span_s: f64,
        progress: Telling<'_>,
    ) -> Result<Option<u16>, Error> {
        let Setting { input, device, current, .. } = *setting;
        if device.model.cylinders() == 0 {
            return Ok(None);
        }
        let setup = Setup { replay: Replay::Open, ..setting.setup };
        let steps = input.description.records.saturating_mul(2).max(1) as f64;
        for (nth, disks) in DISKS.into_iter().enumerate() {
            let bed = Bed { disks, ..Bed::of(device) };
            let chunks = disks.min(CHUNKS_MAX);
            let what = format!("level=raid0:update=in-place:chunk-kib=512:chunks={chunks}");
            let policy = with_data(input, bed, &what, current, setup)?.policy;
            let doing = format!("trying {disks} disks");
            let mut told = ProgressReport { doing, done_share: 0.0 };
            let late = LateCount::answers(input, ANSWERED_WITHIN);
            let bed = Bed { late: Some(&late), ..bed };
            let mut tell = |count: u64| {
                let share = (count as f64 / steps).min(1.0);
                told.done_share = (nth as f64 + share) / DISKS.len() as f64;
                match late.is_exceeded() {
                    true => ControlFlow::Break(()),
                    false => progress(&told),
                }
            };
            match run_on(input, bed, &policy, setup, &mut tell) {
                Err(Error::Stopped) if late.is_exceeded() => {}
                Err(error) => return Err(error),
                Ok(run) if is_kept_up(&run.result, span_s) => return Ok(Some(disks)),
                Ok(_) => {}
            }
        }
        Ok(None)
    }

    /// Formats the disks and the flash that would keep up, as in "2 such disks, or 3 GiB of flash, would
    /// suffice".
    pub(super) fn said(self) -> Option<String> {
        let disks =
            self.disks.map(|disks| crate::quantities::counted(u64::from(disks), "such disk"));
        let flash = self
            .flash_bytes
            .map(|bytes| format!("{} of flash", crate::quantities::bytes(bytes as f64)));
        match (disks, flash) {
            (Some(disks), Some(flash)) => Some(format!("{disks}, or {flash}, would suffice")),
            (disks, flash) => disks.or(flash).map(|one| format!("{one} would suffice")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::default_flash;
    use crate::devices::open;
    use crate::progress::{unheard, untold};
    use crate::retrodict::tests::{input_of, records};

    /// Reads take disk time on any number of disks, even if the trace never wrote the data that
    /// they read.
    #[test]
    fn more_load_takes_more_disks() {
        let (device, flash) = (open("sata250").unwrap(), default_flash().unwrap());
        let needed = |gap_us: u64| {
            let input = input_of(records(3000, gap_us));
            let span_s = input.description.duration_s;
            let (setup, current) = (Setup::default(), "mq-deadline");
            let setting = Setting {
                input: &input,
                device: &device,
                flash: &flash,
                flash_bytes: None,
                setup,
                current,
            };
            Enough::of(&setting, &[], span_s, &mut unheard).unwrap().disks
        };
        let (light, heavy, heaviest) = (needed(5_000), needed(1_500), needed(50));
        assert!(light < heavy, "{light:?} {heavy:?}");
        assert!((3..=12).contains(&heavy.unwrap()), "{heavy:?}");
        assert_eq!(heaviest, None);
    }

    /// A run that may end early because of late requests would not have been in time.
    #[test]
    fn late_requests_exclude_a_percentile_within_the_limit() {
        let (device, setup) = (open("sata250").unwrap(), Setup::default());
        let ends_early = |gap_us: u64| {
            let input = input_of(records(3000, gap_us));
            let late = LateCount::answers(&input, ANSWERED_WITHIN);
            let bed = Bed { late: Some(&late), ..Bed::of(&device) };
            let run = run_on(&input, bed, "mq-deadline", setup, &mut untold).unwrap();
            let figures = run.result.figures;
            let p99_ms = [figures.read_p99_ms, figures.write_p99_ms].into_iter().flatten();
            let longest_ms = p99_ms.fold(0.0, f64::max);
            assert!(!late.is_exceeded() || longest_ms > 1000.0, "{gap_us}: {longest_ms} ms");
            assert!(late.is_exceeded() || longest_ms < 1100.0, "{gap_us}: {longest_ms} ms");
            late.is_exceeded()
        };
        let early: Vec<bool> = (4..20).map(|step| ends_early(step * 500)).collect();
        assert!(early[0] && !early[15], "{early:?}");
    }
}
