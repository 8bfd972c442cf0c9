//! Runs `forebay store serve` for tests.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use forebay_rig::Folder;
use forebay_rig::redis::Client;

pub(crate) fn forebay(folder: &Folder, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command.args(args).current_dir(folder.root());
    command
}

pub(crate) const DISKS: [&str; 4] = ["a", "b", "c", "d"];

/// Creates a store in a folder.
pub(crate) fn made(folder: &Folder) {
    DISKS.iter().for_each(|disk| fs::create_dir(folder.root().join(disk)).unwrap());
    let create = [&["store", "create", "--mb", "200"], &DISKS[..]].concat();
    assert!(forebay(folder, &create).output().unwrap().status.success());
}

/// A server of the store in a folder, killed when dropped.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// The address of the metrics, if they were requested.
    pub(crate) metrics: Option<SocketAddr>,
}

impl Serving {
    pub(crate) fn start(folder: &Folder) -> Serving {
        Serving::of(folder, &DISKS)
    }

    /// Starts a server with the arguments `words`, which contain its disks or options.
    pub(crate) fn of(folder: &Folder, words: &[&str]) -> Serving {
        let serve = [&["store", "serve", "--listen", "127.0.0.1:0"], words].concat();
        Serving::by(forebay(folder, &serve), words)
    }

    /// Starts `command`, which serves a store, with further options.
    pub(crate) fn by(mut command: Command, words: &[&str]) -> Serving {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines().map(Result::unwrap);
        // Messages about lost data come before the line with the address.
        let mut said = String::new();
        let line = lines.by_ref().inspect(|line| said += line).find(|line| line.contains(" at "));
        let Some(line) = line else {
            // On a busy machine, the kernel takes long to release the disks of a killed server.
            assert!(said.contains("another process"), "{said}");
            child.wait().unwrap();
            return Serving::by(command, words);
        };
        let address = line.split(" at ").nth(1).and_then(|rest| rest.split(';').next());
        let address = address.unwrap_or_else(|| panic!("no address in: {line}")).parse().unwrap();
        let metrics = words.contains(&"--metrics").then(|| {
            let line = lines.next().unwrap();
            line.rsplit("http://").next().unwrap().trim_end_matches("/metrics").parse().unwrap()
        });
        Serving { child, address, metrics }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
