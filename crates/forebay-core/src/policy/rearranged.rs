//! A disk whose blocks were rearranged, before any policy: requests are mapped, split where their
//! bytes no longer lie together, and done when all their pieces are.
//!
//! Where the rearranging itself is to be seen ([`Rearranged::moving`]), old places hold until the
//! last extent is copied. The copying begins at a given time and yields: a piece is read or
//! written only while no client request is under way and the policy has nothing to do. It goes to
//! the device past the policy, which so needs no notion of it; writes of clients to what is being
//! copied are not copied again, which costs a little time and is not charged.
//!
//! Only lane 0 is rearranged: the pieces go where the request went.

use super::{Class, Done, Figure, Finished, Policy};
use crate::device::Completion;
use crate::rearrangement::{Extent, Rearrangement};
use crate::request::{BACKGROUND, Flags, Lane, Op, Request};
use crate::slab::Slab;
use crate::time::Nanos;

/// The longest piece copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// Names I/Os of the copying; a policy names its own by small numbers.
const COPY_ID: u64 = u64::MAX;

/// A client request on its way.
#[derive(Clone, Copy, Debug)]
struct Client {
    request: Request,
    left: u32,
    wait: Nanos,
}

/// The copying.
#[derive(Clone, Debug)]
struct Copying {
    from: Nanos,
    begun: bool,
    /// Index of the extent, bytes of it that are copied, and whether the next piece is read and
    /// not yet written.
    extent: usize,
    copied: u64,
    holds: bool,
    running: bool,
    len_max: u64,
}

/// `inner` on the rearranged disk.
#[derive(Clone, Debug)]
pub struct Rearranged<P> {
    inner: P,
    map: Rearrangement,
    copying: Option<Copying>,
    clients: Slab<Client>,
    /// The client of each piece.
    pieces: Slab<u32>,
    finished: Finished,
    split_requests: u64,
    displaced_requests: u64,
    moved_s: f64,
}

impl<P: Policy> Rearranged<P> {
    /// Rearranged as `map` says before the run begins.
    pub fn new(inner: P, map: Rearrangement) -> Rearranged<P> {
        Rearranged {
            inner,
            map,
            copying: None,
            clients: Slab::default(),
            pieces: Slab::default(),
            finished: Finished::new(),
            split_requests: 0,
            displaced_requests: 0,
            moved_s: 0.0,
        }
    }

    /// As [`Rearranged::new`], but the copying is part of the run, begins at `from` (above zero) or
    /// when the disk is next idle, in I/Os of at most `len_max` bytes.
    pub fn moving(inner: P, map: Rearrangement, from: Nanos, len_max: u32) -> Rearranged<P> {
        let len_max = u64::from(len_max).clamp(1, COPY_BYTES);
        let copying = Copying {
            from,
            begun: false,
            extent: 0,
            copied: 0,
            holds: false,
            running: false,
            len_max,
        };
        Rearranged { copying: Some(copying), ..Rearranged::new(inner, map) }
    }

    /// The next I/O of the copying, if it is time for one.
    fn copy(&mut self, now: Nanos) -> Option<Request> {
        let copying = self.copying.as_mut()?;
        copying.begun |= now >= copying.from;
        if !copying.begun || copying.running || !self.clients.is_empty() {
            return None;
        }
        let Extent { from, to, len } = *self.map.moves().get(copying.extent)?;
        copying.running = true;
        let place = if copying.holds { to } else { from };
        Some(Request {
            at: now,
            offset: place + copying.copied,
            id: COPY_ID,
            len: (len - copying.copied).min(copying.len_max) as u32,
            stream: BACKGROUND,
            lane: 0,
            op: if copying.holds { Op::Write } else { Op::Read },
            flags: Flags::NONE,
        })
    }

    fn copied(&mut self, done: &Completion) {
        let Some(copying) = &mut self.copying else { return };
        self.moved_s += (done.at - done.started).as_secs_f64();
        copying.running = false;
        copying.holds = done.io.op == Op::Read;
        if copying.holds {
            return;
        }
        copying.copied += u64::from(done.io.len);
        if self.map.moves().get(copying.extent).is_none_or(|extent| copying.copied >= extent.len) {
            (copying.extent, copying.copied) = (copying.extent + 1, 0);
        }
        if copying.extent == self.map.moves().len() {
            self.copying = None;
        }
    }
}

impl<P: Policy> Policy for Rearranged<P> {
    fn submit(&mut self, now: Nanos, request: Request) {
        let client = self.clients.insert(Client { request, left: 0, wait: Nanos::ZERO });
        let mapped = self.copying.is_none() && request.lane == 0 && request.len > 0;
        if !mapped {
            self.clients[client].left = 1;
            let id = u64::from(self.pieces.insert(client));
            return self.inner.submit(now, Request { id, ..request });
        }
        let len = u64::from(request.len);
        self.displaced_requests += u64::from(self.map.displaces(request.offset, len));
        let pieces = self.map.pieces(request.offset, len);
        self.clients[client].left = pieces.clone().count() as u32;
        self.split_requests += u64::from(self.clients[client].left > 1);
        for (offset, len) in pieces {
            let id = u64::from(self.pieces.insert(client));
            self.inner.submit(now, Request { id, offset, len: len as u32, ..request });
        }
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.inner.dispatch(now, lane);
        if io.is_some() || lane != 0 { io } else { self.copy(now) }
    }

