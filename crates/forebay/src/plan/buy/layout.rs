//! Layouts of data on drives, and the least number of drives that each needs.
//!
//! Drives form *sets*: a single independent drive, an array of up to 32 drives, or disks with the
//! flash they share. Data are striped over all sets in units of [`STRIPE_BYTES`], so sets can be
//! simulated one after another. An array either writes in place in chunks of 512 KiB, as md and
//! controllers do, or is a `forebay volume`, which writes chunks of 64 KiB to fresh cells, with
//! checksums and without a write hole. A small write to a volume first reads the rest of its chunk.

use forebay_core::catalog::{DeviceSet, FlashLane, volume_bytes};
use forebay_core::{Device, SpecError};
use serde::Serialize;

use crate::devices::OpenDevice;
use crate::plan::devices::STRIPE_BYTES;

/// A layout of data on drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Striped without redundancy.
    Single,
    /// Two copies, written in place.
    Mirror,
    /// RAID 6 with four data and two parity chunks, written in place, in sets of six drives.
    Raid6,
    /// A volume with two copies.
    VolumeMirror,
    /// A volume with four data and two parity chunks.
    VolumeRaid6,
    /// Striped over disks; the most used data are cached on flash that the disks share.
    FlashCache,
    /// A volume that uses RAID 6 or three copies for each 256 KiB, whichever suits its writes.
    Adaptive,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Layout; 7] = [
        Layout::Single,
        Layout::Mirror,
        Layout::Raid6,
        Layout::FlashCache,
        Layout::VolumeMirror,
        Layout::VolumeRaid6,
        Layout::Adaptive,
    ];

    /// Returns the name used on the command line.
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

    /// Returns the layout with this name.
    pub fn named(name: &str) -> Option<Layout> {
        Layout::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// Returns the number of drives that may fail without data loss, regardless of which they are.
    pub fn survives(self) -> usize {
        match self {
            Layout::Single | Layout::FlashCache => 0,
            Layout::Mirror | Layout::VolumeMirror => 1,
            Layout::Raid6 | Layout::VolumeRaid6 | Layout::Adaptive => 2,
        }
    }

    /// Whether it is a layout of an array.
    pub fn is_array(self) -> bool {
        self.survives() > 0
    }

    /// Whether it is a layout of a `forebay volume`.
    pub fn is_volume(self) -> bool {
        matches!(self, Layout::VolumeMirror | Layout::VolumeRaid6 | Layout::Adaptive)
    }

    /// Returns the level of an array; adaptive volumes have none because their level changes.
    pub fn level(self) -> &'static str {
        match self {
            Layout::Mirror | Layout::VolumeMirror => "raid10",
            _ => "raid6",
        }
    }

    /// Returns the least number of drives, without the flash.
    pub fn width(self) -> usize {
        match self {
            Layout::Single | Layout::FlashCache => 1,
            Layout::Mirror | Layout::VolumeMirror => 2,
            Layout::Raid6 | Layout::VolumeRaid6 | Layout::Adaptive => 6,
        }
    }

    /// Returns the number of data chunks for each unit of redundancy: one, of which there are
    /// copies, or several, which share parities.
    pub fn data_chunks(self) -> u64 {
        match self {
            Layout::Raid6 | Layout::VolumeRaid6 | Layout::Adaptive => CHUNKS,
            _ => 1,
        }
    }

    /// Returns the largest number of drives in a set. RAID 6 written in place has four data and two
    /// parity chunks in every stripe; md makes such an array of exactly six drives.
    fn set_max(self) -> usize {
        match self {
            Layout::Single => 1,
            Layout::Raid6 => 6,
            _ => 32,
        }
    }

    /// Returns the number of sets that `drives` form; none if they cannot form equal sets.
    pub fn sets(self, drives: usize) -> Option<usize> {
        let sets = drives.div_ceil(self.set_max()).max(1);
        (drives.is_multiple_of(sets) && drives / sets >= self.width()).then_some(sets)
    }
}

/// A drive in a layout.
#[derive(Clone, Copy)]
pub(super) struct DriveLayout<'a> {
    pub(super) drive: &'a OpenDevice,
    /// The name under which the user requested the drive.
    pub(super) asked: &'a str,
    pub(super) layout: Layout,
    pub(super) flash: Option<&'a OpenDevice>,
    pub(super) flash_asked: &'a str,
    /// The scheduler of each drive.
    pub(super) scheduler: &'a str,
}

