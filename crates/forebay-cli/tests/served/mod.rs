//! `forebay serve` as the tests run it: the real binary, its socket, and the tools that are its clients.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

pub(crate) use forebay_rig::Folder;

pub(crate) mod mounted;

/// `forebay serve` with these words, in the folder.
pub(crate) fn serve(folder: &Folder, words: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command.arg("serve").args(words).current_dir(folder.path(""));
    command
}

/// A server, killed when it is let go.
pub(crate) struct Serving {
    pub(crate) child: Child,
    said: BufReader<ChildStderr>,
    /// As clients name it.
    pub(crate) uri: String,
}

impl Serving {
    /// Of these words, once it serves. Its socket, if it has no address, is the folder's.
    pub(crate) fn start(folder: &Folder, words: &[&str]) -> Serving {
        let mut command = serve(folder, words);
        let says = |word: &&&str| ["--tcp", "--socket"].contains(*word) || word.ends_with(".toml");
        if !words.iter().any(|word| says(&word)) {
            command.arg("--socket").arg(folder.socket());
        }
        Serving::of(&mut command).0
    }

    /// Starts the command and waits until it serves; returns its messages so far.
    pub(crate) fn of(command: &mut Command) -> (Serving, String) {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut all = String::new();
        let uri = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "it does not serve: {all}");
            if let Some((_, uri)) = line.trim_end().split_once(" at ")
                && line.contains("serving")
            {
                break uri.to_string();
            }
            all += &line;
        };
        (Serving { child, said, uri }, all)
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Waits for the end and returns the status and the messages.
    pub(crate) fn ends(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        (status.code(), said)
    }

    /// Interrupts it; it has to end well and without a word.
    pub(crate) fn stop(self) {
        self.signal("-INT");
        assert_eq!(self.ends(), (Some(0), String::new()));
    }

    /// Returns a line of /proc/PID/status, in KiB.
    pub(crate) fn memory_kib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches(|one: char| !one.is_ascii_digit()).parse().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether these tools exist; prints a loud message if not.
pub(crate) fn have(tools: &[&str]) -> bool {
    let is_there = |tool: &&&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
        found.is_ok_and(|output| output.status.success())
    };
    let missing: Vec<_> = tools.iter().filter(|tool| !is_there(tool)).collect();
    if !missing.is_empty() {
        skipped(&format!("there is no {missing:?}"));
    }
    missing.is_empty()
}

pub(crate) fn skipped(why: &str) {
    // Past the test harness, which shows nothing of a test that passes.
    let _ = writeln!(io::stderr(), "!!! a test of serve is SKIPPED: {why}");
}

/// Runs a tool.
pub(crate) fn ran(folder: &Folder, tool: &str, words: &[&str]) -> Output {
    let output = Command::new(tool).args(words).current_dir(folder.path("")).output();
    output.unwrap_or_else(|error| panic!("{tool}: {error}"))
}

/// Runs a tool that has to go well; what it says.
pub(crate) fn does(folder: &Folder, tool: &str, words: &[&str]) -> String {
    let output = ran(folder, tool, words);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {words:?}: {told}{error}");
    told
}

/// Bytes that are not alike anywhere, of which every third MiB is zeros.
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

/// Creates a file with these bytes whose zeros are holes.
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
