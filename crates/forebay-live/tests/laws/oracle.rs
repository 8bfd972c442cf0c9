//! A workload that knows what each read may return: for each sector, the writes whose content may
//! be there now, and those whose content may be there after a power cut.
//!
//! The content of a write may be found from the write's submission until a later write, submitted
//! after the first one ended, has succeeded. If writes overlap and are in flight at the same time,
//! either may win, separately for each sector. A write that failed may have been performed in part.
//! Once no write is in flight, however, the content is settled: all later reads return what one
//! read returned, and after a flush, so do reads after a power cut. Once a write is durable (FUA,
//! or covered by a flush that was submitted after the write ended), nothing that ended before its
//! submission may come back.

use std::collections::BTreeMap;

use forebay_core::{
    Bytes, Done, Fault, Flags, Lane, Nanos, Op, Outcome, Piece, Request, Slots, Workload,
};

pub(crate) const SECTOR: u64 = 512;

/// The stamp of arbitrary content, such as that of a trimmed sector.
const ANY: u64 = u64::MAX;

/// A write to a sector.
#[derive(Clone, Copy, Debug)]
struct Version {
    stamp: u64,
    submitted: u64,
    ended: Option<u64>,
    failed: bool,
    durable: bool,
    /// When another version was certainly written over this one, or was found instead of it.
    over: Option<u64>,
    /// Whether that other version is durable, so that this one does not come back after a power
    /// cut.
    gone: bool,
}

impl Version {
    /// Returns whether a read submitted at `read` may return this version.
    fn may_be_found(&self, read: u64) -> bool {
        self.over.is_none_or(|over| over >= read)
    }
}

/// A request in flight.
#[derive(Clone, Copy)]
struct Asked {
    request: Request,
    bytes: Bytes,
    submitted: u64,
}

/// The distribution of random requests.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) disks: Lane,
    /// The number of sectors of each disk.
    pub(crate) sectors: u64,
    /// Many requests are aligned to this number of sectors.
    pub(crate) unit: u64,
    pub(crate) trims: bool,
    /// Sectors from this one on have arbitrary content at first.
    pub(crate) anything_from: u64,
}

#[derive(Clone)]
pub(crate) struct Oracle {
    mix: Mix,
    state: u64,
    /// The oracle's own clock, which advances with every submission and every answer.
    time: u64,
    next_at: Nanos,
    left: u64,
    depth: usize,
    last: u64,
    /// If set, these places are read one after another instead of the mix.
    settling: Option<Vec<(Lane, u64)>>,
    /// Whether the reads follow a kill, after which found data need not be durable.
    killed: bool,
    /// Requests to issue one after another, stored in reverse order.
    script: Vec<(Op, Flags, u64, u64)>,
    asked: BTreeMap<u64, Asked>,
    versions: Vec<Vec<Version>>,
    pub(crate) checked: u64,
    pub(crate) failed: u64,
    /// The number of failures caused by a missing drive.
    pub(crate) gone: u64,
}

fn pattern(stamp: u64, sector: u64, bytes: &mut [u8]) {
    bytes.fill(0);
    if stamp > 0 {
        let mixed = (stamp ^ sector << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(&mixed.to_le_bytes()));
        bytes[..8].copy_from_slice(&stamp.to_le_bytes());
    }
}

impl Oracle {
    /// Creates an oracle that issues `count` requests from a mix.
    pub(crate) fn new(mix: Mix, count: u64, seed: u64) -> Oracle {
        let first = Version {
            stamp: 0,
            submitted: 0,
            ended: Some(0),
            failed: false,
            durable: true,
            over: None,
            gone: false,
        };
        let junk = Version { stamp: ANY, ..first };
        let version = |sector| if sector < mix.anything_from { first } else { junk };
        let disk = (0..mix.sectors).map(|sector| vec![version(sector)]);
        Oracle {
            mix,
            state: seed,
            time: 1,
            next_at: Nanos::ZERO,
            left: count,
            depth: 12,
            last: 0,
            settling: None,
            killed: false,
            script: Vec::new(),
            asked: BTreeMap::new(),
            versions: (0..mix.disks).flat_map(|_| disk.clone()).collect(),
            checked: 0,
            failed: 0,
            gone: 0,
        }
    }

