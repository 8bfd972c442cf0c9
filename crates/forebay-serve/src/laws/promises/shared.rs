//! Connections of one export share its promise and its part of the remaining capacity, however many
//! requests each has outstanding.

use super::*;
use crate::Streams;

/// A client of an export that keeps `depth` requests outstanding, and sends the next one `thinks`
/// after an answer. Client 0 of the export "steady" sends its requests at given times instead.
#[derive(Clone, Copy, Debug)]
struct Client {
    export: usize,
    depth: u32,
    len: u32,
    thinks: Nanos,
}

const fn reader(export: usize, depth: u32) -> Client {
    Client { export, depth, len: 4096, thinks: Nanos::ZERO }
}

const STEADY: usize = 0;
const DB: usize = 1;
const BATCH: usize = 2;
/// The promise to the export "db".
const DB_IOPS: u64 = 30;

/// Clients of three exports for some time.
struct Clients {
    clients: Vec<Client>,
    streams: Streams,
    within: Nanos,
    until: Nanos,
    steady: VecDeque<Nanos>,
    /// When the next request of each client is due; the second figure is the client.
    due: Vec<(Nanos, usize)>,
    bytes: u64,
    taken: u64,
    /// The number of answers to each client, how many of the requests were covered by the promise,
    /// and how many of the covered ones were late.
    answers: Vec<u64>,
    kept: [u64; 3],
    late: [u64; 3],
    /// Whether "db" received less than its promise while its requests waited.
    is_owed: bool,
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
        at.min().filter(|at| *at < self.until)
    }

    fn take(&mut self) -> Request {
        let (at, id, lane, flags) = (self.peek().unwrap(), self.taken, 0, Flags::NONE);
        self.taken += 1;
        let place = next_random(&mut (id + 1)) >> 8;
        let place_of = |len: u32| place % (self.bytes / u64::from(len)) * u64::from(len);
        let op = Op::Read;
        if self.steady.front() == Some(&at) {
            self.steady.pop_front();
            let (stream, len, offset) = (self.streams.of(0, STEADY), 4096, place_of(4096));
            return Request { at, offset, id, len, stream, lane, op, flags };
        }
        let due = self.next_due().unwrap();
        self.due.retain({
            let mut is_first = true;
            move |one| *one != due || !std::mem::take(&mut is_first)
        });
        let client = self.clients[due.1];
        let stream = self.streams.of(due.1 as u32 + 1, client.export);
        let (len, offset) = (client.len, place_of(client.len));
        Request { at, offset, id, len, stream, lane, op, flags }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        // The clients send nothing after this time, so the last requests are served under a lower
        // load.
        if now >= self.until {
            return;
        }
        let client = self.client_of(done.request.stream);
        let export = client.map_or(STEADY, |at| self.clients[at].export);
        if done.class == 0 {
            self.kept[export] += 1;
            self.late[export] += u64::from(done.wait > self.within);
        }
        if let Some(at) = client {
            self.answers[at] += 1;
            self.due.push((now + self.clients[at].thinks, at));
        }
    }
}

impl Clients {
    /// Runs the clients for a minute of virtual time beside a steady tenant, on a disk of 78 IOPS.
    fn run(clients: &[Client]) -> Clients {
        Clients::run_beside(1, clients, None)
    }

    /// Like [`Clients::run`], but with this weight of "batch" and these streams.
    fn run_beside(weight: u64, clients: &[Client], streams: Option<Streams>) -> Clients {
        let bed = on_device("st1000nm0011", None);
        let mut back = Back::of("disk", On::Volume(Vec::new()));
        (back.capacity_iops, back.streams) = (Some(bed.capacity_iops("noop")), streams);
        let promise = |iops| Some(Promise { iops, within: ON_DISK.within });
        back.exports = vec![
            Named { promise: promise(ON_DISK.planned_iops(0)), ..Named::all("steady") },
            Named { promise: promise(DB_IOPS), ..Named::all("db") },
            Named { weight, ..Named::all("batch") },
        ];
        Clients::run_on(&bed, &back, clients, ON_DISK.arrivals(0), Nanos::from_secs(60))
    }

    fn run_on(
        bed: &Bed,
        back: &Back,
        clients: &[Client],
        steady: VecDeque<Nanos>,
        until: Nanos,
    ) -> Clients {
        let due = |(at, client): (usize, &Client)| vec![(Nanos::ZERO, at); client.depth as usize];
        let mut run = Clients {
            clients: clients.to_vec(),
            streams: back.who(),
            within: back.exports[DB].promise.unwrap().within,
            until,
            steady,
            due: clients.iter().enumerate().flat_map(due).collect(),
            bytes: bed.bytes,
            taken: 0,
            answers: vec![0; clients.len()],
            kept: [0; 3],
            late: [0; 3],
            is_owed: false,
        };
        let mut policy = (bed.build)(&back.shaped().unwrap());
        simulate::run(&mut policy, &mut bed.devices.clone(), &mut run, &mut ());
        println!("{:?}, kept {:?}, late {:?}", run.answers, run.kept, run.late);
        run.is_owed = is_owed(&policy, DB, back.exports[DB].promise.unwrap());
        run
    }

