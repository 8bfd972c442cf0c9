//! Reads the configuration file. All quantities have units. Unknown keys are errors, so that a
//! misspelled key is never silently ignored.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use forebay_core::contract::suggestion;
use forebay_devices as devices;
use forebay_live::Driver;
use serde::Deserialize;
use toml::Spanned;

use crate::config::{Back, Blocks, Config, MEMORY_BYTES, Named, On, Promise, SocketAccess};
use crate::error::{Error, unfit};
use crate::{Address, Streams, address};
use values::{bytes, group, memory, mode, scrub, span};

mod messages;
mod values;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    socket: Option<PathBuf>,
    tcp: Option<Spanned<String>>,
    metrics: Option<Spanned<String>>,
    memory: Option<Spanned<String>>,
    socket_mode: Option<Spanned<String>>,
    socket_group: Option<Spanned<String>>,
    #[serde(default)]
    disk: Vec<Spanned<DiskTable>>,
    #[serde(default)]
    volume: Vec<Spanned<VolumeTable>>,
    #[serde(default)]
    export: Vec<Spanned<ExportTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskTable {
    name: String,
    file: PathBuf,
    emulate: Option<String>,
    flash: Option<PathBuf>,
    emulate_flash: Option<String>,
    #[serde(default)]
    page_cache: bool,
    policy: Option<String>,
    depth: Option<u32>,
    driver: Option<String>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    force: bool,
    streams: Option<Who>,
    capacity_iops: Option<u64>,
    #[serde(default)]
    capacity: Capacity,
    rearrange: Option<PathBuf>,
    #[serde(default)]
    rearranged: bool,
    trace: Option<PathBuf>,
    trace_issued: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VolumeTable {
    name: String,
    drives: Vec<PathBuf>,
    emulate: Option<String>,
    policy: Option<String>,
    depth: Option<u32>,
    driver: Option<String>,
    streams: Option<Who>,
    capacity_iops: Option<u64>,
    #[serde(default)]
    capacity: Capacity,
    scrub: Option<String>,
    scrub_rate: Option<String>,
    trace: Option<PathBuf>,
    trace_issued: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportTable {
    name: String,
    on: String,
    #[serde(default)]
    description: String,
    offset: Option<String>,
    size: Option<String>,
    #[serde(default)]
    read_only: bool,
    keep_iops: Option<u64>,
    within: Option<String>,
    weight: Option<u64>,
    #[serde(default)]
    ublk: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Who {
    Connections,
    Exports,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Capacity {
    #[default]
    Fixed,
    Measured,
}

/// The maximum length of a configuration file.
const FILE_MAX: u64 = 1 << 20;

/// Reads the file at `path`.
///
/// # Errors
/// Returns one message with the line and a correction.
pub fn read(path: &Path) -> Result<Config, Error> {
    let wrong = |what: String| unfit(format!("{}: {what}", path.display()));
    let found = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if !found.is_file() || found.len() > FILE_MAX {
        return Err(wrong(
            "got a folder, or more than 1 MiB, expected a configuration in TOML".into(),
        ));
    }
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|_| {
        wrong("got bytes that are not UTF-8, expected a configuration in TOML".into())
    })?;
    parse(path, &text)
}

/// Parses `text`; `path` is its name in messages.
///
/// # Errors
/// Fails like [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Config, Error> {
    let source = Source { path, text };
    let file: File = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        source.wrong(span.start, &messages::plain(text, span, error.message()))
    })?;
    let mut backs = source.backs(file.disk, file.volume)?;
    source.exports(file.export, &mut backs)?;
    if let Some((at, back)) = backs.iter().find(|(_, back)| back.exports.is_empty()) {
        let what = format!(
            "'{}': no export uses it; add an [[export]], or remove this section",
            back.name
        );
        return Err(source.wrong(*at, &what));
    }
    if backs.is_empty() {
        return Err(source.wrong(0, &"nothing to serve; expected a [[disk]] or a [[volume]]"));
    }
    let at = |text: Spanned<String>| {
        address(text.get_ref()).map_err(|error| source.wrong(text.span().start, &error))
    };
    let (tcp, metrics) = (file.tcp.map(at).transpose()?, file.metrics.map(at).transpose()?);
    let unix = file.socket.map(Address::Unix).into_iter();
    let listen: Vec<Address> = unix.chain(tcp.map(Address::Tcp)).collect();
    for (at, back) in &backs {
        back.shaped().map_err(|error| source.wrong(*at, &error))?;
        back.refuse_unknown_policy().map_err(|error| source.wrong(*at, &error))?;
    }
    let backs = backs.into_iter().map(|(_, back)| back).collect();
    let memory_bytes = source.value("memory", file.memory, memory)?.unwrap_or(MEMORY_BYTES);
    let access = SocketAccess {
        mode: source.value("socket_mode", file.socket_mode, mode)?,
        group: source.value("socket_group", file.socket_group, group)?,
    };
    let file = Some(path.to_path_buf());
    let config = Config { file, metrics, memory_bytes, access, ..Config::of(listen, backs) };
    if config.listen.is_empty() && !config.has_devices() {
        let what = "no address to listen on; expected socket = \"PATH\", tcp = \
            \"127.0.0.1:10809\", or an [[export]] with ublk = true";
        return Err(source.wrong(0, &what));
    }
    Ok(config)
}

