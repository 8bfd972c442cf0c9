//! `forebay store serve` as the tests run it: the real binary, and a client that speaks as Redis's do.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::command::Folder;

pub(crate) fn forebay(folder: &Folder, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command.args(args).current_dir(folder.root());
    command
}

pub(crate) const DISKS: [&str; 4] = ["a", "b", "c", "d"];

/// Makes a store in a folder.
pub(crate) fn made(folder: &Folder) {
    DISKS.iter().for_each(|disk| fs::create_dir(folder.root().join(disk)).unwrap());
    let create = [&["store", "create", "--mb", "200"], &DISKS[..]].concat();
    assert!(forebay(folder, &create).output().unwrap().status.success());
}

/// A server of the store in a folder, killed when it is let go.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// Where it says its metrics, if it was asked to.
    pub(crate) metrics: Option<SocketAddr>,
}

impl Serving {
    pub(crate) fn start(folder: &Folder) -> Serving {
        Serving::of(folder, &DISKS)
    }

    /// Of these disks, or with these options.
    pub(crate) fn of(folder: &Folder, words: &[&str]) -> Serving {
        let serve = [&["store", "serve", "--listen", "127.0.0.1:0"], words].concat();
        Serving::by(forebay(folder, &serve), words)
    }

    /// By a command that serves it with these options.
    pub(crate) fn by(mut command: Command, words: &[&str]) -> Serving {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines().map(Result::unwrap);
        // What is lost is said before.
        let line = lines.find(|line| line.contains(" at ")).unwrap();
        let address = line.split(" at ").nth(1).and_then(|rest| rest.split(';').next());
        let address = address.unwrap_or_else(|| panic!("no address in: {line}")).parse().unwrap();
        let metrics = words.contains(&"--metrics").then(|| {
            let line = lines.next().unwrap();
            line.rsplit("http://").next().unwrap().trim_end_matches("/metrics").parse().unwrap()
        });
        Serving { child, address, metrics }
    }

    pub(crate) fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client(BufReader::new(stream))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Client(pub(crate) BufReader<TcpStream>);

impl Client {
    pub(crate) fn send(&mut self, words: &[&[u8]]) -> bool {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend_from_slice(word);
            bytes.extend(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes).is_ok()
    }

    /// A reply as text: what it says, items in brackets; none where the connection ended.
    pub(crate) fn reply(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let line = line.trim_end();
        let number = || line[1..].parse::<i64>().unwrap();
        Some(match line.as_bytes()[0] {
            b'$' if number() < 0 => "nil".into(),
            b'$' => {
                let mut bytes = vec![0; number() as usize + 2];
                self.0.read_exact(&mut bytes).ok()?;
                String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned()
            }
            b'*' => {
                let items = (0..number()).map(|_| self.reply()).collect::<Option<Vec<_>>>()?;
                format!("[{}]", items.join(" "))
            }
            _ => line.to_string(),
        })
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        assert!(self.send(&words));
        self.reply().unwrap()
    }
}