    /// Extends the only disk to more sectors, which contain zeros.
    pub(crate) fn widen(&mut self, sectors: u64) {
        let empty = Oracle::new(Mix { sectors: 1, anything_from: 1, ..self.mix }, 0, 0);
        self.versions.resize(sectors as usize, empty.versions[0].clone());
        (self.mix.sectors, self.mix.anything_from) = (sectors, sectors);
    }

    /// Issues `count` more requests.
    pub(crate) fn more(&mut self, count: u64) {
        (self.settling, self.left, self.next_at) = (None, count, Nanos::ZERO);
    }

    /// Issues these requests (operation, flags, first sector, number of sectors), each after the
    /// previous one is answered.
    pub(crate) fn ask(&mut self, requests: &[(Op, Flags, u64, u64)]) {
        self.more(requests.len() as u64);
        self.script = requests.iter().rev().copied().collect();
    }

    /// Reads all sectors, after which their content is settled.
    pub(crate) fn settle(&mut self) {
        let step = 16;
        let of = |lane| (0..self.mix.sectors / step).map(move |place| (lane, place * step));
        let places: Vec<(Lane, u64)> = (0..self.mix.disks).flat_map(of).collect();
        (self.left, self.next_at) = (places.len() as u64, Nanos::ZERO);
        (self.settling, self.killed) = (Some(places), false);
    }

    /// Reads all sectors after a kill. A kill loses data that was only in memory, and does not
    /// change whether written data is durable.
    pub(crate) fn settle_killed(&mut self) {
        self.settle();
        self.killed = true;
    }

    /// Registers a power cut: requests in flight are no longer answered.
    pub(crate) fn cut(&mut self) {
        (self.asked, self.script) = (BTreeMap::new(), Vec::new());
        self.time += 1;
        let now = self.time;
        for list in &mut self.versions {
            let all = list.clone();
            list.retain(|version| !version.gone && !buried(&all, version));
            for version in list.iter_mut() {
                (version.over, version.ended) = (None, Some(version.ended.unwrap_or(now)));
            }
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.asked.len()
    }

    fn below(&mut self, count: u64) -> u64 {
        crate::laws::random(&mut self.state) % count.max(1)
    }

    fn draw(&mut self) -> Request {
        let Mix { disks, sectors, unit, trims, .. } = self.mix;
        let lane = self.below(disks.into()) as Lane;
        let stream = self.below(5) as u32;
        let count = match self.below(4) {
            0 => 1 + self.below(8),
            1 => unit,
            2 => 1 + self.below(2 * unit),
            _ => unit * (1 + self.below(6)),
        };
        // Half of the requests are concentrated on few places, some of them sequentially, forward
        // and backward.
        let first = match self.below(8) {
            0 | 1 => self.last,
            2 => self.last.saturating_sub(2 * count),
            3 | 4 => self.below(sectors) / unit * unit,
            _ => self.below(16 * unit),
        };
        let first = first.min(sectors - count);
        self.last = first + count;
        let (op, flags) = match self.below(24) {
            0 => (Op::Flush, Flags::NONE),
            1 if trims => (Op::Trim, Flags::NONE),
            2..=10 => (Op::Read, Flags::NONE),
            11 => (Op::Write, Flags::FUA),
            12 => (Op::Write, Flags::FUA.with(Flags::PREFLUSH)),
            13 => (Op::Write, Flags::PREFLUSH),
            14 | 15 => (Op::Write, Flags::SYNC),
            _ => (Op::Write, Flags::NONE),
        };
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            _ => (first * SECTOR, (count * SECTOR) as u32),
        };
        Request { at: self.next_at, offset, id: 0, len, stream, lane, op, flags }
    }

    fn list(&mut self, lane: Lane, sector: u64) -> &mut Vec<Version> {
        &mut self.versions[(u64::from(lane) * self.mix.sectors + sector) as usize]
    }

