//! The lines of a tape: calls and answers as text, and calls from text.

use std::fmt::Write;

use forebay_core::catalog::{DeviceSet, FlashLane};
use forebay_core::contract::policy::Done;
use forebay_core::tape::Call;
use forebay_core::{Fault, Flags, Lane, Nanos, Op, Outcome, Request};

use super::{Header, MAGIC, STREAMS_MAX};

/// Longest request, and the first byte that none may reach: as of traces.
const LEN_BYTES_MAX: u32 = 1 << 30;
const END_BYTES_MAX: u64 = 1 << 63;

/// What a policy was asked; without its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Asked {
    Submit(Nanos, Request),
    Dispatch(Nanos, Lane),
    /// When, the lane, the I/O's name there, when it was started, and what came of it.
    Complete(Nanos, Lane, u64, Nanos, Outcome),
    Wake(Nanos),
}

/// What a line may be.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Call(Asked),
    End(u64),
}

/// Why a line is none: what stands there and what should.
pub(super) type Wrong = (String, &'static str);

pub(super) fn write_header(out: &mut String, header: &Header) {
    let DeviceSet { disks, disk_len_max, flash, .. } = header.lanes;
    let _ = write!(out, "{MAGIC}\npolicy {}\nlanes {disks} {disk_len_max}", header.policy);
    if let Some(FlashLane { len_max, capacity_bytes }) = flash {
        let _ = write!(out, " {len_max} {capacity_bytes}");
    }
    out.push('\n');
}

/// One line, its end included.
pub(super) fn write_call(out: &mut String, call: &Call) {
    // Writing to a string cannot fail.
    let _ = match call {
        Call::Submit(now, request, finished) => {
            let _ = write!(out, "submit {} ", now.0);
            let _ = write_request(out, request);
            write_answers(out, finished)
        }
        Call::Dispatch(now, lane, io) => {
            let _ = write!(out, "dispatch {} {lane} ", now.0);
            match io {
                Some(io) => write_request(out, io),
                None => out.write_char('-'),
            }
        }
        Call::Complete(now, done, finished) => {
            let (io, started) = (&done.io, done.started.0);
            let _ = write!(out, "complete {} {} {} {started} ", now.0, io.lane, io.id);
            let _ = out.write_str(outcome_name(done.outcome));
            write_answers(out, finished)
        }
        Call::Wake(now, finished) => {
            let _ = write!(out, "wake {}", now.0);
            write_answers(out, finished)
        }
    };
    out.push('\n');
}

pub(super) fn write_end(out: &mut String, calls: u64) {
    let _ = writeln!(out, "end {calls}");
}

/// What a call answered: each request with its wait, its class and, if it failed, how.
fn write_answers(out: &mut String, finished: &[Done]) -> std::fmt::Result {
    finished.iter().try_for_each(|Done { request, wait, outcome, class, .. }| {
        let _ = write!(out, " {}/{}/{class}", request.id, wait.0);
        outcome.or_else(|fault| write!(out, "/{}", fault.name()))
    })
}

fn outcome_name(outcome: Outcome) -> &'static str {
    outcome.map_or_else(Fault::name, |()| "ok")
}

fn write_request(out: &mut String, request: &Request) -> std::fmt::Result {
    let Request { at, offset, id, len, stream, lane, op, flags } = request;
    write!(out, "{id} {} {} {lane} {offset} {len} {stream} {}", at.0, op.name(), flags.0)
}

