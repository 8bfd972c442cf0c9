//! Device models: disks, solid-state drives and cloud volumes by name or from a TOML file, and
//! constant-rate servers by spec.
//!
//! The bundled files are compiled in, so their names work everywhere. A message about an error in a
//! device file contains the file, the line, the invalid value, what is expected, and how to fix it.

#![forbid(unsafe_code)]

mod change;
pub mod closed;
pub mod disksim;
mod drive;
mod evidence;
mod file;
pub mod fit;
mod locate;
mod plausible;
mod price;
mod random;
mod refit;
mod reported;
mod sources;
mod ssd;
mod summary;
pub mod validate;
mod vary;
pub mod volume;
pub mod write;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use forebay_core::contract::near;
use forebay_core::device::drive::{Controller, Drive, DriveSpec};
use forebay_core::device::fixed::Fixed;
use forebay_core::device::hdd::{Hdd, HddSpec, SeekSpec};
use forebay_core::device::list;
use forebay_core::{DeviceModel, Nanos, Spec, SpecError};
use forebay_trace::whole;

use change::DriveError;
use closed::Host;
pub use evidence::{Basis, Evidence};
use file::{DeviceFile, DeviceKind};
pub use price::Price;
pub use reported::reported_as;
pub use sources::{FigureSource, Sources};
use ssd::SsdFile;
pub use vary::Varied;

/// The bundled device files by name.
const BUNDLED: &[(&str, &str)] = &[
    ("990-pro", include_str!("../devices/990-pro.toml")),
    ("990-pro-sustained", include_str!("../devices/990-pro-sustained.toml")),
    ("cheetah-15k7", include_str!("../devices/cheetah-15k7.toml")),
    ("d7-p5520", include_str!("../devices/d7-p5520.toml")),
    ("exos-x18", include_str!("../devices/exos-x18.toml")),
    ("hc550", include_str!("../devices/hc550.toml")),
    ("hdd-500gb", include_str!("../devices/hdd-500gb.toml")),
    ("kxg6aznv512g", include_str!("../devices/kxg6aznv512g.toml")),
    ("mg08", include_str!("../devices/mg08.toml")),
    ("mtfdhba256tck", include_str!("../devices/mtfdhba256tck.toml")),
    ("sa2000m8250g", include_str!("../devices/sa2000m8250g.toml")),
    ("samsung-830", include_str!("../devices/samsung-830.toml")),
    ("sata250", include_str!("../devices/sata250.toml")),
    ("st1000lm035", include_str!("../devices/st1000lm035.toml")),
    ("st1000nm0011", include_str!("../devices/st1000nm0011.toml")),
    ("st2000dm006", include_str!("../devices/st2000dm006.toml")),
    ("st2000dm008", include_str!("../devices/st2000dm008.toml")),
    ("st91000640ss", include_str!("../devices/st91000640ss.toml")),
    ("travelstar-5k320", include_str!("../devices/travelstar-5k320.toml")),
    ("ultrastar-36z15", include_str!("../devices/ultrastar-36z15.toml")),
    ("wd-raptor-73gb-10k", include_str!("../devices/wd-raptor-73gb-10k.toml")),
    ("wd10ezex", include_str!("../devices/wd10ezex.toml")),
];

/// Common 7200-rpm drives that represent disks of their size if the user names no device. Other
/// drives must be named: laptop, 15000-rpm and shingled drives, and further nearline ones.
const GENERAL: &[&str] = &["sata250", "st1000nm0011", "exos-x18"];