/// The data that all sets share.
#[derive(Clone, Copy)]
pub(super) struct Data {
    /// Their extent.
    pub(super) bytes: u64,
    /// The bytes that the trace uses.
    pub(super) used: u64,
    /// The size of the areas in which these lie.
    pub(super) touched: u64,
}

/// The simulated configuration of one set.
pub(super) struct Set {
    /// The policy.
    pub(super) spec: String,
    /// The devices behind the policy, one per lane.
    pub(super) lanes: DeviceSet,
    /// The bytes that clients may use.
    pub(super) usable: u64,
    /// Where the data end on each drive.
    pub(super) drive_bytes: u64,
}

/// The largest number of units in a simulated array. Its table is in memory and covers the extent
/// of the data.
const UNITS_MAX: u64 = 2 << 20;
/// An array is simulated at this many times the size of the areas that the trace touches. Distances
/// within an area stay the same; only the gaps between areas shrink. A short trace of a large volume
/// then does not have to wait until a large array is filled.
const ROOM: u64 = 2;
const ROOM_MIN_BYTES: u64 = 8 << 30;
/// The number of data chunks per unit.
const CHUNKS: u64 = 4;
/// The chunk size of a volume. Arrays that write in place use md's default chunk size.
const VOLUME_CHUNK_KIB: u64 = 64;
pub(super) const CHUNK_KIB: u64 = 512;
/// The largest number of blocks in a simulated cache; larger caches use larger blocks.
const BLOCKS_MAX: u64 = 4 << 20;

impl DriveLayout<'_> {
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

    /// Returns the policy parameters of the array, without its contents.
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

    /// Returns the set's policy, without its contents, as `simulate --policy` accepts it.
    pub(super) fn named(&self) -> String {
        match self.layout {
            Layout::FlashCache => format!("cache:disk={}", self.inner()),
            Layout::Single => self.scheduler.to_string(),
            _ => self.array(),
        }
    }

    /// Returns the policy of a volume for `serve`; the volume's level is fixed when it is created.
    pub(super) fn served(&self) -> String {
        match self.layout {
            Layout::Adaptive => self.array(),
            _ => self.scheduler.to_string(),
        }
    }

    /// Returns the scheduler as a parameter of another policy.
    pub(super) fn inner(&self) -> String {
        self.scheduler.replace('+', "++").replace(':', "+")
    }

    /// Returns the capacity in bytes of a set of `drives`.
    fn set_bytes(&self, drives: usize) -> Result<u64, SpecError> {
        let capacity = self.drive.model.capacity();
        let bytes = match self.layout.is_array() {
            true => volume_bytes(&self.array(), &self.lanes(drives, capacity))?.unwrap_or(0),
            false => (capacity / STRIPE_BYTES * STRIPE_BYTES).saturating_mul(drives as u64),
        };
        Ok(bytes / STRIPE_BYTES * STRIPE_BYTES)
    }

    /// Returns the usable capacity in bytes of `drives`; none if they cannot form equal sets.
    pub(super) fn holds(&self, drives: usize) -> Result<Option<u64>, SpecError> {
        let Some(sets) = self.layout.sets(drives) else { return Ok(None) };
        Ok(Some(self.set_bytes(drives / sets)?.saturating_mul(sets as u64)))
    }

    /// Returns one of the sets that `drives` form, sized for these data.
    pub(super) fn set(&self, drives: usize, data: Data) -> Result<Set, SpecError> {
        let Data { bytes, used, touched } = data;
        let sets = self.layout.sets(drives).unwrap_or(1);
        let each = drives / sets;
        let share = bytes.div_ceil(STRIPE_BYTES).div_ceil(sets as u64) * STRIPE_BYTES;
        let (whole, capacity) = (self.set_bytes(each)?, self.drive.model.capacity());
        let drive_bytes = (share.div_ceil(each as u64).saturating_add(STRIPE_BYTES)).min(capacity);
        if self.layout == Layout::FlashCache {
            return Ok(Set {
                spec: self.cache(used / sets as u64),
                lanes: self.lanes(each, capacity),
                usable: whole,
                drive_bytes,
            });
        }
        if !self.layout.is_array() {
            let (spec, lanes) = (self.scheduler.to_string(), self.lanes(each, capacity));
            return Ok(Set { spec, lanes, usable: whole, drive_bytes });
        }
        // Simulates only the part of an array within the extent of the data; the rest would only
        // use memory.
        let room = (touched / sets as u64).saturating_mul(ROOM).max(ROOM_MIN_BYTES);
        let wanted = share.min(whole).min(bytes_max(self.layout)).min(room);
        let holds = |bytes: u64| volume_bytes(&self.array(), &self.lanes(each, bytes));
        let (mut few, mut enough) = (0, capacity);
        while enough - few > STRIPE_BYTES {
            let middle = few + (enough - few) / 2;
            let is_enough = holds(middle).is_ok_and(|bytes| bytes.unwrap_or(0) >= wanted);
            *if is_enough { &mut enough } else { &mut few } = middle;
        }
        let usable = wanted.min(holds(enough)?.unwrap_or(0)) / STRIPE_BYTES * STRIPE_BYTES;
        let spec = format!("{}:filled-mib={}", self.array(), usable >> 20);
        Ok(Set { spec, lanes: self.lanes(each, enough), usable, drive_bytes: enough })
    }

    /// Returns the cache of a set. It never has to be larger than `used`, the bytes that the trace
    /// uses.
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

    /// Returns the number of flash drives that accompany `drives` disks.
    pub(super) fn caches(&self, drives: usize) -> usize {
        match self.layout {
            Layout::FlashCache => self.layout.sets(drives).unwrap_or(0),
            _ => 0,
        }
    }
}

