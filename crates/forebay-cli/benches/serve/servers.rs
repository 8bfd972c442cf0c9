//! Starts NBD servers: `forebay serve`, nbdkit and qemu-nbd.

use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::fio::{self, Seen, Shape};

/// The unit of CPU times in /proc/PID/stat: ticks per second.
const TICKS_HZ: f64 = 100.0;

/// A server process that is killed when dropped.
pub(crate) struct Server {
    child: Child,
    socket: PathBuf,
}

/// The results of a client, and the CPU time that the server used meanwhile.
pub(crate) struct Measured {
    pub(crate) seen: Seen,
    pub(crate) cpu_s: f64,
}

impl Measured {
    pub(crate) fn per_cpu_s(&self) -> f64 {
        // At least one tick, which is the smallest measurable time.
        self.seen.requests / self.cpu_s.max(1.0 / TICKS_HZ)
    }
}

impl Server {
    /// Starts `forebay serve` on the file.
    pub(crate) fn ours(file: &Path, socket: PathBuf, options: &[&str]) -> Server {
        let program = env!("CARGO_BIN_EXE_forebay");
        let words = ["serve".into(), file.into(), "--socket".into(), socket.clone().into()];
        Server::start(program, &words, options, socket).unwrap()
    }

    /// Starts `forebay serve` with a configuration that listens on `socket`.
    pub(crate) fn configured(config: &Path, socket: PathBuf) -> Server {
        Server::start(env!("CARGO_BIN_EXE_forebay"), &["serve".into(), config.into()], &[], socket)
            .unwrap()
    }

    /// Ends the server, which completes its trace.
    pub(crate) fn interrupt(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }

    /// Starts `nbdkit file`. Returns `None` if nbdkit is not installed.
    pub(crate) fn nbdkit(file: &Path, socket: PathBuf) -> Option<Server> {
        let words = ["-f".into(), "-U".into(), socket.clone().into(), "file".into(), file.into()];
        Server::start("nbdkit", &words, &[], socket)
    }

    /// Starts `qemu-nbd`. Returns `None` if it is not installed.
    pub(crate) fn qemu(file: &Path, socket: PathBuf, options: &[&str]) -> Option<Server> {
        let words = ["-k".into(), socket.clone().into(), file.into()];
        let options = [&["-f", "raw", "-t"], options].concat();
        Server::start("qemu-nbd", &words, &options, socket)
    }

    fn start(
        program: &str,
        words: &[OsString],
        options: &[&str],
        socket: PathBuf,
    ) -> Option<Server> {
        let begun = Command::new(program)
            .args(options.iter().filter(|_| program == "qemu-nbd"))
            .args(words)
            .args(options.iter().filter(|_| program != "qemu-nbd"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = begun else {
            println!("!!! {program} is not installed: not compared with");
            return None;
        };
        let mut server = Server { child, socket };
        for _ in 0..200 {
            if UnixStream::connect(&server.socket).is_ok() {
                return Some(server);
            }
            assert!(server.child.try_wait().unwrap().is_none(), "{program} {options:?} ended");
            thread::sleep(Duration::from_millis(50));
        }
        panic!("{program} does not listen");
    }

    /// Runs a client against the server and measures both.
    pub(crate) fn measure(&self, shape: Shape, seconds: f64) -> Measured {
        let before = self.ticks();
        let seen = fio::ask(&self.socket, shape, seconds);
        Measured { seen, cpu_s: (self.ticks() - before) / TICKS_HZ }
    }

    /// Returns the user and system CPU time that the server has used, in ticks.
    fn ticks(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // Use fields 14 and 15, counted after the process name in brackets, because the name may
        // contain spaces.
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap()..].split(' ').collect();
        fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