/// A device that is ready to be simulated.
#[derive(Clone, Debug)]
pub struct OpenDevice {
    /// The name to show in tables.
    pub name: String,
    /// The manufacturer, model and year of a drive, or how a server behaves.
    pub description: String,
    /// The main parameters on one line.
    pub summary: String,
    /// Unusual values in the device file, which the user should check.
    pub notes: Vec<String>,
    /// Which of the device's parameters are guesses.
    pub sources: Sources,
    /// The basis of the device's times, and their errors.
    pub evidence: Evidence,
    /// The overhead of the host that measured the device, if it is a fitted solid-state drive.
    pub host: Host,
    /// The price and its date, if the device file contains a price.
    pub price: Option<Price>,
    /// Whether tracks overlap. The model of random writes does not apply to such drives.
    pub shingled: bool,
    /// The number of TB that may be written before a solid-state drive counts as worn out, if the
    /// device file says so.
    pub endurance_tb: Option<f64>,
    /// The model, in the idle state at the start of a run.
    pub model: DeviceModel,
    /// A disk's arm and platters, and which of their parameters are guesses.
    mechanics: Option<(HddSpec, Sources)>,
    /// All parameters of a disk with a controller.
    drive: Option<DriveSpec>,
    /// The range of the drive's catch margin, if the margin is a guess.
    catch_margin_range: Option<[Nanos; 2]>,
    /// The volume's type and the user's choices.
    pub volume: Option<Box<volume::ChosenVolume>>,
}

impl OpenDevice {
    /// Returns this disk without its controller, or None if the device is not a disk or has no
    /// controller.
    pub fn plain(&self) -> Option<OpenDevice> {
        let (DeviceModel::Drive(_), Some((disk, sources))) = (&self.model, &self.mechanics) else {
            return None;
        };
        let name = self.name.split(':').next().unwrap_or_default();
        let model = DeviceModel::Hdd(Hdd::new(disk.clone()).ok()?);
        let (name, sources) = (format!("{name}:{}", change::PLAIN), sources.clone());
        Some(OpenDevice { name, sources, model, catch_margin_range: None, ..self.clone() })
    }

    /// Returns the range of the drive's catch margin, or None if the margin is known or the drive
    /// does not reorder commands.
    pub fn catch_margin_range(&self) -> Option<[Nanos; 2]> {
        self.catch_margin_range
    }

    /// Returns this drive with its write cache turned off, or None if it has no write cache.
    pub fn without_write_cache(&self) -> Option<OpenDevice> {
        let DeviceModel::Drive(drive) = &self.model else { return None };
        let model = DeviceModel::Drive(Box::new(drive.without_write_cache()?));
        let name = format!("{}:write-cache=off", self.name);
        let drive = self.changed(|controller| controller.write_cache = None);
        Some(OpenDevice { name, model, drive, ..self.clone() })
    }

    /// Returns this drive with the given queue depth, or None if the drive does not support that
    /// depth.
    pub fn at_queue_depth(&self, depth: u32) -> Option<OpenDevice> {
        let DeviceModel::Drive(drive) = &self.model else { return None };
        let model = DeviceModel::Drive(Box::new(drive.at_queue_depth(depth)?));
        let name = format!("{}:queue-depth={depth}", self.name);
        let drive = self.changed(|controller| controller.queue.depth = depth);
        let catch_margin_range = self.catch_margin_range.filter(|_| depth > 1);
        Some(OpenDevice { name, model, drive, catch_margin_range, ..self.clone() })
    }

    /// Returns this disk with an arm that is always in position, so that only rotation takes time,
    /// or None if the device has no arm.
    pub fn without_seeks(&self) -> Option<OpenDevice> {
        let still = |disk: &HddSpec| HddSpec {
            seek: SeekSpec::Coefficients {
                short_ns: 0.0,
                root_ns: 0.0,
                long_ns: 0.0,
                cylinder_ns: 0.0,
                knee: 1,
            },
            write_settle: Nanos::ZERO,
            ..disk.clone()
        };
        let model = match &self.model {
            DeviceModel::Hdd(_) => {
                DeviceModel::Hdd(Hdd::new(still(&self.mechanics.as_ref()?.0)).ok()?)
            }
            DeviceModel::Drive(_) => {
                let drive = self.drive.as_ref()?;
                let drive = DriveSpec { disk: still(&drive.disk), ..drive.clone() };
                DeviceModel::Drive(Box::new(Drive::new(&drive).ok()?))
            }
            DeviceModel::Fixed(_) | DeviceModel::Ssd(_) | DeviceModel::Throttled(_) => return None,
        };
        Some(OpenDevice { model, ..self.clone() })
    }