/// The text of a configuration file, and its name in messages.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    /// Returns an error in the line of the byte `at`.
    fn wrong(&self, at: usize, what: &dyn Display) -> Error {
        let line = 1 + self.text.get(..at).map_or(0, |before| before.matches('\n').count());
        let path = self.path.display();
        unfit(format!("{path}, line {line}: {what}; docs/serve.md shows every key"))
    }

    fn value<T>(
        &self,
        key: &str,
        text: Option<Spanned<String>>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        let read = |text: Spanned<String>| {
            let wrong = |what| self.wrong(text.span().start, &format!("{key}: {what}"));
            read(text.get_ref()).map_err(wrong)
        };
        text.map(read).transpose()
    }

    /// Returns the disks and volumes, and where each begins.
    fn backs(
        &self,
        disks: Vec<Spanned<DiskTable>>,
        volumes: Vec<Spanned<VolumeTable>>,
    ) -> Result<Vec<(usize, Back)>, Error> {
        let disks = disks.into_iter().map(|of| (of.span().start, of.into_inner().back()));
        let volumes = volumes.into_iter().map(|of| (of.span().start, of.into_inner().back()));
        let mut backs: Vec<(usize, Back)> = Vec::new();
        for (at, back) in disks.chain(volumes) {
            backs.push((at, back.map_err(|what| self.wrong(at, &what))?));
        }
        for (nth, (at, back)) in backs.iter().enumerate() {
            let name = &back.name;
            if name.is_empty() {
                let what = "name: got an empty name, expected a name for messages and exports";
                return Err(self.wrong(*at, &what));
            }
            if backs[..nth].iter().any(|(_, other)| other.name == *name) {
                let what = format!("'{name}' is used twice; use each name only once");
                return Err(self.wrong(*at, &what));
            }
        }
        Ok(backs)
    }

    /// Adds the exports to their disks and volumes. Without any, each keeps the export that has its
    /// own name.
    fn exports(
        &self,
        exports: Vec<Spanned<ExportTable>>,
        backs: &mut [(usize, Back)],
    ) -> Result<(), Error> {
        if !exports.is_empty() {
            backs.iter_mut().for_each(|(_, back)| back.exports.clear());
        }
        for table in exports {
            let at = table.span().start;
            let export = table.into_inner();
            let on = export.on.clone();
            let named = export.named().map_err(|what| self.wrong(at, &what))?;
            let Some((_, back)) = backs.iter_mut().find(|(_, back)| back.name == on) else {
                let names: Vec<&str> = backs.iter().map(|(_, back)| back.name.as_str()).collect();
                let (near, names) = (suggestion(&on, &names), names.join(", "));
                let what = format!(
                    "on: got '{on}'{near}, expected the name of a [[disk]] or [[volume]]: {names}"
                );
                return Err(self.wrong(at, &what));
            };
            back.exports.push(named);
        }
        Ok(())
    }
}

impl DiskTable {
    fn back(self) -> Result<Back, String> {
        let path = self.file;
        let on = match (self.emulate, self.flash, self.emulate_flash) {
            (None, flash, None) => On::Target { path, flash },
            (Some(disk), None, None) => On::Emulated { path, device: device(&disk)?, flash: None },
            (Some(disk), Some(file), Some(flash)) => {
                let flash = Some((file, device(&flash)?));
                On::Emulated { path, device: device(&disk)?, flash }
            }
            (None, _, Some(_)) => {
                return Err("emulate_flash: needs emulate; set both or neither".into());
            }
            (Some(_), Some(_), None) => {
                return Err("flash: needs emulate_flash too, because the disk is emulated".into());
            }
            (Some(_), None, Some(_)) => {
                return Err("emulate_flash: needs a file, flash = \"FILE\"".into());
            }
        };
        let blocks = match (self.rearrange, self.rearranged) {
            (None, false) => Blocks::InPlace,
            (None, true) => Blocks::Rearranged,
            (Some(trace), false) => Blocks::Learnt(trace),
            (Some(_), true) => {
                return Err("rearranged: cannot be combined with rearrange; set one of them".into());
            }
        };
        refuse_of_emulated(&on, self.depth, self.page_cache)?;
        let base = Back::of(&self.name, on);
        Ok(Back {
            blocks,
            policy: self.policy.unwrap_or(base.policy.clone()),
            depth: within("depth", self.depth.unwrap_or(base.depth))?,
            driver: self.driver.as_deref().map(driver).transpose()?,
            page_cache: self.page_cache,
            read_only: self.read_only,
            force: self.force,
            streams: self.streams.map(streams),
            capacity_iops: self
                .capacity_iops
                .map(|iops| rate("capacity_iops", iops))
                .transpose()?,
            measures_capacity: matches!(self.capacity, Capacity::Measured),
            trace: self.trace,
            trace_issued: self.trace_issued,
            ..base
        })
    }
}

