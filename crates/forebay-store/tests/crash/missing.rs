//! Tests a disk that is missing for a while, or that is damaged. Meanwhile, operations that depend
//! on the lost data fail, no read returns an old value, and puts succeed. Once the disk is back,
//! everything can be read; once the store is repaired, everything except the reported losses.

use forebay_core::{Done, Flags, Nanos, Op, Request, Slots, Workload};
use forebay_live::{Lanes, run};
use forebay_rig::{Crash, Medium, Tear, Troubles};
use forebay_store::{
    Answer, Checked, Config, Desk, Layout, Operation, OperationError, StorePolicy, View,
};

use crate::crash::clients::{Clients, Known};
use crate::crash::lying::{Lie, Lying};
use crate::crash::{DISKS, Draw, STUCK, config, layouts, longer, media};

/// The state of a store between its lives.
struct Lives {
    seed: u64,
    draw: Draw,
    layouts: Vec<Layout>,
    config: Config,
    known: Known,
    lie: Option<Lie>,
}

/// The state of the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Whole,
    Missing(usize),
    Damaged,
}

/// The outcome of a life of the store.
struct Life {
    media: Vec<Medium>,
    read: u64,
    missed: u64,
}

impl Lives {
    /// Runs the store up to a power cut or, if `is_cut` is false, to its end.
    fn live(&mut self, media: Vec<Medium>, how: How, is_cut: bool) -> Life {
        let missing = if let How::Missing(disk) = how { Some(disk) } else { None };
        let cut_after = Some(if is_cut { 200 + self.draw.below(4000) } else { STUCK });
        let troubles = Troubles { cut_after, ..Troubles::default() };
        let depth = 1 + self.draw.below(6) as usize;
        let lanes = Crash::new(media, 4096, depth, self.draw.below(u64::MAX), troubles);
        let lie = self.lie.filter(|_| how == How::Whole);
        let mut lanes = Lying::over(lanes, lie, self.layouts[0]);
        let desk = Desk::default();
        let (layouts, config) = (&self.layouts, self.config.clone());
        let mut policy = StorePolicy::with_missing(missing, layouts, config, 65536, desk.clone());
        let operations = if is_cut { 3000 } else { 60 };
        let load = (self.draw.below(u64::MAX), 1 + self.draw.below(5), operations, 9000);
        let mut work = Clients::new(&desk, &mut self.known, load);
        work.is_missing = how != How::Whole;
        let outcome = run(&mut policy, &mut lanes, &mut work, &mut ());
        let (seed, read, missed) = (self.seed, work.checked, work.missed);
        assert_eq!(work.wrong, None, "seed {seed}, {how:?}");
        if let Err(error) = outcome {
            let (stages, figures) = (policy.view().stages(), policy.view().figures());
            let is_power = is_cut && error.to_string().contains("power");
            assert!(is_power, "seed {seed}, {how:?}: {error}; {stages:?}, {figures:?}");
        }
        let tear = [Tear::Sector, Tear::Page][self.draw.below(2) as usize];
        Life { media: lanes.lanes.cut(tear), read, missed }
    }
}

/// Tests the loss of a disk in a power cut: reads of keys that the disk may affect fail.
pub(crate) fn is_known_elsewhere(seed: u64, lie: Option<Lie>) {
    let mut draw = Draw(seed ^ 0xD15C);
    let (layouts, config) = (layouts(&mut draw), config(&mut draw));
    let media = media(seed, &layouts);
    let mut lives = Lives { seed, draw, layouts, config, known: Known::default(), lie };
    let mut media = lives.live(media, How::Whole, true).media;
    let missing = lives.draw.below(DISKS.into()) as usize;
    media.remove(missing);
    lives.live(media, How::Missing(missing), false);
}

#[test]
fn a_missing_disk_does_not_make_older_values_reappear() {
    let (mut read, mut missed, mut whole) = (0, 0, 0);
    for seed in 0..longer(40) {
        let mut draw = Draw(seed ^ 0xD15C);
        let (layouts, config) = (layouts(&mut draw), config(&mut draw));
        let media = media(seed, &layouts);
        let mut lives = Lives { seed, draw, layouts, config, known: Known::default(), lie: None };
        let mut media = lives.live(media, How::Whole, true).media;
        for _ in 0..2 {
            let missing = lives.draw.below(DISKS.into()) as usize;
            let away = media.remove(missing);
            for is_cut in [true, lives.draw.below(2) == 0] {
                let life = lives.live(media, How::Missing(missing), is_cut);
                (read, missed) = (read + life.read, missed + life.missed);
                whole += u64::from(life.missed == 0);
                media = life.media;
            }
            media.insert(missing, away);
            // The disk is back, so everything can be read.
            media = lives.live(media, How::Whole, true).media;
        }
        lives.live(media, How::Whole, false);
    }
    println!("{read} reads, {missed} more missed, {whole} lives without any");
    assert!(missed > 1000 && read > 2 * missed && whole > 1, "{read}, {missed}, {whole}");
}

