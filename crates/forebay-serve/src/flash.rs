//! A disk and its flash: checks both before they are served, and writes marks to both when serving
//! begins (docs/placement-log.md). Each mark records whether the other device may have newer data.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

use forebay_ask::named;
use forebay_core::contract::Gauge;
use forebay_core::stack::{
    LABEL_BYTES, LabelFound, PLACEMENT_LOG_VERSION, Pairing, found_label, put_generation,
};
use forebay_live::checksum;
use forebay_words::plural::counted;

use crate::Back;
use crate::back::{keeps_data, uses_flash};
use crate::error::{Error, system, unfit};
use crate::mark::{self, MARK_BYTES, Mark, MarkFound, VERSION, mark_at};
use crate::pairing::{FlashFound, Standing, Why, Wish, decide};

/// A disk with an existing or new mark, and the disk's flash.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    disk: PathBuf,
    flash: Option<PathBuf>,
    /// The position of the mark, which is also the end of the exports.
    at: u64,
    pairing: Pairing,
    /// The mark to write when serving begins.
    mark: Option<Mark>,
    /// Whether nothing may be written.
    read_only: bool,
}

/// Determines how to serve `back`, whose disk has `disk_bytes` bytes: with a mark if the disk has
/// one or needs one. Adds a note about everything that was forced.
///
/// # Errors
/// The newest data may be elsewhere, or the flash belongs to another disk.
pub(crate) fn look(
    back: &Back,
    disk: &Path,
    flash: Option<&Path>,
    disk_bytes: u64,
    notes: &mut Vec<String>,
) -> Result<Option<Pair>, Error> {
    let names = Names { back: &back.name, disk, flash };
    let file = File::open(disk).map_err(|error| names.reading(disk, &error))?;
    let found = mark::read(&file, disk_bytes).map_err(|error| names.reading(disk, &error))?;
    if found == MarkFound::None && !back.force {
        let shorter = mark::was_shorter(&file, disk_bytes);
        if let Some(before) = shorter.map_err(|error| names.reading(disk, &error))? {
            return Err(names.longer(disk_bytes, before));
        }
    }
    refuse_flash(&names, back.force, notes)?;
    let wish = Wish {
        keeps_data: keeps_data(&back.policy),
        uses_flash: uses_flash(&back.policy),
        formats: back.policy.contains("format=yes"),
        force: back.force,
    };
    let on_flash = flash.map(|path| look_at(path).map_err(|error| names.reading(path, &error)));
    let on_flash = on_flash.transpose()?;
    let (standing, forced) = decide(found, on_flash, wish).map_err(|why| names.refused(why))?;
    notes.extend(forced.map(|why| names.forced(why)));
    if back.read_only && wish.uses_flash {
        return Err(unfit(format!(
            "'{}': read_only: got '{}', which writes to its flash, expected a scheduler; leave \
             read_only out, or set it for the exports",
            back.name, back.policy
        )));
    }
    let at = |what| mark_at(disk_bytes).ok_or_else(|| names.no_room(what));
    let (read_only, keep) = (back.read_only, flash.filter(|_| wish.keeps_data));
    let pair = |at, pairing, mark| Pair {
        disk: disk.to_path_buf(),
        flash: keep.map(Path::to_path_buf),
        at,
        pairing,
        mark,
        read_only,
    };
    let paired = match standing {
        Standing::Unmarked => return Ok(None),
        Standing::Alone(mark) => return Ok(Some(pair(at("")?, Pairing::default(), mark))),
        Standing::Paired { pairing, mark } => pair(at("its mark")?, pairing, Some(mark)),
        Standing::Begun => {
            let drawn = draw().map_err(system("drawing a number for the pair"))?;
            let pairing = Pairing { pair: drawn, ..Pairing::default() };
            let mark = Mark { pair: drawn, generation: 1, ..Mark::default() };
            pair(at("its mark")?, pairing, Some(mark))
        }
    };
    // Only zeros or an older mark may be overwritten.
    let from = if found == MarkFound::None { paired.at } else { paired.at + MARK_BYTES };
    let is_free = mark::is_free(&file, from, disk_bytes);
    if !is_free.map_err(|error| names.reading(disk, &error))? {
        return Err(names.no_room("its mark"));
    }
    if back.force {
        notes.push(format!(
            "'{}': force: the newest record of {} is damaged or missing and is ignored",
            back.name,
            names.flash()
        ));
    }
    if found == MarkFound::None {
        notes.push(format!(
            "{}: its last {} bytes hold the mark that binds it to its flash; {} are served",
            disk.display(),
            disk_bytes - paired.at,
            paired.at
        ));
    }
    Ok(Some(paired))
}

