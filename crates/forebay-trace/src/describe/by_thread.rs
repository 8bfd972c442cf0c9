//! Describes threads individually and by type: what they do, how much, when and where.
//!
//! Source: C. Delimitrou, S. Sankar, K. Vaid, C. Kozyrakis, "Decoupling datacenter studies from
//! access to large-scale applications: a modeling approach for storage workloads" (IISWC 2011),
//! section IV, tables II and III. Threads are classified by functionality (data or log),
//! fluctuation and intensity, and each type has the combined features of its threads. The paper
//! gives no rules for its types; ours are [`Rules`], which the description contains.
//!
//! Departure from the source: the paper divides the machine's storage into quarters. A trace does
//! not record its size, so here quarters are equal shares of all addresses that any thread reads or
//! writes, to a MiB, with the volumes joined end to end. If quarters divided the address range
//! instead, one distant request would push all others into the first quarter.
//!
//! A thread is a stream as counted in the description, so all write-back workers are one thread.
//! Memory is limited to the first [`THREADS_MAX`] threads and the first [`PLACES_MAX`] pairs of a
//! thread and a volume, at 4 KB and 3 KB each; all others are combined.

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
use crate::{Dictionary, Record};

/// The maximum number of threads that are tracked individually.
pub const THREADS_MAX: usize = 4096;

/// The maximum number of pairs of a thread and a volume whose addresses are tracked.
pub const PLACES_MAX: usize = 16_384;

/// The options for describing threads.
#[derive(Clone, Copy, Debug)]
pub struct ThreadOptions {
    /// The length of the periods over which fluctuation is measured. If None, this is the paper's
    /// half hour, or less if the trace is shorter than eight of them.
    pub period: Option<Nanos>,
    /// The maximum number of threads that get their own row. Those with the most requests come
    /// first.
    pub rows_max: usize,
    /// The rules that classify threads.
    pub rules: Rules,
}

/// The default number of threads that get their own row.
pub const ROWS: usize = 20;

impl Default for ThreadOptions {
    fn default() -> ThreadOptions {
        ThreadOptions { period: None, rows_max: ROWS, rules: Rules::default() }
    }
}

/// Identifies the common tally of all threads that are not tracked.
const BEYOND: u32 = u32::MAX;

/// The tallies of threads.
#[derive(Clone, Debug)]
pub(super) struct Threads {
    options: ThreadOptions,
    clock: Clock,
    all: Tally,
    /// The slot of each group in `tallies`, or None before its first request.
    slots: Vec<Option<u32>>,
    /// The tracked threads and their groups, in order of appearance.
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

    /// Adds records, and the data requests among them. `grouping` identifies their threads.
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

    /// Returns the slot of the tally of a group.
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

    /// Returns the description of threads. `duration_ns` is the duration of the trace.
    pub(super) fn finish(
        mut self,
        dictionary: &Dictionary,
        grouping: &Grouping,
        duration_ns: u64,
    ) -> ByThread {
        self.fill_quarters();
        let level = self.clock.level(self.all.level(), duration_ns);
        let periods = self.clock.complete_periods(level, duration_ns);
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

    /// Returns the tracked threads. Those with the most requests come first.
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
