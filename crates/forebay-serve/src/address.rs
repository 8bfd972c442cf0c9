//! Listening addresses: only Unix sockets and loopback addresses are allowed.

// The inherited sockets are a static, because a process inherits its sockets once.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fmt;
use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forebay_live::inherited_sockets;
use rustix::net::{Shutdown, shutdown};

use crate::config::SocketAccess;
use crate::error::{Error, system, unfit};

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A loopback address.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    /// Formats the address as an NBD URI.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => {
                f.write_str("nbd+unix:///?socket=")?;
                // Characters that may have a special meaning in a URI are percent-encoded.
                path.as_os_str().as_bytes().iter().try_for_each(|byte| match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                        write!(f, "{}", char::from(*byte))
                    }
                    other => write!(f, "%{other:02X}"),
                })
            }
            Address::Tcp(address) => write!(f, "nbd://{address}"),
        }
    }
}

/// Parses a loopback address with a port.
///
/// # Errors
/// The text is not a loopback address with a port.
pub fn address(text: &str) -> Result<SocketAddr, Error> {
    let read: Result<SocketAddr, _> = text.parse();
    let address = read.map_err(|_| {
        unfit(format!(
            "{text}: not an address; expected a loopback address and port, for example 127.0.0.1:10809"
        ))
    })?;
    loopback(address)
}

fn loopback(address: SocketAddr) -> Result<SocketAddr, Error> {
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(unfit(format!(
            "{address}: got an address that other machines can reach, expected loopback \
             (127.0.0.1); to serve other machines, put nbdkit's nbd plugin with TLS in front"
        ))),
    }
}

/// A client's connection.
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A listening socket.
pub(crate) enum Listener {
    Unix(UnixListener, Own),
    Tcp(TcpListener),
}

/// The sockets that the parent process opened for this one (socket activation); None until they
/// have been looked up.
static INHERITED: Mutex<Option<Vec<OwnedFd>>> = Mutex::new(None);

/// A socket file created by this process.
pub(crate) struct Own {
    path: PathBuf,
    /// The device and inode of the file, because another server may have replaced the file since.
    /// None if the parent process created the file.
    identity: Option<(u64, u64)>,
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Address {
    /// Listens on the address. A stale socket file is replaced, but the socket of a running server
    /// is not.
    ///
    /// # Errors
    /// The address is not a loopback address, is in use, or is refused by the system.
    pub(crate) fn listen(&self) -> Result<(Listener, Address), Error> {
        if let Some(listener) = self.inherited() {
            return Ok((listener, self.clone()));
        }
        match self {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(loopback(*address)?)
                    .map_err(|error| unfit(format!("{address}: cannot listen there: {error}")))?;
                let address = listener.local_addr().map_err(system("listening"))?;
                Ok((Listener::Tcp(listener), Address::Tcp(address)))
            }
            Address::Unix(path) if path.as_os_str().is_empty() => {
                Err(unfit("socket: the name is empty; expected a path for a socket"))
            }
            Address::Unix(path) => {
                let told = path.display();
                match std::fs::symlink_metadata(path) {
                    Err(_) => {}
                    Ok(found) if !found.file_type().is_socket() => {
                        return Err(unfit(format!(
                            "{told}: got a file, expected a path for a socket; name another"
                        )));
                    }
                    Ok(_) => match UnixStream::connect(path) {
                        Ok(_) => {
                            return Err(unfit(format!(
                                "{told}: another server listens there; stop it, or name another path"
                            )));
                        }
                        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                            // The file was left behind by a server that was killed.
                            std::fs::remove_file(path).map_err(|error| {
                                unfit(format!(
                                    "{told}: cannot remove the socket of an earlier server: {error}"
                                ))
                            })?;
                        }
                        Err(error) => {
                            return Err(unfit(format!("{told}: a socket exists already: {error}")));
                        }
                    },
                }
                let listener = UnixListener::bind(path)
                    .map_err(|error| unfit(format!("{told}: cannot listen there: {error}")))?;
                let own = Own { path: path.clone(), identity: identity(path) };
                Ok((Listener::Unix(listener, own), self.clone()))
            }
        }
    }
}

