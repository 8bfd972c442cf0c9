//! Generic netlink, as far as it is needed for the kernel's nbd driver.
//!
//! Source: Linux `include/uapi/linux/{netlink,genetlink,nbd-netlink}.h`. Numbers are in the
//! machine's byte order.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

const HEADER_BYTES: usize = 16;
const GENERIC_HEADER_BYTES: usize = 4;
const ERROR: u16 = 2;
const FLAG_REQUEST: u16 = 1;
const FLAG_ACK: u16 = 4;

/// The family that returns the numbers of other families, with its command and its attributes.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// The attributes of a message, each preceded by its length and type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Attributes {
        self.0.extend((value.len() as u16 + 4).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn with_u32(self, kind: u16, value: u32) -> Attributes {
        self.with(kind, &value.to_ne_bytes())
    }

    pub(super) fn with_u64(self, kind: u16, value: u64) -> Attributes {
        self.with(kind, &value.to_ne_bytes())
    }

    pub(super) fn with_text(self, kind: u16, text: &str) -> Attributes {
        self.with(kind, &[text.as_bytes(), b"\0"].concat())
    }

    pub(super) fn with_nested(self, kind: u16, value: &Attributes) -> Attributes {
        const NESTED: u16 = 1 << 15;
        self.with(kind | NESTED, &value.0)
    }
}

/// Returns the value of an attribute.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some((&[a, b, c, d], _)) = attributes.split_first_chunk::<4>() {
        let (len, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        let value = attributes.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
    None
}

/// A family of generic netlink, through which a driver accepts commands.
pub(super) struct Family {
    socket: OwnedFd,
    id: u16,
    sequence: u32,
}

impl Family {
    /// Opens the family called `name`.
    ///
    /// # Errors
    /// `NotFound` if the driver is not loaded.
    pub(super) fn open(name: &str) -> io::Result<Family> {
        let (domain, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(domain, kind, SocketFlags::CLOEXEC, Some(GENERIC))?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let mut family = Family { socket, id: CONTROL, sequence: 0 };
        let asked = Attributes::default().with_text(FAMILY_NAME, name);
        let answer = family.send(GET_FAMILY, &asked)?;
        let id = find(&answer, FAMILY_ID).and_then(|id| id.try_into().ok());
        family.id = u16::from_ne_bytes(id.ok_or(io::ErrorKind::InvalidData)?);
        Ok(family)
    }

    /// Sends a command and returns the attributes of the answer.
    ///
    /// # Errors
    /// The driver's error.
    pub(super) fn send(&mut self, command: u8, attributes: &Attributes) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let message = message(self.id, self.sequence, command, attributes);
        send(&self.socket, &message, SendFlags::empty())?;
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            let (count, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            for one in messages(&buffer[..count]) {
                match one {
                    (sequence, _, _) if sequence != self.sequence => {}
                    (_, ERROR, body) => return ended(body).map(|()| answer),
                    (_, _, body) => {
                        answer = body.get(GENERIC_HEADER_BYTES..).unwrap_or_default().to_vec();
                    }
                }
            }
        }
    }
}

fn message(family: u16, sequence: u32, command: u8, attributes: &Attributes) -> Vec<u8> {
    let len = HEADER_BYTES + GENERIC_HEADER_BYTES + attributes.0.len();
    let mut message = (len as u32).to_ne_bytes().to_vec();
    message.extend(family.to_ne_bytes());
    message.extend((FLAG_REQUEST | FLAG_ACK).to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    // The kernel fills in the sender's port.
    message.extend([0; 4]);
    message.extend([command, 1, 0, 0]);
    message.extend(&attributes.0);
    message
}

/// Returns the sequence number, the type and the body of each message.
fn messages(mut bytes: &[u8]) -> Vec<(u32, u16, &[u8])> {
    let mut all = Vec::new();
    while let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|nth| header[at + nth]));
        let len = word(0) as usize;
        let Some(body) = bytes.get(HEADER_BYTES..len) else { break };
        all.push((word(8), u16::from_ne_bytes([header[4], header[5]]), body));
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// Converts the body of an acknowledgment to a result.
fn ended(body: &[u8]) -> io::Result<()> {
    let Some((error, _)) = body.split_first_chunk::<4>() else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    match i32::from_ne_bytes(*error) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_aligned_and_found() {
        let inner = Attributes::default().with_u32(1, 7);
        let all = Attributes::default().with_text(2, "nbd").with_u64(4, 9).with_nested(7, &inner);
        assert_eq!(&all.0[..8], [8, 0, 2, 0, b'n', b'b', b'd', 0]);
        assert_eq!(find(&all.0, 4), Some(&9_u64.to_ne_bytes()[..]));
        assert_eq!(find(&all.0, 7 | 1 << 15), Some(&inner.0[..]));
        assert_eq!(find(&all.0, 5), None);
        let odd = Attributes::default().with(1, b"abcde").with_u32(3, 1);
        assert_eq!(odd.0.len(), 12 + 8);
        assert_eq!(find(&odd.0, 3), Some(&1_u32.to_ne_bytes()[..]));
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let attributes = Attributes::default().with_u32(1, 5);
        let bytes = message(27, 3, 1, &attributes);
        let [(sequence, family, body)] = messages(&bytes)[..] else { panic!("one message") };
        assert_eq!((sequence, family), (3, 27));
        assert_eq!(body, [&[1, 1, 0, 0], &attributes.0[..]].concat());
        assert!(messages(&bytes[..bytes.len() - 1]).is_empty());
        assert!(ended(&0_i32.to_ne_bytes()).is_ok());
        assert_eq!(ended(&(-16_i32).to_ne_bytes()).unwrap_err().raw_os_error(), Some(16));
    }
}
