//! An opened back: its targets or models as lanes, and the policies that can serve them.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use forebay_core::catalog::{
    DeviceSet, FlashLane, build_over_array, build_paired, build_placed, is_array, is_placement,
};
use forebay_core::contract::{AnyPolicy, Gauge};
use forebay_core::stack::{Pairing, Rearrange, Rearranged};
use forebay_core::{Device, DeviceModel, Fault, Lane, Nanos, Policy};
use forebay_live::{Driver, LEN_MAX, Target};
use forebay_volume::{FoundVolume, Shape, find, find_cached, status};

use crate::error::{Error, system, unfit};
use crate::flash::{self, Pair};
use crate::lanes::{Closed, Lanes};
use crate::opening::{Purpose, target};
use crate::rearrange::{self, Laid};
use crate::stored::Stored;
use crate::{Back, Blocks, Export, Named, On};

/// The maximum number of sockets per driver.
pub(crate) const CLIENTS_MAX: u32 = 256;

/// A back whose targets are open and whose policy is valid. Nothing has been written.
pub(crate) struct Opened {
    pub(crate) exports: Vec<Export>,
    pub(crate) room: ExportRoom,
    pub(crate) policies: Policies,
    pub(crate) stored: Option<Stored>,
    pub(crate) notes: Vec<String>,
    /// The files or devices, by lane.
    pub(crate) disks: Vec<PathBuf>,
    /// The marks that link a disk with its flash.
    pub(crate) pair: Option<Pair>,
    lanes: Closed,
}

/// Builds the policies of a back.
#[derive(Clone)]
pub(crate) enum Policies {
    /// A disk whose flash may contain newer data.
    Placed(DeviceSet, Pairing),
    /// A disk whose blocks are rearranged.
    Rearranged(DeviceSet, Laid),
    /// A volume. If an earlier policy lost acknowledged writes, the number is the only stream that
    /// has been notified of the loss.
    Volume(Shape, Option<u32>),
}

/// A drive that joined a volume while it was served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinedDrive {
    pub(crate) lane: Lane,
    pub(crate) number: u8,
    pub(crate) cells: u32,
}

impl Policies {
    /// Builds the policy of a back.
    ///
    /// # Errors
    /// The message names the policy as it is configured, without the layers that the server adds
    /// above it.
    pub(crate) fn build_for(&self, back: &Back) -> Result<AnyPolicy, Error> {
        self.build(&back.shaped()?).map_err(|error| match self.build(&back.policy) {
            Err(inner) => unfit(format!("'{}': policy: {inner}", back.name)),
            Ok(_) => error,
        })
    }

    /// Builds the policy specified by `spec`.
    pub(crate) fn build(&self, spec: &str) -> Result<AnyPolicy, Error> {
        let policy: AnyPolicy = match self {
            Policies::Placed(lanes, pairing) => build_paired(spec, lanes, *pairing)?,
            Policies::Rearranged(..) if is_placement(spec) => {
                return Err(above_rearranged(spec));
            }
            Policies::Rearranged(lanes, Laid { record, learnt }) => {
                let (learnt, len_max) = (learnt.clone(), lanes.disk_len_max);
                let placement = Rearrange::kept_at(*record, learnt, Nanos(1), len_max);
                Box::new(Rearranged::before(placement, build_placed(spec, lanes)?, 1))
            }
            Policies::Volume(shape, knows) => {
                let array = shape.array();
                let array = match knows {
                    Some(knows) => array.owing(Fault::Media, *knows),
                    None => array,
                };
                build_over_array(spec, array, LEN_MAX)?
            }
        };
        if policy.servers().is_empty() {
            return Ok(policy);
        }
        Err(unfit(format!(
            "'{spec}': got a shaper that needs several servers with their own rates, expected a \
             shaper for a single disk"
        )))
    }
}

/// Rejects a placement policy for a rearranged disk.
pub(crate) fn above_rearranged(spec: &str) -> Error {
    unfit(format!(
        "'{spec}': got a policy that places data, expected a scheduler or shaper above a \
         rearranged disk"
    ))
}

