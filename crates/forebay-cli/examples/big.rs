//! Writes a synthetic trace of any length, for measuring memory: `big REQUESTS OUTPUT [scattered]`.
//!
//! The requests are the same on every run. With `scattered`, they are 4 KiB each at random
//! positions of a 256-TiB volume, so that hardly any block is used twice. Otherwise, there is one
//! volume of 900 GiB, which is half again as much as the footprint is counted exactly for, and
//! there are 200 threads. Two thirds of the requests continue where the last request of their
//! thread ended; the others are at random positions. Requests arrive at 20 per second, which one
//! disk can handle. On a slower device, the queue of an open replay would grow with the trace, and
//! so would its memory.

use std::error::Error;
use std::path::Path;

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::{Dictionary, Notes, Record, Stream, write};

const VOLUME_BYTES: u64 = 900 << 30;
const SCATTERED_BLOCKS: u64 = 1 << 36;
const THREADS: usize = 200;
const MEAN_GAP_NS: u64 = 50_000_000;
const BATCH: usize = 8192;

/// Marsaglia's xorshift64 generator ("Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Generates the requests.
struct Synthesis {
    scattered: bool,
    random: Random,
    at_ns: u64,
    next_offsets: [u64; THREADS],
}

impl Synthesis {
    fn request(&mut self) -> Record {
        let random = &mut self.random;
        self.at_ns += random.below(2 * MEAN_GAP_NS);
        let thread = random.below(THREADS as u64) as usize;
        let len = if self.scattered { 4096 } else { 4096u32 << random.below(5) };
        let last = VOLUME_BYTES - u64::from(len);
        let offset = match random.below(3) {
            _ if self.scattered => random.below(SCATTERED_BLOCKS) * 4096,
            0 => random.below(last / 4096) * 4096,
            _ => self.next_offsets[thread].min(last),
        };
        self.next_offsets[thread] = offset + u64::from(len);
        Record {
            at: Nanos(self.at_ns),
            offset,
            latency: Some(Nanos(1_000_000 + random.below(10_000_000))),
            len,
            stream: thread as u32,
            volume: 0,
            op: if random.below(10) < 7 { Op::Read } else { Op::Write },
            flags: Flags::NONE,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (requests, output, scattered) = match &arguments[..] {
        [requests, output] => (requests, output, false),
        [requests, output, word] if word == "scattered" => (requests, output, true),
        _ => return Err("usage: big REQUESTS OUTPUT [scattered]".into()),
    };
    let mut left: usize = requests.parse()?;
    let thread = |number| Stream {
        thread: Some(number),
        process: Some(number / 10),
        name: format!("worker{}", number % 7),
    };
    let dictionary = Dictionary {
        streams: (0..THREADS as u32).map(thread).collect(),
        volumes: vec!["big".into()],
    };
    let mut synthesis =
        Synthesis { scattered, random: Random(1), at_ns: 0, next_offsets: [0; THREADS] };
    let mut writer = write::create(Path::new(output), None, &write::ProtectedFiles::default())?;
    let mut batch = Vec::with_capacity(BATCH);
    while left > 0 {
        batch.clear();
        batch.extend((0..left.min(BATCH)).map(|_| synthesis.request()));
        left -= batch.len();
        writer.write(&batch, &dictionary)?;
    }
    writer.finish(&dictionary, &Notes { format: "synthetic", ..Notes::default() })?;
    Ok(())
}
