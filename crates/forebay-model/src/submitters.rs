//! The streams and flags of requests: for each class its streams, how often the stream is that of
//! the request that is continued, and the flags. The busiest streams are distinguished, and all
//! others are combined.

use crate::bytes::{ByteError, Bytes, Writer};
use crate::counts::{Bag, COUNT_MAX, Counts};
use crate::dice::RandomSource;

/// The maximum number of distinguished streams.
pub(crate) const STREAMS_MAX: usize = 512;

/// A stream of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitter {
    /// The number of the submitter's requests.
    pub requests: u64,
    /// The name, if names were requested; empty if the trace does not record who submitted its
    /// requests.
    pub name: Option<String>,
}

impl Submitter {
    /// Returns whether the trace does not record who submitted the requests.
    pub fn is_unknown(&self) -> bool {
        self.name.as_deref() == Some("")
    }
}

/// Returns the model's stream for each stream of the trace, and the number of requests of each of
/// the model's streams.
pub(crate) fn assign_streams(requests: &[u64]) -> (Vec<u16>, Vec<u64>) {
    let mut busiest: Vec<usize> = (0..requests.len()).collect();
    busiest.sort_by_key(|&stream| (std::cmp::Reverse(requests[stream]), stream));
    let mut kept: Vec<usize> = busiest.iter().copied().take(STREAMS_MAX).collect();
    let rest = kept.len().saturating_sub(1);
    // The streams keep their order, except that the last one represents all others if there are
    // any.
    let ordered = if busiest.len() > STREAMS_MAX { rest } else { kept.len() };
    kept[..ordered].sort_unstable();
    let (mut of, mut sums) = (vec![rest as u16; requests.len()], vec![0; kept.len()]);
    kept.iter().zip(0..).for_each(|(&stream, number)| of[stream] = number);
    requests.iter().zip(&of).for_each(|(count, &number)| sums[usize::from(number)] += count);
    (of, sums)
}

/// The streams and flags of the requests of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Submitters {
    streams: Counts,
    /// The number of requests from the same stream as the request that they continue, and the
    /// number of all requests. The first request of the trace is not counted.
    kept: (u32, u32),
    flags: Counts,
}

impl Submitters {
    #[inline]
    pub(crate) fn add(&mut self, stream: u16, reference: Option<u16>, flags: u8) {
        self.streams.add(stream.into(), 1);
        self.flags.add(flags.into(), 1);
        if let Some(reference) = reference {
            self.kept.0 += u32::from(reference == stream);
            self.kept.1 += 1;
        }
    }

    pub(crate) fn put(&self, writer: &mut Writer) {
        self.streams.put(writer);
        writer.numbers([self.kept.0, self.kept.1].map(u64::from));
        self.flags.put(writer);
    }

    pub(crate) fn get(bytes: &mut Bytes, streams: usize) -> Result<Submitters, ByteError> {
        let streams = Counts::get(bytes, streams.max(1) as u32 - 1, "stream")?;
        let all = u64::from(u32::MAX);
        let kept = [bytes.number(all, "streams kept")?, bytes.number(all, "streams")?];
        let flags = Counts::get(bytes, 31, "flags")?;
        Ok(Submitters { streams, kept: (kept[0] as u32, kept[1] as u32), flags })
    }
}

/// Reads the streams.
pub(crate) fn get_streams(bytes: &mut Bytes) -> Result<Vec<Submitter>, ByteError> {
    let length = bytes.length(STREAMS_MAX, "streams")?;
    if length == 0 {
        return bytes.bad("no stream", "one at least");
    }
    bytes.list(length, |bytes| {
        let requests = bytes.number(COUNT_MAX, "requests of a stream")?;
        let is_named = bytes.number(1, "whether a stream is named")? == 1;
        let name = is_named.then(|| bytes.text("name of a stream")).transpose()?;
        Ok(Submitter { requests, name })
    })
}

pub(crate) fn put_streams(streams: &[Submitter], writer: &mut Writer) {
    writer.number(streams.len() as u64);
    for stream in streams {
        writer.number(stream.requests);
        writer.number(stream.name.is_some().into());
        stream.name.iter().for_each(|name| writer.text(name));
    }
}

/// Draws the stream and the flags of each request.
pub(crate) struct SubmitterSampler {
    streams: Bag,
    kept: f64,
    flags: Bag,
}

impl SubmitterSampler {
    pub(crate) fn new(submitters: &Submitters) -> SubmitterSampler {
        SubmitterSampler {
            streams: Bag::new(&submitters.streams),
            kept: f64::from(submitters.kept.0) / f64::from(submitters.kept.1.max(1)),
            flags: Bag::new(&submitters.flags),
        }
    }

    /// Returns the stream of a request. It is `reference`, the stream of the request that is
    /// continued, if that has requests left and is drawn or required (`stays`).
    #[inline]
    pub(crate) fn stream(&mut self, reference: u16, stays: bool, dice: &mut RandomSource) -> u16 {
        let keeps = stays || dice.unit() < self.kept;
        if keeps && self.streams.take(reference.into()) {
            return reference;
        }
        self.streams.draw(dice).map_or(reference, |stream| stream as u16)
    }

    #[inline]
    pub(crate) fn flags(&mut self, dice: &mut RandomSource) -> u8 {
        self.flags.draw(dice).unwrap_or(0) as u8
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_streams_keep_their_order_and_the_rest_are_one() {
        let (of, sums) = assign_streams(&[3, 9, 5]);
        assert_eq!((of, sums), (vec![0, 1, 2], vec![3, 9, 5]));
        let requests: Vec<u64> = (0..600).collect();
        let (of, sums) = assign_streams(&requests);
        assert_eq!(sums.len(), STREAMS_MAX);
        assert_eq!((of[0], of[88], of[89], of[599]), (511, 511, 0, 510));
        assert_eq!(sums.iter().sum::<u64>(), requests.iter().sum::<u64>());
        assert_eq!(assign_streams(&[]), (vec![], vec![]));
    }

    #[test]
    fn a_cycle_has_each_stream_as_often_as_it_was() {
        let mut saved = Submitters::default();
        for n in 0..100u16 {
            saved.add(n % 10 / 7, Some(0), 1);
        }
        let (mut askers, mut dice) = (SubmitterSampler::new(&saved), RandomSource::new(1));
        let ones = (0..200).filter(|_| askers.stream(0, false, &mut dice) == 1).count();
        assert_eq!((ones, askers.flags(&mut dice)), (60, 1));
    }
}
