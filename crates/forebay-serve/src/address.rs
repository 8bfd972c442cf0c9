//! Listening addresses: only Unix sockets and loopback addresses are allowed.

// The inherited sockets are a static, because a process inherits its sockets once.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fmt;
use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forebay_live::inherited_sockets;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::error::{Error, system, unfit};
use crate::{SocketAccess, control, outputs};

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

/// The maximum length of a socket's path in Linux.
const PATH_MAX: usize = 107;

/// A client's connection.
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A listening socket.
pub(crate) struct Listener {
    socket: ListeningSocket,
    _own: Option<Own>,
    /// Becomes readable when the listener is to stop.
    stop: OwnedFd,
}

enum ListeningSocket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// The sockets that the parent process opened for this one (socket activation); None until they
/// have been looked up.
static INHERITED: Mutex<Option<Vec<OwnedFd>>> = Mutex::new(None);

/// A socket file created by this process, which removes it at the end.
pub(crate) struct Own {
    path: PathBuf,
    /// The device and inode of the file, because another server may have replaced the file since.
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
        if let Some(socket) = self.inherited() {
            return Ok((Listener::new(socket, None)?, self.clone()));
        }
        match self {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(loopback(*address)?)
                    .map_err(|error| unfit(format!("{address}: cannot listen there: {error}")))?;
                let address = listener.local_addr().map_err(system("listening"))?;
                let socket = ListeningSocket::Tcp(listener);
                Ok((Listener::new(socket, None)?, Address::Tcp(address)))
            }
            Address::Unix(path) => {
                let told = path.display();
                match std::fs::symlink_metadata(path) {
                    Err(_) => {}
                    Ok(found) if !found.file_type().is_socket() => {
                        return Err(unfit(format!(
                            "{told}: got a file, expected a path for a socket; move it away"
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
                                    "{told}: cannot remove the stale socket of an earlier server: \
                                     {error}"
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
                Ok((Listener::new(ListeningSocket::Unix(listener), Some(own))?, self.clone()))
            }
        }
    }
}

impl Address {
    /// Rejects an address at which the server could not listen even if the address were free.
    ///
    /// # Errors
    /// A socket's path is invalid, or another machine can reach the address.
    pub(crate) fn refuse_unusable(&self) -> Result<(), Error> {
        let path = match self {
            Address::Tcp(address) => return loopback(*address).map(drop),
            Address::Unix(path) => path,
        };
        if path.as_os_str().is_empty() {
            return Err(unfit("socket: the name is empty; expected a path for a socket"));
        }
        let (told, bytes) = (path.display(), path.as_os_str().len());
        // The path of the control socket is longer and must fit as well.
        let most = PATH_MAX - (control::beside(path).as_os_str().len() - bytes);
        if bytes > most {
            return Err(unfit(format!(
                "{told}: got a socket path of {bytes} bytes, expected at most {most}; use a shorter \
                 path"
            )));
        }
        // A folder that may not be listed may still be used.
        if let Err(error) = std::fs::read_dir(outputs::folder(path))
            && error.kind() != io::ErrorKind::PermissionDenied
        {
            return Err(unfit(format!("{told}: cannot listen there: {error}")));
        }
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(unfit(format!(
                    "{told}: got a file, expected a path for a socket; name another"
                )));
            }
            _ => {}
        }
        // The control socket is created there even if the parent process has opened this one.
        outputs::may_create_in(outputs::folder(path)).map_err(|error| {
            unfit(format!("{told}: cannot listen there: {error}: {}", outputs::NO_NEW_FILES))
        })
    }

    /// Returns the socket that the parent process opened at this address, if any.
    fn inherited(&self) -> Option<ListeningSocket> {
        let mut sockets = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
        let sockets = sockets.get_or_insert_with(inherited_sockets);
        let socket = sockets.iter().find(|socket| self.is_of(socket))?.try_clone().ok()?;
        Some(match self {
            Address::Unix(_) => ListeningSocket::Unix(UnixListener::from(socket)),
            Address::Tcp(_) => ListeningSocket::Tcp(TcpListener::from(socket)),
        })
    }

    /// Returns whether a socket listens at this address.
    fn is_of(&self, socket: &OwnedFd) -> bool {
        match (Address::of(socket), self) {
            (Some(Address::Unix(there)), Address::Unix(path)) => {
                // Symbolic links and relative paths can give one file two names.
                there == *path || identity(&there).is_some() && identity(&there) == identity(path)
            }
            (Some(there), _) => there == *self,
            (None, _) => false,
        }
    }

    /// Returns the address at which a socket listens.
    fn of(socket: &OwnedFd) -> Option<Address> {
        let unix = UnixListener::from(socket.try_clone().ok()?).local_addr();
        let path = unix.ok().and_then(|unix| unix.as_pathname().map(PathBuf::from));
        let tcp = || TcpListener::from(socket.try_clone().ok()?).local_addr().ok();
        path.map(Address::Unix).or_else(|| tcp().map(Address::Tcp))
    }

    /// Rejects sockets that the parent process opened at other addresses than `listen`, because
    /// clients that connect to them would wait forever.
    ///
    /// # Errors
    /// The parent process opened a socket at another address.
    pub(crate) fn refuse_other_inherited(listen: &[Address]) -> Result<(), Error> {
        let mut sockets = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
        refuse_others(sockets.get_or_insert_with(inherited_sockets), listen)
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

/// Rejects sockets at other addresses than `listen`.
fn refuse_others(sockets: &[OwnedFd], listen: &[Address]) -> Result<(), Error> {
    let is_other = |socket: &&OwnedFd| !listen.iter().any(|address| address.is_of(socket));
    let Some(other) = sockets.iter().find(is_other) else { return Ok(()) };
    let shown = |address: &Address| match address {
        Address::Unix(path) => path.display().to_string(),
        Address::Tcp(address) => address.to_string(),
    };
    let got = Address::of(other).map_or_else(|| "another socket".into(), |other| shown(&other));
    let expected = listen.iter().map(shown).collect::<Vec<_>>().join(" and ");
    Err(unfit(format!(
        "the socket unit (LISTEN_FDS) listens at {got}, but the server is configured to listen at \
         {expected}; use the same address for both"
    )))
}

impl Listener {
    fn new(socket: ListeningSocket, own: Option<Own>) -> Result<Listener, Error> {
        // Another process may accept the client that `poll` reports.
        match &socket {
            ListeningSocket::Unix(listener) => listener.set_nonblocking(true),
            ListeningSocket::Tcp(listener) => listener.set_nonblocking(true),
        }
        .map_err(system("listening"))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC);
        let stop = stop.map_err(io::Error::from).map_err(system("listening"))?;
        Ok(Listener { socket, _own: own, stop })
    }

    /// Waits for the next client, or until the listener is to stop, which is an error.
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        loop {
            self.wait()?;
            match self.socket.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                accepted => return accepted,
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let socket = match &self.socket {
            ListeningSocket::Unix(listener) => listener.as_fd(),
            ListeningSocket::Tcp(listener) => listener.as_fd(),
        };
        let mut waits =
            [socket, self.stop.as_fd()].map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
        poll(&mut waits, None)?;
        match waits[1].revents().is_empty() {
            true => Ok(()),
            false => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Returns an object that ends a wait in [`Listener::accept`] from another thread.
    pub(crate) fn stopper(&self) -> io::Result<Stopper> {
        Ok(Stopper(self.stop.try_clone()?))
    }
}

impl ListeningSocket {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            ListeningSocket::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
            ListeningSocket::Tcp(listener) => {
                let stream = listener.accept()?.0;
                // Answers are sent whole, so Nagle's algorithm would only delay them.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

/// Stops waiting for clients from another thread, even if the socket's file has been removed.
pub(crate) struct Stopper(OwnedFd);

impl Stopper {
    pub(crate) fn stop(&self) {
        // Writing 1 to a new event counter cannot fail.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // If another process removes the file between the check and this line, the result is
            // the same.
            let _ = std::fs::remove_file(&self.path);
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
    fn listening_ends_although_the_sockets_file_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for is_inherited in [true, false] {
            let socket = UnixListener::bind(&path).unwrap();
            let own = || Own { path: path.clone(), identity: identity(&path) };
            let own = (!is_inherited).then(own);
            let listener = Listener::new(ListeningSocket::Unix(socket), own).unwrap();
            let client = UnixStream::connect(&path).unwrap();
            assert!(listener.accept().is_ok());
            std::fs::remove_file(&path).unwrap();
            let stopper = listener.stopper().unwrap();
            let (ends, ended) = std::sync::mpsc::channel();
            std::thread::spawn(move || ends.send(listener.accept().is_err()));
            stopper.stop();
            assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(true));
            drop(client);
        }
    }

    #[test]
    fn an_inherited_socket_is_found_by_its_file_and_none_is_left_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let unix = OwnedFd::from(UnixListener::bind(&path).unwrap());
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = Address::Tcp(tcp.local_addr().unwrap());
        let sockets = [unix, OwnedFd::from(tcp)];
        let same = folder.path().join(".").join("..").join(folder.path().file_name().unwrap());
        let same = Address::Unix(same.join("socket"));
        assert!(same.is_of(&sockets[0]) && !same.is_of(&sockets[1]) && there.is_of(&sockets[1]));
        refuse_others(&sockets, &[same.clone(), there.clone()]).unwrap();
        refuse_others(&[], std::slice::from_ref(&same)).unwrap();
        let said = refuse_others(&sockets, &[there]).unwrap_err().to_string();
        assert!(said.contains(&format!("listens at {}", path.display())), "{said}");
        let other = Address::Unix(folder.path().join("other"));
        let said = refuse_others(&sockets[..1], &[other]).unwrap_err().to_string();
        assert!(
            said.contains("but the server is configured to listen at") && said.contains("/other"),
            "{said}"
        );
    }

    #[test]
    fn addresses_are_told_as_uris() {
        let told = |path: &str| Address::Unix(path.into()).to_string();
        assert_eq!(told("/run/a-b_c.1/~s"), "nbd+unix:///?socket=/run/a-b_c.1/~s");
        assert_eq!(told("a b%&#+\u{e9}"), "nbd+unix:///?socket=a%20b%25%26%23%2B%C3%A9");
        let address = Address::Tcp("[::1]:10809".parse().expect("an address"));
        assert_eq!(address.to_string(), "nbd://[::1]:10809");
    }
}
