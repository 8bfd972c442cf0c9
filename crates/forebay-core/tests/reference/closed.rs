//! A reference implementation of closed replay, which checks at every tick and for every request
//! whether it is due.

use forebay_core::replay::{Closed, Intensity};
use forebay_core::{Done, Flags, Nanos, Null, Op, Request, Workload};
use proptest::prelude::*;

/// A recorded request: its arrival, its recorded latency, and its latency in this run.
#[derive(Clone, Copy, Debug)]
struct Row {
    at: u64,
    stream: u32,
    recorded: u64,
    now: u64,
}

/// The recorded dependencies of a request.
struct Rule {
    /// The last request of the stream to complete before this one arrived, and the time of that
    /// completion.
    after: Option<(usize, u64)>,
    /// The number of requests of the stream outstanding at this one's arrival.
    outstanding: usize,
}

fn rule(rows: &[Row], index: usize) -> Rule {
    let Row { at, stream, .. } = rows[index];
    let before = || (0..index).filter(|&other| rows[other].stream == stream);
    let end = |other: usize| rows[other].at + rows[other].recorded;
    let ended = before().filter(|&other| end(other) <= at);
    Rule {
        after: ended.map(|other| (other, end(other))).max_by_key(|&(_, end)| end),
        outstanding: before().filter(|&other| end(other) > at).count(),
    }
}

/// Returns the time at which each request is issued, with its index, computed tick by tick.
fn issued_by_hand(rows: &[Row], times: f64) -> Vec<(u64, usize)> {
    let rules: Vec<Rule> = (0..rows.len()).map(|index| rule(rows, index)).collect();
    let (mut issued, mut ends) = (Vec::new(), vec![None; rows.len()]);
    let mut tick = 0;
    while issued.len() < rows.len() {
        let is_issued = |index: usize| issued.iter().any(|&(_, other)| other == index);
        let has_ended = |index: usize| ends[index].is_some_and(|end| end <= tick);
        let is_due = |&index: &usize| {
            let same = || (0..rows.len()).filter(|&other| rows[other].stream == rows[index].stream);
            let is_first = same().find(|&other| !is_issued(other)) == Some(index);
            let outstanding = same().filter(|&other| is_issued(other) && !has_ended(other)).count();
            let since = match rules[index].after {
                None => Some((0, 0)),
                Some((after, recorded)) => {
                    has_ended(after).then(|| (ends[after].unwrap(), recorded))
                }
            };
            let think_is_over = since.is_some_and(|(end, recorded)| {
                let think = ((rows[index].at - recorded) as f64 / times).round() as u64;
                end + think <= tick
            });
            is_first && think_is_over && outstanding <= rules[index].outstanding
        };
        match (0..rows.len()).find(is_due) {
            Some(index) => {
                issued.push((tick, index));
                ends[index] = Some(tick + rows[index].now);
            }
            None => tick += 1,
        }
    }
    issued
}

/// Returns the same computed by [`Closed`], on a device with an individual latency for each
/// request.
fn issued(rows: &[Row], times: f64) -> Vec<(u64, usize)> {
    let recorded = rows.iter().enumerate().map(|(index, row)| {
        let request = Request {
            at: Nanos(row.at),
            offset: index as u64,
            id: index as u64,
            len: 1,
            stream: row.stream,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        (request, Nanos(row.recorded))
    });
    let mut closed = Closed::new(recorded, Intensity::new(times).unwrap());
    let (mut issued, mut running) = (Vec::new(), Vec::<(Nanos, Request)>::new());
    loop {
        running.sort_by_key(|&(end, request)| (end, request.offset));
        let end = running.first().map(|&(end, _)| end);
        match (end, closed.peek()) {
            (None, None) => return issued,
            (Some(end), next) if next.is_none_or(|at| end <= at) => {
                let (_, request) = running.remove(0);
                let done = Done::at_once(request, Ok(()));
                closed.finished(end, &done, &mut Null);
            }
            _ => {
                let request = closed.take();
                let index = request.offset as usize;
                issued.push((request.at.0, index));
                running.push((request.at + Nanos(rows[index].now), request));
            }
        }
    }
}

/// Generates rows in which no two requests of a stream complete at the same time, because the rule
/// does not define which of them is the last.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (0u64..12, 0u32..3, 0u64..40, 0u64..60);
    prop::collection::vec(row, 1..40).prop_map(|drawn| {
        let (mut at, mut rows) = (0, Vec::<Row>::new());
        for (gap, stream, mut recorded, now) in drawn {
            at += gap;
            let is_taken =
                |end| rows.iter().any(|row| row.stream == stream && row.at + row.recorded == end);
            while is_taken(at + recorded) {
                recorded += 1;
            }
            rows.push(Row { at, stream, recorded, now });
        }
        rows
    })
}

proptest! {
    #[test]
    fn closed_replay_follows_its_rule(
        rows in rows(),
        times in prop::sample::select(vec![1.0, 2.0, 0.5]),
    ) {
        prop_assert_eq!(issued(&rows, times), issued_by_hand(&rows, times));
    }
}
