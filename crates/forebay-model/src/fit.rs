//! Fits a model to a trace, in two passes and bounded memory.

use forebay_core::{Nanos, Op};
use forebay_trace::Record;
use forebay_trace::touched::Touched;

use crate::Model;
use crate::address::Space;
use crate::arrivals::{self, ArrivalsFit};
use crate::chain::{self, ChainFit, State};
use crate::class::{CODES, Class, PlaceKind, octave};
use crate::parts::Parts;
use crate::places::{FAR_EPOCHS, PlacesFit};
use crate::sizes::SizesFit;
use crate::space::{Transitions, Volumes};
use crate::submitters::{Submitter, Submitters, assign_streams};
use crate::trail::{ModelRequest, Relation, Trail, placed};

/// The resolution of a fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// The number of levels in the hierarchy of ranges. The default is three, or fewer if there are
    /// many volumes.
    pub level: Option<u8>,
    /// Whether ranges have no hierarchy, so that each pair has its own transition.
    pub flat: bool,
    /// The number of epochs: parts of the trace with separate budgets.
    pub epochs: u64,
    /// The number of blocks of arrivals.
    pub blocks: u64,
}

impl Default for FitOptions {
    fn default() -> FitOptions {
        let (epochs, blocks) = (chain::EPOCHS, arrivals::BLOCKS);
        FitOptions { level: None, flat: false, epochs, blocks }
    }
}

/// The result of the first pass: the extents of the volumes and the numbers of requests.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The number of requests.
    pub requests: u64,
    last: Nanos,
    tick_ns: u64,
    /// For each volume, the highest byte reached, the parts in use (`touched`), and the number of
    /// requests.
    reached: Vec<u64>,
    touched: Touched,
    volume_requests: Vec<u64>,
    /// The number of requests of each stream.
    streams: Vec<u64>,
    /// The number of requests that start at a multiple of each of [`GRAINS_BYTES`].
    aligned: [u64; GRAINS_BYTES.len()],
}

/// The granularities of offsets that are tried.
const GRAINS_BYTES: [u32; 8] = [65_536, 32_768, 16_384, 8192, 4096, 2048, 1024, 512];
/// The share of requests in percent that must be aligned to a granularity.
const ALIGNED_SHARE: u64 = 98;
/// Common divisors of the times that are shorter than this may be due to chance and are not used as
/// a tick.
const TICK_NS_MIN: u64 = 1000;

impl Survey {
    /// Adds the next record.
    #[inline]
    pub fn add(&mut self, record: &Record) {
        self.requests += 1;
        let gap = record.at.0 - self.last.0.min(record.at.0);
        self.last = record.at;
        self.tick_ns = if self.tick_ns == 1 { 1 } else { gcd(self.tick_ns, gap) };
        let (volume, stream) = (record.volume as usize, record.stream as usize);
        if volume >= self.reached.len() {
            self.reached.resize(volume + 1, 0);
            self.volume_requests.resize(volume + 1, 0);
        }
        if stream >= self.streams.len() {
            self.streams.resize(stream + 1, 0);
        }
        // The offset of a flush has no meaning.
        if record.len > 0 {
            let end = record.offset.saturating_add(u64::from(record.len));
            self.reached[volume] = self.reached[volume].max(end);
            self.touched.add(record);
        }
        self.volume_requests[volume] += 1;
        self.streams[stream] += 1;
        let power = record.offset.trailing_zeros();
        for (count, grain_bytes) in self.aligned.iter_mut().zip(GRAINS_BYTES) {
            *count += u64::from(power >= grain_bytes.trailing_zeros());
        }
    }

    /// Returns the largest granularity to which nearly all offsets are aligned.
    fn grain_bytes(&self) -> u32 {
        let kept = |count: u64| count * 100 >= ALIGNED_SHARE * self.requests;
        let grains = self.aligned.iter().zip(GRAINS_BYTES);
        grains.filter(|(count, _)| kept(**count)).map(|(_, grain)| grain).next().unwrap_or(512)
    }
}

/// The maximum number of stretches in a model, in addition to one per volume.
const STRETCHES: usize = 256;

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Fits a model, given the results of the first pass.
pub struct Fitter {
    survey: Survey,
    volumes: Volumes,
    space: Space,
    /// The number of requests on each stretch of the address space.
    piece_requests: Vec<u64>,
    transitions: Transitions,
    stream_of: Vec<u16>,
    streams: Vec<u64>,
    trail: Trail,
    /// The division of the requests into epochs, and the current epoch.
    parts: Parts,
    epoch: usize,
    seen: u64,
    last: Option<ModelRequest>,
    arrivals: ArrivalsFit,
    chain: ChainFit,
    sizes: Vec<SizesFit>,
    places: PlacesFit,
    submitters: Vec<Submitters>,
}
impl Fitter {
    /// Starts the second pass. The survey must have at least one request.
    pub fn new(survey: Survey, options: &FitOptions) -> Fitter {
        let stretches = survey.touched.some_stretches(STRETCHES);
        let (reached, requests) = (&survey.reached, &survey.volume_requests);
        let volumes = Volumes::new(reached, stretches, requests, options.level, options.flat);
        let space = Space::new(&volumes);
        let transitions = Transitions::new(&volumes);
        let (stream_of, streams) = assign_streams(&survey.streams);
        let epochs = chain::epochs(survey.requests, options.epochs);
        let tick_ns = if survey.tick_ns >= TICK_NS_MIN { survey.tick_ns } else { 1 };
        Fitter {
            trail: Trail::new(space.areas(), volumes.ranges(), streams.len()),
            arrivals: ArrivalsFit::new(survey.requests, tick_ns, options.blocks.max(1)),
            chain: ChainFit::new(CODES, epochs as usize, volumes.ranges(), transitions.count()),
            sizes: vec![SizesFit::default(); CODES],
            places: PlacesFit::new(CODES, &space),
            submitters: vec![Submitters::default(); CODES],
            survey,
            volumes,
            piece_requests: vec![0; space.pieces_len()],
            space,
            transitions,
            stream_of,
            streams,
            parts: Parts::new(epochs),
            epoch: 0,
            seen: 0,
            last: None,
        }
    }

