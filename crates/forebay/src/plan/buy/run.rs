//! Simulates one set of drives under the requests of a group of clients. A run may end as soon as
//! more requests are late than allowed.

use std::cell::Cell;
use std::ops::ControlFlow;

use forebay_core::catalog::build_placed;
use forebay_core::contract::AnyPolicy;
use forebay_core::device::failing::{Failing, Failure, When};
use forebay_core::replay::{Intensity, Open};
use forebay_core::{
    Completion, Device, Done, Flags, Lane, Nanos, Observer, Op, Request, Slots, Workload, simulate,
};

use super::{CHUNK_KIB, Clients, DriveLayout, Merged, Set};
use crate::jobs::Tell;
use crate::layout::{Map, VolumeLayout};
use crate::plan::confidence::{BLOCKS, Bootstrap};
use crate::plan::devices::STRIPE_BYTES;
use crate::plan::devices::striped::Striped;
use crate::plan::spread::Spread;
use crate::{Error, OpenDevice};

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    /// For each client of the group, the number of its requests and how many of them were answered
    /// in time.
    pub(super) of: Vec<(u64, u64)>,
    /// The mean power of all drives together, in watts.
    pub(super) watts: f64,
    /// The mean power of all flash cache drives together, in watts.
    pub(super) flash_watts: f64,
    /// The share of the time that drives were busy: the mean over all drives, and that of the
    /// busiest.
    pub(super) busy: (f64, f64),
    /// Bytes per second written to the drive that receives most, and to the flash cache that
    /// receives most.
    pub(super) written_per_s: (f64, f64),
    /// For each client of the group, the numbers in `of` for each of [`BLOCKS`] blocks of equal
    /// time.
    pub(super) blocks: Vec<Vec<(u64, u64)>>,
}

/// The requests and the drives to simulate.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) clients: &'a Clients<'a>,
    /// The clients in the group whose requests are simulated.
    pub(super) group: &'a [usize],
    pub(super) kind: DriveLayout<'a>,
    /// The speed of arrivals relative to the recording.
    pub(super) intensity: Intensity,
    /// The factor by which the data are assumed to grow beyond their recorded extent.
    pub(super) growth: f64,
    /// The number of bytes that all traces use.
    pub(super) used: u64,
    pub(super) drives_max: usize,
    /// The share of the time that drives must be idle.
    pub(super) headroom: f64,
    /// The rate at which a failed drive is rebuilt, in bytes per second.
    pub(super) rebuild_bytes_per_s: f64,
    pub(super) bootstrap: Option<Bootstrap>,
}

/// When requests arrive: as recorded, or so far apart that they never overlap.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Come {
    AsRecorded,
    /// Requests arrive so far apart that they never overlap.
    Apart,
}

/// Whether a drive is missing or being rebuilt.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Health {
    /// All drives work.
    Whole,
    /// One drive is missing, and is not being rebuilt.
    Degraded,
    /// One drive is missing and is being rebuilt at this rate, in bytes per second.
    Rebuilding(f64),
}

/// The time between requests that must not overlap.
const ALONE_APART: Nanos = Nanos::from_secs(10);

/// How many arrivals pass between checks for a requested stop.
const EVERY: u64 = 4096;

/// A run of one set of drives.
pub(super) struct Run<'a> {
    pub(super) case: Case<'a>,
    pub(super) set: &'a Set,
    pub(super) sets: usize,
    pub(super) lane: usize,
    pub(super) come: Come,
    pub(super) still: Option<&'a OpenDevice>,
    pub(super) health: Health,
}

