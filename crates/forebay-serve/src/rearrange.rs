//! Disks whose blocks are laid as they are read (docs/serve.md): what is learnt from a trace, and the place behind all
//! exports where blocks go and the record of it is.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_core::arrange::{Arranger, Prices};
use forebay_core::stack::rearranged::{
    Found, HEAD_BYTES, RECORD_BYTES, ROWS_MAX, Record, found, record_at,
};
use forebay_core::{Rearrangement, Request};
use forebay_trace::open;

use crate::config::{Back, Blocks, On};
use crate::error::{Error, beside, unfit};

/// The version of a record that is known here.
const VERSION: u64 = 1;

/// What jumps and bytes cost a hard disk: a seek and half a turn, and reading on.
const PRICES: Prices = Prices { jump_s: 0.012, bytes_per_s: 150e6 };

/// How a disk is rearranged.
#[derive(Clone, Debug)]
pub(crate) struct Laid {
    /// Where the record is.
    pub(crate) record: Record,
    /// What is done where there is none.
    pub(crate) learnt: Option<Rearrangement>,
}

/// The bytes of a disk that exports may have, and how its blocks are laid, if they are; says in `notes` what is to come.
///
/// # Errors
/// A disk that is rearranged though nothing is said of it, one that is not, and one that has no room for it.
pub(crate) fn within(
    back: &Back,
    bytes: u64,
    has_flash: bool,
    notes: &mut Vec<String>,
) -> Result<(u64, Option<Laid>), Error> {
    let wrong = |what: String| unfit(format!("'{}': {what}", back.name));
    let (On::Target { path, .. } | On::Emulated { path, .. }) = &back.on else {
        return Ok((bytes, None));
    };
    let disk = Disk { path, bytes };
    let taken = taken(back);
    let marker = taken.as_ref().ok().map(|taken| taken.next_multiple_of(HEAD_BYTES));
    let known = disk.found(marker).map_err(wrong)?;
    if back.blocks == Blocks::InPlace {
        return match known {
            None => Ok((bytes, None)),
            Some(_) => Err(wrong(format!(
                "blocks of {} were rearranged and are not at their addresses; say rearranged = true",
                path.display()
            ))),
        };
    }
    if has_flash || back.read_only {
        return Err(wrong(
            "rearrange: cannot be combined with flash or read_only; it needs a disk without flash that may be written".into(),
        ));
    }
    if let Some(Found { at, to }) = known {
        notes.push(format!("{}: is rearranged, as its record says", back.name));
        let record = Record { at, marker: marker.unwrap_or(at) };
        return Ok((to.min(at), Some(Laid { record, learnt: None })));
    }
    let Blocks::Learnt(trace) = &back.blocks else {
        return Err(wrong(format!(
            "rearranged: {} has no record of that, at its end or behind its exports; if its length or its exports \
             have changed, set them back, since its blocks may be elsewhere; rearrange = \"TRACE\" begins a record",
            path.display()
        )));
    };
    let taken = taken.map_err(wrong)?;
    let marker = taken.next_multiple_of(HEAD_BYTES);
    let at = disk.room(marker).map_err(wrong)?;
    let Some(map) = learn(&back.name, trace, (taken, marker + HEAD_BYTES, at))? else {
        notes.push(format!(
            "{}: nothing in {} is worth moving; blocks stay at their addresses",
            back.name,
            trace.display()
        ));
        return Ok((bytes, None));
    };
    notes.push(format!(
        "{}: {} MiB in {} pieces move behind the exports whenever it is idle, then the record says so",
        back.name,
        map.moved_bytes().div_ceil(1 << 20),
        map.moves().len()
    ));
    Ok((marker, Some(Laid { record: Record { at, marker }, learnt: Some(map) })))
}

/// A disk, looked at before it is served.
struct Disk<'a> {
    path: &'a Path,
    bytes: u64,
}

