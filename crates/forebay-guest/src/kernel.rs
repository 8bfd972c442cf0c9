//! Runs a script on the kernel: its tasks are threads that use a ublk device, whose requests the
//! disk model answers in real time.
//!
//! All of this happens in one process. The disk's thread has real-time priority over all others, so
//! that I/Os complete exactly when the model says.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_core::{Device, Flags, Nanos, Op, Request};
use forebay_live::Punctual;
use forebay_live::aio::Aio;
use forebay_live::ublk::{Control, DeviceLimits, Queue, UblkRequest};

use crate::disk::{DEPTH, Disk, REQUEST_BYTES_MAX};
use crate::flushed;
use crate::outcome::{DiskIo, Outcome, Times};
use crate::pacing::Pacing;
use crate::script::{Io, Pace, Script, Task};

/// The value of `O_DIRECT` on x86-64, which is the only architecture that guests run on. It has a
/// different meaning on others.
const O_DIRECT: i32 = 0o40000;
/// Marks a run that has not begun. Until it begins, the disk answers immediately.
const NOT_BEGUN: u64 = u64::MAX;
/// How long before the start of a script its threads are created.
const LEAD: Nanos = Nanos::from_millis(20);

/// The clock of a run, shared by all threads. `at_ns` is the start of the run, measured from
/// `origin`.
struct Start {
    origin: Instant,
    at_ns: AtomicU64,
}

