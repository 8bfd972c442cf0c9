//! A volume of `forebay serve` as an array on models of its drives.
//!
//! The labels of the drives say which array it is. Departures from the real volume: it is full of
//! data, no drive is missing, all drives are alike, and all units have the first level.

use std::path::PathBuf;

use forebay::Error;
use forebay::plan::buy::Layout;
use forebay::simulate::ServedDrives;
use forebay_core::Spec;
use forebay_core::catalog::{is_array, is_shaper};
use forebay_core::stack::array::{Geometry, Label, Level, Update};
use forebay_volume::{drives_in, label};

/// The array of a volume.
#[derive(Clone, Debug)]
pub(crate) struct ServedArray {
    label: Label,
    pub(crate) drives: ServedDrives,
}

impl ServedArray {
    /// Reads the labels of the volume `name` on these drives. The drives are not locked, so the
    /// volume may be served meanwhile.
    ///
    /// # Errors
    /// No drive has a label, or there are solid-state drives in addition to the disks.
    pub(crate) fn read(name: &str, drives: &[PathBuf]) -> Result<ServedArray, Error> {
        let unfit = |what: &str| Error::Unfit(format!("'{name}': drives: {what}"));
        let paths = drives_in(drives).map_err(|error| unfit(&error.to_string()))?;
        let labels: Vec<Label> = paths.iter().filter_map(|path| label(path).ok()).collect();
        let members = |of: &Label| {
            labels.iter().filter(|one| one.geometry.volume == of.geometry.volume).count()
        };
        let label = labels.iter().max_by_key(|of| members(of)).copied().ok_or_else(|| {
            unfit(
                "none of them has the label of a volume, expected those that the server uses; a \
                 simulation reads the volume's level from their labels",
            )
        })?;
        if label.costs[1].is_some() {
            return Err(unfit(
                "got a volume of hard disks and solid-state drives, which cannot be simulated from a \
                 configuration; expected drives of one kind",
            ));
        }
        let width = label.first.width(label.geometry.chunks.into());
        let count = members(&label).max(width) as u16;
        Ok(ServedArray { label, drives: ServedDrives { count, bytes: drive_bytes(&label) } })
    }

    /// Returns the spec for simulating a policy that the server builds above its volume.
    pub(crate) fn below(&self, spec: &str) -> Result<String, Error> {
        let parsed = Spec::parse(spec)?;
        if !is_shaper(parsed.name()) {
            return self.ruled(spec);
        }
        let over = parsed.inner("over").unwrap_or_else(|| "noop".into());
        let fields = spec.split(':').filter(|field| !field.trim_start().starts_with("over="));
        let shaper = fields.collect::<Vec<_>>().join(":");
        Ok(format!("{shaper}:over={}", Spec::nested(&self.ruled(&over)?)))
    }

    /// Returns the array with a policy: `spec` names a scheduler for its drives, or the rule by
    /// which it adapts.
    fn ruled(&self, spec: &str) -> Result<String, Error> {
        let Label { geometry, first, .. } = self.label;
        let update = match geometry.update {
            Update::Fresh => "fresh",
            Update::InPlace => "in-place",
        };
        let array = format!(
            "array:level={}:update={update}:chunk-kib={}:chunks={}:filled-mib={}",
            first.name(),
            geometry.chunk_bytes / 1024,
            geometry.chunks,
            geometry.capacity_bytes() >> 20
        );
        if !is_array(spec) {
            return Ok(format!("{array}:disk={}", Spec::nested(spec)));
        }
        let rules = spec.split_once(':').map_or_else(String::new, |(_, rules)| format!(":{rules}"));
        // The server uses the paper's costs if the labels contain none.
        let knows = self.label.costs[0].is_some() || Spec::parse(spec)?.inner("costs").is_some();
        let costs = if knows { "" } else { ":costs=hdd" };
        Ok(format!("{array}{rules}{costs}"))
    }
}

/// Returns how much of each drive an array needs that is full of data at the first level. A volume
/// of three copies has less space, because it is full when all of its data are at RAID 6.
fn drive_bytes(Label { geometry, first, .. }: &Label) -> u64 {
    let sizes = Geometry { cells: 0, ..*geometry };
    let bare = Geometry::new(sizes, *first, 0).map_or(0, |bare| bare.cells);
    let full = Geometry::new(sizes, *first, (bare / 32).max(64));
    full.map_or(0, |full| full.lane_bytes()).max(geometry.lane_bytes())
}

/// Returns the layout that `plan buy` calls a volume on these drives, the number of drives, and one
/// of them; `None` if they have no labels, or if `plan buy` has no such layout.
pub fn volume_layout(drives: &[PathBuf], policy: &str) -> Option<(Layout, usize, PathBuf)> {
    let found = ServedArray::read("", drives).ok()?;
    let rule = Spec::parse(policy).ok()?.inner("adapt");
    let layout = match (found.label.first, found.label.geometry.chunks) {
        (_, 4) if rule.is_some_and(|rule| rule != "never") => Layout::Adaptive,
        (Level::RAID6, 4) => Layout::VolumeRaid6,
        (Level::Mirrored { copies: 2 }, 4) => Layout::VolumeMirror,
        _ => return None,
    };
    let first = drives_in(drives).ok()?.into_iter().next()?;
    Some((layout, found.drives.count.into(), first))
}
