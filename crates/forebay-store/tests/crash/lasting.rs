//! Tests that the losses of a log are reported each time the store is opened, until they are given
//! up, whatever the store does in the meantime.

use std::collections::BTreeMap;

use forebay_core::{Fault, Lane, Nanos};
use forebay_rig::{Crash, Medium, Troubles};
use forebay_store::{Answer, Config, Layout, Operation, OperationError, Transformation};

use crate::crash::missing::{Asking, key};
use crate::crash::{Draw, config, cramped, layouts, media};

const KEYS: usize = 18;

/// Returns a put. With `stretches`, every ninth is too long for any slot.
fn put(number: usize, stretches: bool) -> Operation {
    let len = if stretches && number % 9 == 5 { 70_000 } else { 4000 };
    Operation::Write(vec![(key(number % KEYS), Some(vec![number as u8; len].into()))])
}

struct Store {
    layouts: Vec<Layout>,
    config: Config,
}

impl Store {
    fn new(seed: u64) -> Store {
        let mut draw = Draw(seed ^ 0x1A57);
        let layouts = layouts(&mut draw);
        let config = Config {
            log_bytes: 11_000,
            tunes: false,
            transformation: Transformation::Enhanced,
            step_bytes: 65536,
            ..config(&mut draw)
        };
        Store { layouts, config }
    }

    /// Runs a life that ends with a kill; returns the contents of the disks, and the answers.
    fn live(
        &self,
        media: Vec<Medium>,
        bad: Vec<(Lane, u64)>,
        operations: &[Operation],
    ) -> (Vec<Medium>, Vec<Result<Answer, OperationError>>) {
        let mut lanes = Crash::new(media, 4096, 4, 1, Troubles { bad, ..Troubles::default() });
        let store = (&self.layouts[..], self.config.clone());
        let told = Asking::new(operations, Nanos::ZERO).of(store, None, &mut lanes);
        let answers = told.answers;
        (lanes.kill(), answers)
    }

    /// Returns the store, killed after this many puts. Without space for segments, all logs remain.
    fn killed(mut self, puts: usize, has_room: bool) -> (Store, Vec<Medium>) {
        let whole = (self.layouts.clone(), self.config.clone());
        if !has_room {
            (self.layouts, self.config) = cramped(&whole.0, 0, &whole.1);
        }
        let puts = (0..puts).map(|number| put(number, has_room));
        // After the store is closed, nothing is retried.
        let end = (!has_room).then_some(Operation::Close);
        let all: Vec<_> = [Operation::Open].into_iter().chain(puts).chain(end).collect();
        let (media, answers) = self.live(media(7, &whole.0), Vec::new(), &all);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        (self.layouts, self.config) = whole;
        (self, media)
    }