    fn sectors(request: &Request) -> std::ops::Range<u64> {
        request.offset / SECTOR..request.end() / SECTOR
    }

    /// Checks a sector that a request submitted at `read` returned.
    fn check(&mut self, lane: Lane, sector: u64, read: u64, bytes: &[u8]) {
        let stamp = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let (settling, killed) = (self.settling.is_some(), self.killed && self.settling.is_some());
        let now = self.time;
        self.checked += 1;
        let list = self.list(lane, sector);
        let found = |version: &&Version| version.may_be_found(read);
        if list.iter().filter(found).any(|version| version.stamp == ANY) {
            if settling {
                list.retain(|version| version.stamp == ANY);
                list.iter_mut().for_each(|version| version.durable = !killed);
            }
            return;
        }
        let mut expected = [0; SECTOR as usize];
        pattern(stamp, u64::from(lane) << 32 | sector, &mut expected);
        let known = list.iter().filter(found).any(|version| version.stamp == stamp);
        let stamps: Vec<u64> = list.iter().filter(found).map(|version| version.stamp).collect();
        assert!(
            known && bytes == expected,
            "disk {lane}, sector {sector}: found {stamp:#x} (whole: {}), expected one of {stamps:x?}\n{list:x?}",
            bytes == expected,
        );
        if killed {
            // Later versions are lost. Earlier ones may come back after a power cut.
            let ended = list.iter().find(|version| version.stamp == stamp).and_then(|it| it.ended);
            list.retain(|version| ended.is_none_or(|ended| version.submitted <= ended));
            let others = list.iter_mut().filter(|version| version.stamp != stamp);
            others.for_each(|version| version.over = version.over.or(Some(now)));
        } else if settling {
            // The content is settled, and no other version may be found later.
            list.retain(|version| version.stamp == stamp);
            list.iter_mut().for_each(|version| (version.durable, version.failed) = (true, false));
        } else {
            settle(list, read, stamp);
        }
    }

    fn written(&mut self, asked: &Asked, outcome: Outcome) {
        let (now, request) = (self.time, asked.request);
        let oldest = self.asked.values().map(|other| other.submitted).min().unwrap_or(now);
        for sector in Oracle::sectors(&request) {
            let list = self.list(request.lane, sector);
            for version in list.iter_mut() {
                if version.submitted == asked.submitted {
                    version.ended = Some(now);
                    version.failed = outcome.is_err();
                    version.durable = outcome.is_ok() && request.flags.has(Flags::FUA);
                } else if outcome.is_ok()
                    && version.over.is_none()
                    && version.ended.is_some_and(|ended| ended < asked.submitted)
                {
                    version.over = Some(now);
                }
            }
            forget(list, oldest);
        }
    }

    fn flushed(&mut self, asked: &Asked) {
        // A flush applies only to its own disk.
        let lane = usize::from(asked.request.lane);
        let count = self.mix.sectors as usize;
        for list in &mut self.versions[lane * count..(lane + 1) * count] {
            for version in list.iter_mut() {
                let before = version.ended.is_some_and(|ended| ended < asked.submitted);
                version.durable |= before && !version.failed;
                version.gone |= version.over.is_some_and(|over| over < asked.submitted);
            }
        }
    }
}

/// Marks the versions that can no longer be found, if a read submitted while no write was in flight
/// returned this one.
fn settle(list: &mut [Version], read: u64, stamp: u64) {
    let before = |version: &Version| version.submitted < read;
    let ended = |version: &Version| version.ended.filter(|ended| *ended < read);
    let known = list.iter().filter(|version| before(version));
    let Some(since) = known.clone().map(ended).collect::<Option<Vec<u64>>>() else { return };
    if known.clone().all(|version| version.stamp != stamp) {
        return;
    }
    let since = since.into_iter().max();
    for version in list.iter_mut().filter(|version| before(version) && version.stamp != stamp) {
        version.over = version.over.or(since);
    }
}

/// Returns whether a version can no longer come back after a power cut.
fn buried(list: &[Version], version: &Version) -> bool {
    let ended = version.ended.unwrap_or(u64::MAX);
    list.iter().any(|other| other.durable && other.submitted > ended)
}

