//! A load that exercises every rule: streams that read sequentially, seek, think, cooperate and
//! come in bursts; synchronous and other writes, flushes and trims; a busy period and a calm one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_core::{Done, Flags, Nanos, Op, Request, Slots, Workload};

/// The behavior of a stream.
#[derive(Clone, Copy)]
struct Habit {
    op: Op,
    flags: Flags,
    /// The maximum number of requests outstanding, and the number in total.
    window: u32,
    count: u32,
    /// When the stream starts, and the minimum and maximum of its think time in us.
    from_us: u64,
    think_us: (u64, u64),
    /// The area of the stream: its first page (of 4 KiB) and the number of pages.
    from_page: u64,
    pages: u64,
    /// The minimum and maximum length of a request in pages.
    len_pages: (u64, u64),
    /// The distance in pages from the start of one request to the start of the next; 0 for random
    /// offsets.
    step_pages: u64,
}

const READ: Habit = Habit {
    op: Op::Read,
    flags: Flags::NONE,
    window: 1,
    count: 150,
    from_us: 0,
    think_us: (100, 300),
    from_page: 0,
    pages: 1 << 20,
    len_pages: (16, 16),
    step_pages: 16,
};

const WRITE: Habit = Habit { op: Op::Write, ..READ };

/// The habit of stream `n` is at index `n`.
const HABITS: &[Habit] = &[
    // Sequential readers: a fast one, a slow one, and two that share a file.
    READ,
    Habit { from_page: 3 << 20, len_pages: (8, 8), step_pages: 8, think_us: (800, 1_400), ..READ },
    Habit { from_page: 5 << 20, step_pages: 32, count: 80, ..READ },
    Habit { from_page: (5 << 20) + 16, step_pages: 32, count: 80, from_us: 60, ..READ },
    // Random readers: one over the whole disk, one of a hot area, and one in bursts.
    Habit { len_pages: (1, 4), step_pages: 0, think_us: (0, 9_000), pages: 9 << 20, ..READ },
    Habit {
        pages: 100,
        len_pages: (1, 3),
        step_pages: 0,
        think_us: (200, 2_500),
        count: 300,
        ..READ
    },
    Habit {
        window: 24,
        count: 140,
        step_pages: 0,
        pages: 400_000,
        think_us: (90_000, 99_000),
        ..READ
    },
    // A reader that goes backwards in small steps; the step wraps around.
    Habit { from_page: 2 << 20, len_pages: (4, 4), step_pages: (1 << 20) - 4, count: 60, ..READ },
    // Writers: one in bursts, one of small blocks in a hot area, and one of sequential bulk data.
    Habit {
        window: 30,
        count: 240,
        step_pages: 0,
        from_page: 4 << 20,
        pages: 6_000,
        len_pages: (1, 16),
        think_us: (60_000, 140_000),
        ..WRITE
    },
    Habit {
        pages: 100,
        len_pages: (1, 2),
        step_pages: 0,
        think_us: (500, 4_000),
        count: 200,
        ..WRITE
    },
    Habit { from_page: 6 << 20, window: 6, think_us: (50, 4_000), count: 200, ..WRITE },
    // A log: synchronous writes, writes with preflush and FUA, flushes, and trims.
    Habit {
        flags: Flags::SYNC,
        from_page: 7 << 20,
        len_pages: (1, 2),
        step_pages: 2,
        count: 90,
        think_us: (900, 5_000),
        ..WRITE
    },
    Habit {
        flags: Flags(Flags::PREFLUSH.0 | Flags::FUA.0),
        from_page: 7 << 19,
        len_pages: (1, 9),
        step_pages: 9,
        think_us: (9_000, 30_000),
        count: 25,
        ..WRITE
    },
    Habit { op: Op::Flush, think_us: (30_000, 60_000), count: 15, len_pages: (0, 0), ..READ },
    Habit {
        op: Op::Trim,
        pages: 100,
        step_pages: 0,
        think_us: (20_000, 80_000),
        count: 12,
        ..READ
    },
    // Long requests, which are split.
    Habit {
        from_page: 8 << 20,
        len_pages: (40, 400),
        step_pages: 400,
        count: 25,
        think_us: (1_000, 60_000),
        ..READ
    },
    // After all others: one stream alone, then two.
    Habit { from_us: 4_000_000, from_page: 9 << 20, count: 60, ..READ },
    Habit {
        from_us: 4_050_000,
        from_page: 1 << 20,
        len_pages: (1, 8),
        step_pages: 0,
        count: 40,
        ..READ
    },
    Habit { from_us: 4_050_000, pages: 100, len_pages: (4, 8), step_pages: 0, count: 60, ..WRITE },
];

/// The load of all streams.
pub(crate) struct Mix {
    disks: u16,
    /// When each stream issues its next request. The number in the middle breaks ties.
    ready: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    /// For each stream, the number of requests planned and the number issued.
    planned: Vec<u32>,
    asked: Vec<u32>,
    numbers: u64,
    issued: u64,
    state: u64,
}

impl Mix {
    pub(crate) fn new(disks: u16) -> Mix {
        let none = vec![0; HABITS.len()];
        let (planned, asked, ready) = (none.clone(), none, BinaryHeap::new());
        let mut mix = Mix { disks, ready, planned, asked, numbers: 0, issued: 0, state: 1 };
        for (stream, habit) in HABITS.iter().enumerate() {
            for _ in 0..habit.window {
                mix.plan(Nanos::from_micros(habit.from_us), stream as u32);
            }
        }
        mix
    }

    /// Returns the number of requests issued so far.
    pub(crate) fn issued(&self) -> u64 {
        self.issued
    }

    fn plan(&mut self, at: Nanos, stream: u32) {
        if self.planned[stream as usize] < HABITS[stream as usize].count {
            self.planned[stream as usize] += 1;
            self.numbers += 1;
            self.ready.push(Reverse((at, self.numbers, stream)));
        }
    }

    /// Returns a number from `least` to `most`.
    fn draw(&mut self, (least, most): (u64, u64)) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        least + (self.state >> 33) % (most - least + 1)
    }
}

impl Workload for Mix {
    fn peek(&self) -> Option<Nanos> {
        self.ready.peek().map(|Reverse((at, _, _))| *at)
    }

    fn take(&mut self) -> Request {
        let Reverse((at, _, stream)) = self.ready.pop().expect("peeked");
        let habit = HABITS[stream as usize];
        let nth = u64::from(self.asked[stream as usize]);
        let within = match habit.step_pages {
            0 => self.draw((0, habit.pages - 1)),
            step => nth * step % habit.pages,
        };
        self.asked[stream as usize] += 1;
        self.issued += 1;
        let len = self.draw(habit.len_pages) * 4096;
        Request {
            at,
            offset: (habit.from_page + within) * 4096,
            id: self.issued,
            len: len as u32,
            stream,
            lane: stream as u16 % self.disks,
            op: habit.op,
            flags: habit.flags,
        }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        let stream = done.request.stream;
        let think = self.draw(HABITS[stream as usize].think_us);
        self.plan(now + Nanos::from_micros(think), stream);
    }
}
