//! Tests writes that take effect although the disk reports an error: later writes must override
//! them.

use std::collections::BTreeSet;

use forebay_core::{Fault, Lane, Nanos, Op, Piece, Request, RequestId};
use forebay_live::{Ended, Failure};
use forebay_rig::{Crash, Medium, Tear, Troubles};
use forebay_store::{Answer, Config, Key, Layout, Operation, OperationError, Transformation};

use crate::crash::meddled::{Meddle, Meddled};
use crate::crash::missing::{Asking, told};
use crate::crash::{Draw, config, layouts, media};

/// Reports an error for one write of a block that satisfies `is_one`, after `left` such writes
/// succeeded. The write takes effect nevertheless.
struct Denying {
    is_one: fn(&[u8]) -> bool,
    left: u32,
    denied: Option<u64>,
    /// If the write was to a root: its disk and the number of its chain.
    chain: Option<(Lane, u64)>,
    /// The number of root writes to that disk afterwards.
    later: u32,
}

impl Meddle for Denying {
    fn start(&mut self, lanes: &Crash, io: &mut Request, pieces: &[Piece]) {
        if io.op != Op::Write {
            return;
        }
        let block = lanes.pool().view(pieces[0]);
        let chain = u64::from_le_bytes(block[24..32].try_into().unwrap());
        if let Some((lane, denied)) = self.chain
            && lane == io.lane
            && is_root(block)
        {
            assert!(chain > denied, "chain {chain} is written after {denied}, which counts");
            self.later += 1;
        }
        if !(self.is_one)(block) || self.denied.is_some() {
            return;
        }
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => {
                self.denied = Some(io.id);
                self.chain = is_root(block).then_some((io.lane, chain));
            }
        }
    }
    fn end(&mut self, ended: &mut Ended) {
        if self.denied == Some(ended.completion.io.id) {
            ended.completion.outcome = Err(Fault::Media);
            ended.failure = Some(Failure::Emulated(Fault::Media));
        }
    }
}

fn is_batch(block: &[u8]) -> bool {
    &block[8..12] == b"FBB5"
}

fn is_root(block: &[u8]) -> bool {
    &block[8..12] == b"ROOT"
}

/// Returns whether a block is the first frame of a root, which begins a chain.
fn is_chain(block: &[u8]) -> bool {
    is_root(block) && block[32..40] == [0; 8]
}

/// Returns a configuration in which each put fills a log, and any two runs are merged.
fn config_of(seed: u64, retry: Nanos) -> (Vec<Layout>, Config) {
    let mut draw = Draw(seed);
    let layouts = layouts(&mut draw);
    let config = Config {
        log_bytes: 4096,
        tunes: false,
        gap_bytes: 0,
        transformation: Transformation::Enhanced,
        read_log: false,
        runs_max: 1000,
        fan_in: 2,
        segment_bytes: 10_000,
        retry,
        ..config(&mut draw)
    };
    (layouts, config)
}

/// Runs a life with a denied write, and a power cut at its end; returns the contents of the disks,
/// and what was denied.
fn live(
    store: &(Vec<Layout>, Config),
    (is_one, left): (fn(&[u8]) -> bool, u32),
    (operations, pause): (&[Operation], Nanos),
) -> (Vec<Medium>, Denying) {
    let lanes = Crash::new(media(1, &store.0), 4096, 4, 1, Troubles::default());
    let by = Denying { is_one, left, denied: None, chain: None, later: 0 };
    let mut lanes = Meddled { lanes, by };
    let work = Asking::new(operations, pause);
    let told = work.of((&store.0, store.1.clone()), None, &mut lanes);
    assert!(told.answers.iter().all(Result::is_ok), "{:?}", told.answers);
    drop(told.view);
    (lanes.lanes.cut(Tear::Sector), lanes.by)
}

fn key(at: usize) -> Key {
    format!("{at:03}").into_bytes().into()
}

fn put(number: usize) -> Operation {
    Operation::Write(vec![(key(number % 20), Some(vec![number as u8; 4000].into()))])
}

#[test]
fn nothing_is_written_after_a_chain_that_may_have_begun() {
    let store = config_of(16, Nanos::from_micros(100));
    let mut later = 0;
    for left in 4..24 {
        let all: Vec<_> = [Operation::Open].into_iter().chain((0..90).map(put)).collect();
        let (media, by) = live(&store, (is_chain, left), (&all, Nanos::ZERO));
        later += by.later;
        let gets = (0..20).map(|at| Operation::Get(key(at)));
        let looks: Vec<_> = [Operation::Open].into_iter().chain(gets).collect();
        let (_, answers, _) = told((&store.0, store.1.clone()), media, None, &looks);
        for (at, answer) in answers[1..].iter().enumerate() {
            let last = (0..90).rev().find(|number| number % 20 == at).unwrap() as u8;
            let is_right = matches!(answer, Ok(Answer::Value(Some(value))) if value[0] == last);
            assert!(is_right, "{left}: {at}, {:?}", answer.as_ref().err());
        }
    }
    assert!(later > 20, "{later} roots came later");
}

