//! Reads the configuration file. All quantities have units. Unknown keys are errors, so that a
//! misspelled key is never silently ignored.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use forebay_core::contract::near::suggestion;
use forebay_devices as devices;
use forebay_live::Driver;
use serde::Deserialize;
use toml::Spanned;

use crate::address::{Address, address};
use crate::config::{Back, Blocks, Config, MEMORY_BYTES, Named, On, Promise, SocketAccess};
use crate::error::{Error, unfit};
use crate::front::Streams;
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
    let line = |at: usize| 1 + text.get(..at).map_or(0, |before| before.matches('\n').count());
    let wrong = |at: usize, what: &dyn Display| {
        unfit(format!(
            "{}, line {}: {what}; docs/serve.md shows every key",
            path.display(),
            line(at)
        ))
    };
    let file: File = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        wrong(span.start, &messages::plain(text, span, error.message()))
    })?;
    let mut backs: Vec<(usize, Back)> = Vec::new();
    for table in file.disk {
        let at = table.span().start;
        backs.push((at, table.into_inner().back().map_err(|what| wrong(at, &what))?));
    }
    for table in file.volume {
        let at = table.span().start;
        backs.push((at, table.into_inner().back().map_err(|what| wrong(at, &what))?));
    }
    for (nth, (at, back)) in backs.iter().enumerate() {
        if back.name.is_empty() {
            return Err(wrong(
                *at,
                &"name: got an empty name, expected a name for messages and exports",
            ));
        }
        if backs[..nth].iter().any(|(_, other)| other.name == back.name) {
            let name = &back.name;
            return Err(wrong(*at, &format!("'{name}' is used twice; use each name only once")));
        }
    }
    let has_exports = !file.export.is_empty();
    for (_, back) in backs.iter_mut().filter(|_| has_exports) {
        back.exports.clear();
    }
    for table in file.export {
        let at = table.span().start;
        let export = table.into_inner();
        let on = export.on.clone();
        let named = export.named().map_err(|what| wrong(at, &what))?;
        let Some((_, back)) = backs.iter_mut().find(|(_, back)| back.name == on) else {
            let names: Vec<&str> = backs.iter().map(|(_, back)| back.name.as_str()).collect();
            let (near, names) = (suggestion(&on, &names), names.join(", "));
            let what = format!(
                "on: got '{on}'{near}, expected the name of a [[disk]] or [[volume]]: {names}"
            );
            return Err(wrong(at, &what));
        };
        back.exports.push(named);
    }
    if let Some((at, back)) = backs.iter().find(|(_, back)| back.exports.is_empty()) {
        let what = format!("'{}': no export is on it; add an [[export]] or remove it", back.name);
        return Err(wrong(*at, &what));
    }
    if backs.is_empty() {
        return Err(wrong(0, &"nothing to serve; expected a [[disk]] or a [[volume]]"));
    }
    let at = |text: Spanned<String>| {
        address(text.get_ref()).map_err(|error| wrong(text.span().start, &error))
    };
    let (tcp, metrics) = (file.tcp.map(at).transpose()?, file.metrics.map(at).transpose()?);
    let unix = file.socket.map(Address::Unix).into_iter();
    let listen: Vec<Address> = unix.chain(tcp.map(Address::Tcp)).collect();
    for (at, back) in &backs {
        back.shaped().map_err(|error| wrong(*at, &error))?;
        back.refuse_unknown_policy().map_err(|error| wrong(*at, &error))?;
    }
    let backs = backs.into_iter().map(|(_, back)| back).collect();
    let memory_bytes = file.memory.map(|text| {
        let at = text.span().start;
        memory(text.get_ref()).map_err(|what| wrong(at, &format!("memory: {what}")))
    });
    let memory_bytes = memory_bytes.transpose()?.unwrap_or(MEMORY_BYTES);
    let refused = |key: &'static str, at, what: String| wrong(at, &format!("{key}: {what}"));
    let mode = file.socket_mode.map(|text| {
        mode(text.get_ref()).map_err(|what| refused("socket_mode", text.span().start, what))
    });
    let group = file.socket_group.map(|text| {
        group(text.get_ref()).map_err(|what| refused("socket_group", text.span().start, what))
    });
    let access = SocketAccess { mode: mode.transpose()?, group: group.transpose()? };
    let file = Some(path.to_path_buf());
    let config = Config { file, metrics, memory_bytes, access, ..Config::of(listen, backs) };
    if config.listen.is_empty() && !config.has_devices() {
        let what = "no address to listen on; expected socket = \"PATH\", tcp = \
            \"127.0.0.1:10809\", or an [[export]] with ublk = true";
        return Err(wrong(0, &what));
    }
    Ok(config)
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
mod tests {
    use super::*;

