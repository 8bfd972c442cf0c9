//! Defragmentation as a remedy: what laying out blocks in the order in which they are read would
//! gain, what moving them costs, after how long that pays off, and when to do it.
//!
//! The arrangement is learned from the first half of the requests ([`forebay_core::arrange`]) and
//! evaluated on the rest, under the same policy. The effect on the first half is reported too, as
//! `in_sample`. The moves are simulated as I/O on the same disk: once without other load, for their
//! cost, and once during the rest of the trace, starting at the best moment.

use forebay_ask::named;
use forebay_core::arrange::{Arrangement, Arranger, Prices};
use forebay_core::{Device, Flags, Nanos, Op, Request};
use serde::Serialize;

use crate::idle::Period;
use crate::progress::{Meter, Progress};
use crate::quantities::{bytes, counted, millis, percent, seconds};
use crate::simulate::{Bed, Run, RunResult, Setup, Stretch, requests, run_stretch};
use crate::{Error, Input};

mod sequential;
#[cfg(test)]
mod tests;

use sequential::{Sequential, sequential};

/// The maximum number of requests to learn from, because each of them takes memory.
const LEARNT_MAX: u64 = 2 << 20;

/// The number of requests below which there is nothing to learn from.
const REQUESTS_MIN: u64 = 100;

/// The assumed cost of a jump of the heads in seconds, for deciding which moves pay: about a seek
/// and half a rotation.
const JUMP_S: f64 = 0.012;

/// The share of the total time below which savings do not count as a gain.
const SHARE_THAT_MATTERS: f64 = 0.03;

/// The share by which a tail latency must increase to count as worse.
const TAIL_THAT_MATTERS: f64 = 0.2;

/// The results of a policy before and after blocks are rearranged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The number of requests that were replayed.
    pub requests: u64,
    /// The time from the first arrival to the last completion before rearranging, in seconds.
    pub span_s: f64,
    /// The total time before rearranging: the disk's busy time in open replay, the time to the last
    /// completion in closed replay.
    pub total_before_s: f64,
    /// The total time after rearranging, measured in the same way.
    pub total_after_s: f64,
    /// The share of the total time that rearranging saves; negative if it takes longer.
    pub gain_share: f64,
    /// The share of requests that start where the previous request of the same stream and operation
    /// ended, before rearranging.
    pub sequential_before_share: f64,
    /// The share of requests that start where the previous request of the same stream and operation
    /// ended, after rearranging.
    pub sequential_after_share: f64,
    /// The 99th percentile of read latencies before rearranging.
    pub read_p99_before_ms: Option<f64>,
    /// The 99th percentile of read latencies after rearranging.
    pub read_p99_after_ms: Option<f64>,
    /// The 99th percentile of write latencies before rearranging.
    pub write_p99_before_ms: Option<f64>,
    /// The 99th percentile of write latencies after rearranging.
    pub write_p99_after_ms: Option<f64>,
}

impl Effect {
    fn of(before: &RunResult, after: &RunResult, sequential: Sequential) -> Effect {
        let (was, is) = (before.total_s(), after.total_s());
        Effect {
            requests: before.figures.requests,
            span_s: before.figures.makespan_s,
            total_before_s: was,
            total_after_s: is,
            // Adding 0.0 turns -0.0 into 0.0, which is printed without a sign.
            gain_share: 1.0 - is / was.max(1e-9) + 0.0,
            sequential_before_share: sequential.before_share,
            sequential_after_share: sequential.after_share,
            read_p99_before_ms: before.figures.read_p99_ms,
            read_p99_after_ms: after.figures.read_p99_ms,
            write_p99_before_ms: before.figures.write_p99_ms,
            write_p99_after_ms: after.figures.write_p99_ms,
        }
    }

    /// Returns whether rearranging makes the 99th percentile of reads much longer.
    fn is_slower(&self) -> bool {
        let tails = self.read_p99_before_ms.zip(self.read_p99_after_ms);
        tails.is_some_and(|(was, is)| is > was * (1.0 + TAIL_THAT_MATTERS))
    }

    /// Returns whether rearranging saves time without making the 99th percentile of reads much
    /// longer.
    pub(crate) fn is_gain(&self) -> bool {
        self.gain_share > 0.0 && !self.is_slower()
    }