    fn complete(&mut self, now: Nanos, done: &Completion, finished: &mut Finished) {
        if done.io.id == COPY_ID {
            return self.copied(done);
        }
        let mut pieces = std::mem::take(&mut self.finished);
        self.inner.complete(now, done, &mut pieces);
        for piece in pieces.drain(..) {
            let key = self.pieces.remove(piece.request.id as u32);
            let client = &mut self.clients[key];
            client.left -= 1;
            client.wait = client.wait.max(piece.wait);
            if client.left == 0 {
                let Client { request, wait, .. } = self.clients.remove(key);
                let class = piece.class;
                finished.push(Done { request, wait, class });
            }
        }
        self.finished = pieces;
    }

    fn wakeup(&self) -> Option<Nanos> {
        let begins = self.copying.as_ref().filter(|c| !c.begun).map(|copying| copying.from);
        match (begins, self.inner.wakeup()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn classes(&self) -> &[Class] {
        self.inner.classes()
    }

    fn servers(&self) -> &[u64] {
        self.inner.servers()
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = self.inner.figures();
        figures.push(("rearranged_bytes", self.map.moved_bytes() as f64));
        figures.push(("rearranging_s", self.moved_s));
        figures.push(("rearranged_split_requests", self.split_requests as f64));
        figures.push(("displaced_requests", self.displaced_requests as f64));
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixed::Fixed;
    use crate::policy::{BlockLayer, Limits, Noop};
    use crate::replay::{Intensity, Open};
    use crate::{Observer, simulate};

    #[derive(Default)]
    struct Seen {
        ios: Vec<(Op, u64, u32, bool)>,
        done: Vec<(u64, u64)>,
    }

    impl Observer for Seen {
        fn io(&mut self, completion: &Completion) {
            let io = &completion.io;
            self.ios.push((io.op, io.offset, io.len, io.stream == BACKGROUND));
        }
        fn finished(&mut self, now: Nanos, done: &Done) {
            self.done.push((done.request.offset, (now.0 - done.request.at.0) / 1_000_000));
        }
    }

    fn noop() -> BlockLayer<Noop> {
        BlockLayer::new(Noop::default(), Limits::default())
    }

    fn read(at_ms: u64, offset: u64, len: u32) -> Request {
        Request {
            at: Nanos::from_millis(at_ms),
            offset,
            id: at_ms,
            len,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        }
    }

    /// On a device of 100 I/Os a second.
    fn run(mut policy: impl Policy, requests: &[Request]) -> (Seen, u64) {
        let mut seen = Seen::default();
        let mut workload = Open::new(requests.iter().copied(), Intensity::RECORDED);
        let mut devices = [Fixed::new(100.0).unwrap()];
        let end = simulate::run(&mut policy, &mut devices, &mut workload, &mut seen);
        (seen, end.0 / 1_000_000)
    }

    #[test]
    fn a_request_is_done_with_its_last_piece() {
        let map = Rearrangement::laid(&[(8192, 4096)], 1 << 20).unwrap();
        let (seen, _) = run(Rearranged::new(noop(), map), &[read(0, 4096, 12_288)]);
        let mut places: Vec<u64> = seen.ios.iter().map(|io| io.1).collect();
        places.sort_unstable();
        assert_eq!(places, [4096, 12_288, 1 << 20]);
        assert_eq!(seen.done, [(4096, 30)]);
    }

    #[test]
    fn copying_waits_for_its_time_and_yields_and_then_the_new_places_hold() {
        let map = Rearrangement::laid(&[(0, 4096), (65_536, 4096)], 1 << 20).unwrap();
        let policy = Rearranged::moving(noop(), map, Nanos::from_millis(15), 1 << 20);
        let (seen, end) = run(policy, &[read(0, 0, 512), read(18, 0, 512), read(100, 0, 512)]);
        let new = 1 << 20;
        assert_eq!(
            seen.ios,
            [
                (Op::Read, 0, 512, false),
                (Op::Read, 0, 4096, true),
                (Op::Read, 0, 512, false),
                (Op::Write, new, 4096, true),
                (Op::Read, 65_536, 4096, true),
                (Op::Write, new + 4096, 4096, true),
                (Op::Read, new, 512, false),
            ]
        );
        assert_eq!(seen.done, [(0, 10), (0, 17), (0, 10)]);
        assert_eq!(end, 110);
    }

    #[test]
    fn copying_goes_on_without_requests_in_pieces_the_device_takes() {
        let map = Rearrangement::laid(&[(0, 3 << 10)], 1 << 20).unwrap();
        let (seen, end) = run(Rearranged::moving(noop(), map, Nanos(1), 2 << 10), &[]);
        let ios: Vec<_> = seen.ios.iter().map(|io| (io.0, io.1, io.2)).collect();
        let new = 1 << 20;
        assert_eq!(
            ios,
            [
                (Op::Read, 0, 2048),
                (Op::Write, new, 2048),
                (Op::Read, 2048, 1024),
                (Op::Write, new + 2048, 1024)
            ]
        );
        assert_eq!(end, 40);
    }
}
