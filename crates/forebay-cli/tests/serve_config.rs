//! Tests `forebay serve` with a configuration on the real binary: promises, SIGHUP, `top`, metrics
//! and traces.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use serde_json::Value;

use crate::command;
use crate::served::{Folder, Serving, does, free_port, have, serve, top};
use crate::shell;
use forebay_rig::nbd::{Client, FLUSH, READ};
use forebay_rig::wait_until;

fn config(policy: &str) -> String {
    format!(
        r#"socket = "socket"
metrics = "127.0.0.1:0"

[[disk]]
name = "data"
file = "disk"
emulate = "fixed:20000"
policy = "{policy}"
capacity_iops = 20000
trace = "asked.parquet"
trace_issued = "issued.parquet"

[[export]]
name = "steady"
on = "data"
size = "4MiB"
keep_iops = 5000
within = "50ms"

[[export]]
name = "rest"
on = "data"
offset = "4MiB"
"#
    )
}

/// Returns the output of `forebay top` once the policy has been switched `count` times.
fn switched(folder: &Folder, count: u64) -> Value {
    let mut told = Value::Null;
    wait_until("the policy is not switched", || {
        told = top(folder);
        told["backs"][0]["switches"] == count
    });
    told
}

#[test]
fn promises_policies_figures_and_traces_are_as_configured() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let metrics = free_port();
    let config = |policy| config(policy).replace("127.0.0.1:0", &format!("127.0.0.1:{metrics}"));
    fs::write(folder.path("serve.toml"), config("noop")).unwrap();
    let mut serving = Serving::start(&folder, &["serve.toml"]);
    // The data contains no zeros, because zeros would be trimmed.
    let data: Vec<u8> = (0..4_u32 << 20).map(|nth| (nth / 7 % 251 + 1) as u8).collect();
    fs::write(folder.path("data"), &data).unwrap();
    let uri = |name: &str| format!("nbd+unix:///{name}?socket={}", folder.socket().display());
    does(&folder, "nbdcopy", &["data", &uri("steady")]);

    let before = top(&folder);
    let back = &before["backs"][0];
    let steady = &back["exports"][0];
    assert_eq!((&steady["name"], &steady["failed"]), (&"steady".into(), &0.into()), "{before}");
    assert_eq!(steady["written_bytes"].as_u64(), Some(4 << 20));
    assert!(steady["kept"].as_u64().unwrap() > 0 && back["switches"] == 0, "{before}");

    fs::write(folder.path("serve.toml"), config("mq-deadline")).unwrap();
    serving.signal("-HUP");
    let after = switched(&folder, 1);
    assert_eq!(after["backs"][0]["policy"], "mq-deadline");
    // Promises and traces are reread too. Open files are not, and a message says so.
    let promise = |iops| config("mq-deadline").replace("keep_iops = 5000", iops);
    fs::write(
        folder.path("serve.toml"),
        promise("keep_iops = 7000").replace("issued.", "other.").replace("\"socket\"", "\"other\""),
    )
    .unwrap();
    serving.signal("-HUP");
    let after = switched(&folder, 2);
    let back = &after["backs"][0];
    assert_eq!(back["policy"], "mq-deadline");
    assert_eq!(
        (&back["exports"][0]["keep_iops"], &back["exports"][0]["kept"]),
        (&7000.into(), &0.into())
    );
    // An unknown policy leaves everything unchanged.
    fs::write(folder.path("serve.toml"), config("nonsense")).unwrap();
    serving.signal("-HUP");
    let before = serving.says("nonsense");
    does(&folder, "nbdcopy", &[&uri("steady"), "back"]);
    assert!(folder.read("back") == data);

    let mut stream = TcpStream::connect(("127.0.0.1", metrics)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let line = "forebay_serve_written_bytes_total{back=\"data\",export=\"steady\"} 4194304";
    assert!(page.lines().any(|other| other == line), "{page}");

    // The final flush should be recorded at this time.
    let idle_ms = 300;
    std::thread::sleep(Duration::from_millis(idle_ms));
    serving.signal("-INT");
    let (status, said) = serving.ends();
    let said = before + &said;
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("'data' has mq-deadline now; requests were paused for"), "{said}");
    assert!(said.contains("a trace of the disks' I/Os is written to other.parquet now"), "{said}");
    assert!(
        said.contains(
            "changes to the addresses, their access rights or the memory take effect after a restart"
        ),
        "{said}"
    );
    for complete in ["asked.1.parquet", "issued.1.parquet", "issued.parquet"] {
        assert!(said.contains(&format!("{complete} is complete")), "{said}");
    }
    assert!(folder.read("disk")[..4 << 20] == data[..]);

    let moved = |names: &[&str]| -> u64 {
        let moved = |name: &&str| {
            let trace = folder.path(name);
            let trace = trace.to_str().unwrap();
            let (told, _) = command::json(&mut command::forebay(&["describe", trace]));
            told["read_bytes"].as_u64().unwrap() + told["write_bytes"].as_u64().unwrap()
        };
        names.iter().map(moved).sum()
    };
    assert_eq!(moved(&["asked.1.parquet", "asked.parquet"]), 8 << 20);
    let (last, before) = last_two_ns(&folder, "other.parquet");
    assert!(last - before >= idle_ms * 1_000_000, "{last} after {before}");
    let (last, before) = last_two_ns(&folder, "asked.parquet");
    assert!(last - before >= idle_ms * 1_000_000, "{last} after {before}");
    // The number of bytes written to the disk is the same, regardless of how they were divided into
    // I/Os.
    assert_eq!(moved(&["issued.1.parquet", "other.parquet"]), 8 << 20);
}