impl Run<'_> {
    /// Simulates the set. Returns `None` as soon as more requests are late than `allowed`.
    pub(super) fn count(
        &self,
        allowed: Option<Vec<u64>>,
        tell: &mut Tell<'_>,
        requests: &mut u64,
    ) -> Result<Option<Count>, Error> {
        let case = &self.case;
        let extents = case.clients.extents(case.group);
        let capacity = self.set.usable.saturating_mul(self.sets as u64);
        let records = case.clients.merged(case.group)?;
        let failed = records.failed();
        let layout = VolumeLayout::new(&extents, capacity, Map::Scale)
            .without_gaps(&case.clients.stretches(case.group));
        let apart = match self.come {
            Come::AsRecorded => None,
            Come::Apart => Some(ALONE_APART),
        };
        let (devices, lane, usable) = (self.sets, self.lane, self.set.usable);
        let striped = Striped { records, layout, devices, lane, usable, apart, next: 0 };
        let dealt = match case.kind.layout.is_array() {
            true => 1,
            false => u64::from(self.set.lanes.disks),
        };
        let intensity = match self.come {
            Come::AsRecorded => case.intensity,
            Come::Apart => Intensity::RECORDED,
        };
        let requests_of_set =
            Dealt { striped, lanes: dealt, next: None, rebuild: self.rebuild(intensity), given: 0 };
        let over = Cell::new(None);
        let drive = self.still.unwrap_or(case.kind.drive);
        let spread = Spread::new(drive.model.clone(), self.set.drive_bytes);
        let mut models = vec![spread; self.set.lanes.disks.into()];
        if case.kind.caches(self.set.lanes.disks.into()) > 0 {
            models.extend(case.kind.flash.map(|flash| Spread::new(flash.model.clone(), u64::MAX)));
        }
        let missing = Failure { lane: Some(0), when: When::From(Nanos::ZERO) };
        let failures = if self.health == Health::Whole { &[][..] } else { &[missing] };
        let lanes = models.into_iter().zip(0..);
        let models = lanes.map(|(model, lane)| Failing::new(model, lane, failures)).collect();
        let faster = |time: Nanos| Nanos((time.0 as f64 / case.intensity.times()) as u64);
        let lasts = faster(case.clients.lasts);
        let visit = Visit {
            workload: Until { open: Open::new(requests_of_set, intensity), over: &over },
            watch: Watch {
                place: places(case.group),
                within: case
                    .group
                    .iter()
                    .map(|c| case.clients.clients[*c].promise.within)
                    .collect(),
                of: vec![(0, 0); case.group.len()],
                blocks: vec![vec![(0, 0); BLOCKS as usize]; case.group.len()],
                written: vec![0; usize::from(self.set.lanes.disks) + 1],
                lasts,
                allowed,
                over: &over,
                requests,
                tell,
            },
            drives: self.set.lanes.disks.into(),
            models,
            lasts,
            paused: faster(case.clients.paused),
        };
        let count = visit.run(build_placed(&self.set.spec, &self.set.lanes)?);
        if let Some(error) = failed.iter().find_map(|failed| failed.take()) {
            return Err(error.into());
        }
        match over.get() {
            None => Ok(Some(count)),
            Some(Over::Late) => Ok(None),
            Some(Over::Stopped) => Err(Error::Stopped),
        }
    }
}

impl Run<'_> {
    /// Returns the reads that a rebuild causes, if one is under way. Each rebuilt chunk requires
    /// reading all data chunks of its unit.
    fn rebuild(&self, intensity: Intensity) -> Option<Rebuild> {
        let Health::Rebuilding(bytes_per_s) = self.health else { return None };
        let read_per_s = bytes_per_s * self.case.kind.layout.data_chunks() as f64;
        let len = (CHUNK_KIB << 10).min(self.set.usable);
        // Intensity speeds up the clock of arrivals, including the rebuild's. Multiplying by it
        // keeps the rebuild at its real rate.
        let every = len as f64 / read_per_s.max(1.0) * intensity.times();
        Some(Rebuild {
            len: len as u32,
            every: Nanos::from_secs_f64(every),
            chunks: (self.set.usable / len.max(1)).max(1),
            // The first stream number that is not a client.
            stream: self.case.clients.clients.len() as u32,
            done: 0,
        })
    }
}

/// The reads of a rebuild: one chunk after another, at a constant rate.
struct Rebuild {
    len: u32,
    every: Nanos,
    chunks: u64,
    stream: u32,
    done: u64,
}

impl Rebuild {
    fn at(&self) -> Nanos {
        Nanos(self.every.0.saturating_mul(self.done))
    }

    fn take(&mut self) -> Request {
        let (at, offset) = (self.at(), self.done % self.chunks * u64::from(self.len));
        self.done += 1;
        let (len, stream, op, flags) = (self.len, self.stream, Op::Read, Flags::NONE);
        Request { at, offset, id: 0, len, stream, lane: 0, op, flags }
    }
}

/// Returns the index of each client within the group.
fn places(group: &[usize]) -> Vec<usize> {
    let mut places = vec![0; group.iter().max().map_or(0, |most| most + 1)];
    group.iter().enumerate().for_each(|(place, client)| places[*client] = place);
    places
}

/// Why a run ended early.
#[derive(Clone, Copy)]
enum Over {
    Late,
    Stopped,
}

/// The requests of one set, distributed over its lanes; an array counts as one lane. Reads of a
/// rebuild are inserted until the last request.
struct Dealt<'a> {
    striped: Striped<Merged<'a>>,
    lanes: u64,
    next: Option<Request>,
    rebuild: Option<Rebuild>,
    given: u64,
}

impl Iterator for Dealt<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let next = self.next.take().or_else(|| self.striped.next())?;
        let rebuild = self.rebuild.as_mut().filter(|rebuild| rebuild.at() <= next.at);
        let mut request = match rebuild {
            Some(rebuild) => {
                self.next = Some(next);
                rebuild.take()
            }
            None => next,
        };
        (request.lane, request.offset) = dealt(request.offset, self.lanes);
        request.id = self.given;
        self.given += 1;
        Some(request)
    }
}

