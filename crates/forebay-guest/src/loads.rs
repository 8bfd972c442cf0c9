//! Named loads, generated for a device from a seed.

use forebay_core::{Nanos, Op};
use forebay_testing::{below, mixed};

use crate::script::{Io, Pace, Script, Task};

/// Generates the tasks of a load.
type Load = fn(&mut Draw) -> Vec<Task>;

const LOADS: [(&str, Load); 9] = [
    ("burst", burst),
    ("writers", writers),
    ("flusher", flusher),
    ("sync-writer", sync_writer),
    ("mixed", mixed_streams),
    ("poisson", poisson),
    ("sequential", sequential),
    ("idle-burst", idle_burst),
    ("shared-file", shared_file),
];

/// The minimum size of the disks in bytes. Loads use only addresses below it.
const SPAN: u64 = 160_000_000_000;
const BLOCK: u64 = 4096;

/// Generates the load `name` from `seed`, at a rate that suits `device`.
///
/// # Errors
/// Fails if there is no such load.
pub(crate) fn draw(name: &str, seed: u64, device: &str) -> Result<Script, String> {
    let Some((_, load)) = LOADS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = LOADS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no load '{name}', expected one of {}", known.join(", ")));
    };
    let iops = device.strip_prefix("fixed:").and_then(|iops| iops.parse().ok());
    let mut draw = Draw { state: mixed(seed), iops: iops.unwrap_or(DISK_IOPS), used: Vec::new() };
    Ok(Script { tasks: load(&mut draw) })
}

/// The rate at which a 7200-rpm disk serves single random blocks, one after another, in requests
/// per second.
const DISK_IOPS: f64 = 75.0;

struct Draw {
    state: u64,
    /// The rate that the device can serve, in I/Os per second.
    iops: f64,
    /// Positions that are already used. Each I/O gets its own.
    used: Vec<u64>,
}

impl Draw {
    /// Returns a random number from 0 up to but not including 1.
    fn share(&mut self) -> f64 {
        below(&mut self.state, 1 << 53) as f64 / (1u64 << 53) as f64
    }

    /// Returns an exponentially distributed time.
    fn span(&mut self, mean: Nanos) -> Nanos {
        Nanos((-(1.0 - self.share()).ln() * mean.0 as f64) as u64)
    }

    /// Returns a position that no other I/O uses. Positions are in different MiB of the disk.
    fn place(&mut self) -> u64 {
        loop {
            let slot = below(&mut self.state, SPAN >> 20);
            if let Err(at) = self.used.binary_search(&slot) {
                self.used.insert(at, slot);
                return (slot << 20) + below(&mut self.state, 64) * BLOCK;
            }
        }
    }

    /// Returns a random length from 4 to 64 KiB; small ones are more frequent.
    fn len(&mut self) -> u32 {
        let doublings = below(&mut self.state, 5).min(below(&mut self.state, 5));
        (BLOCK << doublings) as u32
    }

    /// Returns `count` I/Os of one block at random positions, each with the given time.
    fn anywhere(&mut self, count: u64, op: Op, time: Nanos) -> Vec<Io> {
        (0..count).map(|_| Io { op, offset: self.place(), len: BLOCK as u32, time }).collect()
    }

    /// Returns a client that reads ten blocks per second.
    fn reader(&mut self, count: u64) -> Task {
        let mut ios = self.anywhere(count, Op::Read, Nanos::ZERO);
        ios.iter_mut().for_each(|io| io.time = Nanos(90_000_000 + self.span(Nanos(10_000_000)).0));
        task("reader", Pace::Think, 1, ios)
    }

    /// Returns the interval between requests that use a given share of the device's rate.
    fn interval(&self, share: f64) -> Nanos {
        Nanos::from_secs_f64(1.0 / (self.iops * share))
    }
}

fn task(name: &str, pace: Pace, depth: u32, ios: Vec<Io>) -> Task {
    Task { name: name.into(), pace, depth, batch: 1, start: Nanos::ZERO, ios }
}

/// One task writes a lot at once while another reads.
fn burst(draw: &mut Draw) -> Vec<Task> {
    let reader = draw.reader(20);
    let mut writer = task("writer", Pace::At, 1, draw.anywhere(1000, Op::Write, Nanos::ZERO));
    writer.start = Nanos::from_millis(200 + below(&mut draw.state, 200));
    vec![reader, writer]
}

/// Eight tasks write a lot at once.
fn writers(draw: &mut Draw) -> Vec<Task> {
    let mut tasks = vec![draw.reader(20)];
    for index in 0..8 {
        let ios = draw.anywhere(125, Op::Write, Nanos::ZERO);
        let mut writer = task(&format!("writer{index}"), Pace::At, 1, ios);
        writer.start = Nanos::from_millis(200 + below(&mut draw.state, 50));
        tasks.push(writer);
    }
    tasks
}

/// A task writes through the page cache, and the kernel's flusher writes the data back.
fn flusher(draw: &mut Draw) -> Vec<Task> {
    let reader = draw.reader(20);
    let mut writer = task("writer", Pace::Buffered, 1, draw.anywhere(1000, Op::Write, Nanos::ZERO));
    writer.start = Nanos::from_millis(200 + below(&mut draw.state, 200));
    vec![reader, writer]
}

