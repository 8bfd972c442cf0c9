//! The store as a server: the commands of Redis that it has, over TCP.
//!
//! A thread a connection: it reads what is there, begins every whole command of it, and writes the replies in
//! order; so what a client sends without waiting is done together, but for reads of what it writes before them.
//! Nothing is believed of a client: lengths, connections, commands under way and what they hold have limits.

// Threads and sockets are its task.
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

use crate::record::{KEY_MAX, VALUE_MAX};
use crate::store::Store;

#[cfg(any(test, feature = "hostile"))]
pub(crate) use command::next as next_command;
#[cfg(any(test, feature = "hostile"))]
pub(crate) use forebay_metrics::next_request;
use metrics::Counts;
use unfinished::Unfinished;

/// What clients may do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Clients at a time.
    pub connections_max: usize,
    /// Bytes of a command; of a client that has to say the password yet at most 64 KiB.
    pub command_bytes_max: usize,
    /// Bytes of commands that clients have not sent to their end yet, in all.
    pub unfinished_bytes_max: usize,
    /// Bytes of commands that a client has queued since MULTI, and some for each of their words.
    pub transaction_bytes_max: usize,
    /// Such bytes of all clients, but for the first 64 KiB of each.
    pub all_transactions_bytes_max: usize,
    /// Commands of a client under way at a time.
    pub pipeline_max: usize,
    /// Keys that one SCAN looks at.
    pub scan_count_max: usize,
    /// Bytes of these keys and their values, unless the first alone has more.
    pub scan_bytes_max: u64,
    /// Clients have to say it first.
    pub password: Option<String>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 1024,
            // A SET of the longest value, and what is around it.
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

/// What all connections share.
struct Serving {
    store: Store,
    limits: Limits,
    connections: AtomicUsize,
    /// Clients that there have been.
    clients: AtomicI64,
    unfinished: Arc<Unfinished>,
    /// What clients have queued since MULTI.
    queued: Arc<Unfinished>,
    counts: Counts,
    is_over: AtomicBool,
}

/// A server that was started.
pub struct Server {
    serving: Arc<Serving>,
    address: SocketAddr,
    /// The one that listens.
    thread: std::thread::JoinHandle<()>,
    scraped: Vec<Scraped>,
}

/// How long a connection waits before it looks whether the server is over.
const TICK: Duration = Duration::from_millis(200);

impl Server {
    /// Serves a store at `address`.
    ///
    /// # Errors
    /// Where the address cannot be had, or anybody could reach it and no password is set.
    pub fn start(store: Store, address: SocketAddr, limits: Limits) -> io::Result<Server> {
        if !address.ip().is_loopback() && limits.password.is_none() {
            let what = format!(
                "{address} is not loopback: without a password anybody could use the store"
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

    /// Answers `GET /metrics` over HTTP too, at a loopback address, in Prometheus's text format. Says where.
    ///
    /// # Errors
    /// Where the address cannot be had or is not loopback.
    pub fn publish_metrics(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let theirs = Arc::clone(&self.serving);
        let scraped = Scraped::start(address, move || metrics::text(&theirs))?;
        let address = scraped.address();
        self.scraped.push(scraped);
        Ok(address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more clients and ends their connections once what they asked is answered.
    pub fn stop(self) {
        self.serving.is_over.store(true, Ordering::SeqCst);
        // Something to accept, so that it looks.
        drop(TcpStream::connect(self.address));
        // It ends by itself.
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
            // Out of descriptors, for example: others have to end first.
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
        // Without a thread the connection ends with the guard.
        let _ = thread.spawn(move || {
            // A client that goes away is no news.
            let _ = connection::serve(connection, &guard.0);
        });
    }
}

/// Counts a connection while it is there.
struct Connected(Arc<Serving>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

fn refuse(mut connection: TcpStream) {
    // It may not listen.
    let _ = connection.set_write_timeout(Some(TICK));
    let _ = connection.write_all(b"-ERR max number of clients reached\r\n");
}
