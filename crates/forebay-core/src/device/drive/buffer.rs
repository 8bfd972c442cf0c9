//! The track buffer: segments that each contain one run of sectors, one of which receives
//! read-ahead.
//!
//! A read whose first sector is in a segment is a hit, even while read-ahead is still loading the
//! rest. The least recently used segment is reused first. A write takes its own segment and empties
//! those that it overlaps. Read-ahead continues until its limit or until the arm is needed
//! elsewhere, and is computed only then. If it replaces data that the host has read ("Read-ahead
//! over requested"), reads of that data miss, as on measured drives with this setting. If written
//! data cannot be read from the buffer, a write takes no segment.

use crate::device::hdd::geometry::Place;

use super::search::search;
use super::{BufferSpec, ReadAhead, Surface};

/// A run of sectors in the buffer. Empty if `start` equals `end`.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    start: u64,
    end: u64,
    /// The sector before which transferred data may have been overwritten by read-ahead.
    replaced: u64,
    written: bool,
    /// Whether the data is not on the media yet.
    dirty: bool,
    /// The time by which all data except read-ahead had entered the buffer.
    since: u64,
    used: u64,
}

/// Read-ahead in progress.
#[derive(Clone, Copy, Debug)]
struct Stream {
    segment: usize,
    /// The time at which the head had read up to the stream time `passed`.
    time: u64,
    passed: u64,
    limit: u64,
}

/// The part of a read that is in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    segment: usize,
    /// The number of sectors, from the first one on, that are in the buffer or will arrive without
    /// another access.
    pub(super) sectors: u64,
    /// When the last of these sectors will be in the buffer.
    pub(super) there: u64,
}

/// The position of the head when read-ahead is stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopped {
    pub(super) place: Place,
    /// The next sector that read-ahead would have read.
    pub(super) next: u64,
    /// When the arm becomes free.
    pub(super) free_at: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Buffer {
    spec: BufferSpec,
    segments: Vec<Segment>,
    stream: Option<Stream>,
    uses: u64,
    /// The segments that may have grown since the last call of [`Buffer::grown`].
    changed: Vec<usize>,
}

impl Buffer {
    pub(super) fn new(spec: BufferSpec) -> Buffer {
        let segments = vec![Segment::default(); spec.segments as usize];
        Buffer { spec, segments, stream: None, uses: 0, changed: Vec::new() }
    }

    pub(super) fn spec(&self) -> &BufferSpec {
        &self.spec
    }

    /// Returns a range of sectors that may have been added to the buffer, or to its read-ahead,
    /// since the last call.
    pub(super) fn grown(&mut self) -> Option<(u64, u64)> {
        self.changed.pop().map(|segment| self.reach(segment))
    }

    /// Returns whether `sector` is in a segment, or is being read ahead into one.
    pub(super) fn reaches(&self, sector: u64) -> bool {
        self.holds(sector) || self.stream.is_some_and(|stream| self.is_ahead(&stream, sector))
    }

    /// Returns whether `sector` is in a segment.
    fn holds(&self, sector: u64) -> bool {
        // Branch-free, because branches would be unpredictable.
        let has = |segment: &Segment| (segment.start <= sector) & (sector < segment.end);
        self.segments.iter().fold(false, |held, segment| held | has(segment))
    }

    /// Returns whether `sector` is between the start of the segment of `stream` and the read-ahead
    /// limit.
    fn is_ahead(&self, stream: &Stream, sector: u64) -> bool {
        self.segments[stream.segment].start <= sector && sector < stream.limit
    }

    /// Returns whether read-ahead has read `sector`. A sector that is being read also counts if
    /// such reads are hits.
    fn has_come(&self, surface: &Surface, now: u64, sector: u64) -> bool {
        self.stream.is_some_and(|stream| {
            let is_there = |place: Place| {
                let width = if self.spec.almost_hits { place.ends - place.begins } else { 0 };
                stream.at(place.ends).saturating_sub(width) <= now
            };
            self.is_ahead(&stream, sector) && is_there(surface.place(sector))
        })
    }

    fn reach(&self, index: usize) -> (u64, u64) {
        let segment = &self.segments[index];
        let stream = self.stream.filter(|stream| stream.segment == index);
        (segment.start, stream.map_or(segment.end, |stream| stream.limit.max(segment.end)))
    }

