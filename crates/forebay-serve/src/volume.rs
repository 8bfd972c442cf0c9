//! Maintenance of a volume while it is served: its state, checks, and drives that are replaced,
//! added or removed.

// Allowed because this module works with threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use forebay_core::contract::{VolumeDrive, VolumeOrder, VolumeState};
use forebay_volume::{admit, prepare};
use serde::{Deserialize, Serialize};

use crate::On;
use crate::driver::{Driver, PATIENCE};
use crate::error::{Error, unfit};
use crate::front::{JoiningDrive, Order, Purpose};
use crate::tally::Tally;

/// The interval between checks of the progress of work.
const LOOKS: Duration = Duration::from_millis(250);
/// How long to wait until a durable record lists a new drive.
const MEMBER_MAX: Duration = Duration::from_secs(45);

/// The state of a volume that is being served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServedVolume {
    /// The volume's name in the configuration.
    pub name: String,
    /// Whether all data can be read and have full redundancy.
    pub health: VolumeHealth,
    /// The space that the volume provides, in bytes.
    pub capacity_bytes: u64,
    /// Whether data is being moved so that the volume can provide more space.
    pub is_growing: bool,
    /// The number of drives that may fail without loss when all data has full redundancy.
    pub tolerates: u8,
    /// The drives of the volume, and drives that are no longer part of it.
    pub drives: Vec<ServedDrive>,
    /// The number of chunks, copies and parities that are on no drive.
    pub lacking_chunks: u64,
    /// The number of units with bytes that can no longer be read.
    pub lost_units: u64,
    /// The number of blocks that were found damaged since the volume was opened.
    pub rotten_blocks: u64,
    /// The number of chunks that were restored since the volume was opened.
    pub repaired_chunks: u64,
    /// The number of chunks that were moved between drives since the volume was opened.
    pub moved_chunks: u64,
    /// The number of checks that were completed since the volume was opened.
    pub checks: u64,
    /// Whether a check is in progress, or waits for a rebuild.
    pub is_checking: bool,
    /// The limit of rebuilding and moving in bytes of data per second; 0 means no limit.
    pub limit_bytes_per_s: u64,
    /// The background work in progress: `rebuild`, `check` or `move`.
    pub work: Option<String>,
    /// The percentage of the work that is done.
    pub work_percent: Option<f64>,
    /// The number of records that must be rewritten until all drives have their share of them.
    pub records_left: u64,
    /// Whether writes fail or wait because a file system below the drives is full.
    pub lacks_room: bool,
}

/// A summary of the state of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeHealth {
    /// All data can be read and has full redundancy, and all drives work.
    Healthy,
    /// All data can be read, but a drive is missing, some data lacks redundancy, or there is no
    /// space for new data.
    Degraded,
    /// Some data can no longer be read.
    Lost,
}

/// A drive of a volume that is being served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServedDrive {
    /// The number of the drive.
    pub number: u8,
    /// The path of the drive; None if the drive was missing when the volume was opened.
    pub path: Option<PathBuf>,
    /// The state of the drive.
    pub state: ServedDriveState,
    /// The number of free bytes.
    pub free_bytes: u64,
    /// The number of I/Os that failed since the volume was opened.
    pub faults: u64,
}

/// The state of a drive of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServedDriveState {
    /// The drive is in use.
    Present,
    /// The drive does not work or is absent.
    Missing,
    /// The drive is being replaced or removed, and its data is being moved to other drives.
    Leaving,
    /// The drive is no longer part of the volume.
    Left,
}

impl ServedDrive {
    fn is_in_use(&self) -> bool {
        matches!(self.state, ServedDriveState::Present | ServedDriveState::Leaving)
    }
}

