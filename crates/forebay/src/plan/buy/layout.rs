//! Layouts of data on drives, and the smallest number of drives that each layout needs.
//!
//! Drives form *sets*: a single independent drive, an array of up to 32 drives, or disks with the
//! flash that they share. Data are striped over all sets in units of [`STRIPE_BYTES`], so sets can
//! be simulated one after another. An array either writes in place in chunks of 512 KiB, as md and
//! RAID controllers do, or is a `forebay volume`, which writes chunks of 64 KiB to fresh cells,
//! with checksums and without a write hole. A small write to a volume first reads the rest of its
//! chunk.

use forebay_core::adapt::DriveCosts;
use forebay_core::catalog::{DeviceSet, FlashLane, volume_bytes};
use forebay_core::stack::array::Update;
use forebay_core::{Device, Spec, SpecError};
use serde::Serialize;

use crate::OpenDevice;
use crate::array_score::drive_costs;
use crate::plan::devices::STRIPE_BYTES;

/// A layout of data on drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Data are striped over the drives without redundancy.
    Single,
    /// Two copies of all data, written in place.
    Mirror,
    /// RAID 6 with four data chunks and two parity chunks, written in place, in sets of six drives.
    Raid6,
    /// A `forebay volume` with two copies of all data.
    VolumeMirror,
    /// A `forebay volume` with RAID 6: four data chunks and two parity chunks.
    VolumeRaid6,
    /// Data are striped over disks without redundancy. Frequently used data are cached on flash
    /// that the disks share.
    FlashCache,
    /// A `forebay volume` that stores each unit of 256 KiB as RAID 6 or as three copies, whichever
    /// suits its writes.
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

    /// Returns the layout's name on the command line.
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

    /// Returns the layout called `name`.
    pub fn named(name: &str) -> Option<Layout> {
        Layout::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// Returns how many drives may fail without data loss, regardless of which ones.
    pub fn survives(self) -> usize {
        match self {
            Layout::Single | Layout::FlashCache => 0,
            Layout::Mirror | Layout::VolumeMirror => 1,
            Layout::Raid6 | Layout::VolumeRaid6 | Layout::Adaptive => 2,
        }
    }

    /// Returns whether the layout is an array.
    pub fn is_array(self) -> bool {
        self.survives() > 0
    }

    /// Returns whether the layout is a `forebay volume`.
    pub fn is_volume(self) -> bool {
        matches!(self, Layout::VolumeMirror | Layout::VolumeRaid6 | Layout::Adaptive)
    }

    /// Returns the redundancy level of an array. Not meaningful for adaptive volumes, whose level
    /// changes.
    pub fn level(self) -> &'static str {
        match self {
            Layout::Mirror | Layout::VolumeMirror => "raid10",
            _ => "raid6",
        }
    }

    /// Returns the smallest number of drives that the layout needs, not counting flash caches.
    pub fn width(self) -> usize {
        match self {
            Layout::Single | Layout::FlashCache => 1,
            Layout::Mirror | Layout::VolumeMirror => 2,
            Layout::Raid6 | Layout::VolumeRaid6 | Layout::Adaptive => 6,
        }
    }

    /// Returns the number of data chunks that share their redundancy: 1 if there are copies of each
    /// chunk, more if several chunks share parities.
    pub fn data_chunks(self) -> u64 {
        match self {
            Layout::Raid6 | Layout::VolumeRaid6 | Layout::Adaptive => CHUNKS,
            _ => 1,
        }
    }

    /// Returns whether the loss of one unit of redundancy destroys all data: with stripes of plain
    /// drives or md arrays, every file lies on all units. A volume loses only the unit.
    pub(super) fn is_lost_at_once(self) -> bool {
        !self.is_volume()
    }

    /// Returns how many failed drives a unit of redundancy survives, and how many data chunks it
    /// has.
    pub(super) fn redundancy(self) -> (usize, u64) {
        (self.survives(), self.data_chunks())
    }

    /// Returns the maximum number of drives in a set. RAID 6 that is written in place has four data
    /// chunks and two parity chunks in every stripe, and md makes such an array of exactly six
    /// drives.
    fn set_max(self) -> usize {
        match self {
            Layout::Single => 1,
            Layout::Raid6 => 6,
            _ => 32,
        }
    }

    /// Returns the costs of writes to the smallest number of drives like `drive`, if the layout
    /// adapts to them.
    pub(super) fn costs(self, drive: &OpenDevice) -> Option<DriveCosts> {
        let drives = vec![drive; self.width()];
        let chunk_bytes = (VOLUME_CHUNK_KIB << 10) as u32;
        let adapts = self == Layout::Adaptive;
        adapts.then(|| drive_costs(&drives, chunk_bytes, CHUNKS as u8, Update::Fresh))?
    }

    /// Returns how many sets `drives` form; `None` if they cannot form equal sets.
    pub fn sets(self, drives: usize) -> Option<usize> {
        let sets = drives.div_ceil(self.set_max()).max(1);
        (drives.is_multiple_of(sets) && drives / sets >= self.width()).then_some(sets)
    }
}

/// A drive in a layout, with the scheduler that it uses.
#[derive(Clone, Copy)]
pub(super) struct DriveLayout<'a> {
    pub(super) drive: &'a OpenDevice,
    /// The name by which the user requested the drive.
    pub(super) asked: &'a str,
    pub(super) layout: Layout,
    pub(super) flash: Option<&'a OpenDevice>,
    pub(super) flash_asked: &'a str,
    /// The scheduler of each disk.
    pub(super) scheduler: &'a str,
    /// The costs of writes to the drives of an adaptive volume.
    pub(super) costs: Option<DriveCosts>,
}