    /// Returns how much of `count` sectors starting at `first` is in the buffer at `now`.
    pub(super) fn find(&self, surface: &Surface, now: u64, first: u64, count: u64) -> Option<Hit> {
        if !self.holds(first) && !self.has_come(surface, now, first) {
            return None;
        }
        let mut best: Option<(u32, Hit)> = None;
        for (index, segment) in self.segments.iter().enumerate() {
            if first < segment.start.max(segment.replaced)
                || (segment.written && !self.spec.hits_on_written)
            {
                continue;
            }
            let stream = self.stream.filter(|stream| stream.segment == index);
            let limit = stream.map_or(segment.end, |stream| stream.limit.max(segment.end));
            if first >= limit || segment.start == limit {
                continue;
            }
            if stream.is_some_and(|s| s.overwrote(surface, now, first + self.spec.segment_sectors))
            {
                continue;
            }
            let here = |sector: u64| match stream {
                Some(stream) if sector >= segment.end => stream.there(surface, sector),
                _ => segment.since,
            };
            let end = (first + count).min(limit);
            if here(first) > now && !(self.spec.almost_hits && self.under_head(surface, now, first))
            {
                continue;
            }
            let hit = Hit { segment: index, sectors: end - first, there: here(end - 1) };
            let whole = end == first + count && hit.there <= now;
            let value =
                u32::from(whole) * 4 + u32::from(segment.dirty) * 2 + u32::from(stream.is_some());
            if best.is_none_or(|(most, _)| value > most) {
                best = Some((value, hit));
            }
        }
        best.map(|(_, hit)| hit)
    }

    fn under_head(&self, surface: &Surface, now: u64, sector: u64) -> bool {
        let Some(stream) = self.stream else { return false };
        let place = surface.place(sector);
        let width = place.ends - place.begins;
        stream.there(surface, sector).saturating_sub(width) <= now
    }

    /// Extends the current read-ahead after a read of `count` sectors starting at `first` with a
    /// `hit`.
    pub(super) fn hit(&mut self, surface: &Surface, hit: Hit, first: u64, count: u64) {
        self.touch(hit.segment);
        self.replace(hit.segment, first + count);
        let start = self.segments[hit.segment].start;
        let limit = self.limit(surface, start, first, count);
        if let Some(stream) = self.stream.as_mut().filter(|stream| stream.segment == hit.segment) {
            stream.limit = stream.limit.max(limit);
        }
    }

    /// Returns where read-ahead resumes after a hit in a segment whose read-ahead had ended.
    pub(super) fn resume(
        &self,
        surface: &Surface,
        hit: Hit,
        first: u64,
        count: u64,
    ) -> Option<u64> {
        let segment = &self.segments[hit.segment];
        let idle = self.stream.is_none_or(|stream| stream.segment != hit.segment);
        let limit = self.limit(surface, segment.start, first, count);
        (self.spec.read_ahead_on_hit && idle && !segment.dirty && segment.end < limit)
            .then_some(segment.end)
    }

    fn touch(&mut self, segment: usize) {
        self.uses += 1;
        self.segments[segment].used = self.uses;
        if !self.changed.contains(&segment) {
            self.changed.push(segment);
        }
    }

