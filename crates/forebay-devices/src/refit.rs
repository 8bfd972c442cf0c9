//! Changes a disk's media rate or catch margin. These are the unknown properties of a user's own
//! disk, which are fitted to its measured performance.

use forebay_core::device::drive::{Drive, DriveSpec};
use forebay_core::device::hdd::{Hdd, HddSpec, SeekSpec, Zone};
use forebay_core::{DeviceModel, Nanos};

use super::OpenDevice;

impl OpenDevice {
    /// Returns this disk with `times` as many sectors per track and correspondingly fewer
    /// cylinders, so that its capacity stays the same. Returns None for a device without tracks,
    /// and for a disk whose file is more detailed than a data sheet: with the format of each zone,
    /// or seek times by cylinder.
    pub fn at_media_rate(&self, times: f64) -> Option<OpenDevice> {
        let (disk, sources) = self.mechanics.as_ref()?;
        let disk = denser(disk, times)?;
        let (model, drive) = match (&self.model, &self.drive) {
            (DeviceModel::Hdd(_), _) => (DeviceModel::Hdd(Hdd::new(disk.clone()).ok()?), None),
            (DeviceModel::Drive(_), Some(drive)) if drive.format.is_none() => {
                let drive = DriveSpec { disk: disk.clone(), ..drive.clone() };
                (DeviceModel::Drive(Box::new(Drive::new(&drive).ok()?)), Some(drive))
            }
            _ => return None,
        };
        Some(OpenDevice {
            name: format!("{} at {times} times its media rate", self.name),
            model,
            drive,
            mechanics: Some((disk, sources.clone())),
            ..self.clone()
        })
    }

    /// Returns the catch margin: how long before a sector the head must arrive for the drive to
    /// rely on it when ordering commands. Returns None if the drive does not reorder commands.
    pub fn catch_margin(&self) -> Option<Nanos> {
        let queue = self.drive.as_ref()?.controller.queue;
        (queue.depth > 1).then_some(queue.catch_margin)
    }

    /// Returns this drive with the catch margin `margin`, which then counts as known, or None if
    /// the drive does not reorder commands.
    pub fn at_catch_margin(&self, margin: Nanos) -> Option<OpenDevice> {
        self.catch_margin()?;
        let drive = self.changed(|controller| controller.queue.catch_margin = margin)?;
        let model = DeviceModel::Drive(Box::new(Drive::new(&drive).ok()?));
        let name = format!("{} with a catch margin of {margin}", self.name);
        let (drive, catch_margin_range) = (Some(drive), None);
        Some(OpenDevice { name, model, drive, catch_margin_range, ..self.clone() })
    }
}

/// Changes the number of cylinders. The seek times of a data sheet refer to shares of the stroke,
/// so they remain valid.
fn denser(disk: &HddSpec, times: f64) -> Option<HddSpec> {
    if !matches!(disk.seek, SeekSpec::Datasheet { .. }) {
        return None;
    }
    let mut first_cylinder = 0;
    let mut zones = Vec::with_capacity(disk.zones.len());
    for zone in &disk.zones {
        let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder) + 1;
        let per_track = (f64::from(zone.sectors_per_track) * times).round().max(1.0);
        let sectors_per_track = per_track as u32;
        let needed = cylinders * u64::from(zone.sectors_per_track);
        let cylinders = u32::try_from(needed.div_ceil(u64::from(sectors_per_track))).ok()?;
        let last_cylinder = first_cylinder + (cylinders - 1);
        zones.push(Zone { first_cylinder, last_cylinder, sectors_per_track });
        first_cylinder = last_cylinder + 1;
    }
    Some(HddSpec { zones, ..disk.clone() })
}

#[cfg(test)]
mod tests {
    use super::super::open;
    use super::*;
    use forebay_core::Device;

    #[test]
    fn a_denser_disk_holds_as_much_and_moves_it_faster() {
        for name in ["st1000nm0011", "exos-x18", "st1000nm0011:plain", "sata250:write-cache=off"] {
            let disk = open(name).unwrap();
            let faster = disk.at_media_rate(1.25).unwrap();
            let [was, is] = [&disk, &faster].map(|one| one.mechanics.as_ref().unwrap().0.zones[0]);
            let ratio = f64::from(is.sectors_per_track) / f64::from(was.sectors_per_track);
            assert!((ratio - 1.25).abs() < 0.002, "{name}: {ratio}");
            let [was, is] = [&disk, &faster].map(|one| one.model.capacity() as f64);
            assert!(is >= was && is < was * 1.001, "{name}: {was} {is}");
            let cylinders = f64::from(faster.model.cylinders()) / f64::from(disk.model.cylinders());
            assert!((cylinders - 0.8).abs() < 0.01, "{name}: {cylinders}");
            let plain = faster.plain().map(|plain| plain.model.cylinders());
            assert!(plain.is_none_or(|plain| plain == faster.model.cylinders()), "{name}");
        }
    }

    #[test]
    fn a_margin_belongs_to_the_queue() {
        let drive = open("st1000nm0011").unwrap();
        let margin = Nanos::from_micros(3210);
        let changed = drive.at_catch_margin(margin).unwrap();
        assert_eq!(changed.catch_margin(), Some(margin));
        assert_eq!(changed.catch_margin_range(), None);
        let was = drive.drive.as_ref().unwrap().controller.queue;
        let is = changed.drive.as_ref().unwrap().controller.queue;
        assert_eq!((is.depth, is.starvation), (was.depth, was.starvation));
        for name in ["st1000nm0011:plain", "st1000nm0011:queue-depth=1", "d7-p5520", "fixed:9"] {
            assert!(open(name).unwrap().at_catch_margin(margin).is_none(), "{name}");
        }
    }

    #[test]
    fn devices_without_such_tracks_stay_unchanged() {
        for name in ["d7-p5520", "fixed:100"] {
            assert!(open(name).unwrap().at_media_rate(1.1).is_none(), "{name}");
        }
    }
}