    /// Returns the time of a revolution, or None if the device has no platters.
    pub fn revolution(&self) -> Option<Nanos> {
        let (disk, _) = self.mechanics.as_ref()?;
        Some(disk.revolution)
    }

    /// Returns the parameters of this disk after applying `change` to its controller, or None if it
    /// has none.
    fn changed(&self, change: impl FnOnce(&mut Controller)) -> Option<DriveSpec> {
        let mut drive = self.drive.clone()?;
        change(&mut drive.controller);
        Some(drive)
    }

    /// Returns one device per lane for a policy that needs servers of `rates_iops`
    /// ([`forebay_core::Policy::servers`]). A constant-rate server is divided in proportion to the
    /// rates; any other device is replicated. Without rates, returns one device.
    pub fn lanes(&self, rates_iops: &[u64]) -> Result<Vec<DeviceModel>, SpecError> {
        if rates_iops.is_empty() {
            return Ok(vec![self.model.clone()]);
        }
        let DeviceModel::Fixed(whole) = &self.model else {
            return Ok(vec![self.model.clone(); rates_iops.len()]);
        };
        // Each lane gets its share of the total rate. Service times are rounded down to whole
        // nanoseconds, because if they were slightly too long, requests that RTT admits as just in
        // time would be late.
        let sum = Fixed::new(rates_iops.iter().map(|rate| *rate as f64).sum())?;
        let scale = whole.service().0 as f64 / sum.service().0 as f64;
        let service_ns = |rate: &u64| (1e9 / *rate as f64 * scale).floor();
        let server = |rate: &u64| Fixed::new(1e9 / service_ns(rate)).map(DeviceModel::Fixed);
        rates_iops.iter().map(server).collect()
    }
}

/// An error in naming or opening a device.
#[derive(Debug, thiserror::Error)]
pub enum DevicesError {
    /// No bundled device has this name, and it is not the path of a file.
    #[error("no device '{name}'{}", expected(nearest))]
    Unknown {
        /// The requested name.
        name: String,
        /// The known name that is most similar.
        nearest: Option<&'static str>,
    },
    /// The spec of a server is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A device file is malformed.
    #[error(
        "{}, line {line}: {what}; correct the file; docs/device-files.md shows every key",
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line of the key, counted from 1, or the line of the table if no single key is wrong.
        line: usize,
        /// The invalid value and what was expected instead.
        what: String,
    },
    /// The device file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating-system error.
        source: std::io::Error,
    },
}

/// Opens the device called `name_or_path`: a bundled name, `fixed:RATE`, or the path of a device
/// file, which ends in `.toml` or contains a folder. Modifiers may follow: `:plain` for the arm and
/// platters alone, one command at a time; `:queue-depth=1`; `:write-cache=off`; for a solid-state
/// drive, how full it is and its spare flash; for a volume, what was provisioned
/// (`ebs-gp3:gib=500:iops=6000`).
pub fn open(name_or_path: &str) -> Result<OpenDevice, DevicesError> {
    let whole = name_or_path.trim();
    let spec = Spec::parse(whole);
    if let Ok(spec) = &spec
        && spec.name() == "fixed"
    {
        return Ok(OpenDevice {
            model: list::build(spec)?,
            name: spec.text().to_string(),
            description: "a server of constant rate".to_string(),
            summary: format!("{} I/Os per second, one at a time", spec.argument().unwrap_or("?")),
            notes: Vec::new(),
            sources: Sources::default(),
            evidence: evidence::checked(None, &Sources::default())
                .map_err(|(_, what)| SpecError(what))?,
            host: Host::default(),
            price: None,
            shingled: false,
            endurance_tb: None,
            mechanics: None,
            drive: None,
            catch_margin_range: None,
            volume: None,
        });
    }
    let (name, changes) = name_and_changes(whole)?;
    let (path, text) = file_called(name)?;
    read_changed(&path, &text, changes.as_ref())
}

