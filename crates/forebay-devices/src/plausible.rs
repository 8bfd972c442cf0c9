//! Checks device files for values that are valid individually, but contradict each other or are
//! unusual.
//!
//! A contradiction is an error that reports the line of the key. Unusual values cause notes:
//! cylinders that no zone covers, and a seek table that ends before half of the cylinders.

use forebay_core::device::hdd::{HddSpec, SECTOR, SeekSpec, Zone};

use super::file::{DeviceFile, TomlError, toml_error};

impl DeviceFile {
    /// Returns an error if the capacity, skews or spares contradict the zones of `disk`.
    pub(super) fn check_plausible(&self, disk: &HddSpec) -> Result<(), TomlError> {
        self.check_capacity(disk)?;
        for (key, skew) in
            [("track_skew_ms", disk.track_skew), ("cylinder_skew_ms", disk.cylinder_skew)]
        {
            if let Some(skew) = skew.filter(|skew| *skew > disk.revolution) {
                let what = format!(
                    "{key}: got {skew}, expected no more than {}, one revolution",
                    disk.revolution
                );
                return Err(toml_error(self.switch.span(), what));
            }
        }
        for (zone, of_disk) in self.zone.iter().flatten().zip(&disk.zones) {
            let table = zone.get_ref();
            let track = table.sectors_per_track;
            for (key, skew) in [
                ("track_skew_sectors", table.track_skew_sectors),
                ("cylinder_skew_sectors", table.cylinder_skew_sectors),
            ] {
                if let Some(skew) = skew.filter(|skew| *skew > f64::from(track)) {
                    let what = format!("{key}: got {skew}, expected 0 to the track's {track}");
                    return Err(toml_error(zone.span(), what));
                }
            }
            let cylinders = u64::from(of_disk.last_cylinder.saturating_sub(of_disk.first_cylinder));
            let sectors =
                (cylinders + 1).saturating_mul(u64::from(disk.heads)).saturating_mul(track.into());
            if let Some(spares) = table.spares.filter(|spares| *spares > 0 && *spares >= sectors) {
                let what = format!(
                    "spares: got {spares}, expected fewer than the {sectors} sectors of the zone"
                );
                return Err(toml_error(zone.span(), what));
            }
        }
        Ok(())
    }

    /// Returns an error if the capacity is too small: zones created from rates have at least one
    /// cylinder each.
    fn check_capacity(&self, disk: &HddSpec) -> Result<(), TomlError> {
        let Some(got) = self.geometry.get_ref().capacity_bytes else { return Ok(()) };
        let track = |zone: &Zone| u64::from(zone.sectors_per_track);
        let row: u64 = disk.zones.iter().map(track).sum();
        let least = row * u64::from(disk.heads) * u64::from(SECTOR);
        if got >= least {
            return Ok(());
        }
        let what = format!(
            "capacity_bytes: got {got}, expected {least} or more, a cylinder in each of the {} zones",
            disk.zones.len()
        );
        Err(toml_error(self.geometry.span(), what))
    }

    /// Returns notes about unusual values.
    pub(super) fn notes(&self) -> Vec<String> {
        let Ok((disk, _)) = self.specs() else { return Vec::new() };
        let mut notes = Vec::new();
        for pair in disk.zones.windows(2) {
            let [before, zone] = pair else { continue };
            let (end, first) = (before.last_cylinder.saturating_add(1), zone.first_cylinder);
            if first > end {
                notes.push(format!("no zone covers the cylinders {end} to {}", first - 1));
            }
        }
        let last = disk.zones.last().map_or(0, |zone| zone.last_cylinder);
        if let SeekSpec::Table(points) = &disk.seek
            && let Some((farthest, _)) = points.last()
            && *farthest < last / 2
        {
            notes.push(format!(
                "the seek table ends at {farthest} of {last} cylinders; longer seeks are \
                 extrapolated from its last segment"
            ));
        }
        notes
    }
}
