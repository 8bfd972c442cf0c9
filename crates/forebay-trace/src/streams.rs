//! Groups the submitters of a trace into streams.
//!
//! A trace lists every thread under every name it had, but users ask about threads, processes or
//! applications. A [`Grouping`] maps the former to the latter, while the dictionary is still
//! growing.
//!
//! Invariants: group ids are dense and in order of first appearance; a stream never changes its
//! group; the kernel's write-back workers form a single group, because a stream of dirty pages
//! moves from worker to worker.

use std::collections::HashMap;
use std::fmt;

use forebay_ask::{Choice, Value, one_of};
use serde::Serialize;

use crate::{Dictionary, Stream};

/// The definition of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamBy {
    /// A thread, whatever its name. CFQ and similar schedulers distinguish these.
    #[default]
    Thread,
    /// A process with all its threads.
    Process,
    /// All threads with the same name.
    Name,
}

impl Value for StreamBy {
    const WORD: &'static str = "WHAT";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "thread", about: "each thread" },
        Choice { name: "process", about: "each process with its threads" },
        Choice { name: "name", about: "all threads with the same name" },
    ];

    fn parse(text: &str) -> Result<StreamBy, String> {
        one_of(text, Self::CHOICES, [StreamBy::Thread, StreamBy::Process, StreamBy::Name])
    }
}

impl fmt::Display for StreamBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamBy::Thread => "thread",
            StreamBy::Process => "process",
            StreamBy::Name => "name",
        })
    }
}

/// The label of the group that contains all write-back workers.
pub const WRITE_BACK: &str = "write-back";

/// Returns whether a thread with this name writes back the dirty pages of others.
pub fn is_write_back(name: &str) -> bool {
    ["kworker", "flush-", "bdi-", "pdflush"].iter().any(|prefix| name.starts_with(prefix))
        || name == "bdi"
        || name == "writeback"
}

/// The property that the members of a group share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    WriteBack,
    Thread(u32),
    Process(u32),
    Name(String),
    Unknown,
}

/// Maps the streams of a growing [`Dictionary`] to groups.
#[derive(Clone, Debug)]
pub struct Grouping {
    by: StreamBy,
    write_back_as_one: bool,
    /// The group of each stream in the dictionary so far.
    group_of: Vec<u32>,
    /// The key and the members of each group. Members are streams of the dictionary, in ascending
    /// order.
    groups: Vec<(Key, Vec<u32>)>,
    known: HashMap<Key, u32>,
}

impl Grouping {
    /// Creates a grouping by `by` in which all write-back workers form a single group.
    pub fn new(by: StreamBy) -> Grouping {
        Grouping {
            by,
            write_back_as_one: true,
            group_of: Vec::new(),
            groups: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// Creates a grouping by `by` in which each write-back worker is separate, as in the kernel.
    pub fn separating_write_back(by: StreamBy) -> Grouping {
        Grouping { write_back_as_one: false, ..Grouping::new(by) }
    }

    /// Returns the group of a stream. Takes constant time, except for new streams.
    ///
    /// A stream that is not in the dictionary joins the group of streams without known properties.
    #[inline]
    pub fn group(&mut self, dictionary: &Dictionary, stream: u32) -> u32 {
        match self.group_of.get(stream as usize) {
            Some(&group) => group,
            None => self.extend(dictionary, stream),
        }
    }

    /// Returns the group of a stream that was already grouped.
    #[inline]
    pub(crate) fn known_group(&self, stream: u32) -> Option<u32> {
        self.group_of.get(stream as usize).copied()
    }

    /// Returns the streams of the dictionary that have no group yet.
    pub(crate) fn ungrouped<'a>(&self, dictionary: &'a Dictionary) -> &'a [Stream] {
        dictionary.streams.get(self.group_of.len()..).unwrap_or_default()
    }

    /// Keeps the existing groups, but makes a separate group for each new write-back worker.
    pub(crate) fn with_separate_write_back(self) -> Grouping {
        Grouping { write_back_as_one: false, ..self }
    }

    /// Returns the number of groups so far.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns whether there are no groups yet.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the group of the write-back workers, if there is one.
    pub fn write_back(&self) -> Option<u32> {
        self.known.get(&Key::WriteBack).copied()
    }