/// Returns whether under `spec` the flash may contain data that is not on the disk.
pub(crate) fn keeps_data(spec: &str) -> bool {
    let disk_has_all = ["write=through", "write=around"];
    is_placement(spec) && !disk_has_all.iter().any(|write| spec.contains(write))
}

/// Returns whether `spec` uses a flash at all.
pub(crate) fn uses_flash(spec: &str) -> bool {
    is_placement(spec)
}

impl Policies {
    /// Returns whether clients' writes are answered only when they are completed, and reads are not
    /// cached by the policy.
    pub(crate) fn answers_when_done(&self, spec: &str) -> bool {
        !matches!(self, Policies::Volume(..)) && !is_placement(spec)
    }

    /// Returns the policies for the successor of `policy`: if writes were lost, the successor
    /// reports that to all streams except `knows`, which has been notified already.
    pub(crate) fn after(self, policy: &AnyPolicy, knows: u32) -> Policies {
        let lost = |gauge: &Gauge| gauge.name == "losses" && gauge.value > 0.0;
        match self {
            Policies::Volume(shape, _) if policy.gauges().iter().any(lost) => {
                Policies::Volume(shape, Some(knows))
            }
            other => other,
        }
    }

    /// Adds drives that joined a volume while it was served, and removes those that left. `members`
    /// are the drive numbers now in the volume; if it is empty, they are unknown.
    pub(crate) fn resized(mut self, drives: &[JoinedDrive], members: &[u8]) -> Policies {
        if let Policies::Volume(shape, _) = &mut self {
            drives.iter().for_each(|it| shape.joined(it.lane.into(), it.number, it.cells));
            if !members.is_empty() {
                shape.left(members);
            }
        }
        self
    }

    /// Returns whether a new policy finds its predecessor's writes only if they are durable. This
    /// is the case for volumes and rearranged disks, because their policies read their state from
    /// records on the disks.
    pub(crate) fn found_by_records(&self) -> bool {
        !matches!(self, Policies::Placed(..))
    }

    /// Returns whether a trim under `spec` leaves zeros. Volumes do not guarantee zeros, and
    /// neither does a disk whose flash may contain the old data.
    pub(crate) fn trims_to_zero(&self, spec: &str) -> bool {
        self.answers_when_done(spec)
    }
}

impl Opened {
    /// Opens the targets of `back`.
    pub(crate) fn open(back: &Back, purpose: Purpose) -> Result<Opened, Error> {
        let target = |path: &Path, direct| target(path, back, direct, purpose);
        match &back.on {
            On::Volume(drives) => Opened::volume(back, drives, purpose),
            On::EmulatedVolume { drives, device } => {
                Opened::modelled(back, drives, &device.model, purpose)
            }
            On::Target { path, flash } => {
                let disk = target(path, !back.page_cache)?;
                let flash = flash.as_deref();
                let mut opened = Parts::of(back, disk.capacity_bytes(), path, flash)?;
                opened.stored = stored(&disk, back)?;
                opened.block_bytes = disk.block_bytes().unwrap_or(1);
                let flash = flash.map(|path| target(path, !back.page_cache)).transpose()?;
                opened.flash = flash.as_ref().map(|flash| (flash.capacity_bytes(), LEN_MAX));
                let targets: Vec<Target> = [Some(disk), flash].into_iter().flatten().collect();
                opened.notes.extend(notes(&targets));
                let disks = paths(&targets);
                opened.placed(back, disks, Closed::Real { targets, depth: back.depth })
            }
            On::Emulated { path, device, flash } => {
                // Only the model determines the duration of I/Os, so the data may come from the
                // page cache.
                let disk = target(path, false)?;
                let model = device.model.clone();
                refuse_longer(&disk, &model)?;
                let flash_path = flash.as_ref().map(|(path, _)| path.as_path());
                let mut opened = Parts::of(back, disk.capacity_bytes(), path, flash_path)?;
                opened.stored = stored(&disk, back)?;
                opened.len_max = LEN_MAX.min(Device::len_max(&model));
                let (mut models, mut stores) = (vec![model], vec![disk]);
                if let Some((path, device)) = flash {
                    let store = target(path, false)?;
                    let model = device.model.clone();
                    let bytes = store.capacity_bytes().min(Device::capacity(&model));
                    opened.flash = Some((bytes, LEN_MAX.min(Device::len_max(&model))));
                    models.push(model);
                    stores.push(store);
                }
                opened.notes.extend(notes(&stores));
                let disks = paths(&stores);
                opened.placed(back, disks, Closed::Models { models, stores })
            }
        }
    }

