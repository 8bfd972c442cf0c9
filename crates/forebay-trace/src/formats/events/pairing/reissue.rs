//! Handles requests that are issued again: if the driver is busy, a request is returned to the
//! scheduler and issued once more, alone, merged with others or in parts. A trace that contains
//! only issues and completions then shows two issues and one completion.
//!
//! If the trace also contains requeue events (R), the next issue of the same sectors belongs to the
//! same request, however late it is. Without these events, only what follows distinguishes a second
//! issue from another request for the same sectors. A completion ends the oldest request for
//! exactly its sectors; every other request for these sectors is then in doubt. If it completes
//! later, it was a separate request. If it is issued once more, or never completes, it was the same
//! request, so it is left out and counted. A busy driver is retried within [`AGAIN_NS`], so a later
//! issue is another request, and the previous one has lost its completion. Empty flushes have no
//! sectors: a flush in doubt is left out if the next one is issued long after it.
//!
//! If a part of a request completes, the driver may return only the rest to the scheduler. An issue
//! of exactly the sectors that a request still awaits after such a completion belongs to that
//! request.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::{Nanos, Op};

use super::waiting::{Exclusion, Pending, Place};
use super::{Category, Pairing, Span};

/// If several flushes are outstanding, a flush may take this many times as long as one that
/// completed.
const FLUSH_TIMES: u64 = 10;
/// The maximum number of outstanding requests for one place that are compared. Older ones have most
/// likely lost their completions.
const PLACE_MAX: usize = 64;
/// The maximum time between two issues of the same request: one second.
const AGAIN_NS: u64 = 1_000_000_000;

impl Pairing {
    pub(super) fn pending(&mut self, id: u64) -> Option<&mut Pending> {
        let index = id.checked_sub(self.first)?;
        self.pending.get_mut(usize::try_from(index).ok()?)
    }

    /// Processes a request, or the rest of one, that was returned to the scheduler.
    pub(super) fn requeue(&mut self, span: &Span) {
        let index = self.outstanding(span, |pending| !pending.requeued);
        let index = index.or_else(|| self.rest(span));
        if let Some(pending) = index.and_then(|index| self.pending.get_mut(index)) {
            pending.requeued = true;
            self.has_requeued = true;
        }
    }

    /// Returns whether a request that is being issued had been returned to the scheduler.
    pub(super) fn is_issued_again(&mut self, span: &Span) -> bool {
        if !self.has_requeued && !self.has_partly {
            return false;
        }
        let at = self.at();
        let is_near = |one: &Pending| {
            one.requeued || one.partly.is_some_and(|part| at - part <= Nanos(AGAIN_NS))
        };
        let index = self.outstanding(span, |pending| pending.requeued);
        let index = index.or_else(|| self.rest(span));
        let pending = index.and_then(|index| self.pending.get_mut(index));
        let Some(pending) = pending.filter(|pending| is_near(pending)) else { return false };
        pending.requeued = false;
        self.tally.issued_again += 1;
        true
    }

    /// Returns the position of the oldest outstanding request for exactly these sectors that
    /// satisfies `fits`.
    fn outstanding(&mut self, span: &Span, fits: impl Fn(&Pending) -> bool) -> Option<usize> {
        let (op, volume) = (span.op()?, self.volumes.find(span.device)?);
        let place: Place = (op as u8, span.sector, span.bytes);
        let ids = match op {
            Op::Flush => &volume.flushes,
            _ => volume.issued.get(&place)?,
        };
        let (first, pending) = (self.first, &self.pending);
        ids.iter()
            .filter_map(|id| Some(id.checked_sub(first)? as usize))
            .find(|&index| pending.get(index).is_some_and(|one| !one.done && fits(one)))
    }

    /// Returns the position of the oldest request of which a part has completed and which still
    /// awaits exactly these sectors.
    fn rest(&mut self, span: &Span) -> Option<usize> {
        let op = span.op().filter(|op| self.has_partly && *op != Op::Flush)?;
        let volume = self.volumes.find(span.device)?;
        let mut awaited: BTreeMap<u64, u64> = BTreeMap::new();
        volume.direction(op).for_each_overlapping(span.sector, span.end(), |id, sectors| {
            *awaited.entry(id).or_default() += sectors;
        });
        let all = span.end() - span.sector;
        awaited.into_iter().filter(|&(_, sectors)| sectors == all).find_map(|(id, _)| {
            let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
            let is_rest = |one: &Pending| !one.done && one.partly.is_some() && one.awaited == all;
            self.pending.get(index).is_some_and(is_rest).then_some(index)
        })
    }

