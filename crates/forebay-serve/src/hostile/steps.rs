//! Tests of a front that is driven step by step.

#![allow(clippy::unwrap_used)]

use std::sync::mpsc::Sender;

use forebay_core::{BACKGROUND, Done};
use forebay_live::Watch;

use super::*;
use crate::Promise;
use crate::back::CLIENTS_MAX;
use crate::front::{Course, Order, PolicySetup, Switch, SwitchFailure};
use crate::protocol::PAYLOAD_MAX;
use crate::record::{Destination, Issued, RecordedTrace};
use crate::request_memory::RequestMemory;
use crate::traces::Traces;

/// A server whose clients stay connected.
struct Steps {
    front: Front,
    wire: Wire,
    memory: RequestMemory,
    orders: Sender<Order>,
}

impl Steps {
    /// Creates a server of these exports, and a client for each item of `says`: the index of its
    /// export and what it sends.
    fn new(exports: &[Named], says: &[(usize, Vec<u8>)]) -> Steps {
        let stay = |(_, says): &(usize, Vec<u8>)| Socket {
            stays: true,
            ..Socket::new(says.clone(), usize::MAX, true)
        };
        let mut wire = Wire::new(says.iter().map(stay).collect(), false);
        let (newcome, newcomers) = channel();
        for (export, _) in says {
            let socket = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
            let agreed = Agreed { export: *export, structured: false, allocation: false };
            newcome.send(Newcomer { socket, agreed, told: None }).unwrap();
        }
        let tally = Tally::new(exports, "noop", &["disk".into()]);
        let ((orders, ordered), streams) = (channel(), Streams::Exports);
        let exports = exports.iter().map(|_| Export { bytes: 1 << 30, ..export(0) }).collect();
        let pool = &mut wire.pool;
        let mut front = Front::new(exports, streams, None, newcomers, ordered, tally, pool);
        // A sixteenth of the memory is reserved for short requests.
        let memory = RequestMemory::new(2 * u64::from(PAYLOAD_MAX) / 15 * 16 + 4096);
        front.share(memory.clone());
        front.open(Arc::default(), || true);
        let mut steps = Steps { front, wire, memory, orders };
        steps.finish(0, Ok(()));
        steps
    }

    /// Lets the server process its input at this time.
    fn pass(&mut self, at_ms: u64) {
        for at_ms in (self.wire.now.0 / 1_000_000..at_ms).step_by(100) {
            self.front.look_after_memory(Nanos::from_millis(at_ms), &mut self.wire);
        }
        self.wire.now = Nanos::from_millis(at_ms);
        for _ in 0..4 {
            self.front.turn(&mut self.wire).unwrap();
            self.front.send(&mut self.wire);
        }
        self.front.look_after_memory(self.wire.now, &mut self.wire);
        (0..4).for_each(|_| self.front.turn(&mut self.wire).unwrap());
    }

    /// Completes the next request.
    fn finish(&mut self, at_ms: u64, outcome: forebay_core::Outcome) {
        let request = self.front.take();
        let done = Done::at_once(request, outcome);
        self.front.finished(Nanos::from_millis(at_ms), &done, &mut self.wire.pool);
    }

    /// Returns the maximum recent latency of an export in milliseconds.
    fn longest_ms(&self, export: usize) -> u64 {
        self.front.tally.exports[export].recent().longest_ms().unwrap_or(0.0) as u64
    }
}

fn promised(name: &str) -> Named {
    let promise = Promise { iops: 300, within: Nanos::from_millis(10) };
    Named { promise: Some(promise), ..Named::all(name) }
}

