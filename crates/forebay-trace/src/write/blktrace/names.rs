//! Assigns thread ids and device numbers, which blktrace's format has in place of streams and
//! volumes.

use std::collections::{HashMap, HashSet};

use super::record::fitting;
use crate::Dictionary;
use crate::write::entry;
use forebay_words::plural::{counted, verb};

/// The first id for threads without one. Linux never assigns ids this high (PID_MAX_LIMIT).
const NAMELESS_FIRST: u32 = 1 << 22;

/// The first device number for volumes without one. Major number 240 is for local use.
const LOCAL_FIRST: u32 = 240 << 20;

/// The threads whose names were written.
#[derive(Default)]
pub(super) struct Threads {
    names: HashMap<u32, String>,
}

impl Threads {
    /// Returns the id of a stream's thread, and its name if the name must be written first.
    pub(super) fn of(&mut self, stream: u32, dictionary: &Dictionary) -> (u32, Option<String>) {
        let who = entry(&dictionary.streams, stream);
        let thread = who.and_then(|who| who.thread);
        let pid = thread.unwrap_or(NAMELESS_FIRST.saturating_add(stream));
        let name = who.map_or("", |who| fitting(&who.name));
        if name.is_empty() || self.names.get(&pid).is_some_and(|told| told == name) {
            return (pid, None);
        }
        self.names.insert(pid, name.to_owned());
        (pid, Some(name.to_owned()))
    }

    /// Describes what the format cannot represent of the streams.
    pub(super) fn sentences(&self, dictionary: &Dictionary) -> Vec<String> {
        let of = |what: fn(&crate::Stream) -> bool| {
            dictionary.streams.iter().filter(|stream| what(stream)).count()
        };
        let counts = [
            (of(|s| s.process.is_some()), "streams lose their process id"),
            (of(|s| s.thread.is_none()), "streams without a thread id get one from 4194304 on"),
            (of(|s| fitting(&s.name) != s.name), "names of streams are truncated to 15 bytes"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        counts.map(|(count, what)| format!("{count} {what}")).collect()
    }
}

/// The device number of each volume.
#[derive(Default)]
pub(super) struct Devices {
    numbers: Vec<Option<u32>>,
    taken: HashSet<u32>,
    renamed: u64,
}

impl Devices {
    pub(super) fn number(&mut self, volume: u32, dictionary: &Dictionary) -> u32 {
        let index = volume as usize;
        if let Some(Some(number)) = self.numbers.get(index) {
            return *number;
        }
        let name = entry(&dictionary.volumes, volume).map_or("", String::as_str);
        let named = parsed(name).filter(|number| !self.taken.contains(number));
        let number = named.unwrap_or_else(|| {
            self.renamed += 1;
            let mut free = LOCAL_FIRST | volume & 0xf_ffff;
            while self.taken.contains(&free) {
                free += 1;
            }
            free
        });
        self.taken.insert(number);
        if self.numbers.len() <= index {
            self.numbers.resize(index + 1, None);
        }
        self.numbers[index] = Some(number);
        number
    }

    pub(super) fn sentence(&self) -> Option<String> {
        (self.renamed > 0).then(|| {
            format!(
                "{} {} named by device numbers from 240,0 on",
                counted(self.renamed, "volume"),
                verb(self.renamed, "is", "are")
            )
        })
    }
}

/// Parses the name of a volume that has the form `major,minor`.
fn parsed(name: &str) -> Option<u32> {
    let (major, minor) = name.split_once(',')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    #[test]
    fn devices_keep_their_numbers_and_others_get_free_ones() {
        let volumes = ["8,16", "hm.0", "240,1", "8,16", "4096,0"].map(String::from).to_vec();
        let dictionary = Dictionary { volumes, streams: Vec::new() };
        let mut devices = Devices::default();
        let mut number = |volume| {
            let number = devices.number(volume, &dictionary);
            (number >> 20, number & 0xf_ffff)
        };
        assert_eq!([2, 0, 1].map(&mut number), [(240, 1), (8, 16), (240, 2)]);
        assert_eq!([3, 4, 9, 1].map(&mut number), [(240, 3), (240, 4), (240, 9), (240, 2)]);
        assert!(devices.sentence().is_some_and(|said| said.starts_with("4 volumes")));
    }

    #[test]
    fn a_name_is_reported_once_and_again_when_it_changes() {
        let stream = |thread, name: &str| Stream { thread, process: None, name: name.into() };
        let streams =
            vec![stream(Some(5), "java"), stream(Some(5), "Größer als 15 Bytes"), stream(None, "")];
        let dictionary = Dictionary { streams, volumes: Vec::new() };
        let mut threads = Threads::default();
        assert_eq!(threads.of(0, &dictionary), (5, Some("java".into())));
        assert_eq!(threads.of(0, &dictionary), (5, None));
        assert_eq!(threads.of(1, &dictionary), (5, Some("Größer als 15".into())));
        assert_eq!(threads.of(0, &dictionary), (5, Some("java".into())));
        assert_eq!(threads.of(2, &dictionary), (NAMELESS_FIRST + 2, None));
        assert_eq!(threads.sentences(&dictionary).len(), 2);
    }
}
