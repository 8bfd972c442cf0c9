//! Assigns numbers to threads, by id and name.
//!
//! A separate record states the name of a thread, before or after its first request. A late name
//! replaces the missing one; a change of name begins a new stream. Threads whose names do not fit
//! into memory share one stream.

use std::collections::HashMap;

use crate::naming::NameBudget;
use crate::{Dictionary, Stream};

/// The id of threads whose number is not in the trace.
pub(crate) const UNKNOWN_THREAD: u32 = u32::MAX;

/// The name of the stream that all further threads share.
const OTHERS: &str = "others";

#[derive(Default)]
pub(crate) struct Streams {
    threads: HashMap<u32, Thread>,
    numbers: HashMap<Stream, u32>,
    room: NameBudget,
    /// The stream that represents all threads whose names exceed the memory limit.
    others: Option<u32>,
}

#[derive(Default)]
struct Thread {
    name: String,
    /// The number of the stream with the current name; None before the stream's first request.
    number: Option<u32>,
}

impl Streams {
    /// Sets the name that a thread has from now on.
    pub(crate) fn name(&mut self, pid: u32, name: &str, dictionary: &mut Dictionary) {
        let known = self.threads.get(&pid).map_or("", |thread| &thread.name);
        // Two copies of the name are stored: one for the thread, and one for its streams.
        let mut has_room = || (0..2).all(|_| self.room.take("name", name.as_bytes()).is_ok());
        if name.is_empty() || known == name || !has_room() {
            return;
        }
        let thread = self.threads.entry(pid).or_default();
        let unnamed = thread.name.is_empty();
        thread.name = name.to_owned();
        let Some(number) = thread.number.take() else { return };
        let entry = dictionary.streams.get_mut(number as usize).filter(|_| unnamed);
        if let Some(entry) = entry {
            self.numbers.remove(entry);
            entry.name = name.to_owned();
            self.numbers.insert(entry.clone(), number);
            thread.number = Some(number);
        }
    }

    /// Returns the number of the thread's stream.
    pub(crate) fn number(&mut self, pid: u32, dictionary: &mut Dictionary) -> u32 {
        if !self.threads.contains_key(&pid) && self.room.take("name", b"").is_err() {
            return self.other(dictionary);
        }
        let thread = self.threads.entry(pid).or_default();
        if let Some(number) = thread.number {
            return number;
        }
        let known = (pid != UNKNOWN_THREAD).then_some(pid);
        let stream = Stream { thread: known, process: None, name: thread.name.clone() };
        let number = *self.numbers.entry(stream).or_insert_with_key(|stream| {
            dictionary.streams.push(stream.clone());
            (dictionary.streams.len() - 1) as u32
        });
        thread.number = Some(number);
        number
    }

    fn other(&mut self, dictionary: &mut Dictionary) -> u32 {
        *self.others.get_or_insert_with(|| {
            dictionary.streams.push(Stream { name: OTHERS.to_owned(), ..Stream::default() });
            (dictionary.streams.len() - 1) as u32
        })
    }

    /// Returns a warning if several threads had to share a stream.
    pub(crate) fn sentence(&self) -> Option<String> {
        self.others.map(|_| {
            format!(
                "there are more threads than can be distinguished ({}): later ones are combined \
                 into a single stream, {OTHERS:?}",
                self.threads.len()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_without_space_are_one_stream() {
        let (mut streams, mut dictionary) = (Streams::default(), Dictionary::default());
        let count = 1 << 20;
        let numbers: Vec<u32> = (0..count).map(|n| streams.number(n, &mut dictionary)).collect();
        let told_apart = dictionary.streams.len() as u32 - 1;
        assert!(told_apart > 1 << 18 && told_apart < count);
        assert!(numbers[told_apart as usize..].iter().all(|&number| number == told_apart));
        assert_eq!(dictionary.streams[told_apart as usize].name, OTHERS);
        assert_eq!(
            (streams.number(5, &mut dictionary), streams.threads.len()),
            (5, told_apart as usize)
        );
        streams.name(count + 1, "late", &mut dictionary);
        assert_eq!(streams.threads.len() as u32, told_apart);
        assert!(streams.sentence().is_some());
    }

    #[test]
    fn a_late_name_fills_the_entry_and_a_new_name_begins_a_stream() {
        let (mut streams, mut dictionary) = (Streams::default(), Dictionary::default());
        assert_eq!(streams.number(5, &mut dictionary), 0);
        streams.name(5, "java", &mut dictionary);
        assert_eq!(streams.number(5, &mut dictionary), 0);
        assert_eq!(dictionary.streams[0].name, "java");
        streams.name(5, "DataXceiver", &mut dictionary);
        assert_eq!(streams.number(5, &mut dictionary), 1);
        streams.name(5, "java", &mut dictionary);
        assert_eq!(streams.number(5, &mut dictionary), 0);
        assert_eq!(streams.number(6, &mut dictionary), 2);
        assert_eq!(dictionary.streams[2], Stream { thread: Some(6), ..Stream::default() });
    }
}