/// Rejects a disk that is the flash of another disk, because writing to it would destroy the log.
/// With `force`, adds a note instead.
fn refuse_flash(names: &Names<'_>, force: bool, notes: &mut Vec<String>) -> Result<(), Error> {
    let whose = match look_at(names.disk).map_err(|error| names.reading(names.disk, &error))? {
        FlashFound::Of(label) => format!(" (pair {})", uuid(label.pair)),
        FlashFound::Version(version) => format!(" (a placement log of format {version})"),
        FlashFound::Damaged => " (a placement log with damaged labels)".to_string(),
        FlashFound::Blank | FlashFound::Other => return Ok(()),
    };
    let what = format!(
        "'{}': {} is the flash of a disk{whose}, and may have the only copy of its newest data",
        names.back,
        names.disk.display()
    );
    if force {
        notes.push(format!("{what}; it is served anyway"));
        return Ok(());
    }
    Err(unfit(format!(
        "{what}; serve that disk with this file as its flash; {} serves the flash itself as a disk",
        force_input()
    )))
}

/// Returns the name of the option that forces serving, for messages.
fn force_input() -> String {
    named("force=true")
}

/// Rejects a policy that would overwrite the log on this flash.
///
/// # Errors
/// The flash contains a log.
pub(crate) fn refuse_overwriting(name: &str, policy: &str, flash: &Path) -> Result<(), Error> {
    let names = Names { back: name, disk: flash, flash: Some(flash) };
    let found = look_at(flash).map_err(|error| names.reading(flash, &error))?;
    match found {
        FlashFound::Of(label) if uses_flash(policy) && !keeps_data(policy) => {
            Err(names.refused(Why::UnusedLog(label.id)))
        }
        _ => Ok(()),
    }
}

impl Pair {
    /// Returns the size of the part of the disk that may be exported.
    pub(crate) fn bytes(&self) -> u64 {
        self.at
    }

    /// Returns the requirements on the log on the flash.
    pub(crate) fn pairing(&self) -> Pairing {
        self.pairing
    }

    /// Records that both devices are served from now on: durably writes a new generation to flash
    /// and disk before clients are accepted.
    ///
    /// # Errors
    /// The disk or the flash cannot be written.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        let Some(mark) = self.mark.filter(|_| !self.read_only) else { return Ok(()) };
        let Some(flash) = self.flash.clone() else { return self.put(mark) };
        let label = |generation, is_confirmed| {
            relabel(&flash, generation, is_confirmed)
                .map_err(system(format!("{}: writing its label", flash.display())))
        };
        // Use the id of the pair, which a newly initialized flash has just received.
        let mark = Mark { pair: self.pairing.pair, ..mark };
        label(mark.generation, false)?;
        self.put(mark)?;
        label(mark.generation, true)?;
        self.mark = Some(mark);
        Ok(())
    }

    /// Updates the mark with the state of the log from the policy's gauges, once everything written
    /// is durable.
    ///
    /// # Errors
    /// The disk cannot be written.
    pub(crate) fn end(&self, gauges: &[Gauge]) -> Result<(), Error> {
        let of = |name| gauges.iter().find(|gauge| gauge.name == name).map(|gauge| gauge.value);
        let (Some(mark), Some(newest), Some(named)) =
            (self.mark, of("log_newest"), of("log_named"))
        else {
            return Ok(());
        };
        if !self.has_log() {
            return Ok(());
        }
        self.put(Mark { newest: newest as u64, is_drained: named == 0.0, ..mark })
    }

    /// Records the number of the flash's newest log record in the disk's mark, so that an older
    /// copy of the flash is detected.
    ///
    /// # Errors
    /// The disk cannot be written.
    pub(crate) fn keep_up(&self, newest: u64) -> Result<(), Error> {
        match self.mark.filter(|_| self.has_log()) {
            Some(mark) => self.put(Mark { newest, ..mark }),
            None => Ok(()),
        }
    }

    /// Returns whether there is a log that grows while the devices are served.
    pub(crate) fn has_log(&self) -> bool {
        !self.read_only && self.flash.is_some() && self.mark.is_some()
    }

    fn put(&self, mark: Mark) -> Result<(), Error> {
        let written = OpenOptions::new().write(true).open(&self.disk).and_then(|disk| {
            disk.write_all_at(&mark.block(self.at), self.at)?;
            disk.sync_data()
        });
        written.map_err(system(format!("{}: writing its mark", self.disk.display())))
    }
}

