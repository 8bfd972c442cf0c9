//! The output of `strace -f -ttt -T`, as a trace of files: each file is a volume.
//!
//! A line is `PID SECONDS call(arguments) = result <duration>`. The id may also be written `[pid
//! PID]` or be missing, and times may be times of day (`-tt`). If another thread interrupts a call,
//! strace splits it into `call(... <unfinished ...>` and `<... call resumed>...`, which are joined
//! here.
//!
//! Calls that transfer data (`read`, `pread64`, `readv`, `preadv` and the corresponding writes) are
//! requests, `fsync` and `fdatasync` are flushes, and holes that `fallocate` punches are trims.
//! `open`, `dup`, `lseek`, `clone` and the like determine which file a descriptor refers to and its
//! position; with `-y`, strace prints the file itself. Units: seconds, bytes. Epoch: the first
//! call. Calls that fail or transfer nothing, and those on sockets, pipes and terminals, are
//! skipped and counted.

mod files;
mod line;

use std::collections::BTreeMap;

use forebay_core::{Flags, Op};

use super::events::calls::{Call, CallLine, Request};
use crate::Stream;
use crate::fields::digits;
use crate::rows::RowError;
use files::{File, Files};
use forebay_words::plural::{counted, verb};
use line::{Line, Times, Whole};

/// The maximum length of the part of an interrupted call that is stored, and the maximum number of
/// such calls.
const HELD_MAX: usize = 4096;

/// The state of reading the output.
#[derive(Default)]
pub(super) struct Strace {
    times: Times,
    files: Files,
    /// The interrupted call of each thread, and when it began.
    held: std::collections::HashMap<u32, (u64, Vec<u8>)>,
    /// The number of data-transferring calls of which only the beginning or only the end is in the
    /// trace.
    halves: [u64; 2],
    /// The text of the current line's call.
    text: Vec<u8>,
    /// The number of calls that transfer data in unsupported ways, by name.
    unread: BTreeMap<&'static str, u64>,
    /// The name of the current volume.
    name: Vec<u8>,
}

/// Calls that transfer data of files in unsupported ways.
const UNREAD: [&str; 10] = [
    "io_submit",
    "io_uring_enter",
    "copy_file_range",
    "sendfile",
    "sendfile64",
    "splice",
    "sync",
    "syncfs",
    "msync",
    "sync_file_range",
];

