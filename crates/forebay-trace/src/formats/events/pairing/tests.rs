use forebay_core::Flags;

use super::*;

const READ: Category = Category::READ;
const WRITE: Category = Category::WRITE;

fn span(category: Category, sector: u64, sectors: u32) -> Span {
    Span { sector, bytes: sectors * 512, device: 8 << 20 | 16, category }
}

fn run(events: Vec<(u64, EventKind)>) -> (Vec<Record>, Pairing) {
    let (mut pairing, mut records) = (Pairing::new("test", false), Vec::new());
    for (time_ns, what) in events {
        pairing.feed(Event { time_ns, sequence: 0, pid: 1, kind: what }, &mut records);
    }
    pairing.finish(&mut records);
    (records, pairing)
}

fn latencies(events: Vec<(u64, EventKind)>) -> Vec<Option<u64>> {
    run(events).0.iter().map(|record| record.latency.map(|latency| latency.0)).collect()
}

#[test]
fn a_latency_of_more_than_a_day_is_unknown() {
    let day = 86_400_000_000_000;
    for (took, latency) in [(day, Some(day)), (day + 1, None), (3472 * day, None)] {
        let events = vec![
            (5, EventKind::Queue(span(Category::READ, 0, 8))),
            (5 + took, EventKind::Complete(span(Category::READ, 0, 8))),
        ];
        let (records, pairing) = run(events);
        assert_eq!(records[0].latency.map(|latency| latency.0), latency);
        let told = pairing.notes.warnings.iter().any(|told| told.contains("exceeds a day"));
        assert_eq!(told, latency.is_none(), "{:?}", pairing.notes);
    }
}

#[test]
fn latency_runs_to_the_last_part() {
    let got = latencies(vec![
        (10, EventKind::Queue(span(WRITE, 0, 16384))),
        (11, EventKind::Queue(span(READ, 0, 8))),
        (20, EventKind::Complete(span(WRITE, 0, 10000))),
        (30, EventKind::Complete(span(READ, 0, 8))),
        (40, EventKind::Complete(span(WRITE, 10000, 6384))),
    ]);
    assert_eq!(got, [Some(30), Some(19)]);
}

#[test]
fn times_run_from_the_first_request() {
    let (records, pairing) = run(vec![
        (5, EventKind::Complete(span(READ, 0, 8))),
        (10, EventKind::Queue(span(READ, 8, 8))),
        (17, EventKind::Queue(span(READ, 16, 8))),
        (12, EventKind::Queue(span(READ, 24, 8))),
    ]);
    let at: Vec<_> = records.iter().map(|record| record.at.0).collect();
    assert_eq!(at, [0, 7, 7]);
    assert_eq!(pairing.notes.rows_late, 1);
    assert_eq!(pairing.dictionary.volumes, ["8,16"]);
    assert!(pairing.notes.warnings[0].starts_with("3 of 3 requests (100.0 %)"));
}

#[test]
fn a_barrier_ends_with_its_empty_completion() {
    let barrier = WRITE.with(Category::FLUSH).with(Category::FUA);
    let (records, _) = run(vec![
        (0, EventKind::Queue(span(barrier, 64, 8))),
        (0, EventKind::Queue(span(WRITE.with(Category::FLUSH), 0, 0))),
        (3, EventKind::Complete(span(READ.with(Category::FLUSH), 0, 0))),
        (5, EventKind::Complete(span(WRITE, 64, 8))),
        (7, EventKind::Complete(span(WRITE, 64, 0))),
        (9, EventKind::Complete(span(WRITE, 2048, 0))),
    ]);
    assert_eq!(records[0].latency, Some(Nanos(7)));
    assert_eq!((records[1].op, records[1].latency), (Op::Flush, Some(Nanos(9))));
    assert_eq!(records[0].flags, Flags::FUA.with(Flags::PREFLUSH));
}

