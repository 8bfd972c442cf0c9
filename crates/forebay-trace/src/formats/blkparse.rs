//! Text output of blkparse in its default format, one event per line: `maj,min cpu sequence seconds
//! pid action RWBS sector + count [process]`.
//!
//! Units: seconds with nine decimals, sectors of 512 bytes. Epoch: the first request. Comment lines
//! (`#`) and the summary that blkparse appends are recognized and skipped. The text contains the
//! same events as the binary files, so requests and latencies are derived in the same way.

pub(crate) mod ftlsim;
mod line;
pub(crate) mod rwbs;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use super::blktrace::{Back, Event, Pairing, Sorted, Source, What};
use crate::error::{Place, TraceError};
use crate::trace::{Dictionary, Notes, Reader, Record};
use forebay_show::plural::{counted, verb};
use line::Line;

/// The most devices that are tracked for the note about remaps.
const REMAPS_MAX: usize = 64;

/// The longest plausible line, in bytes.
const LINE_MAX: u64 = 64 * 1024;

/// Reads the text output of blkparse.
pub struct Blkparse {
    events: Sorted<Lines>,
    pairing: Pairing,
}

impl Blkparse {
    /// Reads `reader`; messages call it `path`.
    pub fn new(path: &Path, reader: Box<dyn BufRead + Send>) -> Result<Blkparse, TraceError> {
        Blkparse::splitting_runs(path, reader, false)
    }

    /// Does the same, but if `is_wanted`, a step back of the clock begins another run, which is
    /// placed after the previous one.
    pub fn splitting_runs(
        path: &Path,
        reader: Box<dyn BufRead + Send>,
        is_wanted: bool,
    ) -> Result<Blkparse, TraceError> {
        let events = Sorted::new(Lines::new(path, reader, is_wanted));
        Ok(Blkparse { events, pairing: Pairing::new("blkparse", false) })
    }
}

impl Reader for Blkparse {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        let ends = self.pairing.fill(batch, || self.events.next())?;
        if ends {
            self.pairing.notes.warnings.extend(self.events.source.warnings());
        }
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        &self.pairing.dictionary
    }

    fn notes(&self) -> &Notes {
        &self.pairing.notes
    }
}

/// Returns whether a file that begins like this is blkparse text: its first line that is not a
/// comment is an event.
pub fn sniff(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').filter_map(|line| line::parse(line).ok());
    let first = lines.find(|line| !matches!(line, Line::Blank | Line::Summary));
    matches!(first, Some(Line::Event(_) | Line::Remap(..) | Line::Other))
}

/// The events of the lines.
struct Lines {
    path: PathBuf,
    reader: Box<dyn BufRead + Send>,
    buffer: Vec<u8>,
    /// The number of lines read.
    number: u64,
    any_event: bool,
    /// The number of lines that are neither event nor summary, and the first of them.
    unknown: (u64, u64),
    cut_short: bool,
    back: Back,
    /// The summary's report of events that blktrace dropped.
    skips: Option<String>,
    /// Pairs of devices between which requests are remapped, and devices at which requests are
    /// queued.
    remaps: BTreeSet<(u32, u32)>,
    queued: BTreeSet<u32>,
    /// The last name of each thread.
    names: HashMap<u32, Box<str>>,
    /// Events that are returned later, because the thread's name or the beginning of another run
    /// comes first.
    held: VecDeque<Event>,
}

impl Lines {
    fn new(path: &Path, reader: Box<dyn BufRead + Send>, splits: bool) -> Lines {
        Lines {
            path: path.to_owned(),
            reader,
            buffer: Vec::new(),
            number: 0,
            any_event: false,
            unknown: (0, 0),
            cut_short: false,
            back: Back::splitting(splits),
            skips: None,
            remaps: BTreeSet::new(),
            queued: BTreeSet::new(),
            names: HashMap::new(),
            held: VecDeque::new(),
        }
    }

