//! Chooses the devices to simulate if the user names none.

use std::ops::ControlFlow;

use forebay_ask::named;
use forebay_core::Device;
use forebay_words::plural::listed;

use super::{RecordedOn, SATURATED_SHARE, SHORT_S, linux_default, shows_overload};
use crate::devices::{self, OpenDevice};
use crate::layout::{Map, VolumeLayout};
use crate::simulate::{Bed, LateCount, Replay, Setup, run_on};
use crate::statistics::Figures;
use crate::{Error, Input, ProgressReport, Telling};

/// The flash drive to use by default: a current data-center drive.
const FLASH: &str = "d7-p5520";

/// Opens the flash drive to use if the user names none.
pub fn default_flash() -> Result<OpenDevice, Error> {
    Ok(devices::open(FLASH)?)
}

/// Chooses a device if the user does not specify one: the smallest general bundled drive
/// ([`devices::general`]) that holds the trace and keeps up with it under the scheduler `current`,
/// if possible without being nearly saturated. If none keeps up, chooses the one that falls behind
/// least. If the trace seems to come from flash ([`RecordedOn`]), chooses flash. Also returns the
/// reason.
pub fn default_device(
    input: &Input,
    current: Option<&str>,
    setup: Setup,
    progress: Telling<'_>,
) -> Result<(OpenDevice, String), Error> {
    let close = match RecordedOn::of(input)? {
        RecordedOn::Flash(reason) => return Ok((default_flash()?, reason)),
        RecordedOn::Disk(close) => close,
    };
    let mut drives = devices::general()?;
    let (first, holds, remark) = smallest(input, &drives)?;
    let mut trial = Trial { input, current, setup, progress };
    let mut loads = Vec::new();
    let shows_overload = shows_overload(input.description.duration_s / setup.intensity.times());
    for drive in &drives[first..] {
        let load = if shows_overload { trial.load(drive)? } else { Load::Bearable };
        loads.push(load);
        if load == Load::Bearable {
            break;
        }
    }
    let first_with = |load: Load| loads.iter().position(|one| *one == load);
    let Some(nth) = first_with(Load::Bearable).or(first_with(Load::Saturating)) else {
        // If every drive falls behind, simulate the one that falls behind least.
        let mut lags_ms = Vec::new();
        for drive in &drives[first..] {
            lags_ms.push(trial.run(drive, None)?.longest_lag_ms);
        }
        let least = lags_ms.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let at = first + least.map_or(0, |(nth, _)| nth);
        let why = format!(
            "{close}the closest of the general bundled drives, though it does not keep up; it \
             {holds}{remark}"
        );
        return Ok((drives.swap_remove(at), why));
    };
    let smaller: Vec<&str> = drives[first..first + nth].iter().map(|one| &one.name[..]).collect();
    let hardly = match loads[..nth].contains(&Load::Saturating) {
        true => "not, or only barely",
        false => "not",
    };
    let keeps_up = match smaller.as_slice() {
        [] => String::new(),
        [smaller] => format!(" and keeps up with it ({smaller} does {hardly})"),
        smaller => format!(" and keeps up with it ({} do {hardly})", listed(smaller)),
    };
    let at = first + nth;
    let why =
        format!("{close}the smallest of the general bundled drives that {holds}{keeps_up}{remark}");
    Ok((drives.swap_remove(at), why))
}

/// The load that a trace puts on a drive, relative to what the drive can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Bearable,
    /// The drive keeps up, but is nearly saturated.
    Saturating,
    /// The drive falls behind.
    Excessive,
}

/// Simulates the trace on drives that might be the default.
struct Trial<'a, 'p> {
    input: &'a Input,
    current: Option<&'a str>,
    setup: Setup,
    progress: Telling<'p>,
}

impl Trial<'_, '_> {
    /// Returns the load of the trace on `drive`. In open replay, the run ends as soon as the drive
    /// falls behind.
    fn load(&mut self, drive: &OpenDevice) -> Result<Load, Error> {
        let late = LateCount::overload(self.input);
        let early = (self.setup.replay == Replay::Open).then_some(&late);
        match self.run(drive, early) {
            Err(Error::Stopped) if late.is_exceeded() => Ok(Load::Excessive),
            run => run.map(|figures| self.load_in(&figures)),
        }
    }

