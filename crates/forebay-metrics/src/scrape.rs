//! Answers `GET /metrics` and `GET /health` over HTTP, and nothing else: it reads the head of a
//! request, answers, and closes the connection.
//!
//! Clients are not trusted: the length of a head, the duration of a request and the number of
//! connections are limited. Anyone who can connect may read, so only loopback addresses are
//! allowed.

// Allowed because this module works with threads and sockets.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The maximum length of a request's head in bytes.
const HEAD_MAX: usize = 8 << 10;
/// The maximum number of simultaneous connections. If there is one more, the oldest is shut down.
const CONNECTIONS_MAX: usize = 8;
/// The maximum number of threads, including those whose connections were shut down.
const THREADS_MAX: usize = 64;
/// The total time for one request. A client that uses all of it does not delay other clients.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How long to wait before accepting again when the system is out of descriptors.
const TICK: Duration = Duration::from_millis(200);

/// The page that a request requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The metrics.
    Metrics,
    /// Whether the server works: status 200 or 503, with a sentence about it.
    Health,
}

/// The pages of a server.
pub trait Pages: Send + Sync + 'static {
    /// Returns the metrics in Prometheus's text format.
    fn metrics(&self) -> String;

    /// Returns remarks on a server that works.
    ///
    /// # Errors
    /// Returns why it does not work.
    fn health(&self) -> Result<String, String>;
}

