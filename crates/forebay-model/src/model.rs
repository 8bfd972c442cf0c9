//! The contents of a model, and their encoding as bytes.

use crate::arrivals::Arrivals;
use crate::bytes::{ByteError, Bytes, Writer};
use crate::chain::Chain;
use crate::class::{CODES, Class, PlaceKind};
use crate::counts::COUNT_MAX;
use crate::places::Places;
use crate::sizes::Sizes;
use crate::space::{Form, Transitions, Volume, Volumes};
use crate::submitters::{Submitter, Submitters, get_streams, put_streams};
use forebay_words::quantities;

/// A small generative model of a trace.
///
/// It holds counts: how often classes of requests and ranges occur in each part of the trace, how
/// often they follow each other, and, for each class, the lengths, kinds of places and streams of
/// its requests. It contains no individual request of the trace and no offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The number of requests in the fitted trace.
    pub requests: u64,
    /// The granularity in bytes: nearly all offsets are multiples of it.
    pub grain_bytes: u32,
    /// The volumes and their ranges.
    pub volumes: Volumes,
    /// The busiest streams; the last one may represent all others.
    pub streams: Vec<Submitter>,
    pub(crate) classes: Vec<Class>,
    pub(crate) arrivals: Arrivals,
    pub(crate) chain: Chain,
    pub(crate) sizes: Vec<Sizes>,
    pub(crate) places: Places,
    pub(crate) submitters: Vec<Submitters>,
}

impl Model {
    /// Returns the time from the first request to the last, in ns.
    pub fn duration_ns(&self) -> u64 {
        self.arrivals.duration_ns()
    }

    /// Returns the number of classes of requests.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// Returns the number of transitions between ranges that occur.
    pub fn transitions(&self) -> usize {
        self.chain.moves.iter().filter(|counts| !counts.0.is_empty()).count()
    }

    /// Returns the number of gaps: between the used stretches of each volume, and before the first
    /// stretch.
    fn gaps(&self) -> usize {
        let of = |volume: &Volume| match &volume.stretches[..] {
            [] => 0,
            [first, ..] => volume.stretches.len() - usize::from(first.begin_mib == 0),
        };
        self.volumes.volumes.iter().map(of).sum()
    }

    pub(crate) fn kinds(&self) -> Vec<PlaceKind> {
        self.classes.iter().map(|class| class.kind).collect()
    }

    /// Returns what the model reveals about the trace, one sentence each.
    pub fn reveals(&self) -> Vec<String> {
        let plural = |count: usize, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {more}"),
        };
        let names = self.streams.iter().any(|stream| stream.name.is_some() && !stream.is_unknown())
            || self.volumes.volumes.iter().any(|volume| volume.name.is_some());
        let epochs = plural(self.chain.epochs.len(), "part", "parts");
        vec![
            format!(
                "how much: {} in {}, requests and writes per block of time ({}), requests per stream \
                 ({})",
                plural(self.requests as usize, "request", "requests"),
                quantities::seconds(self.duration_ns() as f64 / 1e9),
                self.arrivals.blocks(),
                self.streams.len(),
            ),
            format!(
                "what: how often each of {} occurs in {epochs} of the trace, how often one follows \
                 another, and the most common lengths of each",
                plural(self.classes(), "class", "classes"),
            ),
            format!(
                "where: how far {} used{}, to a MiB; how often each of {} is used, and each of {} cells is \
                 used first; no offset",
                match self.volumes.volumes.len() {
                    1 => "the volume is".to_string(),
                    more => format!("each of {more} volumes is"),
                },
                match self.gaps() {
                    0 => String::new(),
                    gaps => format!(", and the position of {} that no request \
                        touches", plural(gaps, "long gap", "long gaps")),
                },
                plural(self.volumes.ranges(), "range", "ranges"),
                self.places.cells,
            ),
            "in which order: not which request follows which, only how often classes and ranges follow \
             each other, and how divisions of time into halves are distributed"
                .to_string(),
            "how places are chosen: how many requests ago reused space was used, how far new space \
             is from recent ends, and the flags of each class"
                .to_string(),
            format!("names: {}", if names { "of volumes and streams" } else { "none" }),
        ]
    }

    /// Returns the content of the model.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.number(self.requests);
        writer.number(self.grain_bytes.into());
        self.volumes.put(&mut writer);
        put_streams(&self.streams, &mut writer);
        writer.number(self.classes.len() as u64);
        writer.numbers(self.classes.iter().map(|class| class.code() as u64));
        self.arrivals.put(&mut writer);
        self.chain.put(&mut writer);
        self.sizes.iter().for_each(|sizes| sizes.put(&mut writer));
        self.places.put(&mut writer);
        self.submitters.iter().for_each(|asked| asked.put(&mut writer));
        writer.0
    }

    /// Reads and checks the content of a model.
    pub(crate) fn of(content: &[u8], form: Form) -> Result<Model, ByteError> {
        let mut bytes = Bytes::new(content);
        let bytes = &mut bytes;
        let requests = bytes.number(COUNT_MAX, "requests")?;
        let grain_bytes = bytes.number(1 << 16, "grain")? as u32;
        if requests == 0
            || !(512..=1 << 16).contains(&grain_bytes)
            || !grain_bytes.is_power_of_two()
        {
            let got = format!("{requests} requests and a grain of {grain_bytes}");
            return bytes.bad(got, "at least one, and a power of two from 512 to 65536");
        }
        let volumes = Volumes::get(bytes, form)?;
        let streams = get_streams(bytes)?;
        let length = bytes.length(CODES, "classes")?;
        let codes = bytes.list(length, |bytes| bytes.number(CODES as u64 - 1, "class"))?;
        if codes.is_empty() || !codes.is_sorted_by(|a, b| a < b) {
            return bytes.bad("classes out of order", "at least one, in ascending order");
        }
        let classes: Vec<Class> = codes.iter().map(|&code| Class::of(code as usize)).collect();
        let arrivals = Arrivals::get(bytes, requests)?;
        let transitions = Transitions::new(&volumes).count();
        let chain = Chain::get(bytes, classes.len(), volumes.ranges(), transitions)?;
        let sizes = bytes.list(classes.len(), Sizes::get)?;
        let kinds: Vec<PlaceKind> = classes.iter().map(|class| class.kind).collect();
        let places = Places::get(bytes, &kinds)?;
        let asked = bytes.list(classes.len(), |bytes| Submitters::get(bytes, streams.len()))?;
        bytes.end()?;
        Ok(Model {
            requests,
            grain_bytes,
            volumes,
            streams,
            classes,
            arrivals,
            chain,
            sizes,
            places,
            submitters: asked,
        })
    }
}