/// Returns a task that waits for each of its writes.
fn sync_writer(draw: &mut Draw) -> Vec<Task> {
    let ios = draw.anywhere(800, Op::Write, Nanos::ZERO);
    vec![draw.reader(50), task("writer", Pace::Think, 1, ios)]
}

/// Eight closed-loop streams of reads and writes, each with eight outstanding I/Os.
fn mixed_streams(draw: &mut Draw) -> Vec<Task> {
    let stream = |index: u64| {
        let writes = 0.1 + 0.1 * below(&mut draw.state, 5) as f64;
        let ios = (0..150)
            .map(|_| Io {
                op: if draw.share() < writes { Op::Write } else { Op::Read },
                offset: draw.place(),
                len: draw.len(),
                time: draw.span(Nanos::from_millis(2)),
            })
            .collect();
        task(&format!("stream{index}"), Pace::Think, 8, ios)
    };
    (0..8).map(stream).collect()
}

/// Eight open-loop clients that together use four fifths of the disk's rate.
fn poisson(draw: &mut Draw) -> Vec<Task> {
    let interval = Nanos(draw.interval(0.8).0 * 8);
    let client = |index: u64| {
        let mut at = Nanos::ZERO;
        let ios = (0..75)
            .map(|_| {
                at += draw.span(interval);
                let op = if draw.share() < 0.3 { Op::Write } else { Op::Read };
                Io { op, offset: draw.place(), len: BLOCK as u32, time: at }
            })
            .collect();
        task(&format!("client{index}"), Pace::At, 1, ios)
    };
    (0..8).map(client).collect()
}

/// Two tasks read sequentially, with two reads of 128 KiB outstanding, while another reads random
/// blocks.
fn sequential(draw: &mut Draw) -> Vec<Task> {
    let len = 128 << 10;
    let reads_on = |index: u64| {
        let first = (below(&mut draw.state, SPAN / 4) + index * (SPAN / 2)) / BLOCK * BLOCK;
        let io = |n: u64| Io {
            op: Op::Read,
            offset: first + n * u64::from(len),
            len,
            time: Nanos::ZERO,
        };
        task(&format!("sequential{index}"), Pace::Think, 2, (0..600).map(io).collect())
    };
    let mut tasks: Vec<Task> = (0..2).map(reads_on).collect();
    let ios = draw.anywhere(300, Op::Read, Nanos::ZERO);
    tasks.push(task("random", Pace::Think, 4, ios));
    tasks
}

/// Four tasks alternate between being idle and submitting many I/Os at once.
fn idle_burst(draw: &mut Draw) -> Vec<Task> {
    let client = |index: u64| {
        let mut ios = Vec::new();
        for round in 0..3 {
            let at = Nanos::from_millis(round * 2_500 + below(&mut draw.state, 5));
            for _ in 0..64 {
                let op = if draw.share() < 0.5 { Op::Write } else { Op::Read };
                ios.push(Io { op, offset: draw.place(), len: BLOCK as u32, time: at });
            }
        }
        task(&format!("client{index}"), Pace::At, 1, ios)
    };
    (0..4).map(client).collect()
}

/// Eight threads read one file. Each submits the next eight pieces in one call as soon as it can,
/// so adjacent pieces are read by the same thread or by different ones.
fn shared_file(draw: &mut Draw) -> Vec<Task> {
    let (len, threads, batches) = (16 << 10, 8, 40);
    let first = below(&mut draw.state, SPAN / 2) / BLOCK * BLOCK;
    let mut tasks: Vec<Task> = (0..threads)
        .map(|index| Task {
            batch: 8,
            ..task(&format!("reader{index}"), Pace::Think, 16, Vec::new())
        })
        .collect();
    for round in 0..threads * batches * 2 {
        // Half of each batch continues at the end of another thread's batch.
        let owner = match round < threads * 2 {
            true => round % threads,
            false => below(&mut draw.state, threads),
        };
        let ios = &mut tasks[owner as usize].ios;
        for piece in round * 4..round * 4 + 4 {
            let offset = first + piece * u64::from(len);
            ios.push(Io { op: Op::Read, offset, len, time: Nanos::ZERO });
        }
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_a_load_and_another_draws_another() {
        for (name, _) in LOADS {
            let drawn = |seed| draw(name, seed, "sata250").unwrap();
            assert_eq!(drawn(7), drawn(7), "{name}");
            assert_ne!(drawn(7), drawn(8), "{name}");
            let ios = |script: Script| script.tasks.into_iter().flat_map(|task| task.ios);
            let mut places: Vec<u64> = ios(drawn(7)).map(|io| io.offset).collect();
            let count = places.len();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), count, "{name}: each I/O has its own place");
            assert!(
                ios(drawn(7))
                    .all(|io| io.offset + u64::from(io.len) <= 250_000_000_000 / 4096 * 4096)
            );
        }
        assert!(draw("rest", 1, "sata250").unwrap_err().contains("expected one of burst"));
    }
}