    fn told(text: &str) -> Result<Config, String> {
        parse(Path::new("serve.toml"), text).map_err(|error| error.to_string())
    }

    const WHOLE: &str = r#"
socket = "/run/nbd.sock"
tcp = "127.0.0.1:0"
metrics = "127.0.0.1:9122"

[[disk]]
name = "data"
file = "/srv/data.img"
read_only = false
policy = "forebay"
depth = 8
page_cache = true
capacity_iops = 900

[[volume]]
name = "safe"
drives = ["/srv/drives"]

[[export]]
name = "steady"
on = "data"
size = "1GiB"
keep_iops = 300
within = "10ms"

[[export]]
name = "best"
on = "data"
offset = "1GiB"
read_only = true
weight = 3

[[export]]
name = "safe"
on = "safe"
"#;

    #[test]
    fn sockets_have_a_mode_and_a_group() {
        let disk = "socket = 's'\n[[disk]]\nname = 'a'\nfile = 'f'\n";
        let access = told(&format!("socket_mode = '0660'\nsocket_group = 'root'\n{disk}"));
        let expected = SocketAccess { mode: Some(0o660), group: Some(0) };
        assert_eq!(access.unwrap().access, expected);
        for (line, what) in [
            ("socket_mode = '0999'", "expected permissions in octal"),
            ("socket_mode = '1777'", "expected permissions in octal"),
            ("socket_group = 'no such group'", "expected a group of /etc/group"),
            ("memory = '1MiB'", "expected at least 64MiB"),
            ("memory = 'much'", "expected a size with its unit"),
        ] {
            let said = told(&format!("{line}\n{disk}")).unwrap_err();
            assert!(said.contains("line 1") && said.contains(what), "{said}");
        }
        assert_eq!(told(&format!("memory = '64MiB'\n{disk}")).unwrap().memory_bytes, 64 << 20);
    }