    /// Returns the lowest and the highest number of answers to a client of an export.
    fn range_of(&self, export: usize) -> (u64, u64) {
        let clients = self.clients.iter().zip(&self.answers);
        let answers = clients.filter(|(client, _)| client.export == export);
        let answers = answers.map(|(_, answers)| *answers);
        (answers.clone().min().unwrap_or(0), answers.max().unwrap_or(0))
    }

    /// Expects that the promises to "steady" and "db" were kept, in full if `is_busy`.
    fn kept_promises(&self) {
        for export in [STEADY, DB] {
            let (kept, late) = (self.kept[export], self.late[export]);
            assert!(late * 200 <= kept, "export {export}: {late} of {kept} are late");
        }
        // Closed clients send requests when others are answered, so a few units of capacity are not
        // used.
        assert!(!self.is_owed);
        let least = DB_IOPS * 60 * 95 / 100;
        assert!(self.kept[DB] >= least, "{} kept, expected {least}", self.kept[DB]);
    }
}

#[test]
fn a_modest_connection_gets_its_share_beside_a_greedy_one_of_its_export() {
    // A client with one request at a time does not always have a request waiting.
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
    // This client sends a request every half second.
    let rare = Client { thinks: Nanos::from_millis(500), ..reader(DB, 1) };
    let run = Clients::run(&[reader(DB, 64), rare, reader(BATCH, 16)]);
    run.kept_promises();
    assert!(run.answers[1] >= 90, "{} in a minute", run.answers[1]);
}

/// Many connections to two exports on a disk of 500 IOPS; "db" has a promise within 50 ms.
#[derive(Clone, Copy, Debug)]
struct Many {
    promise_iops: u64,
    /// The number of connections of "db" and of "batch", and the depth of each.
    connections: [usize; 2],
    depth: u32,
    batch_weight: u64,
}

impl Many {
    fn run(&self, policy: &str, streams: Option<Streams>) -> Clients {
        self.serve("fixed:500", |back| (back.policy, back.streams) = (policy.into(), streams))
    }

    /// Runs the connections on a device that may be slower than its configured capacity.
    fn on(&self, device: &str, is_measured: bool) -> Clients {
        self.serve(device, |back| back.measures_capacity = is_measured)
    }

    fn serve(&self, device: &str, change: impl FnOnce(&mut Back)) -> Clients {
        let bed = on_device(device, None);
        let mut back = Back::of("disk", On::Volume(Vec::new()));
        back.capacity_iops = Some(500);
        change(&mut back);
        let promise = Promise { iops: self.promise_iops, within: Nanos::from_millis(50) };
        back.exports = vec![
            Named::all("steady"),
            Named { promise: Some(promise), ..Named::all("db") },
            Named { weight: self.batch_weight, ..Named::all("batch") },
        ];
        let [db, batch] = self.connections;
        let clients = [vec![reader(DB, self.depth); db], vec![reader(BATCH, self.depth); batch]];
        println!("{self:?}, {device}, {}, {:?}", back.policy, back.streams);
        Clients::run_on(&bed, &back, &clients.concat(), VecDeque::new(), RUN)
    }
}

const RUN: Nanos = Nanos::from_secs(40);

const MANY: [Many; 6] = [
    Many { promise_iops: 450, connections: [40, 1], depth: 2, batch_weight: 1 },
    Many { promise_iops: 150, connections: [100, 100], depth: 4, batch_weight: 1 },
    Many { promise_iops: 300, connections: [30, 30], depth: 4, batch_weight: 100 },
    Many { promise_iops: 450, connections: [20, 1], depth: 1, batch_weight: 1 },
    Many { promise_iops: 450, connections: [200, 1], depth: 1, batch_weight: 100 },
    Many { promise_iops: 300, connections: [3, 30], depth: 64, batch_weight: 100 },
];

