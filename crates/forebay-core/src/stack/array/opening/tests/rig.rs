//! Drives with bytes, and arrays on them, for tests of opening.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_testing::below;

use crate::catalog::build;
use crate::contract::bytes::{Buf, Bytes, Piece, Slots};
use crate::contract::device::{Completion, Mechanics};
use crate::contract::outcome::{Fault, Outcome};
use crate::contract::policy::{Cx, Finished, Policy};
use crate::contract::request::{Flags, Lane, Op, Request};
use crate::contract::time::Nanos;
use crate::stack::array::Array;
use crate::stack::placed::Placed;

const BLOCK: usize = 4096;
/// The most requests at a time.
const DEPTH: usize = 6;

/// The blocks of each drive, by their first byte.
#[derive(Clone, Default)]
pub(super) struct Drives {
    all: Vec<BTreeMap<u64, Rc<[u8]>>>,
    /// Blocks that are damaged once they have been read.
    later: Vec<(usize, u64)>,
}

impl Drives {
    pub(super) fn new(lanes: usize) -> Drives {
        Drives { all: vec![BTreeMap::new(); lanes], later: Vec::new() }
    }

    pub(super) fn wipe(&mut self, lane: usize) {
        self.all[lane].clear();
    }

    /// Changes a byte of a block, if there is one.
    pub(super) fn damage(&mut self, lane: usize, at: u64) {
        if let Some(block) = self.all[lane].get_mut(&at) {
            let mut bytes = block.to_vec();
            bytes[99] ^= 1;
            *block = bytes.into();
        }
    }

    pub(super) fn damage_later(&mut self, lane: usize, at: u64) {
        self.later.push((lane, at));
    }

    fn read(&mut self, lane: usize, at: u64, to: &mut [u8]) {
        for (at, to) in (at..).step_by(BLOCK).zip(to.chunks_mut(BLOCK)) {
            match self.all[lane].get(&at) {
                Some(block) => to.copy_from_slice(block),
                None => to.fill(0),
            }
            if let Some(later) = self.later.iter().position(|it| *it == (lane, at)) {
                self.later.remove(later);
                self.damage(lane, at);
            }
        }
    }
}

/// Memory of a driver. Parities are not computed.
#[derive(Default)]
struct Memory {
    bufs: Vec<(Vec<u8>, u32)>,
    vacant: Vec<Buf>,
}

impl Memory {
    fn view(&mut self, piece: Piece) -> &mut [u8] {
        let (bytes, _) = &mut self.bufs[piece.buf as usize - 1];
        &mut bytes[piece.at as usize..][..piece.len as usize]
    }
}

impl Slots for Memory {
    fn take(&mut self, len: u32) -> Buf {
        let buf = self.vacant.pop().unwrap_or_else(|| {
            self.bufs.push((Vec::new(), 0));
            self.bufs.len() as Buf
        });
        self.bufs[buf as usize - 1] = (vec![0xEE; len as usize], 1);
        buf
    }

    fn keep(&mut self, buf: Buf) {
        self.bufs[buf as usize - 1].1 += 1;
    }

    fn free(&mut self, buf: Buf) {
        let (bytes, holds) = &mut self.bufs[buf as usize - 1];
        *holds -= 1;
        if *holds == 0 {
            *bytes = Vec::new();
            self.vacant.push(buf);
        }
    }

    fn zero(&mut self, to: Piece) {
        self.view(to).fill(0);
    }

    fn copy(&mut self, from: Piece, to: Bytes) {
        let bytes = self.view(from).to_vec();
        self.view(to.len(from.len)).copy_from_slice(&bytes);
    }

    fn add(&mut self, _from: Piece, _to: Bytes, _factor: u8) {}
    fn parity(&mut self, _data: &[Bytes], _len: u32, _parities: &[Bytes]) {}
    fn recover(&mut self, _data: &[Bytes], _len: u32, _parities: &[Bytes], _lost: &[usize]) {}

    fn checksum(&self, of: Piece) -> Option<u64> {
        let bytes = &self.bufs[of.buf as usize - 1].0[of.at as usize..][..of.len as usize];
        let (words, rest) = bytes.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let all = words.chain(rest.iter().map(|byte| u64::from(*byte)));
        Some(all.fold(1, |sum: u64, word| {
            (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        }))
    }

    fn put(&mut self, to: Piece, record: &[u8]) {
        self.view(to).copy_from_slice(record);
    }

    fn get(&self, from: Piece, record: &mut [u8]) -> bool {
        let (bytes, _) = &self.bufs[from.buf as usize - 1];
        record.copy_from_slice(&bytes[from.at as usize..][..from.len as usize]);
        true
    }
}

/// How the drives and the run end.
#[derive(Default)]
pub(super) struct Life {
    /// The power fails after this many I/Os.
    pub(super) cut_after: Option<u64>,
    /// Drives that fail, and after how many I/Os.
    pub(super) gone: Vec<(Lane, u64)>,
}

type Watch = Box<dyn FnMut(&Array) -> usize>;

/// An array on its drives.
pub(super) struct Rig {
    policy: Option<Placed<Array, Box<dyn Policy + Send>>>,
    pub(super) drives: Drives,
    memory: Memory,
    flying: Vec<Request>,
    state: u64,
    step: u64,
    waiting: usize,
    pub(super) read_bytes: u64,
    /// Looks at the array after each step.
    pub(super) watch: Option<Watch>,
    pub(super) watched: usize,
}

fn over(array: Array) -> Placed<Array, Box<dyn Policy + Send>> {
    let lanes = (0..array.lanes()).map(|_| build("noop", 1 << 20).unwrap()).collect();
    Placed::over(array, lanes)
}

impl Rig {
    pub(super) fn new(array: Array, drives: Drives, seed: u64) -> Rig {
        Rig {
            policy: Some(over(array)),
            drives,
            memory: Memory::default(),
            flying: Vec::new(),
            state: seed,
            step: 0,
            waiting: 0,
            read_bytes: 0,
            watch: None,
            watched: 0,
        }
    }

