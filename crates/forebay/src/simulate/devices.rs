//! The figures of each device in a run, including flash wear.

use forebay_core::device::list::DeviceModel;
use forebay_core::device::ssd::Wear;
use forebay_core::{Device, Nanos};
use serde::Serialize;

use crate::devices::OpenDevice;
use crate::statistics::DeviceLoad;

/// The figures of one device in a run.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceFigures {
    /// The device's name.
    pub device: String,
    /// "disk", or "flash" for the device that placement policies use beside disks.
    pub role: &'static str,
    /// The number of I/Os that it served.
    pub ios: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// The time that it was busy.
    pub busy_s: f64,
    /// Energy it used.
    pub energy_j: f64,
    /// Flash pages programmed per page written.
    pub write_amplification: Option<f64>,
    /// Blocks erased.
    pub erases: Option<u64>,
    /// Mean erases per block.
    pub erases_mean: Option<f64>,
    /// The highest number of erases of any block.
    pub erases_max: Option<u64>,
}

pub(super) fn device_figures(
    (device, model): (&OpenDevice, &DeviceModel),
    asked: &DeviceLoad,
    role: &'static str,
    makespan: Nanos,
) -> DeviceFigures {
    let wear = model.wear();
    DeviceFigures {
        device: device.name.clone(),
        role,
        ios: asked.ios,
        read_bytes: asked.read_bytes,
        written_bytes: asked.written_bytes,
        busy_s: model.busy(makespan).as_secs_f64(),
        energy_j: model.joules(makespan),
        write_amplification: wear.and_then(|wear| wear.write_amplification()),
        erases: wear.map(|wear| wear.erases),
        erases_mean: wear.map(|wear| wear.erases_mean()),
        erases_max: wear.map(|wear| wear.erases_max.into()),
    }
}

/// Returns the wear of all flash devices together: write amplification, erases, and the highest
/// number of erases of any block.
pub(super) fn wear(models: &[DeviceModel]) -> (Option<f64>, Option<u64>, Option<u64>) {
    let all = models.iter().filter_map(DeviceModel::wear).reduce(|a, b| Wear {
        host_pages: a.host_pages + b.host_pages,
        moved_pages: a.moved_pages + b.moved_pages,
        erases: a.erases + b.erases,
        erases_max: a.erases_max.max(b.erases_max),
        blocks: a.blocks + b.blocks,
    });
    let amplification = all.and_then(|wear| wear.write_amplification());
    (amplification, all.map(|wear| wear.erases), all.map(|wear| wear.erases_max.into()))
}