impl Start {
    fn machine(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Returns the time since the start of the run, or None if the start is not set yet.
    fn now(&self) -> Option<Nanos> {
        let at = self.at_ns.load(Ordering::Acquire);
        (at != NOT_BEGUN).then(|| Nanos(self.machine().saturating_sub(at)))
    }
}

/// The I/Os that reached the disk, and how long the disk was busy.
struct Served {
    ios: Vec<DiskIo>,
    busy: Nanos,
}

/// Answers requests to a device until it is stopped. The disk's time is that of the run plus
/// `phase`.
fn serve(device: u32, mut disk: Disk, start: &Start, phase: Nanos) -> io::Result<Served> {
    let _punctual = Punctual::thread(true)?;
    let mut queue = Queue::open(device, DEPTH)?;
    let (mut asked, mut ios, zeroes) = (Vec::new(), Vec::new(), vec![0; 1 << 20]);
    let mut busy = Nanos::ZERO;
    let mut now = Nanos::ZERO;
    while !queue.is_over() {
        queue.wait(disk.next().map(|at| at - now), &mut asked)?;
        let begun = start.now().map(|now| now + phase);
        now = begun.unwrap_or(Nanos::ZERO);
        // Complete all I/Os that are done by now before accepting new ones.
        while let Some(at) = disk.next().filter(|at| *at <= now) {
            let ended = disk.finish(at);
            queue.answer(ended.io.id as u16, ended.io.len as i32)?;
            let Request { at: accepted, offset, len, op, .. } = ended.io;
            if op.moves_data() {
                ios.push(DiskIo { op, offset, len, accepted: accepted - phase, done: at - phase });
                busy = disk.busy(at);
            }
        }
        for UblkRequest { tag, op, offset, len, flags, .. } in asked.drain(..) {
            if begun.is_some() {
                disk.start(now, request(now, tag, op, offset, len, flags));
                continue;
            }
            if op == Op::Read {
                queue.channel().write_data(tag, 0, &zeroes[..len as usize])?;
            }
            queue.answer(tag, len as i32)?;
        }
        now = start.now().map_or(Nanos::ZERO, |now| now + phase);
    }
    Ok(Served { ios, busy })
}

fn request(at: Nanos, tag: u16, op: Op, offset: u64, len: u32, flags: Flags) -> Request {
    Request { at, offset, id: tag.into(), len, stream: 0, lane: 0, op, flags }
}

/// Sleeps until the given time after the start of the run.
fn sleep_until(start: &Start, until: Nanos) {
    let begin = start.at_ns.load(Ordering::Acquire);
    let left = (begin + until.0).saturating_sub(start.machine());
    if left > 0 {
        thread::sleep(Duration::from_nanos(left));
    }
}

/// Performs a task on the calling thread. Returns when each I/O was due, submitted and done.
fn perform(task: &Task, path: &str, start: &Start) -> io::Result<Vec<Times>> {
    let _punctual = Punctual::thread(false)?;
    let direct = if task.pace == Pace::Buffered { 0 } else { O_DIRECT };
    let file = OpenOptions::new().read(true).write(true).custom_flags(direct).open(path)?;
    match task.pace == Pace::At || task.depth > 1 {
        true => many_at_a_time(task, file, start),
        false => one_at_a_time(task, &file, start),
    }
}

fn one_at_a_time(task: &Task, file: &File, start: &Start) -> io::Result<Vec<Times>> {
    let mut pacing = Pacing::new(task);
    let mut times = vec![Times::default(); task.ios.len()];
    let longest = task.ios.iter().map(|io| io.len).max().unwrap_or(0) as usize;
    let mut memory = vec![0; longest + 4096];
    let aligned = memory.as_ptr().align_offset(4096);
    while let Some(due) = pacing.due(task) {
        sleep_until(start, due);
        for index in pacing.take(task) {
            let io = task.ios[index];
            let buffer = &mut memory[aligned..aligned + io.len as usize];
            let submitted = start.now().unwrap_or_default();
            match io.op {
                Op::Read => file.read_exact_at(buffer, io.offset)?,
                _ => file.write_all_at(buffer, io.offset)?,
            }
            let done = start.now().unwrap_or_default();
            times[index] = Times { due, submitted, done };
            pacing.ended(task, done);
        }
    }
    Ok(times)
}

fn many_at_a_time(task: &Task, file: File, start: &Start) -> io::Result<Vec<Times>> {
    let mut pacing = Pacing::new(task);
    let mut times = vec![Times::default(); task.ios.len()];
    let longest = task.ios.iter().map(|io| io.len).max().unwrap_or(0);
    let depth = if task.pace == Pace::At { task.ios.len() as u32 } else { task.depth };
    let mut aio = Aio::new(file, depth.max(1), longest)?;
    let mut batch = Vec::new();
    loop {
        let due = pacing.due(task);
        let now = start.now().unwrap_or_default();
        match due {
            None if aio.in_flight() == 0 => return Ok(times),
            Some(due) if due <= now => {
                batch.clear();
                for index in pacing.take(task) {
                    let io = task.ios[index];
                    (times[index].due, times[index].submitted) = (due, now);
                    batch.push((index as u64, io.op, io.offset, io.len));
                }
                aio.submit(&batch)?;
            }
            Some(due) if aio.in_flight() == 0 => sleep_until(start, due),
            _ => {
                let mut failed = None;
                aio.reap(due.map(|due| due - now), |ended| {
                    let done = start.now().unwrap_or_default();
                    times[ended.name as usize].done = done;
                    pacing.ended(task, done);
                    failed = failed.or(Some(ended.result).filter(|result| *result < 0));
                })?;
                if let Some(error) = failed {
                    return Err(io::Error::from_raw_os_error(-error as i32));
                }
            }
        }
    }
}

/// Applies the queue settings, and checks that the kernel adopted them.
fn set_up(device: u32, settings: &[(String, String)]) -> io::Result<()> {
    for (key, value) in settings {
        let path = format!("/sys/block/ublkb{device}/queue/{key}");
        fs::write(&path, value)
            .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
    }
    Ok(())
}

/// Runs `script` on this machine's kernel and on `device`, with the given queue settings. The
/// platters have already rotated for `phase`.
///
/// # Errors
/// Fails if the kernel rejects something.
pub(crate) fn performed(
    script: &Script,
    device: &str,
    settings: &[(String, String)],
    phase: Nanos,
    hold: Option<&Path>,
) -> Result<(Script, Outcome), String> {
    let disk = Disk::open(device)?;
    let has_flusher = script.tasks.iter().any(|task| task.pace == Pace::Buffered);
    let told = |error: io::Error| error.to_string();
    if !has_flusher {
        let (outcome, _) = run(script, disk, settings, phase, hold, false).map_err(told)?;
        return Ok((script.clone(), outcome));
    }
    let (mut outcome, writes) = run(script, disk, settings, phase, hold, true).map_err(told)?;
    // Report writes through the page cache as those of the flusher.
    let (flusher, times) = flushed::task(&writes);
    let mut script = script.clone();
    let is_direct: Vec<bool> =
        script.tasks.iter().map(|task| task.pace != Pace::Buffered).collect();
    let mut kept = is_direct.iter();
    script.tasks.retain(|_| kept.next() == Some(&true));
    let mut kept = is_direct.iter();
    outcome.times.retain(|_| kept.next() == Some(&true));
    script.tasks.push(flusher);
    outcome.times.push(times);
    Ok((script, outcome))
}

fn run(
    script: &Script,
    disk: Disk,
    settings: &[(String, String)],
    phase: Nanos,
    hold: Option<&Path>,
    traced: bool,
) -> io::Result<(Outcome, Vec<(Nanos, Io)>)> {
    let limits = DeviceLimits {
        sectors: disk.bytes() / 512,
        block_bytes: 4096,
        request_bytes_max: REQUEST_BYTES_MAX,
        queue_depth: DEPTH,
        rotational: true,
        volatile_cache: true,
        fua: false,
        read_only: false,
        discard_bytes_max: 0,
        zeroes_bytes_max: 0,
    };
    let mut control = Control::open()?;
    let id = control.add(&limits, None)?;
    control.set_limits(id, &limits)?;
    let start = &Start { origin: Instant::now(), at_ns: AtomicU64::new(NOT_BEGUN) };
    let path = format!("/dev/ublkb{id}");
    let outcome = thread::scope(|scope| {
        let server = scope.spawn(move || serve(id, disk, start, phase));
        control.start(id, std::process::id())?;
        // When the last descriptor of a device is closed, its dirty pages are written back. That
        // should be left to the flusher, so keep one open.
        let opened = File::open(&path)?;
        let times = set_up(id, settings)
            .and_then(|()| hold.map_or(Ok(()), |file| wait_for(file, true)))
            .and_then(|()| if traced { flushed::begin(|| start.machine()) } else { Ok(()) })
            .and_then(|()| perform_all(script, &path, start));
        let synced = wait_for_idle(id).and_then(|()| opened.sync_all());
        drop(opened);
        let writes = if traced { flushed::end(limits.sectors)? } else { Vec::new() };
        hold.map_or(Ok(()), |file| wait_for(file, false))?;
        control.stop(id)?;
        let served = server.join().map_err(|_| io::Error::other("the disk's thread failed"))??;
        synced?;
        let begin = start.at_ns.load(Ordering::Acquire);
        let since = |(at, io)| (Nanos(u64::saturating_sub(at, begin)), io);
        let end = served.ios.iter().map(|io| io.done).max().unwrap_or_default();
        let outcome = Outcome { end, busy: served.busy, ios: served.ios, times: times? };
        Ok((outcome, writes.into_iter().map(since).collect()))
    });
    control.delete(id)?;
    outcome
}

/// Waits until a file exists, or until it does not, to synchronize with a program that observes the
/// device.
fn wait_for(file: &Path, there: bool) -> io::Result<()> {
    while file.exists() != there {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Waits until the flusher has written all dirty pages.
fn wait_for_idle(device: u32) -> io::Result<()> {
    let inflight = format!("/sys/block/ublkb{device}/inflight");
    loop {
        let dirty = fs::read_to_string("/proc/meminfo")?;
        let kib = |name: &str| {
            let line = dirty.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        let left = kib("Dirty:").unwrap_or(0) + kib("Writeback:").unwrap_or(0);
        let under_way = fs::read_to_string(&inflight)?;
        if left <= DIRTY_KIB_LEFT && under_way.split_whitespace().all(|count| count == "0") {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The flusher stops when no more than this is left.
const DIRTY_KIB_LEFT: u64 = 16;

fn perform_all(script: &Script, path: &str, start: &Start) -> io::Result<Vec<Vec<Times>>> {
    start.at_ns.store(start.machine() + LEAD.0, Ordering::Release);
    thread::scope(|scope| {
        let threads: Vec<_> = script
            .tasks
            .iter()
            .map(|task| {
                let named = thread::Builder::new().name(task.name.clone());
                named.spawn_scoped(scope, move || perform(task, path, start))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread?.join().map_err(|_| io::Error::other("a task failed"))?)
            .collect()
    })
}