/// Splits `whole` into the bundled name or path, and its modifiers.
fn name_and_changes(whole: &str) -> Result<(&str, Option<Spec>), SpecError> {
    let (name, changed) = name_of(whole);
    Ok((name, changed.then(|| Spec::parse(whole)).transpose()?))
}

/// Returns the path and the content of the device file for a bundled name or path.
fn file_called(name: &str) -> Result<(PathBuf, Cow<'static, str>), DevicesError> {
    if let Some((stem, text)) = BUNDLED.iter().find(|(stem, _)| stem.eq_ignore_ascii_case(name)) {
        return Ok((PathBuf::from(format!("devices/{stem}.toml")), Cow::Borrowed(*text)));
    }
    if let Some(volume) = volume::text_of(name) {
        return Ok(volume);
    }
    let path = Path::new(name);
    if !is_path(path) {
        return Err(DevicesError::Unknown { name: name.to_string(), nearest: nearest(name) });
    }
    Ok((path.to_path_buf(), Cow::Owned(read_file(path)?)))
}

/// Returns the bundled name or path at the start of `whole`, and whether modifiers follow.
fn name_of(whole: &str) -> (&str, bool) {
    match whole.split_once(':') {
        // The colon may also be part of a file name.
        Some((name, rest))
            if (rest.contains('=') || is_bundled_or_path(name)) && !Path::new(whole).is_file() =>
        {
            (name.trim(), true)
        }
        _ => (whole, false),
    }
}

fn is_bundled_or_path(name: &str) -> bool {
    let name = name.trim();
    BUNDLED.iter().any(|(stem, _)| stem.eq_ignore_ascii_case(name))
        || volume::is_bundled(name)
        || is_path(Path::new(name))
}

/// Returns the file that `name` refers to, or an empty path for a bundled device.
pub fn file_of(name: &str) -> &Path {
    Path::new(name_of(name.trim()).0)
}

/// Returns all bundled drives, sorted by name.
pub fn list() -> Result<Vec<OpenDevice>, DevicesError> {
    BUNDLED.iter().map(|(stem, _)| open(stem)).collect()
}

/// Returns warnings about simulations of `devices`: large errors, unusual values in their files,
/// and how many of their parameters are guesses.
pub fn cautions(devices: &[&OpenDevice]) -> Vec<String> {
    let notes = |device: &&OpenDevice| {
        let missed = device.evidence.missed();
        let named = |note: &String| format!("{}: {note}", device.name);
        missed.iter().chain(&device.notes).map(named).collect::<Vec<_>>()
    };
    let mut seen = std::collections::BTreeSet::new();
    let devices: Vec<&&OpenDevice> =
        devices.iter().filter(|device| seen.insert(device.name.as_str())).collect();
    let mut told: Vec<String> = devices.iter().flat_map(|device| notes(device)).collect();
    let guessed = devices.iter().filter_map(|device| device.sources.caution(&device.name));
    let guessed: Vec<String> = guessed.collect();
    if !guessed.is_empty() {
        told.push(format!(
            "Models, not measurements: {} (`forebay devices NAME` lists them).",
            guessed.join("; ")
        ));
    }
    told
}

/// Returns the names of the bundled drives.
fn bundled_names() -> impl Iterator<Item = &'static str> {
    BUNDLED.iter().map(|(stem, _)| *stem)
}

/// Returns the bundled devices that represent a user's unknown disk, sorted by size.
pub fn general() -> Result<Vec<OpenDevice>, DevicesError> {
    GENERAL.iter().map(|name| open(name)).collect()
}

