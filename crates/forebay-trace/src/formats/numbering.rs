//! Assigns numbers to volumes and submitters, in the order in which they first appear.

use std::collections::HashMap;

use crate::naming::NameBudget;
use crate::rows::RowError;
use crate::{Dictionary, Stream};

/// The names seen so far, and their numbers in the dictionary.
#[derive(Default)]
pub(super) struct Numbering {
    volumes: HashMap<Box<[u8]>, u32>,
    streams: HashMap<Stream, u32>,
    room: NameBudget,
}

impl Numbering {
    /// Returns the number of the volume called `name`, which is added if it is new.
    pub(super) fn volume(
        &mut self,
        name: &[u8],
        dictionary: &mut Dictionary,
    ) -> Result<u32, RowError> {
        if let Some(&number) = self.volumes.get(name) {
            return Ok(number);
        }
        self.room.take("volume", name)?;
        let number = dictionary.volumes.len() as u32;
        dictionary.volumes.push(String::from_utf8_lossy(name).into_owned());
        self.volumes.insert(name.into(), number);
        Ok(number)
    }

    /// Returns the number of a submitter, which is added if it is new.
    pub(super) fn stream(
        &mut self,
        stream: Stream,
        dictionary: &mut Dictionary,
    ) -> Result<u32, RowError> {
        if let Some(&number) = self.streams.get(&stream) {
            return Ok(number);
        }
        self.room.take("stream", stream.name.as_bytes())?;
        let number = dictionary.streams.len() as u32;
        dictionary.streams.push(stream.clone());
        self.streams.insert(stream, number);
        Ok(number)
    }
}

/// Creates a dictionary with one unknown submitter and, if `volume` is given, one volume.
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
        let (mut who, mut dictionary) = (Numbering::default(), Dictionary::default());
        let volumes =
            [&b"b"[..], b"a", b"b"].map(|name| who.volume(name, &mut dictionary).unwrap());
        let stream = |name: &str| Stream { name: name.into(), ..Stream::default() };
        let streams =
            ["x", "y", "x"].map(|name| who.stream(stream(name), &mut dictionary).unwrap());
        assert_eq!((volumes, streams), ([0, 1, 0], [0, 1, 0]));
        assert_eq!(dictionary.volumes, ["b", "a"]);
        assert_eq!(dictionary.streams, [stream("x"), stream("y")]);
    }
}