    /// Reads the next line into the buffer; false at the end.
    fn advance(&mut self) -> Result<bool, TraceError> {
        self.buffer.clear();
        let read = self.reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|source| TraceError::Io { path: self.path.clone(), source })?;
        self.number += 1;
        if read as u64 == LINE_MAX && !self.buffer.ends_with(b"\n") {
            return Err(self.malformed(format!("over {LINE_MAX} bytes without a newline")));
        }
        Ok(read > 0)
    }

    fn malformed(&self, got: String) -> TraceError {
        TraceError::Malformed {
            path: self.path.clone(),
            place: Place::Line(self.number),
            got,
            expected: "maj,min cpu sequence seconds pid action RWBS …".to_owned(),
            hint: "is it blkparse's output in its default format?".to_owned(),
        }
    }

    /// Returns whether the line ends like an event line, so that no number in it can be truncated.
    fn is_whole(&self) -> bool {
        self.buffer.ends_with(b"\n") || self.buffer.trim_ascii_end().ends_with(b"]")
    }

    /// Handles the end of the text, which is an error if nothing in it was an event.
    fn end(&self) -> Result<Option<Event>, TraceError> {
        if self.any_event {
            return Ok(None);
        }
        let mut error = self.malformed("no event".to_owned());
        if let TraceError::Malformed { place, .. } = &mut error {
            *place = Place::File;
        }
        Err(error)
    }

    /// Returns the event, or first an event with its thread's name if that is new.
    fn named(&mut self, parsed: line::Parsed) -> Event {
        let event = parsed.event;
        let Some(name) = parsed.name.filter(|name| !name.is_empty()) else { return event };
        if self.names.get(&event.pid).is_some_and(|known| known[..] == name[..]) {
            return event;
        }
        self.names.insert(event.pid, name.clone());
        let naming = Event { what: What::Name(name), ..event };
        self.held.push_back(event);
        naming
    }

    /// Checks a line of the summary for lost events.
    fn summary(&mut self) {
        let line = self.buffer.trim_ascii();
        let count = line.strip_prefix(b"Skips:").map(<[u8]>::trim_ascii_start);
        if count
            .is_some_and(|count| count.first().is_some_and(u8::is_ascii_digit) && count[0] != b'0')
        {
            self.skips = Some(line::shown(line));
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(told) = self.back.sentence("line") {
            warnings.push(told + &self.back.hint());
        }
        let both = |(from, to): &&(u32, u32)| {
            from != to && self.queued.contains(from) && self.queued.contains(to)
        };
        let name = |device: u32| format!("{},{}", device >> 20, device & 0xf_ffff);
        if let Some(&(from, to)) = self.remaps.iter().find(both) {
            warnings.push(format!(
                "requests of volume {} are remapped to volume {}, and the trace has both: totals \
                 count each request twice; run blkparse with one device",
                name(from),
                name(to)
            ));
        }
        warnings.extend(self.skips.as_ref().map(|skips| format!("blktrace lost events: {skips}")));
        if self.unknown.0 > 0 {
            warnings.push(format!(
                "{} {} neither events nor blkparse's summary, the first is line {}",
                counted(self.unknown.0, "line"),
                verb(self.unknown.0, "is", "are"),
                self.unknown.1
            ));
        }
        if self.cut_short {
            warnings.push(format!("the last line, {}, is truncated and left out", self.number));
        }
        warnings
    }
}

impl Source for Lines {
    fn next(&mut self) -> Result<Option<Event>, TraceError> {
        if let Some(event) = self.held.pop_front() {
            return Ok(Some(event));
        }
        while self.advance()? {
            match line::parse(&self.buffer) {
                Ok(Line::Event(_)) if self.any_event && !self.is_whole() => {
                    self.cut_short = true;
                    return Ok(None);
                }
                Ok(Line::Event(mut parsed)) => {
                    self.any_event = true;
                    let (time_ns, sequence) = (parsed.event.time_ns, parsed.event.sequence);
                    let (time_ns, begins) = self.back.follow(self.number, time_ns, sequence);
                    parsed.event.time_ns = time_ns;
                    if let What::Queue(span) = &parsed.event.what
                        && self.queued.len() < REMAPS_MAX
                    {
                        self.queued.insert(span.device);
                    }
                    let first = self.named(*parsed);
                    if !begins {
                        return Ok(Some(first));
                    }
                    let run = Event { sequence: 0, what: What::Run, ..first };
                    self.held.push_front(first);
                    return Ok(Some(run));
                }
                Ok(Line::Remap(to, from)) => {
                    self.any_event = true;
                    if self.remaps.len() < REMAPS_MAX {
                        self.remaps.insert((from, to));
                    }
                }
                Ok(Line::Other) => self.any_event = true,
                Ok(Line::Summary) => self.summary(),
                Ok(Line::Blank) => {}
                Ok(Line::Unknown) if self.any_event => {
                    self.unknown.0 += 1;
                    if self.unknown.0 == 1 {
                        self.unknown.1 = self.number;
                    }
                }
                Ok(Line::Unknown) => return Err(self.malformed(line::shown(&self.buffer))),
                Err(_) if self.any_event && !self.buffer.ends_with(b"\n") => {
                    self.cut_short = true;
                    return Ok(None);
                }
                Err(fault) => {
                    let got = format!("{} ({fault})", line::shown(&self.buffer));
                    return Err(self.malformed(got));
                }
            }
        }
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Vec<Record>, Notes), TraceError> {
        let reader = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let mut reader = Blkparse::new(Path::new("t"), reader)?;
        let mut batch = Vec::new();
        reader.read(&mut batch)?;
        Ok((batch, reader.notes().clone()))
    }

