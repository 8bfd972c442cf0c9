//! Reads text with one event per line, such as the output of blkparse or of the kernel's
//! tracepoints.
//!
//! Each format parses its lines ([`EventLine`]). This module handles names of threads, steps back
//! of the clock, unreadable lines, truncated files, lost events, and combining events into
//! requests.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::{BackSteps, Event, EventKind, Pairing, Remap, SECTOR_BYTES, Sorted, Source};
use crate::bad_rows::BadRows;
use crate::formats::Input;
use crate::formats::log::first_lines;
use crate::lines::Lines;
use crate::{Dictionary, Notes, Place, Reader, Record, SourceFacts, TraceError};
use forebay_ask::named;
use forebay_words::plural::{counted, verb};

/// What a line contains.
pub(crate) enum Line<'a> {
    /// An event, and the name of its thread if the line contains one.
    Event(Event, Option<&'a [u8]>),
    /// An event that does not concern a request.
    Other,
    /// A comment, or part of a summary.
    Summary,
    /// The tracer lost events. Contains their number if the line states it.
    Lost(Option<u64>),
    Unknown,
}

/// If there are this many unknown lines before the first event, the text has another format.
const UNKNOWN_MAX: u64 = 1000;

/// The maximum number of unreadable insert events that are stored.
const INSERTS_SHOWN: usize = 3;

/// The reason why a line that should be an event cannot be read.
pub(crate) type Unreadable = Cow<'static, str>;

/// A text format with one event per line.
pub(crate) trait EventLine: Send {
    /// The name of the format.
    const NAME: &'static str;
    /// The layout of lines, for messages.
    const LAYOUT: &'static str;
    /// Whether a completion may name the disk of a partition.
    const DISKS_COMPLETE: bool = false;

    /// Parses a line, which is not blank.
    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Unreadable>;

    /// Returns whether an unreadable line is an insert event. These events are needed only if there
    /// are neither queue nor issue events.
    fn is_insert(&self, _line: &[u8]) -> bool {
        false
    }

    /// Returns whether a line without a newline ends like a complete event, so that its last number
    /// cannot be truncated.
    fn is_whole(&self, line: &[u8]) -> bool {
        line.trim_ascii_end().ends_with(b"]")
    }
}

/// Opens a reader of the format that `parser` reads.
pub(crate) fn open(parser: impl EventLine + 'static, input: Input) -> Box<dyn Reader> {
    Box::new(TextEvents::new(parser, input))
}

/// Returns whether text that begins with `head` has the format of `parser`: one of the first lines
/// must be an event. The other lines may be messages of the recording tools.
pub(crate) fn sniff(mut parser: impl EventLine, head: &[u8]) -> bool {
    first_lines(head).any(|line| matches!(parser.parse(line), Ok(Line::Event(..) | Line::Other)))
}

/// Converts events to requests.
struct TextEvents<P> {
    events: Sorted<EventLines<P>>,
    pairing: Pairing,
}

impl<P: EventLine> TextEvents<P> {
    fn new(parser: P, input: Input) -> TextEvents<P> {
        let mut pairing = Pairing::new(P::NAME, false);
        pairing.choose(input.layer);
        if P::DISKS_COMPLETE {
            pairing.let_disks_complete();
        }
        TextEvents { events: Sorted::new(EventLines::new(parser, input)), pairing }
    }
}

impl<P: EventLine> Reader for TextEvents<P> {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        let ends = self.pairing.fill(batch, || self.events.next())?;
        if ends {
            let taken = &self.events.source.taken;
            self.pairing.notes.rows_bad = taken.rows_bad;
            self.pairing.notes.warnings.extend(taken.warnings());
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.pairing.dictionary, &self.pairing.notes)
    }

    fn facts(&self) -> SourceFacts {
        self.pairing.facts()
    }
}

/// Reads events from lines.
struct EventLines<P> {
    lines: Lines,
    taken: Taken<P>,
}

/// The state of reading lines.
struct Taken<P> {
    parser: P,
    path: PathBuf,
    /// The number of the current line.
    number: u64,
    /// The number of events.
    events: u64,
    /// The number of lines that are neither an event nor part of a summary, and the first of them.
    unknown: u64,
    first_unknown: Option<(u64, String)>,
    unreadable: BadRows,
    rows_bad: u64,
    /// Whether there were queue or issue events.
    has_arrivals: bool,
    /// The first unreadable insert events, and the number of all of them.
    inserts: (Vec<TraceError>, u64),
    /// The note about unreadable lines, which is known at the end.
    bad_sentence: Option<String>,
    /// Whether the last line was truncated.
    cut_short: bool,
    /// The number of lines that report lost events, and the number of events that they report.
    lost: (u64, u64),
    back: BackSteps,
    /// The current name of each thread.
    names: FxHashMap<u32, Box<[u8]>>,
    /// Events that must be returned before any others.
    held: VecDeque<Event>,
}