/// Returns the times of the last two requests of a trace.
fn last_two_ns(folder: &Folder, trace: &str) -> (u64, u64) {
    let [from, to] = [trace, "all.csv"].map(|name| folder.path(name).display().to_string());
    command::forebay(&["convert", &from, &to]).assert().success();
    let text = String::from_utf8(folder.read("all.csv")).unwrap();
    let at_ns = |row: &str| row.split(',').next().unwrap().parse::<u64>().unwrap();
    let rows: Vec<u64> = text.lines().skip(1).map(at_ns).collect();
    (rows[rows.len() - 1], rows[rows.len() - 2])
}

#[test]
fn a_configuration_error_prevents_any_write() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    folder.holes("flash", 8 << 20);
    let disk = |name: &str, file: &str, rest: &str| {
        format!("[[disk]]\nname = \"{name}\"\nfile = \"{file}\"\npage_cache = true\n{rest}\n")
    };
    let cached = disk(
        "one",
        "disk",
        "flash = \"flash\"\npolicy = \"cache:write=back:size-mib=1:format=yes\"",
    );
    for (before, after) in [
        ("", disk("two", "missing", "")),
        ("metrics = \"0.0.0.0:1\"\n", String::new()),
        ("", disk("two", "other", "trace = \"flash\"")),
    ] {
        folder.holes("other", 8 << 20);
        let text = format!("socket = \"socket\"\n{before}{cached}{after}");
        fs::write(folder.path("serve.toml"), text).unwrap();
        let output = serve(&folder, &["serve.toml"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(folder.read("flash").iter().all(|byte| *byte == 0), "{said}");
    }
}

#[test]
fn configuration_errors_are_reported_in_one_message() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let refused = |text: &str, words: &[&str], part: &str| {
        fs::write(folder.path("serve.toml"), text).unwrap();
        let output = serve(&folder, &[&["serve.toml"], words].concat()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.lines().count() == 1 && said.contains(part), "no {part:?} in: {said}");
        assert!(!folder.socket().exists(), "{part}");
    };
    let whole = config("noop");
    refused(&whole, &["--policy", "noop"], "got both a configuration file and --policy");
    refused(
        &whole.replace("20000\ntrace", "5010\ntrace"),
        &[],
        "promise less, or with a longer bound",
    );
    refused(&whole.replace("\"4MiB\"\nkeep", "\"9MiB\"\nkeep"), &[], "the rest of 'data'");
    refused(&whole.replace("file = \"disk\"", "file = \"none\""), &[], "no such file");
    refused(&whole.replace("\"rest\"", "\"steady\""), &[], "got two of that name");
    refused(&whole.replace("[[disk]]", "[[disks]]"), &[], "unknown field");
    refused(&whole.replace("\"noop\"", "\"nonsense\""), &[], "nonsense");
    refused("\u{0}", &[], "serve.toml, line 1");
    // Errors about files other than disks name the key, and their advice suits a configuration
    // file.
    for (from, to, part) in [
        (
            "\"asked.parquet\"",
            "\"no/asked.parquet\"",
            "'data': trace: no/asked.parquet: No such file",
        ),
        ("\"issued.parquet\"", "\"x.exe\"", "'data': trace_issued: x.exe: got the ending \"exe\""),
        ("\"issued.parquet\"", "\"x.exe\"", "use a name that ends in .parquet"),
        (
            "policy = \"noop\"",
            "policy = \"noop\"\nrearrange = \"no\"",
            "'data': rearrange: no: No such file",
        ),
        (
            "policy = \"noop\"",
            "policy = \"noop\"\nrearrange = \"text\"",
            "forebay convert` makes a Parquet",
        ),
    ] {
        fs::write(folder.path("text"), "a line\n").unwrap();
        let sized = whole.replace("offset = \"4MiB\"", "offset = \"4MiB\"\nsize = \"1MiB\"");
        refused(&sized.replace(from, to), &[], part);
    }
    let left: Vec<_> = fs::read_dir(folder.path("")).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(left.len(), 3, "a disk, a text and a configuration: {left:?}");
    let twice = whole.replace(
        "[[export]]\nname = \"rest\"\non = \"data\"",
        "[[disk]]\nname = \"more\"\nfile = \"disk\"\n\n[[export]]\nname = \"rest\"\non = \"more\"",
    );
    refused(&twice, &[], "disk: is used by 'data' and by 'more'");
}

