//! The NBD handshake (fixed newstyle), which lasts until a client has chosen an export or
//! disconnects.
//!
//! Clients are not trusted: the number and length of options and the length of names are limited,
//! and the caller's deadline ends slow handshakes. The bytes of an oversized option are discarded.
//! Source: `doc/proto.md`.

#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};

use crate::Export;
use crate::protocol::{ALLOCATION, GREETING, OPTION, OPTION_REPLY};

/// The maximum length of an option in bytes; longer options are refused.
const OPTION_BYTES_MAX: u32 = 16 << 10;
/// The maximum length of a refused option that is skipped; a client that sends a longer one is
/// disconnected.
const SKIP_MAX: u32 = 1 << 20;
/// The maximum number of options before a client is disconnected.
const OPTIONS_MAX: u32 = 256;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

/// The result of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The index of the export.
    pub(crate) export: usize,
    /// Whether the client requested structured replies.
    pub(crate) structured: bool,
    /// Whether the client may query which parts are allocated.
    pub(crate) allocation: bool,
}

mod option {
    pub(super) const EXPORT_NAME: u32 = 1;
    pub(super) const ABORT: u32 = 2;
    pub(super) const LIST: u32 = 3;
    pub(super) const INFO: u32 = 6;
    pub(super) const GO: u32 = 7;
    pub(super) const STRUCTURED_REPLY: u32 = 8;
    pub(super) const LIST_META_CONTEXT: u32 = 9;
    pub(super) const SET_META_CONTEXT: u32 = 10;
}

mod reply {
    pub(super) const ACK: u32 = 1;
    pub(super) const SERVER: u32 = 2;
    pub(super) const INFO: u32 = 3;
    pub(super) const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub(super) const UNSUPPORTED: u32 = ERROR | 1;
    pub(super) const INVALID: u32 = ERROR | 3;
    pub(super) const UNKNOWN: u32 = ERROR | 6;
    pub(super) const BLOCK_SIZE_REQUIRED: u32 = ERROR | 8;
    pub(super) const TOO_BIG: u32 = ERROR | 9;
}

mod info {
    pub(super) const EXPORT: u16 = 0;
    pub(super) const NAME: u16 = 1;
    pub(super) const DESCRIPTION: u16 = 2;
    pub(super) const BLOCK_SIZE: u16 = 3;
}

/// The metadata context that describes which parts are allocated.
const ALLOCATION_NAME: &[u8] = b"base:allocation";

/// Negotiates with a client until it has chosen one of `exports`, or aborts.
///
/// # Errors
/// The client disconnected or violated the protocol.
pub(crate) fn negotiate(
    stream: &mut (impl Read + Write),
    exports: &[Export],
) -> io::Result<Option<Agreed>> {
    let mut greeting = Vec::new();
    greeting.extend(GREETING.to_be_bytes());
    greeting.extend(OPTION.to_be_bytes());
    greeting.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    stream.write_all(&greeting)?;
    let flags = u32::from_be_bytes(array(stream)?);
    let (fixed, no_zeroes) = (u32::from(FIXED_NEWSTYLE), u32::from(NO_ZEROES));
    if flags & !(fixed | no_zeroes) != 0 {
        return Err(foreign("flags that are not in the protocol"));
    }
    let is_fixed = flags & fixed != 0;
    let mut talk =
        Talk { stream, exports, no_zeroes: flags & no_zeroes != 0, meta: None, structured: false };
    for _ in 0..OPTIONS_MAX {
        match talk.option(is_fixed)? {
            Turn::On => {}
            Turn::Chosen(agreed) => return Ok(Some(agreed)),
            Turn::Gone => return Ok(None),
        }
    }
    Err(foreign("more options than anybody needs"))
}

/// What to do after an option.
enum Turn {
    On,
    Chosen(Agreed),
    Gone,
}

struct Talk<'a, S> {
    stream: &'a mut S,
    exports: &'a [Export],
    no_zeroes: bool,
    structured: bool,
    /// The index of the export for which the client may query allocation.
    meta: Option<usize>,
}

