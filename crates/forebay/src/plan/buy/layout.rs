//! Ways to keep data on drives, and how many drives each takes at least.
//!
//! Drives stand in *sets*: a drive that has nothing to do with others, an array of up to 32, or disks with the
//! flash they share. Data lie in stripes of [`STRIPE_BYTES`] over all sets, so that sets run one after another.
//! An array either writes in place in chunks of 512 KiB, as md does and controllers do, or is a `forebay volume`: chunks of
//! 64 KiB in fresh cells, with checksums and no write hole. A small write to a volume first reads what else is in its chunk.

use forebay_core::catalog::{DeviceSet, FlashLane, volume_bytes};
use forebay_core::{Device, SpecError};
use serde::Serialize;

use crate::devices::OpenDevice;
use crate::plan::devices::STRIPE_BYTES;

/// A way to keep data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Striped, each byte once.
    Single,
    /// Two copies of each, written in place.
    Mirror,
    /// Four chunks and two parities, written in place.
    Raid6,
    /// A volume with two copies of each.
    VolumeMirror,
    /// A volume of four chunks and two parities.
    VolumeRaid6,
    /// Striped over disks, what is used most on flash that they share.
    FlashCache,
    /// A volume of RAID 6 and three copies, whichever the writes of each 256 KiB pay.
    Adaptive,
}

impl Layout {
    /// All there are.
    pub const ALL: [Layout; 7] = [
        Layout::Single,
        Layout::Mirror,
        Layout::Raid6,
        Layout::FlashCache,
        Layout::VolumeMirror,
        Layout::VolumeRaid6,
        Layout::Adaptive,
    ];

    /// Its name, as an argument gives it.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Single => "single",
            Layout::Mirror => "mirror",
            Layout::Raid6 => "raid6",
            Layout::FlashCache => "flash-cache",
            Layout::VolumeMirror => "volume-mirror",
            Layout::VolumeRaid6 => "volume-raid6",
            Layout::Adaptive => "adaptive",
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Layout> {
        Layout::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// Drives that may fail without loss, whichever they are.
    pub fn survives(self) -> usize {
        match self {
            Layout::Single | Layout::FlashCache => 0,
            Layout::Mirror | Layout::VolumeMirror => 1,
            Layout::Raid6 | Layout::VolumeRaid6 | Layout::Adaptive => 2,
        }
    }

    /// Whether it is an array's.
    pub fn is_array(self) -> bool {
        self.survives() > 0
    }

    /// Whether it is a `forebay volume`.
    pub fn is_volume(self) -> bool {
        matches!(self, Layout::VolumeMirror | Layout::VolumeRaid6 | Layout::Adaptive)
    }

    /// The level of an array, but for an adaptive one's, which changes.
    pub fn level(self) -> &'static str {
        match self {
            Layout::Mirror | Layout::VolumeMirror => "raid10",
            _ => "raid6",
        }
    }

    /// The fewest drives, but for the flash.
    pub fn width(self) -> usize {
        match self {
            Layout::Single | Layout::FlashCache => 1,
            Layout::Mirror | Layout::VolumeMirror => 2,
            Layout::Raid6 | Layout::VolumeRaid6 | Layout::Adaptive => 6,
        }
    }

    /// The most drives of a set.
    fn set_max(self) -> usize {
        if self == Layout::Single { 1 } else { 32 }
    }

    /// Sets that so many drives make; none where they make no equal ones.
    pub fn sets(self, drives: usize) -> Option<usize> {
        let sets = drives.div_ceil(self.set_max()).max(1);
        (drives >= self.width() && drives.is_multiple_of(sets)).then_some(sets)
    }
}

/// A drive in a layout.
#[derive(Clone, Copy)]
pub(super) struct Kind<'a> {
    pub(super) drive: &'a OpenDevice,
    /// As whoever asked named it.
    pub(super) asked: &'a str,
    pub(super) layout: Layout,
    pub(super) flash: Option<&'a OpenDevice>,
    pub(super) flash_asked: &'a str,
    /// The scheduler of each drive.
    pub(super) scheduler: &'a str,
}