/// Durably writes a label with a new generation to the flash.
fn relabel(path: &Path, generation: u64, is_confirmed: bool) -> io::Result<()> {
    let flash = OpenOptions::new().read(true).write(true).open(path)?;
    let mut labels = [0; 2 * LABEL_BYTES];
    flash.read_exact_at(&mut labels, 0)?;
    let whole = labels
        .chunks_exact(LABEL_BYTES)
        .find(|label| matches!(found_label(label, checksum(&label[8..])), LabelFound::Of(_)));
    let mut label = whole.ok_or(io::ErrorKind::InvalidData)?.to_vec();
    put_generation(&mut label, generation, is_confirmed);
    let sum = checksum(&label[8..]);
    label[..8].copy_from_slice(&sum.to_le_bytes());
    flash.write_all_at(&[&label[..], &label[..]].concat(), 0)?;
    flash.sync_data()
}

/// Reads the labels of a flash.
fn look_at(path: &Path) -> io::Result<FlashFound> {
    // A target that is not a disk is reported when it is opened.
    if !std::fs::metadata(path).is_ok_and(|it| it.is_file() || it.file_type().is_block_device()) {
        return Ok(FlashFound::Blank);
    }
    let mut labels = [0; 2 * LABEL_BYTES];
    let count = File::open(path)?.read_at(&mut labels, 0)?;
    let of = |label: &[u8]| found_label(label, checksum(&label[8..]));
    let found: Vec<LabelFound> = labels[..count].chunks_exact(LABEL_BYTES).map(of).collect();
    // If writing the labels was interrupted, the newer intact label counts.
    let whole = found.iter().filter_map(|label| match label {
        LabelFound::Of(label) => Some(*label),
        _ => None,
    });
    if let Some(label) = whole.max_by_key(|label| (label.generation, label.is_confirmed)) {
        return Ok(FlashFound::Of(label));
    }
    let version = found.iter().find_map(|label| match label {
        LabelFound::Version(version) => Some(*version),
        _ => None,
    });
    Ok(match version {
        Some(version) => FlashFound::Version(version),
        None if found.contains(&LabelFound::Damaged) => FlashFound::Damaged,
        None if labels.iter().all(|byte| *byte == 0) => FlashFound::Blank,
        None => FlashFound::Other,
    })
}

/// Generates a unique id for a pair.
fn draw() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

/// The names of the back and its devices, for messages.
struct Names<'a> {
    back: &'a str,
    disk: &'a Path,
    flash: Option<&'a Path>,
}