    pub(crate) fn told(&self) -> String {
        let tail = match (self.read_p99_before_ms, self.read_p99_after_ms) {
            (Some(was), Some(is)) => {
                format!(", 99 % of reads within {} instead of {}", millis(is), millis(was))
            }
            _ => String::new(),
        };
        let (kind, share) = match self.gain_share {
            gain if gain < 0.0 => ("more", -gain),
            gain => ("less", gain),
        };
        let (is, was) = (seconds(self.total_after_s), seconds(self.total_before_s));
        format!("{is} instead of {was} ({} {kind}){tail}", percent(share))
    }
}

/// A moment at which to move the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// When the moves start, in seconds after the first request that was not learned from.
    pub at_s: f64,
    /// The length of the idle period that starts at this moment, in seconds.
    pub idle_s: f64,
    /// Whether all moves fit into the idle period.
    pub holds_all: bool,
}

/// The results of a study of defragmentation.
#[derive(Clone, Debug, Serialize)]
pub struct Defragmentation {
    /// The policy, which is the same before and after rearranging.
    pub policy: String,
    /// How many requests, from the start of the trace, the arrangement was learned from.
    pub learnt_requests: u64,
    /// The number of jumps in the streams' reads among the learned requests.
    pub jumps: u64,
    /// The number of those jumps that occur more than once. Only these can be removed by
    /// rearranging.
    pub repeated_jumps: u64,
    /// The number of jumps that rearranging turns into sequential reads.
    pub joined_jumps: u64,
    /// The number of sequences of blocks that are laid out contiguously.
    pub rows: usize,
    /// The number of extents that are moved.
    pub moved_extents: usize,
    /// The number of bytes that are moved. Each byte is read once and written once.
    pub moved_bytes: u64,
    /// Whether moves would have been worthwhile, but no free area was large enough.
    pub lacks_room: bool,
    /// The time that the moves take if the disk has no other load, in seconds; 0 if nothing moves.
    pub cost_s: f64,
    /// The effect on the requests that were not learned from; `None` if nothing moves.
    pub held_out: Option<Effect>,
    /// The effect on the requests that were learned from.
    pub in_sample: Option<Effect>,
    /// The effect on the requests that were not learned from, if the moves are made during the
    /// replay, starting at the best moment.
    pub with_moves: Option<Effect>,
    /// How many of the requests that were not learned from use space that was assumed to be free.
    pub displaced_requests: u64,
    /// How long the evaluated load must run until it has saved the cost of the moves, in seconds;
    /// `None` if it never does.
    pub pay_back_s: Option<f64>,
    /// The best moment for the moves; `None` if the disk is never idle.
    pub best_moment: Option<Moment>,
}

impl Defragmentation {
    /// Returns whether defragmentation is recommended.
    pub fn is_worth_while(&self) -> bool {
        let gains =
            |effect: &Effect| effect.gain_share >= SHARE_THAT_MATTERS && !effect.is_slower();
        self.pay_back_s.is_some() && self.held_out.as_ref().is_some_and(gains)
    }

    /// Describes the results of the study in sentences.
    pub fn told(&self) -> Vec<String> {
        let learnt = format!(
            "learnt from the first {}, in which the reads of streams jumped {}, {} of them along a \
             path taken more than once",
            counted(self.learnt_requests, "request"),
            counted(self.jumps, "time"),
            self.repeated_jumps
        );
        let (Some(held_out), Some(in_sample)) = (&self.held_out, &self.in_sample) else {
            let why = match (self.lacks_room, self.repeated_jumps) {
                (true, _) => "the trace leaves no gap large enough to move blocks into",
                (_, 0) => "nothing is read in the same scattered order twice",
                _ => {
                    "moving those blocks would cost more than the move saves in a second run of \
                     the same length"
                }
            };
            return vec![format!("Nothing to move: {why} ({learnt}).")];
        };
        let verdict = match held_out {
            _ if self.is_worth_while() => "gains",
            effect if effect.is_slower() => "makes the slowest reads slower",
            _ => "gains nothing that counts",
        };
        let mut told = vec![
            format!(
                "Rearranging blocks {verdict} under {}: on the {} it was not learnt from, {}. \
                 In-sample, on those it was learnt from: {}. It was {learnt}.",
                self.policy,
                counted(held_out.requests, "request"),
                held_out.told(),
                in_sample.told(),
            ),
            format!(
                "It moves {} in {}, which takes {} of reading and writing; {}.",
                bytes(self.moved_bytes as f64),
                counted(self.moved_extents as u64, "piece"),
                seconds(self.cost_s),
                match self.pay_back_s {
                    Some(s) => format!("paid back after {} of such a load", seconds(s)),
                    None => "never paid back by such a load".to_string(),
                },
            ),
        ];
        told.push(self.moment_told());
        if self.displaced_requests > 0 {
            told.push(format!(
                "The space that seemed free is used by {}: their data would have to be moved too.",
                counted(self.displaced_requests, "later request")
            ));
        }
        told
    }

