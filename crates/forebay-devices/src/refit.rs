//! A disk with another media rate or catch margin: what is unknown of a user's own disk, to be fitted to how it did.

use forebay_core::Nanos;
use forebay_core::device::drive::{Drive, DriveSpec};
use forebay_core::device::hdd::{Hdd, HddSpec, SeekSpec, Zone};
use forebay_core::device::list::DeviceModel;

use super::OpenDevice;

impl OpenDevice {
    /// The same disk with so many times as many sectors on a track, and as many fewer cylinders, so that it holds as much.
    /// None of what has no tracks, and of a disk whose file says more of them than a data sheet does: how each zone is
    /// formatted, or the time of each seek by cylinders.
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

    /// How much earlier than a sector the head has to be there for the drive to count on it when it ranks commands; none
    /// of what ranks none.
    pub fn catch_margin(&self) -> Option<Nanos> {
        let queue = self.drive.as_ref()?.controller.queue;
        (queue.depth > 1).then_some(queue.catch_margin)
    }

    /// The same drive with such a margin, which is no guess then; none of what ranks no commands.
    pub fn at_catch_margin(&self, margin: Nanos) -> Option<OpenDevice> {
        self.catch_margin()?;
        let drive = self.changed(|controller| controller.queue.catch_margin = margin)?;
        let model = DeviceModel::Drive(Box::new(Drive::new(&drive).ok()?));
        let name = format!("{} with a catch margin of {margin}", self.name);
        let (drive, catch_margin_range) = (Some(drive), None);
        Some(OpenDevice { name, model, drive, catch_margin_range, ..self.clone() })
    }
}

/// The data sheet's seek times are by the share of the stroke, so they hold for any number of cylinders.
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
    fn a_margin_is_the_queue_s() {
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
    fn what_has_no_such_tracks_stays() {
        for name in ["d7-p5520", "fixed:100"] {
            assert!(open(name).unwrap().at_media_rate(1.1).is_none(), "{name}");
        }
    }
}
