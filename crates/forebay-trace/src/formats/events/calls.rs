//! Combines the requests of tracers that number them: one line begins a request, and a later line
//! with the same key ends it. Each format defines what its lines mean ([`CallLine`]).
//!
//! Invariant: at most [`BEGUN_MAX`] requests wait for their end. If there are more, or if a key
//! begins again, the end of a request was lost, and the request is returned without a latency.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use forebay_core::{Flags, Nanos, Op};

use crate::formats::Input;
use crate::formats::log::{FIRST_LINES, Line, Log, ordered, words};
use crate::formats::numbering::Numbering;
use crate::rows::{self, LongRequests, RowError};
use crate::{Dictionary, Place, Reader, Record, Stream, TraceError};
use forebay_words::plural::{counted, verb};

/// The maximum number of requests that wait for their end.
const BEGUN_MAX: usize = 1 << 18;

/// The key of a request, which is unique until the request ends.
pub(crate) type Key = [u64; 2];

/// A request as its line states it.
pub(crate) struct Request<'a> {
    pub(crate) at_ns: u64,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) flags: Flags,
    pub(crate) volume: &'a [u8],
    pub(crate) stream: Stream,
}

/// The meaning of a line.
pub(crate) enum Call<'a> {
    Begin(Key, Request<'a>),
    End(Key, u64),
    /// The end of a request, with its latency.
    EndAfter(Key, u64),
    /// The end of a request, unless an earlier line ended it.
    AlsoEnd(Key, u64),
    /// The request with this key failed.
    Fail(Key),
    /// A complete request and its latency, if known, in a single line.
    Whole(Request<'a>, Option<u64>),
    /// A request that cannot be represented.
    Skipped,
    Other,
}

/// A format in which requests begin and end in different lines.
pub(crate) trait CallLine: Default + Send {
    /// The name of the format.
    const NAME: &'static str;
    /// The layout of lines, for messages.
    const LAYOUT: &'static str;
    /// The number of lines at the beginning by which the format is recognized.
    const SNIFFED_LINES: usize = FIRST_LINES;
    /// The endings of lines that are certainly not truncated.
    const ENDINGS: &'static [&'static str] = &[];

    /// Returns whether a line shows that a text has this format.
    fn is_line(line: &[u8]) -> bool;

    /// How to record absolute times, if the tool can also print differences between lines.
    const ABSOLUTE: &'static str = "";

    /// Returns the time of a line in any unit, if the tool can also print differences between
    /// lines.
    fn time(_line: &[u8]) -> Option<u64> {
        None
    }

    /// Parses a line, which is not blank.
    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Call<'a>, RowError>;

    /// Returns notes for the user at the end.
    fn sentences(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Returns whether text that begins with `head` has format `P`.
pub(crate) fn sniff<P: CallLine>(head: &[u8]) -> bool {
    let lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty()).take(P::SNIFFED_LINES).any(P::is_line)
}

/// Opens a reader of format `P`.
pub(crate) fn open<P: CallLine + 'static>(mut input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let head = input.content.fill_buf();
    let head = head.map_err(|source| TraceError::Io { path: input.path.clone(), source })?;
    if let Some(refusal) = refuse_differences::<P>(&input.path, head) {
        return Err(refusal);
    }
    let log = CallLog { parser: P::default(), who: Numbering::default(), calls: Calls::default() };
    Ok(ordered(input, log, Dictionary::default()))
}

/// Returns an error if times often go back, because they are differences between lines.
fn refuse_differences<P: CallLine>(path: &Path, head: &[u8]) -> Option<TraceError> {
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let times: Vec<u64> = whole.split(|&byte| byte == b'\n').filter_map(P::time).collect();
    let back = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let refusal = || TraceError::Malformed {
        path: path.to_path_buf(),
        place: Place::File,
        got: format!("times that go back {back} times in the first {} lines", times.len()),
        expected: "times relative to a fixed moment, not differences between lines".into(),
        hint: P::ABSOLUTE.into(),
    };
    (back > 0 && back * 4 >= times.len()).then(refusal)
}