    /// Returns the label of a group: `name/id` of its thread or process, or the one of the two that
    /// is known. The name of a renamed thread is its latest one. The name of a process is that of
    /// its main thread or, failing that, the most common name of its threads.
    pub fn label(&self, dictionary: &Dictionary, group: u32) -> String {
        let Some((key, members)) = self.groups.get(group as usize) else {
            return "unknown".to_owned();
        };
        let members = || members.iter().filter_map(|&m| dictionary.streams.get(m as usize));
        match key {
            Key::WriteBack => WRITE_BACK.to_owned(),
            Key::Thread(id) => {
                let latest = members().rfind(|s| !s.name.is_empty());
                named(latest.map(|s| s.name.as_str()), *id)
            }
            Key::Process(id) => {
                let main = members().rfind(|s| s.thread == Some(*id) && !s.name.is_empty());
                named(main.map(|s| s.name.as_str()).or_else(|| commonest(members())), *id)
            }
            Key::Name(name) => name.clone(),
            Key::Unknown => "unknown".to_owned(),
        }
    }

    /// Assigns a group to every stream of the dictionary that has none.
    #[cold]
    fn extend(&mut self, dictionary: &Dictionary, wanted: u32) -> u32 {
        let first = self.group_of.len();
        for (index, stream) in dictionary.streams.iter().enumerate().skip(first) {
            let group = self.group_with(self.key(stream));
            self.group_of.push(group);
            if let Some((_, members)) = self.groups.get_mut(group as usize) {
                members.push(index as u32);
            }
        }
        match self.group_of.get(wanted as usize) {
            Some(&group) => group,
            None => self.group_with(Key::Unknown),
        }
    }

    fn group_with(&mut self, key: Key) -> u32 {
        if let Some(&group) = self.known.get(&key) {
            return group;
        }
        let group = self.groups.len() as u32;
        self.known.insert(key.clone(), group);
        self.groups.push((key, Vec::new()));
        group
    }

    /// Returns the key of the requested kind or, if the source lacks it, the most specific one
    /// available.
    fn key(&self, stream: &Stream) -> Key {
        if self.write_back_as_one && is_write_back(&stream.name) {
            return Key::WriteBack;
        }
        let thread = stream.thread.map(Key::Thread);
        let process = stream.process.map(Key::Process);
        let name = (!stream.name.is_empty()).then(|| Key::Name(stream.name.clone()));
        match self.by {
            StreamBy::Thread => thread.or(process).or(name),
            StreamBy::Process => process.or(thread).or(name),
            StreamBy::Name => name.or(process).or(thread),
        }
        .unwrap_or(Key::Unknown)
    }
}

/// Returns a warning if `dictionary` lacks the property that streams are grouped by. The warning
/// states how many submitters lack the property, and which property distinguishes them instead.
/// Write-back workers are one stream in any case.
pub fn warning(by: StreamBy, dictionary: &Dictionary) -> Option<String> {
    let (what, instead): (_, fn(&Stream) -> bool) = match by {
        // Threads are the finest level, so any other value in the trace is coarser, but not wrong.
        StreamBy::Thread => return None,
        StreamBy::Process => ("process id", |stream| stream.process.is_none()),
        StreamBy::Name => ("name", |stream| stream.name.is_empty()),
    };
    let submitters = || dictionary.streams.iter().filter(|stream| !is_write_back(&stream.name));
    let lacking = submitters().filter(|stream| instead(stream)).count();
    let then = if by == StreamBy::Process { "thread or name" } else { "process or thread" };
    (lacking > 0).then(|| {
        format!(
            "{lacking} of {} submitters have no {what} in this trace: grouped by {then} instead of \
             by {by}",
            submitters().count()
        )
    })
}

fn named(name: Option<&str>, id: u32) -> String {
    name.map_or_else(|| id.to_string(), |name| format!("{name}/{id}"))
}

