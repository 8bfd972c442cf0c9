use super::overlaps::conflict;
use super::*;
use crate::contract::{Flags, Null, Op};
use proptest::prelude::*;

/// Returns when each request was issued and when it ended, on a device where each request takes the
/// time in `took`.
fn run(recorded: &[(Request, Option<Nanos>)], took: &[u64], times: f64) -> Vec<(u64, u64)> {
    let intensity = Intensity::new(times).unwrap();
    let mut workload = Dependent::new(recorded.iter().copied(), intensity);
    let mut running: Vec<(Nanos, Request)> = Vec::new();
    let mut ran = vec![(u64::MAX, u64::MAX); took.len()];
    loop {
        running.sort_by_key(|&(at, request)| Reverse((at, request.id)));
        match (running.last().map(|&(at, _)| at), workload.peek()) {
            (None, None) => {
                assert!(workload.active.is_empty() && workload.edges.is_empty());
                assert!(workload.overlaps.is_empty());
                return ran;
            }
            (Some(done), arrival) if arrival.is_none_or(|arrival| done <= arrival) => {
                let (_, request) = running.pop().unwrap();
                let told = Done::at_once(request, Ok(()));
                workload.finished(done, &told, &mut Null);
            }
            _ => {
                let request = workload.take();
                let index = usize::from(request.lane);
                let end = request.at + Nanos(took[index]);
                ran[index] = (request.at.0, end.0);
                running.push((end, request));
            }
        }
    }
}

fn request(index: usize, at: u64, place: u64, len: u32, op: Op, stream: u32) -> Request {
    Request {
        at: Nanos(at),
        offset: place * 4096,
        id: index as u64,
        len,
        stream,
        // An unused field stores the index in the recording.
        lane: index as u16,
        op,
        flags: Flags::NONE,
    }
}

/// One row of a recording: gap, offset, length, operation, stream, recorded latency, and the
/// duration in this run.
type RecordingRow = (u64, u64, usize, usize, u32, Option<u64>, u64);

fn rows() -> impl Strategy<Value = Vec<RecordingRow>> {
    let latency = prop::option::weighted(0.8, 0u64..150);
    let row = (0u64..60, 0u64..12, 0usize..5, 0usize..5, 0u32..4, latency, 1u64..200);
    prop::collection::vec(row, 1..100)
}

/// Returns the recording of these rows, with times in ms. The last stream stands for unknown tasks,
/// whose requests never overlap.
fn recording(rows: &[RecordingRow]) -> (Vec<(Request, Option<Nanos>)>, Vec<u64>) {
    const MS: u64 = 1_000_000;
    let mut at = 0;
    let one = |(index, &(gap, place, len, op, stream, latency, takes)): (usize, &RecordingRow)| {
        at += gap * MS;
        let is_anonymous = stream == 3;
        let place = if is_anonymous { 10_000 + 8 * index as u64 } else { place };
        let len = [0, 4096, 8192, 512, 5 << 20][if is_anonymous { 1 } else { len }];
        let write_back = op == 4;
        let op = [Op::Read, Op::Read, Op::Write, Op::Trim, Op::Write][op];
        let mut request = request(index, at, place, len, op, stream);
        let marks = [(is_anonymous, Flags::ANONYMOUS), (write_back, Flags::WRITE_BACK)];
        for (_, mark) in marks.into_iter().filter(|(is, _)| *is) {
            request.flags = request.flags.with(mark);
        }
        ((request, latency.map(|ms| Nanos(ms * MS))), takes * MS)
    };
    rows.iter().enumerate().map(one).unzip()
}

/// Returns when the requests are issued and answered, computed directly from the definition in the
/// module's documentation.
fn expected(recorded: &[(Request, Option<Nanos>)], took: &[u64], times: u64) -> Vec<(u64, u64)> {
    let mut ran: Vec<(u64, u64)> = Vec::new();
    for (index, (request, _)) in recorded.iter().enumerate() {
        let is_back = |request: &Request| request.flags.has(Flags::WRITE_BACK);
        let is_anonymous = request.flags.has(Flags::ANONYMOUS);
        let earlier = || recorded[..index].iter().zip(&ran);
        let ours = |other: &Request| {
            !is_back(request) && !is_back(other) && other.stream == request.stream
        };
        let answers = earlier().filter_map(|((other, latency), ran)| {
            let came = other.at + (*latency)?;
            let near = !is_anonymous || came + NEAR >= request.at;
            (ours(other) && came <= request.at && near).then_some((came.0, ran.1))
        });
        // If several completions have the same time, the one of the later request counts.
        let latest = answers.enumerate().max_by_key(|(place, (came, _))| (*came, *place));
        let mut issue = match latest {
            Some((_, (came, now))) => now + (request.at.0 - came) / times,
            None => request.at.0 / times,
        };
        for ((other, _), ran) in earlier() {
            if conflict(other, request) && other.len > 0 && request.len > 0 {
                issue = issue.max(ran.1);
            }
            if ours(other) && !is_anonymous {
                issue = issue.max(ran.0);
            }
        }
        ran.push((issue, issue + took[index]));
    }
    ran
}

