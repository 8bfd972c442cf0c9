//! Tests that clients of `forebay serve` continue after the server was killed and restarted, and
//! while a volume loses drives.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use forebay_rig::nbd::Client;
use forebay_rig::wait_until;
use serde_json::Value;

use crate::command;
use crate::served::{Folder, Serving, does, have, ran, skipped, top};

/// Kills the server, and restarts it after a while.
fn restarted(folder: &Folder, mut serving: Serving, words: &[&str]) -> Serving {
    serving.signal("-KILL");
    serving.child.wait().unwrap();
    thread::sleep(Duration::from_millis(100));
    Serving::start(folder, words)
}

/// Returns QEMU's options for the export in the folder. QEMU tries to reconnect for two minutes.
fn qemu(folder: &Folder) -> String {
    let socket = folder.socket();
    format!("driver=nbd,server.type=unix,server.path={},reconnect-delay=120", socket.display())
}

/// A qemu-io process that executes one command at a time.
struct QemuIo {
    child: Child,
    asks: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl QemuIo {
    fn start(folder: &Folder) -> QemuIo {
        let mut command = Command::new("qemu-io");
        command.args(["-t", "none", "--image-opts", &qemu(folder)]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (asks, says) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        QemuIo { child, asks, says: BufReader::new(says) }
    }

    /// Executes a command and waits for `over`, the line that says that all bytes were transferred.
    fn does(&mut self, command: &str, over: &str) {
        writeln!(self.asks, "{command}").unwrap();
        let mut said = String::new();
        loop {
            let before = said.len();
            assert!(self.says.read_line(&mut said).unwrap() > 0, "{command}: {said}");
            let line = &said[before..];
            assert!(!line.contains("failed"), "{command}: {said}");
            if line.contains(over) {
                return;
            }
        }
    }
}

#[test]
fn qemu_continues_after_the_server_is_killed_and_restarted() {
    if !have(&["qemu-io", "qemu-img"]) {
        return;
    }
    let folder = Folder::new();
    folder.holes("disk", 16 << 20);
    let words = ["disk", "--policy", "mq-deadline"];
    let mut serving = Serving::start(&folder, &words);
    let mut qemu_io = QemuIo::start(&folder);
    for round in 1..4 {
        qemu_io.does(&format!("write -f -P {round} {round}M 1M"), "wrote 1048576/1048576");
        serving = restarted(&folder, serving, &words);
        // To the client, this is still the same connection.
        for before in 1..=round {
            qemu_io.does(&format!("read -P {before} {before}M 1M"), "read 1048576/1048576");
        }
    }
    let QemuIo { mut child, asks, says } = qemu_io;
    drop(asks);
    assert!(child.wait().unwrap().success());
    drop(says);
    // Requests that were outstanding when the server was killed are repeated.
    let words_of_bench = ["bench", "-c", "80000", "-d", "16", "-w", "-s", "4096", "--image-opts"];
    let begin =
        || Command::new("qemu-img").args(words_of_bench).arg(qemu(&folder)).spawn().unwrap();
    let (mut bench, mut kills) = (begin(), 0);
    while kills < 2 {
        thread::sleep(Duration::from_millis(150));
        if let Some(ended) = bench.try_wait().unwrap() {
            // This machine is so slow that the benchmark has already ended; start another one.
            assert!(ended.success());
            bench = begin();
            continue;
        }
        serving = restarted(&folder, serving, &words);
        kills += 1;
    }
    assert!(bench.wait().unwrap().success());
    serving.stop();
}

/// A client that reconnects if necessary and repeats unanswered requests.
const AGAIN: &str = include_str!("served/again.py");

#[test]
fn libnbd_clients_continue_after_the_server_is_killed_and_restarted() {
    let python = "/usr/bin/python3";
    let has_module = Command::new(python).args(["-c", "import nbd"]).output();
    if !has_module.is_ok_and(|output| output.status.success()) {
        return skipped("there is no nbd module for Python");
    }
    let folder = Folder::new();
    folder.holes("disk", 4 << 20);
    let words = ["disk", "--policy", "forebay"];
    let mut serving = Serving::start(&folder, &words);
    let mut asks = Command::new(python);
    asks.args(["-c", AGAIN, &serving.uri]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = asks.spawn().unwrap();
    let says = BufReader::new(client.stdout.take().unwrap());
    let mut lines = says.lines().map(Result::unwrap);
    for lost in 0..3 {
        // The client has been writing to this server for a while when it is killed.
        let goes_on = format!("goes on after {lost} losses");
        assert!(lines.any(|line| line == goes_on), "no {goes_on}");
        serving = restarted(&folder, serving, &words);
    }
    drop(client.stdin.take());
    let last = lines.last().unwrap();
    assert!(client.wait().unwrap().success());
    assert_eq!(last, "lost the server 3 times");
    serving.stop();
}

#[test]
fn nbd_client_reconnects() {
    if !have(&["nbd-client"]) {
        return;
    }
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    // Without the kernel module there is no nbd device, so the client completes only the handshake.
    fs::write(folder.path("device"), "").unwrap();
    let mut serving = Serving::start(&folder, &["disk"]);
    for _ in 0..2 {
        let socket = folder.socket();
        let words = ["-unix", socket.to_str().unwrap(), "device", "-persist"];
        let output = ran(&folder, "nbd-client", &words);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("size = 8MB"), "{said}");
        serving = restarted(&folder, serving, &["disk"]);
    }
    serving.stop();
}

#[test]
fn a_trace_of_a_killed_server_can_be_read() {
    let folder = Folder::new();
    folder.holes("disk", 1 << 20);
    let trace = folder.path("asked.parquet").display().to_string();
    let mut serving = Serving::start(&folder, &["disk", "--trace", &trace]);
    let mut client = Client::simple(&folder.socket(), "");
    (0..20).for_each(|nth| client.write(nth * 4096, &[1; 4096]));
    // The server completes the file every five seconds, so that it can be read.
    let partial = || {
        let entries = fs::read_dir(folder.root()).unwrap().map(|entry| entry.unwrap().path());
        entries.into_iter().find(|path| path.to_string_lossy().ends_with(".partial")).unwrap()
    };
    let written = || {
        thread::sleep(Duration::from_millis(200));
        let partial = partial().display().to_string();
        let output = command::forebay(&["describe", "--from", "parquet", &partial])
            .args(["--format", "json"])
            .output()
            .unwrap();
        // The file may be in the middle of a change.
        let told = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        told["written_bytes"].as_u64().or(told["write_bytes"].as_u64())
    };
    wait_until("it is still empty", || written() == Some(20 * 4096));
    serving.signal("-KILL");
    serving.child.wait().unwrap();
    let partial = partial().display().to_string();
    let (answer, said) =
        command::json(&mut command::forebay(&["describe", "--from", "parquet", &partial]));
    assert_eq!(
        answer["written_bytes"].as_u64().or(answer["write_bytes"].as_u64()),
        Some(20 * 4096)
    );
    assert_eq!(said, "");
}

/// Starts a server as systemd does: with an open socket, and a socket for state messages.
const ACTIVATED: &str = "
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind('socket')
listening.listen()
os.dup2(listening.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', NOTIFY_SOCKET='state')
os.execv(sys.argv[1], ['forebay', 'serve', 'disk', '--socket', 'socket'])
";

#[test]
fn a_server_takes_over_an_open_socket_and_says_when_it_is_ready() {
    if !have(&["python3"]) {
        return;
    }
    let folder = Folder::new();
    folder.holes("disk", 1 << 20);
    let state = UnixDatagram::bind(folder.path("state")).unwrap();
    let binary = assert_cmd::cargo::cargo_bin!("forebay");
    let mut command = Command::new("python3");
    command.args(["-c", ACTIVATED]).arg(binary).current_dir(folder.root());
    let mut child = command.spawn().unwrap();
    let said = || {
        let mut bytes = [0; 100];
        let count = state.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    };
    assert_eq!(said(), "READY=1");
    let mut client = Client::simple(&folder.path("socket"), "");
    client.write(0, &[1; 4096]);
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(said(), "STOPPING=1");
    assert!(child.wait().unwrap().success());
    assert!(folder.path("socket").exists(), "it belongs to whoever opened it");
    assert_eq!(folder.read("disk")[..4096], [1; 4096]);
}

#[test]
fn the_documented_systemd_unit_is_valid() {
    if !have(&["systemd-analyze"]) {
        return;
    }
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.md"));
    let unit = include_str!("../../../packaging/forebay.service");
    assert!(page.unwrap().contains(&format!("```ini\n{unit}```")), "docs/serve.md: {unit}");
    for key in
        ["Restart=on-failure", "RuntimeDirectory=forebay", "ExecReload=/bin/kill -HUP $MAINPID"]
    {
        assert!(unit.contains(key), "{unit}");
    }
    // The path may contain blanks.
    let binary = format!("{:?}", assert_cmd::cargo::cargo_bin!("forebay"));
    let folder = Folder::new();
    let unit = unit.replace("/usr/local/bin/forebay", &binary);
    assert!(unit.contains(&binary));
    fs::write(folder.path("forebay.service"), unit).unwrap();
    let output = ran(&folder, "systemd-analyze", &["verify", "./forebay.service"]);
    let said = String::from_utf8_lossy(&output.stderr);
    // Ignore messages about other units.
    assert!(output.status.success() && !said.contains("forebay"), "{said}");
}

#[test]
fn fio_verifies_its_data_after_two_drives_lost_everything() {
    if !have(&["fio"]) {
        return;
    }
    let folder = Folder::new();
    fs::create_dir(folder.path("v")).unwrap();
    let drives: Vec<_> =
        (1..=6).map(|drive| folder.holes(&format!("v/{drive}"), 48 << 20)).collect();
    let forebay = assert_cmd::cargo::cargo_bin!("forebay").display().to_string();
    does(&folder, &forebay, &["volume", "create", "v"]);
    let config = "socket = \"socket\"\n[[volume]]\nname = \"safe\"\ndrives = [\"v\"]\n\
                  policy = \"array:adapt=bonus-malus\"\n";
    fs::write(folder.path("serve.toml"), config).unwrap();
    let serving = Serving::start(&folder, &["serve.toml"]);
    let uri = format!("--uri={}", serving.uri.replace("///?", "///safe?"));
    let begin = || {
        let mut fio = Command::new("fio");
        fio.args(["--name=v", "--ioengine=nbd", &uri, "--rw=randrw", "--bs=16k", "--size=24m"]);
        fio.args(["--io_size=160m", "--iodepth=16", "--randseed=7", "--verify=crc32c"]);
        fio.args(["--verify_fatal=1", "--verify_backlog=64", "--fsync=64"]);
        fio.arg("--output-format=json").current_dir(folder.path(""));
        fio.stdout(Stdio::piped()).spawn().unwrap()
    };
    let verifies = |fio: Child| {
        let output = fio.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let told: Value = serde_json::from_str(&told[told.find('{').unwrap()..]).unwrap();
        assert!(output.status.success() && told["jobs"][0]["error"] == 0, "{told}");
    };
    let fio = begin();
    let written = || counted(&folder, "reads");
    for (nth, drive) in drives[1..3].iter().enumerate() {
        while written() < 200.0 * (nth + 1) as f64 {
            thread::sleep(Duration::from_millis(10));
        }
        // The drive has lost its data. I/Os to it fail until it is restored.
        File::options().write(true).open(drive).unwrap().set_len(0).unwrap();
    }
    verifies(fio);
    let count = |name: &str| {
        let figures = top(&folder);
        let counted = figures["backs"][0]["counted"].as_array().unwrap();
        counted.iter().find(|one| one[0] == name).unwrap()[1].as_f64().unwrap()
    };
    let is_noticed = || count("degraded") + count("drives_failed") > 0.0;
    if !is_noticed() {
        // The load ended before the drives lost their data.
        verifies(begin());
    }
    assert!(counted(&folder, "failed") == 0.0, "a client is told of it");
    assert!(count("switches") > 0.0 && is_noticed(), "{}", top(&folder));
    let told = does(&folder, &forebay, &["top", "socket", "--once", "--interval", "100ms"]);
    assert!(told.contains("Units by level: ") && told.contains("raid10x3"), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 100), "{told}");
    serving.signal("-INT");
    let (code, said) = serving.ends();
    assert_eq!(code, Some(0), "{said}");
    // If all writes reached both drives and checksums detected the lost data, no request has failed
    // and the data was restored.
    let is_told = said.contains(" failed: ") || said.contains("restored and rewritten");
    assert!((said.is_empty() || is_told) && said.lines().count() < 200, "{said}");
    // Even without these two drives, all data is available.
    drives[1..3].iter().for_each(|drive| fs::remove_file(drive).unwrap());
    let told = ran(&folder, &forebay, &["volume", "status", "v", "--format", "json"]);
    assert_eq!(told.status.code(), Some(3), "it is degraded");
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["lost_units"], 0, "{told}");
}

/// Returns a counter of the first export.
fn counted(folder: &Folder, name: &str) -> f64 {
    top(folder)["backs"][0]["exports"][0][name].as_f64().unwrap()
}
