//! Threads one by one, and by types: what each does, how much of it, when and where.
//!
//! Source: C. Delimitrou, S. Sankar, K. Vaid, C. Kozyrakis, "Decoupling datacenter studies from
//! access to large-scale applications: a modeling approach for storage workloads" (IISWC 2011),
//! section IV, tables II and III: threads are told apart by functionality (data or log),
//! fluctuation and intensity, and each type has the features of its threads together. The paper gives
//! no rules for its types; ours are [`Rules`], and the description holds them.
//!
//! Where this departs from the source: its quarters are of the machine's storage. A trace does not
//! say how large that is, so here they have equal shares of what any thread reads or writes, to a MiB, all
//! volumes end to end: one distant request would push all others into the first quarter of the addresses.
//!
//! A thread is a stream as the description counts them: all write-back workers are one. Memory: the
//! first [`THREADS_MAX`] threads and the first [`PLACES_MAX`] pairs of thread and volume are
//! followed, 4 KB and 3 KB each at most; what comes after is added up as one.

mod folding;
mod period;
mod place;
pub mod rows;
pub mod rules;
mod tally;
mod types;

use forebay_core::Nanos;
use rustc_hash::FxHashMap;

use self::period::Clock;
use self::place::{Place, Quarters};
use self::rows::ByThread;
use self::rules::Rules;
use self::tally::{Scale, Tally};
use self::types::Thread;
use super::sequences::at;
use crate::streams::Grouping;
use crate::touched::Touched;
use crate::trace::{Dictionary, Record};

/// Threads that are followed one by one.
pub const THREADS_MAX: usize = 4096;

/// Pairs of thread and volume whose addresses are followed.
pub const PLACES_MAX: usize = 16_384;

/// What to say of threads.
#[derive(Clone, Copy, Debug)]
pub struct ThreadOptions {
    /// Length of the periods that fluctuation is taken over; none for the paper's half hour, or
    /// less where the trace has fewer than eight of them.
    pub period: Option<Nanos>,
    /// Threads with a row of their own, those with most requests.
    pub rows_max: usize,
    /// How types are told apart.
    pub rules: Rules,
}

/// Threads with a row of their own unless asked for more.
pub const ROWS: usize = 20;

impl Default for ThreadOptions {
    fn default() -> ThreadOptions {
        ThreadOptions { period: None, rows_max: ROWS, rules: Rules::default() }
    }
}

/// The tally of all threads that are not followed.
const BEYOND: u32 = u32::MAX;

/// Collects the tallies of threads.
#[derive(Clone, Debug)]
pub(super) struct Threads {
    options: ThreadOptions,
    clock: Clock,
    all: Tally,
    /// By group, where its tally is; none before its first request.
    slots: Vec<Option<u32>>,
    /// Followed threads in order of appearance, with their groups.
    tallies: Vec<(u32, Tally)>,
    beyond: Tally,
    threads_beyond: u64,
    places: FxHashMap<(u32, u32), Place>,
    used: Touched,
    origin_ns: Option<u64>,
}

impl Threads {
    pub(super) fn new(options: ThreadOptions) -> Threads {
        Threads {
            options,
            clock: Clock::new(options.period),
            all: Tally::default(),
            slots: Vec::new(),
            tallies: Vec::new(),
            beyond: Tally::default(),
            threads_beyond: 0,
            places: FxHashMap::default(),
            used: Touched::default(),
            origin_ns: None,
        }
    }

    /// Takes records, and again those that are data requests; `grouping` tells their threads.
    pub(super) fn add(
        &mut self,
        records: &[Record],
        data: &[Record],
        dictionary: &Dictionary,
        grouping: &mut Grouping,
    ) {
        let Some(first) = records.first() else { return };
        let origin_ns = *self.origin_ns.get_or_insert(first.at.0);
        for r in data {
            let period = self.clock.finest(r.at.0.saturating_sub(origin_ns));
            let group = grouping.group(dictionary, r.stream);
            let slot = self.slot(group);
            let has_room = self.places.len() < PLACES_MAX;
            let key = (slot, r.volume);
            let known = has_room || self.places.contains_key(&key);
            self.used.add(r);
            let continues = known.then(|| self.places.entry(key).or_default().step(r));
            self.all.add(r, period, continues);
            match self.tallies.get_mut(slot as usize) {
                Some((_, tally)) => tally.add(r, period, continues),
                None => self.beyond.add(r, period, continues),
            }
        }
    }

    /// The place of a group's tally.
    #[inline]
    fn slot(&mut self, group: u32) -> u32 {
        match self.slots.get(group as usize) {
            Some(&Some(slot)) => slot,
            _ => self.meet(group),
        }
    }

    #[cold]
    fn meet(&mut self, group: u32) -> u32 {
        let followed = self.tallies.len();
        let slot = if followed < THREADS_MAX { followed as u32 } else { BEYOND };
        *at(&mut self.slots, group) = Some(slot);
        match slot {
            BEYOND => self.threads_beyond += 1,
            _ => self.tallies.push((group, Tally::default())),
        }
        slot
    }

    /// What became of it. `duration_ns` is the trace's.
    pub(super) fn finish(
        mut self,
        dictionary: &Dictionary,
        grouping: &Grouping,
        duration_ns: u64,
    ) -> ByThread {
        self.fill_quarters();
        let level = self.clock.level(self.all.level(), duration_ns);
        let periods = self.clock.whole(level, duration_ns);
        self.fold_to(level);
        let scale = Scale { requests: self.all.requests(), duration_ns, periods };
        let threads = self.typed(dictionary, grouping, &scale);
        let types = types::of(&threads);
        let rows_max = self.options.rows_max;
        ByThread {
            period_s: self.clock.seconds(level),
            periods,
            rules: self.options.rules,
            threads: threads.len() as u64 + self.threads_beyond,
            all: self.all.figures(&scale),
            rows: threads.iter().take(rows_max).map(|one| one.row(&types, &scale)).collect(),
            types: types.iter().map(|of| of.row(&scale)).collect(),
            threads_hidden: threads.len().saturating_sub(rows_max) as u64,
            threads_beyond: self.threads_beyond,
            beyond: (self.threads_beyond > 0).then(|| self.beyond.figures(&scale)),
        }
    }

    fn fold_to(&mut self, level: u32) {
        let tallies = self.tallies.iter_mut().map(|(_, tally)| tally);
        for tally in tallies.chain([&mut self.all, &mut self.beyond]) {
            tally.fold_to(level);
        }
    }

    /// The threads that are followed, those with most requests first.
    fn typed<'a>(
        &'a self,
        dictionary: &Dictionary,
        grouping: &Grouping,
        scale: &Scale,
    ) -> Vec<Thread<'a>> {
        let mut order: Vec<&(u32, Tally)> = self.tallies.iter().collect();
        order.sort_by_key(|(group, tally)| (std::cmp::Reverse(tally.requests()), *group));
        let typed = |(group, tally): &'a (u32, Tally)| {
            let label = grouping.label(dictionary, *group);
            let kind = self.options.rules.kind(&label, &tally.features(scale));
            Thread { label, kind, tally }
        };
        order.into_iter().map(typed).collect()
    }

    fn fill_quarters(&mut self) {
        let quarters = Quarters::of(&self.used);
        for (&(slot, volume), place) in &self.places {
            let counts = quarters.counts(volume, place);
            self.all.add_quarters(counts);
            match self.tallies.get_mut(slot as usize) {
                Some((_, tally)) => tally.add_quarters(counts),
                None => self.beyond.add_quarters(counts),
            }
        }
    }
}

#[cfg(test)]
mod tests;
