//! Connections of one export share its promise and its part of the remaining capacity, however many
//! requests each has outstanding.

use super::*;
use crate::front::Streams;

/// A client of an export that keeps `depth` requests outstanding, and sends the next one `thinks` after
/// an answer. Client 0 of the export "steady" sends its requests at given times instead.
#[derive(Clone, Copy, Debug)]
struct Client {
    export: usize,
    depth: u32,
    op: Op,
    thinks: Nanos,
}

const fn reader(export: usize, depth: u32) -> Client {
    Client { export, depth, op: Op::Read, thinks: Nanos::ZERO }
}

const STEADY: usize = 0;
const DB: usize = 1;
const BATCH: usize = 2;
/// The promise to the export "db".
const DB_IOPS: u64 = 30;
const MINUTE: Nanos = Nanos::from_secs(60);

/// Clients of three exports during a minute of virtual time.
struct Clients {
    clients: Vec<Client>,
    streams: Streams,
    steady: VecDeque<Nanos>,
    /// When the next request of each client is due; the second figure is the client.
    due: Vec<(Nanos, usize)>,
    bytes: u64,
    taken: u64,
    /// The number of answers to each client, and how many of these were kept, and late.
    answers: Vec<u64>,
    kept: [u64; 3],
    late: [u64; 3],
}

impl Clients {
    fn client_of(&self, stream: u32) -> Option<usize> {
        let is_it =
            |at: &usize| self.streams.of(*at as u32 + 1, self.clients[*at].export) == stream;
        (0..self.clients.len()).find(is_it)
    }

    fn next_due(&self) -> Option<(Nanos, usize)> {
        self.due.iter().copied().min()
    }
}

impl Workload for Clients {
    fn peek(&self) -> Option<Nanos> {
        let at = self.steady.front().copied().into_iter().chain(self.next_due().map(|due| due.0));
        at.min().filter(|at| *at < MINUTE)
    }

    fn take(&mut self) -> Request {
        let (at, id, lane, flags) = (self.peek().unwrap(), self.taken, 0, Flags::NONE);
        self.taken += 1;
        let place = next_random(&mut (id + 1)) >> 8;
        let offset = place % (self.bytes / 4096) * 4096;
        if self.steady.front() == Some(&at) {
            self.steady.pop_front();
            let stream = self.streams.of(0, STEADY);
            return Request { at, offset, id, len: 4096, stream, lane, op: Op::Read, flags };
        }
        let due = self.next_due().unwrap();
        self.due.retain({
            let mut is_first = true;
            move |one| *one != due || !std::mem::take(&mut is_first)
        });
        let client = self.clients[due.1];
        let stream = self.streams.of(due.1 as u32 + 1, client.export);
        Request { at, offset, id, len: 4096, stream, lane, op: client.op, flags }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        let client = self.client_of(done.request.stream);
        let export = client.map_or(STEADY, |at| self.clients[at].export);
        if done.class == 0 {
            self.kept[export] += 1;
            self.late[export] += u64::from(done.latency(now) > ON_DISK.within);
        }
        if let Some(at) = client {
            self.answers[at] += 1;
            self.due.push((now + self.clients[at].thinks, at));
        }
    }
}

impl Clients {
    /// Runs the clients together with a steady tenant, on a disk of 78 IOPS.
    fn run(clients: &[Client]) -> Clients {
        let bed = on_device("st1000nm0011", None);
        let mut back = Back::of("disk", On::Volume(Vec::new()));
        back.capacity_iops = Some(bed.capacity_iops("noop"));
        let promise = |iops| Some(Promise { iops, within: ON_DISK.within });
        back.exports = vec![
            Named { promise: promise(ON_DISK.planned_iops(0)), ..Named::all("steady") },
            Named { promise: promise(DB_IOPS), ..Named::all("db") },
            Named::all("batch"),
        ];
        let due = |(at, client): (usize, &Client)| vec![(Nanos::ZERO, at); client.depth as usize];
        let mut run = Clients {
            clients: clients.to_vec(),
            streams: back.who(),
            steady: ON_DISK.arrivals(0),
            due: clients.iter().enumerate().flat_map(due).collect(),
            bytes: bed.bytes,
            taken: 0,
            answers: vec![0; clients.len()],
            kept: [0; 3],
            late: [0; 3],
        };
        let mut policy = (bed.build)(&back.shaped().unwrap());
        simulate::run(&mut policy, &mut bed.devices.clone(), &mut run, &mut ());
        println!("{:?}: {:?}, kept {:?}, late {:?}", run.clients, run.answers, run.kept, run.late);
        run
    }

    /// Expects that the promises to "steady" and "db" were kept, in full if `is_busy`.
    fn kept_promises(&self) {
        for export in [STEADY, DB] {
            let (kept, late) = (self.kept[export], self.late[export]);
            assert!(late * 200 <= kept, "export {export}: {late} of {kept} are late");
        }
        // Closed clients send requests when others are answered, so a few units of capacity are not
        // used.
        let least = DB_IOPS * 60 * 95 / 100;
        assert!(self.kept[DB] >= least, "{} kept, expected {least}", self.kept[DB]);
    }
}

#[test]
fn a_modest_connection_gets_its_share_beside_a_greedy_one_of_its_export() {
    // A client with one request at a time does not always have one waiting.
    for (others, modest_depth) in [(1, 1), (1, 4), (4, 1)] {
        let greedy = vec![reader(DB, 64); others];
        let clients = [greedy, vec![reader(DB, modest_depth), reader(BATCH, 16)]].concat();
        let run = Clients::run(&clients);
        run.kept_promises();
        let all: u64 = run.answers[..=others].iter().sum();
        let modest = run.answers[others];
        let fair = all / (others as u64 + 1);
        assert!(modest * 10 >= fair * 6, "{modest} of {all}");
    }
}

#[test]
fn connections_share_what_an_export_without_a_promise_gets() {
    let run = Clients::run(&[reader(DB, 16), reader(BATCH, 64), reader(BATCH, 1)]);
    run.kept_promises();
    let (greedy, modest) = (run.answers[1], run.answers[2]);
    assert!(modest * 10 >= greedy * 7, "{modest} beside {greedy}");
}

#[test]
fn capacity_unused_by_a_modest_connection_goes_to_its_neighbors() {
    // It asks once in half a second.
    let rare = Client { thinks: Nanos::from_millis(500), ..reader(DB, 1) };
    let run = Clients::run(&[reader(DB, 64), rare, reader(BATCH, 16)]);
    run.kept_promises();
    assert!(run.answers[1] >= 90, "{} in a minute", run.answers[1]);
}