impl Disk<'_> {
    /// The record that there is: the marker says where, whatever the disk's length is now; or else it is at the end.
    fn found(&self, marker: Option<u64>) -> Result<Option<Found>, String> {
        let marker = marker.filter(|at| at + HEAD_BYTES <= self.bytes);
        for place in marker.into_iter().chain(record_at(self.bytes)) {
            let head = self.head(place)?;
            let Some(known) = found(&head) else { continue };
            let name = self.path.display();
            let version = head[16..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            if version != VERSION {
                let age = if version < VERSION { "an older" } else { "a newer" };
                return Err(format!(
                    "the record of where blocks of {name} are has format {version}, made by {age} Forebay, expected \
                     format {VERSION}; serve it with that Forebay and copy the export to another disk"
                ));
            }
            if known.at.checked_add(RECORD_BYTES).is_none_or(|end| end > self.bytes) {
                return Err(format!(
                    "{name}: got {} bytes, but it was longer when its blocks were rearranged, expected at least {}",
                    self.bytes,
                    known.at.saturating_add(RECORD_BYTES)
                ));
            }
            let head = self.head(known.at)?;
            if head.iter().all(|byte| *byte == 0) {
                // The copying was cut off before its end.
                continue;
            }
            if found(&head) != Some(known) {
                return Err(format!(
                    "{name}: the record of where its blocks are is damaged, at byte {}",
                    known.at
                ));
            }
            return Ok(Some(known));
        }
        Ok(None)
    }

    /// Where a record may be begun.
    fn room(&self, marker: u64) -> Result<u64, String> {
        let name = self.path.display();
        let at = record_at(self.bytes).filter(|at| *at > marker + HEAD_BYTES).ok_or_else(|| {
            format!(
                "rearrange: {name} is too short, expected more than a mebibyte behind its exports for the record"
            )
        })?;
        let was_begun = found(&self.head(marker)?).is_some_and(|known| known.at == at);
        let is_free = |at: u64, len: u64| -> Result<bool, String> {
            let mut bytes = vec![0; len as usize];
            self.read(&mut bytes, at)?;
            Ok(bytes.iter().all(|byte| *byte == 0))
        };
        let is_free = is_free(at, HEAD_BYTES)?
            && (was_begun || is_free(at, RECORD_BYTES)? && is_free(marker, HEAD_BYTES)?);
        match is_free {
            true => Ok(at),
            false => Err(format!(
                "rearrange: the last mebibyte of {name} or what is behind its exports holds data, expected zeros: the \
                 record of what is moved goes there"
            )),
        }
    }

    /// The first bytes of where a head may be.
    fn head(&self, at: u64) -> Result<[u8; 64], String> {
        let mut head = [0; 64];
        self.read(&mut head, at)?;
        Ok(head)
    }

    fn read(&self, to: &mut [u8], at: u64) -> Result<(), String> {
        let read = File::open(self.path).and_then(|file| file.read_exact_at(to, at));
        read.map_err(|error| format!("{}: reading it: {error}", self.path.display()))
    }
}

/// Bytes that exports have, counted from the disk's begin.
fn taken(back: &Back) -> Result<u64, String> {
    let mut ends = back.exports.iter().map(|export| {
        let bytes = export.bytes.ok_or_else(|| {
            format!(
                "rearrange: export '{}' has no size, expected one: blocks move to what is behind all exports",
                export.name
            )
        })?;
        Ok(export.offset.saturating_add(bytes))
    });
    ends.try_fold(0, |most, end: Result<u64, String>| Ok(most.max(end?)))
}

/// What a trace of the disk of `name`, of whose exports `taken` is the end, says is worth moving to between `from` and `end`.
fn learn(
    name: &str,
    trace: &Path,
    (taken, from, end): (u64, u64, u64),
) -> Result<Option<Rearrangement>, Error> {
    let wrong = |what: String| unfit(format!("'{name}': {what}"));
    let read = |error| beside(name, "rearrange", error);
    let mut reader = open::open(trace, None).map_err(read)?;
    let (mut arranger, mut batch, mut seen) = (Arranger::default(), Vec::new(), 0);
    loop {
        reader.read(&mut batch).map_err(read)?;
        if batch.is_empty() {
            break;
        }
        let requests = batch.iter().map(request).filter(|request| request.end() <= taken);
        requests.for_each(|request| arranger.see(&request));
        seen += batch.len() as u64;
    }
    let volumes = reader.dictionary().volumes.len();
    if volumes > 1 || seen == 0 {
        return Err(wrong(format!(
            "rearrange: {}: got {volumes} volumes and {seen} requests, expected a trace of this disk alone (trace = \
             \"FILE\" writes one)",
            trace.display()
        )));
    }
    arranger.take(from);
    let learnt = arranger.finish(end, PRICES);
    if learnt.lacks_room {
        return Err(wrong(format!(
            "rearrange: {} bytes behind the exports are not enough for what is worth moving; make the disk longer or \
             the exports shorter",
            end.saturating_sub(from)
        )));
    }
    let pieces = learnt.rearrangement.as_ref().map_or(0, |map| map.moves().len());
    if pieces > ROWS_MAX {
        return Err(wrong(format!(
            "rearrange: got {pieces} pieces worth moving, expected at most {ROWS_MAX}; take a shorter trace"
        )));
    }
    Ok(learnt.rearrangement)
}

fn request(record: &forebay_trace::Record) -> Request {
    let forebay_trace::Record { at, offset, len, stream, op, flags, .. } = *record;
    Request { at, offset, id: 0, len, stream, lane: 0, op, flags }
}
