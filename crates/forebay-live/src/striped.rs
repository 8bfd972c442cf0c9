//! Several lanes combined into one, in alternating chunks: RAID 0.
//!
//! The parts of an I/O on one lane are contiguous there and are issued as one I/O, as a block layer
//! would merge them. A flush is issued to all lanes. The I/O ends with its last part, with the
//! worst outcome of all parts. Each lane has its own queue of parts in order of arrival, so that a
//! busy lane does not delay others.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use forebay_core::{Bytes, Completion, Lane, Nanos, Op, Piece, Request, RequestId, Slots, worst};

use crate::{Ended, Failure, Lanes, Waker};

/// An I/O with parts in flight.
struct Whole {
    io: Request,
    started: Nanos,
    left: usize,
    failure: Option<Failure>,
    completion: Option<Completion>,
}

/// The maximum number of parts that wait for a lane; a Linux block device accepts as many requests.
const QUEUE: usize = 128;

/// Lanes combined into one.
pub struct Striped<L> {
    lanes: L,
    chunk_bytes: u64,
    wholes: BTreeMap<RequestId, Whole>,
    /// The I/O to which a part belongs, by the part's lane and id.
    parts: BTreeMap<(Lane, RequestId), RequestId>,
    next: RequestId,
    queues: Vec<VecDeque<(Request, Vec<Piece>)>>,
    ended: Vec<Ended>,
}

impl<L: Lanes> Striped<L> {
    /// Combines all of `lanes` into lane 0, in chunks of this size.
    pub fn new(lanes: L, chunk_bytes: u64) -> Striped<L> {
        let (wholes, parts) = (BTreeMap::new(), BTreeMap::new());
        let queues = (0..lanes.count()).map(|_| VecDeque::new()).collect();
        Striped { lanes, chunk_bytes, wholes, parts, next: 0, queues, ended: Vec::new() }
    }

    /// Returns the lanes below.
    pub fn into_lanes(self) -> L {
        self.lanes
    }

    /// Returns the part of an I/O on each lane: its offset there, and the ranges of the I/O's bytes
    /// in it, in order.
    fn cut(&self, io: &Request) -> BTreeMap<Lane, (u64, Vec<(u32, u32)>)> {
        let (chunk, count) = (self.chunk_bytes, self.lanes.count() as u64);
        let mut parts: BTreeMap<Lane, (u64, Vec<(u32, u32)>)> = BTreeMap::new();
        let mut done = 0;
        while done < io.len {
            let at = io.offset + u64::from(done);
            let (stripe, within) = (at / chunk, at % chunk);
            let len = (chunk - within).min(u64::from(io.len - done)) as u32;
            let offset = stripe / count * chunk + within;
            let lane = (stripe % count) as Lane;
            parts.entry(lane).or_insert((offset, Vec::new())).1.push((done, len));
            done += len;
        }
        parts
    }

    fn begin(&mut self, whole: RequestId, part: Request, pieces: Vec<Piece>) {
        let id = self.next;
        self.next += 1;
        self.parts.insert((part.lane, id), whole);
        self.queues[usize::from(part.lane)].push_back((Request { id, ..part }, pieces));
    }

    /// Starts parts on the lanes that accept I/Os.
    fn start_parts(&mut self, now: Nanos) {
        for (lane, queue) in (0..).zip(&mut self.queues) {
            while self.lanes.room(lane)
                && let Some((part, pieces)) = queue.pop_front()
            {
                self.lanes.start(now, Request { at: now, ..part }, &pieces);
            }
        }
    }
}

/// Appends to `out` the `len` bytes starting at `from` within `pieces`.
fn within(pieces: &[Piece], from: u32, len: u32, out: &mut Vec<Piece>) {
    let (mut at, end) = (0, from + len);
    for piece in pieces {
        let (begin, upto) = (from.max(at), end.min(at + piece.len));
        if begin < upto {
            let bytes = Bytes { buf: piece.buf, at: piece.at + (begin - at) };
            out.push(bytes.len(upto - begin));
        }
        at += piece.len;
    }
}

