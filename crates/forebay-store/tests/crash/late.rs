//! Tests late events: a log that is transformed late, a disk that comes back, and a root write that
//! took effect although it failed.

use forebay_core::{Fault, Lane, Nanos, Op, Piece, Request};
use forebay_live::{Ended, Failure};
use forebay_rig::{Crash, Tear, Troubles};
use forebay_store::{Answer, Config, Key, Layout, Operation, Transformation};

use crate::crash::meddled::{Meddle, Meddled};
use crate::crash::missing::{Asking, key, told};
use crate::crash::{DISKS, Draw, config, cramped, layouts, media};

fn put(number: usize, byte: u8) -> Operation {
    Operation::Write(vec![(key(number), Some(vec![byte; 4000].into()))])
}

/// Returns a configuration in which each put fills a log.
fn small(draw: &mut Draw) -> Config {
    Config {
        log_bytes: 8000,
        tunes: false,
        gap_bytes: 0,
        transformation: Transformation::Enhanced,
        read_log: false,
        runs_max: 1000,
        fan_in: 2,
        ..config(draw)
    }
}

/// Makes all writes to one disk fail between two passes of the driver.
struct Failing {
    lane: Lane,
    from: u64,
    upto: u64,
    passes: u64,
}

impl Meddle for Failing {
    fn pass(&mut self, lanes: &mut Crash) {
        self.passes += 1;
        if self.passes == self.from {
            let lane = Some(self.lane);
            lanes.trouble(Troubles { lane, writes_one_in: 1, ..Troubles::default() });
        }
        if self.passes == self.upto {
            lanes.soothe();
        }
    }
}

#[test]
fn a_deletion_is_kept_while_an_older_log_is_untransformed() {
    let mut draw = Draw(11);
    let layouts = layouts(&mut draw);
    // A disk that failed is left alone for a while.
    let config = small(&mut draw);
    let gone = Operation::Write(vec![(key(0), None)]);
    let first = [Operation::Open, put(0, 1), put(1, 1), gone];
    let operations: Vec<_> = first
        .into_iter()
        .chain((2..30).map(|at| put(at, 2)))
        .chain([Operation::Get(key(0))])
        .collect();
    let mut reached = 0;
    for lane in 0..DISKS {
        for from in (1..300).step_by(3) {
            let lanes = Crash::new(media(1, &layouts), 4096, 4, 1, Troubles::default());
            let by = Failing { lane, from, upto: from + 12, passes: 0 };
            let work = Asking::new(&operations, Nanos::from_millis(1));
            let told = work.of((&layouts, config.clone()), None, &mut Meddled { lanes, by });
            let figures = told.view.figures();
            reached += u64::from(figures.transforming > config.retry && figures.merges > 0);
            let value = told.answers.last().unwrap();
            assert!(matches!(value, Ok(Answer::Value(None))), "lane {lane} from {from}");
        }
    }
    println!("{reached} times a log stayed behind");
    assert!(reached > 20, "{reached}");
}

#[test]
fn puts_waiting_for_a_silent_disk_are_redirected() {
    let mut draw = Draw(12);
    let layouts = layouts(&mut draw);
    let operations = [Operation::Open, put(0, 1), put(1, 1), put(2, 1), Operation::Get(key(0))];
    // There are two disks, and the only other disk is on duty.
    let layouts = &layouts[..2];
    let work = Asking::new(&operations, Nanos::from_secs(3));
    let mut lanes = Crash::new(media(1, layouts), 4096, 4, 1, Troubles::default());
    let told = work.of((layouts, small(&mut draw)), None, &mut lanes);
    assert!(told.answers.iter().all(Result::is_ok));
    assert_eq!(told.view.figures().transformations, 2);
}

#[test]
fn puts_made_without_a_disk_are_newer_than_its_contents() {
    let mut draw = Draw(13);
    let layouts: Vec<Layout> =
        layouts(&mut draw).into_iter().map(|layout| Layout { log_slots: 6, ..layout }).collect();
    let config = small(&mut draw);
    let pairs = (1..8).flat_map(|puts| (0..usize::from(DISKS)).map(move |disk| (puts, disk)));
    for (puts, missing) in pairs {
        // At first, no log becomes a segment.
        let (cramped, slow) = cramped(&layouts, (missing + 1) % layouts.len(), &config);
        let puts = (0..puts).map(|_| put(0, 1));
        let first: Vec<_> =
            [Operation::Open].into_iter().chain(puts).chain([Operation::Close]).collect();
        let (mut media, ..) = told((&cramped, slow.clone()), media(1, &layouts), None, &first);
        let away = media.remove(missing);
        let second = [Operation::Open, put(0, 2), Operation::Close];
        let store = (&cramped[..], slow.clone());
        let (mut media, answers, _) = told(store, media, Some(missing), &second);
        assert!(answers[1].is_ok(), "{answers:?}");
        media.insert(missing, away);
        let scan = Operation::Scan { from: key(0), count: 1, bytes: 1 << 20 };
        let looks = [Operation::Open, Operation::Get(key(0)), scan, Operation::Close];
        let (media, early, _) = told((&layouts, config.clone()), media, None, &looks);
        // By now, all logs are segments.
        let (_, late, _) = told((&layouts, config.clone()), media, None, &looks);
        for answers in [early, late] {
            let newest = |value: &[u8]| value[0] == 2;
            let is_got = matches!(&answers[1], Ok(Answer::Value(Some(value))) if newest(value));
            let is_scanned =
                matches!(&answers[2], Ok(Answer::Page(page)) if newest(&page.records[0].1));
            assert!(is_got && is_scanned, "without {missing}: {is_got} {is_scanned}");
        }
    }
}

