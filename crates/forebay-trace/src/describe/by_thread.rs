//! Threads one by one, and by types: what each does, how much of it, when and where.
//!
//! Source: C. Delimitrou, S. Sankar, K. Vaid, C. Kozyrakis, "Decoupling datacenter studies from
//! access to large-scale applications: a modeling approach for storage workloads" (IISWC 2011),
//! section IV, tables II and III: threads are told apart by functionality (data or log),
//! fluctuation and intensity, and each type has the features of its threads together. The paper gives
//! no rules for its types; ours are [`Rules`], and the description holds them.
//!
//! Where this departs from the source: its quarters are of the machine's storage. A trace does not
//! say how large that is, so here it is all volumes end to end, each as long as its highest byte.
//!
//! A thread is a stream as the description counts them: all write-back workers are one. Memory: the
//! first [`THREADS_MAX`] threads and the first [`PLACES_MAX`] pairs of thread and volume are
//! followed, 4 KB and 1 KB each at most; what comes after is added up as one.

mod folding;
mod period;
mod place;
pub mod rows;
pub mod rules;
mod table;
mod tally;

use forebay_core::Nanos;
use rustc_hash::FxHashMap;

use self::period::Clock;
use self::place::{Place, Storage};
use self::rows::{ByThread, ThreadRow, TypeRow};
use self::rules::{Kind, Rules};
use self::tally::{Scale, Tally};
use super::sequences::at;
use crate::streams::Grouping;
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

    /// What became of it. `duration_ns` is the trace's, `extents_bytes` its volumes'.
    pub(super) fn finish(
        mut self,
        dictionary: &Dictionary,
        grouping: &Grouping,
        duration_ns: u64,
        extents_bytes: &[u64],
    ) -> ByThread {
        self.fill_quarters(&Storage::new(extents_bytes));
        let level = self.clock.level(self.all.level(), duration_ns);
        let periods = self.clock.whole(level, duration_ns);
        let mut everyone = vec![&mut self.all, &mut self.beyond];
        everyone.extend(self.tallies.iter_mut().map(|(_, tally)| tally));
        everyone.into_iter().for_each(|tally| tally.fold_to(level));
        let scale = Scale { requests: self.all.requests(), duration_ns, periods };
        let mut order: Vec<&(u32, Tally)> = self.tallies.iter().collect();
        order.sort_by_key(|(group, tally)| (std::cmp::Reverse(tally.requests()), *group));
        let rules = self.options.rules;
        let kinds: Vec<(String, Kind)> = order
            .iter()
            .map(|(group, tally)| {
                let label = grouping.label(dictionary, *group);
                let kind = rules.kind(&label, &tally.features(&scale));
                (label, kind)
            })
            .collect();
        let types = types(&order, &kinds);
        let name = |kind| types.iter().find(|t| t.kind == kind).map_or("", |t| t.label.as_str());
        let rows = order.iter().zip(&kinds).take(self.options.rows_max);
        ByThread {
            period_s: self.clock.seconds(level),
            periods,
            rules,
            threads: order.len() as u64 + self.threads_beyond,
            all: self.all.figures(&scale),
            rows: rows
                .map(|((_, tally), (label, kind))| ThreadRow {
                    label: label.clone(),
                    of_type: name(*kind).to_owned(),
                    figures: tally.figures(&scale),
                })
                .collect(),
            types: types
                .iter()
                .map(|of| TypeRow {
                    label: of.label.clone(),
                    kind: of.kind,
                    threads: of.threads,
                    figures: of.tally.figures(&scale),
                })
                .collect(),
            threads_hidden: order.len().saturating_sub(self.options.rows_max) as u64,
            threads_beyond: self.threads_beyond,
            beyond: (self.threads_beyond > 0).then(|| self.beyond.figures(&scale)),
        }
    }

    fn fill_quarters(&mut self, storage: &Storage) {
        for (&(slot, volume), place) in &self.places {
            let Some(quarters) = storage.quarters(volume, place) else { continue };
            self.all.add_quarters(quarters);
            match self.tallies.get_mut(slot as usize) {
                Some((_, tally)) => tally.add_quarters(quarters),
                None => self.beyond.add_quarters(quarters),
            }
        }
    }
}

/// Threads of one kind together.
struct Type {
    label: String,
    kind: Kind,
    threads: u64,
    tally: Tally,
}

/// The kinds there are, that with most requests first; numbered by functionality.
fn types(order: &[&(u32, Tally)], kinds: &[(String, Kind)]) -> Vec<Type> {
    let mut types: Vec<Type> = Vec::new();
    for ((_, tally), (_, kind)) in order.iter().zip(kinds) {
        let of = match types.iter().position(|of| of.kind == *kind) {
            Some(known) => &mut types[known],
            None => {
                types.push(Type {
                    label: String::new(),
                    kind: *kind,
                    threads: 0,
                    tally: Tally::default(),
                });
                let last = types.len() - 1;
                &mut types[last]
            }
        };
        of.threads += 1;
        of.tally.merge(tally);
    }
    types.sort_by_key(|of| std::cmp::Reverse(of.tally.requests()));
    for index in 0..types.len() {
        let functionality = types[index].kind.functionality;
        let before = types[..index].iter().filter(|of| of.kind.functionality == functionality);
        types[index].label = format!("{} #{}", functionality.word(), before.count());
    }
    types
}

#[cfg(test)]
mod tests;