impl<L: Lanes> Lanes for Striped<L> {
    fn count(&self) -> usize {
        1
    }

    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        let mut parts = std::mem::take(&mut self.ended);
        let now = self.lanes.reap(next, &mut parts)?;
        for Ended { completion, failure } in parts.drain(..) {
            let name = (completion.io.lane, completion.io.id);
            let Some(id) = self.parts.remove(&name) else { continue };
            let Some(whole) = self.wholes.get_mut(&id) else { continue };
            whole.left -= 1;
            whole.failure = whole.failure.or(failure);
            let outcome = whole.completion.map_or(Ok(()), |sofar| sofar.outcome);
            let outcome = worst(outcome, completion.outcome);
            whole.completion = Some(Completion { outcome, ..completion });
            if whole.left == 0
                && let Some(Whole { io, started, failure, completion: Some(last), .. }) =
                    self.wholes.remove(&id)
            {
                let completion = Completion { io, started, at: last.at, ..last };
                ended.push(Ended { completion, failure });
            }
        }
        self.ended = parts;
        self.start_parts(now);
        Ok(now)
    }

    fn wall(&mut self) -> Nanos {
        self.lanes.wall()
    }

    fn room(&self, _lane: Lane) -> bool {
        self.queues.iter().all(|queue| queue.len() < QUEUE)
    }

    fn slots(&mut self) -> &mut dyn Slots {
        self.lanes.slots()
    }

    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        let to_all = || (0..self.lanes.count() as Lane).map(|lane| (lane, (io.offset, Vec::new())));
        let parts = match io.op {
            Op::Read | Op::Write | Op::Trim => self.cut(&io),
            Op::Flush | Op::Park | Op::Open => to_all().collect(),
        };
        let (started, left) = (now, parts.len());
        let whole = Whole { io, started, left, failure: None, completion: None };
        self.wholes.insert(io.id, whole);
        for (lane, (offset, ranges)) in parts {
            let mut own = Vec::new();
            ranges.iter().for_each(|&(from, len)| within(pieces, from, len, &mut own));
            let len = ranges.iter().map(|(_, len)| len).sum();
            self.begin(io.id, Request { at: now, offset, len, lane, ..io }, own);
        }
        self.start_parts(now);
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.lanes.waker()
    }

    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        self.lanes.held_up()
    }

    fn in_flight(&self) -> usize {
        self.wholes.len()
    }

    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        self.lanes.proceed(until)
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::catalog::build;
    use forebay_core::device::fixed::Fixed;
    use forebay_core::{Done, Flags, Workload};

    use super::*;
    use crate::{Emulated, LEN_MAX, Sparse, Store, VirtualClock, run};

    const KIB: u64 = 1 << 10;

    /// A workload that writes bytes derived from their location, then reads them back at other
    /// offsets and lengths.
    struct Both {
        left: Vec<(Op, u64, u64)>,
        under_way: Option<(Request, u32)>,
        read: Vec<u8>,
    }

    fn byte(at: u64) -> u8 {
        (at / 512 % 251) as u8
    }

    impl Workload for Both {
        fn peek(&self) -> Option<Nanos> {
            (self.under_way.is_none() && !self.left.is_empty()).then_some(Nanos::ZERO)
        }
        fn take(&mut self) -> Request {
            let (op, offset, len) = self.left.remove(0);
            let (at, id, len, lane) = (Nanos::ZERO, 0, len as u32, 0);
            Request { at, offset, id, len, stream: 0, lane, op, flags: Flags::NONE }
        }
        fn bytes(&mut self, request: &Request, slots: &mut dyn Slots) -> Bytes {
            let buf = slots.take(request.len.max(1));
            if request.op == Op::Write {
                let content: Vec<u8> = (request.offset..request.end()).map(byte).collect();
                slots.put(Bytes::of(buf).len(request.len), &content);
            }
            self.under_way = Some((*request, buf));
            Bytes::of(buf)
        }
        fn finished(&mut self, _now: Nanos, done: &Done, slots: &mut dyn Slots) {
            assert_eq!(done.outcome, Ok(()));
            let (request, buf) = self.under_way.take().unwrap();
            if request.op == Op::Read {
                let mut content = vec![0; request.len as usize];
                slots.get(Bytes::of(buf).len(request.len), &mut content);
                let expected: Vec<u8> = (request.offset..request.end()).map(byte).collect();
                assert!(content == expected, "{request:?}");
                self.read.extend(content);
            }
            slots.free(buf);
        }
    }

    #[test]
    fn bytes_are_at_their_striped_positions() {
        let devices = (0..3).map(|_| Fixed::new(1000.0).unwrap()).collect();
        let stores = (0..3).map(|_| Box::new(Sparse::new()) as Box<dyn Store>).collect();
        let lanes = Emulated::new(devices, VirtualClock::default()).storing(stores);
        let mut lanes = Striped::new(lanes, 8 * KIB);
        let left = vec![
            (Op::Write, 0, 100 * KIB),
            (Op::Flush, 0, 0),
            (Op::Read, 0, 100 * KIB),
            (Op::Read, 12 * KIB, 4 * KIB),
            (Op::Read, 4 * KIB, 40 * KIB),
        ];
        let mut work = Both { left, under_way: None, read: Vec::new() };
        run(&mut *build("noop", LEN_MAX).unwrap(), &mut lanes, &mut work, &mut ()).unwrap();
        assert_eq!((work.read.len() as u64, lanes.in_flight()), (144 * KIB, 0));
        // The second stripe of 8 KiB is at the start of the second lane; the fourth follows the
        // first on the first lane.
        let io = Request {
            at: Nanos::ZERO,
            offset: 4 * KIB,
            id: 0,
            len: 40 * KIB as u32,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        let parts = lanes.cut(&io);
        let part = |at: u64, ranges: &[(u64, u64)]| {
            let ranges = ranges.iter().map(|(at, len)| ((at * KIB) as u32, (len * KIB) as u32));
            (at * KIB, ranges.collect::<Vec<_>>())
        };
        assert_eq!(parts[&0], part(4, &[(0, 4), (20, 8)]));
        assert_eq!(parts[&1], part(0, &[(4, 8), (28, 8)]));
        assert_eq!(parts[&2], part(0, &[(12, 8), (36, 4)]));
    }

    /// A workload that issues everything at once and records when each I/O ended.
    struct AtOnce {
        left: Vec<Request>,
        ended: Vec<(RequestId, u64)>,
    }

    impl Workload for AtOnce {
        fn peek(&self) -> Option<Nanos> {
            (!self.left.is_empty()).then_some(Nanos::ZERO)
        }
        fn take(&mut self) -> Request {
            self.left.remove(0)
        }
        fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
            self.ended.push((done.request.id, now.0));
        }
        fn is_over(&self) -> bool {
            self.left.is_empty() && self.ended.len() == 4
        }
    }

    #[test]
    fn a_busy_lane_does_not_delay_others() {
        let devices = (0..2).map(|_| Fixed::new(1000.0).unwrap()).collect();
        let mut lanes = Striped::new(Emulated::new(devices, VirtualClock::default()), 4 * KIB);
        // Two I/Os on the first lane, one on the second, and one on both.
        let io = |(id, offset, len): (RequestId, u64, u64)| Request {
            at: Nanos::ZERO,
            offset: offset * KIB,
            id,
            len: (len * KIB) as u32,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        let left = [(0, 0, 4), (1, 16, 4), (2, 36, 4), (3, 24, 8)].map(io).to_vec();
        let mut work = AtOnce { left, ended: Vec::new() };
        run(&mut *build("none", LEN_MAX).unwrap(), &mut lanes, &mut work, &mut ()).unwrap();
        work.ended.sort_unstable();
        let turns: Vec<(RequestId, u64)> =
            work.ended.iter().map(|(id, at)| (*id, at / 1_000_000)).collect();
        assert_eq!(turns, [(0, 1), (1, 2), (2, 1), (3, 3)]);
    }
}