proptest! {
    #[test]
    fn requests_depend_on_answers_that_preceded_them(
        rows in rows(), times in 1u64..4,
    ) {
        let (recorded, took) = recording(&rows);
        let ran = run(&recorded, &took, times as f64);
        for (ran, expected) in ran.iter().zip(expected(&recorded, &took, times)) {
            // Divisions by three round, and the errors add up.
            let near = |a: u64, b: u64| a.abs_diff(b) <= 200;
            prop_assert!(near(ran.0, expected.0), "{ran:?} {expected:?}");
        }
        if times == 1 {
            prop_assert_eq!(ran, expected(&recorded, &took, 1));
        }
    }

    #[test]
    fn an_equally_fast_device_gets_requests_at_recorded_times(rows in rows()) {
        let all_known =
            rows.iter().map(|&(gap, place, len, _, stream, latency, _)| {
                let latency = latency.unwrap_or(7);
                (gap, place, len, 0, stream, Some(latency), latency)
            });
        let (recorded, took) = recording(&all_known.collect::<Vec<RecordingRow>>());
        let issued = run(&recorded, &took, 1.0).into_iter().map(|ran| ran.0);
        let recorded = recorded.iter().map(|(request, _)| request.at.0);
        prop_assert_eq!(issued.collect::<Vec<_>>(), recorded.collect::<Vec<_>>());
    }
}

const MS: u64 = 1_000_000;

/// Two reads of one stream, 100 ms each in the recording, with a think time of 50 ms, and a
/// page-cache write during the second.
fn reader() -> [(Request, Option<Nanos>); 3] {
    let latency = Some(Nanos(100 * MS));
    let mut write = request(2, 200 * MS, 2, 4096, Op::Write, 0);
    write.flags = write.flags.with(Flags::WRITE_BACK);
    [
        (request(0, 0, 0, 4096, Op::Read, 0), latency),
        (request(1, 150 * MS, 1, 4096, Op::Read, 0), latency),
        (write, latency),
    ]
}

fn issued_ms(recorded: &[(Request, Option<Nanos>)], took_ms: [u64; 3], times: f64) -> Vec<u64> {
    let took = took_ms.map(|ms| ms * MS);
    run(recorded, &took, times).iter().map(|ran| ran.0 / MS).collect()
}

#[test]
fn thought_keeps_its_length_on_faster_and_slower_devices() {
    assert_eq!(issued_ms(&reader(), [100, 100, 100], 1.0), [0, 150, 200]);
    assert_eq!(issued_ms(&reader(), [10, 10, 10], 1.0), [0, 60, 200]);
    assert_eq!(issued_ms(&reader(), [500, 10, 10], 1.0), [0, 550, 200]);
    assert_eq!(issued_ms(&reader(), [500, 10, 10], 2.0), [0, 525, 100]);
}

#[test]
fn an_unknown_task_follows_what_it_overlaps() {
    let anonymous = |(request, latency): (Request, Option<Nanos>)| {
        (Request { flags: request.flags.with(Flags::ANONYMOUS), ..request }, latency)
    };
    let [read, later, _] = reader().map(anonymous);
    let over = request(1, 150 * MS, 0, 4096, Op::Write, 0);
    let over = anonymous((over, later.1));
    let last = anonymous((request(2, 600 * MS, 9, 4096, Op::Read, 0), None));
    // In the recording, the first request was answered 50 ms before the second arrived. The second
    // follows it only if the two overlap, because 50 ms is too long for unrelated requests.
    assert_eq!(issued_ms(&[read, over, last], [400, 1, 1], 1.0), [0, 450, 600]);
    assert_eq!(issued_ms(&[read, later, last], [400, 1, 1], 1.0), [0, 150, 600]);
}

#[test]
fn lag_is_measured_from_the_recorded_time() {
    let recorded = reader();
    let mut workload = Dependent::new(recorded, Intensity::RECORDED);
    let first = workload.take();
    let done = Done { wait: Nanos(500 * MS), ..Done::at_once(first, Ok(())) };
    workload.finished(Nanos(2000 * MS), &done, &mut Null);
    assert_eq!(workload.lag().longest(), Nanos(1500 * MS));
    assert!(workload.take().flags.has(Flags::WRITE_BACK));
    let second = workload.take();
    assert_eq!(second.at, Nanos(2050 * MS));
    workload.finished(second.at, &Done::at_once(second, Ok(())), &mut Null);
    assert_eq!(workload.lag().longest(), Nanos(1900 * MS));
    assert_eq!((workload.lag().late_share(), workload.found_late()), (1.0, 0));
}

#[test]
fn a_write_waits_for_the_read_before_it_and_the_rest_continues() {
    let recorded = [
        request(0, 0, 0, 4096, Op::Read, 0),
        request(1, 10, 0, 4096, Op::Write, 1),
        request(2, 20, 5, 4096, Op::Read, 2),
        request(3, 30, 6, 4096, Op::Read, 1),
    ];
    let recorded = recorded.map(|request| (request, None));
    let issued = |times| run(&recorded, &[100, 1, 1, 1], times).iter().map(|ran| ran.0).collect();
    let (as_recorded, faster): (Vec<u64>, Vec<u64>) = (issued(1.0), issued(2.0));
    assert_eq!(as_recorded, [0, 100, 20, 100]);
    assert_eq!(faster, [0, 100, 10, 100]);
}