    fn volume(back: &Back, drives: &[PathBuf], purpose: Purpose) -> Result<Opened, Error> {
        refuse_placement(back)?;
        let opened = status(drives)?;
        let close = |targets| Closed::Real { targets, depth: back.depth };
        let found = find(drives, purpose == Purpose::Serve)?;
        Opened::whole(back, drives, &opened, found, close)
    }

    /// Opens a volume of files whose I/Os take the time of a model.
    fn modelled(
        back: &Back,
        drives: &[PathBuf],
        model: &DeviceModel,
        purpose: Purpose,
    ) -> Result<Opened, Error> {
        refuse_placement(back)?;
        let opened = status(drives)?;
        let found = match purpose {
            Purpose::Serve => find_cached(drives)?,
            Purpose::Check => find(drives, false)?,
        };
        let room = Device::capacity(model);
        if let Some((_, long)) = found.drives.iter().find(|(_, it)| it.capacity_bytes() > room) {
            return Err(unfit(format!(
                "{}: got a drive of {} bytes, expected at most {room}, the size of the emulated \
                 device",
                long.path().display(),
                long.capacity_bytes()
            )));
        }
        let close = |stores: Vec<Target>| {
            let models = stores.iter().map(|_| model.clone()).collect();
            Closed::Models { models, stores }
        };
        Opened::whole(back, drives, &opened, found, close)
    }

    /// Opens the volume that is found on these drives.
    fn whole(
        back: &Back,
        drives: &[PathBuf],
        opened: &forebay_volume::Opened,
        mut found: FoundVolume,
        close: impl FnOnce(Vec<Target>) -> Closed,
    ) -> Result<Opened, Error> {
        // Do not open drives that were joining; the interrupted command opens them when it is
        // repeated.
        found.leave_out(&opened.joining);
        let policies = Policies::Volume(found.shape().with_vacant_lanes(), None);
        let told = [opened.told(drives), found.notes].concat();
        let targets: Vec<Target> = found.drives.into_iter().map(|(_, target)| target).collect();
        policies.build_for(back)?;
        let room = ExportRoom::new(opened.geometry.capacity_bytes(), 1);
        let exports = room.exports(back, false)?;
        let (notes, disks) = ([told, notes(&targets)].concat(), paths(&targets));
        let lanes = close(targets);
        Ok(Opened { exports, room, policies, stored: None, notes, disks, pair: None, lanes })
    }
}

/// The properties of a disk and its flash, while they are being opened.
struct Parts {
    /// The size of the part of the disk that may be exported.
    bytes: u64,
    disk_bytes: u64,
    block_bytes: u32,
    len_max: u32,
    /// The size of the flash, and the length of its longest I/O.
    flash: Option<(u64, u32)>,
    stored: Option<Stored>,
    pair: Option<Pair>,
    notes: Vec<String>,
}

impl Parts {
    /// Determines the properties of a disk of this size, and checks that its newest data is what
    /// will be served.
    fn of(back: &Back, disk_bytes: u64, disk: &Path, flash: Option<&Path>) -> Result<Parts, Error> {
        let mut notes = Vec::new();
        let pair = flash::look(back, disk, flash, disk_bytes, &mut notes)?;
        let bytes = pair.as_ref().map_or(disk_bytes, Pair::bytes);
        let (block_bytes, len_max, flash) = (1, LEN_MAX, None);
        Ok(Parts { bytes, disk_bytes, block_bytes, len_max, flash, stored: None, pair, notes })
    }