/// The parameters of a disk in a device file, from which several models can be built.
#[derive(Clone, Debug, PartialEq)]
pub enum DiskSpec {
    /// A plain disk.
    Hdd(HddSpec),
    /// A disk with a controller.
    Drive(Box<DriveSpec>),
}

/// Returns the name and the parameters of the disk `name_or_path`, modified as in [`open`].
/// Constant-rate servers are not accepted.
pub fn open_spec(name_or_path: &str) -> Result<(String, DiskSpec), DevicesError> {
    let name = name_or_path.trim();
    if name.starts_with("fixed:") {
        return Err(SpecError(format!(
            "'{name}': got a server of constant rate, expected a disk, whose times can be checked"
        ))
        .into());
    }
    let (name, changes) = name_and_changes(name)?;
    let (path, text) = file_called(name)?;
    if let Some(kind) = not_a_disk(&text) {
        return Err(SpecError(format!(
            "'{name}': got a {kind}, expected a disk; `forebay devices` lists them"
        ))
        .into());
    }
    read_spec_changed(&path, &text, changes.as_ref())
}

/// Returns the name and the parameters of the disk in `text`, the content of the file at `path`.
pub fn read_spec(path: &Path, text: &str) -> Result<(String, DiskSpec), DevicesError> {
    read_spec_changed(path, text, None)
}

fn read_spec_changed(
    path: &Path,
    text: &str,
    changes: Option<&Spec>,
) -> Result<(String, DiskSpec), DevicesError> {
    let malformed = |fault| malformed(path, text, fault);
    if let Some(kind) = not_a_disk(text) {
        let what = format!("got a {kind}, expected a disk (kind = \"hdd\")");
        return Err(malformed((None, what)));
    }
    let file = DeviceFile::parse(text).map_err(malformed)?;
    // Build the model here, because only here can errors be reported with their lines.
    file.model(changes).map_err(|wrong| devices_error(wrong, malformed))?;
    let (disk, drive) = file.changed(changes).map_err(|wrong| devices_error(wrong, malformed))?;
    let spec = drive.map_or(DiskSpec::Hdd(disk), |drive| DiskSpec::Drive(Box::new(drive)));
    Ok((changes.map_or(file.name, |changes| changes.text().to_string()), spec))
}

/// Returns the kind of device that `text` describes, or None if it is a disk.
fn not_a_disk(text: &str) -> Option<&'static str> {
    match file::kind(text) {
        DeviceKind::Hdd => None,
        DeviceKind::Ssd => Some("solid-state drive"),
        DeviceKind::Volume => Some("volume"),
    }
}

fn devices_error(
    wrong: DriveError,
    malformed: impl Fn(file::TomlError) -> DevicesError,
) -> DevicesError {
    match wrong {
        DriveError::File(fault) => malformed(fault),
        DriveError::Name(error) => error.into(),
    }
}

fn malformed(path: &Path, text: &str, (span, what): file::TomlError) -> DevicesError {
    DevicesError::Malformed {
        path: path.to_path_buf(),
        line: line(text, span.map_or(0, |span| locate::key(text, &span, &what))),
        what: plain_words(&what),
    }
}

/// Reads the device file at `path`.
fn read_file(path: &Path) -> Result<String, DevicesError> {
    whole::read_text(path, whole::WRITTEN_MAX, "a device file")
        .map_err(|source| DevicesError::Io { path: path.to_path_buf(), source })
}

/// Returns whether a device name is the path of a file.
fn is_path(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"))
        || path.components().count() > 1
}

/// Returns the device in `text`, the content of the file at `path`.
pub fn read(path: &Path, text: &str) -> Result<OpenDevice, DevicesError> {
    read_changed(path, text, None)
}