impl Names<'_> {
    fn flash(&self) -> String {
        self.flash.map_or_else(|| "the flash".to_string(), |path| path.display().to_string())
    }

    fn reading(&self, path: &Path, error: &io::Error) -> Error {
        unfit(format!("'{}': {}: reading it: {error}", self.back, path.display()))
    }

    fn no_room(&self, what: &str) -> Error {
        let disk = self.disk.display();
        unfit(format!(
            "'{}': {disk}: got data in its last bytes, or a disk of one block, expected zeros for \
             {what}, which binds it to its flash; make it longer (truncate -s +8192 {disk}), or \
             clear these bytes",
            self.back
        ))
    }

    fn longer(&self, bytes: u64, before: u64) -> Error {
        let disk = self.disk.display();
        unfit(format!(
            "'{}': {disk}: got {bytes} bytes, but it was {before} bytes long when it was bound to \
             its flash, which may have its newest data; expected that length: truncate -s \
             {before} {disk}; {} serves it as it is",
            self.back,
            force_input()
        ))
    }

    /// Explains why a disk and a flash cannot be served together.
    fn why(&self, why: Why) -> String {
        let (disk, flash) = (self.disk.display(), self.flash());
        match why {
            Why::NewestOnFlash(pair) => format!(
                "the newest data of {disk} are on its flash (pair {}), expected flash = \"FILE\" and the policy that it was \
                 served with",
                uuid(pair)
            ),
            Why::NewestOnOther(pair) => format!(
                "flash: {flash} is blank, expected one with a log (docs/placement-log.md): the newest data of {disk} are on \
                 another flash (pair {})",
                uuid(pair)
            ),
            Why::UnusedLog(id) => format!(
                "{flash} has the log of a cache or tiers (id {id}), and may have the only copy of \
                 the newest data of {disk}; expected the policy that it was served with; to \
                 remove the flash, serve it with that policy and drain it first (docs/placement-log.md)"
            ),
            Why::Blank => format!(
                "flash: {flash} {}, expected one with a log (docs/placement-log.md); \
                 format=yes in the policy initializes it",
                if Path::new(&flash.to_string()).exists() { "is blank" } else { "does not exist" }
            ),
            Why::Other => format!(
                "flash: {flash} has other data in place of the log, expected a log \
                 (docs/placement-log.md) or a blank flash, its first {} bytes zeros",
                2 * LABEL_BYTES
            ),
            Why::FlashVersion(version) => format!(
                "flash: {flash} has a placement log of format {version}, made by {} Forebay, \
                 expected format {PLACEMENT_LOG_VERSION}; serve it with that Forebay, copy the \
                 export to another disk, and initialize a blank flash",
                age(version, PLACEMENT_LOG_VERSION)
            ),
            Why::FlashDamaged => format!(
                "flash: both labels of the log on {flash} are damaged, expected an intact one \
                 (docs/placement-log.md); restore its first {} bytes from a copy",
                2 * LABEL_BYTES
            ),
            Why::MarkVersion(version) => format!(
                "{disk} has a mark of format {version}, made by {} Forebay, expected format {VERSION}: its newest data may \
                 be on a flash",
                age(version, VERSION)
            ),
            Why::MarkDamaged => format!(
                "the mark in the last block of {disk} is damaged, expected an intact one: its \
                 newest data may be on a flash"
            ),
            Why::Swapped(Some(own), pair) => format!(
                "flash: {flash} is the flash of another disk (pair {}), expected that of {disk} (pair {})",
                uuid(pair),
                uuid(own)
            ),
            Why::Swapped(None, pair) => format!(
                "flash: {flash} is the flash of another disk (pair {}), and {disk} has no mark, \
                 expected the disk that the flash was initialized with",
                uuid(pair)
            ),
            Why::FlashOlder(flash_times, disk_times) => format!(
                "flash: {flash} is an outdated copy, or {disk} was served without it: the flash \
                 was served {}, and the disk {}; expected the flash that was last served with it",
                times(flash_times),
                times(disk_times)
            ),
            Why::DiskOlder(flash_times, disk_times) => format!(
                "{disk} is an outdated copy: it was served {}, and its flash {flash} {}; expected \
                 the disk that was last served with it",
                times(disk_times),
                times(flash_times)
            ),
        }
    }

    fn refused(&self, why: Why) -> Error {
        let forced = match why {
            why if !why.yields() => String::new(),
            Why::NewestOnFlash(_) | Why::UnusedLog(_) => {
                format!("; {} serves the disk without that data", force_input())
            }
            Why::NewestOnOther(_) => format!("; {} discards that data", force_input()),
            _ => format!("; {} serves it as it is", force_input()),
        };
        unfit(format!("'{}': {}{forced}", self.back, self.why(why)))
    }

    fn forced(&self, why: Why) -> String {
        format!("'{}': warning: {}; it is served anyway", self.back, self.why(why))
    }
}

/// Formats a count: "once", "2 times".
fn times(count: u64) -> String {
    if count == 1 { "once".into() } else { counted(count, "time") }
}

fn age(version: u64, own: u64) -> &'static str {
    if version < own { "an older" } else { "a newer" }
}

/// Formats a pair's id as a UUID.
fn uuid(pair: u128) -> String {
    let hex = format!("{pair:032x}");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}
