//! Tests of clients that misbehave, and of requests for memory that others hold.

use std::sync::mpsc::Sender;

use forebay_core::contract::{AnyPolicy, Done};
use forebay_core::{Bytes, Completion, Cx, Policy};
use proptest::prelude::*;

use super::*;
use crate::front::Order;
use crate::protocol::PAYLOAD_MAX;
use crate::request_memory::RequestMemory;

#[test]
fn a_client_whose_answers_fail_may_be_in_the_middle_of_a_write() {
    // The client does not read, and its input ends in the middle of a write.
    let mut said = vec![4, 0xfa];
    said.extend(header(0, 0, 7, 0, 512));
    said.extend(header(1, 0, 8, 0, 1 << 19));
    // After its input, the client either disconnects or stays without ever reading.
    for bytes in [5000, 1 << 19] {
        let said = [&said[..], &vec![1; bytes]].concat();
        let served = requests(&said);
        assert_eq!((served.told_bytes, served.left, served.steady), (0, 0, STEADY));
    }
}

#[test]
fn every_request_is_answered_on_the_wire() {
    let mut said = vec![8, !7];
    said.extend(header(1, 1, 7, 0, 5));
    said.extend(b"hello");
    said.extend(header(0, 0, 8, 0, 5));
    said.extend(header(9, 0, 9, 0, 0));
    said.extend(header(2, 0, 9, 0, 0));
    let served = requests(&said);
    // The answers are a chunk without data, a chunk with 8 + 5 bytes, and an error chunk.
    assert_eq!((served.told_bytes, served.steady), (3 * 20 + 13 + 6, STEADY));
    assert_eq!(served.left, 0);
}

#[test]
fn internal_ios_belong_to_no_clients_stream() {
    for (exports, is_shared) in [(1, false), (300, false), (1, true), (300, true)] {
        let mut wire = Wire::new(Vec::new(), false);
        let ((_, newcomers), (_, ordered)) = (channel(), channel());
        let tally = Tally::new(&[Named::all("")], "noop", &[]);
        let exports = (0..exports).map(|_| export(0)).collect::<Vec<_>>();
        let (own, pool) = (exports.len() as u32, &mut wire.pool);
        let streams = if is_shared { Streams::ConnectionsOf(own + 1) } else { Streams::Exports };
        let mut front = Front::new(exports, streams, None, newcomers, ordered, tally, pool);
        front.open(Arc::default(), || true);
        assert_eq!(front.take().stream, own);
    }
}

/// A server with memory for two of the longest requests, and clients that stay connected.
struct Short {
    front: Front,
    wire: Wire,
    /// When the server last checked its clients.
    looked_ms: u64,
    _orders: Sender<Order>,
}

impl Short {
    /// Creates a server and one client for each item of `says`, which the client sends.
    fn new(says: &[Vec<u8>]) -> Short {
        let stay =
            |says: &Vec<u8>| Socket { stays: true, ..Socket::new(says.clone(), usize::MAX, false) };
        let mut wire = Wire::new(says.iter().map(stay).collect(), false);
        let (newcome, newcomers) = channel();
        for _ in says {
            let socket = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
            let agreed = Agreed { export: 0, structured: false, allocation: false };
            newcome.send(Newcomer { socket, agreed, told: None }).unwrap();
        }
        let tally = Tally::new(&[Named::all("")], "noop", &[]);
        let exports = vec![Export { bytes: 1 << 30, ..export(0) }];
        let ((orders, ordered), streams) = (channel(), Streams::Connections);
        let pool = &mut wire.pool;
        let mut front = Front::new(exports, streams, None, newcomers, ordered, tally, pool);
        // A sixteenth of the memory is reserved for short requests.
        front.share(RequestMemory::new(2 * u64::from(PAYLOAD_MAX) / 15 * 16 + 4096));
        front.open(Arc::default(), || true);
        // Completes the opening of the policy.
        let open = front.take();
        front.finished(Nanos(1), &Done::at_once(open, Ok(())), &mut wire.pool);
        let mut short = Short { front, wire, looked_ms: 0, _orders: orders };
        short.pass(0);
        short
    }

    /// Lets the server check its clients until this time.
    fn pass(&mut self, at_ms: u64) {
        for at_ms in (self.looked_ms..at_ms).step_by(100) {
            self.front.look_after_memory(Nanos::from_millis(at_ms), &mut self.wire);
        }
        self.looked_ms = at_ms;
        for _ in 0..4 {
            self.front.turn(&mut self.wire).unwrap();
            self.front.send(&mut self.wire);
        }
        self.front.look_after_memory(Nanos::from_millis(at_ms), &mut self.wire);
        (0..4).for_each(|_| self.front.turn(&mut self.wire).unwrap());
    }

    fn unplugged(&self) -> Vec<bool> {
        self.wire.sockets.iter().map(|socket| socket.unplugged).collect()
    }
}