    /// Adds the next record of the second pass. Records beyond those of the first pass are not
    /// counted; [`Fitter::agrees`] reports whether there were any.
    #[inline]
    pub fn add(&mut self, record: &Record) {
        self.seen += 1;
        if self.seen > self.survey.requests || !self.is_known(record) {
            return;
        }
        let (number, requests) = (self.seen - 1, self.survey.requests);
        if number >= self.parts.begin(self.epoch + 1, requests) {
            self.epoch += 1;
        }
        let far_part = u128::from(number) * FAR_EPOCHS as u128 / u128::from(requests);
        let (address, mut range) = placed(&self.space, record.volume, record.offset);
        let last = self.chain.last();
        let at_ns = last.map_or(record.at.0, |last| record.at.0.max(last.at_ns));
        if let (0, Some(last)) = (record.len, last) {
            range = last.range;
        }
        let asked = ModelRequest {
            address,
            len: record.len,
            op: record.op,
            stream: self.stream_of[record.stream as usize],
            area: self.space.area(record.volume) as u16,
        };
        let seen = self.trail.see(&asked);
        let class = Class { kind: seen.kind, op: record.op, octave: octave(record.len) };
        let code = class.code();
        self.arrivals.add(at_ns, record.op == Op::Write);
        let state = State { code, range, at_ns };
        self.chain.add(state, self.epoch, |from, to| self.transitions.of(from, to));
        let stream = self.reference(&asked, &seen);
        self.sizes[code].add(asked.len);
        self.places.add(code, &asked, &seen, &self.trail, far_part as usize);
        self.submitters[code].add(asked.stream, stream, (record.flags.0 & 31) as u8);
        if seen.kind != PlaceKind::Nowhere {
            self.sizes[code].add_place(address, asked.len);
            self.piece_requests[self.space.piece(address)] += 1;
            let from = seen.kind.goes_on().then_some(seen.rank);
            self.trail.push(&asked, &self.space, from);
        }
        self.last = Some(asked);
    }

    fn is_known(&self, record: &Record) -> bool {
        let end = record.offset.saturating_add(u64::from(record.len));
        (record.stream as usize) < self.stream_of.len()
            && self
                .survey
                .reached
                .get(record.volume as usize)
                .is_some_and(|&reached| record.len == 0 || end <= reached)
    }

    /// Returns the stream of the request that this one continues, or of the previous request.
    #[inline]
    fn reference(&self, asked: &ModelRequest, seen: &Relation) -> Option<u16> {
        let last = self.last?;
        match seen.kind {
            PlaceKind::Nowhere | PlaceKind::Again | PlaceKind::Over | PlaceKind::Far => {
                Some(last.stream)
            }
            _ => {
                let end = self.trail.ends[usize::from(asked.area)].get(seen.rank);
                end.map(|end| end.stream)
            }
        }
    }

    /// Returns the number of MiB in use on all volumes, without long gaps. A model can hold at most
    /// [`USED_MIB_MAX`](crate::USED_MIB_MAX).
    pub fn used_mib(&self) -> u64 {
        self.volumes.used_mib()
    }

    /// Checks that both passes had the same number of requests. Otherwise returns the numbers of
    /// the second and the first pass as an error.
    pub fn agrees(&self) -> Result<(), (u64, u64)> {
        match self.seen == self.survey.requests {
            true => Ok(()),
            false => Err((self.seen, self.survey.requests)),
        }
    }

    /// Returns the model.
    pub fn finish(mut self) -> Model {
        self.space.set_piece_requests(&mut self.volumes, &self.piece_requests);
        let codes = self.chain.codes();
        let kept = |code: usize| codes.binary_search(&code).is_ok();
        let sizes = self.sizes.into_iter().zip(0..).filter(|entry| kept(entry.1));
        let submitters = self.submitters.into_iter().zip(0..).filter(|entry| kept(entry.1));
        Model {
            requests: self.survey.requests,
            grain_bytes: self.survey.grain_bytes(),
            volumes: self.volumes,
            streams: self
                .streams
                .iter()
                .map(|&requests| Submitter { requests, name: None })
                .collect(),
            classes: codes.iter().map(|&code| Class::of(code)).collect(),
            arrivals: self.arrivals.finish(),
            sizes: sizes.map(|entry| entry.0.finish()).collect(),
            places: self.places.finish(&codes),
            submitters: submitters.map(|entry| entry.0).collect(),
            chain: self.chain.finish(&codes),
        }
    }

    /// Returns the model's stream for a stream of the trace.
    pub fn stream_of(&self, stream: u32) -> Option<u16> {
        self.stream_of.get(stream as usize).copied()
    }
}