    #[test]
    fn a_file_says_what_is_served() {
        let config = told(WHOLE).unwrap();
        assert_eq!(config.listen.len(), 2);
        assert_eq!(config.backs.len(), 2);
        let data = &config.backs[0];
        assert_eq!((data.depth, data.who()), (8, Streams::ConnectionsOf(3)));
        assert_eq!(config.backs[1].who(), Streams::Connections);
        assert_eq!(data.exports[1].offset, 1 << 30);
        assert_eq!(
            data.shaped().unwrap(),
            "promised:cmin=300/0/0:delta-ms=10/10/10:weight=1/3/1:shared=yes:dependencies=no:delta-c=600:depth=8:over=forebay"
        );
        assert_eq!(
            config.backs[1].shaped().unwrap(),
            "promised:cmin=0:dependencies=no:depth=64:over=noop"
        );
        let emulated = WHOLE.replace("drives = [", "emulate = \"fixed:100\"\ndrives = [");
        assert!(matches!(told(&emulated).unwrap().backs[1].on, On::EmulatedVolume { .. }));
        let measured =
            WHOLE.replace("capacity_iops = 900", "capacity_iops = 900\ncapacity = \"measured\"");
        let shaped = told(&measured).unwrap().backs[0].shaped().unwrap();
        assert!(shaped.contains(":capacity=measured:delta-c=600:depth=8:over="), "{shaped}");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let changed = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            told(&WHOLE.replacen(from, to, 1)).unwrap_err()
        };
        let cases = [
            ("depth = 8", "dept = 8", "line 11", "unknown field `dept`"),
            ("\"1GiB\"", "\"1\"", "line 19", "size: got '1', expected a size with its unit"),
            ("\"10ms\"", "\"0ms\"", "line 19", "expected more than 0 and at most 24 hours"),
            ("\"10ms\"", "\"10\"", "line 19", "within: got '10', expected a time with its unit"),
            ("on = \"safe\"", "on = \"safer\"", "line 33", "on: got 'safer'"),
            ("name = \"safe\"", "name = \"data\"", "line 15", "'data' is given twice"),
            ("keep_iops = 300\n", "", "line 19", "keep_iops: not given"),
            ("keep_iops = 300", "keep_iops = 850", "line 6", "exceeds capacity_iops (900)"),
            ("capacity_iops = 900\n", "", "line 6", "capacity_iops: not given"),
            ("read_only = false", "emulate = \"nothing\"", "line 6", "no device 'nothing'"),
            ("read_only = false", "emulate = \"fixed:9\"", "line 6", "page_cache: has no effect"),
            (
                "read_only = false\npolicy = \"forebay\"\ndepth = 8\npage_cache = true",
                "emulate = \"fixed:9\"\ndepth = 8",
                "line 6",
                "depth: has no effect on an emulated device",
            ),
            (
                "capacity_iops = 900",
                "capacity = \"guessed\"",
                "line 13",
                "unknown variant `guessed`",
            ),
            ("depth = 8", "depth = 0", "line 6", "expected 1 to 4096"),
            (
                "\"forebay\"",
                "\"bfq:slice=abc\"",
                "line 6",
                "'data': policy: 'bfq:slice=abc': no param",
            ),
            ("\"forebay\"", "\"\"", "line 6", "'data': policy: "),
            ("depth = 8", "depth = '8'", "line 11", "depth: got '8', expected a number, such as"),
            ("= false", "= 'no'", "line 9", "read_only: got 'no', expected true or false"),
            (
                "\"1GiB\"",
                "5",
                "line 22",
                "size: got 5, expected a text in quotes, as in size = \"10GiB\"",
            ),
            (
                "\"10ms\"",
                "10",
                "line 24",
                "within: got 10, expected a text in quotes, as in within",
            ),
            ("[\"/srv/drives\"]", "\"d\"", "line 17", "drives: got \"d\", expected a list"),
            ("\"/srv/data.img\"", "a.img", "line 8", "file: expected a text in quotes"),
            (
                "policy = \"forebay\"",
                "emulate = \"fixed:9\"\nflash = \"/f\"",
                "line 6",
                "emulate_flash too",
            ),
            ("drives = [", "depth = 0\ndrives = [", "line 15", "expected 1 to 4096"),
            ("drives = [", "emulate = \"none\"\ndrives = [", "line 15", "no device 'none'"),
            ("weight = 3", "weight = 0", "line 26", "weight: got 0, expected 1 to 1000000000"),
            ("read_only = false", "window = 4", "line 9", "unknown field `window`"),
            (
                "\"127.0.0.1:0\"",
                "\"localhost:0\"",
                "line 3",
                "expected a loopback address and port",
            ),
        ];
        for (from, to, line, what) in cases {
            let said = changed(from, to);
            assert!(said.contains(line) && said.contains(what), "{said}");
        }
        let idle = |key: &str| {
            let plain = WHOLE.replace("keep_iops = 300\nwithin = \"10ms\"\n", "");
            let plain = plain.replace("weight = 3\n", "");
            told(&plain.replace("capacity_iops = 900", key)).map(drop)
        };
        let above = WHOLE
            .replace("drives = [", "capacity_iops = 500\ndepth = 9\ndrives = [")
            .replace("on = \"safe\"", "on = \"safe\"\nkeep_iops = 200\nwithin = \"20ms\"");
        assert_eq!(
            told(&above).unwrap().backs[1].shaped().unwrap(),
            "promised:cmin=200/0:delta-ms=20/10:weight=1/1:shared=yes:dependencies=no:delta-c=300:depth=9:over=noop"
        );
        for (key, what) in [
            ("capacity_iops = 900", "'data': capacity_iops: has no effect, because no export"),
            ("capacity = \"measured\"", "'data': capacity: has no effect, because no export"),
        ] {
            let said = idle(key).unwrap_err();
            assert!(said.contains("line 6") && said.contains(what), "{said}");
        }
        idle("").unwrap();
        assert!(told("").unwrap_err().contains("nothing to serve"));
        let silent = "[[disk]]\nname = \"a\"\nfile = \"b\"\n";
        assert!(told(silent).unwrap_err().contains("no address to listen on"));
        assert_eq!(
            told(&format!("socket = \"s\"\n{silent}")).unwrap().backs[0].exports[0].name,
            "a"
        );
    }
}