#[test]
fn a_client_that_sends_slowly_does_not_break_its_own_promise() {
    let write = [header(1, 0, 1, 0, 4096), vec![7; 2048]].concat();
    let mut steps = Steps::new(&[promised("db")], &[(0, write)]);
    steps.pass(10);
    steps.front.look_at_outstanding(Nanos::from_millis(1500));
    let figures = &steps.front.tally.exports[0].figures;
    assert_eq!((figures.oldest_request_s, figures.overdue), (0.0, 0));
    steps.wire.sockets[0].says.extend([7; 2048]);
    steps.pass(2000);
    steps.finish(2004, Ok(()));
    let figures = &steps.front.tally.exports[0].figures;
    assert_eq!((figures.kept, figures.kept_in_time), (1, 1));
    assert_eq!(steps.longest_ms(0), 4);
}

#[test]
fn the_bound_of_a_request_counts_from_when_the_promise_covers_it() {
    for (wait_ms, in_time) in [(9, 1), (11, 0)] {
        let read = header(0, 0, 1, 0, 4096);
        let mut steps = Steps::new(&[promised("db")], &[(0, read)]);
        steps.pass(1000);
        let request = steps.front.take();
        let done = Done { wait: Nanos::from_millis(wait_ms), ..Done::at_once(request, Ok(())) };
        steps.front.finished(Nanos::from_millis(1500), &done, &mut steps.wire.pool);
        let figures = &steps.front.tally.exports[0].figures;
        assert_eq!((figures.kept, figures.kept_in_time), (1, in_time));
        assert!(steps.longest_ms(0) >= 500, "latency counts from the arrival");
    }
}

#[test]
fn waiting_for_memory_counts() {
    let half = header(1, 0, 1, 0, PAYLOAD_MAX);
    let read = header(0, 0, 2, 0, 1 << 20);
    let mut steps = Steps::new(&[Named::all("")], &[(0, half.clone()), (0, half), (0, read)]);
    [100, 5_000, 25_900].into_iter().for_each(|at_ms| steps.pass(at_ms));
    assert_eq!(steps.front.peek(), None);
    steps.front.look_at_outstanding(Nanos::from_millis(25_900));
    assert!(steps.front.tally.exports[0].figures.oldest_request_s > 25.0);
    [26_200, 26_300, 26_400].into_iter().for_each(|at_ms| steps.pass(at_ms));
    steps.finish(26_500, Ok(()));
    assert!((26_000..27_000).contains(&steps.longest_ms(0)), "{}", steps.longest_ms(0));
}

#[test]
fn half_sent_writes_of_others_do_not_block_a_promised_export() {
    let half = header(1, 0, 1, 0, PAYLOAD_MAX);
    let read = header(0, 0, 2, 0, 1 << 20);
    let says = [(0, half.clone()), (0, half), (1, read)];
    let exports = [Named::all("batch"), promised("db")];
    for reserves in [false, true] {
        let mut steps = Steps::new(&exports, &says);
        steps.memory.reserves_for_promises(reserves);
        steps.pass(100);
        assert_eq!(steps.front.peek().is_some(), reserves);
    }
}

#[test]
fn outstanding_requests_and_ios_have_an_age() {
    let mut steps = Steps::new(&[promised("db")], &[(0, header(0, 0, 1, 0, 4096))]);
    steps.pass(1000);
    let asked = |steps: &mut Steps, at_ms| {
        steps.front.look_at_outstanding(Nanos::from_millis(at_ms));
        let figures = &steps.front.tally.exports[0].figures;
        (figures.oldest_request_s, figures.overdue)
    };
    assert_eq!(asked(&mut steps, 1005), (0.005, 0));
    assert_eq!(asked(&mut steps, 67_000), (66.0, 1));
    steps.finish(68_000, Ok(()));
    assert_eq!(asked(&mut steps, 69_000), (0.0, 0));
}

#[test]
fn a_promise_does_not_cover_flushes() {
    let flush = header(3, 0, 1, 0, 0);
    let mut steps = Steps::new(&[promised("db")], &[(0, flush)]);
    steps.pass(1000);
    steps.front.look_at_outstanding(Nanos::from_millis(3000));
    let figures = &steps.front.tally.exports[0].figures;
    assert_eq!((figures.oldest_request_s, figures.overdue), (2.0, 0));
}