/// Returns the device in `text`, with the modifications in `changes`.
fn read_changed(
    path: &Path,
    text: &str,
    changes: Option<&Spec>,
) -> Result<OpenDevice, DevicesError> {
    let malformed = |fault| malformed(path, text, fault);
    if file::kind(text) == DeviceKind::Volume {
        return volume::open(path, text, changes);
    }
    if file::kind(text) == DeviceKind::Ssd {
        let file = SsdFile::parse(text).map_err(malformed)?;
        let (model, summary) =
            file.model(changes).map_err(|wrong| devices_error(wrong, malformed))?;
        let host = file.host().map_err(malformed)?;
        let name = changes.map_or(file.name, |changes| changes.text().to_string());
        let (notes, sources) = (Vec::new(), Sources::of(text, &[]));
        let evidence = evidence::checked(file.evidence, &sources).map_err(malformed)?;
        let price = price::checked(file.price).map_err(malformed)?;
        let endurance_tb = ssd::endurance(file.endurance_tb).map_err(malformed)?;
        let description = file.description;
        let (mechanics, drive) = (None, None);
        return Ok(OpenDevice {
            name,
            description,
            summary,
            notes,
            sources,
            evidence,
            host,
            price,
            model,
            shingled: false,
            endurance_tb,
            mechanics,
            drive,
            catch_margin_range: None,
            volume: None,
        });
    }
    let file = DeviceFile::parse(text).map_err(malformed)?;
    let (model, summary) = file.model(changes).map_err(|wrong| devices_error(wrong, malformed))?;
    let (disk, drive) = file.changed(changes).map_err(|wrong| devices_error(wrong, malformed))?;
    let left_out = match &drive {
        None => sources::CONTROLLER,
        Some(drive) if drive.controller.write_cache.is_none() => &["write_cache"],
        Some(_) => &[],
    };
    let (notes, sources) = (file.notes(), Sources::of(text, left_out));
    let catch_margin_range = file.catch_margin_range(&disk, drive.as_ref()).map_err(malformed)?;
    let evidence = evidence::checked(file.evidence, &sources).map_err(malformed)?;
    let price = price::checked(file.price).map_err(malformed)?;
    let shingled = file.shingled;
    let summary = if shingled { format!("{summary}, shingled") } else { summary };
    let name = changes.map_or(file.name, |changes| changes.text().to_string());
    let description = file.description;
    let mechanics = Some((disk, Sources::of(text, sources::CONTROLLER)));
    Ok(OpenDevice {
        name,
        description,
        summary,
        notes,
        sources,
        evidence,
        host: Host::default(),
        price,
        shingled,
        endurance_tb: None,
        model,
        mechanics,
        drive,
        catch_margin_range,
        volume: None,
    })
}

/// Rephrases a parser message for the author of the file, because it mentions Rust types.
fn plain_words(what: &str) -> String {
    let mut said = what.replace('\n', " ");
    for (theirs, ours) in [
        ("expected f64", "expected a number"),
        ("expected u64", "expected a whole number of at least 0"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u16", "expected a whole number from 0 to 65535"),
        (" as i128", ""),
        ("expected a tuple of size 2", "expected pairs, such as [[9, 399]]"),
        ("tuple of size 2", "pair, such as [9, 399]"),
    ] {
        said = said.replace(theirs, ours);
    }
    said
}

fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
}

/// Formats the device that was probably meant, or else what names a device. There are too many
/// names to list them in a message.
fn expected(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(name) => format!(" (did you mean {name}?); `forebay devices` lists all"),
        None => ", expected a name that `forebay devices` lists, fixed:RATE or a .toml file".into(),
    }
}

/// Returns the bundled device with the most similar name.
fn nearest(name: &str) -> Option<&'static str> {
    let names: Vec<&'static str> = bundled_names().chain(volume::names()).collect();
    near::nearest(name, &names)
}

#[cfg(test)]
mod drive_tests;
#[cfg(test)]
mod ssd_tests;
#[cfg(test)]
mod tests;