/// Returns the name of a call, if it transfers data in an unsupported way.
fn unread(call: &Whole<'_>) -> Option<&'static str> {
    call.result?;
    let request = call.arguments.get(1).copied().unwrap_or_default();
    if call.name == b"ioctl" {
        let all = ["BLKDISCARD", "BLKSECDISCARD", "BLKZEROOUT"];
        return all.into_iter().find(|one| request == one.as_bytes());
    }
    UNREAD.into_iter().find(|one| call.name == one.as_bytes())
}

/// Returns the operation of a call that transfers data, and the index of the offset among its
/// arguments, if it has one.
fn transfer(name: &[u8]) -> Option<(Op, Option<usize>)> {
    Some(match name {
        b"read" | b"readv" => (Op::Read, None),
        b"write" | b"writev" => (Op::Write, None),
        b"pread" | b"pread64" | b"preadv" | b"preadv2" => (Op::Read, Some(3)),
        b"pwrite" | b"pwrite64" | b"pwritev" | b"pwritev2" => (Op::Write, Some(3)),
        _ => return None,
    })
}

impl CallLine for Strace {
    const NAME: &'static str = "strace";
    const LAYOUT: &'static str = "those of strace -f -ttt -T, such as \
        PID SECONDS pread64(3, \"...\", 4096, 0) = 4096 <0.000100>";
    const ENDINGS: &'static [&'static str] = &[">"];

    fn is_line(line: &[u8]) -> bool {
        match line::parse(line, &mut Times::default()) {
            Ok(Line::Whole(_, _, text)) => line::call(text).is_some(),
            Ok(Line::Unfinished(..)) => true,
            Err(wrong) => wrong.expected == line::TIME_EXPECTED,
            _ => false,
        }
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Call<'a>, RowError> {
        let (thread, at_ns) = match line::parse(line, &mut self.times)? {
            Line::Other => return Ok(Call::Other),
            Line::Unfinished(thread, at_ns, text) => {
                let lost = match self.held.len() < HELD_MAX && text.len() < HELD_MAX {
                    true => self.held.insert(thread, (at_ns, text.to_vec())).map(|(_, text)| text),
                    false => Some(text.to_vec()),
                };
                self.halves[0] += u64::from(lost.is_some_and(|text| moves_data(name_of(&text))));
                return Ok(Call::Other);
            }
            Line::Resumed(thread, name, rest) => {
                let Some((at_ns, mut begun)) = self.held.remove(&thread) else {
                    self.halves[1] += u64::from(moves_data(name));
                    return Ok(Call::Other);
                };
                begun.extend_from_slice(rest);
                self.text = begun;
                (thread, at_ns)
            }
            Line::Whole(thread, at_ns, text) => {
                self.text.clear();
                self.text.extend_from_slice(text);
                (thread, at_ns)
            }
        };
        let Some(call) = line::call(&self.text) else { return Ok(Call::Other) };
        let Some(moved) = moved(&call, thread, &mut self.files) else {
            self.files.follow(thread, &call);
            if let Some(name) = unread(&call) {
                *self.unread.entry(name).or_default() += 1;
            }
            return Ok(Call::Other);
        };
        let Some((op, offset, len, name)) = moved else { return Ok(Call::Skipped) };
        self.name = name;
        let latency_ns = call.latency_ns;
        let stream = Stream { thread: Some(thread).filter(|id| *id != 0), ..Stream::default() };
        let (flags, volume) = (Flags::NONE, &self.name[..]);
        Ok(Call::Whole(Request { at_ns, op, offset, len, flags, volume, stream }, latency_ns))
    }

    fn sentences(&self) -> Vec<String> {
        let unread = self.unread.iter().map(|(name, count)| format!("{count} {name}"));
        let unread = unread.collect::<Vec<_>>().join(", ");
        let left_out = (!unread.is_empty())
            .then(|| format!("unsupported calls that transfer data are left out: {unread}"));
        let [endless, unbegun] = self.halves;
        let waiting = self.held.values().filter(|(_, text)| moves_data(name_of(text))).count();
        let half = |count: u64, what: &str| {
            (count > 0).then(|| {
                let calls = counted(count, "call");
                let (has, is) = (verb(count, "has", "have"), verb(count, "is", "are"));
                format!("{calls} {has} no {what} in the trace and {is} left out")
            })
        };
        self.files
            .sentences()
            .into_iter()
            .chain(half(endless + waiting as u64, "end"))
            .chain(half(unbegun, "beginning"))
            .chain(left_out)
            .chain(self.times.day.sentence())
            .collect()
    }
}

/// Returns the name of a call whose text may be incomplete.
fn name_of(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == b'(').next().unwrap_or_default()
}

/// Returns whether a call with this name may be a request.
fn moves_data(name: &[u8]) -> bool {
    transfer(name).is_some() || matches!(name, b"fsync" | b"fdatasync" | b"fallocate")
}

/// What a call did: the operation, the offset, the length, and the name of the file.
type Moved = (Op, u64, u64, Vec<u8>);

/// Returns the request of a call. Returns `None` if the call never transfers data, and `Some(None)`
/// if this one did not, or not with a file.
fn moved(call: &Whole<'_>, thread: u32, files: &mut Files) -> Option<Option<Moved>> {
    let result = call.result.and_then(|word| digits(files::number_of(word)));
    let first = call.arguments.first().copied().unwrap_or_default();
    let argument = |at: usize| call.arguments.get(at).copied().and_then(digits);
    if let Some((op, place)) = transfer(call.name) {
        let len = result.filter(|&len| len > 0);
        return Some(len.and_then(|len| {
            let file = files.find(thread, first, place.is_some())?;
            let offset = match place.and_then(argument) {
                Some(offset) => offset,
                // An offset of -1 stands for the descriptor's position.
                None => file.advance(op, len),
            };
            file.reaches(offset.saturating_add(len));
            Some((op, offset, len, file.name.clone()))
        }));
    }
    let is_hole = |word: &[u8]| memchr::memmem::find(word, b"PUNCH_HOLE").is_some();
    let (op, offset, len) = match call.name {
        b"fsync" | b"fdatasync" => (Op::Flush, 0, 0),
        b"fallocate" if call.arguments.get(1).is_some_and(|mode| is_hole(mode)) => {
            (Op::Trim, argument(2)?, argument(3)?)
        }
        _ => return None,
    };
    let is_done = result.is_some();
    Some(
        files
            .find(thread, first, true)
            .filter(|_| is_done)
            .map(|file: &mut File| (op, offset, len, file.name.clone())),
    )
}

#[cfg(test)]
mod tests;
