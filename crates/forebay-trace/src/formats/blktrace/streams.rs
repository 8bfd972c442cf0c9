//! Numbers threads by id and name.
//!
//! A thread is named by a record of its own, which may come before or after its first request. A
//! name that comes late fills the empty entry; a change of name begins a new stream.

use std::collections::HashMap;

use crate::trace::{Dictionary, Stream};

#[derive(Default)]
pub(crate) struct Streams {
    threads: HashMap<u32, Thread>,
    numbers: HashMap<Stream, u32>,
}

#[derive(Default)]
struct Thread {
    name: String,
    /// Number of the stream under the present name, once it has a request.
    number: Option<u32>,
}

impl Streams {
    /// The thread is called `name` from now on.
    pub(crate) fn name(&mut self, pid: u32, name: &str, dictionary: &mut Dictionary) {
        let thread = self.threads.entry(pid).or_default();
        if name.is_empty() || thread.name == name {
            return;
        }
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

    /// Number of the thread's stream.
    pub(crate) fn number(&mut self, pid: u32, dictionary: &mut Dictionary) -> u32 {
        let thread = self.threads.entry(pid).or_default();
        if let Some(number) = thread.number {
            return number;
        }
        let stream = Stream { thread: Some(pid), process: None, name: thread.name.clone() };
        let number = *self.numbers.entry(stream).or_insert_with_key(|stream| {
            dictionary.streams.push(stream.clone());
            (dictionary.streams.len() - 1) as u32
        });
        thread.number = Some(number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
