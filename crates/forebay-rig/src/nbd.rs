//! A client of the network block device that sends exactly what a test specifies.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::PATIENCE;

/// The command to read.
pub const READ: u16 = 0;
/// The command to write.
pub const WRITE: u16 = 1;
/// The command to disconnect.
pub const DISCONNECT: u16 = 2;
/// The command to flush.
pub const FLUSH: u16 = 3;
/// The command to trim.
pub const TRIM: u16 = 4;
/// The command to read ahead into a cache.
pub const CACHE: u16 = 5;
/// The command to write zeros.
pub const WRITE_ZEROES: u16 = 6;
/// The command to query block status.
pub const BLOCK_STATUS: u16 = 7;

/// The flag that requires a write to be durable when it is answered.
pub const FUA: u16 = 1;
/// The flag that requires zeros to be stored, without a hole.
pub const NO_HOLE: u16 = 2;
/// The flag that limits a block status to one extent.
pub const REQUEST_ONE: u16 = 8;
/// The flag that requires zeroing to be refused if it would be slow.
pub const FAST_ZERO: u16 = 16;

/// Encodes the header of a request, followed by `data`.
pub fn encoded(kind: (u16, u16), cookie: u64, at: (u64, u32), data: &[u8]) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(kind.1.to_be_bytes());
    bytes.extend(kind.0.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(at.0.to_be_bytes());
    bytes.extend(at.1.to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Returns bytes that differ for different seeds.
pub fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + usize::from(seed)) as u8).collect()
}

/// A client's connection.
pub struct Client {
    /// The socket of the connection.
    pub stream: UnixStream,
    structured: bool,
}

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The name that the client gave the request.
    pub cookie: u64,
    /// The error number, or 0.
    pub errno: u32,
    /// The data that was read.
    pub data: Vec<u8>,
}

impl Client {
    /// Connects and reads the greeting.
    pub fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Client { stream, structured: false };
        assert_eq!(&client.bytes(16), b"NBDMAGICIHAVEOPT");
        assert_eq!(client.bytes(2), [0, 3]);
        client.send(&3_u32.to_be_bytes());
        client
    }

    /// Connects and chooses `export`, with simple replies.
    pub fn simple(socket: &Path, export: &str) -> Client {
        let mut client = Client::connect(socket);
        assert_eq!(client.go(export), Ok(()));
        client
    }

    /// Connects and chooses `export`, with structured replies and block status.
    pub fn structured(socket: &Path, export: &str) -> Client {
        let mut client = Client::connect(socket);
        assert_eq!(client.option(8, b"").0, 1);
        client.structured = true;
        let mut data = (export.len() as u32).to_be_bytes().to_vec();
        data.extend(export.as_bytes());
        data.extend(1_u32.to_be_bytes());
        data.extend(15_u32.to_be_bytes());
        data.extend(b"base:allocation");
        client.ask(10, &data);
        assert_eq!(
            client.option_reply(),
            (4, [&1_u32.to_be_bytes()[..], b"base:allocation"].concat())
        );
        assert_eq!(client.option_reply().0, 1);
        assert_eq!(client.go(export), Ok(()));
        client
    }

    /// Wraps an already negotiated connection, with simple replies; used to send from another
    /// thread.
    pub fn over(stream: UnixStream) -> Client {
        Client { stream, structured: false }
    }

    /// Sends these bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Returns the next `count` bytes from the server.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn number<const BYTES: usize>(&mut self) -> u64 {
        self.bytes(BYTES).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Waits until the peer has closed the connection; returns false if it sends more instead, or
    /// does nothing for [`PATIENCE`].
    pub fn is_over(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Sends an option.
    pub fn ask(&mut self, option: u32, data: &[u8]) {
        self.send(b"IHAVEOPT");
        self.send(&option.to_be_bytes());
        self.send(&(data.len() as u32).to_be_bytes());
        self.send(data);
    }

    /// Returns the next reply to an option: its kind and its data.
    pub fn option_reply(&mut self) -> (u32, Vec<u8>) {
        assert_eq!(self.number::<8>(), 0x0003_e889_0455_65a9);
        self.number::<4>();
        let kind = self.number::<4>() as u32;
        let len = self.number::<4>() as usize;
        (kind, self.bytes(len))
    }

    /// Sends an option and reads one reply.
    pub fn option(&mut self, option: u32, data: &[u8]) -> (u32, Vec<u8>) {
        self.ask(option, data);
        self.option_reply()
    }

    /// Chooses an export and queries its block size. Returns the kind of the reply if the server
    /// refuses.
    pub fn go(&mut self, export: &str) -> Result<(), u32> {
        let mut data = (export.len() as u32).to_be_bytes().to_vec();
        data.extend(export.as_bytes());
        data.extend([0, 1, 0, 3]);
        self.ask(7, &data);
        loop {
            match self.option_reply().0 {
                1 => return Ok(()),
                3 => {}
                refused => return Err(refused),
            }
        }
    }

    /// Sends the header of a request, followed by `data`.
    pub fn request(&mut self, kind: (u16, u16), cookie: u64, at: (u64, u32), data: &[u8]) {
        self.try_request(kind, cookie, at, data).unwrap();
    }

    /// Sends a request like [`request`](Self::request). Fails if the server has closed the
    /// connection.
    pub fn try_request(
        &mut self,
        kind: (u16, u16),
        cookie: u64,
        at: (u64, u32),
        data: &[u8],
    ) -> io::Result<()> {
        self.stream.write_all(&encoded(kind, cookie, at, data))
    }

    /// Returns the next answer. A successful simple reply has `data_bytes` bytes of data.
    pub fn answer(&mut self, data_bytes: usize) -> Answer {
        if !self.structured {
            assert_eq!(self.number::<4>(), 0x6744_6698);
            let (errno, cookie) = (self.number::<4>() as u32, self.number::<8>());
            let data = self.bytes(if errno == 0 { data_bytes } else { 0 });
            return Answer { cookie, errno, data };
        }
        assert_eq!(self.number::<4>(), 0x668e_33ef);
        assert_eq!(self.number::<2>(), 1, "one chunk is all");
        let (kind, cookie, len) = (self.number::<2>(), self.number::<8>(), self.number::<4>());
        let body = self.bytes(len as usize);
        match kind {
            0x8001 => {
                let errno = u32::from_be_bytes(body[..4].try_into().unwrap());
                Answer { cookie, errno, data: Vec::new() }
            }
            // The data follows the offset of the chunk, or the number of the context.
            1 => Answer { cookie, errno: 0, data: body[8..].to_vec() },
            5 => Answer { cookie, errno: 0, data: body[4..].to_vec() },
            _ => Answer { cookie, errno: 0, data: body },
        }
    }

    /// Sends a request and waits for the answer; returns the error number, or 0.
    pub fn does(&mut self, kind: (u16, u16), at: (u64, u32), data: &[u8]) -> u32 {
        self.request(kind, 77, at, data);
        let answer = self.answer(if kind.0 == READ { at.1 as usize } else { 0 });
        assert_eq!(answer.cookie, 77);
        answer.errno
    }

    /// Writes data; panics if that fails.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        assert_eq!(self.does((WRITE, 0), (offset, data.len() as u32), data), 0);
    }

    /// Reads data; panics if that fails.
    pub fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        self.request((READ, 0), 78, (offset, len), &[]);
        let answer = self.answer(len as usize);
        assert_eq!((answer.cookie, answer.errno), (78, 0));
        answer.data
    }
}