/// Returns a configuration with a write-back cache for a disk.
fn cached(policy: &str) -> String {
    format!(
        "socket = \"socket\"\n[[disk]]\nname = \"data\"\nfile = \"disk\"\nflash = \"flash\"\npage_cache = true\npolicy = \"{policy}\"\n"
    )
}

#[test]
fn data_only_on_flash_are_found_again_or_the_disk_is_refused() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    folder.holes("flash", 32 << 20);
    let refused = |policy: &str, part: &str| {
        fs::write(folder.path("serve.toml"), cached(policy)).unwrap();
        let output = serve(&folder, &["serve.toml"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.lines().count() == 1 && said.contains(part), "no {part:?} in: {said}");
    };
    refused("cache:write=back", "flash is blank, expected one with a log");
    fs::write(folder.path("serve.toml"), cached("cache:write=back:format=yes:id=7")).unwrap();
    let serving = Serving::start(&folder, &["serve.toml"]);
    let data: Vec<u8> = (0..2_u32 << 20).map(|nth| (nth / 7 % 251 + 1) as u8).collect();
    fs::write(folder.path("data"), &data).unwrap();
    let uri = format!("nbd+unix:///data?socket={}", folder.socket().display());
    does(&folder, "nbdcopy", &["--flush", "data", &uri]);
    // A policy without the cache would show outdated data on the disk.
    fs::write(folder.path("serve.toml"), cached("noop")).unwrap();
    serving.signal("-HUP");
    serving.signal("-KILL");
    let (_, said) = serving.ends();
    assert!(folder.read("disk")[..data.len()] != data[..], "all of it is on the disk: {said}");

    refused("cache:write=back:id=8", "belongs to another");
    // These policies would hide or overwrite data that exists only on the flash.
    for policy in ["noop", "cache:write=through:id=7", "cache:write=around:id=7"] {
        refused(policy, "has the log of a cache or tiers (id 7)");
    }
    fs::write(folder.path("serve.toml"), cached("cache:write=back:id=7")).unwrap();
    let serving = Serving::start(&folder, &["serve.toml"]);
    does(&folder, "nbdcopy", &[&uri, "back"]);
    assert!(
        folder.read("back")[..data.len()] == data[..],
        "what was flushed is there after kill -9"
    );
    serving.stop();
    // The flash was replaced by a blank one.
    folder.holes("flash", 32 << 20);
    refused("cache:write=back:id=7", "flash is blank, expected one with a log");
}

