//! The NBD protocol: parses requests and encodes answers.
//!
//! Source: the NetworkBlockDevice project's `doc/proto.md`. Numbers are big-endian. Nothing in this
//! module blocks or holds state, and every function accepts any bytes.

use forebay_core::Fault;

/// The first magic number that the server sends.
pub(crate) const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// The magic number at the beginning of an option, in both directions.
pub(crate) const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// The magic number at the beginning of an option reply.
pub(crate) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const SIMPLE_REPLY: u32 = 0x6744_6698;
const CHUNK: u32 = 0x668e_33ef;

/// The length of a request's header.
pub(crate) const REQUEST_BYTES: usize = 28;
/// The maximum length of a read or write in bytes.
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;

/// The protocol's transmission flags, which describe the operations that an export supports.
pub(crate) mod can {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const FLUSH: u16 = 1 << 2;
    pub(crate) const FUA: u16 = 1 << 3;
    pub(crate) const ROTATIONAL: u16 = 1 << 4;
    pub(crate) const TRIM: u16 = 1 << 5;
    pub(crate) const WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const DO_NOT_FRAGMENT: u16 = 1 << 7;
    pub(crate) const MULTI_CONN: u16 = 1 << 8;
    pub(crate) const CACHE: u16 = 1 << 10;
    pub(crate) const FAST_ZERO: u16 = 1 << 11;
}

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    Cache,
    WriteZeroes,
    BlockStatus,
    /// A command that the protocol does not define.
    Unknown,
}

impl Command {
    /// Returns whether a promise can cover the command.
    pub(crate) fn is_promisable(self) -> bool {
        matches!(self, Command::Read | Command::Write)
    }
}

/// The flags of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandFlags(u16);

impl CommandFlags {
    pub(crate) const NONE: CommandFlags = CommandFlags(0);
    pub(crate) const FUA: CommandFlags = CommandFlags(1);
    pub(crate) const NO_HOLE: CommandFlags = CommandFlags(1 << 1);
    pub(crate) const DO_NOT_FRAGMENT: CommandFlags = CommandFlags(1 << 2);
    pub(crate) const REQUEST_ONE: CommandFlags = CommandFlags(1 << 3);
    pub(crate) const FAST_ZERO: CommandFlags = CommandFlags(1 << 4);

    pub(crate) fn with(self, other: CommandFlags) -> CommandFlags {
        CommandFlags(self.0 | other.0)
    }

    pub(crate) fn has(self, other: CommandFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the flags that requests with `command` may have.
    fn allowed(command: Command) -> u16 {
        match command {
            Command::Read => Self::DO_NOT_FRAGMENT.0 | Self::FUA.0,
            Command::WriteZeroes => Self::FUA.0 | Self::NO_HOLE.0 | Self::FAST_ZERO.0,
            Command::BlockStatus => Self::REQUEST_ONE.0 | Self::FUA.0,
            _ => Self::FUA.0,
        }
    }

    pub(crate) fn are_allowed(self, command: Command) -> bool {
        self.0 & !Self::allowed(command) == 0
    }
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) command: Command,
    pub(crate) flags: CommandFlags,
    /// The client's identifier for the request.
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Header {
    /// A flush that the server itself requests.
    pub(crate) const FLUSH: Header =
        Header { command: Command::Flush, flags: CommandFlags::NONE, cookie: 0, offset: 0, len: 0 };

    /// Parses a header; returns None if the bytes are not a request. The rest of the stream cannot
    /// be parsed then.
    pub(crate) fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Header> {
        let field = |at: usize, len: usize| {
            bytes[at..at + len].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        if field(0, 4) != u64::from(REQUEST) {
            return None;
        }
        let command = match field(6, 2) {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            5 => Command::Cache,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            _ => Command::Unknown,
        };
        Some(Header {
            command,
            flags: CommandFlags(field(4, 2) as u16),
            cookie: field(8, 8),
            offset: field(16, 8),
            len: field(24, 4) as u32,
        })
    }
}

/// The protocol's error numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    NotSupported = 95,
}

impl From<Fault> for Errno {
    fn from(fault: Fault) -> Errno {
        match fault {
            Fault::Media | Fault::Gone => Errno::Io,
            Fault::Full => Errno::NoSpace,
            Fault::Refused => Errno::Invalid,
        }
    }
}

/// The status of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) len: u32,
    /// Whether the extent is not stored and reads as zeros.
    pub(crate) hole: bool,
}

/// Encodes the header of an answer, or an entire answer without data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// Whether the client requested structured replies.
    pub(crate) structured: bool,
    pub(crate) cookie: u64,
}

/// The id of the only metadata context.
pub(crate) const ALLOCATION: u32 = 1;
const DONE: u16 = 1;

impl Answer {
    /// Encodes a success without data.
    pub(crate) fn done(self, out: &mut Vec<u8>) {
        match self.structured {
            true => self.chunk(0, 0, out),
            false => self.simple(0, out),
        }
    }