    /// Processes the issue of a request: requests in doubt for the same sectors are the same
    /// request.
    pub(super) fn issue(&mut self, id: u64, pending: &Pending) {
        let Some(volume) = self.volumes.get(pending.record.volume) else { return };
        if pending.record.op == Op::Flush {
            let flushed = volume.flushed.take();
            let is_late = |&(at, took): &(Nanos, Nanos)| {
                pending.record.at - at > Nanos(took.0.saturating_mul(FLUSH_TIMES))
            };
            if flushed.filter(is_late).is_some() {
                let again = std::mem::take(&mut volume.flushes);
                again.into_iter().for_each(|id| self.leave_out(id));
            }
            return;
        }
        let place = pending.place();
        let ids = volume.issued.entry(place).or_default();
        if ids.is_empty() {
            ids.push_back(id);
            return;
        }
        let before = std::mem::take(ids);
        let (again, mut under_way): (VecDeque<u64>, VecDeque<u64>) = before
            .into_iter()
            .partition(|&id| self.pending(id).is_some_and(|pending| pending.is_doubtful()));
        again.into_iter().for_each(|id| self.leave_out(id));
        if under_way.len() >= PLACE_MAX {
            under_way.pop_front();
        }
        under_way.push_back(id);
        if let Some(volume) = self.volumes.get(pending.record.volume) {
            volume.issued.insert(place, under_way);
        }
    }

    fn leave_out(&mut self, id: u64) {
        let Some(pending) = self.pending(id).filter(|pending| !pending.done) else { return };
        (pending.done, pending.excluded) = (true, Some(Exclusion::IssuedAgain));
        let (record, sector, end) = (pending.record, pending.sector, pending.end());
        if let Some(volume) = self.volumes.get(record.volume) {
            volume.direction(record.op).forget(id, sector, end);
        }
    }

    /// Ends the oldest request for exactly these sectors. Returns whether there was one.
    pub(super) fn complete_exact(&mut self, span: &Span, op: Op, at: Nanos) -> bool {
        let place: Place = (op as u8, span.sector, span.bytes);
        let volume = self.volumes.find(span.device);
        let Some(ids) = volume.and_then(|volume| volume.issued.get(&place)) else { return false };
        let first = self.first;
        let issued_at = |id: &u64| {
            let index = id.checked_sub(first).map(|index| index as usize);
            let pending = index.and_then(|index| self.pending.get(index))?;
            (!pending.done).then_some((*id, pending.record.at))
        };
        let mut oldest: Option<(u64, Nanos)> = None;
        let mut last = Nanos::ZERO;
        for (id, issued) in ids.iter().filter_map(issued_at) {
            // If a request was issued long before the next, either its completion was lost or both
            // are the same request.
            if oldest.is_none() || issued - last > Nanos(AGAIN_NS) {
                oldest = Some((id, issued));
            }
            last = issued;
        }
        let Some((id, issued)) = oldest else { return false };
        let Some(pending) = self.pending(id) else { return false };
        pending.record.latency = Some(at - issued);
        pending.failed |= span.category.has(Category::FAILED);
        (pending.done, pending.awaited) = (true, 0);
        let Some(volume) = self.volumes.find(span.device) else { return false };
        volume.completes = true;
        let outstanding = volume.direction(op);
        outstanding.forget(id, span.sector, span.end());
        let pending = &mut self.pending;
        outstanding.for_each_overlapping(span.sector, span.end(), |id, sectors| {
            let index = id.checked_sub(first).map(|index| index as usize);
            let other = index.and_then(|index| pending.get_mut(index));
            let is_near = |other: &&mut Pending| {
                other.requeued || other.record.at.0.abs_diff(issued.0) <= AGAIN_NS
            };
            if let Some(other) = other.filter(is_near) {
                other.covered = other.covered.saturating_add(sectors);
            }
        });
        true
    }

    /// Processes the completion of a flush that took `took`, after which other outstanding flushes
    /// are in doubt.
    pub(super) fn doubt_flushes(&mut self, span: &Span, at: Nanos, took: Nanos) {
        let Some(volume) = self.volumes.find(span.device) else { return };
        let others = volume.flushes.clone();
        volume.flushed = (!others.is_empty()).then_some((at, took));
        for id in others {
            if let Some(pending) = self.pending(id) {
                pending.covered = 1;
            }
        }
    }
}
