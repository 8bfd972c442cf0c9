//! Finds the outstanding requests that a completion belongs to, by the sectors it covers.
//!
//! A block layer splits and merges requests between their arrival and their completion, so neither
//! the start nor the size of a completion identifies a request. [`Outstanding`] stores the sectors
//! that have not completed yet, divided into segments. Each segment lists the requests that await
//! it, oldest first. A completed sector is credited to the oldest of them.
//!
//! Invariants: segments never overlap and are never empty; the requests of a segment are in
//! ascending order of id; the segments of a request add up to the sectors that it still awaits.

use std::collections::{BTreeMap, VecDeque};

/// The maximum number of requests for the same sector that [`Outstanding::over`] reports.
const SHARERS_MAX: usize = 64;

/// The sectors that requests in one direction on one volume await.
#[derive(Clone, Debug, Default)]
pub struct Outstanding {
    /// The segments, by their first sector.
    segments: BTreeMap<u64, Segment>,
    claims: usize,
}

#[derive(Clone, Debug)]
struct Segment {
    /// The first sector after the segment.
    end: u64,
    oldest: u64,
    younger: VecDeque<u64>,
}

impl Segment {
    fn claims(&self) -> usize {
        1 + self.younger.len()
    }
}

impl Outstanding {
    /// Returns the number of pairs of a segment and a request that awaits it, which determines the
    /// memory used.
    pub fn claims(&self) -> usize {
        self.claims
    }

    /// Adds request `id`, which awaits the sectors from `start` up to but not including `end`. Each
    /// id must be greater than the previous one.
    pub fn add(&mut self, id: u64, start: u64, end: u64) {
        if start >= end {
            return;
        }
        if self.touches(start, end) {
            self.add_over_others(id, start, end);
        } else {
            self.insert(id, start, end);
        }
    }

    /// Adds a request like [`Outstanding::add`], but takes its sectors away from older requests.
    /// This is for traces that lack completions: an older request for the same sectors more likely
    /// lost its completion than overlaps with the new request.
    pub fn supersede(&mut self, id: u64, start: u64, end: u64) {
        if start >= end {
            return;
        }
        if self.touches(start, end) {
            self.cut(start);
            self.cut(end);
            while let Some((&first, segment)) = self.segments.range(start..end).next() {
                self.claims -= segment.claims();
                self.segments.remove(&first);
            }
        }
        self.insert(id, start, end);
    }

    /// Completes the sectors from `start` up to but not including `end`. Each sector is credited to
    /// the oldest request that awaits it; `credit` is called with each of these requests and its
    /// number of sectors.
    pub fn complete(&mut self, start: u64, end: u64, mut credit: impl FnMut(u64, u64)) {
        if start >= end || !self.touches(start, end) {
            return;
        }
        self.cut(start);
        self.cut(end);
        let mut at = start;
        while let Some((&first, segment)) = self.segments.range_mut(at..end).next() {
            at = segment.end;
            credit(segment.oldest, segment.end - first);
            self.claims -= 1;
            match segment.younger.pop_front() {
                Some(next) => segment.oldest = next,
                None => drop(self.segments.remove(&first)),
            }
        }
    }

    /// Calls `each` with every request that awaits some of these sectors, and their number. If more
    /// than [`SHARERS_MAX`] requests await the same sector, only the first of them are reported.
    pub fn for_each_overlapping(&self, start: u64, end: u64, mut each: impl FnMut(u64, u64)) {
        if start >= end {
            return;
        }
        let first = self.segments.range(..=start).next_back().map_or(start, |(&first, _)| first);
        for (&from, segment) in self.segments.range(first..end) {
            let sectors = segment.end.min(end).saturating_sub(from.max(start));
            if sectors > 0 {
                let sharers = [&segment.oldest].into_iter().chain(&segment.younger);
                sharers.take(SHARERS_MAX).for_each(|&id| each(id, sectors));
            }
        }
    }

    /// Returns the newest request that awaits `sector`.
    pub fn newest(&self, sector: u64) -> Option<u64> {
        let (_, segment) = self.segments.range(..=sector).next_back()?;
        let newest = *segment.younger.back().unwrap_or(&segment.oldest);
        (segment.end > sector).then_some(newest)
    }

    /// Removes request `id`, which was added with these sectors.
    pub fn forget(&mut self, id: u64, start: u64, end: u64) {
        let mut at = start;
        // The last segment may also belong to other requests and extend beyond `end`.
        while at < end {
            let Some((&first, segment)) = self.segments.range_mut(at..end).next() else { break };
            at = segment.end;
            if segment.oldest == id {
                self.claims -= 1;
                match segment.younger.pop_front() {
                    Some(next) => segment.oldest = next,
                    None => drop(self.segments.remove(&first)),
                }
            } else if let Ok(place) = segment.younger.binary_search(&id) {
                self.claims -= 1;
                segment.younger.remove(place);
            }
        }
    }

    /// Returns whether any segment overlaps the sectors. Only the last segment that begins before
    /// `end` needs to be checked: as segments do not overlap, it also has the greatest end.
    fn touches(&self, start: u64, end: u64) -> bool {
        self.segments.range(..end).next_back().is_some_and(|(_, segment)| segment.end > start)
    }