    fn moment_told(&self) -> String {
        let moment = match self.best_moment {
            None => "The disk is never idle after the learnt part of the trace: the moves would \
                     have to wait until the load is over."
                .to_string(),
            Some(Moment { at_s, idle_s, holds_all: true }) => format!(
                "The best moment: the idle period of {} that begins {} after the learnt part is \
                 long enough for all moves.",
                seconds(idle_s),
                seconds(at_s)
            ),
            Some(Moment { at_s, idle_s, .. }) => format!(
                "No idle period is long enough for all moves; the longest, {}, begins {} after \
                 the learnt part.",
                seconds(idle_s),
                seconds(at_s)
            ),
        };
        match &self.with_moves {
            Some(effect) => {
                format!("{moment} Moving then, moves included: {}.", effect.told())
            }
            None => moment,
        }
    }
}

/// Fails unless the test bed has exactly one disk, because an arrangement applies to one disk.
pub fn check(bed: Bed<'_>) -> Result<(), Error> {
    if bed.disks <= 1 {
        return Ok(());
    }
    let one = named("disks=1");
    let text = format!("defragmentation: got {} disks, expected one; use {one}", bed.disks);
    Err(Error::Unfit(text))
}

/// Learns an arrangement from `input` as [`study`] does, and evaluates it on the remaining requests
/// under `policy`, on each bed with its setup. Stops after the first bed without a gain. Returns an
/// empty list if nothing moves.
pub(crate) fn elsewhere(
    input: &Input,
    policy: &str,
    all: &[(Bed<'_>, Setup)],
    progress: Progress<'_>,
) -> Result<Vec<Effect>, Error> {
    let Some(&(bed, setup)) = all.first() else { return Ok(Vec::new()) };
    let half = learnt_requests(input);
    let learnt = learn(input, bed, setup, half, progress)?;
    let Some(map) = &learnt.rearrangement else { return Ok(Vec::new()) };
    let mut effects: Vec<Effect> = Vec::new();
    for &(bed, setup) in all {
        let rest = || Stretch::of(half..u64::MAX);
        let mut run = |stretch| run_stretch(input, bed, policy, setup, stretch, progress);
        let before = run(rest())?;
        let after = run(Stretch { rearrangement: Some(map), ..rest() })?;
        effects.push(Effect::of(&before.result, &after.result, Sequential::default()));
        if effects.last().is_some_and(|effect| !effect.is_gain()) {
            break;
        }
    }
    Ok(effects)
}

/// Returns how many requests of `input` the arrangement is learned from.
fn learnt_requests(input: &Input) -> u64 {
    let all = input.description.records;
    if all < REQUESTS_MIN { 0 } else { (all / 2).min(LEARNT_MAX) }
}

/// Evaluates defragmentation for `input` on the only disk of `bed`, under `policy`.
pub fn study(
    input: &Input,
    bed: Bed<'_>,
    policy: &str,
    setup: Setup,
    progress: Progress<'_>,
) -> Result<Defragmentation, Error> {
    check(bed)?;
    let half = learnt_requests(input);
    let learnt = learn(input, bed, setup, half, progress)?;
    let mut answer = empty(policy, half, &learnt);
    let Some(map) = &learnt.rearrangement else { return Ok(answer) };
    answer.moved_bytes = map.moved_bytes();
    answer.moved_extents = map.moves().len();
    let mut shares = |range| sequential(input, (bed, setup), range, map, progress);
    let (held_out_shares, known_shares) = (shares(half..u64::MAX)?, shares(0..half)?);
    let mut run = |stretch| run_stretch(input, bed, policy, setup, stretch, progress);
    let on = |requests| Stretch { rearrangement: Some(map), ..Stretch::of(requests) };
    // Run the moves without other load: there are no requests, and the moves start in the first
    // nanosecond.
    let alone = run(Stretch { copied_from: Some(Nanos(1)), ..on(0..0) })?;
    answer.cost_s = alone.result.figures.makespan_s;
    let idle_needed = Nanos::from_secs_f64(answer.cost_s);
    let before = run(Stretch { idle_needed, ..Stretch::of(half..u64::MAX) })?;
    let after = run(on(half..u64::MAX))?;
    answer.displaced_requests =
        after.result.placement.get("displaced_requests").copied().unwrap_or(0.0) as u64;
    let held_out = Effect::of(&before.result, &after.result, held_out_shares);
    answer.held_out = Some(held_out);
    answer.pay_back_s = pay_back_s(&held_out, answer.cost_s);
    let known = (run(Stretch::of(0..half))?, run(on(0..half))?);
    answer.in_sample = Some(Effect::of(&known.0.result, &known.1.result, known_shares));
    if let Some((moment, from)) = best_moment(&before) {
        answer.best_moment = Some(moment);
        let moving = run(Stretch { copied_from: Some(from), ..on(half..u64::MAX) })?;
        answer.with_moves = Some(Effect::of(&before.result, &moving.result, held_out_shares));
    }
    Ok(answer)
}

fn empty(policy: &str, learnt_requests: u64, learnt: &Arrangement) -> Defragmentation {
    Defragmentation {
        policy: policy.to_string(),
        learnt_requests,
        jumps: learnt.jumps,
        repeated_jumps: learnt.repeated_jumps,
        joined_jumps: learnt.joined_jumps,
        rows: learnt.rows,
        moved_extents: 0,
        moved_bytes: 0,
        lacks_room: learnt.lacks_room,
        cost_s: 0.0,
        held_out: None,
        in_sample: None,
        with_moves: None,
        displaced_requests: 0,
        pay_back_s: None,
        best_moment: None,
    }
}

/// Returns how long the evaluated load must run until its savings equal the cost of the moves, in
/// seconds.
fn pay_back_s(effect: &Effect, cost_s: f64) -> Option<f64> {
    let saved_s = effect.total_before_s - effect.total_after_s;
    (saved_s > 0.0).then(|| cost_s / saved_s * effect.span_s)
}

/// Returns the first idle period that is long enough for all moves, because early moves benefit
/// more requests; or else the longest idle period.
fn best_moment(before: &Run) -> Option<(Moment, Nanos)> {
    let Period { at, length } = before.idle.first.or(before.idle.longest)?;
    let (at_s, idle_s) = (at.as_secs_f64(), length.as_secs_f64());
    // The moves must start after time zero, which is when a run begins.
    Some((Moment { at_s, idle_s, holds_all: before.idle.first.is_some() }, at.max(Nanos(1))))
}

/// Learns an arrangement from the first `half` requests.
fn learn(
    input: &Input,
    bed: Bed<'_>,
    setup: Setup,
    half: u64,
    progress: Progress<'_>,
) -> Result<Arrangement, Error> {
    let (placed, failed) = requests(input, bed, setup)?;
    let (mut arranger, mut meter) = (Arranger::default(), Meter::new(progress));
    for request in placed.take(half as usize) {
        if meter.stops_after(1) {
            return Err(Error::Stopped);
        }
        arranger.see(&request);
    }
    if let Some(error) = failed.take() {
        return Err(error.into());
    }
    let model = &bed.disk.model;
    // On a device without heads, a jump costs nothing.
    let jump_s = if model.cylinders() > 0 { JUMP_S } else { 0.0 };
    let mib = Request {
        at: Nanos::ZERO,
        offset: 0,
        id: 0,
        len: 1 << 20,
        stream: 0,
        lane: 0,
        op: Op::Read,
        flags: Flags::NONE,
    };
    let bytes_per_s = f64::from(mib.len) / model.floor(&mib).as_secs_f64().max(1e-9);
    Ok(arranger.finish(model.capacity(), Prices { jump_s, bytes_per_s }))
}