#[test]
fn a_disk_that_hangs_is_reported_while_a_policy_switch_waits_for_it() {
    let mut steps = Steps::new(&[promised("db")], &[(0, header(0, 0, 1, 0, 4096))]);
    steps.pass(1000);
    let io = steps.front.take();
    let (done, _outcome) = channel();
    let (next, before) = (setup("bid"), setup("noop"));
    steps.orders.send(Order::Switch(Switch { next, before, flushes: false, done })).unwrap();
    steps.pass(1000);
    assert_eq!(steps.front.course(), Course::Held);
    let (says, said) = channel();
    let journal = Journal::new("data", &["disk".into()], says);
    let front = Rc::new(RefCell::new(steps.front));
    let mut counting = Counting { front, journal, pair: None };
    let seconds = |seconds| Nanos::from_secs(seconds);
    counting.started(seconds(1), &io);
    // The request is covered by a promise, which is broken as well.
    assert!([2, 40, 80].iter().all(|at| !counting.stops(seconds(*at))));
    let said: Vec<String> = said.try_iter().collect();
    assert!(said[0].contains("disk has not answered for 39 s"), "{said:?}");
    assert!(said[1].contains("the promise to 'db' was broken for a minute"), "{said:?}");
}

#[test]
fn ios_belong_to_exports_and_those_of_a_policy_to_none() {
    for exports in 1..=7_u32 {
        let mut wire = Wire::new(Vec::new(), false);
        let ((_, newcomers), (_, ordered)) = (channel(), channel());
        let named: Vec<Named> = (0..exports).map(|at| Named::all(&at.to_string())).collect();
        let tally = Tally::new(&named, "noop", &[]);
        let of = |named: &Named| Export { name: named.name.clone(), ..export(0) };
        let (all, pool) = (named.iter().map(of).collect(), &mut wire.pool);
        let streams = Streams::ConnectionsOf(exports + 1);
        let mut front = Front::new(all, streams, None, newcomers, ordered, tally, pool);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("issued.csv");
        let (disks, says) = (["disk".into()], channel().0);
        let (key, ended) = ("trace_issued", Default::default());
        let to = Destination { path: &path, back: "", key, disks: &disks, says, ended };
        front.traces = Traces::new(None, Some(Issued::begin(to).unwrap()));
        // One request each of the last connection, of the server and of the policy.
        let last = Streams::ConnectionsOf(exports + 1).of(CLIENTS_MAX - 1, exports as usize - 1);
        for (id, stream) in [(1, last), (2, exports), (3, BACKGROUND)] {
            let (op, flags, len, at) = (Op::Read, Flags::NONE, 4096, Nanos(id));
            let io = Request { at, offset: id * 4096, id, len, stream, lane: 0, op, flags };
            front.record_start(at, &io);
            front.charge(&io, Nanos::from_secs(id));
        }
        front.traces.take().1.unwrap().finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let names: Vec<&str> = text.lines().filter_map(|row| row.rsplit(',').next()).collect();
        let named = (exports - 1).to_string();
        assert_eq!(names[1..], [&*named, "(server)", "(server)"], "{text}");
        let disk_s: f64 = front.tally.exports.iter().map(|one| one.figures.disk_s).sum();
        assert_eq!(disk_s, 1.0, "only the first I/O is a client's");
    }
}

fn setup(spec: &str) -> PolicySetup {
    let (spec, shown, streams) = (spec.to_string(), spec.to_string(), Streams::Exports);
    PolicySetup { spec, shown, streams, exports: vec![Named::all("db")] }
}