impl<P: EventLine> EventLines<P> {
    fn new(parser: P, input: Input) -> EventLines<P> {
        let Input { path, content, split_runs, bad_rows_max, .. } = input;
        let lines = Lines::new(&path, content);
        let taken = Taken {
            parser,
            path,
            number: 0,
            events: 0,
            unknown: 0,
            first_unknown: None,
            unreadable: BadRows::new(bad_rows_max),
            rows_bad: 0,
            has_arrivals: false,
            inserts: (Vec::new(), 0),
            bad_sentence: None,
            cut_short: false,
            lost: (0, 0),
            back: BackSteps::splitting(split_runs),
            names: FxHashMap::default(),
            held: VecDeque::new(),
        };
        EventLines { lines, taken }
    }
}

impl<P: EventLine> Taken<P> {
    /// Processes a line and adds its events to `held`. An event without a newline is left out if it
    /// may be truncated.
    fn take(&mut self, line: &[u8], is_cut: bool) -> Result<(), TraceError> {
        let may_cut = is_cut && self.events > 0;
        match self.parser.parse(line) {
            Ok(Line::Event(..)) if may_cut && !self.parser.is_whole(line) => self.cut_short = true,
            Err(_) if may_cut => self.cut_short = true,
            Ok(Line::Event(event, name)) => self.event(event, name),
            Ok(Line::Other) => self.events += 1,
            Ok(Line::Summary) => {}
            Ok(Line::Lost(count)) => {
                self.lost.0 += 1;
                self.lost.1 = self.lost.1.saturating_add(count.unwrap_or(0));
            }
            Ok(Line::Unknown) => {
                self.first_unknown.get_or_insert_with(|| (self.number, shown(line)));
                self.unknown += 1;
                if self.events == 0 && self.unknown >= UNKNOWN_MAX {
                    return Err(self.no_event());
                }
            }
            Err(reason) => {
                let place = Place::Line(self.number);
                let got = || format!("{} ({reason})", shown(line));
                if self.parser.is_insert(line) {
                    if self.inserts.0.len() < INSERTS_SHOWN && !self.has_arrivals {
                        self.inserts.0.push(malformed::<P>(&self.path, place, got()));
                    }
                    self.inserts.1 += 1;
                    return Ok(());
                }
                self.rows_bad += 1;
                self.unreadable.add(self.events, || malformed::<P>(&self.path, place, got()))?;
            }
        }
        Ok(())
    }

    fn event(&mut self, mut event: Event, name: Option<&[u8]>) {
        self.events += 1;
        self.has_arrivals |= matches!(event.kind, EventKind::Queue(_) | EventKind::Issue(_));
        let (time_ns, begins) = self.back.follow(self.number, event.time_ns, event.sequence);
        event.time_ns = time_ns;
        if begins {
            self.held.push_back(Event { sequence: 0, kind: EventKind::Run, ..event });
        }
        if let Some(name) = name.filter(|name| !name.is_empty())
            && self.names.get(&event.pid).is_none_or(|known| known[..] != *name)
        {
            self.names.insert(event.pid, name.into());
            let text = String::from_utf8_lossy(name).into();
            self.held.push_back(Event { kind: EventKind::Name(text), ..event });
        }
        self.held.push_back(event);
    }

    /// Handles the end of the text. It is an error if hardly any line was an event.
    fn end(&mut self) -> Result<(), TraceError> {
        let (shown, inserts) = std::mem::take(&mut self.inserts);
        if !self.has_arrivals {
            self.rows_bad += inserts;
            let rest = inserts - shown.len() as u64;
            for error in shown {
                self.unreadable.add(self.events, || error)?;
            }
            if rest > 0 {
                self.unreadable.add_several(rest, TraceError::no_row)?;
            }
        }
        self.bad_sentence = self.unreadable.finish(self.events)?;
        if self.events == 0 { Err(self.no_event()) } else { Ok(()) }
    }

