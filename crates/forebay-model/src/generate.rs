//! Generates requests from a model, with the interface of a trace reader.
//!
//! For each request, it draws the arrival time and whether it is a write, then the class and the
//! range (`choose`), then the place according to the class (`place`), and finally the stream. A run
//! longer than the model's trace starts again from the beginning, with all blocks new.

mod choose;
mod place;

use std::collections::VecDeque;

use forebay_core::{Flags, Nanos};
use forebay_trace::{Dictionary, Notes, Reader, Record, Stream, TraceError, trace};

use crate::Model;
use crate::address::Space;
use crate::arrivals::{Arrival, Clock};
use crate::chain::{AROUND, gap_class, pace_class};
use crate::class::PlaceKind;
use crate::dice::RandomSource;
use crate::submitters::SubmitterSampler;
use crate::trail::{ModelRequest, Trail};
use choose::Chooser;
use place::Placer;

/// A mechanism that can be switched off to measure its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Which class follows which.
    Follows,
    /// Which classes follow and precede which gaps.
    Gaps,
    /// The transitions between ranges, and the classes that make them.
    Transitions,
    /// How often each class occurs in each range.
    RangeClasses,
    /// How long ago reused blocks were last used.
    Ages,
    /// In which range blocks are reused.
    ReuseRange,
    /// Which of the recent ends a request continues.
    Ranks,
}

impl Mechanism {
    /// All mechanisms.
    pub const ALL: [Mechanism; 7] = [
        Mechanism::Follows,
        Mechanism::Gaps,
        Mechanism::Transitions,
        Mechanism::RangeClasses,
        Mechanism::Ages,
        Mechanism::ReuseRange,
        Mechanism::Ranks,
    ];

    /// Returns the name of the mechanism.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Follows => "follows",
            Mechanism::Gaps => "gaps",
            Mechanism::Transitions => "transitions",
            Mechanism::RangeClasses => "range-classes",
            Mechanism::Ages => "ages",
            Mechanism::ReuseRange => "reuse-range",
            Mechanism::Ranks => "ranks",
        }
    }
}

/// The set of mechanisms that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanisms(u16);

impl Default for Mechanisms {
    fn default() -> Mechanisms {
        Mechanisms(u16::MAX)
    }
}

impl Mechanisms {
    /// Returns these mechanisms without `mechanism`.
    pub fn without(self, mechanism: Mechanism) -> Mechanisms {
        Mechanisms(self.0 & !(1 << mechanism as u16))
    }

    #[inline]
    pub(crate) fn has(self, mechanism: Mechanism) -> bool {
        self.0 & 1 << mechanism as u16 != 0
    }
}

/// The options of a generated trace.
#[derive(Clone, Copy, Debug)]
pub struct GenerateOptions {
    /// The seed; equal seeds give equal requests.
    pub seed: u64,
    /// The number of requests. The default is that of the fitted trace.
    pub requests: Option<u64>,
    /// The time at which the trace ends. The default is to generate as many requests as the fitted
    /// trace has.
    pub until: Option<Nanos>,
    /// The factor by which the rate is multiplied.
    pub intensity: f64,
    /// The mechanisms of the model to use.
    pub mechanisms: Mechanisms,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        let mechanisms = Mechanisms::default();
        GenerateOptions { seed: 0, requests: None, until: None, intensity: 1.0, mechanisms }
    }
}

impl GenerateOptions {
    /// Returns whether the generated trace is finite. A time limit alone does not suffice if all
    /// requests of the model arrive at once.
    pub fn has_end(&self, model: &Model) -> bool {
        self.requests.is_some() || self.until.is_none() || model.duration_ns() > 0
    }
}

/// Generates requests from a model.
pub struct Generator {
    cycle: Cycle,
    left: u64,
    until: Nanos,
    intensity: f64,
    dictionary: Dictionary,
    notes: Notes,
}

impl Generator {
    /// Creates a generator.
    pub fn new(model: &Model, options: GenerateOptions) -> Generator {
        let left = match (options.requests, options.until) {
            (Some(requests), _) => requests,
            (None, Some(_)) => u64::MAX,
            (None, None) => model.requests,
        };
        let streams = model.streams.iter().zip(0u32..).map(|(stream, number)| Stream {
            thread: (!stream.is_unknown()).then_some(number),
            process: None,
            name: stream.name.clone().unwrap_or_default(),
        });
        let volumes = model.volumes.volumes.iter().zip(0u32..);
        Generator {
            cycle: Cycle::new(model.clone(), &options),
            left,
            until: options.until.unwrap_or(Nanos::MAX),
            intensity: options.intensity,
            dictionary: Dictionary {
                streams: streams.collect(),
                volumes: volumes
                    .map(|(volume, number)| volume.name.clone().unwrap_or(number.to_string()))
                    .collect(),
            },
            notes: Notes { format: "model", ..Notes::default() },
        }
    }
}

impl Iterator for Generator {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        if self.left == 0 {
            return None;
        }
        let mut record = self.cycle.next();
        if self.intensity != 1.0 {
            record.at = Nanos((record.at.0 as f64 / self.intensity).round() as u64);
        }
        if record.at > self.until {
            self.left = 0;
            return None;
        }
        self.left -= 1;
        Some(record)
    }
}