    /// Returns the sector before which read-ahead ends after a read of `count` sectors starting at
    /// `first`.
    fn limit(&self, surface: &Surface, start: u64, first: u64, count: u64) -> u64 {
        let end = first + count;
        let limit = match self.spec.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Track => surface.track(end - 1).1 + 1,
            ReadAhead::Cylinder => {
                let cylinder = surface.place(end - 1).cylinder;
                let last = surface.row_end(end - 1);
                search(end, last, |sector| surface.place(sector).cylinder <= cylinder)
            }
            ReadAhead::Limit => end.saturating_add(self.spec.read_ahead_sectors),
            ReadAhead::NextTrack if end >= surface.sectors => end,
            ReadAhead::NextTrack => {
                let (from, to) = surface.track(end);
                if start >= from || to + 1 >= surface.sectors {
                    to + 1
                } else {
                    surface.track(to + 1).1 + 1
                }
            }
        };
        limit.clamp(end, surface.sectors.max(end))
    }

    /// Allocates a segment for a read from the media, or continues the segment of `hit`. The read
    /// ends at `ends`, and its data begins at sector `start`. Returns when read-ahead ends.
    pub(super) fn fill(
        &mut self,
        surface: &Surface,
        hit: Option<Hit>,
        start: u64,
        request: (u64, u64),
        ends: u64,
        last: Place,
    ) -> u64 {
        let (first, count) = request;
        let end = first + count;
        let Some(index) = hit.map(|hit| hit.segment).or_else(|| self.oldest()) else {
            return ends;
        };
        let segment = &mut self.segments[index];
        if hit.is_none() {
            *segment = Segment { start: start.min(first), end, replaced: 0, ..*segment };
        }
        (segment.end, segment.since) = (end, ends);
        segment.written = segment.written && hit.is_some();
        segment.trim(self.spec.segment_sectors);
        let start = segment.start;
        self.touch(index);
        let limit = self.limit(surface, start, first, count);
        self.stream = None;
        if limit > end {
            self.replace(index, end);
            self.stream = Some(Stream { segment: index, time: ends, passed: last.ends, limit });
            return ends + (surface.place(limit - 1).ends - last.ends);
        }
        ends
    }

    /// Allows read-ahead to overwrite the transferred data before sector `end` in a segment.
    fn replace(&mut self, segment: usize, end: u64) {
        let segment = &mut self.segments[segment];
        if self.spec.read_ahead_replaces && !segment.written {
            segment.replaced = segment.replaced.max(end);
        }
    }

    /// Returns the segment to reuse: an empty one, or else the least recently used one. `None` if
    /// all are dirty.
    fn oldest(&self) -> Option<usize> {
        let mut oldest = (u64::MAX, None);
        for (index, segment) in self.segments.iter().enumerate() {
            let is_used = u64::from(segment.start != segment.end);
            let age = if segment.dirty { u64::MAX } else { is_used << 63 | segment.used };
            oldest = if age < oldest.0 { (age, Some(index)) } else { oldest };
        }
        oldest.1
    }

    /// Stops read-ahead at `at`: immediately if the drive can, or else when the sector under the
    /// head has passed. If the head is between tracks, it stops before the first sector of the next
    /// track.
    pub(super) fn stop(&mut self, surface: &Surface, at: u64) -> Option<Stopped> {
        let stream = self.stream.take()?;
        let segment = &mut self.segments[stream.segment];
        let from = segment.end;
        let mut end = match at.checked_sub(stream.time) {
            Some(since) => surface.passed(from, stream.limit, stream.passed.saturating_add(since)),
            None => from,
        };
        let next = surface.place(end.min(stream.limit - 1));
        let begins = stream.time + next.begins.saturating_sub(stream.passed);
        let under_head = end < stream.limit && begins < at && !self.spec.stop_in_sector;
        end += u64::from(under_head);
        segment.end = end;
        segment.trim(self.spec.segment_sectors);
        let before = surface.place(end - 1);
        let behind = stream.time + before.ends.saturating_sub(stream.passed);
        if end >= stream.limit {
            return Some(Stopped { place: before, next: end, free_at: behind });
        }
        if under_head {
            return Some(Stopped { place: surface.place(end), next: end, free_at: behind });
        }
        Some(Stopped { place: next, next: end, free_at: begins.max(at) })
    }

    /// Handles a write of `count` sectors starting at `first`. It invalidates overlapping data, and
    /// its own data gets a segment, which is `dirty` while the data is only in the buffer.
    pub(super) fn write(&mut self, first: u64, count: u64, dirty: bool) {
        let end = first + count;
        let goes_on = self.segments.iter().position(|s| s.dirty && dirty && s.end == first);
        for segment in &mut self.segments {
            let overlaps = segment.start < end && first < segment.end;
            if overlaps && !segment.dirty {
                segment.end = segment.start;
            }
        }
        if !self.spec.hits_on_written {
            return;
        }
        let Some(index) = goes_on.or_else(|| self.oldest()) else { return };
        let segment = &mut self.segments[index];
        let start = if goes_on.is_some() { segment.start } else { first };
        *segment = Segment { start, end, replaced: 0, written: true, dirty, since: 0, used: 0 };
        segment.trim(self.spec.segment_sectors);
        self.touch(index);
    }

    /// Records that `count` sectors starting at `first` are on the media.
    pub(super) fn saved(&mut self, first: u64, count: u64) {
        for segment in &mut self.segments {
            if segment.dirty && segment.start < first + count && first < segment.end {
                segment.dirty = false;
            }
        }
    }
}

impl Stream {
    /// Returns whether read-ahead has read `sector`, and thereby overwritten the sector one segment
    /// length before.
    fn overwrote(&self, surface: &Surface, now: u64, sector: u64) -> bool {
        sector < self.limit && self.there(surface, sector) <= now
    }

    /// Returns when `sector` will be in the buffer.
    fn there(&self, surface: &Surface, sector: u64) -> u64 {
        self.at(surface.place(sector).ends)
    }

    /// Returns when the head will reach the stream time `ends`.
    fn at(&self, ends: u64) -> u64 {
        self.time.saturating_add(ends.saturating_sub(self.passed))
    }
}

impl Segment {
    fn trim(&mut self, sectors: u64) {
        self.start = self.start.max(self.end.saturating_sub(sectors));
    }
}
