//! The figures of each device in a run, including the wear of flash.

use forebay_core::device::ssd::Wear;
use forebay_core::{Device, DeviceModel, Nanos};
use serde::Serialize;

use crate::OpenDevice;
use crate::statistics::DeviceLoad;

/// The figures of one device in a run.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceFigures {
    /// The device's name.
    pub device: String,
    /// The device's role: "disk", or "flash" for the device that placement policies use in addition
    /// to disks.
    pub role: &'static str,
    /// The number of I/Os that the device served.
    pub ios: u64,
    /// The number of bytes read from the device.
    pub read_bytes: u64,
    /// The number of bytes written to the device.
    pub written_bytes: u64,
    /// How long the device was busy, in seconds.
    pub busy_s: f64,
    /// The energy that the device used, in joules.
    pub energy_j: f64,
    /// The number of flash pages programmed per page written; `None` for other devices, or without
    /// writes.
    pub write_amplification: Option<f64>,
    /// The number of flash blocks erased; `None` for other devices.
    pub erases: Option<u64>,
    /// The mean number of erases per flash block; `None` for other devices.
    pub erases_mean: Option<f64>,
    /// The highest number of erases of any flash block; `None` for other devices.
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

/// Returns the wear of all flash devices together: the write amplification, the number of erases,
/// and the highest number of erases of any block.
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
