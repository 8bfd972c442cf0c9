//! A test client of the block device that tracks the possible contents of each sector.

use std::collections::{BTreeMap, VecDeque};

use forebay_rig::Medium;

pub(super) const SECTOR: u64 = 512;
/// The maximum number of requests in flight.
const UNDER_WAY: usize = 12;
/// The number of sectors per request when the client reads the whole disk.
const SWEPT: u64 = 16;
/// NBD's error number EIO.
const EIO: u32 = 5;

/// A possible content of a sector: zeros, the stamp of a write, or anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Stamp(u64),
    Anything,
}

/// A change of a sector. The changes of a sector are in the order of their requests.
#[derive(Clone, Copy, Debug)]
struct Change {
    value: Value,
    /// The time of the answer; None if the request was not answered.
    answered: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct ClientRequest {
    command: u16,
    fua: bool,
    first: u64,
    count: u64,
    /// The time of the request.
    at: u64,
}

/// The client's current activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// Sends random requests.
    Anything,
    /// Reads the whole disk, from this sector on.
    ReadAll { next: u64 },
    /// Reads the whole disk one sector at a time.
    ReadEach { next: u64 },
    /// Sends nothing and waits for answers.
    Nothing,
}

/// A client that sends random requests and tracks what their answers guarantee.
pub(super) struct Client {
    state: u64,
    clock: u64,
    sectors: Vec<Vec<Change>>,
    under_way: BTreeMap<u64, ClientRequest>,
    pub(super) says: VecDeque<u8>,
    /// The maximum number of the client's bytes that the server receives at a time.
    pub(super) chunk: usize,
    pub(super) heard: VecDeque<u8>,
    /// The number of requests that succeeded.
    pub(super) answered: u64,
    pub(super) does: Does,
    /// Whether requests may fail.
    pub(super) may_fail: bool,
    pub(super) failed: Vec<u64>,
    /// Everything acknowledged after this time must be readable, even if other requests fail.
    pub(super) readable_since: Option<u64>,
    /// The number of requests that failed.
    pub(super) failures: u64,
}

impl Client {
    pub(super) fn new(seed: u64, sectors: u64) -> Client {
        let settled = Change { value: Value::Stamp(0), answered: Some(0) };
        Client {
            state: seed,
            clock: 1,
            sectors: vec![vec![settled]; sectors as usize],
            under_way: BTreeMap::new(),
            says: VecDeque::new(),
            chunk: usize::MAX,
            heard: VecDeque::new(),
            answered: 0,
            does: Does::Anything,
            may_fail: false,
            failed: Vec::new(),
            readable_since: None,
            failures: 0,
        }
    }

    /// Returns the size in bytes of the part of the disk that the client uses.
    pub(super) fn bytes(&self) -> u64 {
        self.sectors.len() as u64 * SECTOR
    }

    pub(super) fn draw(&mut self, below: u64) -> u64 {
        forebay_testing::below(&mut self.state, below)
    }

    /// Sends another request unless the maximum number of requests is in flight.
    pub(super) fn go_on(&mut self) {
        if self.under_way.len() >= UNDER_WAY {
            return;
        }
        match self.does {
            Does::Anything => self.ask(),
            Does::ReadAll { next } if next < self.sectors.len() as u64 => {
                self.does = Does::ReadAll { next: next + SWEPT };
                self.say(0, false, next, SWEPT);
            }
            Does::ReadEach { next } if next < self.sectors.len() as u64 => {
                self.does = Does::ReadEach { next: next + 1 };
                self.say(0, false, next, 1);
            }
            Does::ReadAll { .. } | Does::ReadEach { .. } | Does::Nothing => {}
        }
    }

    /// Returns whether everything has been read and all requests are answered.
    pub(super) fn has_read_all(&self) -> bool {
        matches!(self.does, Does::ReadAll { next } | Does::ReadEach { next } if next >= self.sectors.len() as u64)
            && self.is_quiet()
    }

    /// Returns whether all requests are answered.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }

    /// From now on, requires that everything newly acknowledged is readable, even if other requests
    /// fail.
    pub(super) fn counts_from_now(&mut self) {
        self.readable_since = Some(self.clock);
    }

    /// Marks all data acknowledged so far as durable.
    pub(super) fn flushed_all(&mut self) {
        for changes in &mut self.sectors {
            if let Some(newest) = changes.iter().rposition(|one| one.answered.is_some()) {
                changes.drain(..newest);
            }
        }
    }

    /// Sends a flush.
    pub(super) fn flush(&mut self) {
        self.say(3, false, 0, 0);
    }

    /// Sends a random request for sectors that no request in flight touches.
    fn ask(&mut self) {
        let command = [1, 1, 1, 1, 0, 0, 3, 4, 6][self.draw(9) as usize];
        let fua = self.draw(4) == 0 && command != 0 && command != 3;
        let (first, count) = (self.draw(self.sectors.len() as u64 - 16), 1 + self.draw(16));
        let (first, count) = if command == 3 { (0, 0) } else { (first, count) };
        let meets =
            |one: &ClientRequest| one.first < first + count && first < one.first + one.count;
        if self.under_way.values().any(meets) {
            return;
        }
        self.say(command, fua, first, count);
    }

