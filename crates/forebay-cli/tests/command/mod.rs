//! Runs the command in tests, and checks the rules that every run must follow.
//!
//! Bad input or usage: exit status 2, one message on standard error, and nothing on standard
//! output. Input with faults that do not affect the rest: exit status 0 and a warning that counts
//! the faults.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
pub(crate) use forebay_rig::Folder;
use serde_json::Value;

/// The header line of Forebay's own CSV format.
pub(crate) const HEADER: &str =
    "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n";
pub(crate) const SPC: &str = "0,100,4096,R,0.0\n0,9000,8192,W,0.001\n1,40,512,r,0.002\n";
pub(crate) const MSR: &str = "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
                   128166372003062629,usr,1,Write,1317441536,8192,1963\n";

/// Runs verbs on files in a test folder.
pub(crate) trait Verbs {
    /// Returns one command per verb that reads `trace`.
    fn verbs(&self, trace: &Path) -> [Command; 4];

    /// Asserts that every verb rejects a file with `content`, with a message that contains all
    /// `parts`, and creates no files.
    fn refused(&self, name: &str, content: impl AsRef<[u8]>, parts: &[&str]);
}

impl Verbs for Folder {
    fn verbs(&self, trace: &Path) -> [Command; 4] {
        let mut simulate = forebay(&["simulate", "--device", "sata250", "--policy", "noop"]);
        simulate.arg(trace);
        let mut describe = forebay(&["describe"]);
        describe.arg(trace);
        let mut convert = forebay(&["convert"]);
        convert.arg(trace).arg(self.path("converted.csv"));
        let mut advise = forebay(&["advise"]);
        advise.arg(trace).arg("--report").arg(self.path("report.html"));
        [describe, simulate, convert, advise]
    }

    fn refused(&self, name: &str, content: impl AsRef<[u8]>, parts: &[&str]) {
        let trace = self.file(name, content);
        let parts: Vec<&str> = parts.iter().copied().chain([name]).collect();
        for mut verb in self.verbs(&trace) {
            fails(&mut verb, 2, &parts);
        }
        assert!(!self.path("converted.csv").exists() && !self.path("report.html").exists());
        fs::remove_file(trace).unwrap();
        assert_eq!(fs::read_dir(self.root()).unwrap().count(), 0, "{name}: something is left");
    }
}

/// Returns the path of the bundled trace.
pub(crate) fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet")
}

/// Writes the first requests of the bundled trace as CSV to the file `name` in the folder.
pub(crate) fn start_of_sample(folder: &Folder, name: &str, requests: usize) -> PathBuf {
    let whole = folder.path("whole.csv");
    if !whole.exists() {
        ends(forebay(&["convert"]).arg(sample()).arg(&whole), 0);
    }
    let rows = fs::read_to_string(&whole).unwrap();
    folder.file(name, rows.split_inclusive('\n').take(1 + requests).collect::<String>())
}

pub(crate) fn forebay(arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command.args(arguments);
    command
}

fn shown(command: &Command) -> String {
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

/// Runs a command that must exit with status `code`. Returns its standard output and standard
/// error.
pub(crate) fn ends(command: &mut Command, code: i32) -> (String, String) {
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{}: {err}", shown(command));
    for crash in ["panicked", "RUST_BACKTRACE", "internal error"] {
        assert!(!err.contains(crash), "{err}");
    }
    (out, err)
}

/// Asserts that a command fails with one message that contains all `parts` and prints nothing on
/// standard output.
pub(crate) fn fails(command: &mut Command, code: i32, parts: &[&str]) {
    let (out, err) = ends(command, code);
    assert_eq!(out, "", "{}", shown(command));
    assert!(err.starts_with("forebay: ") && err.lines().count() == 1, "{}: {err}", shown(command));
    for part in parts {
        assert!(err.contains(part), "{}: no {part:?} in: {err}", shown(command));
    }
}

/// Returns the JSON that a command prints, and its standard error.
pub(crate) fn json(command: &mut Command) -> (Value, String) {
    let (out, err) = ends(command.args(["--format", "json"]), 0);
    assert!(out.starts_with("{\n  \"schema_version\": 4,\n"), "{}: {out}", shown(command));
    (serde_json::from_str(&out).unwrap(), err)
}

/// Runs `describe` on a file with `content`.
pub(crate) fn described(content: impl AsRef<[u8]>) -> (Value, String) {
    let folder = Folder::new();
    let trace = folder.file("trace", content);
    json(forebay(&["describe"]).arg(trace))
}

/// Runs `simulate` on a trace in SPC format with noop on the 250 GB disk.
pub(crate) fn simulated(text: &str, options: &[&str]) -> (Value, String) {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", text);
    let mut command = forebay(&["simulate", "--device", "sata250", "--policy", "noop"]);
    let (result, err) = json(command.arg(trace).args(options));
    (result["runs"][0].clone(), err)
}