#[test]
fn outdated_disks_and_flash_are_served_only_with_force() {
    let folder = Folder::new();
    folder.holes("disk", 1 << 20);
    folder.holes("flash", 1 << 20);
    fs::write(folder.path("serve.toml"), cached("cache:size-mib=1:format=yes")).unwrap();
    let serving = Serving::start(&folder, &["serve.toml"]);
    let mut client = Client::simple(&folder.socket(), "data");
    client.write(4096, &[5; 4096]);
    assert_eq!(client.does((FLUSH, 0), (0, 0), &[]), 0);
    serving.signal("-KILL");
    serving.ends();
    // Only the flash contains the number of the newest record, so it must notice that this record
    // is damaged.
    let flash = folder.read("flash");
    let slots = (0..16).map(|slot| 8192 + slot * 8192);
    let newest = slots.filter(|at| flash[at + 24..at + 32] == *b"forebayC").max().unwrap();
    assert_eq!(flash[newest + 16], 2, "one of the format, one of the flush");
    for at in [1, 20, 48, 600, 5000, 8191] {
        let mut damaged = flash.clone();
        damaged[newest + at] ^= 0x10;
        fs::write(folder.path("flash"), damaged).unwrap();
        let output = serve(&folder, &["serve.toml"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "byte {at}: {said}");
        assert!(said.contains("its placement log is damaged"), "byte {at}: {said}");
    }
    fs::write(folder.path("flash"), &flash).unwrap();
    // The disk is served alone, with options instead of a configuration.
    let words = ["disk", "--socket", "socket"];
    let output = serve(&folder, &words).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("are on its flash (pair ") && said.contains("--force"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let serving = Serving::start(&folder, &["disk", "--force", "--read-only"]);
    serving.stop();
    let serving = Serving::start(&folder, &["serve.toml", "--force"]);
    let mut client = Client::simple(&folder.socket(), "data");
    assert_eq!(client.read(4096, 4096), [5; 4096]);
    drop(client);
    serving.stop();
    let serving = Serving::start(&folder, &["serve.toml"]);
    serving.stop();
}

/// After draining, the disk has all data and can be served without its flash, even though a client
/// continues to write.
#[test]
fn a_flash_is_removed_after_draining() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    folder.holes("flash", 16 << 20);
    fs::write(folder.path("serve.toml"), cached("cache:format=yes")).unwrap();
    let serving = Serving::start(&folder, &["serve.toml"]);
    let mut client = Client::simple(&folder.socket(), "data");
    let data: Vec<u8> = (0..1_u32 << 20).map(|nth| (nth / 7 % 251 + 1) as u8).collect();
    client.write(4096, &data);
    assert_eq!(client.does((FLUSH, 0), (0, 0), &[]), 0);
    assert!(folder.read("disk")[4096..].iter().take(1 << 20).all(|byte| *byte == 0));
    let socket = folder.socket().display().to_string();
    let drain = || {
        let output = command::forebay(&["control", "drain", &socket]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = drain();
    assert!(code == Some(0) && said.contains("the disk has all data"), "{said}");
    assert!(folder.read("disk")[4096..][..data.len()] == data[..]);
    client.write(2 << 20, &[9; 4096]);
    assert_eq!(client.does((FLUSH, 0), (0, 0), &[]), 0);
    drop(client);
    serving.stop();
    fs::remove_file(folder.path("flash")).unwrap();
    let without = cached("noop").replace("flash = \"flash\"\n", "");
    fs::write(folder.path("serve.toml"), without).unwrap();
    let serving = Serving::start(&folder, &["serve.toml"]);
    let mut client = Client::simple(&folder.socket(), "data");
    assert!(client.read(4096, data.len() as u32) == data);
    assert_eq!(client.read(2 << 20, 4096), [9; 4096]);
    let (code, said) = drain();
    assert!(code == Some(2) && said.contains("all data is already on its disk"), "{said}");
    drop(client);
    serving.stop();
}

#[test]
fn a_running_server_takes_commands() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let serving = Serving::start(&folder, &["disk"]);
    let socket = folder.socket().display().to_string();
    let control = |words: &[&str]| {
        let mut command = command::forebay(&["control", words[0], &socket]);
        command.args(&words[1..]).current_dir(folder.root()).output().unwrap()
    };
    let says = |words: &[&str]| {
        let output = control(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        said
    };
    let refuses = |words: &[&str], part: &str| {
        let output = control(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(part) && said.lines().count() < 3, "{words:?}: {said}");
    };
    assert!(says(&["policy", "mq-deadline"]).contains("the policy is now mq-deadline"));
    refuses(&["policy", "fly"], "fly");
    refuses(&["policy", "bfq", "--disk", "other"], "no disk or volume is named 'other'");
    refuses(&["reload"], "no configuration file");
    refuses(&["stop-trace"], "no trace is being written");
    says(&["start-trace", "asked.csv"]);
    Client::simple(&folder.socket(), "").write(0, &[1; 4096]);
    assert!(says(&["rotate-trace"]).contains("asked.1.csv is complete"));
    assert!(says(&["stop-trace"]).contains("asked.csv is complete"));
    assert_eq!(
        String::from_utf8(folder.read("asked.1.csv")).unwrap().matches(",write,").count(),
        1
    );
    assert_eq!(top(&folder)["backs"][0]["policy"], "mq-deadline");
    serving.stop();
    refuses(&["reload"], "no server takes commands");
}

#[test]
fn the_stream_setting_is_reloaded_too() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let config = |rest| {
        format!(
            "socket = \"socket\"\n[[disk]]\nname = \"data\"\nfile = \"disk\"\npage_cache = true\npolicy = \"bfq\"\n{rest}"
        )
    };
    fs::write(folder.path("serve.toml"), config("")).unwrap();
    let serving = Serving::start(&folder, &["serve.toml"]);
    fs::write(folder.path("serve.toml"), config("streams = \"exports\"")).unwrap();
    serving.signal("-HUP");
    switched(&folder, 1);
    serving.signal("-INT");
    assert_eq!(serving.ends().0, Some(0));
}

#[test]
fn a_drive_of_a_volume_cannot_be_a_disk_or_be_used_twice() {
    let folder = Folder::new();
    fs::create_dir(folder.path("v")).unwrap();
    for nth in 0..6 {
        folder.holes(&format!("v/{nth}"), 32 << 20);
    }
    let volume = folder.path("v").display().to_string();
    command::forebay(&["volume", "create", &volume]).assert().success();
    let text = "socket = \"socket\"\n[[volume]]\nname = \"all\"\ndrives = [\"v\"]\n";
    folder.file("check.toml", text);
    let checked = serve(&folder, &["--check", "check.toml"]).output().unwrap();
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(said.contains("simulate TRACE --serve check.toml --device DEVICE\n"), "{said}");
    let disk = "[[disk]]\nname = \"one\"\nfile = \"v/0\"\npage_cache = true\n";
    let whole = "[[volume]]\nname = \"all\"\ndrives = [\"v\"]\n";
    for (text, part) in [
        (disk.to_string(), "v/0 is a drive of a volume"),
        (format!("{disk}{whole}"), "v/0: is used by 'one' and by 'all'"),
    ] {
        fs::write(folder.path("serve.toml"), format!("socket = \"socket\"\n{text}")).unwrap();
        let output = serve(&folder, &["serve.toml"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(part), "{said}");
    }
}

#[test]
fn metrics_list_exports_and_sockets_have_their_mode() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let port = free_port();
    // Root may choose any group.
    let own = fs::metadata(folder.root()).unwrap();
    let group = if own.uid() == 0 { 12_345 } else { own.gid() };
    let text = format!(
        "socket = \"socket\"\nsocket_mode = \"0620\"\nsocket_group = \"{group}\"\nmetrics = \"127.0.0.1:{port}\"\n\
         memory = \"64MiB\"\n[[disk]]\nname = \"data\"\nfile = \"disk\"\npage_cache = true\n"
    );
    fs::write(folder.path("serve.toml"), text).unwrap();
    let serving = Serving::start(&folder, &["serve.toml"]);
    let socket = fs::metadata(folder.socket()).unwrap();
    assert_eq!((socket.permissions().mode() & 0o777, socket.gid()), (0o620, group));
    let get = |path: &str| {
        let mut page = String::new();
        wait_until("the disk does not answer", || {
            page.clear();
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
            stream.read_to_string(&mut page).unwrap();
            !page.contains("does not answer")
        });
        page
    };
    let healthy = get("/health");
    assert!(
        healthy.starts_with("HTTP/1.1 200 OK") && healthy.ends_with("\r\n\r\nok\n"),
        "{healthy}"
    );
    assert!(get("/other").starts_with("HTTP/1.1 404"));
    // Requests of the maximum size fit one after another.
    let mut client = Client::simple(&folder.socket(), "data");
    (0..3).for_each(|_| assert!(client.read(0, 8 << 20).iter().all(|byte| *byte == 0)));
    // All reads fail after the disk was truncated.
    fs::File::options().write(true).open(folder.path("disk")).unwrap().set_len(0).unwrap();
    let fails = |client: &mut Client| assert_ne!(client.does((READ, 0), (0, 4096), &[]), 0);
    (0..7).for_each(|_| fails(&mut client));
    assert!(get("/health").starts_with("HTTP/1.1 200"));
    fails(&mut client);
    let failing = get("/health");
    assert!(
        failing.starts_with("HTTP/1.1 503") && failing.contains("'data': the last 8 reads of "),
        "{failing}"
    );
    serving.signal("-INT");
    let (_, said) = serving.ends();
    assert!(said.contains("a read of 4096 bytes at 0 failed"), "{said}");
}

#[test]
fn a_check_says_how_to_simulate_what_was_recorded() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let text = "socket = \"socket\"\n[[disk]]\nname = \"data\"\nfile = \"disk\"\n\
                emulate = \"fixed:900\"\ncapacity_iops = 900\ntrace = \"asked.parquet\"\n\
                [[export]]\nname = \"batch\"\non = \"data\"\n[[export]]\nname = \"db\"\n\
                on = \"data\"\nkeep_iops = 500\nwithin = \"10ms\"\n";
    fs::write(folder.path("serve.toml"), text).unwrap();
    let out = serve(&folder, &["--check", "serve.toml"]).output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    let command = said.lines().last().unwrap().trim();
    assert_eq!(command, "forebay simulate TRACE --serve serve.toml");
    let serving = Serving::start(&folder, &["serve.toml"]);
    let mut clients = ["db", "batch"].map(|name| Client::simple(&folder.socket(), name));
    for nth in 0..30 {
        clients.iter_mut().for_each(|client| drop(client.read(nth * 4096, 4096)));
    }
    serving.stop();
    shell::prepared(folder.root());
    let command = command.replace("TRACE", "asked.parquet --format json");
    let answer = shell::run(folder.root(), &command).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let run = &answer["runs"][0];
    assert_eq!(run["requests"].as_u64(), Some(61), "{answer}");
    assert!(run["policy"].as_str().unwrap().starts_with("promised:cmin=0/500/0:"), "{answer}");
    // The client of `db` came first, but its stream is that of its export.
    let db = &run["classes"][1];
    assert_eq!((&db["class"], &db["requests"]), (&"db".into(), &30.into()), "{answer}");
}

#[test]
fn a_configuration_is_checked_without_serving_it() {
    let folder = Folder::new();
    let check = |keep: &str, policy: &str| {
        let text = format!(
            "socket = \"s\"\n[[disk]]\nname = \"data\"\nfile = \"disk\"\npolicy = \"{policy}\"\n\
             capacity_iops = 900\n[[export]]\nname = \"db\"\non = \"data\"\nkeep_iops = {keep}\n\
             within = \"10ms\"\n"
        );
        fs::write(folder.path("serve.toml"), text).unwrap();
        let out = serve(&folder, &["--check", "serve.toml"]).output().unwrap();
        // The result is on standard output, errors are on standard error.
        let (said, other) = match out.status.success() {
            true => (out.stdout, out.stderr),
            false => (out.stderr, out.stdout),
        };
        assert_eq!(String::from_utf8_lossy(&other), "");
        (out.status.code(), String::from_utf8(said).unwrap())
    };
    let (code, said) = check("800", "noop");
    assert!(code == Some(2) && said.contains("disk: no such file"), "{said}");
    folder.holes("disk", 8 << 20);
    let (code, said) = check("800", "noop");
    assert_eq!(code, Some(0), "{said}");
    let expected =
        "'data': 1 export, policy noop; promises 800 of 900 IOPS, 0 more can be promised";
    assert!(said.contains(expected), "{said}");
    for (keep, policy, what) in [
        ("801", "noop", "exceeds capacity_iops"),
        ("99", "noop", "keep_iops: got 99, expected at least 100, one request within 10 ms"),
        ("200", "nop", "'nop'"),
        ("200", "cache:size-mib=8", "'data': policy: "),
    ] {
        let (code, said) = check(keep, policy);
        assert!(code == Some(2) && said.contains(what), "{said}");
    }
    assert!(!folder.path("s").exists());
    let nothing = serve(&folder, &["--check", "nope.img"]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(2));
}