#[test]
fn clients_that_stall_make_room_when_others_wait_for_memory() {
    // Two of the clients have sent only the headers of writes of maximum length.
    let half = header(1, 0, 1, 0, PAYLOAD_MAX);
    let mut short = Short::new(&[half.clone(), half, header(0, 0, 2, 0, 1 << 20)]);
    [100, 5_000, 25_900].into_iter().for_each(|at_ms| short.pass(at_ms));
    assert_eq!((short.front.peek(), short.unplugged()), (None, vec![false; 3]));
    [26_200, 26_300, 26_400].into_iter().for_each(|at_ms| short.pass(at_ms));
    assert_eq!(short.unplugged(), [true, true, false]);
    assert!(short.front.peek().is_some(), "the third has its turn");
    let said = short.front.notes.join("; ");
    let expected = "2 clients disconnected, after sending only a part of a write for too long, \
                    while others waited for memory";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_driver_that_does_not_run_for_a_while_disconnects_nobody() {
    let half = header(1, 0, 1, 0, PAYLOAD_MAX);
    let mut short = Short::new(&[half.clone(), half, header(0, 0, 2, 0, 1 << 20)]);
    short.looked_ms = 30_000;
    [30_000, 50_000].into_iter().for_each(|at_ms| short.pass(at_ms));
    assert_eq!(short.unplugged(), vec![false; 3]);
    [56_100, 56_200, 56_300].into_iter().for_each(|at_ms| short.pass(at_ms));
    assert_eq!(short.unplugged(), [true, true, false]);
}

#[test]
fn clients_that_do_not_read_make_room_when_others_wait_for_memory() {
    let read = header(0, 0, 1, 0, PAYLOAD_MAX);
    let mut short = Short::new(&[read.clone(), read, header(0, 0, 2, 0, 1 << 20)]);
    for _ in 0..2 {
        let request = short.front.take();
        short.front.finished(Nanos(2), &Done::at_once(request, Ok(())), &mut short.wire.pool);
    }
    [200, 25_900].into_iter().for_each(|at_ms| short.pass(at_ms));
    assert_eq!((short.front.peek(), short.unplugged()), (None, vec![false; 3]));
    [26_400, 26_600].into_iter().for_each(|at_ms| short.pass(at_ms));
    assert_eq!(short.unplugged(), [true, true, false]);
    assert!(short.front.peek().is_some(), "the third has its turn");
}

#[test]
fn without_need_only_half_a_write_has_a_deadline() {
    let mut short = Short::new(&[header(1, 0, 1, 0, 1 << 20), header(0, 0, 1, 0, 4096)]);
    let request = short.front.take();
    short.front.finished(Nanos(2), &Done::at_once(request, Ok(())), &mut short.wire.pool);
    [100, 60_000, 129_900].into_iter().for_each(|at_ms| short.pass(at_ms));
    assert_eq!(short.unplugged(), [false, false]);
    [130_300, 4_000_000].into_iter().for_each(|at_ms| short.pass(at_ms));
    assert_eq!(short.unplugged(), [true, false], "one that does not read may stay");
}

/// A policy that records the streams of the requests that begin.
struct Beginnings(Sender<u32>);

impl Policy for Beginnings {
    fn submit(&mut self, _cx: &mut Cx<'_>, _request: Request, _bytes: Bytes) {}
    fn dispatch(&mut self, _now: Nanos, _lane: Lane) -> Option<Request> {
        None
    }
    fn complete(&mut self, _cx: &mut Cx<'_>, _done: &Completion) {}
    fn pieces(&self, _io: &Request, _each: &mut dyn FnMut(Piece)) {}
    fn begin_stream(&mut self, stream: u32) {
        self.0.send(stream).unwrap();
    }
}

#[test]
fn the_policy_hears_of_each_newcomer_that_is_a_stream_of_its_own() {
    for (streams, heard) in [
        (Streams::Connections, vec![0, 1]),
        (Streams::Exports, vec![]),
        (Streams::ConnectionsOf(3), vec![0, 3]),
    ] {
        let (newcome, newcomers) = channel();
        for _ in 0..2 {
            let socket = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
            let agreed = Agreed { export: 0, structured: false, allocation: false };
            newcome.send(Newcomer { socket, agreed, told: None }).unwrap();
        }
        let sockets = (0..2).map(|_| Socket::new(Vec::new(), 1, true)).collect();
        let mut wire = Wire::new(sockets, false);
        let tally = Tally::new(&[Named::all("")], "noop", &[]);
        let exports = vec![export(0)];
        let (_orders, ordered) = channel();
        let pool = &mut wire.pool;
        let mut front = Front::new(exports, streams, None, newcomers, ordered, tally, pool);
        let (begins, begun) = channel();
        let policy: AnyPolicy = Box::new(Beginnings(begins));
        front.follow(&Rc::new(RefCell::new(policy)));
        front.turn(&mut wire).unwrap();
        assert_eq!(begun.try_iter().collect::<Vec<_>>(), heard);
    }
}

proptest! {
    #[test]
    fn hostile_clients_leave_nothing_behind_and_harm_no_others(
        selector: u8,
        style: u8,
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let served = requests(&[&[selector, style][..], &bytes].concat());
        prop_assert_eq!((served.left, served.steady), (0, STEADY));
    }
}