impl VolumeTable {
    fn back(self) -> Result<Back, String> {
        let drives = self.drives;
        let on = match self.emulate {
            Some(name) => On::EmulatedVolume { drives, device: device(&name)? },
            None => On::Volume(drives),
        };
        refuse_of_emulated(&on, self.depth, false)?;
        let base = Back::of(&self.name, on);
        Ok(Back {
            policy: self.policy.unwrap_or(base.policy.clone()),
            depth: within("depth", self.depth.unwrap_or(base.depth))?,
            driver: self.driver.as_deref().map(driver).transpose()?,
            streams: self.streams.map(streams),
            capacity_iops: self
                .capacity_iops
                .map(|iops| rate("capacity_iops", iops))
                .transpose()?,
            measures_capacity: matches!(self.capacity, Capacity::Measured),
            scrub: scrub(self.scrub.as_deref(), self.scrub_rate.as_deref())?,
            trace: self.trace,
            trace_issued: self.trace_issued,
            ..base
        })
    }
}

impl ExportTable {
    fn named(self) -> Result<Named, String> {
        let size = |key: &str, text: Option<String>| {
            text.map(|text| bytes(&text).map_err(|what| format!("{key}: {what}"))).transpose()
        };
        let promise = match (self.keep_iops, self.within) {
            (None, None) => None,
            (Some(0), Some(_)) => {
                return Err("keep_iops: got 0, expected a rate; without a promise, leave out \
                    keep_iops and within"
                    .into());
            }
            (Some(iops), Some(within)) => {
                let within = span(&within).map_err(|what| format!("within: {what}"))?;
                Some(Promise { iops: rate("keep_iops", iops)?, within })
            }
            (Some(_), None) => {
                return Err(
                    "within: not given, expected a time together with keep_iops, such as within = \
                     \"10ms\""
                        .into(),
                );
            }
            (None, Some(_)) => {
                return Err(
                    "keep_iops: not given, expected the rate that `forebay plan capacity` prints"
                        .into(),
                );
            }
        };
        Ok(Named {
            name: self.name,
            description: self.description,
            offset: size("offset", self.offset)?.unwrap_or(0),
            bytes: size("size", self.size)?,
            read_only: self.read_only,
            promise,
            weight: rate("weight", self.weight.unwrap_or(1))?,
            ublk: self.ublk,
        })
    }
}

fn streams(who: Who) -> Streams {
    match who {
        Who::Exports => Streams::Exports,
        Who::Connections => Streams::Connections,
    }
}

/// Rejects keys that have no effect on an emulated device.
fn refuse_of_emulated(on: &On, depth: Option<u32>, page_cache: bool) -> Result<(), String> {
    let key = match (page_cache, depth) {
        (true, _) => "page_cache",
        (false, Some(_)) => "depth",
        (false, None) => return Ok(()),
    };
    match on.is_emulated() {
        false => Ok(()),
        true => Err(format!(
            "{key}: has no effect on an emulated device, which limits its own queue and keeps its \
             bytes in the page cache; leave it out"
        )),
    }
}

/// Parses the name of a driver.
fn driver(name: &str) -> Result<Driver, String> {
    name.parse().map_err(|what| format!("driver: {what}"))
}

/// Checks that a rate or weight is within its limits.
fn rate(key: &str, number: u64) -> Result<u64, String> {
    match number {
        1..=1_000_000_000 => Ok(number),
        _ => Err(format!("{key}: got {number}, expected 1 to 1000000000")),
    }
}

/// Checks that a number of I/Os or requests is within its limits.
fn within(key: &str, count: u32) -> Result<u32, String> {
    match count {
        1..=4096 => Ok(count),
        _ => Err(format!("{key}: got {count}, expected 1 to 4096")),
    }
}

fn device(name: &str) -> Result<Box<devices::OpenDevice>, String> {
    devices::open(name).map(Box::new).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