    fn placed(self, back: &Back, disks: Vec<PathBuf>, lanes: Closed) -> Result<Opened, Error> {
        let Parts { bytes, disk_bytes, block_bytes, len_max, flash, stored, pair, mut notes } =
            self;
        let room = ExportRoom { disk_bytes, ..ExportRoom::new(bytes, block_bytes) };
        let (bytes, laid) = rearrange::within(back, bytes, flash.is_some(), &mut notes)?;
        let flash = flash.map(|(capacity_bytes, len_max)| FlashLane { len_max, capacity_bytes });
        let (disk_len_max, disk_bytes) = (len_max, bytes);
        let set = DeviceSet {
            disks: 1,
            disk_len_max,
            disk_bytes,
            flash,
            restarts: true,
            costs: [None; 2],
        };
        let policies = match laid {
            Some(laid) => Policies::Rearranged(set, laid),
            None => Policies::Placed(set, pair.as_ref().map(Pair::pairing).unwrap_or_default()),
        };
        policies.build_for(back)?;
        let trims_to_zero = policies.trims_to_zero(&back.policy);
        let grows = set.flash.is_none() && matches!(policies, Policies::Placed(..));
        let room = ExportRoom { bytes, grows, ..room };
        let exports = room.exports(back, trims_to_zero)?;
        Ok(Opened { exports, room, policies, stored, notes, disks, pair, lanes })
    }
}

/// Rejects a policy for a volume that needs a disk and a flash.
fn refuse_placement(back: &Back) -> Result<(), Error> {
    match is_placement(&back.policy) && !is_array(&back.policy) {
        false => Ok(()),
        true => Err(unfit(format!(
            "'{}': policy: got '{}', which places data on a disk and a flash, expected a \
             scheduler, a shaper or array",
            back.name, back.policy
        ))),
    }
}

/// Rejects a file that is larger than the capacity of the emulated device.
fn refuse_longer(disk: &Target, model: &DeviceModel) -> Result<(), Error> {
    let (bytes, room) = (disk.capacity_bytes(), Device::capacity(model));
    if bytes <= room {
        return Ok(());
    }
    let path = disk.path().display();
    Err(unfit(format!(
        "{path}: got {bytes} bytes, expected at most {room}, the size of the emulated device; \
         make it shorter, or emulate a larger device"
    )))
}

impl Opened {
    /// Creates the lanes on the thread that drives them, and starts their clock.
    pub(crate) fn lanes(&mut self, driver: Option<Driver>) -> Result<Lanes, Error> {
        let closed = std::mem::replace(&mut self.lanes, Closed::Gone);
        closed.open(driver, &mut self.notes)
    }
}

/// Returns access to the holes of a disk, provided that blocks are at their original addresses and
/// all data is on the disk.
fn stored(disk: &Target, back: &Back) -> Result<Option<Stored>, Error> {
    match keeps_data(&back.policy) || back.blocks != Blocks::InPlace {
        true => Ok(None),
        false => Ok(Some(Stored(disk.duplicate().map_err(system("opening a file once more"))?))),
    }
}

fn paths(targets: &[Target]) -> Vec<PathBuf> {
    targets.iter().map(|target| target.path().to_path_buf()).collect()
}

fn notes(targets: &[Target]) -> Vec<String> {
    let of = |target: &Target| {
        let path = target.path().display().to_string();
        target.notes().iter().map(move |note| format!("{path}: {note}")).collect::<Vec<_>>()
    };
    targets.iter().flat_map(of).collect()
}

/// The bytes available to exports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExportRoom {
    bytes: u64,
    block_bytes: u32,
    /// The exportable size of the disk, in whole blocks. The disk may be larger.
    disk_bytes: u64,
    /// Whether exports may use the additional bytes if the disk grows.
    pub(crate) grows: bool,
}

impl ExportRoom {
    /// Returns the same limits for a larger disk.
    pub(crate) fn with_bytes(self, bytes: u64) -> ExportRoom {
        // Orders may arrive late and out of sequence, so never reduce the size.
        let bytes = bytes.max(self.bytes);
        ExportRoom { bytes, disk_bytes: bytes, ..self }
    }