#[test]
fn a_policy_that_cannot_be_opened_leaves_the_previous_one_in_use() {
    for attempts in 0..3 {
        let mut steps = Steps::new(&[Named::all("db")], &[(0, header(0, 0, 1, 0, 4096))]);
        let (done, told) = channel();
        let (next, before) = (setup("next"), setup("before"));
        steps.orders.send(Order::Switch(Switch { next, before, flushes: true, done })).unwrap();
        steps.pass(10);
        // The flush before the switch.
        steps.finish(11, Ok(()));
        assert!(steps.front.is_over() && steps.front.course() == Course::Held);
        assert_eq!(steps.front.next_policy(), Some("next"));
        steps.front.reopen(false);
        steps.finish(14, Err(Fault::Full));
        assert_eq!(told.try_recv(), Ok(Err(SwitchFailure::Open(Fault::Full))));
        assert!(!steps.front.retries());
        for failed in 0..attempts {
            assert!(steps.front.is_over() && steps.front.course() == Course::Held);
            assert_eq!(steps.front.next_policy(), Some("before"));
            steps.front.let_policy_go();
            steps.front.reopen(false);
            steps.finish(15 + failed, Err(Fault::Full));
            assert!(steps.front.retries());
            assert_eq!(steps.front.tally.waits_for, Some(Fault::Full));
        }
        steps.front.reopen(false);
        steps.finish(30, Ok(()));
        assert_eq!(steps.front.course(), Course::Open);
        let Tally { policy, switches, waits_for, .. } = &steps.front.tally;
        assert_eq!((&**policy, *switches, *waits_for), ("before", 0, None));
        assert_eq!(steps.front.notes.len(), 2 * usize::from(attempts > 0), "failed and mended");
        steps.pass(40);
        assert!(steps.front.peek().is_some(), "the client is served on");
    }
}

#[test]
fn a_server_that_stops_does_not_wait_for_a_policy_to_open() {
    let mut steps = Steps::new(&[Named::all("db")], &[]);
    let (done, _told) = channel();
    let (next, before) = (setup("next"), setup("before"));
    steps.orders.send(Order::Switch(Switch { next, before, flushes: false, done })).unwrap();
    steps.pass(10);
    steps.front.reopen(false);
    steps.finish(14, Err(Fault::Full));
    steps.front.stop_now();
    steps.front.reopen(false);
    steps.pass(20);
    steps.finish(21, Err(Fault::Full));
    steps.pass(22);
    assert!(steps.front.is_over() && steps.front.course() == Course::Closing);
    assert_eq!(steps.front.failed(), Some((Op::Open, Fault::Full)));
}

#[test]
fn clients_of_an_export_that_becomes_another_one_must_connect_again() {
    let of = |name: &str, offset, bytes| Export { name: name.into(), offset, bytes, ..export(0) };
    let before = [of("a", 0, 1 << 20), of("b", 1 << 20, 1 << 20)];
    let after = [of("a", 0, 2 << 20), of("b", 2 << 20, 1 << 20)];
    let named = [Named::all("a"), Named::all("b")];
    let mut steps = Steps::new(&named, &[(0, Vec::new()), (1, Vec::new())]);
    let order = |exports: &[Export]| Order::Exports(named.to_vec(), exports.to_vec());
    // The exports already have these ranges when the clients are accepted.
    steps.front.change_exports(&named, before.to_vec(), &mut steps.wire);
    steps.pass(10);
    steps.orders.send(order(&after)).unwrap();
    steps.pass(20);
    let unplugged: Vec<bool> = steps.wire.sockets.iter().map(|one| one.unplugged).collect();
    assert_eq!(unplugged, [false, true]);
    let clients = steps.front.tally.exports.iter().map(|one| one.figures.clients);
    assert_eq!(clients.collect::<Vec<_>>(), [1, 0]);
    let names = [0, 1].map(|stream| steps.front.name_of(stream).map(|name| name.to_string()));
    assert_eq!(names, [Some("a".into()), Some("b".into())]);
    assert!(before[0].may_become(&after[0]) && !after[0].may_become(&before[0]));
    assert!(!before[1].may_become(&after[1]) && !before[0].may_become(&after[1]));
}
