//! Disks whose blocks are rearranged in the order in which they are read (docs/serve.md). This
//! module learns the new order from a trace, and finds space behind all exports for the moved
//! blocks and the record of their positions.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_core::arrange::{Arranger, Prices};
use forebay_core::stack::rearranged::{
    HEAD_BYTES, HeadRecord, RECORD_BYTES, ROWS_MAX, Record, found, record_at,
};
use forebay_core::{Rearrangement, Request};
use forebay_trace::open;

use crate::error::{Error, beside, unfit};
use crate::{Back, Blocks, On};

/// The supported version of the record.
const VERSION: u64 = 1;

/// The costs of reading on a hard disk: a jump costs a seek and half a rotation; bytes are read
/// sequentially at this rate.
const PRICES: Prices = Prices { jump_s: 0.012, bytes_per_s: 150e6 };

/// How a disk is rearranged.
#[derive(Clone, Debug)]
pub(crate) struct Laid {
    /// The position of the record.
    pub(crate) record: Record,
    /// The rearrangement to perform if there is no record yet.
    pub(crate) learnt: Option<Rearrangement>,
}

/// Returns the part of a disk that exports may use, and the disk's rearrangement, if any. Adds a
/// note about what will be done.
///
/// # Errors
/// The disk is rearranged but the configuration does not say so, or the reverse, or the disk has no
/// space for the moved blocks.
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
                "blocks of {} were rearranged and are not at their addresses; set rearranged = \
                 true",
                path.display()
            ))),
        };
    }
    if has_flash || back.read_only {
        return Err(wrong(
            "rearrange: cannot be combined with flash or read_only; it needs a writable disk \
             without flash"
                .into(),
        ));
    }
    if let Some(HeadRecord { at, to }) = known {
        notes.push(format!("{}: is rearranged according to its record", back.name));
        let record = Record { at, marker: marker.unwrap_or(at) };
        return Ok((to.min(at), Some(Laid { record, learnt: None })));
    }
    let Blocks::Learnt(trace) = &back.blocks else {
        return Err(wrong(format!(
            "rearranged: {} has no record of rearranged blocks at its end or after its exports; \
             if its length or its exports have changed, restore them, because its blocks may be \
             elsewhere; rearrange = \"TRACE\" creates a record",
            path.display()
        )));
    };
    let taken = taken.map_err(wrong)?;
    let marker = taken.next_multiple_of(HEAD_BYTES);
    let at = disk.room(marker).map_err(wrong)?;
    let Some(map) = learn(&back.name, trace, (taken, marker + HEAD_BYTES, at))? else {
        notes.push(format!(
            "{}: nothing in {} is worth moving, so all blocks keep their addresses",
            back.name,
            trace.display()
        ));
        return Ok((bytes, None));
    };
    notes.push(format!(
        "{}: {} MiB in {} pieces will move to the space after the exports while the disk is idle, \
         and will then be recorded",
        back.name,
        map.moved_bytes().div_ceil(1 << 20),
        map.moves().len()
    ));
    Ok((marker, Some(Laid { record: Record { at, marker }, learnt: Some(map) })))
}

/// A disk that is checked before it is served.
struct Disk<'a> {
    path: &'a Path,
    bytes: u64,
}

impl Disk<'_> {
    /// Finds the existing record. The marker contains the record's position, whatever the disk's
    /// current length. Without a marker, the record can only be at the end of the disk.
    fn found(&self, marker: Option<u64>) -> Result<Option<HeadRecord>, String> {
        let marker = marker.filter(|at| at + HEAD_BYTES <= self.bytes);
        for place in marker.into_iter().chain(record_at(self.bytes)) {
            let head = self.head(place)?;
            let Some(known) = found(&head) else { continue };
            let name = self.path.display();
            let version = head[16..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            if version != VERSION {
                let age = if version < VERSION { "an older" } else { "a newer" };
                return Err(format!(
                    "the record of moved blocks of {name} has format {version}, made by {age} Forebay, expected \
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
                // Copying was interrupted before the head was written.
                continue;
            }
            if found(&head) != Some(known) {
                return Err(format!(
                    "{name}: the record of its moved blocks is damaged, at byte {}",
                    known.at
                ));
            }
            return Ok(Some(known));
        }
        Ok(None)
    }

    /// Returns the position for a new record.
    fn room(&self, marker: u64) -> Result<u64, String> {
        let name = self.path.display();
        let at = record_at(self.bytes).filter(|at| *at > marker + HEAD_BYTES).ok_or_else(|| {
            format!(
                "rearrange: {name} is too short, expected more than 1 MiB after its exports for \
                 the record"
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
                "rearrange: the last MiB of {name} or the space after its exports holds data, \
                 expected zeros: the record of moved blocks goes there"
            )),
        }
    }

    /// Reads the first bytes at the position of a possible head.
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

/// Returns the end of the last export.
fn taken(back: &Back) -> Result<u64, String> {
    let mut ends = back.exports.iter().map(|export| {
        let bytes = export.bytes.ok_or_else(|| {
            format!(
                "rearrange: export '{}' has no size, expected one: blocks move to the space after \
                 all exports",
                export.name
            )
        })?;
        Ok(export.offset.saturating_add(bytes))
    });
    ends.try_fold(0, |most, end: Result<u64, String>| Ok(most.max(end?)))
}

/// Learns from a trace which blocks to move to the space between `from` and `end`. `name` is the
/// disk's name, and `taken` is the end of its exports.
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
            "rearrange: {} bytes after the exports are not enough for the blocks worth moving; \
             make the disk longer or the exports shorter",
            end.saturating_sub(from)
        )));
    }
    let pieces = learnt.rearrangement.as_ref().map_or(0, |map| map.moves().len());
    if pieces > ROWS_MAX {
        return Err(wrong(format!(
            "rearrange: got {pieces} pieces worth moving, expected at most {ROWS_MAX}; use a \
             shorter trace"
        )));
    }
    Ok(learnt.rearrangement)
}

fn request(record: &forebay_trace::Record) -> Request {
    let forebay_trace::Record { at, offset, len, stream, op, flags, .. } = *record;
    Request { at, offset, id: 0, len, stream, lane: 0, op, flags }
}