impl Reader for Generator {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.len() < trace::BATCH {
            let Some(record) = self.next() else { break };
            batch.push(record);
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }
}

/// Generates cycles, each with as many requests as the model's trace.
struct Cycle {
    model: Model,
    mechanisms: Mechanisms,
    space: Space,
    dice: RandomSource,
    clock: Clock,
    /// The arrivals around the next request: up to [`AROUND`] before it, itself, and up to
    /// [`AROUND`] after it.
    around: VecDeque<Arrival>,
    /// The index of the next request in `around`.
    at: usize,
    /// When the cycle began, and when its latest request arrived, in ns.
    begun_ns: u64,
    last_ns: u64,
    drawn: u64,
    trail: Trail,
    chooser: Chooser,
    placer: Placer,
    askers: Vec<SubmitterSampler>,
    stream: u16,
}

impl Cycle {
    fn new(model: Model, options: &GenerateOptions) -> Cycle {
        let space = Space::new(&model.volumes);
        let mut dice = RandomSource::new(options.seed);
        let mut clock = Clock::new(&model.arrivals);
        let around = (0..=AROUND).map_while(|_| clock.next(&mut dice)).collect();
        Cycle {
            trail: new_trail(&model, &space),
            chooser: Chooser::new(&model, options.mechanisms),
            placer: Placer::new(&model, &space, options.mechanisms),
            askers: model.submitters.iter().map(SubmitterSampler::new).collect(),
            mechanisms: options.mechanisms,
            model,
            space,
            dice,
            clock,
            around,
            at: 0,
            begun_ns: 0,
            last_ns: 0,
            drawn: 0,
            stream: 0,
        }
    }

    /// Starts the next cycle one mean gap after the last request.
    fn begin(&mut self) {
        let duration_ns = self.model.duration_ns();
        let tick_ns = self.model.arrivals.tick_ns;
        let gap_ns = (duration_ns / self.model.requests).next_multiple_of(tick_ns);
        self.begun_ns = self.begun_ns.saturating_add(duration_ns).saturating_add(gap_ns);
        self.clock = Clock::new(&self.model.arrivals);
        self.around = (0..=AROUND).map_while(|_| self.clock.next(&mut self.dice)).collect();
        self.at = 0;
        self.trail = new_trail(&self.model, &self.space);
        self.placer.begin();
        self.chooser = Chooser::new(&self.model, self.mechanisms);
        self.drawn = 0;
        self.last_ns = 0;
    }

    /// Advances to the next arrival.
    #[inline]
    fn step(&mut self) {
        self.around.extend(self.clock.next(&mut self.dice));
        match self.at < AROUND {
            true => self.at += 1,
            false => drop(self.around.pop_front()),
        }
    }

    #[inline]
    fn next(&mut self) -> Record {
        if self.at == self.around.len() {
            self.begin();
        }
        let now = self.around[self.at];
        let after = gap_class(now.at_ns - self.last_ns);
        let next = self.around.get(self.at + 1);
        let before = next.map_or(0, |next| gap_class(next.at_ns - now.at_ns));
        let (first, last) = (self.around[0], self.around[self.around.len() - 1]);
        let pace = pace_class(last.at_ns - first.at_ns, self.around.len() - 1);
        self.step();
        let (number, dice) = (self.drawn, &mut self.dice);
        let class = self.chooser.class(number, now.is_write, (after, before, pace), dice);
        let kind = self.model.classes[class].kind;
        let range = self.chooser.range(class, dice);
        let askers = &mut self.askers[class];
        let mut asked = ModelRequest {
            address: 0,
            len: 0,
            op: self.model.classes[class].op,
            stream: self.stream,
            area: self.trail.area as u16,
        };
        let at = Nanos(self.begun_ns.saturating_add(now.at_ns));
        let mut record = Record {
            at,
            offset: 0,
            latency: None,
            len: 0,
            stream: 0,
            volume: self.space.volume_of_area(self.trail.area),
            op: asked.op,
            flags: Flags::NONE,
        };
        if kind == PlaceKind::Nowhere {
            asked.stream = askers.stream(self.stream, false, dice);
            self.chooser.done(class, self.chooser.last_range());
        } else {
            let found = self.placer.place(class, range, number, self.stream, &self.trail, dice);
            asked.stream = askers.stream(found.stream, found.stays, dice);
            let (begin, end, volume) = self.space.volume_at(found.address);
            asked.len = found.len.min(u32::try_from(end - begin).unwrap_or(u32::MAX)).max(1);
            asked.address = found.address.min(end - u64::from(asked.len)).max(begin);
            asked.area = self.space.area(volume) as u16;
            record.offset = self.space.offset(volume, asked.address);
            (record.len, record.volume) = (asked.len, volume);
            let range = self.space.range(asked.address);
            let from = found.from.filter(|_| found.area == usize::from(asked.area));
            self.placer.went(asked.address);
            self.trail.push(&asked, &self.space, from);
            self.chooser.done(class, range);
        }
        record.stream = asked.stream.into();
        record.flags = Flags(u16::from(askers.flags(dice)));
        self.stream = asked.stream;
        self.last_ns = now.at_ns;
        self.drawn += 1;
        record
    }
}

fn new_trail(model: &Model, space: &Space) -> Trail {
    Trail::new(space.areas(), model.volumes.ranges(), model.streams.len())
}
