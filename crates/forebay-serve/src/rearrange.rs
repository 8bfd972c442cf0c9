//! Disks whose blocks are laid as they are read (docs/serve.md): what is learnt from a trace, and the place behind all
//! exports where blocks go and the record of it is.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_core::arrange::{Arranger, Prices};
use forebay_core::stack::rearranged::{ROWS_MAX, new_places_at, record_at};
use forebay_core::{Rearrangement, Request};
use forebay_trace::{Record, open};

use crate::config::{Back, Blocks, On};
use crate::error::{Error, system, unfit};

/// What jumps and bytes cost a hard disk: a seek and half a turn, and reading on.
const PRICES: Prices = Prices { jump_s: 0.012, bytes_per_s: 150e6 };

/// How a disk is rearranged.
#[derive(Clone, Debug)]
pub(crate) struct Laid {
    /// Where the record is.
    pub(crate) at: u64,
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
    let record = match record_at(bytes) {
        Some(at) => Some((at, head(path, at)?)),
        None => None,
    };
    let to = record.and_then(|(_, head)| new_places_at(&head));
    let (at, head) = match (&back.blocks, record) {
        (Blocks::InPlace, _) => {
            return match to {
                None => Ok((bytes, None)),
                Some(_) => Err(wrong(format!(
                    "blocks of {} were rearranged and are not at their addresses; say rearranged = true",
                    path.display()
                ))),
            };
        }
        (_, None) => {
            return Err(wrong(format!(
                "rearrange: {} is too short, expected more than the mebibyte of the record",
                path.display()
            )));
        }
        (_, Some(record)) => record,
    };
    if has_flash {
        return Err(wrong("rearrange: got flash beside it, expected a disk alone".into()));
    }
    match (&back.blocks, to) {
        (_, Some(to)) => {
            notes.push(format!("{}: is rearranged, as its record says", back.name));
            Ok((to.min(at), Some(Laid { at, learnt: None })))
        }
        (Blocks::Learnt(trace), None) if head.iter().all(|byte| *byte == 0) => {
            let taken = taken(back).map_err(wrong)?;
            let Some(map) = learn(trace, taken, at, &wrong)? else {
                notes.push(format!(
                    "{}: nothing in {} is worth moving; blocks stay at their addresses",
                    back.name,
                    trace.display()
                ));
                return Ok((bytes, None));
            };
            let to = map.moves().first().map_or(at, |first| first.to);
            notes.push(format!(
                "{}: {} MiB in {} pieces move behind the exports whenever it is idle, then the record says so",
                back.name,
                map.moved_bytes().div_ceil(1 << 20),
                map.moves().len()
            ));
            Ok((to, Some(Laid { at, learnt: Some(map) })))
        }
        (Blocks::Learnt(_), None) => Err(wrong(format!(
            "rearrange: the last mebibyte of {} holds data, expected zeros: the record of what is moved goes there",
            path.display()
        ))),
        (_, None) => Err(wrong(format!(
            "rearranged: {} has no record of that; say rearrange = \"TRACE\" to begin, or leave it out",
            path.display()
        ))),
    }
}

/// The first bytes of where a record is.
fn head(path: &Path, at: u64) -> Result<[u8; 64], Error> {
    let mut head = [0; 64];
    let mut read = || File::open(path)?.read_exact_at(&mut head, at);
    read().map_err(system(format!("reading {}", path.display())))?;
    Ok(head)
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

/// What a trace of the disk says is worth moving to between `taken` and `end`.
fn learn(
    trace: &Path,
    taken: u64,
    end: u64,
    wrong: &dyn Fn(String) -> Error,
) -> Result<Option<Rearrangement>, Error> {
    let read = |error| Error::from(forebay::Error::from(error));
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
    arranger.take(taken);
    let learnt = arranger.finish(end, PRICES);
    if learnt.lacks_room {
        return Err(wrong(format!(
            "rearrange: {} bytes behind the exports are not enough for what is worth moving; make the disk longer or \
             the exports shorter",
            end.saturating_sub(taken)
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

fn request(record: &Record) -> Request {
    let Record { at, offset, len, stream, op, flags, .. } = *record;
    Request { at, offset, id: 0, len, stream, lane: 0, op, flags }
}