/// Returns the largest number of bytes in a simulated array.
fn bytes_max(layout: Layout) -> u64 {
    let chunk_kib = if layout.is_volume() { VOLUME_CHUNK_KIB } else { CHUNK_KIB };
    UNITS_MAX * CHUNKS * (chunk_kib << 10)
}

/// Whether an array in one of `sets` is simulated with its data compressed into a smaller space.
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
        let kind = |layout| DriveLayout {
            drive: &drive,
            asked: "hc550",
            layout,
            flash: None,
            flash_asked: "",
            scheduler: "noop",
        };
        let gib = 1 << 30;
        let data = Data { bytes: 64 * gib, used: 0, touched: u64::MAX };
        for layout in [Layout::Mirror, Layout::VolumeMirror, Layout::Adaptive] {
            let set = |drives| kind(layout).set(drives, data).unwrap();
            assert_eq!((set(32).usable, set(64).usable), (64 * gib, 32 * gib), "{layout:?}");
            assert_eq!((set(32).lanes.disks, set(64).lanes.disks), (32, 32));
        }
        // RAID 6 in place has sets of exactly six drives, as md makes them.
        let set = |drives| kind(Layout::Raid6).set(drives, data).unwrap();
        assert_eq!((set(6).usable, set(12).usable), (64 * gib, 32 * gib));
        assert_eq!((set(6).lanes.disks, set(12).lanes.disks), (6, 6));
        let sets = [6, 7, 8, 12, 18].map(|drives| Layout::Raid6.sets(drives));
        assert_eq!(sets, [Some(1), None, None, Some(2), Some(3)]);
        let holds = |layout, drives| kind(layout).holds(drives).unwrap();
        let single = holds(Layout::Single, 1).unwrap();
        assert_eq!(holds(Layout::Single, 5), Some(5 * single));
        assert_eq!(holds(Layout::FlashCache, 64), Some(64 * single));
        assert_eq!(holds(Layout::Mirror, 64), holds(Layout::Mirror, 32).map(|bytes| 2 * bytes));
        // Two copies halve the capacity, two parities of six cost a third, and 33 drives cannot
        // form equal sets.
        let of = |layout, drives| {
            holds(layout, drives).unwrap() as f64 / (drives as f64 * single as f64)
        };
        assert!((0.45..=0.5).contains(&of(Layout::Mirror, 8)));
        assert!((0.6..=0.667).contains(&of(Layout::Raid6, 12)));
        assert!((0.55..of(Layout::Raid6, 12)).contains(&of(Layout::VolumeRaid6, 12)));
        assert_eq!(holds(Layout::Mirror, 33), None);
    }
}