    /// Creates the error for text without events, which refers to its first unknown line.
    fn no_event(&self) -> TraceError {
        let first = self.first_unknown.clone().map(|(number, line)| (Place::Line(number), line));
        let (place, got) = first.unwrap_or((Place::File, "no event".to_owned()));
        malformed::<P>(&self.path, place, got)
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        warnings.extend(self.back.wild_sentence("line"));
        if let Some(sentence) = self.back.sentence("line") {
            warnings.push(sentence + &self.back.hint());
        }
        if self.lost.0 > 0 {
            let (lines, say) = (counted(self.lost.0, "line"), verb(self.lost.0, "says", "say"));
            let count = match self.lost.1 {
                0 => "events".into(),
                count => counted(count, "event"),
            };
            warnings.push(format!("{lines} {say} that the tracer lost {count}"));
        }
        warnings.extend(self.bad_sentence.clone());
        if let Some((first, _)) = &self.first_unknown {
            warnings.push(format!(
                "{} {} of a summary, the first is line {first}",
                counted(self.unknown, "line"),
                verb(self.unknown, "is neither an event nor part", "are neither events nor parts"),
            ));
        }
        if self.cut_short {
            let sentence = format!("the last line, {}, is truncated and left out", self.number);
            warnings.push(sentence);
        }
        warnings
    }
}

impl<P: EventLine> Source for EventLines<P> {
    fn next(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            if let Some(event) = self.taken.held.pop_front() {
                return Ok(Some(event));
            }
            let Some((line, is_cut)) = self.lines.next_or_cut()? else {
                self.taken.end()?;
                return Ok(None);
            };
            self.taken.number += 1;
            if !line.trim_ascii().is_empty() {
                self.taken.take(line, is_cut)?;
            }
        }
    }
}

/// Creates the error that a file or a line is malformed in format `P`.
fn malformed<P: EventLine>(path: &Path, place: Place, got: String) -> TraceError {
    TraceError::Malformed {
        path: path.to_path_buf(),
        place,
        got,
        expected: P::LAYOUT.to_owned(),
        hint: format!("if this is a different format, specify it with {}", named("from")),
    }
}

/// Shortens a line for a message.
fn shown(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line.trim_ascii()).into_owned();
    let start: String = line.chars().take(60).collect();
    if start.len() < line.len() { format!("{start:?}…") } else { format!("{start:?}") }
}

/// An iterator over the words of a line, which also provides the rest of the line.
pub(crate) struct Words<'a>(pub(crate) &'a [u8]);

impl<'a> Words<'a> {
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0.trim_ascii()
    }

    pub(crate) fn number(&mut self, reason: &'static str) -> Result<u64, Unreadable> {
        self.next().and_then(crate::fields::digits).ok_or(Cow::Borrowed(reason))
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0.trim_ascii_start();
        let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// Parses a device `major,minor` into the kernel's number for it.
pub(crate) fn device(word: &[u8]) -> Option<u32> {
    let comma = memchr::memchr(b',', word)?;
    let (major, minor) = (word.get(..comma)?, word.get(comma + 1..)?);
    let (major, minor) = (crate::fields::digits(major)?, crate::fields::digits(minor)?);
    (major < 1 << 12 && minor < 1 << 20).then_some((major as u32) << 20 | minor as u32)
}

/// Parses a remap, starting after its device: `W 2056 + 8 <- (253,0) 8`.
pub(crate) fn remap(to: u32, rest: &[u8]) -> Option<Remap> {
    let (here, there) = rest.split_at(memchr::memmem::find(rest, b"<- (")?);
    let (from, from_sector) =
        there.get(4..)?.split_at(memchr::memchr(b')', there)?.checked_sub(4)?);
    let mut here = Words(here);
    here.next()?;
    let sector = here.number("").ok()?;
    let from_sector = Words(from_sector.get(1..)?).number("").unwrap_or(0);
    let sectors = here.nth(1).and_then(crate::fields::digits).unwrap_or(0);
    let bytes = u32::try_from(sectors.checked_mul(SECTOR_BYTES)?).ok()?;
    Some(Remap { to, sector, from: device(from)?, from_sector, bytes })
}

/// Parses seconds with one to nine decimals. Returns nanoseconds.
pub(crate) fn seconds(word: &[u8]) -> Option<u64> {
    let dot = memchr::memchr2(b'.', b',', word)?;
    let is_short = (1..=9).contains(&(word.len() - dot - 1));
    is_short.then(|| crate::formats::clock::scaled(word, 9))?
}
