//! The store as a server: a subset of Redis commands over TCP.
//!
//! Each connection has a thread, which reads the available bytes, begins every complete command,
//! and writes the replies in order. Pipelined commands therefore run concurrently, except for reads
//! of keys with earlier pending writes. Clients are not trusted: lengths, connections, pending
//! commands and their memory are limited.

// Allowed because this module works with threads and sockets.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod client;
mod command;
mod connection;
mod glob;
mod info;
mod metrics;
mod plan;
mod reads;
mod reply;
mod session;
mod settings;
mod table;
mod unfinished;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use forebay_metrics::Scraped;

use crate::{KEY_MAX, Store, VALUE_MAX};

use client::{Identity, is_name};
use command::Words;
#[cfg(any(test, feature = "hostile"))]
pub(crate) use command::next as next_command;
#[cfg(any(test, feature = "hostile"))]
pub(crate) use forebay_metrics::next_request;
use glob::matches;
use metrics::Counts;
use plan::{Plan, Source, Step, Transaction, bytes_of, not_executed};
use reads::Reads;
use reply::{Reply, array_head};
use session::{Pending, Running, Session, answered, error_reply, value_or_error};
use settings::{commands, config};
use table::{repeated, unknown_part, wrong_count};
use unfinished::{Pace, Part, Unfinished};

/// The limits for clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The maximum number of clients.
    pub connections_max: usize,
    /// The maximum length of a command; for an unauthenticated client, at most 64 KiB.
    pub command_bytes_max: usize,
    /// The maximum number of bytes in incomplete commands of all clients.
    pub unfinished_bytes_max: usize,
    /// The maximum number of bytes that a client can queue after MULTI, including an overhead for
    /// each word.
    pub transaction_bytes_max: usize,
    /// The limit for the queued bytes of all clients together, not counting the first 64 KiB of
    /// each.
    pub all_transactions_bytes_max: usize,
    /// The maximum number of pending commands per client.
    pub pipeline_max: usize,
    /// The maximum number of keys that one SCAN examines.
    pub scan_count_max: usize,
    /// The maximum number of bytes of the keys and values that one SCAN reads, unless the first
    /// record alone has more.
    pub scan_bytes_max: u64,
    /// The password that clients must provide.
    pub password: Option<String>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 1024,
            // A SET of the longest value, plus its overhead.
            command_bytes_max: VALUE_MAX + KEY_MAX + (4 << 10),
            unfinished_bytes_max: 512 << 20,
            transaction_bytes_max: VALUE_MAX + KEY_MAX + (4 << 10),
            all_transactions_bytes_max: 512 << 20,
            pipeline_max: 4096,
            scan_count_max: 10_000,
            scan_bytes_max: 16 << 20,
            password: None,
        }
    }
}

/// The state shared by all connections.
struct Serving {
    store: Store,
    limits: Limits,
    connections: AtomicUsize,
    /// The number of clients so far, used to assign client ids.
    clients: AtomicI64,
    unfinished: Arc<Unfinished>,
    /// The bytes that clients have queued since MULTI.
    queued: Arc<Unfinished>,
    counts: Counts,
    is_over: AtomicBool,
}

/// A running server.
pub struct Server {
    serving: Arc<Serving>,
    address: SocketAddr,
    /// The listening thread.
    thread: std::thread::JoinHandle<()>,
    scraped: Vec<Scraped>,
}

/// The interval at which connections check whether the server is stopping.
const TICK: Duration = Duration::from_millis(200);

impl Server {
    /// Serves a store at `address`.
    ///
    /// # Errors
    /// The address cannot be used, or it is reachable from other machines and no password is set.
    pub fn start(store: Store, address: SocketAddr, limits: Limits) -> io::Result<Server> {
        if !address.ip().is_loopback() && limits.password.is_none() {
            let what = format!(
                "{address} is not loopback: without a password, anybody could use the store"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (connections, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let counts = Counts::default();
        let (clients, unfinished, queued) = (AtomicI64::new(0), Arc::default(), Arc::default());
        let serving = Arc::new(Serving {
            store,
            limits,
            connections,
            clients,
            unfinished,
            queued,
            counts,
            is_over,
        });
        let theirs = Arc::clone(&serving);
        let thread = std::thread::Builder::new().name("listen".into());
        let thread = thread.spawn(move || accept(&listener, &theirs))?;
        Ok(Server { serving, address, thread, scraped: Vec::new() })
    }

    /// Also answers `GET /metrics` over HTTP on a loopback address, in Prometheus's text format.
    /// Returns the actual address.
    ///
    /// # Errors
    /// The address cannot be used or is not a loopback address.
    pub fn publish_metrics(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let pages = metrics::StorePages(Arc::clone(&self.serving));
        let scraped = Scraped::start(address, pages)?;
        let address = scraped.address();
        self.scraped.push(scraped);
        Ok(address)
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting clients, and ends existing connections once their pending commands are
    /// answered.
    pub fn stop(self) {
        self.serving.is_over.store(true, Ordering::SeqCst);
        // Connect once, so that the listening thread wakes up and sees the stop flag.
        drop(TcpStream::connect(self.address));
        // A panic of the listening thread no longer matters.
        let _ = self.thread.join();
        self.scraped.into_iter().for_each(Scraped::stop);
        while self.serving.connections.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn accept(listener: &TcpListener, serving: &Arc<Serving>) {
    for connection in listener.incoming() {
        if serving.is_over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(connection) = connection else {
            // The process may be out of descriptors, for example; wait until others are closed.
            std::thread::sleep(TICK);
            continue;
        };
        let count = serving.connections.fetch_add(1, Ordering::SeqCst);
        let guard = Connected(Arc::clone(serving));
        if count >= serving.limits.connections_max {
            refuse(connection);
            continue;
        }
        let thread = std::thread::Builder::new().name("client".into());
        // If no thread can be created, dropping the guard ends the connection.
        let _ = thread.spawn(move || {
            // An error of the connection needs no message: the client has gone.
            let _ = connection::serve(connection, &guard.0);
        });
    }
}

/// Counts an open connection until it is dropped.
struct Connected(Arc<Serving>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

fn refuse(mut connection: TcpStream) {
    // The timeout is needed because the client may not be reading.
    let _ = connection.set_write_timeout(Some(TICK));
    let _ = connection.write_all(b"-ERR max number of clients reached\r\n");
}