    /// Returns all batches: those in slots, the blocks in slots that refer to batches elsewhere,
    /// and those batches. Each has its log and index, its disk, its offset, and whether it is
    /// outside a slot.
    fn batches(&self, media: &[Medium]) -> Vec<((u64, u64), usize, u64, bool)> {
        let mut found = Vec::new();
        for (disk, (medium, layout)) in media.iter().zip(&self.layouts).enumerate() {
            for at in (layout.slot_at(0)..layout.segments_at()).step_by(4096) {
                let mut block = [0; 4096];
                medium.read(at, &mut block);
                let word =
                    |from: usize| u64::from_le_bytes(block[from..from + 8].try_into().unwrap());
                let name = (word(24), word(32));
                match &block[8..12] {
                    b"FBB5" => found.push((name, disk, at, false)),
                    b"STR5" => {
                        // The location follows the summaries of other batches.
                        let said = u32::from_le_bytes(block[88..92].try_into().unwrap());
                        found.push((name, disk, at, false));
                        found.push((name, disk, word(92 + said as usize), true));
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

/// For each key, the last known put.
type Last = BTreeMap<usize, usize>;

fn last(puts: impl Iterator<Item = usize>) -> Last {
    puts.map(|number| (number % KEYS, number)).collect()
}

fn looks() -> impl Iterator<Item = Operation> {
    [Operation::Open, Operation::Check]
        .into_iter()
        .chain((0..KEYS).map(|at| Operation::Get(key(at))))
}

/// Returns the keys whose reads fail; the others must have their last value. The existence of put
/// `unsure` may be unknown.
fn refused(
    answers: &[Result<Answer, OperationError>],
    last: &Last,
    unsure: Option<usize>,
    what: &str,
) -> Vec<usize> {
    let [Ok(_), Ok(Answer::Checked(checked)), values @ ..] = answers else {
        panic!("{what}: {:?}", answers.iter().take(2).collect::<Vec<_>>());
    };
    let mut refused = Vec::new();
    for (key, value) in values[..KEYS].iter().enumerate() {
        let expected = last.get(&key).copied();
        match value {
            Ok(Answer::Value(value)) => {
                let got = value.as_ref().map(|value| usize::from(value[0]));
                let is_unsure = unsure.is_some_and(|unsure| expected == Some(unsure));
                assert!(got == expected || is_unsure, "{what}: {key} is {got:?}, not {expected:?}");
            }
            Err(failure) => {
                let lost = |failure: &OperationError| {
                    matches!(failure, OperationError::Lost { .. } | OperationError::Damaged { .. })
                        || matches!(failure, OperationError::Disk { fault: Fault::Media, .. })
                };
                assert!(lost(failure), "{what}: {failure}");
                assert!(!checked.losses.is_empty(), "{what}");
                refused.push(key);
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    refused
}

#[test]
fn a_loss_is_reported_until_discarded() {
    let (mut told, mut lives) = (0, 0);
    let all = (12..60).step_by(4).map(|puts| (puts, true));
    for (puts, has_room) in all.chain([5, 8, 9, 12, 13, 14].map(|puts| (puts, false))) {
        let (store, whole) = Store::new(puts as u64 % 3).killed(puts, has_room);
        let batches = store.batches(&whole);
        let newest = batches.iter().max().map(|(name, ..)| *name);
        let more = puts..puts + 12;
        for (name, disk, at, is_stretched) in batches {
            // Damages the block's kind, its log, its content, or the whole block.
            for damage in [8, 24, 100, 4096] {
                let mut media = whole.clone();
                let mut block = vec![0; 4096];
                if damage < 4096 {
                    media[disk].read(at, &mut block);
                    block[damage] ^= 1;
                }
                media[disk].write(at, &block, true);
                let what = format!("{puts} puts, {name:?} on disk {disk} at {at}, byte {damage}");
                // Nothing else proves that the very last batch existed, unless a block refers to
                // it.
                let unsure = (Some(name) == newest && !is_stretched).then(|| puts - 1);
                let first: Vec<_> =
                    looks().chain(more.clone().map(|number| put(number, true))).collect();
                let (media, answers) = store.live(media, Vec::new(), &first);
                let was = refused(&answers, &last(0..puts), unsure, &what);
                assert!(answers[2 + KEYS..].iter().all(Result::is_ok), "{what}: a put fails");
                let second: Vec<_> = looks().collect();
                let (media, answers) = store.live(media, Vec::new(), &second);
                let is = refused(&answers, &last(0..puts + 12), unsure, &what);
                // Keys that were put again are present.
                let again = last(more.clone());
                let left: Vec<_> = was.into_iter().filter(|key| !again.contains_key(key)).collect();
                assert_eq!(is, left, "{what}");
                (told, lives) = (told + left.len(), lives + 1);
                let third = [Operation::Open, Operation::Repair].into_iter().chain(looks().skip(1));
                let (_, answers) = store.live(media, Vec::new(), &third.collect::<Vec<_>>());
                let [_, Ok(Answer::Checked(given)), Ok(Answer::Checked(after)), values @ ..] =
                    &answers[..]
                else {
                    panic!("{what}: {answers:?}");
                };
                assert!(!given.losses.is_empty() || is.is_empty(), "{what}: {given:?}");
                assert!(
                    after.losses.is_empty() && values.iter().all(Result::is_ok),
                    "{what}: {after:?}"
                );
            }
        }
    }
    println!("{told} told of in {lives} lives");
    assert!(told > 100 && lives > 900, "{told} told of in {lives} lives");
}

#[test]
fn a_log_whose_beginning_cannot_be_read_for_a_while_is_not_written_over() {
    let (mut told, mut lives) = (0, 0);
    for puts in [5, 8, 9, 12, 13, 14] {
        let (store, whole) = Store::new(puts as u64 % 3).killed(puts, false);
        for (disk, layout) in store.layouts.iter().enumerate() {
            for slot in 0..layout.log_slots {
                let bad = vec![(disk as Lane, layout.slot_at(slot))];
                let what = format!("{puts} puts, slot {slot} of disk {disk}");
                let more = puts..puts + 12;
                let first: Vec<_> =
                    looks().chain(more.clone().map(|number| put(number, true))).collect();
                let (media, answers) = store.live(whole.clone(), bad, &first);
                told += refused(&answers, &last(0..puts), None, &what).len();
                assert!(answers[2 + KEYS..].iter().all(Result::is_ok), "{what}: a put fails");
                // The slot is readable again, so everything is present.
                let second: Vec<_> = looks().collect();
                let (_, answers) = store.live(media, Vec::new(), &second);
                let is = refused(&answers, &last(0..puts + 12), None, &what);
                assert!(is.is_empty(), "{what}: {is:?}");
                lives += 1;
            }
        }
    }
    println!("{told} told of in {lives} lives");
    assert!(told > 50 && lives > 50, "{told} told of in {lives} lives");
}

#[test]
fn possible_contents_of_an_unreadable_root_are_not_forgotten() {
    let (mut told, mut right) = (0, 0);
    for puts in (20..56).step_by(3) {
        let (mut store, whole) = Store::new(puts as u64 % 3).killed(puts, true);
        store.config.step_bytes = 4096 << (puts % 5);
        for (disk, layout) in store.layouts.iter().enumerate() {
            for block in 0..2 * layout.root_bytes / 4096 {
                let bad = vec![(disk as Lane, layout.root_at(0) + block * 4096)];
                for other in 0..store.layouts.len() {
                    let what = format!("{puts} puts, block {block} of {disk}, and {other}");
                    let mut media = whole.clone();
                    if other != disk {
                        let zeros = vec![0; 2 * store.layouts[other].root_bytes as usize];
                        media[other].write(store.layouts[other].root_at(0), &zeros, true);
                    }
                    let looks: Vec<_> = looks().collect();
                    let (media, answers) = store.live(media, bad.clone(), &looks);
                    for (key, answer) in answers[2..].iter().enumerate() {
                        let expected = last(0..puts)[&key] as u8;
                        match answer {
                            Ok(Answer::Value(Some(value))) if value[0] == expected => right += 1,
                            Err(OperationError::Rootless { disks: 2 }) if other != disk => {
                                told += 1
                            }
                            _ => panic!("{what}: {key}, {:?}", answer.as_ref().err()),
                        }
                    }
                    if other == disk {
                        // The damaged root was rewritten when the store was opened.
                        let (_, answers) = store.live(media, Vec::new(), &looks);
                        let is = refused(&answers, &last(0..puts), None, &what);
                        let Ok(Answer::Checked(checked)) = &answers[1] else { unreachable!() };
                        assert_eq!((&is[..], &checked.losses[..]), (&[][..], &[][..]), "{what}");
                    }
                }
            }
        }
    }
    println!("{told} told of, {right} right");
    assert!(told > 500 && right > 500, "{told} told of, {right} right");
}

/// The chain of a root's frame, and its index in the chain. The latest frame is the greatest.
type Frame = (u64, u64);

/// Returns the frame of which each block of a disk's two root areas is a part, if any.
fn frames(medium: &Medium, layout: &Layout) -> Vec<Option<Frame>> {
    let (mut found, mut left, mut frame) = (Vec::new(), 0, None);
    for number in 0..2 * layout.root_bytes / 4096 {
        let mut block = [0; 4096];
        medium.read(layout.root_at(0) + number * 4096, &mut block);
        let word = |from: usize| u64::from_le_bytes(block[from..from + 8].try_into().unwrap());
        if &block[8..12] == b"ROOT" {
            (left, frame) = ((48 + word(40)).div_ceil(4096), Some((word(24), word(32))));
        }
        found.push(frame.filter(|_| left > 0));
        left = left.saturating_sub(1);
    }
    found
}

#[test]
fn contents_of_a_rotten_root_are_not_forgotten() {
    let (mut told, mut right, mut unsaid) = (0, 0, 0);
    for puts in (20..56).step_by(3) {
        let (mut store, whole) = Store::new(puts as u64 % 3).killed(puts, true);
        store.config.step_bytes = 4096 << (puts % 5);
        let puts_last = last(0..puts);
        for (disk, layout) in store.layouts.iter().enumerate() {
            let frames = frames(&whole[disk], layout);
            let last = frames.iter().copied().max().flatten().unwrap();
            for (block, frame) in frames.iter().enumerate() {
                let other = (disk + 1 + block % 3) % store.layouts.len();
                let what = format!("{puts} puts, block {block} of {disk}, and {other}");
                let mut media = whole.clone();
                let (at, mut byte) = (layout.root_at(0) + block as u64 * 4096, [0]);
                media[disk].read(at, &mut byte);
                media[disk].write(at, &[byte[0] ^ 1], true);
                let zeros = vec![0; 2 * store.layouts[other].root_bytes as usize];
                media[other].write(store.layouts[other].root_at(0), &zeros, true);
                // Nothing else proves that the very last change was made.
                let is_last = *frame == Some(last);
                let is_of_it = frame.is_some_and(|(chain, _)| chain == last.0) && !is_last;
                let (_, answers) = store.live(media, Vec::new(), &looks().collect::<Vec<_>>());
                for (key, answer) in answers[2..].iter().enumerate() {
                    let expected = puts_last[&key] as u8;
                    match answer {
                        Err(OperationError::Rootless { disks: 2 }) if is_of_it => told += 1,
                        Ok(Answer::Value(Some(value))) if value[0] == expected && !is_of_it => {
                            right += 1;
                        }
                        _ if is_last => unsaid += 1,
                        _ => panic!(
                            "{what}, {frame:?} of {last:?}: {key}, {:?}",
                            answer.as_ref().err()
                        ),
                    }
                }
            }
        }
    }
    println!("{told} told of, {right} right, {unsaid} of the last change");
    assert!(told > 500 && right > 500, "{told} told of, {right} right");
}

#[test]
fn a_discarded_logs_record_of_its_predecessor_counts() {
    let mut told = 0;
    for puts in [8, 9, 12, 13, 14] {
        let (store, whole) = Store::new(puts as u64 % 3).killed(puts, false);
        let batches = store.batches(&whole);
        let (mut layouts, config) = cramped(&store.layouts, 0, &store.config);
        // There is space for what remains of a log that is given up, but not for a whole log.
        layouts[1..].iter_mut().for_each(|layout| layout.capacity_bytes += 8192);
        let slow = Store { layouts, config };
        for ((log, index), disk, at, _) in &batches {
            // The last batch of the preceding log, if that log remains because there is no space
            // for its segment.
            let before =
                batches.iter().filter(|((other, _), disk, ..)| other + 1 == *log && *disk > 0);
            let Some((_, other, last, _)) = before.max() else { continue };
            if *index > 0 {
                continue;
            }
            let mut media = whole.clone();
            media[*disk].write(at + 100, &[0xA5; 8], true);
            // After the store is closed, nothing is retried.
            let repair = [Operation::Open, Operation::Repair, Operation::Close];
            let (mut media, answers) = slow.live(media, Vec::new(), &repair);
            let Ok(Answer::Checked(given)) = &answers[1] else { panic!("{answers:?}") };
            if given.losses.is_empty() {
                // The damaged batch is the newest, so it looks torn.
                continue;
            }
            media[*other].write(last + 100, &[0xA5; 8], true);
            let (_, answers) = store.live(media, Vec::new(), &[Operation::Open, Operation::Check]);
            let Ok(Answer::Checked(checked)) = &answers[1] else { panic!("{answers:?}") };
            let is_told = checked.losses.iter().any(
                |loss| matches!(loss.failure, OperationError::Lost { log: lost, .. } if lost + 1 == *log),
            );
            assert!(is_told, "{puts} puts, log {log}: {:?}", checked.losses);
            told += 1;
        }
    }
    assert!(told > 5, "{told}");
}