    const Q: &str = "  8,16   0  1  0.000000100  5  Q  RA 800 + 8 [a b]\n";

    #[test]
    fn mixed_line_ends_comments_and_summary_are_passed_over() {
        let text = format!(
            "#Maj\r\n\r\n{}8,16 1 2 0.5 0 C RA 800 + 8 [0]\nCPU0 (x):\n Reads Queued: 1\n",
            Q.replace('\n', "\r\n")
        );
        let (records, notes) = read(&text).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].latency.unwrap().0, 499_999_900);
        assert_eq!(notes.warnings, [""; 0]);
    }

    #[test]
    fn text_that_is_no_event_is_an_error_before_the_first_and_counted_later() {
        let error = read("hello\n").err().unwrap().to_string();
        assert!(error.contains("t, line 1: got \"hello\""), "{error}");
        let (records, notes) = read(&format!("{Q}hello\nworld\n")).unwrap();
        assert_eq!(records.len(), 1);
        assert!(notes.warnings.iter().any(|w| w.starts_with("2 lines") && w.ends_with("line 2")));
        assert!(read("").is_err());
    }

    #[test]
    fn a_broken_event_names_its_line_unless_it_is_the_cut_last_one() {
        let error = read(&format!("{Q}8,16 0 x\n{Q}")).err().unwrap().to_string();
        assert!(error.contains("line 2"), "{error}");
        let (records, notes) = read(&format!("{Q}8,16 0 2 0.1")).unwrap();
        assert_eq!(records.len(), 1);
        assert!(notes.warnings.iter().any(|w| w.contains("is truncated")));
    }

    #[test]
    fn a_number_that_is_cut_at_the_end_is_left_out() {
        let done = "8,16 0 2 0.1 0 C RA 800 + 8 [0]\n";
        for cut in ["8,16 0 2 0.2 0 C RA 900 + 1", "8,16 0 2 0.2 0 C RA 900 + 16 [0"] {
            let (records, notes) = read(&format!("{Q}{done}{cut}")).unwrap();
            assert_eq!(records.len(), 1);
            assert!(notes.warnings.iter().any(|w| w.contains("is truncated")), "{notes:?}");
        }
        let (records, notes) = read(&format!("{Q}{}", done.trim_end())).unwrap();
        assert!(records[0].latency.is_some() && notes.warnings.is_empty(), "{notes:?}");
    }

    #[test]
    fn a_second_run_and_lost_events_are_told() {
        let event = |at: &str| Q.replace("0.000000100", at);
        let text = format!(
            "{}{}{}Skips: 0 forward (0 -   0.0%)\n",
            event("1.0"),
            event("9.5"),
            event("0.0")
        );
        let (records, notes) = read(&text).unwrap();
        assert_eq!(records.len(), 3);
        let told = "the clock goes back, by 9.50 s at line 3, ";
        assert!(notes.warnings.iter().any(|w| w.starts_with(told)), "{notes:?}");
        assert!(!notes.warnings.iter().any(|w| w.contains("lost")), "{notes:?}");
        let (_, notes) = read(&format!("{Q}Skips: 7 forward (1,234 -   0.2%)\n")).unwrap();
        assert!(
            notes.warnings.iter().any(|w| w.contains("lost events: \"Skips: 7 forw")),
            "{notes:?}"
        );
    }

    #[test]
    fn requests_that_go_on_to_another_device_of_the_trace_are_told_of() {
        let upper = Q.replace("8,16", "253,0");
        let remap = "8,16 0 2 0.1 5 A RA 900 + 8 <- (253,0) 800\n";
        let (records, notes) = read(&format!("{upper}{remap}{Q}")).unwrap();
        assert_eq!(records.len(), 2);
        let told = "requests of volume 253,0 are remapped to volume 8,16";
        assert!(notes.warnings.iter().any(|w| w.starts_with(told)), "{notes:?}");
        for one in [format!("{remap}{Q}"), format!("{upper}{remap}"), format!("{upper}{Q}")] {
            let (_, notes) = read(&one).unwrap();
            assert!(!notes.warnings.iter().any(|w| w.contains("are remapped to")), "{notes:?}");
        }
    }

    #[test]
    fn sniffs_its_own() {
        assert!(sniff(format!("# x\n{Q}").as_bytes()));
        assert!(!sniff(b"0,1234,512,R,0.5\n1,2,3,W,0.6\n"));
        assert!(!sniff(b"\x07\x74\x61\x65"));
    }
}