/// The lanes of a header's third line.
pub(super) fn lanes(line: &str) -> Result<DeviceSet, Wrong> {
    let wrong = || (shorten(line), "lanes DISKS LEN-MAX [FLASH-LEN-MAX FLASH-BYTES]");
    let mut words = Words(line.split(' '));
    let lanes = (|| {
        let (disks, disk_len_max) = (words.named("lanes")?.number()?, words.number()?);
        let flash = match words.0.clone().next() {
            Some(_) => Some((words.number()?, words.number()?)),
            None => None,
        };
        let flash = flash.map(|(len_max, capacity_bytes)| FlashLane { len_max, capacity_bytes });
        // Arrays are not taped.
        words.ended(DeviceSet { disks, disk_len_max, disk_bytes: 0, flash, restarts: false })
    })();
    let sound = |len_max: u32| (4096..=LEN_BYTES_MAX).contains(&len_max);
    lanes
        .filter(|lanes| (1..=4096).contains(&lanes.disks) && sound(lanes.disk_len_max))
        .filter(|lanes| lanes.flash.is_none_or(|flash| sound(flash.len_max)))
        .ok_or_else(wrong)
}

/// What a line of calls says; answers are not looked at.
pub(super) fn parse(line: &str) -> Result<Line, Wrong> {
    let wrong = |expected| (shorten(line), expected);
    let mut words = Words(line.split(' '));
    match words.0.next().unwrap_or_default() {
        "submit" => {
            let call = words.time().and_then(|now| Some((now, words.request()?)));
            let call = call.map(|(now, request)| Asked::Submit(now, request));
            call.map(Line::Call).ok_or_else(|| {
                wrong("submit AT ID ARRIVED OP LANE OFFSET BYTES STREAM FLAGS, as a trace may have it")
            })
        }
        "dispatch" => {
            let call = words.time().and_then(|now| Some(Asked::Dispatch(now, words.number()?)));
            call.map(Line::Call).ok_or_else(|| wrong("dispatch AT LANE and a request or -"))
        }
        "complete" => {
            let call = words.time().and_then(|now| {
                let (lane, id) = (words.number()?, words.number()?);
                Some(Asked::Complete(now, lane, id, words.time()?, words.outcome()?))
            });
            call.map(Line::Call)
                .ok_or_else(|| wrong("complete AT LANE ID STARTED OUTCOME and what it answered"))
        }
        "wake" => {
            let call = words.time().map(|now| Line::Call(Asked::Wake(now)));
            call.ok_or_else(|| wrong("wake AT and what it answered"))
        }
        "end" => {
            let calls = words.number().and_then(|calls| words.ended(calls));
            calls.map(Line::End).ok_or_else(|| wrong("end CALLS"))
        }
        _ => Err(wrong("submit, dispatch, complete, wake or end")),
    }
}

struct Words<'a>(std::str::Split<'a, char>);

impl Words<'_> {
    fn named(&mut self, name: &str) -> Option<&mut Self> {
        (self.0.next()? == name).then_some(self)
    }

    /// Digits alone.
    fn number<N: TryFrom<u64>>(&mut self) -> Option<N> {
        let word = self.0.next()?;
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        word.parse::<u64>().ok().filter(|_| digits)?.try_into().ok()
    }

    fn time(&mut self) -> Option<Nanos> {
        self.number().map(Nanos)
    }

    /// What came of an I/O.
    fn outcome(&mut self) -> Option<Outcome> {
        let name = self.0.next()?;
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name);
        fault.map(Err).or_else(|| (name == "ok").then_some(Ok(())))
    }

    /// A request that a workload may have: of somebody's.
    fn request(&mut self) -> Option<Request> {
        let (id, at) = (self.number()?, self.time()?);
        let name = self.0.next()?;
        let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::Park, Op::Open];
        let op = ops.into_iter().find(|op| op.name() == name)?;
        let (lane, offset, len) = (self.number()?, self.number()?, self.number()?);
        let (stream, flags) = (self.number()?, Flags(self.number()?));
        let request = Request { at, offset, id, len, stream, lane, op, flags };
        let sound = len <= LEN_BYTES_MAX && request.end() <= END_BYTES_MAX;
        (sound && stream < STREAMS_MAX).then_some(request)
    }

    /// `value`, if no word is left.
    fn ended<T>(&mut self, value: T) -> Option<T> {
        self.0.next().is_none().then_some(value)
    }
}

/// What stands somewhere, short enough for a message.
pub(super) fn shorten(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("'{}{more}'", short.escape_debug())
}