#[test]
fn a_barrier_without_one_ends_with_its_data() {
    let barrier = WRITE.with(Category::FLUSH);
    let got = latencies(vec![
        (0, EventKind::Queue(span(barrier, 64, 8))),
        (5, EventKind::Complete(span(WRITE, 64, 8))),
    ]);
    assert_eq!(got, [Some(5)]);
}

#[test]
fn an_old_request_is_given_up() {
    let later = AGE_MAX_NS + 1;
    let got = latencies(vec![
        (0, EventKind::Queue(span(READ, 0, 8))),
        (later, EventKind::Queue(span(READ, 0, 8))),
        (later + 3, EventKind::Complete(span(READ, 0, 8))),
    ]);
    assert_eq!(got, [None, Some(3)]);
}

/// Converts events (time, `D` or `C`, sector, number of sectors) to records (offset in sectors,
/// latency).
fn issued(events: &[(u64, char, u64, u32)]) -> (Vec<(u64, Option<u64>)>, u64) {
    let events = events.iter().map(|&(time_ns, action, sector, sectors)| {
        let category = if sectors == 0 { WRITE.with(Category::FLUSH) } else { WRITE };
        let span = span(category, sector, sectors);
        let what = match action {
            'D' => EventKind::Issue(span),
            'R' => EventKind::Requeue(span),
            _ => EventKind::Complete(span),
        };
        (time_ns, what)
    });
    let (records, pairing) = run(events.collect());
    let seen = records.iter().map(|r| (r.offset / 512, r.latency.map(|l| l.0)));
    (seen.collect(), pairing.tally.issued_again)
}

#[test]
fn a_request_that_is_issued_again_counts_once() {
    let d = 'D';
    let c = 'C';
    // The request is issued a second time, a third time, and followed by another one for the same
    // sectors.
    assert_eq!(issued(&[(0, d, 8, 8), (9, d, 8, 8), (15, c, 8, 8)]), (vec![(8, Some(15))], 1));
    let twice = [(0, d, 8, 8), (5, d, 8, 8), (9, d, 8, 8), (15, c, 8, 8)];
    assert_eq!(issued(&twice), (vec![(8, Some(15))], 2));
    let next = [(0, d, 8, 8), (9, d, 8, 8), (15, c, 8, 8), (20, d, 8, 8), (23, c, 8, 8)];
    assert_eq!(issued(&next), (vec![(8, Some(15)), (8, Some(3))], 1));
    // The request is issued again, merged with its neighbor or in parts.
    let merged = [(0, d, 8, 8), (9, d, 8, 16), (15, c, 8, 16)];
    assert_eq!(issued(&merged), (vec![(8, Some(6))], 1));
    let parts = [(0, d, 8, 16), (5, d, 8, 8), (6, d, 16, 8), (15, c, 8, 8), (16, c, 16, 8)];
    assert_eq!(issued(&parts), (vec![(8, Some(10)), (16, Some(10))], 1));
    let flush = [(0, d, 0, 0), (2, d, 0, 0), (5, c, 0, 0), (500, d, 0, 0), (507, c, 0, 0)];
    assert_eq!(issued(&flush), (vec![(0, Some(5)), (0, Some(7))], 1));
}

#[test]
fn a_requeued_request_is_issued_again_however_late() {
    let (d, r, c) = ('D', 'R', 'C');
    let late = 5_000_000_000;
    let one = [(0, d, 8, 8), (9, r, 8, 8), (late, d, 8, 8), (late + 5, c, 8, 8)];
    assert_eq!(issued(&one), (vec![(8, Some(late + 5))], 1));
    let flush = [(0, d, 0, 0), (2, r, 0, 0), (400, d, 0, 0), (405, c, 0, 0)];
    assert_eq!(issued(&flush), (vec![(0, Some(405))], 1));
    // The request was merged with its neighbor before it was issued again.
    let merged = [(0, d, 8, 8), (9, r, 8, 8), (late, d, 8, 16), (late + 5, c, 8, 16)];
    assert_eq!(issued(&merged), (vec![(8, Some(5))], 1));
    // Between the two issues, another request for the same sectors was issued.
    let two = [(0, d, 8, 8), (1, d, 8, 8), (2, r, 8, 8), (3, d, 8, 8), (5, c, 8, 8), (6, c, 8, 8)];
    assert_eq!(issued(&two), (vec![(8, Some(5)), (8, Some(5))], 1));
}

