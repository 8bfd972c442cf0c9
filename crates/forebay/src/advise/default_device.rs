//! Chooses the devices to simulate if the user names none.

use forebay_ask::named;
use forebay_core::Device;

use super::{linux_default, source};
use crate::devices::{self, OpenDevice};
use crate::error::Error;
use crate::input::Input;
use crate::layout::{Map, VolumeLayout};
use crate::progress::{ProgressReport, Telling};
use crate::quantities::millis;
use crate::simulate::{Bed, Setup, run_on};

/// The flash drive to use by default: a current data-center drive.
const FLASH: &str = "d7-p5520";

/// Opens the flash drive to use if the user names none.
pub fn default_flash() -> Result<OpenDevice, Error> {
    Ok(devices::open(FLASH)?)
}

/// Chooses a device if the user names none: the smallest general bundled drive
/// ([`devices::general`]) that holds the trace and keeps up with it under the scheduler `current`.
/// If none keeps up, chooses the one that falls behind least. If the recorded latencies show that
/// the trace comes from flash, chooses flash. Also returns the reason.
pub fn default_device(
    input: &Input,
    current: Option<&str>,
    setup: Setup,
    progress: Telling<'_>,
) -> Result<(OpenDevice, String), Error> {
    if let Some(reason) = source::was_flash(&input.description, &input.volumes) {
        return Ok((default_flash()?, reason));
    }
    let mut drives = devices::general()?;
    let (first, holds, remark) = smallest(input, &drives)?;
    let mut lags_ms = Vec::new();
    for drive in &drives[first..] {
        let doing = format!("trying whether {} keeps up", drive.name);
        let mut tell = |_| progress(&ProgressReport { doing: doing.clone(), done_share: 0.0 });
        let bed = Bed::of(drive);
        let policy = current.unwrap_or(linux_default(drive));
        let run = run_on(input, bed, policy, setup, &mut tell)?.result;
        if !run.figures.is_overloaded() {
            break;
        }
        lags_ms.push(run.figures.longest_lag_ms);
    }
    let behind =
        |drive: &OpenDevice, ms: f64| format!("{} falls {} behind", drive.name, millis(ms));
    let (at, keeps_up) = match lags_ms.as_slice() {
        [] => (first, String::new()),
        all if first + all.len() < drives.len() => {
            let smaller = drives[first..].iter().zip(all).map(|(drive, ms)| behind(drive, *ms));
            let smaller = smaller.collect::<Vec<_>>().join(", ");
            (first + all.len(), format!(" and keeps up with it ({smaller})"))
        }
        all => {
            // If every drive falls behind, simulate the one that falls behind least.
            let least = all.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
            let at = first + least.map_or(0, |(nth, _)| nth);
            let why = format!(
                "none of the general bundled drives keeps up with it; this one comes nearest and {holds}{remark}"
            );
            return Ok((drives.swap_remove(at), why));
        }
    };
    let why = format!("the smallest of the general bundled drives that {holds}{keeps_up}{remark}");
    Ok((drives.swap_remove(at), why))
}

/// Finds the first of `drives`, which are sorted by size, that holds the trace. Returns the drive's
/// index, the reason in words, and a remark that may be empty.
fn smallest(input: &Input, drives: &[OpenDevice]) -> Result<(usize, &'static str, String), Error> {
    let reach = |device: &OpenDevice| {
        VolumeLayout::new(&input.extents, device.model.capacity(), Map::Scale)
    };
    // Look for a drive that holds the whole address range, or else one that holds it without the
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
                "; a few distant requests may have decided this, as without its long unused gaps it would fit on {smaller}"
            )
        });
        return Ok((at, "holds the trace", remark));
    }
    let beyond = format!("; the trace reaches beyond it (see {})", named("map"));
    match (used, drives.len()) {
        (Some(at), _) => Ok((at, "holds what the trace uses, long gaps left out", beyond)),
        (None, 0) => Err(Error::Unfit("no drives are bundled".to_string())),
        (None, count) => Ok((count - 1, "is not too small for most of it", beyond)),
    }
}