/// Returns the lane and the offset on that lane for an offset that is striped over `lanes`.
fn dealt(offset: u64, lanes: u64) -> (Lane, u64) {
    let (stripe, within) = (offset / STRIPE_BYTES, offset % STRIPE_BYTES);
    ((stripe % lanes) as Lane, stripe / lanes * STRIPE_BYTES + within)
}

/// A workload that ends early once `over` is set.
struct Until<'o, W> {
    open: W,
    over: &'o Cell<Option<Over>>,
}

impl<W: Workload> Workload for Until<'_, W> {
    fn peek(&self) -> Option<Nanos> {
        self.open.peek()
    }

    fn take(&mut self) -> Request {
        self.open.take()
    }

    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        self.open.finished(now, done, slots);
    }

    fn is_stopped(&self) -> bool {
        self.over.get().is_some()
    }
}

struct Watch<'o, 't, 'm> {
    /// For each client, its index in the vectors below.
    place: Vec<usize>,
    within: Vec<Nanos>,
    of: Vec<(u64, u64)>,
    blocks: Vec<Vec<(u64, u64)>>,
    /// Bytes written to each drive, and last to the flash cache.
    written: Vec<u64>,
    /// When the last request arrives.
    lasts: Nanos,
    allowed: Option<Vec<u64>>,
    over: &'o Cell<Option<Over>>,
    requests: &'m mut u64,
    tell: &'m mut Tell<'t>,
}

impl Observer for Watch<'_, '_, '_> {
    fn arrived(&mut self, _request: &Request) {
        *self.requests += 1;
        if self.requests.is_multiple_of(EVERY)
            && (self.tell)(*self.requests) == ControlFlow::Break(())
        {
            self.over.set(Some(Over::Stopped));
        }
    }

    fn io(&mut self, done: &Completion) {
        if done.io.op == Op::Write {
            self.written[usize::from(done.io.lane)] += u64::from(done.io.len);
        }
    }

    fn finished(&mut self, now: Nanos, done: &Done) {
        // Requests of a rebuild belong to no client.
        let Some(place) = self.place.get(done.request.stream as usize).copied() else { return };
        let is_in_time = done.latency(now) <= self.within[place] && done.outcome.is_ok();
        let parts = u128::from(done.request.at.0) * u128::from(BLOCKS);
        let block = (parts / (u128::from(self.lasts.0) + 1)) as usize;
        let block = &mut self.blocks[place][block.min(BLOCKS as usize - 1)];
        *block = (block.0 + 1, block.1 + u64::from(is_in_time));
        let (all, in_time) = &mut self.of[place];
        *all += 1;
        *in_time += u64::from(is_in_time);
        if self.allowed.as_ref().is_some_and(|allowed| *all - *in_time > allowed[place]) {
            self.over.set(Some(Over::Late));
        }
    }
}

struct Visit<'a, 'o, 't, 'm> {
    workload: Until<'o, Open<Dealt<'a>>>,
    watch: Watch<'o, 't, 'm>,
    drives: usize,
    models: Vec<Failing<Spread>>,
    /// When the trace ends; devices draw power until then.
    lasts: Nanos,
    /// The total length of gaps in the trace that are excluded from the utilization of the drives.
    paused: Nanos,
}

impl Visit<'_, '_, '_, '_> {
    fn run(mut self, mut policy: AnyPolicy) -> Count {
        let end = simulate::run(&mut policy, &mut self.models, &mut self.workload, &mut self.watch);
        let until = end.max(self.lasts);
        let seconds = (until - self.paused).as_secs_f64().max(1e-9);
        let busy = |model: &Failing<Spread>| (model.busy(until).as_secs_f64() / seconds).min(1.0);
        let watts = |model: &Failing<Spread>| model.joules(until) / until.as_secs_f64().max(1e-9);
        let drives = || self.models.iter().take(self.drives);
        Count {
            watts: drives().map(watts).sum(),
            flash_watts: self.models.iter().skip(self.drives).map(watts).sum(),
            busy: (
                drives().map(busy).sum::<f64>() / self.drives.max(1) as f64,
                drives().map(busy).fold(0.0, f64::max),
            ),
            written_per_s: (
                self.watch.written.iter().take(self.drives).copied().max().unwrap_or(0) as f64
                    / seconds,
                self.watch.written.get(self.drives).copied().unwrap_or(0) as f64 / seconds,
            ),
            of: self.watch.of,
            blocks: self.watch.blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_dealt_in_turn_and_none_lies_on_another() {
        assert_eq!(dealt(3 * STRIPE_BYTES + 4096, 2), (1, STRIPE_BYTES + 4096));
        let places = (0..60).map(|n| dealt(n * STRIPE_BYTES / 4, 3));
        let mut places: Vec<_> = places.collect();
        places.sort_unstable();
        let expected = (0..3).flat_map(|lane| (0..20).map(move |n| (lane, n * STRIPE_BYTES / 4)));
        assert_eq!(places, expected.collect::<Vec<_>>());
    }
}