/// Converts lines to requests.
struct CallLog<P> {
    parser: P,
    who: Numbering,
    calls: Calls,
}

impl<P: CallLine> Log for CallLog<P> {
    const NAME: &'static str = P::NAME;
    const LINES: &'static str = P::LAYOUT;

    fn line(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Line, RowError> {
        let mut made = |request: Request<'_>| {
            let Request { at_ns, op, offset, len, flags, volume, stream } = request;
            let record = match LongRequests::may_split(op, len) {
                true => rows::long_request(at_ns, op, offset, len)?,
                false => rows::record(at_ns, op, offset, len)?,
            };
            let volume = self.who.volume(volume, dictionary)?;
            let stream = self.who.stream(stream, dictionary)?;
            Ok::<Made, RowError>((Record { flags, volume, stream, ..record }, len))
        };
        let made = match self.parser.parse(line)? {
            Call::Begin(key, request) => self.calls.begin(key, made(request)?),
            Call::AlsoEnd(key, _) if !self.calls.begun.contains_key(&key) => None,
            Call::End(key, at_ns) | Call::AlsoEnd(key, at_ns) => {
                self.calls.end(&key, |begin| at_ns.checked_sub(begin.0).map(Nanos))
            }
            Call::EndAfter(key, ns) => self.calls.end(&key, |_| Some(Nanos(ns))),
            Call::Fail(key) => {
                return Ok(self.calls.take(&key).map_or(Line::Other, |_| Line::Skipped));
            }
            Call::Whole(request, latency_ns) => {
                let (record, len) = made(request)?;
                Some((Record { latency: latency_ns.map(Nanos), ..record }, len))
            }
            Call::Skipped => return Ok(Line::Skipped),
            Call::Other => None,
        };
        Ok(made.map_or(Line::Other, line_of))
    }

    fn takes_cut(&self, line: &[u8]) -> bool {
        let line = line.trim_ascii_end();
        P::ENDINGS.iter().any(|ending| line.ends_with(ending.as_bytes()))
    }

    fn rest(&mut self) -> Vec<Line> {
        self.calls.rest().into_iter().map(line_of).collect()
    }

    fn end(&mut self) -> Vec<String> {
        let mut sentences = self.calls.sentences();
        sentences.extend(self.parser.sentences());
        sentences
    }
}

/// A record and the length of its request in bytes, which may exceed the maximum length of a
/// record.
type Made = (Record, u64);

/// Returns what a request means for the log. Requests that transfer nothing although their
/// operation should are skipped.
fn line_of((record, len): Made) -> Line {
    match LongRequests::may_split(record.op, len) {
        true => Line::Long(record, len),
        false if record.len == 0 && record.op != Op::Flush => Line::Skipped,
        false => Line::Request(record),
    }
}

/// The named fields of a line, and the separator between a name and its value: `=`, `:` with a
/// space, or a space.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8], pub(crate) &'static str);

impl<'a> Fields<'a> {
    /// Returns the value of the first field called `name`.
    pub(crate) fn value(&self, name: &str) -> Option<&'a [u8]> {
        let Fields(line, mark) = *self;
        if mark == "=" {
            return words(line)
                .find_map(|word| word.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        }
        let is_name = |word: &&[u8]| word.strip_suffix(mark.as_bytes()) == Some(name.as_bytes());
        words(line).skip_while(|word| !is_name(word)).nth(1)
    }

    /// Returns the value of a numeric field.
    pub(crate) fn number(&self, name: &'static str) -> Result<u64, RowError> {
        let word = self.value(name).unwrap_or_default();
        number(word)
            .ok_or_else(|| RowError::new(name, word, "a whole number such as 4096 or 0x1000"))
    }
}

/// Parses a number, which is decimal, or hexadecimal after `0x`.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    match word.strip_prefix(b"0x") {
        Some(digits) => u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok(),
        None => crate::fields::digits(word),
    }
}