#[test]
fn requests_for_the_same_sectors_that_all_complete_are_all_counted() {
    let (d, c) = ('D', 'C');
    let both = [(0, d, 8, 8), (9, d, 8, 8), (15, c, 8, 8), (19, c, 8, 8)];
    assert_eq!(issued(&both), (vec![(8, Some(15)), (8, Some(10))], 0));
    let parts = [(0, d, 8, 16), (5, d, 8, 8), (15, c, 8, 8), (16, c, 8, 16)];
    assert_eq!(issued(&parts), (vec![(8, Some(16)), (8, Some(10))], 0));
    let lost = [(0, d, 8, 8), (9, d, 16, 8), (15, c, 8, 8)];
    assert_eq!(issued(&lost), (vec![(8, Some(15)), (16, None)], 0));
    let flushes =
        [(0, d, 0, 0), (2, d, 0, 0), (5, c, 0, 0), (6, d, 0, 0), (7, c, 0, 0), (8, c, 0, 0)];
    assert_eq!(issued(&flushes), (vec![(0, Some(5)), (0, Some(5)), (0, Some(2))], 0));
}

#[test]
fn a_busy_place_without_completions_is_compared_with_its_newest_requests() {
    let events: Vec<_> = (0..30_000).map(|n| (n * 1000, 'D', 8, 8)).collect();
    // A thread that has to wait for a processor may spoil one attempt.
    let is_quick = (0..3).any(|_| {
        let began = std::time::Instant::now();
        assert_eq!(issued(&events).0.len(), events.len());
        began.elapsed().as_secs() < 30
    });
    assert!(is_quick);
}

#[test]
fn issues_are_arrivals_only_where_nothing_is_queued() {
    let events = vec![
        (1, EventKind::Issue(span(READ, 0, 8))),
        (2, EventKind::Issue(span(Category::PASSTHROUGH, 0, 0))),
        (4, EventKind::Complete(span(READ, 0, 8))),
    ];
    let (records, pairing) = run(events.clone());
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].latency, Some(Nanos(3)));
    assert_eq!(pairing.notes.rows_skipped, 1);
    assert!(pairing.notes.warnings[0].contains("issue events (D)"));
    let queue = (5, EventKind::Queue(span(READ, 0, 8)));
    assert_eq!(latencies(events.into_iter().chain([queue]).collect()), [None]);
}

#[test]
fn a_device_without_a_driver_completes_a_flush_as_it_arrived() {
    let flush = span(WRITE.with(Category::FLUSH), 0, 0);
    let events = vec![
        (10, EventKind::Queue(span(WRITE, 0, 8))),
        (20, EventKind::Complete(span(WRITE, 0, 8))),
        (30, EventKind::Queue(flush)),
        (45, EventKind::Complete(flush)),
    ];
    assert_eq!(latencies(events.clone()), [Some(10), Some(15)]);
    let issued = [(15, EventKind::Issue(span(WRITE, 0, 8)))];
    let with_driver = [&events[..1], &issued, &events[1..]].concat();
    assert_eq!(latencies(with_driver), [Some(10), None]);
}

#[test]
fn inserts_are_arrivals_if_there_are_no_others() {
    let (insert, complete) =
        (EventKind::Insert(span(WRITE, 0, 8)), EventKind::Complete(span(WRITE, 0, 8)));
    let (records, pairing) = run(vec![(10, insert.clone()), (17, complete.clone())]);
    assert_eq!(records[0].latency, Some(Nanos(7)));
    let told = &pairing.notes.warnings[0];
    assert!(told.contains("insert events (I) are used as arrivals"), "{told}");
    let issue = EventKind::Issue(span(WRITE, 0, 8));
    assert_eq!(latencies(vec![(10, insert), (12, issue), (17, complete.clone())]), [Some(5)]);
    let (records, pairing) = run(vec![(17, complete)]);
    assert!(records.is_empty());
    let told = &pairing.notes.warnings[0];
    assert!(told.contains("only completions: record block_rq_issue"), "{told}");
}

