//! Runs `forebay serve` and its client tools for tests.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

pub(crate) use forebay_rig::Folder;
use forebay_rig::{is_of_a_busy_machine, wait_until};
pub(crate) use forebay_testing::skipped;
use serde_json::Value;

use crate::command;

pub(crate) mod mounted;

/// Returns a command that runs `forebay serve` with the arguments `words` in the folder.
pub(crate) fn serve(folder: &Folder, words: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command.arg("serve").args(words).current_dir(folder.path(""));
    command
}

/// A running server, killed when dropped.
pub(crate) struct Serving {
    pub(crate) child: Child,
    said: BufReader<ChildStderr>,
    /// The URI that clients use.
    pub(crate) uri: String,
}

impl Serving {
    /// Starts a server with the arguments `words` and waits until it serves. If they contain no
    /// address, its socket is in the folder.
    pub(crate) fn start(folder: &Folder, words: &[&str]) -> Serving {
        let mut command = serve(folder, words);
        let says = |word: &&&str| ["--tcp", "--socket"].contains(*word) || word.ends_with(".toml");
        if !words.iter().any(|word| says(&word)) {
            command.arg("--socket").arg(folder.socket());
        }
        Serving::of(&mut command).0
    }

    /// Starts a command and waits until it serves. Returns the server and its messages so far.
    pub(crate) fn of(command: &mut Command) -> (Serving, String) {
        let mut started = Err(String::new());
        wait_until("the files of a killed server stay in use", || {
            started = Serving::try_start(command);
            // On a busy machine, the kernel takes long to release the files of a killed server.
            !started.as_ref().is_err_and(|said| said.contains("another process"))
        });
        started.unwrap_or_else(|said| panic!("it does not serve: {said}"))
    }

    /// Starts a command like [`of`](Self::of). Returns its messages if it ends without serving.
    fn try_start(command: &mut Command) -> Result<(Serving, String), String> {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut serving = Serving { child, said, uri: String::new() };
        let mut all = String::new();
        loop {
            let mut line = String::new();
            if serving.said.read_line(&mut line).unwrap() == 0 {
                serving.child.wait().unwrap();
                return Err(all);
            }
            if let Some((_, uri)) = line.trim_end().split_once(" at ")
                && line.contains("serving")
            {
                serving.uri = uri.to_string();
                return Ok((serving, all));
            }
            all += &line;
        }
    }

    /// Waits until the server says `part`; returns its messages until then.
    pub(crate) fn says(&mut self, part: &str) -> String {
        let mut all = String::new();
        while !all.contains(part) {
            assert!(self.said.read_line(&mut all).unwrap() > 0, "it never says {part}: {all}");
        }
        all
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Waits until the server ends. Returns its exit status and its messages, except those due to a
    /// busy machine.
    pub(crate) fn ends(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        let lines = said.lines().filter(|line| !is_of_a_busy_machine(line));
        (status.code(), lines.map(|line| format!("{line}\n")).collect())
    }

    /// Interrupts the server, which must exit with status 0 and without a message.
    pub(crate) fn stop(self) {
        self.signal("-INT");
        assert_eq!(self.ends(), (Some(0), String::new()));
    }

    /// Returns the value of a line in /proc/PID/status, in KiB.
    pub(crate) fn memory_kib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches(|one: char| !one.is_ascii_digit()).parse().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a free port. The kernel gives such a port to nobody who does not ask for it.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 2000) as u16 * 10;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Returns the JSON output of `forebay top`, once all disks answer in time.
pub(crate) fn top(folder: &Folder) -> Value {
    let socket = folder.socket();
    let mut told = Value::Null;
    wait_until("a disk does not answer", || {
        told = command::json(&mut command::forebay(&["top", socket.to_str().unwrap()])).0;
        told["unanswered"].is_null()
    });
    told
}

/// Returns whether all `tools` are installed. If not, reports a skipped test.
pub(crate) fn have(tools: &[&str]) -> bool {
    let is_there = |tool: &&&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
        found.is_ok_and(|output| output.status.success())
    };
    let missing: Vec<_> = tools.iter().filter(|tool| !is_there(tool)).copied().collect();
    if !missing.is_empty() {
        skipped(&format!("there is no {}", missing.join(", ")));
    }
    missing.is_empty()
}

/// Runs a tool.
pub(crate) fn ran(folder: &Folder, tool: &str, words: &[&str]) -> Output {
    let output = Command::new(tool).args(words).current_dir(folder.path("")).output();
    output.unwrap_or_else(|error| panic!("{tool}: {error}"))
}

/// Runs a tool that must succeed. Returns its output.
pub(crate) fn does(folder: &Folder, tool: &str, words: &[&str]) -> String {
    let output = ran(folder, tool, words);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {words:?}: {told}{error}");
    told
}

/// Returns pseudo-random bytes in which every third MiB is zeros.
pub(crate) fn mixed(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut all = Vec::with_capacity(bytes);
    while all.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let zeros = (all.len() >> 20) % 3 == 1;
        all.extend(if zeros { [0; 8] } else { state.to_le_bytes() });
    }
    all.truncate(bytes);
    all
}

/// Creates a sparse file with these bytes, in which zeros are holes.
pub(crate) fn sparse(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (nth, part) in bytes.chunks(1 << 20).enumerate() {
        if part.iter().any(|byte| *byte != 0) {
            file.write_all_at(part, (nth as u64) << 20).unwrap();
        }
    }
}
