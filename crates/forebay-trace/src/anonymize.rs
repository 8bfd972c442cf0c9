//! Anonymizes traces so that they can be shared: removes names, and permutes addresses with a key.
//!
//! Each name (of a volume, a process or a thread) is replaced by a pseudonym, and each thread and
//! process id by another number. The addresses of a volume are divided into cells, which are
//! permuted; the order within a cell stays the same. Operations, lengths, flags, latencies and
//! inter-arrival times are unchanged, so people who know what a system did at some time can still
//! find that time.
//!
//! Invariants: the same key gives the same pseudonyms in all traces, and the same permutation for
//! all volumes with the same number of cells. Distinct names, ids and cells stay distinct. A
//! request moves as a whole, together with the cell of its first byte; if it crossed the end of its
//! cell, it still does.

use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::streams::is_write_back;
use crate::{Dictionary, Notes, Place, Reader, Record, Stream, TraceError};

/// The default size of a cell in bytes.
pub const CELL_BYTES: u64 = 64 << 20;
/// The minimum size of a secret from which a key is derived, in bytes.
pub const SECRET_BYTES_MIN: usize = 16;
/// The number of Feistel rounds, which is that of FF1 (NIST SP 800-38G).
const ROUNDS: u8 = 10;
/// The number of cells whose new position is cached.
const CELLS_KEPT: usize = 1 << 20;
/// The prefix of pseudonyms for write-back workers, so that these workers still count as one
/// stream.
const WORKER: &str = "writeback";

/// A key for pseudonyms and permutations. It also permits undoing the anonymization.
#[derive(Clone)]
pub struct Key([u8; blake3::KEY_LEN]);

impl Key {
    /// Derives a key from `secret`. Returns `None` if the secret is shorter than
    /// [`SECRET_BYTES_MIN`].
    pub fn new(secret: &[u8]) -> Option<Key> {
        let long_enough = secret.len() >= SECRET_BYTES_MIN;
        long_enough.then(|| Key(blake3::derive_key("forebay anonymised traces, version 1", secret)))
    }

    /// Creates a random key.
    ///
    /// # Errors
    /// Fails if the system's random number generator fails.
    pub fn random() -> io::Result<Key> {
        let mut key = [0; blake3::KEY_LEN];
        getrandom::fill(&mut key)?;
        Ok(Key(key))
    }

    fn hash(&self, what: &str, of: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(what.as_bytes()).update(&[0]).update(of);
        hasher.finalize()
    }

    /// Returns a pseudonym that does not reveal `name`. An empty name stays empty.
    fn pseudonym(&self, what: &str, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let hash = self.hash(what, name.as_bytes()).to_hex();
        format!("{what}-{}", &hash[..12])
    }

    /// Permutes the numbers below `count`: returns a different number for each `value`.
    fn permuted(&self, what: &str, value: u64, count: u64) -> u64 {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let half = bits.div_ceil(2).max(1);
        let mask = (1u64 << half) - 1;
        let round = |number: u8, right: u64| {
            let mut input = [number; 9];
            input[1..].copy_from_slice(&right.to_le_bytes());
            let hash = self.hash(what, &input);
            let (first, _) = hash.as_bytes().split_first_chunk().expect("32 bytes");
            u64::from_le_bytes(*first) & mask
        };
        let mut place = value;
        // The Feistel network permutes the numbers below a power of four, so results of `count` or
        // more are permuted again.
        loop {
            let (mut left, mut right) = (place >> half, place & mask);
            for number in 0..ROUNDS {
                (left, right) = (right, left ^ round(number, right));
            }
            place = left << half | right;
            if place < count {
                return place;
            }
        }
    }

    fn id(&self, what: &str, id: u32) -> u32 {
        self.permuted(what, u64::from(id), 1 << 32) as u32
    }

    fn stream(&self, stream: &Stream) -> Stream {
        let name = match is_write_back(&stream.name) {
            true => WORKER.into(),
            false => self.pseudonym("name", &stream.name),
        };
        // A process has the same id as its main thread, also after anonymization.
        let id = |id| self.id("thread", id);
        Stream { thread: stream.thread.map(id), process: stream.process.map(id), name }
    }
}