/// Issues one operation after another, each `pause` after the last answer.
pub(crate) struct Asking {
    desk: Desk,
    left: Vec<Operation>,
    answers: Vec<Result<Answer, OperationError>>,
    next: u64,
    is_waiting: bool,
    pause: Nanos,
    due: Nanos,
}

/// The outcome of the run, the answers, and a view of the store's final state.
pub(crate) struct Told {
    pub(crate) outcome: std::io::Result<Nanos>,
    pub(crate) answers: Vec<Result<Answer, OperationError>>,
    pub(crate) view: View,
}

impl Asking {
    pub(crate) fn new(operations: &[Operation], pause: Nanos) -> Asking {
        let (desk, left, answers) = (Desk::default(), operations.to_vec(), Vec::new());
        Asking { desk, left, answers, next: 0, is_waiting: false, pause, due: Nanos::ZERO }
    }

    /// Runs the operations on a store on these lanes.
    pub(crate) fn of<L: Lanes>(
        mut self,
        (layouts, config): (&[Layout], Config),
        missing: Option<usize>,
        lanes: &mut L,
    ) -> Told {
        let desk = self.desk.clone();
        let mut policy = StorePolicy::with_missing(missing, layouts, config, 65536, desk);
        let outcome = run(&mut policy, lanes, &mut self, &mut ());
        Told { outcome, answers: self.answers, view: policy.view() }
    }
}

impl Workload for Asking {
    fn peek(&self) -> Option<Nanos> {
        (!self.is_waiting && !self.left.is_empty()).then_some(self.due)
    }

    fn take(&mut self) -> Request {
        self.desk.submit(self.next, self.left.remove(0));
        let (id, op) = (self.next, if self.next == 0 { Op::Open } else { Op::Read });
        (self.next, self.is_waiting) = (self.next + 1, true);
        let (at, flags) = (self.due, Flags::NONE);
        Request { at, offset: 0, id, len: 0, stream: 0, lane: 0, op, flags }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        (self.is_waiting, self.due) = (false, now + self.pause);
        self.answers.push(self.desk.take(done.request.id).unwrap());
    }

    fn is_over(&self) -> bool {
        self.left.is_empty() && !self.is_waiting
    }
}

/// Returns the answers to a sequence of operations, none of which may fail.
pub(crate) fn asked(
    store: (&[Layout], Config),
    media: Vec<Medium>,
    missing: Option<usize>,
    operations: &[Operation],
) -> (Vec<Medium>, Vec<Answer>) {
    let (media, answers, _) = told(store, media, missing, operations);
    (media, answers.into_iter().map(Result::unwrap).collect())
}

/// Runs a sequence of operations; returns the contents of the disks, the answers, and the final
/// number of runs.
pub(crate) fn told(
    (layouts, config): (&[Layout], Config),
    media: Vec<Medium>,
    missing: Option<usize>,
    operations: &[Operation],
) -> (Vec<Medium>, Vec<Result<Answer, OperationError>>, usize) {
    let mut lanes = Crash::new(media, 4096, 4, 1, Troubles::default());
    let work = Asking::new(operations, Nanos::ZERO);
    let Told { outcome, answers, view } = work.of((layouts, config), missing, &mut lanes);
    assert!(outcome.is_ok(), "{outcome:?} after {} answers: {:?}", answers.len(), view.stages());
    (lanes.cut(Tear::Sector), answers, view.segment_totals().1)
}

/// Checks, repairs and checks again; returns the contents of the disks and the three results.
fn repaired(
    lives: &Lives,
    media: Vec<Medium>,
    missing: Option<usize>,
) -> (Vec<Medium>, [Checked; 3]) {
    let operations =
        [Operation::Open, Operation::Check, Operation::Repair, Operation::Check, Operation::Close];
    let store = (&lives.layouts[..], lives.config.clone());
    let (media, answers) = asked(store, media, missing, &operations);
    let told = |at: usize| match &answers[at] {
        Answer::Checked(checked) => checked.clone(),
        other => panic!("{other:?}"),
    };
    (media, [told(1), told(2), told(3)])
}

