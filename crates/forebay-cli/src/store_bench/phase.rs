//! Runs a phase of a benchmark. Each client is a thread that performs one operation at a time until
//! no operations are left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Failure, Ledger, OperationKind, Stamp, Step, Steps, Tally, Target, Times, Turns, key};

/// The longest time to sleep before checking whether the run has ended.
const TICK: Duration = Duration::from_millis(50);

/// State shared by all clients, in all phases.
pub(super) struct Bench {
    pub(super) run: u64,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    pub(super) ledger: Ledger,
    /// Whether the records existed before this run, so that their values belong to another run.
    pub(super) is_found: bool,
    /// Set if the run was interrupted or the server has become unreachable.
    pub(super) is_over: Arc<AtomicBool>,
    /// The reason why the server is unreachable.
    pub(super) gone: Mutex<Option<String>>,
}

/// The operations of a phase.
pub(super) enum Plan<'a> {
    /// Write every record once.
    Load,
    Steps(&'a Steps),
}

impl Bench {
    /// Runs a phase with these clients. Returns their counts and the elapsed time.
    pub(super) fn phase(
        &self,
        targets: &mut [Target],
        turns: &Turns,
        plan: &Plan<'_>,
    ) -> (Tally, Duration) {
        let begun = Instant::now();
        let tallies = thread::scope(|scope| {
            let threads: Vec<_> = targets
                .iter_mut()
                .map(|target| {
                    scope.spawn(move || {
                        let buffers = (Vec::new(), Vec::new(), Vec::new());
                        let (key, value, scratch) = buffers;
                        let tally = Tally::default();
                        let mut client =
                            Client { bench: self, target, begun, tally, key, value, scratch };
                        client.work(turns, plan);
                        client.tally
                    })
                })
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
        });
        let mut all = Tally::default();
        tallies.into_iter().for_each(|tally| all.add(tally));
        (all, begun.elapsed())
    }

    fn has_gone(&self, why: String) {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// A running client.
struct Client<'a> {
    bench: &'a Bench,
    target: &'a mut Target,
    begun: Instant,
    tally: Tally,
    key: Vec<u8>,
    value: Vec<u8>,
    scratch: Vec<u8>,
}

/// The reason why an operation was not completed as expected.
enum Unlike {
    Failed(Failure),
    Wrong(String),
}

impl From<Failure> for Unlike {
    fn from(failure: Failure) -> Unlike {
        Unlike::Failed(failure)
    }
}

impl Client<'_> {
    fn work(&mut self, turns: &Turns, plan: &Plan<'_>) {
        while !self.bench.is_over()
            && let Some((at, meant)) = turns.next()
        {
            let taken = self.begun.elapsed();
            let step = match plan {
                Plan::Load => Step { kind: OperationKind::Insert, record: at, count: 1 },
                Plan::Steps(steps) => steps.step(at),
            };
            if meant.is_some_and(|meant| !self.sleeps_until(meant)) {
                return;
            }
            let sent = self.begun.elapsed();
            let intended = meant.unwrap_or(sent);
            if let Some(meant) = meant {
                self.tally.sent(sent.saturating_sub(meant.max(taken)), meant < taken);
            }
            let done = self.step(step);
            let ended = self.begun.elapsed();
            match done {
                Ok(bytes) => {
                    self.tally.done(step.kind, Times { intended, sent, ended }, bytes);
                    if let (Plan::Steps(steps), OperationKind::Insert) = (plan, step.kind) {
                        steps.inserted(step.record);
                    }
                }
                Err(Unlike::Wrong(what)) => self.tally.wrong(step.kind, &what),
                Err(Unlike::Failed(Failure::Refused(what))) => self.tally.failed(step.kind, &what),
                Err(Unlike::Failed(Failure::Gone(why))) => return self.bench.has_gone(why),
                Err(Unlike::Failed(Failure::Over)) => return,
            }
        }
    }

    /// Sleeps until `meant`, relative to the start of the phase. Returns false if the run ended
    /// first.
    fn sleeps_until(&self, meant: Duration) -> bool {
        loop {
            let left = meant.saturating_sub(self.begun.elapsed());
            if left.is_zero() || self.bench.is_over() {
                return left.is_zero();
            }
            thread::sleep(left.min(TICK));
        }
    }

    /// Performs an operation. Returns the number of bytes of values that it read or wrote.
    fn step(&mut self, step: Step) -> Result<u64, Unlike> {
        key(step.record, self.bench.key_bytes, &mut self.key);
        match step.kind {
            OperationKind::Read => self.read(step.record),
            OperationKind::Update | OperationKind::Insert => self.write(step.record),
            OperationKind::Scan => self.scan(step.count),
            OperationKind::ReadModifyWrite => {
                Ok(self.read(step.record)? + self.write(step.record)?)
            }
        }
    }

    fn write(&mut self, record: u64) -> Result<u64, Unlike> {
        let write = self.bench.ledger.begin(record);
        let stamp = Stamp { record, run: self.bench.run, version: write.version };
        stamp.put(&mut self.value, self.bench.value_bytes);
        self.target.put(&self.key, &self.value)?;
        self.bench.ledger.done(record, write);
        Ok(self.value.len() as u64)
    }

    fn read(&mut self, record: u64) -> Result<u64, Unlike> {
        let least = self.bench.ledger.least(record);
        let found = self.target.get(&self.key)?;
        let name = String::from_utf8_lossy(&self.key);
        let wrong = |what: String| Unlike::Wrong(format!("{name}: {what}"));
        let Some(value) = found else {
            return match least > 0 || self.bench.is_found {
                true => Err(wrong("got no value, although one was written".into())),
                false => Ok(0),
            };
        };
        let stamp = Stamp::of(&value, self.bench.value_bytes, &mut self.scratch).map_err(wrong)?;
        // Values of earlier runs are older than all values of this run.
        let version = if stamp.run == self.bench.run { stamp.version } else { 0 };
        if stamp.record != record {
            return Err(wrong("got another key's value".into()));
        }
        if version < least {
            return Err(wrong(format!(
                "got version {version}, although version {least} had been acknowledged"
            )));
        }
        Ok(value.len() as u64)
    }

    fn scan(&mut self, count: usize) -> Result<u64, Unlike> {
        let records = self.target.scan(&self.key, count)?;
        let name = String::from_utf8_lossy(&self.key);
        let wrong = |what: String| Unlike::Wrong(format!("from {name}: {what}"));
        let in_order = records.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !in_order || records.len() > count || records.iter().any(|(found, _)| *found < self.key)
        {
            return Err(wrong("got keys that were not requested, or in the wrong order".into()));
        }
        let mut bytes = 0;
        let mut own = Vec::new();
        for (found, value) in &records {
            // An earlier run may have left keys and values of different lengths.
            let stamp = Stamp::of(value, value.len(), &mut self.scratch).map_err(wrong)?;
            let Bench { run, key_bytes, value_bytes, .. } = *self.bench;
            if stamp.run == run && value.len() != value_bytes {
                let got = value.len();
                return Err(wrong(format!("got a value of {got} bytes, expected {value_bytes}")));
            }
            key(stamp.record, if stamp.run == run { key_bytes } else { found.len() }, &mut own);
            if own != *found {
                return Err(wrong("got another key's value".into()));
            }
            bytes += value.len() as u64;
        }
        Ok(bytes)
    }
}