    fn say(&mut self, command: u16, fua: bool, first: u64, count: u64) {
        self.clock += 1;
        let (cookie, at) = (self.clock, self.clock);
        self.under_way.insert(cookie, ClientRequest { command, fua, first, count, at });
        let value = match command {
            1 => Some(Value::Stamp(cookie)),
            4 => Some(Value::Anything),
            6 => Some(Value::Stamp(0)),
            _ => None,
        };
        for sector in first..first + count {
            let changes = &mut self.sectors[sector as usize];
            changes.extend(value.map(|value| Change { value, answered: None }));
        }
        self.says.extend(0x2560_9513_u32.to_be_bytes());
        // Every other write of zeros sets the flag that forbids holes.
        let no_hole = u16::from(command == 6 && cookie % 2 == 0) << 1;
        self.says.extend((u16::from(fua) | no_hole).to_be_bytes());
        self.says.extend(command.to_be_bytes());
        self.says.extend(cookie.to_be_bytes());
        self.says.extend((first * SECTOR).to_be_bytes());
        self.says.extend(((count * SECTOR) as u32).to_be_bytes());
        if command == 1 {
            let stamp = cookie.to_le_bytes();
            (0..count * SECTOR / 8).for_each(|_| self.says.extend(stamp));
        }
    }

    /// Processes all complete answers.
    pub(super) fn hear(&mut self) {
        while self.heard.len() >= 16 {
            let head: Vec<u8> = self.heard.iter().copied().take(16).collect();
            assert_eq!(head[..4], [0x67, 0x44, 0x66, 0x98], "no answer");
            let cookie = u64::from_be_bytes(head[8..].try_into().unwrap());
            let asked = self.under_way[&cookie];
            let errno = u32::from_be_bytes(head[4..8].try_into().unwrap());
            if errno != 0 {
                assert!(self.may_fail, "{asked:?} fails with {errno}");
                // The error must not be ENOSPC: a volume reserves the space that it provides,
                // whichever drives remain.
                assert_eq!(errno, EIO, "{asked:?} fails");
                self.heard.drain(..16);
                self.under_way.remove(&cookie);
                self.fail(&asked);
                continue;
            }
            let len = if asked.command == 0 { (asked.count * SECTOR) as usize } else { 0 };
            if self.heard.len() < 16 + len {
                return;
            }
            let data: Vec<u8> = self.heard.drain(..16 + len).skip(16).collect();
            self.under_way.remove(&cookie);
            self.clock += 1;
            self.answered += 1;
            self.settle(&asked, &data);
        }
    }

    /// Registers a failed request, whose effect is unknown.
    fn fail(&mut self, asked: &ClientRequest) {
        self.failures += 1;
        if asked.command == 0 {
            self.failed.push(asked.first);
        }
        if asked.command == 0 && asked.count == 1 {
            let newest = self.sectors[asked.first as usize].last().unwrap();
            let is_since = |at| self.readable_since.is_some_and(|since| at > since);
            assert!(
                !newest.answered.is_some_and(is_since) || newest.value == Value::Anything,
                "sector {} was acknowledged and cannot be read",
                asked.first
            );
        }
        for sector in asked.first..asked.first + asked.count {
            if asked.command != 0 {
                self.sectors[sector as usize].last_mut().unwrap().value = Value::Anything;
            }
        }
    }

    /// Registers what a successful answer guarantees.
    fn settle(&mut self, asked: &ClientRequest, data: &[u8]) {
        let clock = self.clock;
        for (nth, sector) in (asked.first..asked.first + asked.count).enumerate() {
            let changes = &mut self.sectors[sector as usize];
            match asked.command {
                0 => {
                    let newest = changes.last().unwrap().value;
                    let read = &data[nth * SECTOR as usize..][..SECTOR as usize];
                    assert!(holds(read, newest), "sector {sector} reads otherwise than {newest:?}");
                }
                _ => changes.last_mut().unwrap().answered = Some(clock),
            }
            if asked.fua {
                changes.drain(..changes.len() - 1);
            }
        }
        if asked.command == 3 {
            for changes in &mut self.sectors {
                let covered = |one: &Change| one.answered.is_some_and(|at| at < asked.at);
                if let Some(newest) = changes.iter().rposition(covered) {
                    changes.drain(..newest);
                }
            }
        }
    }

    /// Returns the sectors whose content breaks a guarantee.
    pub(super) fn broken(&self, medium: &Medium) -> Vec<u64> {
        let is_broken = |sector: &u64| {
            let mut found = [0; SECTOR as usize];
            medium.read(sector * SECTOR, &mut found);
            !self.sectors[*sector as usize].iter().any(|change| holds(&found, change.value))
        };
        (0..self.sectors.len() as u64).filter(is_broken).collect()
    }
}

fn holds(bytes: &[u8], value: Value) -> bool {
    match value {
        Value::Anything => true,
        Value::Stamp(stamp) => bytes.chunks(8).all(|word| word == stamp.to_le_bytes()),
    }
}