/// One set as it is simulated.
pub(super) struct Set {
    /// The policy.
    pub(super) spec: String,
    /// Its lanes.
    pub(super) lanes: DeviceSet,
    /// Bytes that clients may use.
    pub(super) usable: u64,
}

/// Units that a simulated array has at most: its table is in memory, and all that the data reach is there.
const UNITS_MAX: u64 = 2 << 20;
/// Data chunks of one.
const CHUNKS: u64 = 4;
/// A chunk of a volume, and of an array that writes in place: md's own.
const VOLUME_CHUNK_KIB: u64 = 64;
pub(super) const CHUNK_KIB: u64 = 512;
/// Blocks of a simulated cache at most; beyond that they are larger.
const BLOCKS_MAX: u64 = 4 << 20;

impl Kind<'_> {
    fn lanes(&self, disks: usize, disk_bytes: u64) -> DeviceSet {
        let flash = |device: &OpenDevice| FlashLane {
            len_max: device.model.len_max(),
            capacity_bytes: device.model.capacity(),
        };
        DeviceSet {
            disks: disks as u16,
            disk_len_max: self.drive.model.len_max(),
            disk_bytes,
            flash: self.flash.map(flash),
            restarts: false,
        }
    }

    /// What an array is asked for, but for what is on it.
    pub(super) fn array(&self) -> String {
        let level = match self.layout {
            Layout::Adaptive => {
                let costs = if self.drive.model.cylinders() > 0 { "hdd" } else { "ssd" };
                format!("adapt=work-function:costs={costs}")
            }
            layout if layout.is_volume() => format!("level={}", layout.level()),
            layout => format!("level={}:update=in-place:chunk-kib={CHUNK_KIB}", layout.level()),
        };
        format!("array:{level}:disk={}", self.inner())
    }

    /// What `simulate --policy` takes for a set, but for what is on it.
    pub(super) fn named(&self) -> String {
        match self.layout {
            Layout::FlashCache => format!("cache:disk={}", self.inner()),
            Layout::Single => self.scheduler.to_string(),
            _ => self.array(),
        }
    }

    /// The policy of a volume, which has its level from when it was made.
    pub(super) fn served(&self) -> String {
        match self.layout {
            Layout::Adaptive => self.array(),
            _ => self.scheduler.to_string(),
        }
    }

    /// The scheduler within another policy's name.
    pub(super) fn inner(&self) -> String {
        self.scheduler.replace('+', "++").replace(':', "+")
    }

    /// Bytes that a set of so many drives holds.
    fn set_bytes(&self, drives: usize) -> Result<u64, SpecError> {
        let capacity = self.drive.model.capacity();
        let bytes = match self.layout.is_array() {
            true => volume_bytes(&self.array(), &self.lanes(drives, capacity))?.unwrap_or(0),
            false => (capacity / STRIPE_BYTES * STRIPE_BYTES).saturating_mul(drives as u64),
        };
        Ok(bytes / STRIPE_BYTES * STRIPE_BYTES)
    }

    /// Bytes that so many drives hold with their redundancy; none where they make no equal sets.
    pub(super) fn holds(&self, drives: usize) -> Result<Option<u64>, SpecError> {
        let Some(sets) = self.layout.sets(drives) else { return Ok(None) };
        Ok(Some(self.set_bytes(drives / sets)?.saturating_mul(sets as u64)))
    }

    /// One of the sets that `drives` make, as far as `bytes` of data in all sets reach; `used` is what of them the
    /// trace uses.
    pub(super) fn set(&self, drives: usize, bytes: u64, used: u64) -> Result<Set, SpecError> {
        let sets = self.layout.sets(drives).unwrap_or(1);
        let each = drives / sets;
        let share = bytes.div_ceil(STRIPE_BYTES).div_ceil(sets as u64) * STRIPE_BYTES;
        let (whole, capacity) = (self.set_bytes(each)?, self.drive.model.capacity());
        if self.layout == Layout::FlashCache {
            return Ok(Set {
                spec: self.cache(used / sets as u64),
                lanes: self.lanes(each, capacity),
                usable: whole,
            });
        }
        if !self.layout.is_array() {
            let (spec, lanes) = (self.scheduler.to_string(), self.lanes(each, capacity));
            return Ok(Set { spec, lanes, usable: whole });
        }
        // No more of an array than the data reach: the rest would take memory and nothing else.
        let wanted = share.min(whole).min(bytes_max(self.layout));
        let holds = |bytes: u64| volume_bytes(&self.array(), &self.lanes(each, bytes));
        let (mut few, mut enough) = (0, capacity);
        while enough - few > STRIPE_BYTES {
            let middle = few + (enough - few) / 2;
            let is_enough = holds(middle).is_ok_and(|bytes| bytes.unwrap_or(0) >= wanted);
            *if is_enough { &mut enough } else { &mut few } = middle;
        }
        let usable = wanted.min(holds(enough)?.unwrap_or(0)) / STRIPE_BYTES * STRIPE_BYTES;
        let spec = format!("{}:filled-mib={}", self.array(), usable >> 20);
        Ok(Set { spec, lanes: self.lanes(each, enough), usable })
    }

    /// The cache of a set whose trace uses so many bytes: more than it uses no cache ever holds.
    fn cache(&self, used: u64) -> String {
        let flash = self.flash.map_or(0, |flash| flash.model.capacity());
        let size = used.next_multiple_of(64 << 20).max(64 << 20).min(flash);
        let block_kib =
            (2..=20).map(|bits| 1u64 << bits).find(|kib| size / 1024 / kib <= BLOCKS_MAX);
        format!(
            "cache:size-mib={}:block-kib={}:disk={}",
            (size >> 20).max(1),
            block_kib.unwrap_or(1 << 20),
            self.inner()
        )
    }

    /// Drives of the flash kind that so many disks have beside them.
    pub(super) fn caches(&self, drives: usize) -> usize {
        match self.layout {
            Layout::FlashCache => self.layout.sets(drives).unwrap_or(0),
            _ => 0,
        }
    }
}