    fn load_in(&self, figures: &Figures) -> Load {
        let span_s = self.input.description.duration_s / self.setup.intensity.times();
        let is_busy = self.setup.replay == Replay::Open && span_s >= SHORT_S;
        match figures.is_overloaded() {
            true => Load::Excessive,
            false if is_busy && figures.busy_s >= SATURATED_SHARE * span_s => Load::Saturating,
            false => Load::Bearable,
        }
    }

    /// Runs the trace on `drive`, until the end or until `late` is exceeded.
    fn run(&mut self, drive: &OpenDevice, late: Option<&LateCount>) -> Result<Figures, Error> {
        let doing = format!("checking whether {} keeps up", drive.name);
        let told = ProgressReport { doing, done_share: 0.0 };
        let mut tell = |_| match late.is_some_and(LateCount::is_exceeded) {
            true => ControlFlow::Break(()),
            false => (self.progress)(&told),
        };
        let bed = Bed { late, ..Bed::of(drive) };
        let policy = self.current.unwrap_or(linux_default(drive));
        Ok(run_on(self.input, bed, policy, self.setup, &mut tell)?.result.figures)
    }
}

/// Finds the first of `drives`, which are sorted by size, that holds the trace. Returns the drive's
/// index, the reason in words, and a remark that may be empty.
fn smallest(input: &Input, drives: &[OpenDevice]) -> Result<(usize, &'static str, String), Error> {
    let reach = |device: &OpenDevice| {
        VolumeLayout::new(&input.extents, device.model.capacity(), Map::Scale)
    };
    // Look for a drive that holds the whole address range or, failing that, the range without the
    // gaps that no request touches.
    let holds_all = |device: &OpenDevice| !reach(device).is_beyond();
    let holds_used =
        |device: &OpenDevice| !reach(device).without_gaps(&input.stretches).is_beyond();
    let used = drives.iter().position(holds_used);
    if let Some(at) = drives.iter().position(holds_all) {
        // A few requests at distant addresses may determine the size of the drive; the reason must
        // say so.
        let smaller = used.filter(|used| *used < at).map(|used| &drives[used].name);
        let remark = smaller.map_or(String::new(), |smaller| {
            format!(
                "; this choice may be due to a few distant requests: without its long unused gaps, \
                 the trace would fit on {smaller}"
            )
        });
        return Ok((at, "holds the trace", remark));
    }
    let beyond = format!("; the trace reaches beyond it (see {})", named("map"));
    match (used, drives.len()) {
        (Some(at), _) => {
            Ok((at, "holds the areas that the trace uses, excluding long gaps", beyond))
        }
        (None, 0) => Err(Error::Unfit("no drives are bundled".to_string())),
        (None, count) => Ok((count - 1, "holds most of the trace", beyond)),
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Flags, Nanos, Op};
    use forebay_trace::Record;

    use super::*;
    use crate::progress::unheard;

    /// Ending a run early does not change which drives keep up.
    #[test]
    fn a_run_that_ends_early_would_have_fallen_behind() {
        let device = devices::open("sata250").unwrap();
        let read = |n: u64, gap_us: u64| Record {
            at: Nanos::from_micros(n * gap_us),
            offset: n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (200 << 30) / 4096 * 4096,
            latency: None,
            len: 4096,
            stream: 0,
            volume: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        let loads = [2, 4, 6, 7, 8, 9, 14, 24].map(|gap_ms: u64| {
            let records = (0..4000).map(|n| read(n, gap_ms * 1000)).collect();
            let input = Input::from_records(records, vec!["reader".into()]);
            let (setup, progress) = (Setup::default(), &mut unheard);
            let mut trial = Trial { input: &input, current: None, setup, progress };
            let whole = trial.run(&device, None).unwrap();
            let load = trial.load(&device).unwrap();
            assert_eq!(load, trial.load_in(&whole), "{gap_ms} ms");
            load
        });
        assert_eq!((loads[0], loads[7]), (Load::Excessive, Load::Bearable), "{loads:?}");
        assert!(loads.contains(&Load::Saturating), "{loads:?}");
    }
}