impl ServedVolume {
    fn of(name: &str, tally: &Tally) -> Option<ServedVolume> {
        let state = tally.volume.as_ref()?;
        let path = |lane: u16| tally.lanes.get(usize::from(lane)).map(|disk| &*disk.file);
        let on_lane = |drive: &VolumeDrive| ServedDrive {
            number: drive.number,
            path: path(drive.lane).map(PathBuf::from),
            // A drive counts as gone only once a durable record says so.
            state: match state.members.contains(&drive.number) || drive.is_member {
                false => ServedDriveState::Left,
                true if !drive.is_present => ServedDriveState::Missing,
                true if drive.is_leaving => ServedDriveState::Leaving,
                true => ServedDriveState::Present,
            },
            free_bytes: drive.free_bytes,
            faults: drive.faults,
        };
        let mut drives: Vec<ServedDrive> = state.drives.iter().map(on_lane).collect();
        let is_known = |number: &u8| state.drives.iter().any(|drive| drive.number == *number);
        let absent = state.members.iter().filter(|number| !is_known(number));
        drives.extend(absent.map(|&number| ServedDrive {
            number,
            path: None,
            state: ServedDriveState::Missing,
            free_bytes: 0,
            faults: 0,
        }));
        drives.sort_by_key(|drive| drive.number);
        let any = |of: ServedDriveState| drives.iter().any(|drive| drive.state == of);
        let is_whole = !any(ServedDriveState::Missing) && !state.lacks_records && !state.lacks_room;
        let health = match (state.lost_units, state.lacking_chunks) {
            (1.., _) => VolumeHealth::Lost,
            (0, 0) if is_whole => VolumeHealth::Healthy,
            _ => VolumeHealth::Degraded,
        };
        Some(ServedVolume {
            name: name.to_string(),
            health,
            capacity_bytes: state.capacity_bytes,
            is_growing: state.is_growing,
            tolerates: state.tolerates,
            drives,
            lacking_chunks: state.lacking_chunks,
            lost_units: state.lost_units,
            rotten_blocks: state.rotten_blocks,
            repaired_chunks: state.repaired_chunks,
            moved_chunks: state.moved_chunks,
            checks: state.checks,
            is_checking: state.is_checking,
            limit_bytes_per_s: state.limit_bytes_per_s,
            work: state.work.map(|progress| progress.work.name().to_string()),
            work_percent: state.work.map(|work| work.percent()),
            records_left: state.records_left,
            lacks_room: state.lacks_room,
        })
    }

    /// Returns whether background work is in progress.
    pub fn is_busy(&self) -> bool {
        let leaves = |drive: &ServedDrive| drive.state == ServedDriveState::Leaving;
        self.is_checking || self.moves() || self.drives.iter().any(leaves)
    }

    /// Returns whether data or records are being restored or moved.
    pub(crate) fn moves(&self) -> bool {
        self.is_growing || self.work.is_some() || self.records_left > 0
    }

    /// Returns whether this drive belongs to the volume.
    pub(crate) fn has(&self, number: u8) -> bool {
        let is_it = |drive: &&ServedDrive| drive.number == number;
        self.drives.iter().find(is_it).is_some_and(|it| it.state != ServedDriveState::Left)
    }

    /// Returns the present drive at a path.
    fn present_at(&self, path: &Path) -> Option<&ServedDrive> {
        let real = path.canonicalize().ok();
        self.drives.iter().find(|drive| {
            let path = drive.path.as_deref().and_then(|path| path.canonicalize().ok());
            drive.state == ServedDriveState::Present && path.is_some() && path == real
        })
    }
}

impl Driver {
    /// Returns the state of the volume.
    ///
    /// # Errors
    /// The back is not a volume, or is no longer served.
    pub(crate) fn volume(&self) -> Result<ServedVolume, Error> {
        let tally = self.tally(PATIENCE)?;
        ServedVolume::of(&self.name, &tally).ok_or_else(|| self.is_no_volume())
    }

    fn is_no_volume(&self) -> Error {
        unfit(format!("'{}' is a disk, expected a volume", self.name))
    }

    /// Passes an order to the policy of the volume.
    ///
    /// # Errors
    /// The order cannot be carried out.
    pub(crate) fn order_volume(&self, order: VolumeOrder) -> Result<(), Error> {
        let (done, carried) = channel();
        self.order(Order::Volume(order, done))?;
        let carried = carried.recv().map_err(|_| self.is_gone())?;
        carried.map_err(|why| unfit(format!("'{}': {why}", self.name)))
    }

    /// Waits as long as `goes_on` returns true for the state of the volume and `progress` returns
    /// true; returns the last state.
    pub(crate) fn wait_for_volume(
        &self,
        progress: &mut dyn FnMut(&ServedVolume) -> bool,
        goes_on: impl Fn(&ServedVolume) -> bool,
    ) -> Result<ServedVolume, Error> {
        loop {
            thread::sleep(LOOKS);
            let state = self.volume()?;
            if !goes_on(&state) || !progress(&state) {
                return Ok(state);
            }
        }
    }

    /// Makes the drive at `with` replace a drive of the volume, given by its number or path, or the
    /// only missing one. Returns the numbers of both once a durable record lists the new drive. The
    /// data is then moved or restored in the background.
    ///
    /// # Errors
    /// There is no such drive, or the new drive cannot be used.
    pub(crate) fn replace_drive(
        &self,
        which: Option<&str>,
        with: &Path,
        overwrite: bool,
    ) -> Result<(u8, u8), Error> {
        // The lock prevents two new drives from getting the same number.
        let _alone = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let volume = self.volume()?;
        let old = volume.drive_to_replace(which)?;
        if let Some(new) = volume.present_at(with) {
            return Err(unfit(format!(
                "'{}': {} is drive {} of the volume already; to complete an interrupted replacement of drive \
                 {old}, or to remove drive {old} without a replacement, run `forebay control remove --drive {old}`",
                self.name,
                with.display(),
                new.number,
                old = old.number
            )));
        }
        let number = self.join_drive(&volume, with, overwrite, Purpose::Replaces(old.number))?;
        self.name_drives(|drives| {
            let named = drives.iter().position(|drive| Some(drive) == old.path.as_ref());
            match named {
                Some(at) => drives[at] = with.to_path_buf(),
                None => name_new(drives, with),
            }
        });
        Ok((old.number, number))
    }