    fn policy(&mut self) -> &mut Placed<Array, Box<dyn Policy + Send>> {
        self.policy.as_mut().unwrap()
    }

    pub(super) fn array(&self) -> &Array {
        self.policy.as_ref().unwrap().placement()
    }

    /// Makes the next flush write this many records.
    pub(super) fn owe(&mut self, records: u64) {
        while !self.flying.is_empty() {
            self.end(0, false);
        }
        let mut array = self.policy.take().unwrap().into_placement();
        (array.log.owes, array.log.renews) = (true, records);
        self.policy = Some(over(array));
    }

    fn call(&mut self, call: impl FnOnce(&mut dyn Policy, &mut Cx<'_>)) {
        self.step += 1;
        let (now, mut finished) = (Nanos(self.step * 1000), Finished::new());
        let policy = self.policy.as_mut().unwrap();
        call(policy, &mut Cx { now, slots: &mut self.memory, finished: &mut finished });
        self.waiting -= finished.len();
        for lane in 0..policy.placement().lanes() as Lane {
            while let Some(io) = policy.dispatch(now, lane) {
                self.flying.push(Request { lane, ..io });
            }
        }
        if let Some(watch) = &mut self.watch {
            self.watched = watch(policy.placement());
        }
    }

    fn submit(&mut self, (op, flags, block, count): (Op, Flags, u64, u64)) {
        let (offset, len) = (block * BLOCK as u64, count as u32 * BLOCK as u32);
        let bytes = match op {
            Op::Write => Bytes::of(self.memory.take(len)),
            _ => Bytes::NONE,
        };
        if bytes.buf != 0 {
            let stamp = self.step as u8;
            self.memory.view(bytes.len(len)).fill(stamp);
        }
        let (at, id, stream, lane) = (Nanos(self.step * 1000), self.step, 0, 0);
        let request = Request { at, offset, id, len, stream, lane, op, flags };
        self.waiting += 1;
        self.call(|policy, cx| policy.submit(cx, request, bytes));
    }

    /// Writes the blocks of an I/O for which `is_wanted` is true.
    fn write(&mut self, io: &Request, mut is_wanted: impl FnMut() -> bool) {
        let mut data = Vec::new();
        let memory = &mut self.memory;
        let policy = self.policy.as_ref().unwrap();
        policy.pieces(io, &mut |piece| data.extend_from_slice(memory.view(piece)));
        let drive = &mut self.drives.all[usize::from(io.lane)];
        for (at, block) in (io.offset..).step_by(BLOCK).zip(data.chunks(BLOCK)) {
            if is_wanted() {
                drive.insert(at, block.into());
            }
        }
    }

    fn read(&mut self, io: &Request) {
        self.read_bytes += u64::from(io.len);
        let mut data = vec![0; io.len as usize];
        self.drives.read(io.lane.into(), io.offset, &mut data);
        let (policy, memory) = (self.policy.as_ref().unwrap(), &mut self.memory);
        let mut data = &data[..];
        policy.pieces(io, &mut |piece| {
            let (bytes, rest) = data.split_at(piece.len as usize);
            memory.view(piece).copy_from_slice(bytes);
            data = rest;
        });
    }

    fn end(&mut self, at: usize, is_gone: bool) {
        let io = self.flying.swap_remove(at);
        let outcome: Outcome = if is_gone { Err(Fault::Gone) } else { Ok(()) };
        match io.op {
            Op::Write if !is_gone => self.write(&io, || true),
            Op::Read if !is_gone => self.read(&io),
            _ => {}
        }
        let (now, mechanics) = (Nanos(self.step * 1000), Mechanics::default());
        let done = Completion { io, started: now, at: now, mechanics, outcome };
        self.call(|policy, cx| policy.complete(cx, &done));
    }

    /// Submits requests, the last one first, until all are answered or the power fails.
    pub(super) fn run(&mut self, requests: &mut Vec<(Op, Flags, u64, u64)>, life: Life) {
        let mut ended = 0;
        while !requests.is_empty() || self.waiting > 0 {
            if self.waiting < DEPTH
                && let Some(request) = requests.pop()
            {
                self.submit(request);
                continue;
            }
            if life.cut_after.is_some_and(|after| ended >= after) {
                return self.cut();
            }
            if self.flying.is_empty() {
                let due = self.policy().wakeup().expect("requests are never answered");
                self.step = self.step.max(due.0 / 1000);
                self.call(|policy, cx| policy.wake(cx));
                continue;
            }
            let at = below(&mut self.state, self.flying.len() as u64) as usize;
            let lane = self.flying[at].lane;
            let is_gone = life.gone.iter().any(|(gone, after)| *gone == lane && ended >= *after);
            self.end(at, is_gone);
            ended += 1;
        }
    }

    /// Any blocks of the writes in flight may be written.
    fn cut(&mut self) {
        for io in std::mem::take(&mut self.flying) {
            if io.op == Op::Write {
                let mut state = self.state ^ io.offset;
                self.write(&io, || below(&mut state, 2) == 0);
            }
        }
    }
}
