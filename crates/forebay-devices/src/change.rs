//! Modifiers that may follow a disk's name: `:plain`, `:queue-depth=32`, `:write-cache=off`.

use forebay_core::device::drive::{BufferSpec, DriveSpec, ReadAhead};
use forebay_core::device::hdd::HddSpec;
use forebay_core::{Nanos, Spec, SpecError};

use super::file::{DeviceFile, TomlError};

/// Where the error in a drive specification is.
pub(super) enum DriveError {
    /// The error is in the device file.
    File(TomlError),
    /// The error is in the modifiers after the device name.
    Name(SpecError),
}

/// The modifier that models only the arm and platters, without the controller.
pub(super) const PLAIN: &str = "plain";

/// The catch margin, in revolutions, that is assumed for disks without measurements. Measured
/// desktop disks have 0.33 and 0.45.
pub(super) const MARGIN_TURNS: f64 = 0.36;
/// The range of plausible catch margins, in revolutions.
pub(super) const MARGIN_RANGE_TURNS: [f64; 2] = [0.25, 0.45];

/// The buffer assumed for a drive that queues commands but whose file specifies no buffer: 8 MiB in
/// 16 segments, with read-ahead of half a segment. These figures are common for SATA drives. The
/// buffer replaces the read-ahead assumed for plain disks.
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
    /// Applies `changes` and returns the arm and platters and, for a disk with a controller, the
    /// whole drive.
    pub(super) fn changed(
        &self,
        changes: Option<&Spec>,
    ) -> Result<(HddSpec, Option<DriveSpec>), DriveError> {
        let (disk, drive) = self.specs().map_err(DriveError::File)?;
        let Some(changes) = changes else { return Ok((disk, drive)) };
        let asked = ModifierValues::of(changes).map_err(DriveError::Name)?;
        if asked.plain {
            return Ok((disk, None));
        }
        let Some(depth) = asked.queue_depth else {
            return Ok((disk, drive.map(|drive| asked.caching(drive))));
        };
        let mut drive = match drive {
            Some(drive) => asked.caching(drive),
            None => self.queueing(&disk).map_err(DriveError::File)?,
        };
        let queue = &mut drive.controller.queue;
        if self.is_margin_unknown(depth) {
            queue.catch_margin = turns(&disk, MARGIN_TURNS);
        }
        queue.depth = depth;
        Ok((disk, Some(drive)))
    }

    /// Returns true if the catch margin for `depth` queued commands must be assumed because the
    /// file describes only one command at a time.
    fn is_margin_unknown(&self, depth: u32) -> bool {
        let tables = self.tables();
        depth > 1 && tables.queue_depth().is_none_or(|own| own <= 1) && !tables.has_catch_margin()
    }

    /// Returns the range of a catch margin that is only a guess: the range in the file, or the
    /// plausible range if the file does not describe a queue. Returns None for drives that do not
    /// reorder commands.
    pub(super) fn catch_margin_range(
        &self,
        disk: &HddSpec,
        drive: Option<&DriveSpec>,
    ) -> Result<Option<[Nanos; 2]>, TomlError> {
        let stated = self.tables().catch_margin_range()?;
        let depth = drive.map_or(1, |drive| drive.controller.queue.depth);
        if depth <= 1 {
            return Ok(None);
        }
        let assumed = MARGIN_RANGE_TURNS.map(|share| turns(disk, share));
        Ok(stated.or(self.is_margin_unknown(depth).then_some(assumed)))
    }

    /// Adds a track buffer to a plain disk, because drives with command queues have one.
    fn queueing(&self, disk: &HddSpec) -> Result<DriveSpec, TomlError> {
        let mut controller = self.tables().controller(disk.overhead)?;
        controller.buffer = Some(TRACK_BUFFER);
        Ok(DriveSpec { disk: disk.clone(), format: None, controller })
    }
}

/// Converts `share` revolutions of `disk` to a time.
fn turns(disk: &HddSpec, share: f64) -> Nanos {
    Nanos::from_secs_f64(disk.revolution.as_secs_f64() * share)
}

/// The values of the modifiers.
struct ModifierValues {
    plain: bool,
    queue_depth: Option<u32>,
    write_cache_off: bool,
}

impl ModifierValues {
    fn of(changes: &Spec) -> Result<ModifierValues, SpecError> {
        let wrong = |what: String| SpecError(format!("'{}': {what}", changes.text()));
        let plain = match changes.argument() {
            Some(word) if word.eq_ignore_ascii_case(PLAIN) => true,
            Some(word) => {
                let expected = "plain, queue-depth=COMMANDS or write-cache=off";
                return Err(wrong(format!("got '{word}', expected {expected}")));
            }
            None => false,
        };
        let is_said = !changes.get("queue-depth", String::new(), "")?.is_empty();
        let depth = changes.at_least("queue-depth", 1, 1)?;
        let write_cache_off = changes.choice("write-cache", &["as-shipped", "off"])? == 1;
        changes.finish()?;
        if plain && (is_said || write_cache_off) {
            let what = "a plain disk has neither queue nor write cache; leave out one of them";
            return Err(wrong(what.to_string()));
        }
        Ok(ModifierValues { plain, queue_depth: is_said.then_some(depth), write_cache_off })
    }

    fn caching(&self, mut drive: DriveSpec) -> DriveSpec {
        if self.write_cache_off {
            drive.controller.write_cache = None;
        }
        drive
    }
}