    fn insert(&mut self, id: u64, start: u64, end: u64) {
        self.claims += 1;
        self.segments.insert(start, Segment { end, oldest: id, younger: VecDeque::new() });
    }

    fn add_over_others(&mut self, id: u64, start: u64, end: u64) {
        self.cut(start);
        self.cut(end);
        let mut at = start;
        while let Some((&first, segment)) = self.segments.range_mut(at..end).next() {
            let gap = at;
            at = segment.end;
            segment.younger.push_back(id);
            self.claims += 1;
            if gap < first {
                self.insert(id, gap, first);
            }
        }
        if at < end {
            self.insert(id, at, end);
        }
    }

    /// Splits the segment that contains `at`, unless it begins there.
    fn cut(&mut self, at: u64) {
        let Some((_, segment)) = self.segments.range_mut(..at).next_back() else { return };
        if segment.end > at {
            let right = segment.clone();
            segment.end = at;
            self.claims += right.claims();
            self.segments.insert(at, right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credits(outstanding: &mut Outstanding, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut seen = Vec::new();
        outstanding.complete(start, end, |id, sectors| seen.push((id, sectors)));
        seen
    }

    #[test]
    fn a_split_request_is_credited_part_by_part() {
        let mut o = Outstanding::default();
        o.add(7, 100, 200);
        assert_eq!(credits(&mut o, 120, 200), [(7, 80)]);
        assert_eq!(credits(&mut o, 100, 120), [(7, 20)]);
        assert_eq!(o.claims(), 0);
    }

    #[test]
    fn one_completion_covers_merged_requests() {
        let mut o = Outstanding::default();
        o.add(1, 8, 16);
        o.add(2, 0, 8);
        o.add(3, 24, 32);
        assert_eq!(credits(&mut o, 0, 16), [(2, 8), (1, 8)]);
        assert_eq!(credits(&mut o, 0, 64), [(3, 8)]);
    }

    #[test]
    fn the_oldest_over_the_same_sectors_is_credited_first() {
        let mut o = Outstanding::default();
        o.add(1, 0, 8);
        o.add(2, 0, 8);
        assert_eq!(credits(&mut o, 0, 8), [(1, 8)]);
        assert_eq!(credits(&mut o, 0, 8), [(2, 8)]);
        assert_eq!(credits(&mut o, 0, 8), []);
    }

    #[test]
    fn a_forgotten_request_leaves_the_others() {
        let mut o = Outstanding::default();
        o.add(1, 0, 16);
        o.add(2, 8, 24);
        o.forget(1, 0, 16);
        assert_eq!(credits(&mut o, 0, 24), [(2, 8), (2, 8)]);
        assert_eq!(o.claims(), 0);
    }

    #[test]
    fn requests_over_some_sectors_are_reported_with_their_number() {
        let mut o = Outstanding::default();
        o.add(1, 0, 16);
        o.add(2, 8, 24);
        let over = |start, end| {
            let mut seen = BTreeMap::new();
            o.for_each_overlapping(start, end, |id, sectors| {
                *seen.entry(id).or_insert(0) += sectors
            });
            seen.into_iter().collect::<Vec<_>>()
        };
        assert_eq!((over(0, 24), over(9, 12)), (vec![(1, 16), (2, 16)], vec![(1, 3), (2, 3)]));
        assert_eq!((over(16, 99), over(24, 99), over(5, 5)), (vec![(2, 8)], vec![], vec![]));
    }

    #[test]
    fn a_request_that_takes_over_leaves_the_older_its_other_sectors() {
        let mut o = Outstanding::default();
        o.add(1, 0, 16);
        o.add(2, 8, 16);
        o.supersede(3, 8, 24);
        assert_eq!(credits(&mut o, 0, 24), [(1, 8), (3, 16)]);
        assert_eq!(o.claims(), 0);
    }

    /// Compares the result with the same rule applied to single sectors.
    #[test]
    fn agrees_with_a_table_of_sectors() {
        let mut table: Vec<VecDeque<u64>> = vec![VecDeque::new(); 64];
        let mut o = Outstanding::default();
        let mut added = BTreeMap::new();
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for id in 0..20_000 {
            let start = random(60);
            let end = start + 1 + random(64 - start);
            match random(5) {
                0 | 1 => {
                    o.add(id, start, end);
                    added.insert(id, (start, end));
                    (start..end).for_each(|s| table[s as usize].push_back(id));
                }
                2 => {
                    let old = id.saturating_sub(random(20));
                    if let Some((start, end)) = added.remove(&old) {
                        o.forget(old, start, end);
                    }
                    table.iter_mut().for_each(|owners| owners.retain(|&owner| owner != old));
                }
                _ => {
                    let mut got = BTreeMap::new();
                    o.complete(start, end, |id, n| *got.entry(id).or_insert(0) += n);
                    let mut expected = BTreeMap::new();
                    for s in start..end {
                        if let Some(id) = table[s as usize].pop_front() {
                            *expected.entry(id).or_insert(0) += 1;
                        }
                    }
                    assert_eq!(got, expected);
                }
            }
        }
        let claims = table.iter().map(VecDeque::len).sum::<usize>();
        let mut left = 0;
        (0..claims).for_each(|_| o.complete(0, 64, |_, sectors| left += sectors as usize));
        assert_eq!((left, o.claims()), (claims, 0));
    }
}