impl<S: Read + Write> Talk<'_, S> {
    /// Receives an option and replies to it.
    fn option(&mut self, is_fixed: bool) -> io::Result<Turn> {
        if u64::from_be_bytes(array(self.stream)?) != OPTION {
            return Err(foreign("not an option where one is expected"));
        }
        let option = u32::from_be_bytes(array(self.stream)?);
        let len = u32::from_be_bytes(array(self.stream)?);
        if len > OPTION_BYTES_MAX {
            if len > SKIP_MAX || option == option::EXPORT_NAME {
                return Err(foreign("an option too long to skip"));
            }
            io::copy(&mut self.stream.take(u64::from(len)), &mut io::sink())?;
            self.say(option, reply::TOO_BIG, b"the option is too long")?;
            return Ok(Turn::On);
        }
        let mut data = vec![0; len as usize];
        self.stream.read_exact(&mut data)?;
        if option == option::EXPORT_NAME {
            return self.by_name_alone(&data);
        }
        if !is_fixed {
            return Err(foreign("an option that requires the fixed handshake"));
        }
        match option {
            option::ABORT => {
                // The client may not wait for the reply.
                let _ = self.say(option, reply::ACK, b"");
                return Ok(Turn::Gone);
            }
            option::LIST => self.list(&data)?,
            option::INFO | option::GO => return self.choose(option, &data),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                self.say(option, reply::ACK, b"")?;
            }
            option::STRUCTURED_REPLY => self.say(option, reply::INVALID, b"it carries data")?,
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(option, &data)?,
            _ => self.say(option, reply::UNSUPPORTED, b"")?,
        }
        Ok(Turn::On)
    }

    /// Handles EXPORT_NAME, the old way to choose an export. Its only error reply is to disconnect.
    fn by_name_alone(&mut self, name: &[u8]) -> io::Result<Turn> {
        let Some(at) = self.find(name) else {
            return Err(foreign("an export that does not exist"));
        };
        let export = &self.exports[at];
        if export.block_bytes > 512 {
            return Err(foreign("a client that does not support blocks of this size"));
        }
        let mut told = Vec::new();
        told.extend(export.bytes.to_be_bytes());
        told.extend(export.flags(self.structured).to_be_bytes());
        told.resize(told.len() + if self.no_zeroes { 0 } else { 124 }, 0);
        self.stream.write_all(&told)?;
        Ok(Turn::Chosen(self.agreed(at)))
    }

    fn list(&mut self, data: &[u8]) -> io::Result<()> {
        if !data.is_empty() {
            return self.say(option::LIST, reply::INVALID, b"it carries data");
        }
        for export in self.exports {
            let mut told = Vec::new();
            told.extend((export.name.len() as u32).to_be_bytes());
            told.extend(export.name.as_bytes());
            told.extend(export.description.as_bytes());
            self.say(option::LIST, reply::SERVER, &told)?;
        }
        self.say(option::LIST, reply::ACK, b"")
    }

    /// Handles INFO and GO, the options that describe or choose an export.
    fn choose(&mut self, option: u32, data: &[u8]) -> io::Result<Turn> {
        let mut data = Data(data);
        let (Some(name), Some(count)) = (data.text(), data.number::<2>()) else {
            self.say(option, reply::INVALID, b"it ends too early")?;
            return Ok(Turn::On);
        };
        let asked: Option<Vec<u16>> =
            (0..count).map(|_| data.number::<2>().map(|kind| kind as u16)).collect();
        let Some(asked) = asked.filter(|_| data.0.is_empty()) else {
            self.say(option, reply::INVALID, b"its length does not match its content")?;
            return Ok(Turn::On);
        };
        let Some(at) = self.find(name) else {
            self.say(option, reply::UNKNOWN, b"there is no such export")?;
            return Ok(Turn::On);
        };
        let export = &self.exports[at];
        let mut told = info::EXPORT.to_be_bytes().to_vec();
        told.extend(export.bytes.to_be_bytes());
        told.extend(export.flags(self.structured).to_be_bytes());
        self.say(option, reply::INFO, &told)?;
        let mut told = info::BLOCK_SIZE.to_be_bytes().to_vec();
        told.extend(export.blocks().into_iter().flat_map(u32::to_be_bytes));
        self.say(option, reply::INFO, &told)?;
        for (kind, text) in [(info::NAME, &export.name), (info::DESCRIPTION, &export.description)] {
            if asked.contains(&kind) && (kind == info::NAME || !text.is_empty()) {
                let mut told = kind.to_be_bytes().to_vec();
                told.extend(text.as_bytes());
                self.say(option, reply::INFO, &told)?;
            }
        }
        // A client that does not ask for block sizes assumes 512 bytes.
        if export.block_bytes > 512 && !asked.contains(&info::BLOCK_SIZE) && option == option::GO {
            self.say(option, reply::BLOCK_SIZE_REQUIRED, b"ask for its block size")?;
            return Ok(Turn::On);
        }
        self.say(option, reply::ACK, b"")?;
        Ok(match option {
            option::GO => Turn::Chosen(self.agreed(at)),
            _ => Turn::On,
        })
    }

    /// Handles the options on metadata contexts.
    fn contexts(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        if option == option::SET_META_CONTEXT {
            // This option replaces earlier settings whether or not it succeeds.
            self.meta = None;
        }
        if !self.structured {
            return self.say(option, reply::INVALID, b"structured replies come first");
        }
        let mut data = Data(data);
        let (Some(name), Some(count)) = (data.text(), data.number::<4>()) else {
            return self.say(option, reply::INVALID, b"it ends too early");
        };
        // The count is not trusted: nothing is allocated for it, and parsing stops at the end of
        // the option.
        let mut wanted = count == 0 && option == option::LIST_META_CONTEXT;
        for _ in 0..count {
            let Some(query) = data.text() else {
                return self.say(option, reply::INVALID, b"it ends within a query");
            };
            wanted |= query == ALLOCATION_NAME;
            wanted |= query == b"base:" && option == option::LIST_META_CONTEXT;
        }
        if !data.0.is_empty() {
            return self.say(option, reply::INVALID, b"there is data after the last query");
        }
        let Some(at) = self.find(name) else {
            return self.say(option, reply::UNKNOWN, b"there is no such export");
        };
        if wanted {
            // In a listing, the id has no meaning.
            let id = if option == option::SET_META_CONTEXT { ALLOCATION } else { 0 };
            let mut told = id.to_be_bytes().to_vec();
            told.extend(ALLOCATION_NAME);
            self.say(option, reply::META_CONTEXT, &told)?;
            if option == option::SET_META_CONTEXT {
                self.meta = Some(at);
            }
        }
        self.say(option, reply::ACK, b"")
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        let exact = self.exports.iter().position(|export| export.name.as_bytes() == name);
        // The empty name selects the default export, which is the first one.
        exact.or((name.is_empty() && !self.exports.is_empty()).then_some(0))
    }

    fn agreed(&self, export: usize) -> Agreed {
        Agreed { export, structured: self.structured, allocation: self.meta == Some(export) }
    }

    fn say(&mut self, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
        let mut told = OPTION_REPLY.to_be_bytes().to_vec();
        told.extend(option.to_be_bytes());
        told.extend(kind.to_be_bytes());
        told.extend((data.len() as u32).to_be_bytes());
        told.extend(data);
        self.stream.write_all(&told)
    }
}

/// The unread bytes of an option.
struct Data<'a>(&'a [u8]);

impl<'a> Data<'a> {
    fn number<const BYTES: usize>(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<BYTES>()?;
        self.0 = rest;
        Some(number.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Reads a string preceded by its length.
    fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.number::<4>()? as usize;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text)
    }
}

fn array<const BYTES: usize>(stream: &mut impl Read) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn foreign(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("got {what}"))
}
