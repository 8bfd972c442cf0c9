//! Traces of object caches: libCacheSim's [`oracle`] (oracleGeneral) and its [`table`] (CSV with a
//! header).
//!
//! A request in such a trace names an object and its size, but no address. Forebay assigns an
//! address to each object: whole sectors of 512 bytes after those of the previous object, in the
//! order of their first use, as a log would. Objects therefore never share a sector, and objects
//! that are first used together are adjacent; that is not information from the trace. Miss ratios
//! do not depend on the addresses if blocks are sectors, so [`Notes::own_block_bytes`] is one
//! sector.
//!
//! - An object that outgrows its space gets a new address, which is counted; one that shrinks uses
//!   the front of its space.
//! - An object of more than 1 GiB is read or written by several requests with the same time.
//! - Beyond [`OBJECTS_MAX`] objects, addresses are derived only from the ids, so that memory is
//!   bounded. Two such objects share a sector with a probability of less than one in a million for
//!   each TiB of their total size.
//! - Requests without a size are skipped and counted.

pub mod oracle;
pub mod table;

use std::collections::HashMap;

use forebay_core::{Flags, Nanos, Op, random};

use super::numbering::anonymous;
use crate::columns::meaning;
use crate::rows::{LEN_BYTES_MAX, names_again_sentence};
use crate::{Dictionary, HeaderAgain, Notes, Reader, Record, SourceFacts, TraceError};
use forebay_words::plural::counted;

/// The size of a sector.
const SECTOR_BYTES: u64 = 512;
/// The maximum number of objects whose addresses are stored. They take up to 300 MB while the table
/// grows.
const OBJECTS_MAX: usize = 7_000_000;
/// The number of bits in an entry that contain the number of sectors minus one: 4 GiB are 2^23
/// sectors.
const LEN_BITS: u32 = 23;
/// The maximum number of sectors of all stored objects: 1 PiB.
const SECTORS_MAX: u64 = 1 << 41;
/// The start of the range for addresses that are derived from ids, and its size, in bytes.
const SCATTERED_BYTES: u64 = 1 << 61;

/// A request for an object.
struct Use {
    at_ns: u64,
    op: Op,
    id: u64,
    size: u32,
    /// Whether a repeated header precedes the request.
    begins: bool,
}

/// A source of requests for objects, in the order of the trace.
trait Source: Send {
    /// The name in [`Notes::format`].
    const NAME: &'static str;

    /// Replaces `uses` with up to [`crate::trace::BATCH`] further requests, or with none at the
    /// end. Counts the requests that it skips.
    fn read(&mut self, uses: &mut Vec<Use>, notes: &mut Notes) -> Result<(), TraceError>;
}

/// Converts requests for objects to requests with addresses.
struct Objects<S> {
    source: S,
    uses: Vec<Use>,
    places: Places,
    dictionary: Dictionary,
    notes: Notes,
    is_told: bool,
    /// The number of records so far, and the repeated headers.
    records: u64,
    headers_again: Vec<HeaderAgain>,
}

impl<S: Source> Objects<S> {
    fn new(source: S) -> Objects<S> {
        let placed = "the trace names objects, not locations: each object was assigned 512-byte \
            sectors after those of the previous object. The results of `forebay cache` \
            are reliable, but simulations of a disk with these locations are not meaningful";
        Objects {
            source,
            uses: Vec::new(),
            places: Places::default(),
            dictionary: anonymous(Some("objects")),
            notes: Notes {
                format: S::NAME,
                columns: meaning::of_format(S::NAME),
                own_block_bytes: Some(SECTOR_BYTES as u32),
                warnings: vec![placed.into()],
                ..Notes::default()
            },
            is_told: false,
            records: 0,
            headers_again: Vec::new(),
        }
    }
}

impl<S: Source> Reader for Objects<S> {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.is_empty() {
            self.source.read(&mut self.uses, &mut self.notes)?;
            if self.uses.is_empty() {
                if !self.is_told {
                    self.notes.warnings.extend(self.places.sentences());
                    self.notes.warnings.extend(names_again_sentence(self.headers_again.len()));
                    self.is_told = true;
                }
                return Ok(());
            }
            for used in self.uses.drain(..) {
                if used.begins {
                    let records = self.records + batch.len() as u64;
                    self.headers_again.push(HeaderAgain { records, volumes: 1 });
                }
                if used.size == 0 {
                    self.notes.rows_skipped += 1;
                    continue;
                }
                self.places.requests(&used, batch);
            }
        }
        self.records += batch.len() as u64;
        Ok(())
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts { headers_again: self.headers_again.clone(), ..SourceFacts::default() }
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }
}

/// Assigns addresses to objects.
struct Places {
    /// The maximum number of objects whose addresses are stored.
    objects_max: usize,
    /// For each id, the first sector and, in the last [`LEN_BITS`], the number of sectors minus
    /// one. The hash is keyed, because ids come from untrusted files.
    known: HashMap<u64, u64>,
    /// The first sector that is not in use.
    end: u64,
    /// The number of objects that outgrew their space.
    moved: u64,
    /// The number of requests for objects whose addresses are not stored.
    scattered: u64,
}

impl Default for Places {
    fn default() -> Places {
        let known = HashMap::new();
        Places { objects_max: OBJECTS_MAX, known, end: 0, moved: 0, scattered: 0 }
    }
}