    pub(crate) fn new(bytes: u64, block_bytes: u32) -> ExportRoom {
        ExportRoom { bytes, block_bytes, disk_bytes: bytes, grows: false }
    }

    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }

    /// Returns the size of the disk in whole blocks, and how much larger that is than before; None
    /// if it has not grown.
    pub(crate) fn grown(self, path: &Path) -> Option<(u64, u64)> {
        let end = || File::open(path)?.seek(SeekFrom::End(0));
        let block = u64::from(self.block_bytes);
        let bytes = end().ok()? / block * block;
        let more = bytes.checked_sub(self.disk_bytes).filter(|more| *more > 0)?;
        Some((bytes, more))
    }

    /// Determines the exports, and checks that they are within the disk.
    ///
    /// # Errors
    /// An export is not within the disk.
    pub(crate) fn exports(self, back: &Back, trims_to_zero: bool) -> Result<Vec<Export>, Error> {
        let ExportRoom { bytes, block_bytes, .. } = self;
        let block = u64::from(block_bytes);
        let of = |named: &Named| {
            let Named { name, description, offset, .. } = named.clone();
            let left = bytes.checked_sub(offset).filter(|left| *left > 0).ok_or_else(|| {
            unfit(format!(
                "export '{name}': got offset {offset}, expected less than the {bytes} bytes of '{}'",
                back.name
            ))
        })?;
            let len = named.bytes.unwrap_or(left / block * block);
            if len > left || len == 0 {
                return Err(unfit(format!(
                    "export '{name}': got {len} bytes, expected 1 to {left}, the rest of '{}'",
                    back.name
                )));
            }
            if !offset.is_multiple_of(block) || !len.is_multiple_of(block) {
                return Err(unfit(format!(
                    "export '{name}': got {len} bytes at {offset}, expected multiples of the {block} bytes of \
                 its disk's blocks; or set page_cache = true"
                )));
            }
            if name.len() > NAME_MAX || description.len() > NAME_MAX {
                return Err(unfit(format!(
                    "export '{name:.40}...': got a name of more than {NAME_MAX} bytes"
                )));
            }
            Ok(Export {
                name,
                description,
                offset,
                bytes: len,
                read_only: named.read_only || back.read_only,
                block_bytes,
                rotational: false,
                trims_to_zero,
            })
        };
        back.exports.iter().map(of).collect()
    }
}

/// The maximum length of a string in the protocol.
const NAME_MAX: usize = 4096;

#[cfg(test)]
mod tests {

    use forebay_core::contract::GaugeOf;
    use forebay_core::stack::array::Level;
    use forebay_core::{Bytes, Completion, Cx, Piece, Request};
    use forebay_volume::{Create, create};

    use super::*;

    /// A policy that has lost this many acknowledged writes.
    struct Lossy(f64);

    impl Policy for Lossy {
        fn submit(&mut self, _cx: &mut Cx<'_>, _request: Request, _bytes: Bytes) {}
        fn dispatch(&mut self, _now: Nanos, _lane: Lane) -> Option<Request> {
            None
        }
        fn complete(&mut self, _cx: &mut Cx<'_>, _done: &Completion) {}
        fn pieces(&self, _io: &Request, _each: &mut dyn FnMut(Piece)) {}
        fn gauges(&self) -> Vec<Gauge> {
            vec![Gauge { name: "losses", of: GaugeOf::All, value: self.0 }]
        }
    }

    #[test]
    fn losses_of_a_volume_are_passed_to_the_next_policy() {
        let folder = forebay_rig::Folder::new();
        let drives = folder.drives("", 6, 32 << 20);
        create(&drives, Create::new(Level::RAID6)).unwrap();
        let policies = Policies::Volume(find(&drives, true).unwrap().shape(), None);
        for (losses, owed) in [(0.0, 0.0), (3.0, 1.0)] {
            let lossy: AnyPolicy = Box::new(Lossy(losses));
            let next = policies.clone().after(&lossy, 256).build("noop").unwrap();
            let gauge = next.gauges().into_iter().find(|gauge| gauge.name == "losses").unwrap();
            assert_eq!(gauge.value, owed);
        }
    }
}