/// The requests that have begun but not ended, by key.
#[derive(Default)]
struct Calls {
    begun: HashMap<Key, (u64, Made)>,
    /// The keys in the order in which their requests began.
    order: BTreeMap<u64, Key>,
    next: u64,
    endless: u64,
    /// The number of ends whose beginning was not seen.
    unbegun: u64,
}

impl Calls {
    /// Begins a request. If this means that the end of an older request was lost, returns the older
    /// one.
    fn begin(&mut self, key: Key, made: Made) -> Option<Made> {
        let mut lost = self.take(&key);
        if lost.is_none() && self.begun.len() >= BEGUN_MAX {
            let oldest = self.order.first_key_value().map(|(_, key)| *key);
            lost = oldest.and_then(|key| self.take(&key));
        }
        self.endless += u64::from(lost.is_some());
        self.order.insert(self.next, key);
        self.begun.insert(key, (self.next, made));
        self.next += 1;
        lost
    }

    /// Ends a request. If its beginning was seen, returns it with the latency that `latency`
    /// computes from its arrival.
    fn end(&mut self, key: &Key, latency: impl FnOnce(Nanos) -> Option<Nanos>) -> Option<Made> {
        let Some((mut record, len)) = self.take(key) else {
            self.unbegun += 1;
            return None;
        };
        record.latency = latency(record.at);
        Some((record, len))
    }

    /// Removes a request and returns it.
    fn take(&mut self, key: &Key) -> Option<Made> {
        let (number, made) = self.begun.remove(key)?;
        self.order.remove(&number);
        Some(made)
    }

    /// Returns the requests that have not ended when the trace ends.
    fn rest(&mut self) -> Vec<Made> {
        self.endless += self.begun.len() as u64;
        let order = std::mem::take(&mut self.order);
        order.into_values().filter_map(|key| Some(self.begun.remove(&key)?.1)).collect()
    }

    /// Returns the notes at the end of the trace.
    fn sentences(&self) -> Vec<String> {
        let endless = (self.endless > 0).then(|| {
            format!(
                "{} {} no completion in the trace: the latency is unknown",
                counted(self.endless, "request"),
                verb(self.endless, "has", "have")
            )
        });
        let unbegun = (self.unbegun > 0).then(|| {
            format!(
                "{} {} no request in the trace, and {} left out",
                counted(self.unbegun, "completion"),
                verb(self.unbegun, "has", "have"),
                verb(self.unbegun, "is", "are")
            )
        });
        endless.into_iter().chain(unbegun).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;
    use forebay_core::Op;

    #[test]
    fn a_request_ends_once_and_lost_ends_are_counted() {
        let record = |at| (rows::record(at, Op::Read, at * 512, 512).unwrap(), 512);
        let mut calls = Calls::default();
        assert_eq!(calls.begin([1, 0], record(1)), None);
        assert_eq!(calls.begin([2, 0], record(2)), None);
        assert_eq!(calls.end(&[1, 0], |_| Some(Nanos(4))).unwrap().0.latency, Some(Nanos(4)));
        assert_eq!(calls.end(&[1, 0], |_| None), None);
        assert_eq!(calls.begin([2, 0], record(7)).unwrap().0.at, Nanos(2));
        assert_eq!(calls.rest().len(), 1);
        let told = calls.sentences();
        assert!(told[0].starts_with("2 requests have") && told[1].starts_with("1 completion has"));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut calls, mut returned) = (Calls::default(), 0);
        for n in 0..(BEGUN_MAX as u64 + 5) {
            let made = (rows::record(n, Op::Read, 0, 512).unwrap(), 512);
            let lost = calls.begin([n, 0], made);
            assert_eq!(lost.map(|(record, _)| record.at.0), n.checked_sub(BEGUN_MAX as u64));
            returned += u64::from(lost.is_some());
        }
        assert_eq!((returned, calls.rest().len()), (5, BEGUN_MAX));
    }
}