    /// Adds drives to the volume, or continues to grow if there are none, or if they are drives of
    /// the volume already. Returns their numbers once durable records list them. The volume grows
    /// in the background.
    ///
    /// # Errors
    /// A drive is missing, or a new drive cannot be used.
    pub(crate) fn add_drives(
        &self,
        with: &[PathBuf],
        is_ssd: bool,
        overwrite: bool,
    ) -> Result<Vec<u8>, Error> {
        let _alone = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut numbers = Vec::new();
        for path in with {
            let volume = self.volume()?;
            volume.refuse_incomplete()?;
            numbers.push(match volume.present_at(path) {
                Some(drive) => drive.number,
                None => self.join_drive(&volume, path, overwrite, Purpose::Adds { is_ssd })?,
            });
            self.name_drives(|drives| name_new(drives, path));
        }
        let volume = self.volume()?;
        volume.refuse_incomplete()?;
        if !volume.is_growing {
            self.order_volume(VolumeOrder::Grow)?;
        }
        Ok(numbers)
    }

    /// Removes a drive, given by its number or path, from the volume, and returns its number. The
    /// drive's data is moved to the other drives in the background.
    ///
    /// # Errors
    /// There is no such drive, or the others have no space for its data.
    pub(crate) fn remove_drive(&self, which: &str) -> Result<u8, Error> {
        let _alone = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let volume = self.volume()?;
        let drive = volume.drive(Some(which))?;
        let member = drive.number;
        if drive.state == ServedDriveState::Leaving {
            return Ok(member);
        }
        self.order_volume(VolumeOrder::Retire { member })?;
        self.name_drives(|drives| drives.retain(|path| Some(path) != drive.path.as_ref()));
        Ok(member)
    }

    /// Makes the drive at `path` join the volume. Returns its number once a durable record lists
    /// it.
    fn join_drive(
        &self,
        volume: &ServedVolume,
        path: &Path,
        overwrite: bool,
        purpose: Purpose,
    ) -> Result<u8, Error> {
        let present = volume.drives.iter().filter(|drive| drive.is_in_use());
        let present: Vec<PathBuf> = present.filter_map(|drive| drive.path.clone()).collect();
        self.refuse_joining(volume, path, purpose)?;
        let successor = prepare(&present, &volume.members(), path, overwrite)
            .map_err(|error| self.is_held_here(error, volume))?;
        let (number, (done, carried)) = (successor.number, channel());
        self.order(Order::Join(JoiningDrive { successor, purpose, done }))?;
        let carried = carried.recv().map_err(|_| self.is_gone())?;
        carried.map_err(|why| unfit(format!("'{}': {why}", self.name)))?;
        let state = self.wait_for_member(number)?;
        admit(path, &state.members)?;
        Ok(number)
    }

    /// Explains that a drive is in use because it belonged to the volume.
    fn is_held_here(&self, error: forebay_volume::Error, volume: &ServedVolume) -> Error {
        let forebay_volume::Error::InUse(path) = &error else { return error.into() };
        let real = path.canonicalize().ok();
        let is_it = |file: &Path| real.is_some() && file.canonicalize().ok() == real;
        let in_use = volume.drives.iter().filter(|drive| drive.is_in_use());
        let is_member = in_use.filter_map(|drive| drive.path.as_deref()).any(is_it);
        let lanes = self.tally(PATIENCE).map_or_else(|_| Vec::new(), |tally| tally.lanes);
        let was_member = lanes.iter().any(|disk| is_it(Path::new(&*disk.file)));
        match was_member && !is_member {
            false => error.into(),
            true => unfit(format!(
                "'{}': {} was a drive of this volume until it failed or was removed, and the server \
                 still has it open; restart the server to add it again",
                self.name,
                path.display()
            )),
        }
    }