/// Bytes that a simulated array holds at most.
fn bytes_max(layout: Layout) -> u64 {
    let chunk_kib = if layout.is_volume() { VOLUME_CHUNK_KIB } else { CHUNK_KIB };
    UNITS_MAX * CHUNKS * (chunk_kib << 10)
}

/// Whether data that reach so far in one of `sets` are pressed onto less when an array of them is simulated.
pub(super) fn is_pressed(layout: Layout, bytes: u64, sets: usize) -> bool {
    layout.is_array() && bytes / sets.max(1) as u64 > bytes_max(layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices;

    #[test]
    fn a_set_of_several_holds_its_share() {
        let drive = devices::open("hc550").unwrap();
        let kind = |layout| Kind {
            drive: &drive,
            asked: "hc550",
            layout,
            flash: None,
            flash_asked: "",
            scheduler: "noop",
        };
        let gib = 1 << 30;
        for layout in [Layout::Mirror, Layout::Raid6, Layout::VolumeMirror, Layout::Adaptive] {
            let set = |drives| kind(layout).set(drives, 64 * gib, 0).unwrap();
            assert_eq!((set(32).usable, set(64).usable), (64 * gib, 32 * gib), "{layout:?}");
            assert_eq!((set(32).lanes.disks, set(64).lanes.disks), (32, 32));
        }
        let holds = |layout, drives| kind(layout).holds(drives).unwrap();
        let single = holds(Layout::Single, 1).unwrap();
        assert_eq!(holds(Layout::Single, 5), Some(5 * single));
        assert_eq!(holds(Layout::FlashCache, 64), Some(64 * single));
        assert_eq!(holds(Layout::Mirror, 64), holds(Layout::Mirror, 32).map(|bytes| 2 * bytes));
        // Two copies take half, two parities of six a third; and no two sets of 33 are equal.
        let of = |layout, drives| {
            holds(layout, drives).unwrap() as f64 / (drives as f64 * single as f64)
        };
        assert!((0.45..=0.5).contains(&of(Layout::Mirror, 8)));
        assert!((0.6..=0.667).contains(&of(Layout::Raid6, 12)));
        assert!((0.55..of(Layout::Raid6, 12)).contains(&of(Layout::VolumeRaid6, 12)));
        assert_eq!(holds(Layout::Mirror, 33), None);
    }
}