impl Places {
    /// Appends the requests for one use of an object.
    fn requests(&mut self, used: &Use, batch: &mut Vec<Record>) {
        let (mut offset, mut left) = (self.place(used.id, used.size), u64::from(used.size));
        while left > 0 {
            let len = left.min(LEN_BYTES_MAX);
            batch.push(Record {
                at: Nanos(used.at_ns),
                offset,
                latency: None,
                len: len as u32,
                stream: 0,
                volume: 0,
                op: used.op,
                flags: Flags::NONE,
            });
            (offset, left) = (offset + len, left - len);
        }
    }

    /// Returns the address of the first byte of an object, whose size is now `size` bytes.
    fn place(&mut self, id: u64, size: u32) -> u64 {
        let sectors = u64::from(size).div_ceil(SECTOR_BYTES);
        let known = self.known.get(&id).copied();
        if let Some(place) = known.filter(|place| sectors <= (place & ((1 << LEN_BITS) - 1)) + 1) {
            return (place >> LEN_BITS) * SECTOR_BYTES;
        }
        let is_full = known.is_none() && self.known.len() == self.objects_max;
        if is_full || self.end + sectors > SECTORS_MAX {
            self.scattered += 1;
            return SCATTERED_BYTES
                + random::mix(id) % SCATTERED_BYTES / SECTOR_BYTES * SECTOR_BYTES;
        }
        self.moved += u64::from(known.is_some());
        let first = self.end;
        self.known.insert(id, first << LEN_BITS | (sectors - 1));
        self.end += sectors;
        first * SECTOR_BYTES
    }

    /// Returns the notes for the user.
    fn sentences(&self) -> Vec<String> {
        let moved = (self.moved > 0).then(|| {
            let times = counted(self.moved, "time");
            format!("{times} an object outgrew its location and was treated as a new object")
        });
        let scattered = (self.scattered > 0).then(|| {
            let uses = counted(self.scattered, "request");
            format!(
                "{uses} were for objects beyond the first {}, which are placed in order: the \
                 other objects are scattered, which affects everything except `forebay cache`",
                self.objects_max
            )
        });
        moved.into_iter().chain(scattered).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(uses: &[(u64, u32)]) -> (Vec<(u64, u32)>, Places) {
        let (mut places, mut batch) = (Places::default(), Vec::new());
        for &(id, size) in uses {
            let used = Use { at_ns: 0, op: Op::Read, id, size, begins: false };
            places.requests(&used, &mut batch);
        }
        (batch.iter().map(|record| (record.offset, record.len)).collect(), places)
    }

    #[test]
    fn objects_lie_one_behind_the_other_and_come_back_to_their_places() {
        let (found, places) = places(&[(7, 100), (9, 1024), (7, 512), (3, 1), (9, 1000), (7, 1)]);
        let expected = [(0, 100), (512, 1024), (0, 512), (1536, 1), (512, 1000), (0, 1)];
        assert_eq!(found, expected);
        assert_eq!(places.sentences().len(), 0);
    }

    #[test]
    fn an_object_that_grows_beyond_its_sectors_moves() {
        let (found, places) = places(&[(7, 512), (9, 1), (7, 513), (7, 1024), (9, 512)]);
        assert_eq!(found, [(0, 512), (512, 1), (1024, 513), (1024, 1024), (512, 512)]);
        assert!(places.sentences()[0].starts_with("1 time an object outgrew"), "{}", places.moved);
    }

    #[test]
    fn large_objects_take_several_requests_within_their_place() {
        let gib = 1u64 << 30;
        let (found, _) = places(&[(1, u32::MAX), (2, 5), (1, 1 << 31)]);
        let last = (gib - 1) as u32;
        let whole = [(0, 1 << 30), (gib, 1 << 30), (2 * gib, 1 << 30), (3 * gib, last)];
        let then = [(4 * gib, 5), (0, 1 << 30), (gib, 1 << 30)];
        assert_eq!(found, [&whole[..], &then].concat());
    }

    #[test]
    fn of_more_objects_than_are_kept_those_that_are_still_grow_and_return() {
        let mut places = Places { objects_max: 2, ..Places::default() };
        let found = [(1, 512), (2, 512), (3, 512), (1, 600), (2, 512), (3, 9), (1, 600)]
            .map(|(id, size)| places.place(id, size));
        assert_eq!((found[0], found[1], found[3]), (0, 512, 1024), "1 moves behind 2");
        assert_eq!((found[4], found[6]), (512, 1024));
        assert!(found[2] >= SCATTERED_BYTES && found[5] == found[2]);
        assert_eq!((places.scattered, places.moved, places.known.len()), (2, 1, 2));
    }

    #[test]
    fn beyond_what_is_kept_places_depend_on_ids_alone() {
        let mut places = Places { end: SECTORS_MAX - 1, ..Places::default() };
        let found = [1, 2, 1, 3, 2].map(|id| places.place(id, 600));
        assert_eq!((found[0], found[1]), (found[2], found[4]));
        assert!(found.iter().all(|at| *at >= SCATTERED_BYTES && at % SECTOR_BYTES == 0));
        assert!(found[0].abs_diff(found[1]) > 1 << 40 && found[3] != found[0]);
        assert_eq!((places.scattered, places.known.len()), (5, 0));
        // An object that is small enough still fits.
        assert_eq!(places.place(9, 512), (SECTORS_MAX - 1) * SECTOR_BYTES);
        assert!(places.sentences()[0].starts_with("5 requests were for objects beyond"));
    }
}
