//! Numbers volumes and submitters in order of first appearance.

use std::collections::HashMap;

use crate::trace::{Dictionary, Stream};

/// The names seen so far and their numbers in the dictionary.
#[derive(Default)]
pub(super) struct Who {
    volumes: HashMap<Box<[u8]>, u32>,
    streams: HashMap<Stream, u32>,
}

impl Who {
    /// Number of the volume called `name`.
    pub(super) fn volume(&mut self, name: &[u8], dictionary: &mut Dictionary) -> u32 {
        if let Some(&number) = self.volumes.get(name) {
            return number;
        }
        let number = dictionary.volumes.len() as u32;
        dictionary.volumes.push(String::from_utf8_lossy(name).into_owned());
        self.volumes.insert(name.into(), number);
        number
    }

    /// Number of a submitter.
    pub(super) fn stream(&mut self, stream: Stream, dictionary: &mut Dictionary) -> u32 {
        *self.streams.entry(stream).or_insert_with_key(|stream| {
            dictionary.streams.push(stream.clone());
            (dictionary.streams.len() - 1) as u32
        })
    }
}

/// A dictionary of one submitter nothing is known about and, where it is named, one volume.
pub(super) fn anonymous(volume: Option<&str>) -> Dictionary {
    Dictionary {
        streams: vec![Stream::default()],
        volumes: volume.map(str::to_owned).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_stay() {
        let (mut who, mut dictionary) = (Who::default(), Dictionary::default());
        let volumes = [&b"b"[..], b"a", b"b"].map(|name| who.volume(name, &mut dictionary));
        let stream = |name: &str| Stream { name: name.into(), ..Stream::default() };
        let streams = ["x", "y", "x"].map(|name| who.stream(stream(name), &mut dictionary));
        assert_eq!((volumes, streams), ([0, 1, 0], [0, 1, 0]));
        assert_eq!(dictionary.volumes, ["b", "a"]);
        assert_eq!(dictionary.streams, [stream("x"), stream("y")]);
    }
}