/// A thread that answers requests for the current pages.
pub struct Scraped {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Scraped {
    /// Serves these pages at `address`.
    ///
    /// # Errors
    /// The address is not a loopback address, or cannot be used.
    pub fn start(address: SocketAddr, pages: impl Pages) -> io::Result<Scraped> {
        if !address.ip().is_loopback() {
            let what = "is not loopback: anybody who connects can read the metrics; expected e.g. \
                127.0.0.1:9121";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let (theirs, pages) = (Arc::clone(&over), Arc::new(pages));
        let thread = std::thread::Builder::new().name("metrics".into());
        let thread = thread.spawn(move || accept(&listener, &theirs, &pages))?;
        Ok(Scraped { address, over, thread })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops answering requests.
    pub fn stop(self) {
        self.over.store(true, Ordering::SeqCst);
        // Connects once, so that the accepting thread wakes up and sees the flag.
        drop(TcpStream::connect(self.address));
        // A panic of the thread no longer matters.
        let _ = self.thread.join();
    }
}

fn accept<P: Pages>(listener: &TcpListener, over: &AtomicBool, pages: &Arc<P>) {
    let connections = Arc::new(Connections::default());
    for connection in listener.incoming() {
        if over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(connection) = connection else {
            // The process may be out of descriptors, for example; waits until others are closed.
            std::thread::sleep(TICK);
            continue;
        };
        let Some(open) = connections.add(connection) else { continue };
        let pages = Arc::clone(pages);
        let thread = std::thread::Builder::new().name("scrape".into());
        // If no thread can be created, dropping the connection closes it. A client that disconnects
        // needs no report.
        let _ = thread.spawn(move || answer(&open.stream, &*pages));
    }
}

/// The connections whose threads have not ended, oldest first. Only the newest are open, so that
/// clients that send nothing cannot keep others from being answered.
#[derive(Default)]
struct Connections(Mutex<Vec<Arc<TcpStream>>>);

impl Connections {
    /// Adds a connection and shuts down the oldest if there are too many; `None` if there are too
    /// many threads.
    fn add(self: &Arc<Self>, stream: TcpStream) -> Option<OpenConnection> {
        let mut all = self.lock();
        if all.len() >= THREADS_MAX {
            return None;
        }
        let stream = Arc::new(stream);
        all.push(Arc::clone(&stream));
        let surplus = all.len().saturating_sub(CONNECTIONS_MAX);
        for oldest in &all[..surplus] {
            // A client that has disconnected already needs no shutdown.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        Some(OpenConnection { stream, all: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<TcpStream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is removed from the list when it is dropped.
struct OpenConnection {
    stream: Arc<TcpStream>,
    all: Arc<Connections>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.lock().retain(|other| !Arc::ptr_eq(other, &self.stream));
    }
}

fn answer(mut connection: &TcpStream, pages: &dyn Pages) -> io::Result<()> {
    let end = Instant::now() + TIME_MAX;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    let asked = loop {
        if let Some(asked) = next_request(&head).transpose() {
            break asked;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        connection.set_read_timeout(Some(left))?;
        match connection.read(&mut chunk)? {
            0 => return Ok(()),
            count => head.extend_from_slice(&chunk[..count]),
        }
    };
    let reply = match asked {
        Ok(Wanted::Metrics) => reply("200 OK", &pages.metrics()),
        Ok(Wanted::Health) => match pages.health() {
            Ok(said) => reply("200 OK", &said),
            Err(why) => reply("503 Service Unavailable", &why),
        },
        Err(status) => reply(status, ""),
    };
    connection.set_write_timeout(Some(TIME_MAX))?;
    connection.write_all(&reply)
}

/// Returns whether the request so far is complete and valid: `None` if more data is needed, or the
/// status that rejects it.
pub fn next_request(head: &[u8]) -> Result<Option<Wanted>, &'static str> {
    match is_whole(head) || head.len() > HEAD_MAX {
        true => asked(head).map(Some),
        false => Ok(None),
    }
}

/// Returns whether the head of a request is complete.
fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|bytes| bytes == b"\r\n\r\n")
}

/// Returns the page that a head requests, or the status that rejects the request.
fn asked(head: &[u8]) -> Result<Wanted, &'static str> {
    if !is_whole(head) {
        return Err("431 Request Header Fields Too Large");
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else { return Err("400 Bad Request") };
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    match (version.starts_with(b"HTTP/1."), method, path) {
        (false, ..) => Err("400 Bad Request"),
        (true, b"GET", b"/metrics") => Ok(Wanted::Metrics),
        (true, b"GET", b"/health") => Ok(Wanted::Health),
        (true, b"GET", _) => Err("404 Not Found"),
        _ => Err("405 Method Not Allowed"),
    }
}

fn reply(status: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_pages_are_there() {
        let status = |line: &str| asked(format!("{line}\r\nHost: x\r\n\r\n").as_bytes());
        assert_eq!(status("GET /metrics HTTP/1.1"), Ok(Wanted::Metrics));
        assert_eq!(status("GET /metrics?name=x HTTP/1.0"), Ok(Wanted::Metrics));
        assert_eq!(status("GET /health HTTP/1.1"), Ok(Wanted::Health));
        assert_eq!(status("GET / HTTP/1.1"), Err("404 Not Found"));
        assert_eq!(status("POST /metrics HTTP/1.1"), Err("405 Method Not Allowed"));
        assert_eq!(status("GET /metrics"), Err("400 Bad Request"));
        assert_eq!(status("GET /metrics HTTP/2"), Err("400 Bad Request"));
        assert_eq!(asked(b"GET /metrics HTTP/1.1\r\n"), Err("431 Request Header Fields Too Large"));
    }

    struct Working;

    impl Pages for Working {
        fn metrics(&self) -> String {
            "up 1\n".into()
        }

        fn health(&self) -> Result<String, String> {
            Ok("ok\n".into())
        }
    }

    /// Requests the health page; returns nothing if there are too many threads at the moment.
    fn health(address: SocketAddr) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        let mut answer = String::new();
        // The server may have closed the connection already.
        let _ = client.write_all(b"GET /health HTTP/1.1\r\n\r\n");
        let _ = client.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn clients_that_send_nothing_do_not_keep_others_from_an_answer() {
        let scraped = Scraped::start("127.0.0.1:0".parse().unwrap(), Working).unwrap();
        let connect = || TcpStream::connect(scraped.address()).unwrap();
        let mut silent: Vec<TcpStream> = Vec::new();
        for round in 0..10 {
            silent.extend((0..30).map(|_| connect()));
            for half in &mut silent {
                // The server may have shut this connection down.
                let _ = half.write_all(b"GET /health HT");
            }
            // The threads of connections that were shut down may take a moment to end. Without a
            // shutdown, they would end after a minute.
            let is_answered = (0..100).any(|_| {
                let is_answered = health(scraped.address()).starts_with("HTTP/1.1 200 OK");
                if !is_answered {
                    std::thread::sleep(TICK / 4);
                }
                is_answered
            });
            assert!(is_answered, "round {round}");
        }
        // A client that is slow, but not the oldest, is answered.
        let mut slow = connect();
        slow.write_all(b"GET /metrics HT").unwrap();
        let _others: Vec<TcpStream> = (1..CONNECTIONS_MAX).map(|_| connect()).collect();
        slow.write_all(b"TP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        slow.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("up 1\n"), "{answer:?}");
        scraped.stop();
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_cause_no_panic(bytes in proptest::collection::vec(prop_oneof![
            Just(b'\r'), Just(b'\n'), Just(b' '), Just(b'?'), 0..=255_u8,
        ], 0..60)) {
            prop_assert!(asked(&[&bytes[..], b"\r\n\r\n"].concat()).is_err());
        }
    }
}