    /// Encodes a failure.
    pub(crate) fn failed(self, errno: Errno, out: &mut Vec<u8>) {
        let errno = errno as u32;
        if !self.structured {
            return self.simple(errno, out);
        }
        self.chunk(1 << 15 | 1, 6, out);
        out.extend(errno.to_be_bytes());
        out.extend(0_u16.to_be_bytes());
    }

    /// Encodes the header for `len` bytes that were read at `offset`.
    pub(crate) fn data(self, offset: u64, len: u32, out: &mut Vec<u8>) {
        if !self.structured {
            return self.simple(0, out);
        }
        self.chunk(1, len + 8, out);
        out.extend(offset.to_be_bytes());
    }

    /// Encodes a list of extents with the status of each.
    pub(crate) fn block_status(self, extents: &[Status], out: &mut Vec<u8>) {
        self.chunk(5, 4 + 8 * extents.len() as u32, out);
        out.extend(ALLOCATION.to_be_bytes());
        for extent in extents {
            out.extend(extent.len.to_be_bytes());
            out.extend((if extent.hole { 3_u32 } else { 0 }).to_be_bytes());
        }
    }

    fn simple(self, errno: u32, out: &mut Vec<u8>) {
        out.extend(SIMPLE_REPLY.to_be_bytes());
        out.extend(errno.to_be_bytes());
        out.extend(self.cookie.to_be_bytes());
    }

    /// Encodes the header of an answer's only chunk.
    fn chunk(self, kind: u16, len: u32, out: &mut Vec<u8>) {
        out.extend(CHUNK.to_be_bytes());
        out.extend(DONE.to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend(self.cookie.to_be_bytes());
        out.extend(len.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_read_as_the_protocol_has_it() {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        bytes[4..8].copy_from_slice(&[0, 0b10011, 0, 6]);
        bytes[8..16].copy_from_slice(b"a cookie");
        bytes[16..24].copy_from_slice(&[0, 0, 0, 1, 0, 0, 2, 3]);
        bytes[24..].copy_from_slice(&[0, 1, 0, 2]);
        let header = Header::parse(&bytes).expect("a request");
        assert_eq!(header.command, Command::WriteZeroes);
        assert_eq!((header.offset, header.len), (0x1_0000_0203, 0x1_0002));
        assert_eq!(header.cookie, u64::from_be_bytes(*b"a cookie"));
        assert!(header.flags.has(CommandFlags::FUA) && header.flags.has(CommandFlags::NO_HOLE));
        assert!(header.flags.has(CommandFlags::FAST_ZERO));
        assert!(!header.flags.has(CommandFlags::DO_NOT_FRAGMENT));
        assert!(header.flags.are_allowed(Command::WriteZeroes));
        assert!(!header.flags.are_allowed(Command::Write));
        bytes[3] ^= 1;
        assert_eq!(Header::parse(&bytes), None);
    }

    #[test]
    fn answers_are_as_the_protocol_has_them() {
        let told = |structured, tell: &dyn Fn(Answer, &mut Vec<u8>)| {
            let mut out = Vec::new();
            tell(Answer { structured, cookie: 0x0102_0304_0506_0708 }, &mut out);
            out
        };
        let cookie = [1, 2, 3, 4, 5, 6, 7, 8];
        let simple = told(false, &|answer, out| answer.failed(Errno::NoSpace, out));
        assert_eq!(simple[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28]);
        assert_eq!(simple[8..], cookie);
        assert_eq!(told(false, &|answer, out| answer.data(9, 4, out))[4..8], [0; 4]);
        let data = told(true, &|answer, out| answer.data(9, 4, out));
        assert_eq!(data[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1]);
        assert_eq!(data[8..16], cookie);
        assert_eq!(data[16..], [0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 9]);
        let failed = told(true, &|answer, out| answer.failed(Errno::Invalid, out));
        assert_eq!(failed[4..8], [0, 1, 0x80, 1]);
        assert_eq!(failed[16..], [0, 0, 0, 6, 0, 0, 0, 22, 0, 0]);
        assert_eq!(told(true, &|answer, out| answer.done(out))[16..], [0; 4]);
        let extents = [Status { len: 5, hole: true }, Status { len: 6, hole: false }];
        let status = told(true, &|answer, out| answer.block_status(&extents, out));
        assert_eq!(status[4..8], [0, 1, 0, 5]);
        assert_eq!(status[16..24], [0, 0, 0, 20, 0, 0, 0, 1]);
        assert_eq!(status[24..], [0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in proptest::array::uniform28(any::<u8>()), known: bool) {
            let mut bytes = bytes;
            if known {
                bytes[..4].copy_from_slice(&REQUEST.to_be_bytes());
            }
            prop_assert_eq!(Header::parse(&bytes).is_some(), known || bytes[..4] == REQUEST.to_be_bytes());
        }
    }
}