/// Reports an error for the root write that first lists a segment, although the write takes effect.
/// The power is cut once the segment's space is written again.
struct Unanswered {
    /// The number of such root writes that are left alone first.
    left: u32,
    root: Option<u64>,
    segment: Option<(Lane, u64)>,
    is_over: bool,
}

impl Meddle for Unanswered {
    fn pass(&mut self, lanes: &mut Crash) {
        if self.is_over {
            lanes.trouble(Troubles { cut_after: Some(1), ..Troubles::default() });
        }
    }

    fn start(&mut self, lanes: &Crash, io: &mut Request, pieces: &[Piece]) {
        if io.op != Op::Write {
            return;
        }
        self.is_over |= self.segment == Some((io.lane, io.offset));
        let bytes = lanes.pool().view(pieces[0]);
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        // The first change in the root adds a segment on the root's own disk.
        let is_own = bytes[48..52] == 1_u32.to_le_bytes()
            && bytes[52..56] == u32::from(io.lane).to_le_bytes();
        let is_first = long(32) == 0;
        if &bytes[8..12] != b"ROOT" || is_first || !is_own || self.root.is_some() {
            return;
        }
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            // The offset of the segment follows its id and two ages.
            None => (self.root, self.segment) = (Some(io.id), Some((io.lane, long(96)))),
        }
    }

    fn end(&mut self, ended: &mut Ended) {
        if self.root == Some(ended.completion.io.id) {
            ended.completion.outcome = Err(Fault::Media);
            ended.failure = Some(Failure::Emulated(Fault::Media));
        }
    }
}

#[test]
fn a_segment_that_a_failed_root_may_name_is_not_written_over() {
    let mut draw = Draw(14);
    let layouts = layouts(&mut draw);
    let config = Config { retry: Nanos::from_millis(5), ..small(&mut draw) };
    let mut reached = 0;
    for left in 0..10 {
        let operations: Vec<_> =
            [Operation::Open].into_iter().chain((0..60).map(|at| put(at, at as u8))).collect();
        let lanes = Crash::new(media(1, &layouts), 4096, 4, u64::from(left), Troubles::default());
        let by = Unanswered { left, root: None, segment: None, is_over: false };
        let mut lanes = Meddled { lanes, by };
        let work = Asking::new(&operations, Nanos::from_millis(1));
        let told = work.of((&layouts, config.clone()), None, &mut lanes);
        let acknowledged: Vec<Key> = (1..told.answers.len()).map(|at| key(at - 1)).collect();
        reached += u64::from(lanes.by.segment.is_some());
        drop(told.view);
        let media = lanes.lanes.cut(Tear::Sector);
        let looks: Vec<_> = [Operation::Open]
            .into_iter()
            .chain(acknowledged.into_iter().map(Operation::Get))
            .collect();
        let mut lanes = Crash::new(media, 4096, 4, 1, Troubles::default());
        let told =
            Asking::new(&looks, Nanos::ZERO).of((&layouts, config.clone()), None, &mut lanes);
        for (at, value) in told.answers[1..].iter().enumerate() {
            let is_right = matches!(value, Ok(Answer::Value(Some(value))) if value[0] == at as u8);
            assert!(is_right, "{left}: {at}, {:?}", value.as_ref().err());
        }
    }
    assert_eq!(reached, 10);
}

/// Reports an error for the first block that refers to a long put, although the write takes effect.
#[derive(Default)]
struct Denied(Option<u64>);

impl Meddle for Denied {
    fn start(&mut self, lanes: &Crash, io: &mut Request, pieces: &[Piece]) {
        let is_block = io.op == Op::Write && &lanes.pool().view(pieces[0])[8..12] == b"STR5";
        if is_block && self.0.is_none() {
            self.0 = Some(io.id);
        }
    }

    fn end(&mut self, ended: &mut Ended) {
        if self.0 == Some(ended.completion.io.id) {
            ended.completion.outcome = Err(Fault::Media);
            ended.failure = Some(Failure::Emulated(Fault::Media));
        }
    }
}

#[test]
fn a_long_put_retried_elsewhere_is_not_reported_as_lost() {
    let mut draw = Draw(15);
    let layouts = layouts(&mut draw);
    let config = Config { retry: Nanos::from_millis(1), ..small(&mut draw) };
    for before in 0..3 {
        for puts in (0..40).step_by(3) {
            let long = Operation::Write(vec![(key(99), Some(vec![9; 70_000].into()))]);
            let all = (0..before).map(|at| put(at, 1)).chain([long]);
            let all = all.chain((0..puts).map(|at| put(at, 2)));
            let operations: Vec<_> = [Operation::Open].into_iter().chain(all).collect();
            let lanes = Crash::new(media(1, &layouts), 4096, 4, 1, Troubles::default());
            let mut lanes = Meddled { lanes, by: Denied::default() };
            let work = Asking::new(&operations, Nanos::ZERO);
            let told = work.of((&layouts, config.clone()), None, &mut lanes);
            assert!(told.answers.iter().all(Result::is_ok) && lanes.by.0.is_some());
            let looks = [Operation::Open, Operation::Check, Operation::Get(key(99))];
            let (_, answers, _) = crate::crash::missing::told(
                (&layouts, config.clone()),
                lanes.lanes.kill(),
                None,
                &looks,
            );
            let Ok(Answer::Checked(checked)) = &answers[1] else { panic!("{answers:?}") };
            assert!(checked.losses.is_empty(), "{before}, {puts}: {:?}", checked.losses);
            assert!(matches!(&answers[2], Ok(Answer::Value(Some(value))) if value.len() == 70_000));
        }
    }
}