/// Returns the most common name. If several are equally common, returns the first of them.
fn commonest<'a>(streams: impl Iterator<Item = &'a Stream>) -> Option<&'a str> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in streams.map(|s| s.name.as_str()).filter(|name| !name.is_empty()) {
        match counts.iter_mut().find(|(seen, _)| *seen == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    // Reverse the list, because `max_by_key` returns the last maximum.
    counts.into_iter().rev().max_by_key(|&(_, count)| count).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(thread: u32, process: u32, name: &str) -> Stream {
        Stream { thread: Some(thread), process: Some(process), name: name.to_owned() }
    }

    fn dictionary(streams: &[Stream]) -> Dictionary {
        Dictionary { streams: streams.to_vec(), volumes: vec![String::new()] }
    }

    fn labels(by: StreamBy, dictionary: &Dictionary) -> Vec<String> {
        let mut grouping = Grouping::new(by);
        let count = dictionary.streams.len() as u32;
        let groups: Vec<u32> = (0..count).map(|s| grouping.group(dictionary, s)).collect();
        groups.into_iter().map(|group| grouping.label(dictionary, group)).collect()
    }

    #[test]
    fn words_parse_and_print_alike() {
        for by in [StreamBy::Thread, StreamBy::Process, StreamBy::Name] {
            assert_eq!(StreamBy::parse(&by.to_string()), Ok(by));
        }
        let error = StreamBy::parse("tenant").unwrap_err();
        assert_eq!(error, "got 'tenant', expected thread, process or name");
    }

    #[test]
    fn a_renamed_thread_is_one_stream_under_its_latest_name() {
        let d = dictionary(&[stream(7, 5, "org.apache.hado"), stream(7, 5, "DataXceiver")]);
        assert_eq!(labels(StreamBy::Thread, &d), ["DataXceiver/7", "DataXceiver/7"]);
    }

    #[test]
    fn a_process_is_called_as_its_main_thread_else_as_most_threads() {
        let d = dictionary(&[
            stream(6, 5, "pool"),
            stream(5, 5, "java"),
            stream(8, 9, "one"),
            stream(7, 9, "two"),
            stream(6, 9, "two"),
        ]);
        assert_eq!(labels(StreamBy::Process, &d), ["java/5", "java/5", "two/9", "two/9", "two/9"]);
    }

    #[test]
    fn names_join_threads_and_missing_ids_fall_back() {
        let bare = |name: &str| Stream { name: name.to_owned(), ..Stream::default() };
        let d = dictionary(&[stream(1, 1, "cp"), stream(2, 2, "cp"), bare("src1"), bare("")]);
        assert_eq!(labels(StreamBy::Name, &d), ["cp", "cp", "src1", "unknown"]);
        assert_eq!(labels(StreamBy::Thread, &d), ["cp/1", "cp/2", "src1", "unknown"]);
        let nameless = dictionary(&[Stream { thread: Some(4), ..Stream::default() }]);
        assert_eq!(labels(StreamBy::Process, &nameless), ["4"]);
    }

    #[test]
    fn falling_back_is_reported() {
        let nameless = |thread| Stream { thread: Some(thread), ..Stream::default() };
        let d = dictionary(&[stream(1, 1, "cp"), nameless(4), stream(5, 5, "kworker/0:1")]);
        assert_eq!(warning(StreamBy::Thread, &d), None);
        let told = warning(StreamBy::Process, &d).unwrap();
        assert!(told.starts_with("1 of 2 submitters have no process id"), "{told}");
        assert!(warning(StreamBy::Name, &d).unwrap().contains("no name in this trace"));
        assert_eq!(warning(StreamBy::Process, &dictionary(&[stream(1, 1, "cp")])), None);
    }

    #[test]
    fn write_back_workers_are_one_stream_however_grouped() {
        let names = ["kworker/u8:3", "flush-8:0", "bdi-default", "writeback", "pdflush"];
        let streams: Vec<Stream> = names.iter().zip(1..).map(|(n, id)| stream(id, id, n)).collect();
        let d = dictionary(&streams);
        for by in [StreamBy::Thread, StreamBy::Process, StreamBy::Name] {
            assert!(labels(by, &d).iter().all(|label| label == WRITE_BACK));
        }
        let mut apart = Grouping::separating_write_back(StreamBy::Thread);
        assert_ne!(apart.group(&d, 0), apart.group(&d, 1));
        assert!(!is_write_back("bdist") && !is_write_back("jbd2/sda-8"));
    }

    #[test]
    fn groups_stay_as_the_dictionary_grows() {
        let mut d = dictionary(&[stream(1, 1, "a")]);
        let mut grouping = Grouping::new(StreamBy::Thread);
        assert_eq!(grouping.group(&d, 0), 0);
        d.streams.push(stream(2, 1, "b"));
        d.streams.push(stream(1, 1, "c"));
        assert_eq!((grouping.group(&d, 2), grouping.group(&d, 1)), (0, 1));
        assert_eq!(grouping.len(), 2);
    }

    #[test]
    fn a_stream_beyond_the_dictionary_is_unknown() {
        let d = dictionary(&[stream(1, 1, "a")]);
        let mut grouping = Grouping::new(StreamBy::Thread);
        let group = grouping.group(&d, 9);
        assert_eq!(grouping.label(&d, group), "unknown");
        assert_eq!(grouping.group(&d, 0), 0, "group of a known stream");
    }
}