/// The amount of data on all sets together.
#[derive(Clone, Copy)]
pub(super) struct Data {
    /// The extent of the data in bytes.
    pub(super) bytes: u64,
    /// The number of bytes that the trace reads or writes.
    pub(super) used: u64,
    /// The total size in bytes of the areas that the trace touches.
    pub(super) touched: u64,
}

/// How one set is simulated.
pub(super) struct Set {
    /// The policy spec of the set.
    pub(super) spec: String,
    /// The devices below the policy, one per lane.
    pub(super) lanes: DeviceSet,
    /// The number of bytes that clients can use.
    pub(super) usable: u64,
    /// The extent of the data on each drive, in bytes.
    pub(super) drive_bytes: u64,
}

/// The maximum number of units in a simulated array. The array's table is in memory and covers the
/// extent of the data.
const UNITS_MAX: u64 = 2 << 20;
/// The size of a simulated array, as a multiple of the areas that the trace touches. Distances
/// within an area are unchanged; only the gaps between areas shrink. This way, simulating a short
/// trace of a large volume does not require filling a large array.
const ROOM: u64 = 2;
const ROOM_MIN_BYTES: u64 = 8 << 30;
/// The number of data chunks in a unit.
const CHUNKS: u64 = 4;
/// The chunk size of a volume in KiB. Arrays that write in place use md's default.
const VOLUME_CHUNK_KIB: u64 = 64;
pub(super) const CHUNK_KIB: u64 = 512;
/// The maximum number of blocks in a simulated cache; larger caches have larger blocks.
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
            costs: [self.costs, None],
        }
    }

    /// Returns the policy parameters of the array, but not those that describe its contents.
    pub(super) fn array(&self) -> String {
        let level = match self.layout {
            Layout::Adaptive => "adapt=work-function".to_string(),
            layout if layout.is_volume() => format!("level={}", layout.level()),
            layout => format!("level={}:update=in-place:chunk-kib={CHUNK_KIB}", layout.level()),
        };
        format!("array:{level}:disk={}", self.inner())
    }

    /// Returns the policy spec of a set for `simulate --policy`, without its contents.
    pub(super) fn named(&self) -> String {
        match self.layout {
            Layout::FlashCache => format!("cache:disk={}", self.inner()),
            Layout::Single => self.scheduler.to_string(),
            _ => self.array(),
        }
    }

    /// Returns the policy spec of a volume for `serve`, which does not include the level, because
    /// that is fixed when the volume is created.
    pub(super) fn served(&self) -> String {
        match self.layout {
            Layout::Adaptive => self.array(),
            _ => self.scheduler.to_string(),
        }
    }

    /// Returns the scheduler in the form of a parameter of another policy.
    pub(super) fn inner(&self) -> String {
        Spec::nested(self.scheduler)
    }

    /// Returns the usable capacity, in bytes, of a set of `drives`.
    fn set_bytes(&self, drives: usize) -> Result<u64, SpecError> {
        let capacity = self.drive.model.capacity();
        let bytes = match self.layout.is_array() {
            true => volume_bytes(&self.array(), &self.lanes(drives, capacity))?.unwrap_or(0),
            false => (capacity / STRIPE_BYTES * STRIPE_BYTES).saturating_mul(drives as u64),
        };
        Ok(bytes / STRIPE_BYTES * STRIPE_BYTES)
    }

    /// Returns the usable capacity, in bytes, of `drives`; `None` if they cannot form equal sets.
    pub(super) fn holds(&self, drives: usize) -> Result<Option<u64>, SpecError> {
        let Some(sets) = self.layout.sets(drives) else { return Ok(None) };
        Ok(Some(self.set_bytes(drives / sets)?.saturating_mul(sets as u64)))
    }

    /// Returns one of the sets that `drives` form, sized for `data`.
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
        // Simulate only the part of the array that the data occupies, to save memory.
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

    /// Returns the cache parameters of a set. The cache never has to be larger than `used`, the
    /// bytes that the trace reads or writes.
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

    /// Returns how many flash cache drives `drives` disks need.
    pub(super) fn caches(&self, drives: usize) -> usize {
        match self.layout {
            Layout::FlashCache => self.layout.sets(drives).unwrap_or(0),
            _ => 0,
        }
    }
}

/// Returns the maximum size of a simulated array in bytes.
fn bytes_max(layout: Layout) -> u64 {
    let chunk_kib = if layout.is_volume() { VOLUME_CHUNK_KIB } else { CHUNK_KIB };
    UNITS_MAX * CHUNKS * (chunk_kib << 10)
}

/// Returns whether an array of `sets` sets is too large to be simulated in full, so that its data
/// are compressed into a smaller address space.
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
            costs: None,
        };
        let gib = 1 << 30;
        let data = Data { bytes: 64 * gib, used: 0, touched: u64::MAX };
        for layout in [Layout::Mirror, Layout::VolumeMirror, Layout::Adaptive] {
            let set = |drives| kind(layout).set(drives, data).unwrap();
            assert_eq!((set(32).usable, set(64).usable), (64 * gib, 32 * gib), "{layout:?}");
            assert_eq!((set(32).lanes.disks, set(64).lanes.disks), (32, 32));
        }
        // RAID 6 that is written in place has sets of exactly six drives, as md requires.
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
        // Two copies halve the capacity, two parities among six drives take a third, and 33 drives
        // cannot form equal sets.
        let of = |layout, drives| {
            holds(layout, drives).unwrap() as f64 / (drives as f64 * single as f64)
        };
        assert!((0.45..=0.5).contains(&of(Layout::Mirror, 8)));
        assert!((0.6..=0.667).contains(&of(Layout::Raid6, 12)));
        assert!((0.55..of(Layout::Raid6, 12)).contains(&of(Layout::VolumeRaid6, 12)));
        assert_eq!(holds(Layout::Mirror, 33), None);
    }
}
