//! The client's side of the handshake. After it, the kernel uses the connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::Address;
use crate::protocol::{GREETING, OPTION, OPTION_REPLY};

/// How long the server may take for each answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum length of a reply in bytes.
const REPLY_BYTES_MAX: u32 = 64 << 10;

const FIXED_NEWSTYLE: u32 = 1;
const NO_ZEROES: u32 = 2;
const GO: u32 = 7;
const ACK: u32 = 1;
const INFO: u32 = 3;
const ERROR: u32 = 1 << 31;
const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

/// A server's description of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) bytes: u64,
    /// The transmission flags of the protocol.
    pub(super) flags: u16,
    pub(super) block_bytes: u32,
}

/// A connection that has chosen an export.
pub(super) struct Connected {
    pub(super) socket: OwnedFd,
    pub(super) export: Described,
}

/// Connects to a server and chooses an export.
///
/// # Errors
/// No server listens at the address, or the server has no such export.
pub(super) fn connect(server: &Address, export: &str) -> io::Result<Connected> {
    match server {
        Address::Unix(path) => {
            let mut stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let export = choose(&mut stream, export)?;
            stream.set_read_timeout(None)?;
            Ok(Connected { socket: stream.into(), export })
        }
        Address::Tcp(address) => {
            let mut stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let export = choose(&mut stream, export)?;
            stream.set_read_timeout(None)?;
            Ok(Connected { socket: stream.into(), export })
        }
    }
}

fn choose(stream: &mut (impl Read + Write), export: &str) -> io::Result<Described> {
    let greeting: [u8; 18] = array(stream)?;
    if greeting[..16] != [GREETING.to_be_bytes(), OPTION.to_be_bytes()].concat() {
        return Err(foreign("it is not a fixed newstyle NBD server"));
    }
    let mut asked = (FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes().to_vec();
    asked.extend(OPTION.to_be_bytes());
    asked.extend(GO.to_be_bytes());
    asked.extend((export.len() as u32 + 8).to_be_bytes());
    asked.extend((export.len() as u32).to_be_bytes());
    asked.extend(export.as_bytes());
    asked.extend(1_u16.to_be_bytes());
    asked.extend(INFO_BLOCK_SIZE.to_be_bytes());
    stream.write_all(&asked)?;
    let mut told = Described { bytes: 0, flags: 0, block_bytes: 512 };
    loop {
        let header: [u8; 20] = array(stream)?;
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|nth| header[at + nth]));
        let (kind, len) = (word(12), word(16));
        if header[..8] != OPTION_REPLY.to_be_bytes() || len > REPLY_BYTES_MAX {
            return Err(foreign("its answer violates the NBD protocol"));
        }
        let mut data = vec![0; len as usize];
        stream.read_exact(&mut data)?;
        match (kind, &data[..]) {
            (ACK, _) => return Ok(told),
            (INFO, data) => told.learn(data),
            (kind, data) if kind & ERROR != 0 => {
                let why = String::from_utf8_lossy(data);
                return Err(foreign(&format!("it refuses export '{export}': {why}")));
            }
            _ => {}
        }
    }
}

impl Described {
    /// Reads one information reply about the export.
    fn learn(&mut self, data: &[u8]) {
        let number = |range: std::ops::Range<usize>| {
            let bytes = data.get(range)?;
            Some(bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
        };
        match number(0..2).map(|kind| kind as u16) {
            Some(INFO_EXPORT) => {
                self.bytes = number(2..10).unwrap_or_default();
                self.flags = number(10..12).unwrap_or_default() as u16;
            }
            Some(INFO_BLOCK_SIZE) => {
                self.block_bytes = number(2..6).unwrap_or_default().clamp(512, 1 << 30) as u32;
            }
            _ => {}
        }
    }
}

fn array<const BYTES: usize>(stream: &mut impl Read) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn foreign(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::Export;
    use crate::handshake::negotiate;

    #[test]
    fn our_server_and_client_agree() {
        let export = Export {
            name: "db".into(),
            description: String::new(),
            offset: 0,
            bytes: 1 << 30,
            read_only: true,
            block_bytes: 4096,
            rotational: false,
            trims_to_zero: false,
        };
        for (name, known) in [("db", true), ("batch", false)] {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            let exports = [export.clone()];
            let server = thread::spawn(move || drop(negotiate(&mut theirs, &exports)));
            let told = choose(&mut ours, name);
            drop(ours);
            server.join().unwrap();
            match known {
                true => {
                    let expected =
                        Described { bytes: 1 << 30, flags: export.flags(false), block_bytes: 4096 };
                    assert_eq!(told.unwrap(), expected);
                }
                false => {
                    let said = told.unwrap_err().to_string();
                    assert!(said.contains("refuses export 'batch'"), "{said}");
                }
            }
        }
    }
}
