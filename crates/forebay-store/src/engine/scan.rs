//! Scans: pages of keys in order, with their values, each page as of a single point in time.
//!
//! Data read beyond the end of a page, and reads in flight, are kept for a while for a scan that
//! continues there on the same segments. They are discarded when a merge or transformation ends or
//! a snapshot is released, because they would prevent segments from being freed.

use std::rc::Rc;

use crate::record::{Key, Record};
use crate::{OperationError, Page};

use super::{
    Engine, Hole, Log, Pace, Picture, Records, Run, State, Stream, Version, after, newest, pass,
};

/// The minimum length of a read when memory is short.
const STEP_BYTES_MIN: u64 = 64 << 10;
/// The maximum number of scans kept between pages.
const KEPT_MAX: usize = 64;
/// The approximate size of a leaf, unless a single record is longer.
const LEAF_BYTES: f64 = 8192.0;

/// The limits of a page.
#[derive(Clone, Debug)]
pub(super) struct PageLimits {
    /// The first key of the page.
    pub(super) from: Key,
    /// The maximum number of keys.
    pub(super) count: usize,
    /// The maximum number of bytes of keys and values, unless the first record alone has more.
    pub(super) bytes: u64,
}

/// A scan between two pages.
pub(super) struct PausedScan {
    version: Rc<Version>,
    /// The first key of the next page.
    next: Key,
    runs: Vec<Stream>,
}

/// The records of a log as of a single point in time.
struct InLog {
    log: Rc<Log>,
    upto: u64,
    next: Option<Record>,
}

impl InLog {
    fn new(log: &Rc<Log>, from: &Key, upto: u64) -> InLog {
        InLog { log: Rc::clone(log), upto, next: log.first(from, upto) }
    }
}

/// A source of records.
enum Source {
    Log(InLog),
    Run(Box<Stream>),
}

impl Records for Source {
    async fn fill(&mut self) -> Result<(), OperationError> {
        match self {
            Source::Log(_) => Ok(()),
            Source::Run(stream) => stream.fill().await,
        }
    }

    fn peek(&self) -> Option<&Record> {
        match self {
            Source::Log(log) => log.next.as_ref(),
            Source::Run(stream) => stream.peek(),
        }
    }

    fn pop(&mut self) -> Option<Record> {
        match self {
            Source::Log(log) => {
                let popped = log.next.take()?;
                log.next = log.log.first(&after(&popped.key), log.upto);
                Some(popped)
            }
            Source::Run(stream) => stream.pop(),
        }
    }
}

impl Engine {
    /// Reads a page.
    pub(super) async fn scan(
        self: &Rc<Self>,
        wanted: PageLimits,
        picture: Picture,
    ) -> Result<Page, OperationError> {
        self.state.borrow_mut().scanning += 1;
        let page = self.page(wanted, picture).await;
        self.state.borrow_mut().scanning -= 1;
        page
    }

    async fn page(
        self: &Rc<Self>,
        wanted: PageLimits,
        picture: Picture,
    ) -> Result<Page, OperationError> {
        self.know()?;
        if let Some(trees) = &self.trees {
            return self.scan_in_place(trees, wanted).await;
        }
        let Picture { logs, version, upto } = picture;
        let runs = match self.kept(&version, &wanted.from) {
            Some(runs) => runs,
            None => self.streams(&version, &wanted),
        };
        let in_logs = logs.iter().map(|log| Source::Log(InLog::new(log, &wanted.from, upto)));
        let mut sources: Vec<Source> =
            in_logs.chain(runs.into_iter().map(|run| Source::Run(Box::new(run)))).collect();
        let mut page = Page::default();
        let mut bytes = 0;
        let mut last = None;
        while page.records.len() < wanted.count {
            let next = newest(&mut sources).await?;
            let from = last.as_ref().unwrap_or(&wanted.from);
            is_free_of_holes(&version, from, next.as_ref().map(|next| &next.key))?;
            let Some(Record { key, value, .. }) = next else { return Ok(page) };
            let len = value.as_ref().map_or(0, |value| (key.len() + value.len()) as u64);
            bytes += len;
            if bytes > wanted.bytes && len > 0 && !page.records.is_empty() {
                break;
            }
            pass(&mut sources, &key);
            page.records.extend(value.map(|value| (key.clone(), value)));
            last = Some(key);
        }
        let next = last.map_or(wanted.from, |last| after(&last));
        page.next = Some(next.clone());
        let is_run = |source| match source {
            Source::Run(stream) => Some(*stream),
            Source::Log(_) => None,
        };
        self.keep(PausedScan {
            version,
            next,
            runs: sources.into_iter().filter_map(is_run).collect(),
        });
        Ok(page)
    }