impl Address {
    /// Returns the socket that the parent process opened at this address, if any.
    fn inherited(&self) -> Option<Listener> {
        let mut sockets = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.get_or_insert_with(inherited_sockets).iter().find_map(|socket| {
            let socket = socket.try_clone().ok()?;
            match self {
                Address::Unix(path) => {
                    let listener = UnixListener::from(socket);
                    let is_here = listener.local_addr().ok()?.as_pathname() == Some(path);
                    let own = Own { path: path.clone(), identity: None };
                    is_here.then_some(Listener::Unix(listener, own))
                }
                Address::Tcp(address) => {
                    let listener = TcpListener::from(socket);
                    let is_here = listener.local_addr().ok()? == *address;
                    is_here.then_some(Listener::Tcp(listener))
                }
            }
        })
    }

    /// Sets who may connect to a Unix socket.
    ///
    /// # Errors
    /// The system refuses, for example because the user is not a member of the group.
    pub(crate) fn allow(&self, access: SocketAccess) -> Result<(), Error> {
        let Address::Unix(path) = self else { return Ok(()) };
        let wrong = |error: io::Error| {
            unfit(format!("{}: cannot set socket_mode and socket_group: {error}", path.display()))
        };
        // Sets the group first, because otherwise the new mode would briefly apply to another
        // group.
        if let Some(group) = access.group {
            std::os::unix::fs::chown(path, None, Some(group)).map_err(wrong)?;
        }
        if let Some(mode) = access.mode {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(wrong)?;
        }
        Ok(())
    }
}

impl Listener {
    /// Waits for the next client.
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix(listener, _) => Ok(Stream::Unix(listener.accept()?.0)),
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0;
                // Answers are sent whole, so Nagle's algorithm would only delay them.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    /// Returns an object that ends a wait in [`Listener::accept`] from another thread.
    pub(crate) fn stopper(&self) -> io::Result<Stopper> {
        Ok(match self {
            Listener::Unix(_, Own { path, identity: None }) => {
                Stopper::Connect(Address::Unix(path.clone()))
            }
            Listener::Unix(listener, _) => Stopper::ShutDown(listener.try_clone()?.into()),
            Listener::Tcp(listener) => Stopper::Connect(Address::Tcp(listener.local_addr()?)),
        })
    }
}

/// Ends a wait for clients from another thread.
pub(crate) enum Stopper {
    /// Shuts the socket down. This works even if the socket's file is gone.
    ShutDown(OwnedFd),
    /// Connects to the socket, which the parent process continues to use.
    Connect(Address),
}

impl Stopper {
    pub(crate) fn stop(&self) {
        // If the thread cannot be woken, it no longer waits.
        match self {
            Stopper::ShutDown(socket) => drop(shutdown(socket, Shutdown::Both)),
            Stopper::Connect(Address::Unix(path)) => drop(UnixStream::connect(path)),
            Stopper::Connect(Address::Tcp(address)) => drop(TcpStream::connect(address)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, own) = self
            && own.identity.is_some()
            && identity(&own.path) == own.identity
        {
            // If another process removes the file between the check and this line, the result is
            // the same.
            let _ = std::fs::remove_file(&own.path);
        }
    }
}

impl Stream {
    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }

    /// Duplicates the socket's descriptor, to shut it down from another thread.
    pub(crate) fn other(&self) -> io::Result<OwnedFd> {
        match self {
            Stream::Unix(stream) => Ok(stream.try_clone()?.into()),
            Stream::Tcp(stream) => Ok(stream.try_clone()?.into()),
        }
    }

    /// Returns the socket, with its timeouts cleared.
    pub(crate) fn into_socket(self) -> io::Result<OwnedFd> {
        match self {
            Stream::Unix(stream) => {
                stream.set_read_timeout(None)?;
                stream.set_write_timeout(None)?;
                Ok(stream.into())
            }
            Stream::Tcp(stream) => {
                stream.set_read_timeout(None)?;
                stream.set_write_timeout(None)?;
                Ok(stream.into())
            }
        }
    }
}

impl io::Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(bytes),
            Stream::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_as_uris() {
        let told = |path: &str| Address::Unix(path.into()).to_string();
        assert_eq!(told("/run/a-b_c.1/~s"), "nbd+unix:///?socket=/run/a-b_c.1/~s");
        assert_eq!(told("a b%&#+\u{e9}"), "nbd+unix:///?socket=a%20b%25%26%23%2B%C3%A9");
        let address = Address::Tcp("[::1]:10809".parse().expect("an address"));
        assert_eq!(address.to_string(), "nbd://[::1]:10809");
    }
}
