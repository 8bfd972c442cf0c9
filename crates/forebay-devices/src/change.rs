//! What may be said behind a disk's name: `:queue-depth=32`.

use forebay_core::device::drive::{BufferSpec, DriveSpec, ReadAhead};
use forebay_core::device::hdd::HddSpec;
use forebay_core::device::list::DeviceModel;
use forebay_core::{Spec, SpecError};

use super::file::{DeviceFile, Fault};

/// Whose fault it is that there is no such drive.
pub(super) enum Wrong {
    /// The file's.
    File(Fault),
    /// What was said behind the name.
    Name(SpecError),
}

/// The buffer of a drive that queues commands and whose file names none: 8 MiB in 16 segments, which
/// reads ahead by half a segment. Common figures of SATA drives; it stands in for the read-ahead
/// that the plain disk is taken to do.
const TRACK_BUFFER: BufferSpec = BufferSpec {
    segments: 16,
    segment_sectors: 1024,
    read_ahead: ReadAhead::Limit,
    read_ahead_sectors: 512,
    hits_on_written: false,
    almost_hits: true,
    read_ahead_on_hit: true,
    read_ahead_replaces: false,
    stop_in_sector: false,
    read_before: false,
    watermark_share: 0.0,
};

impl DeviceFile {
    /// The disk, taking commands as `changes` says.
    pub(super) fn changed(&self, changes: &Spec) -> Result<(DeviceModel, String), Wrong> {
        let (spec, drive) = self.specs().map_err(Wrong::File)?;
        let depth = changes.at_least("queue-depth", 1, 1).map_err(Wrong::Name)?;
        changes.finish().map_err(Wrong::Name)?;
        let mut drive = match drive {
            Some(drive) => drive,
            None => self.queueing(&spec).map_err(Wrong::File)?,
        };
        drive.controller.queue.depth = depth;
        let built = self.build(spec, Some(drive));
        built.map_err(|(_, what)| Wrong::Name(SpecError(format!("'{}': {what}", changes.text()))))
    }

    /// A plain disk with what a drive that queues commands has too: a track buffer.
    fn queueing(&self, disk: &HddSpec) -> Result<DriveSpec, Fault> {
        let mut controller = self.tables().controller(disk.overhead)?;
        controller.buffer = Some(TRACK_BUFFER);
        Ok(DriveSpec { disk: disk.clone(), format: None, controller })
    }
}