#[test]
fn a_deletion_survives_a_put_that_failed_but_was_written() {
    // The failed disk is left alone for long, so that its slot is not reused.
    let store = config_of(17, Nanos::from_secs(1000));
    for more in 1..20 {
        let all: Vec<_> = [Operation::Open, put(0), Operation::Write(vec![(key(0), None)])]
            .into_iter()
            .chain((1..more).map(put))
            .chain([Operation::Close])
            .collect();
        let (media, by) = live(&store, (is_batch, 0), (&all, Nanos::from_millis(1)));
        assert!(by.denied.is_some());
        let looks = [Operation::Open, Operation::Get(key(0))];
        let (_, answers, _) = told((&store.0, store.1.clone()), media, None, &looks);
        assert!(matches!(answers[1], Ok(Answer::Value(None))), "{more} puts: it is back");
    }
}

/// Makes the first `left` writes to segments fail for lack of space, as on a full file system.
struct Filled {
    segments_at: u64,
    left: u32,
    denied: BTreeSet<RequestId>,
}

impl Meddle for Filled {
    fn start(&mut self, _lanes: &Crash, io: &mut Request, _pieces: &[Piece]) {
        if io.op == Op::Write && io.offset >= self.segments_at && self.left > 0 {
            self.left -= 1;
            self.denied.insert(io.id);
        }
    }

    fn end(&mut self, ended: &mut Ended) {
        if self.denied.remove(&ended.completion.io.id) {
            ended.completion.outcome = Err(Fault::Full);
            ended.failure = Some(Failure::Emulated(Fault::Full));
        }
    }
}

#[test]
fn a_full_file_system_is_reported_and_the_store_resumes_once_there_is_space() {
    let (layouts, config) = config_of(18, Nanos::from_millis(1));
    let puts = 400;
    let all: Vec<_> = [Operation::Open].into_iter().chain((0..puts).map(put)).collect();
    let lanes = Crash::new(media(1, &layouts), 4096, 4, 1, Troubles::default());
    let by = Filled { segments_at: layouts[0].segments_at(), left: 60, denied: BTreeSet::new() };
    let mut lanes = Meddled { lanes, by };
    let pause = Nanos::from_micros(500);
    let told = Asking::new(&all, pause).of((&layouts, config.clone()), None, &mut lanes);
    assert!(told.outcome.is_ok() && lanes.by.left == 0, "{:?}", told.outcome);
    let refused = |answer: &&Result<Answer, OperationError>| answer.is_err();
    let troubles: Vec<_> = told.answers.iter().filter(refused).collect();
    let is_told = |answer: &&&Result<Answer, OperationError>| {
        matches!(answer, Err(OperationError::NoSpace { .. }))
    };
    assert!(!troubles.is_empty() && troubles.len() < puts - 20, "{} refused", troubles.len());
    assert_eq!(troubles.iter().filter(is_told).count(), troubles.len(), "{troubles:?}");
    assert!(told.answers[puts - 10..].iter().all(Result::is_ok), "it goes on");
    // The operator is notified of the failure and of its end.
    let health = told.view.health();
    assert!(health.iter().all(|health| health.name() == "ok" && health.read_errors == 0));
    assert_eq!(health.iter().map(|health| health.no_space_errors).sum::<u64>(), 60);
    let notices = told.view.notices();
    let says = |what: &str| notices.iter().filter(|(_, notice)| notice.contains(what)).count();
    assert!(says("no space left") > 0 && says("takes writes again") > 0, "{notices:?}");
    assert!(notices.len() < 20, "{notices:?}");
    // Acknowledged puts can be read after a power cut.
    let gets = (0..20).map(|at| Operation::Get(key(at)));
    let looks: Vec<_> = [Operation::Open].into_iter().chain(gets).collect();
    let answers = told.answers;
    drop(told.view);
    let media = lanes.lanes.cut(Tear::Sector);
    let (_, found, _) = crate::crash::missing::told((&layouts, config), media, None, &looks);
    for (at, value) in found[1..].iter().enumerate() {
        let is_done = |number: &usize| number % 20 == at && answers[number + 1].is_ok();
        let last = (0..puts).rfind(is_done).unwrap() as u8;
        assert!(matches!(value, Ok(Answer::Value(Some(value))) if value[0] == last), "{at}");
    }
}