/// Removes versions that neither reads in flight nor reads after a power cut can return.
fn forget(list: &mut Vec<Version>, oldest: u64) {
    if list.len() > 4 {
        let all = list.clone();
        list.retain(|version| {
            version.may_be_found(oldest) || version.over >= Some(oldest) || !buried(&all, version)
        });
    }
}

impl Workload for Oracle {
    fn peek(&self) -> Option<Nanos> {
        let depth = if self.script.is_empty() { self.depth } else { 1 };
        (self.left > 0 && self.asked.len() < depth).then_some(self.next_at)
    }

    fn take(&mut self) -> Request {
        self.left -= 1;
        self.time += 1;
        let at = self.next_at;
        let drawn = match &mut self.settling {
            None => match self.script.pop() {
                None => self.draw(),
                Some((op, flags, first, count)) => {
                    let (offset, len) = (first * SECTOR, (count * SECTOR) as u32);
                    Request { at, offset, id: 0, len, stream: 0, lane: 0, op, flags }
                }
            },
            Some(places) => {
                let (lane, first) = places.pop().expect("as many as are left");
                let (offset, len, flags) = (first * SECTOR, 16 * SECTOR as u32, Flags::NONE);
                Request { at, offset, id: 0, len, stream: 0, lane, op: Op::Read, flags }
            }
        };
        let pause = Nanos(self.below(150_000));
        self.next_at += pause;
        Request { at, id: self.time, ..drawn }
    }

    fn bytes(&mut self, request: &Request, slots: &mut dyn Slots) -> Bytes {
        let submitted = self.time;
        // Some reads have no buffer, and must not affect the bytes of others.
        let unseen = request.op == Op::Read && self.settling.is_none() && self.below(4) == 0;
        let names = request.op.moves_data() && !unseen;
        let bytes = if names { Bytes::of(slots.take(request.len)) } else { Bytes::NONE };
        self.asked.insert(request.id, Asked { request: *request, bytes, submitted });
        if !matches!(request.op, Op::Write | Op::Trim) {
            return bytes;
        }
        let stamp = if request.op == Op::Trim { ANY } else { submitted };
        for (index, sector) in Oracle::sectors(request).enumerate() {
            if request.op == Op::Write {
                let mut content = [0; SECTOR as usize];
                pattern(stamp, u64::from(request.lane) << 32 | sector, &mut content);
                slots.put(bytes.on(index as u32 * SECTOR as u32).len(SECTOR as u32), &content);
            }
            let (ended, failed, durable, over, gone) = (None, false, false, None, false);
            let version = Version { stamp, submitted, ended, failed, durable, over, gone };
            self.list(request.lane, sector).push(version);
        }
        bytes
    }

    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        self.time += 1;
        self.next_at = self.next_at.max(now);
        let asked = self.asked.remove(&done.request.id).expect("it is answered once");
        assert_eq!(asked.request, done.request, "answered as it was asked");
        self.failed += u64::from(done.outcome.is_err());
        self.gone += u64::from(done.outcome == Err(Fault::Gone));
        match asked.request.op {
            Op::Read if asked.bytes.buf == 0 => return,
            Op::Read if done.outcome.is_ok() => {
                for (index, sector) in Oracle::sectors(&asked.request).enumerate() {
                    let mut content = [0; SECTOR as usize];
                    let at = asked.bytes.on(index as u32 * SECTOR as u32);
                    let piece: Piece = at.len(SECTOR as u32);
                    assert!(slots.get(piece, &mut content), "there is content");
                    self.check(asked.request.lane, sector, asked.submitted, &content);
                }
            }
            Op::Write | Op::Trim => self.written(&asked, done.outcome),
            Op::Flush if done.outcome.is_ok() => self.flushed(&asked),
            _ => {}
        }
        if asked.request.flags.has(Flags::PREFLUSH) && done.outcome.is_ok() {
            self.flushed(&asked);
        }
        slots.free(asked.bytes.buf);
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }
}