    /// Rejects drives that cannot join the volume before anything is written.
    fn refuse_joining(
        &self,
        volume: &ServedVolume,
        path: &Path,
        purpose: Purpose,
    ) -> Result<(), Error> {
        let (name, most) = (&self.name, usize::from(forebay_volume::DRIVES_MAX));
        let tally = self.tally(PATIENCE)?;
        let takes_place = |number: u8| {
            let is_it = |drive: &&ServedDrive| drive.number == number;
            let drive = volume.drives.iter().find(is_it);
            drive.is_some_and(|drive| drive.state == ServedDriveState::Missing)
        };
        let needs_place = match purpose {
            Purpose::Replaces(number) => !takes_place(number),
            Purpose::Adds { .. } => true,
        };
        let members = volume.members().len();
        if needs_place && members >= most {
            return Err(unfit(format!(
                "'{name}': got another drive for a volume of {members}, expected at most {most}; \
                 remove one first (`forebay control remove`)"
            )));
        }
        if tally.lanes.len() >= most {
            return Err(unfit(format!(
                "'{name}': {} drives have been opened since the server was started, and \
                 at most {most} are possible; restart the server, then add {}",
                tally.lanes.len(),
                path.display()
            )));
        }
        Ok(())
    }

    /// Changes the paths of the drives, which matter when the configuration is read again.
    fn name_drives(&self, change: impl FnOnce(&mut Vec<PathBuf>)) {
        if let On::Volume(drives) = &mut self.current().on {
            change(drives);
        }
    }

    /// Waits until a durable record lists a drive.
    fn wait_for_member(&self, number: u8) -> Result<VolumeState, Error> {
        let until = Instant::now() + MEMBER_MAX;
        loop {
            let tally = self.tally(PATIENCE)?;
            let state = tally.volume.ok_or_else(|| self.is_no_volume())?;
            let drive = state.drives.iter().find(|drive| drive.number == number);
            match drive {
                Some(drive) if drive.is_member => return Ok(state),
                Some(drive) if drive.is_present && Instant::now() < until => {
                    thread::sleep(LOOKS / 10);
                }
                _ => {
                    return Err(unfit(format!(
                        "'{}': the new drive failed, or no record could be written, before it became part of \
                         the volume",
                        self.name
                    )));
                }
            }
        }
    }
}

/// Adds the path of a new drive, unless it is in a folder of drives or named already.
fn name_new(drives: &mut Vec<PathBuf>, path: &Path) {
    if !drives.iter().any(|drive| path.starts_with(drive)) {
        drives.push(path.to_path_buf());
    }
}

impl ServedVolume {
    /// Returns the numbers of the drives that are a part of the volume.
    fn members(&self) -> Vec<u8> {
        let numbers = self.drives.iter().map(|drive| drive.number);
        numbers.filter(|number| self.has(*number)).collect()
    }

    fn refuse_incomplete(&self) -> Result<(), Error> {
        let is_missing = |drive: &&ServedDrive| drive.state == ServedDriveState::Missing;
        match self.drives.iter().find(is_missing) {
            None => Ok(()),
            Some(drive) => Err(unfit(format!(
                "'{}': drive {} is missing, and only a complete volume can grow; replace the drive first",
                self.name, drive.number
            ))),
        }
    }

    /// Returns the drive to replace: the one with this number or path, or the only missing one.
    fn drive_to_replace(&self, which: Option<&str>) -> Result<&ServedDrive, Error> {
        let drive = self.drive(which)?;
        match drive.state {
            ServedDriveState::Leaving => Err(unfit(format!(
                "'{}': drive {} is already being removed from the volume",
                self.name, drive.number
            ))),
            _ => Ok(drive),
        }
    }

    /// Returns the drive with this number or path, or the only missing one.
    fn drive(&self, which: Option<&str>) -> Result<&ServedDrive, Error> {
        let name = &self.name;
        let listed = |drives: &[&ServedDrive]| {
            let numbers: Vec<String> = drives.iter().map(|it| it.number.to_string()).collect();
            numbers.join(", ")
        };
        let members = || self.drives.iter().filter(|it| it.state != ServedDriveState::Left);
        let members: Vec<&ServedDrive> = members().collect();
        let Some(which) = which else {
            let is_missing = |it: &&&ServedDrive| it.state == ServedDriveState::Missing;
            let missing: Vec<&ServedDrive> = members.iter().filter(is_missing).copied().collect();
            return match missing[..] {
                [one] => Ok(one),
                [] => Err(unfit(format!(
                    "'{name}': no drive is missing, so the drive to replace must be specified; the \
                     volume's drives are {}",
                    listed(&members)
                ))),
                _ => Err(unfit(format!(
                    "'{name}': drives {} are missing; specify which one to replace",
                    listed(&missing)
                ))),
            };
        };
        let real = std::fs::canonicalize(which).ok();
        let is_it_of = |it: &&ServedDrive| {
            let path = it.path.as_deref();
            let is_path = path.is_some_and(|path| {
                path == Path::new(which) || real.is_some() && path.canonicalize().ok() == real
            });
            which.parse() == Ok(it.number) || is_path
        };
        members.iter().copied().find(is_it_of).ok_or_else(|| {
            unfit(format!(
                "'{name}': got '{which}', expected the number or path of one of its drives: {}",
                listed(&members)
            ))
        })
    }
}