/// The extents of a trace's volumes. They must be known before cells can be permuted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    cell_bytes: u64,
    /// The number of cells in each volume, by its index in the dictionary.
    cells: Vec<u64>,
}

impl Extents {
    /// Creates empty extents with cells of `cell_bytes`.
    ///
    /// # Panics
    /// Panics if `cell_bytes` is 0.
    pub fn new(cell_bytes: u64) -> Extents {
        assert!(cell_bytes > 0, "cells have a size");
        Extents { cell_bytes, cells: Vec::new() }
    }

    /// Extends the extents so that they cover the records of `batch`.
    pub fn add(&mut self, batch: &[Record]) {
        for record in batch {
            let volume = record.volume as usize;
            if self.cells.len() <= volume {
                self.cells.resize(volume + 1, 0);
            }
            let cells = (record.offset / self.cell_bytes).saturating_add(1);
            self.cells[volume] = self.cells[volume].max(cells);
        }
    }
}

/// A reader that anonymizes the records of another reader.
pub struct Anonymized<'a> {
    inner: &'a mut dyn Reader,
    path: PathBuf,
    key: Key,
    extents: Extents,
    /// The new positions of cells, by volume and cell, as a cache.
    places: FxHashMap<(u32, u64), u64>,
    /// The part of the inner dictionary that was already renamed.
    known: Dictionary,
    dictionary: Dictionary,
    notes: Notes,
    failed: bool,
}

impl<'a> Anonymized<'a> {
    /// Creates a reader that anonymizes `inner`, whose name in messages is `path`. `extents` must
    /// cover all requests.
    pub fn new(inner: &'a mut dyn Reader, path: &Path, key: Key, extents: Extents) -> Self {
        let path = path.to_path_buf();
        let (known, dictionary) = (Dictionary::default(), Dictionary::default());
        let (places, notes) = (FxHashMap::default(), inner.notes().clone());
        let mut anonymized = Anonymized {
            inner,
            path,
            key,
            extents,
            places,
            known,
            dictionary,
            notes,
            failed: false,
        };
        anonymized.rename();
        anonymized
    }

    /// Renames the new entries of the inner dictionary.
    fn rename(&mut self) {
        self.notes = Notes { began: None, ..self.inner.notes().clone() };
        let known = self.inner.dictionary();
        if *known != self.known {
            self.known = known.clone();
            let volume = |name: &String| self.key.pseudonym("volume", name);
            self.dictionary.volumes = known.volumes.iter().map(volume).collect();
            let stream = |stream: &Stream| self.key.stream(stream);
            self.dictionary.streams = known.streams.iter().map(stream).collect();
        }
    }

    /// Returns the new address of `record`, or `None` if the extents do not cover it.
    fn place(&mut self, record: &Record) -> Option<u64> {
        let Extents { cell_bytes, cells } = &self.extents;
        let cell = record.offset / cell_bytes;
        let count = cells.get(record.volume as usize).copied().filter(|&count| cell < count)?;
        let place = match self.places.get(&(record.volume, cell)) {
            Some(&place) => place,
            None => {
                if self.places.len() >= CELLS_KEPT {
                    self.places.clear();
                }
                let volume = self.known.volumes.get(record.volume as usize);
                let what = format!("cell of {}", volume.map_or("", |name| name));
                let place = self.key.permuted(&what, cell, count);
                self.places.insert((record.volume, cell), place);
                place
            }
        };
        Some((place * cell_bytes).saturating_add(record.offset % cell_bytes))
    }
}