#[test]
fn many_connections_get_the_whole_promise_and_none_starves() {
    let mut failed = Vec::new();
    for many in MANY {
        let run = many.run("noop", None);
        let one = many.run("noop", Some(Streams::Exports));
        let least = (many.promise_iops * RUN.0 / 1_000_000_000).max(one.kept[DB]) * 98 / 100;
        let mut fails = |what: String| failed.push(format!("{many:?}: {what}"));
        if run.kept[DB] < least {
            fails(format!("{} kept, expected {least}", run.kept[DB]));
        }
        // With one stream, the requests that wait at the end are a burst, and few of them are
        // covered by the promise.
        if run.is_owed {
            fails("too few requests were served while others waited".into());
        }
        if run.late[DB] * 200 > run.kept[DB] {
            fails(format!("{} of {} are late", run.late[DB], run.kept[DB]));
        }
        for export in [DB, BATCH] {
            let (lowest, highest) = run.range_of(export);
            if lowest * 2 < highest {
                fails(format!("export {export}: from {lowest} to {highest} answers"));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn an_export_that_receives_less_than_its_promise_is_noticed() {
    let many = Many { promise_iops: 300, connections: [8, 1], depth: 8, batch_weight: 1 };
    // The disk reaches a third of its configured capacity; then all requests are in time, but the
    // promise covers few of them.
    for capacity in ["fixed", "measured"] {
        let run = many.on("fixed:150", capacity == "measured");
        assert!(run.is_owed, "{capacity}: {} kept", run.kept[DB]);
    }
    assert!(!many.on("fixed:500", true).is_owed);
}

#[test]
fn schedulers_treat_an_export_as_a_stream() {
    let connections = [30, 30];
    let many = Many { promise_iops: 150, connections, depth: 1, batch_weight: 1 };
    let rate = |policy: &str, streams: Option<Streams>| {
        many.run(policy, streams).answers.iter().sum::<u64>()
    };
    let all = rate("noop", None);
    let served = rate("bfq", None);
    assert!(served * 10 >= all * 9, "{served} answers with bfq, {all} with noop");
    for policy in ["bfq", "cfq", "anticipatory", "forebay"] {
        let (served, one) = (rate(policy, None), rate(policy, Some(Streams::Exports)));
        assert!(served * 100 >= one * 90, "{policy}: {served} answers, {one} with one stream");
    }
}

#[test]
fn connections_with_long_requests_do_not_displace_those_with_short_ones() {
    // The longest requests take longer than the promised latency.
    for (len, weight) in [(64 << 10, 1), (1 << 20, 1), (8 << 20, 1), (1 << 20, 100)] {
        let long = Client { len, ..reader(DB, 4) };
        let clients = [reader(DB, 4), reader(DB, 4), long, reader(BATCH, 16)];
        let run = Clients::run_beside(weight, &clients, None);
        let one = Clients::run_beside(weight, &clients, Some(Streams::Exports));
        let (kept, late) = (run.kept[DB], run.late[DB]);
        assert!(
            kept * 100 >= one.kept[DB] * 98,
            "{len}: {kept} kept, {} in one stream",
            one.kept[DB]
        );
        assert!(kept * 100 >= DB_IOPS * 60 * 96, "{len}: {kept} kept");
        assert!(late * 200 <= kept, "{len}: {late} of {kept} are late");
        let (short, fair) = (run.answers[0].min(run.answers[1]), DB_IOPS * 60 / 3);
        assert!(short * 10 >= fair * 6, "{len}: {short} short ones, {fair} would be fair");
        let long_mb = (run.answers[2] * u64::from(len)) >> 20;
        assert!(weight > 1 || long_mb >= 40, "{len}: {long_mb} MB in long ones");
    }
}

/// A tenant whose requests come over four connections, three quarters of them over the first one.
struct Spread(Tenants);

impl Workload for Spread {
    fn peek(&self) -> Option<Nanos> {
        self.0.peek()
    }

    fn take(&mut self) -> Request {
        let request = self.0.take();
        let plug = (request.id % 16).saturating_sub(12) as u32;
        match request.stream {
            0 => Request { stream: Streams::ConnectionsOf(3).of(plug, 0), ..request },
            _ => request,
        }
    }

    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        self.0.finished(now, done, slots);
    }
}

/// Counts how many requests of the first export are answered in time, measured from their arrival.
struct InTime(u64);

impl Observer for InTime {
    fn finished(&mut self, now: Nanos, done: &Done) {
        let is_in_time = done.latency(now) <= ON_DISK.within;
        self.0 += u64::from(done.request.stream.is_multiple_of(3) && is_in_time);
    }
}

#[test]
fn a_promise_is_kept_though_the_requests_come_over_several_connections() {
    let bed = on_device("st1000nm0011", None);
    let mut back = Back::of("disk", On::Volume(Vec::new()));
    back.capacity_iops = Some(bed.capacity_iops("noop"));
    let promise = Promise { iops: ON_DISK.planned_iops(0), within: ON_DISK.within };
    back.exports = vec![
        Named { promise: Some(promise), ..Named::all("steady") },
        Named { weight: 100, ..Named::all("greedy") },
    ];
    for neighbour in [NEIGHBOURS[0], NEIGHBOURS[4], NEIGHBOURS[7]] {
        let mut spread = Spread(Tenants::new(&bed, &[ON_DISK], neighbour, u64::MAX));
        let mut in_time = InTime(0);
        let mut policy = (bed.build)(&back.shaped().unwrap());
        simulate::run(&mut policy, &mut bed.devices.clone(), &mut spread, &mut in_time);
        let share = in_time.0 as f64 / ON_DISK.requests as f64;
        println!("{neighbour:?}: {share:.4} in time");
        assert!(share >= 0.985, "{neighbour:?}: {share}");
    }
}