#[test]
fn the_rest_of_a_request_that_is_issued_again_counts_once() {
    let issue = |at, sector, sectors| (at, EventKind::Issue(span(WRITE, sector, sectors)));
    let end = |at, sector, sectors| (at, EventKind::Complete(span(WRITE, sector, sectors)));
    let requeue = |at, sector, sectors| (at, EventKind::Requeue(span(WRITE, sector, sectors)));
    for parts in [vec![4, 8], vec![1, 8], vec![2, 5, 8], vec![1, 2, 3, 8]] {
        for has_requeues in [false, true] {
            let mut events = vec![issue(0, 64, 8)];
            let mut from = 0;
            for (n, &to) in (1..).zip(&parts) {
                events.push(end(n * 100, 64 + from, (to - from) as u32));
                if to < 8 {
                    let rest = (64 + to, 8 - to as u32);
                    events.extend(has_requeues.then(|| requeue(n * 100 + 1, rest.0, rest.1)));
                    events.push(issue(n * 100 + 2, rest.0, rest.1));
                }
                from = to;
            }
            let took = parts.len() as u64 * 100;
            events.extend([issue(1000, 0, 8), end(1010, 0, 8)]);
            let (records, pairing) = run(events);
            let seen: Vec<_> = records.iter().map(|r| (r.len, r.latency)).collect();
            assert_eq!(seen, [(4096, Some(Nanos(took))), (4096, Some(Nanos(10)))], "{parts:?}");
            let told = pairing.notes.warnings.join("\n");
            assert!(
                told.contains(" issued again before it completed") || parts.len() > 2,
                "{told}"
            );
        }
    }
}

#[test]
fn a_later_request_for_the_same_sectors_is_not_the_rest() {
    let events = |late, sector| {
        vec![
            (0, EventKind::Issue(span(WRITE, 64, 8))),
            (100, EventKind::Complete(span(WRITE, 64, 4))),
            (late, EventKind::Issue(span(WRITE, sector, 4))),
            (late + 10, EventKind::Complete(span(WRITE, sector, 4))),
        ]
    };
    // The completion of the rest was lost.
    assert_eq!(run(events(2_000_000_000, 68)).0.len(), 2);
    // The second issue is for other sectors, or for sectors that have already completed.
    assert_eq!(latencies(events(200, 72)), [None, Some(10)]);
    assert_eq!(latencies(events(200, 64)), [None, Some(10)]);
    assert_eq!(latencies(events(200, 68)), [Some(210)]);
}

#[test]
fn a_request_that_fails_has_no_latency() {
    let failed =
        |sector, sectors| EventKind::Complete(span(READ.with(Category::FAILED), sector, sectors));
    let end = |sector, sectors| EventKind::Complete(span(READ, sector, sectors));
    for arrive in [EventKind::Queue, EventKind::Issue] {
        let events = vec![
            (0, arrive(span(READ, 0, 8))),
            (10, failed(0, 8)),
            // The first part of this request fails, but the second succeeds.
            (20, arrive(span(READ, 64, 8))),
            (30, failed(64, 4)),
            (40, end(68, 4)),
            (50, arrive(span(READ, 0, 8))),
            (60, end(0, 8)),
        ];
        let (records, pairing) = run(events);
        let seen: Vec<_> = records.iter().map(|r| r.latency).collect();
        assert_eq!(seen, [None, None, Some(Nanos(10))]);
        let told = "2 requests failed, so their latencies are treated as unknown";
        assert_eq!(pairing.notes.warnings.last().unwrap(), told);
    }
}

#[test]
fn a_trace_without_completions_says_so() {
    let (_, pairing) = run(vec![(0, EventKind::Queue(span(READ, 0, 8)))]);
    let told = "the trace has no completions, so latencies are unknown";
    assert_eq!(pairing.notes.warnings, [told]);
}