impl Reader for Anonymized<'_> {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        if self.failed {
            batch.clear();
            return Ok(());
        }
        self.inner.read(batch)?;
        self.rename();
        for record in batch.iter_mut() {
            match self.place(record) {
                Some(offset) => record.offset = offset,
                None => {
                    self.failed = true;
                    batch.clear();
                    return Err(TraceError::Malformed {
                        path: self.path.clone(),
                        place: Place::File,
                        got: "different contents when it was read again".into(),
                        expected: "a file that does not change while it is read".into(),
                        hint: "make a copy and convert the copy".into(),
                    });
                }
            }
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Flags, Nanos, Op};

    use super::*;

    const SECRET: &[u8] = b"sixteen bytes or";

    fn key() -> Key {
        Key::new(SECRET).unwrap()
    }

    /// A trace in memory. Each batch contains the names that are known by then.
    struct Fixed {
        batches: Vec<(Vec<Record>, Dictionary)>,
        dictionary: Dictionary,
        notes: Notes,
    }

    impl Reader for Fixed {
        fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
            batch.clear();
            if !self.batches.is_empty() {
                let (records, dictionary) = self.batches.remove(0);
                batch.extend(records);
                self.dictionary = dictionary;
            }
            Ok(())
        }

        fn found(&self) -> (&Dictionary, &Notes) {
            (&self.dictionary, &self.notes)
        }
    }

    fn record(at: u64, volume: u32, offset: u64) -> Record {
        Record {
            at: Nanos(at),
            offset,
            latency: Some(Nanos(at + 7)),
            len: 4096 + at as u32,
            stream: volume,
            volume,
            op: if at.is_multiple_of(3) { Op::Write } else { Op::Read },
            flags: Flags::default(),
        }
    }

    fn names(volumes: &[&str], streams: &[(u32, &str)]) -> Dictionary {
        let stream = |&(thread, name): &(u32, &str)| Stream {
            thread: Some(thread),
            process: Some(5),
            name: name.into(),
        };
        Dictionary {
            streams: streams.iter().map(stream).collect(),
            volumes: volumes.iter().map(|&name| name.into()).collect(),
        }
    }

    /// Anonymizes the records and names of `batches` with cells of 1 MiB.
    fn anonymized(
        key: Key,
        batches: &[(Vec<Record>, Dictionary)],
    ) -> (Vec<Record>, Dictionary, Notes) {
        let mut extents = Extents::new(1 << 20);
        batches.iter().for_each(|(records, _)| extents.add(records));
        let began = Some(Nanos(1_700_000_000_000_000_000));
        let mut trace = Fixed {
            batches: batches.to_vec(),
            dictionary: Dictionary::default(),
            notes: Notes { began, ..Notes::default() },
        };
        let mut reader = Anonymized::new(&mut trace, Path::new("t"), key, extents);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        loop {
            reader.read(&mut batch).unwrap();
            if batch.is_empty() {
                return (all, reader.dictionary().clone(), reader.notes().clone());
            }
            all.append(&mut batch);
        }
    }

    #[test]
    fn numbers_below_any_count_are_permuted() {
        for count in [1, 2, 3, 4, 5, 16, 17, 63, 100, 1000, 1025] {
            let mut places: Vec<u64> =
                (0..count).map(|value| key().permuted("cell", value, count)).collect();
            let moved = places.iter().zip(0..).filter(|&(&place, value)| place != value).count();
            assert!(moved as u64 * 2 >= count || count < 4, "{moved} of {count} moved");
            places.sort_unstable();
            assert!(places.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn addresses_depend_on_the_key_and_their_volume() {
        let places = |key: &Key, what| -> Vec<u64> {
            (0..1000).map(|value| key.permuted(what, value, 1000)).collect()
        };
        let other = Key::new(b"sixteen bytes oR").unwrap();
        let alike = |a: Vec<u64>, b: Vec<u64>| a.iter().zip(&b).filter(|(a, b)| a == b).count();
        assert!(alike(places(&key(), "a"), places(&other, "a")) < 10);
        assert!(alike(places(&key(), "a"), places(&key(), "b")) < 10);
        assert_eq!(places(&key(), "a"), places(&key(), "a"));
        // Adjacent cells rarely stay adjacent.
        let together = places(&key(), "a").windows(2).filter(|w| w[1] == w[0] + 1).count();
        assert!(together < 10, "{together}");
    }

    #[test]
    fn short_secrets_are_refused_and_random_keys_differ() {
        assert!(Key::new(&SECRET[1..]).is_none());
        assert_ne!(Key::random().unwrap().0, Key::random().unwrap().0);
    }

    #[test]
    fn cells_move_whole_and_the_rest_of_a_request_stays() {
        let cells = 40;
        let one = |at| record(at, 0, ((at % cells) << 20) | (at * 512 % (1 << 20)));
        let records: Vec<Record> = (0..400).map(one).collect();
        let batches = [(records.clone(), names(&["disk"], &[(5, "java")]))];
        let (found, ..) = anonymized(key(), &batches);
        let mut cell_of = [None; 40];
        for (before, after) in records.iter().zip(&found) {
            assert_eq!(after.offset % (1 << 20), before.offset % (1 << 20));
            let cell = cell_of[(before.offset >> 20) as usize].get_or_insert(after.offset >> 20);
            assert_eq!(*cell, after.offset >> 20);
            assert_eq!(Record { offset: before.offset, ..*after }, *before);
        }
        let mut taken: Vec<u64> = cell_of.into_iter().flatten().collect();
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..cells));
    }

    #[test]
    fn volumes_move_apart_from_each_other() {
        let records = (0..200).map(|at| record(at, (at % 2) as u32, (at / 2) << 20)).collect();
        let batches = [(records, names(&["a", "b"], &[(5, "x"), (6, "y")]))];
        let (found, ..) = anonymized(key(), &batches);
        let alike = found.chunks(2).filter(|pair| pair[0].offset == pair[1].offset).count();
        assert!(alike < 10, "{alike}");
    }

    #[test]
    fn names_and_clock_are_removed_and_identities_kept() {
        let known = names(&["srv7", ""], &[(5, "java"), (9, "java"), (9, "kworker/0:1"), (3, "")]);
        let (_, found, notes) = anonymized(key(), &[(vec![record(0, 0, 0)], known.clone())]);
        assert_eq!(notes.began, None);
        assert!(found.volumes[0].starts_with("volume-") && found.volumes[1].is_empty());
        let [main, thread, worker, nameless] = &found.streams[..] else { panic!("{found:?}") };
        assert!(main.name.starts_with("name-") && main.name == thread.name);
        assert!(main.thread == main.process && thread.thread != thread.process);
        assert_eq!((main.process, worker.thread), (thread.process, thread.thread));
        assert!(is_write_back(&worker.name) && nameless.name.is_empty());
        let told = format!("{found:?}");
        assert!(!told.contains("srv7") && !told.contains("java") && !told.contains("Some(5)"));
        let (_, again, _) = anonymized(key(), &[(vec![record(0, 0, 0)], known)]);
        assert_eq!(found, again);
    }

    #[test]
    fn names_that_are_learned_late_are_hidden_too() {
        let batches = [
            (vec![record(0, 0, 0)], names(&["v"], &[(5, "")])),
            (vec![record(1, 1, 0)], names(&["v", "late"], &[(5, "later"), (8, "late")])),
        ];
        let (_, found, _) = anonymized(key(), &batches);
        assert_eq!((found.volumes.len(), found.streams.len()), (2, 2));
        assert!(!format!("{found:?}").contains("late"));
        assert!(found.streams[0].name.starts_with("name-"));
    }

    #[test]
    fn a_trace_that_grew_in_between_is_refused() {
        let mut extents = Extents::new(1 << 20);
        extents.add(&[record(0, 0, 5 << 20)]);
        let (dictionary, notes) = (names(&["v"], &[(5, "x")]), Notes::default());
        let batches = vec![(vec![record(0, 0, 6 << 20)], dictionary.clone())];
        let mut trace = Fixed { batches, dictionary, notes };
        let mut reader = Anonymized::new(&mut trace, Path::new("t.csv"), key(), extents);
        let mut batch = Vec::new();
        let said = reader.read(&mut batch).unwrap_err().to_string();
        assert!(said.starts_with("t.csv: got different contents") && batch.is_empty(), "{said}");
    }

    #[test]
    fn the_last_byte_of_all_does_not_overflow() {
        let batches = [(vec![record(0, 0, u64::MAX)], names(&["v"], &[(5, "x")]))];
        assert_eq!(anonymized(key(), &batches).0.len(), 1);
    }
}