    /// Creates streams over all runs from a key on. The first read of each is about as long as the
    /// run's expected share of the page.
    fn streams(self: &Rc<Self>, version: &Version, wanted: &PageLimits) -> Vec<Stream> {
        let of = |run: &Run| {
            let shapes = run.parts.iter().map(|part| part.segment.described.shape);
            shapes.fold((0, 0), |sum: (u64, u64), shape| {
                (sum.0 + shape.records, sum.1 + shape.record_bytes)
            })
        };
        let all: Vec<(u64, u64)> = version.runs.iter().map(|run| of(run)).collect();
        let records = all.iter().map(|run| run.0).sum::<u64>().max(1) as f64;
        let bytes = all.iter().map(|run| run.1).sum::<u64>().max(1) as f64;
        let count = (wanted.count as f64).min(wanted.bytes as f64 * records / bytes + 1.0);
        // Concurrent scans share the memory; for each run, one step is consumed while another is
        // being read.
        let ahead = self.config.scan_bytes as f64 / 4.0 / self.state.borrow().scanning as f64;
        let streams = version.runs.iter().zip(&all).map(|(run, &(run_records, run_bytes))| {
            let mean = run_bytes as f64 / run_records.max(1) as f64;
            // With random keys, one run in 40 has more records in the page than that. The first and
            // the last leaf extend beyond the page.
            let expected = count * run_records as f64 / records;
            let leaf = mean.max(LEAF_BYTES);
            let expected = (expected + 2.0 * expected.sqrt()) * mean + 2.0 * leaf;
            let step_max = ((ahead * run_bytes as f64 / bytes) as u64)
                .max(STEP_BYTES_MIN)
                .min(self.config.step_bytes as u64);
            let expected = expected as u64;
            let step = expected.min(step_max);
            let pace = Pace { step, step_max, wanted: expected, waits: false };
            Stream::new(self, run, &wanted.from, pace)
        });
        streams.collect()
    }

    /// Returns the streams of a scan whose last page ended at this key, if it used the same
    /// segments.
    fn kept(&self, version: &Rc<Version>, from: &Key) -> Option<Vec<Stream>> {
        let mut state = self.state.borrow_mut();
        let is_it = |kept: &PausedScan| Rc::ptr_eq(&kept.version, version) && kept.next == *from;
        let at = state.scans.iter().position(is_it)?;
        let mut runs = state.scans.remove(at)?.runs;
        drop(state);
        runs.iter_mut().for_each(Stream::go_on);
        Some(runs)
    }

    /// Keeps a scan for its next page; if there are too many, the oldest are dropped.
    fn keep(&self, scan: PausedScan) {
        let mut state = self.state.borrow_mut();
        state.scans.push_back(scan);
        let bytes = |kept: &PausedScan| kept.runs.iter().map(Stream::bytes).sum::<u64>();
        let mut held: u64 = state.scans.iter().map(bytes).sum();
        while held > self.config.scan_bytes || state.scans.len() > KEPT_MAX {
            let oldest = state.scans.pop_front();
            held -= oldest.as_ref().map_or(held, bytes);
        }
        state.drop_stale_scans();
    }
}

/// Fails if a hole may contain keys in the range.
fn is_free_of_holes(
    version: &Version,
    from: &Key,
    upto: Option<&Key>,
) -> Result<(), OperationError> {
    let mut holes = version.segments().flat_map(|segment| &segment.holes);
    let is_in_the_way = |hole: &&Hole| match upto {
        Some(upto) => hole.may_have(from, upto),
        None => hole.goes_beyond(from),
    };
    holes.find(is_in_the_way).map_or(Ok(()), |hole| Err(hole.failure.clone()))
}

impl State {
    /// Drops scans of segments that belong neither to the current version nor to a snapshot.
    pub(super) fn drop_stale_scans(&mut self) {
        let (now, snapshots) = (&self.version, &self.snapshots);
        self.scans.retain(|kept| {
            let is_of = |version: &Rc<Version>| Rc::ptr_eq(&kept.version, version);
            is_of(now) || snapshots.values().any(|picture| is_of(&picture.version))
        });
        if self.is_closing {
            self.scans.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Executor;
    use crate::{Config, Layout, Operation};

    fn engine() -> Rc<Engine> {
        let layout = |disk| Layout {
            store: 1,
            disk,
            disks: 4,
            root_bytes: 32768,
            log_slots: 2,
            slot_bytes: 65536,
            capacity_bytes: 1 << 24,
            is_labelled_at_end: true,
        };
        let layouts: Vec<Layout> = (0..4).map(layout).collect();
        Engine::new(&Rc::new(Executor::default()), Config::default(), &layouts, None)
    }

    fn keep(engine: &Engine, next: usize) {
        let version = Rc::clone(&engine.state.borrow().version);
        engine.keep(PausedScan { version, next: Key::from([next as u8]), runs: Vec::new() });
    }

    #[test]
    fn a_scan_is_continued_once_and_old_scans_are_forgotten() {
        let engine = engine();
        (0..KEPT_MAX + 3).for_each(|next| keep(&engine, next));
        let version = engine.picture().version;
        let is_kept = |next: usize| engine.kept(&version, &Key::from([next as u8])).is_some();
        assert_eq!(
            [0, 2, 3, 3, 50, KEPT_MAX + 2].map(is_kept),
            [false, false, true, false, true, true]
        );
        assert!(engine.kept(&Rc::default(), &Key::from([9])).is_none(), "of other segments");
        assert!(is_kept(9));
    }

    #[test]
    fn deleted_values_are_kept_only_for_snapshots() {
        let engine = engine();
        keep(&engine, 1);
        engine.begin(7, Operation::Snapshot);
        let replace = || {
            let mut state = engine.state.borrow_mut();
            state.version = Rc::default();
            state.drop_stale_scans();
            state.scans.len()
        };
        assert_eq!(replace(), 1, "the snapshot's");
        keep(&engine, 2);
        assert_eq!(replace(), 1);
        engine.begin(8, Operation::Release(7));
        assert!(engine.state.borrow().scans.is_empty());
        keep(&engine, 3);
        engine.state.borrow_mut().is_closing = true;
        engine.state.borrow_mut().drop_stale_scans();
        assert!(engine.state.borrow().scans.is_empty());
    }
}