#[test]
fn rot_is_found_and_repaired_without_other_losses() {
    let (mut found, mut missed, mut saved, mut lost) = (0, 0, 0, 0);
    for seed in 0..longer(40) {
        let mut draw = Draw(seed ^ 0xB0CC);
        let (layouts, config) = (layouts(&mut draw), config(&mut draw));
        let media = media(seed, &layouts);
        let mut lives = Lives { seed, draw, layouts, config, known: Known::default(), lie: None };
        let mut media = lives.live(media, How::Whole, true).media;
        media = lives.live(media, How::Whole, true).media;
        // From here on, all logs are in segments.
        media = lives.live(media, How::Whole, false).media;
        let layout = lives.layouts[0];
        let disk = lives.draw.below(DISKS.into()) as usize;
        if lives.draw.below(3) == 0 {
            // Everything that matters in a root is also known from another disk.
            for _ in 0..4 {
                let frame = lives.draw.below(2 * layout.root_bytes / 4096);
                media[disk].write(layout.root_at(0) + frame * 4096, &[0xA5; 512], true);
            }
            media = lives.live(media, How::Whole, true).media;
            // The rewritten root is complete again, so another disk may be missing.
            let missing = lives.draw.below(DISKS.into()) as usize;
            let away = media.remove(missing);
            media = lives.live(media, How::Missing(missing), true).media;
            media.insert(missing, away);
            lives.live(media, How::Whole, false);
            continue;
        }
        for _ in 0..1 + lives.draw.below(20) {
            let at = layout.segments_at() + lives.draw.below(800) * 512;
            media[disk].write(at, &[0xA5; 512], true);
        }
        let is_cut = lives.draw.below(2) == 0;
        let life = lives.live(media, How::Damaged, is_cut);
        missed += life.missed;
        let (media, [checked, repaired, again]) = repaired(&lives, life.media, None);
        assert_eq!(again.losses, [], "seed {seed}");
        found += u64::from(!checked.losses.is_empty());
        (saved, lost) = (saved + repaired.records, lost + repaired.losses.len());
        repaired.losses.iter().for_each(|loss| lives.known.lose(loss));
        let media = lives.live(media, How::Whole, true).media;
        lives.live(media, How::Whole, false);
    }
    println!("{found} stores damaged, {missed} reads missed, {saved} saved, {lost} lost");
    assert!(found > 8 && missed > 40 && saved > 40 && lost > 12);
}

#[test]
fn discarding_a_disk_loses_only_the_listed_keys() {
    for seed in 0..longer(15) {
        let mut draw = Draw(seed ^ 0x90E);
        let (layouts, config) = (layouts(&mut draw), config(&mut draw));
        let media = media(seed, &layouts);
        let mut lives = Lives { seed, draw, layouts, config, known: Known::default(), lie: None };
        let mut media = lives.live(media, How::Whole, true).media;
        let missing = lives.draw.below(DISKS.into()) as usize;
        media.remove(missing);
        let (mut media, [_, repaired, again]) = repaired(&lives, media, Some(missing));
        assert_eq!(again.losses, [], "seed {seed}");
        repaired.losses.iter().for_each(|loss| lives.known.lose(loss));
        // A new disk replaces the missing one.
        media.insert(missing, crate::crash::media(seed + 1, &lives.layouts).swap_remove(missing));
        let media = lives.live(media, How::Whole, true).media;
        lives.live(media, How::Whole, false);
    }
}

#[test]
fn an_unused_early_log_has_no_effect() {
    let mut draw = Draw(7);
    let layouts = layouts(&mut draw);
    let config = Config { log_bytes: 40_000, tunes: false, ..config(&mut draw) };
    let put = |at: usize| Operation::Write(vec![(key(at), Some(vec![1; 4000].into()))]);
    let ask = |media: Vec<Medium>, missing: Option<usize>, left: Vec<Operation>| {
        asked((&layouts, config.clone()), media, missing, &left)
    };
    for puts in 1..30 {
        let first = vec![Operation::Open].into_iter().chain((0..puts).map(put));
        let (media, _) = ask(media(7, &layouts), None, first.chain([Operation::Close]).collect());
        for missing in 0..DISKS.into() {
            let mut media = media.clone();
            media.remove(missing);
            let left = vec![Operation::Open, Operation::Get(key(1000)), Operation::Close];
            let (_, answers) = ask(media, Some(missing), left);
            assert!(matches!(answers[1], Answer::Value(None)), "{puts} puts, without {missing}");
        }
    }
}

pub(crate) fn key(at: usize) -> forebay_store::Key {
    format!("{at:04}").into_bytes().into()
}
