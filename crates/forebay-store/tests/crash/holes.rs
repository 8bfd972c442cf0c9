//! Tests damaged batches of a log: the keys in them are unknown, and no others are.

use std::collections::BTreeSet;
use std::ops::Range;

use forebay_core::Nanos;
use forebay_rig::{Crash, Medium, Troubles};
use forebay_store::{
    Answer, Checked, Config, Layout, Loss, Operation, OperationError, Page, Transformation, Value,
};

use crate::crash::missing::{Asking, key, told};
use crate::crash::{Draw, config, cramped, layouts, media};

/// The number of keys in segments; half of them are put again.
const KEYS: usize = 40;
/// The number of puts in the log, each of which is a batch.
const PUTS: usize = 12;
const NEW: usize = 1000;

/// Returns the key of a put in the log: some old keys, a few of them twice, and new keys.
fn key_of(put: usize) -> usize {
    match put % 4 {
        3 => NEW + put,
        _ => [3, 7, 11, 7, 15, 3, 19, 23, 11][put * 3 / 4 % 9],
    }
}

fn value(put: usize) -> Value {
    vec![put as u8 + 1; 3000].into()
}

fn write(at: usize, value: Value) -> Operation {
    Operation::Write(vec![(key(at), Some(value))])
}

struct Store {
    layouts: Vec<Layout>,
    config: Config,
    media: Vec<Medium>,
    /// The disk of the log, and the offsets of the log's batches.
    disk: usize,
    batches: Vec<u64>,
}

/// Creates a store with segments, and with a log of [`PUTS`] batches that was on duty when the
/// process was killed.
fn store(gap_bytes: u64) -> Store {
    let mut draw = Draw(77);
    let layouts: Vec<_> =
        layouts(&mut draw).into_iter().map(|of| Layout { slot_bytes: 1 << 18, ..of }).collect();
    let config = Config {
        log_bytes: 150_000,
        tunes: false,
        gap_bytes,
        transformation: Transformation::Enhanced,
        ..config(&mut draw)
    };
    let begin = [Operation::Open].into_iter();
    let first: Vec<_> = begin
        .clone()
        .chain((0..KEYS).map(|at| write(at, vec![200; 3000].into())))
        .chain([Operation::Close])
        .collect();
    let (media, answers, _) = told((&layouts, config.clone()), media(7, &layouts), None, &first);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let puts: Vec<_> = begin.chain((0..PUTS).map(|put| write(key_of(put), value(put)))).collect();
    let mut lanes = Crash::new(media, 4096, 4, 7, Troubles::default());
    let told = Asking::new(&puts, Nanos::ZERO).of((&layouts, config.clone()), None, &mut lanes);
    assert!(told.answers.iter().all(Result::is_ok), "{:?}", told.answers);
    drop(told);
    let media = lanes.kill();
    let (disk, batches) = (0..layouts.len())
        .map(|disk| (disk, batches(&media[disk], &layouts[disk])))
        .max_by_key(|(_, (log, _))| *log)
        .map(|(disk, (_, batches))| (disk, batches))
        .unwrap();
    assert_eq!(batches.len(), PUTS);
    Store { layouts, config, media, disk, batches }
}

/// Returns the newest log of a disk, and the offsets of its batches.
fn batches(medium: &Medium, layout: &Layout) -> (u64, Vec<u64>) {
    let mut found = Vec::new();
    for at in (layout.slot_at(0)..layout.segments_at()).step_by(4096) {
        let mut head = vec![0; 512];
        medium.read(at, &mut head);
        if &head[8..12] == b"FBB5" {
            found.push((u64::from_le_bytes(head[24..32].try_into().unwrap()), at));
        }
    }
    let newest = found.iter().map(|(log, _)| *log).max().unwrap_or(0);
    (newest, found.into_iter().filter(|(log, _)| *log == newest).map(|(_, at)| at).collect())
}

impl Store {
    /// Returns the contents of the disks with one bit changed in each of these batches.
    fn damaged(&self, lost: &BTreeSet<usize>, byte: u64) -> Vec<Medium> {
        let mut media = self.media.clone();
        for batch in lost {
            let at = self.batches[*batch] + byte;
            let mut sector = vec![0; 512];
            media[self.disk].read(at / 512 * 512, &mut sector);
            sector[(at % 512) as usize] ^= 8;
            media[self.disk].write(at / 512 * 512, &sector, true);
        }
        media
    }

    fn ask(&self, media: Vec<Medium>, asked: &[Operation]) -> (Vec<Medium>, Vec<Answered>) {
        let (media, answers, _) = told((&self.layouts, self.config.clone()), media, None, asked);
        (media, answers)
    }
}

type Answered = Result<Answer, OperationError>;

/// Returns the value of a key according to the remaining puts, and whether a lost put came later.
fn expected(at: usize, lost: &BTreeSet<usize>) -> (Option<Value>, bool) {
    let is_of = |put: &usize| key_of(*put) == at;
    let last = (0..PUTS).filter(is_of).rfind(|put| !lost.contains(put));
    let is_unknown = lost.iter().any(|put| is_of(put) && last.is_none_or(|last| last < *put));
    let old = (at < KEYS).then(|| vec![200; 3000].into());
    (last.map(value).or(old), is_unknown)
}

fn all_keys() -> Vec<usize> {
    (0..KEYS).chain((0..PUTS).map(key_of).filter(|at| *at >= NEW)).collect()
}

fn looks() -> Vec<Operation> {
    let gets = all_keys().into_iter().map(|at| Operation::Get(key(at)));
    [Operation::Open, Operation::Check].into_iter().chain(gets).collect()
}

fn checked(answer: &Answered) -> &Checked {
    match answer {
        Ok(Answer::Checked(checked)) => checked,
        other => panic!("{other:?}"),
    }
}

/// Returns sets of batches without the last one, whose existence nothing else would prove.
fn holes() -> Vec<BTreeSet<usize>> {
    let runs = |lens: Range<usize>| {
        lens.flat_map(|len| (0..PUTS - len).map(move |from| (from..from + len).collect()))
    };
    let pairs = (0..PUTS - 1).flat_map(|one| (one + 2..PUTS - 1).map(move |two| [one, two].into()));
    runs(1..PUTS).chain(pairs).collect()
}

#[test]
fn only_the_keys_of_lost_batches_are_unknown() {
    for gap_bytes in [0, 8192] {
        let store = store(gap_bytes);
        for (round, lost) in (0..).zip(holes()) {
            // Offsets of the checksum, the kind, the log, the index in the log, the length, the
            // position of the next batch, and a record.
            let byte = [0, 8, 24, 32, 40, 48, 1500][round % 7];
            let media = store.damaged(&lost, byte);
            let (_, answers) = store.ask(media, &looks());
            let [Ok(_), check, values @ ..] = &answers[..] else { panic!("{answers:?}") };
            let losses = &checked(check).losses;
            assert!(!losses.is_empty(), "{lost:?}, byte {byte}");
            let records: u64 = losses.iter().map(|loss| loss.records).sum();
            assert_eq!(records, lost.len() as u64, "{lost:?}, byte {byte}: {losses:?}");
            for (at, answer) in all_keys().into_iter().zip(values) {
                let (value, is_unknown) = expected(at, &lost);
                match answer {
                    Err(OperationError::Lost { .. }) => {
                        assert!(is_unknown, "{lost:?}, byte {byte}: key {at} fails");
                    }
                    Ok(Answer::Value(found)) => {
                        assert!(!is_unknown, "{lost:?}, byte {byte}: key {at} is unknown");
                        assert!(*found == value, "{lost:?}, byte {byte}: key {at}");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// Two or more damaged batches at the end of a log are not a torn write: all except the last are
/// known to have existed.
#[test]
fn damage_at_the_end_of_a_log_is_reported_except_in_its_last_batch() {
    let store = store(0);
    for (count, byte) in (2..PUTS).flat_map(|count| [0, 40, 96, 1500].map(|byte| (count, byte))) {
        let damaged: BTreeSet<usize> = (PUTS - count..PUTS).collect();
        let (_, answers) = store.ask(store.damaged(&damaged, byte), &looks());
        let [Ok(_), check, values @ ..] = &answers[..] else { panic!("{answers:?}") };
        let losses = &checked(check).losses;
        let records: u64 = losses.iter().map(|loss| loss.records).sum();
        assert!(records >= count as u64 - 1, "{count} damaged, byte {byte}: {losses:?}");
        let lost: BTreeSet<usize> = (PUTS - count..PUTS - 1).collect();
        for (at, answer) in all_keys().into_iter().zip(values) {
            let is_unknown = lost.iter().any(|put| key_of(*put) == at);
            let fails = matches!(answer, Err(OperationError::Lost { .. }));
            assert!(fails || !is_unknown, "{count} damaged, byte {byte}: key {at} is {answer:?}");
        }
    }
}

/// Returns a scan of `count` keys from a key on.
fn pages(from: usize, count: usize) -> Operation {
    Operation::Scan { from: key(from), count, bytes: u64::MAX }
}

#[test]
fn scans_fail_only_at_lost_keys() {
    let store = store(0);
    for put in 0..PUTS - 1 {
        let lost = BTreeSet::from([put]);
        let asked: Vec<_> =
            [Operation::Open].into_iter().chain((0..KEYS).map(|at| pages(at, 1))).collect();
        let (_, answers) = store.ask(store.damaged(&lost, 100), &asked);
        let (_, is_unknown) = expected(key_of(put), &lost);
        for (at, answer) in answers[1..].iter().enumerate() {
            // A page of one key fails only if that key is lost.
            let fails = is_unknown && key_of(put) == at;
            match answer {
                Ok(Answer::Page(Page { records, .. })) => {
                    assert!(!fails, "put {put}: {at} is passed");
                    let (value, _) = expected(at, &lost);
                    assert!(records[..] == [(key(at), value.unwrap())], "put {put}: {at}");
                }
                Err(OperationError::Lost { .. }) => assert!(fails, "put {put}: {at} fails"),
                other => panic!("{other:?}"),
            }
        }
        let (_, answers) =
            store.ask(store.damaged(&lost, 100), &[Operation::Open, pages(0, usize::MAX)]);
        assert_eq!(answers[1].is_err(), is_unknown, "put {put}");
    }
}

#[test]
fn exactly_the_lost_keys_are_discarded() {
    let store = store(0);
    for lost in holes().into_iter().step_by(3) {
        let repair = [Operation::Open, Operation::Repair, Operation::Check, Operation::Close];
        let (media, answers) = store.ask(store.damaged(&lost, 60), &repair);
        let repaired = checked(&answers[1]);
        let records: u64 = repaired.losses.iter().map(|loss| loss.records).sum();
        assert_eq!(records, lost.len() as u64, "{lost:?}");
        let left = (0..PUTS).filter(|put| !lost.contains(put)).map(key_of);
        let left = left.collect::<BTreeSet<_>>().len() as u64;
        assert_eq!(repaired.records, left, "{lost:?}: all that is left is kept");
        let epoch_ns = store.config.epoch_ns;
        for Loss { is_bound, put, .. } in &repaired.losses {
            let (from, upto) = (put.from.unwrap(), put.upto.unwrap());
            assert!(!is_bound && epoch_ns < from && from <= upto && upto < epoch_ns + (1 << 40));
        }
        assert_eq!(checked(&answers[2]).losses, [], "{lost:?}");
        // After that, the store works normally.
        let (_, answers) = store.ask(media, &looks());
        assert_eq!(checked(&answers[1]).losses, [], "{lost:?}");
        for (at, answer) in all_keys().into_iter().zip(&answers[2..]) {
            let (value, _) = expected(at, &lost);
            assert!(*answer == Ok(Answer::Value(value)), "{lost:?}: key {at}");
        }
    }
}

/// Puts succeed while there is a hole, and a lost key remains unknown when the store is reopened,
/// until the key is put again.
#[test]
fn a_new_put_makes_a_lost_key_readable() {
    let store = store(0);
    let lost = BTreeSet::from([3, 10]);
    let at = key_of(3);
    let again = [
        Operation::Open,
        Operation::Get(key(at)),
        write(at, value(50)),
        Operation::Get(key(at)),
        Operation::Close,
    ];
    let (mut media, answers) = store.ask(store.damaged(&lost, 100), &again);
    assert!(answers[1].is_err());
    assert!(answers[3] == Ok(Answer::Value(Some(value(50)))), "{:?}", answers[3]);
    for _ in 0..3 {
        let looks = [Operation::Open, Operation::Get(key(at)), Operation::Get(key(key_of(10)))];
        let (_, answers) = store.ask(media.clone(), &looks);
        assert!(answers[1] == Ok(Answer::Value(Some(value(50)))));
        assert!(matches!(answers[2], Err(OperationError::Lost { .. })), "{:?}", answers[2]);
        let more = [Operation::Open, write(1, value(60)), Operation::Close];
        media = store.ask(media, &more).0;
    }
}

/// If the last batch of a log is damaged, the next log records that the batch existed, and its
/// keys.
#[test]
fn each_log_records_the_last_batches_of_its_predecessor() {
    let mut draw = Draw(3);
    let config = Config { log_bytes: 40_000, tunes: false, gap_bytes: 0, ..config(&mut draw) };
    let (layouts, config) = cramped(&layouts(&mut draw), 0, &config);
    let count = 37;
    let write = |put: usize| write(put % KEYS, value(put));
    let life: Vec<_> = [Operation::Open]
        .into_iter()
        .chain((0..count).map(write))
        .chain([Operation::Close])
        .collect();
    let (whole, answers, _) = told((&layouts, config.clone()), media(9, &layouts), None, &life);
    // Closing fails for lack of space, so the records stay in logs.
    assert!(answers[..=count].iter().all(Result::is_ok));
    let mut told_of = 0;
    for disk in 0..layouts.len() {
        let (_, batches) = batches(&whole[disk], &layouts[disk]);
        let Some(last) = batches.last() else { continue };
        let mut media = whole.clone();
        let mut sector = vec![0; 512];
        media[disk].read(*last, &mut sector);
        sector[200] ^= 1;
        media[disk].write(*last, &sector, true);
        let gets = (0..count).map(|at| Operation::Get(key(at)));
        let looks = [Operation::Open, Operation::Check].into_iter().chain(gets);
        let looks: Vec<_> = looks.chain([Operation::Close]).collect();
        let (_, answers, _) = told((&layouts, config.clone()), media, None, &looks);
        let losses = &checked(&answers[1]).losses;
        let is_right = |put: &usize| answers[2 + put] == Ok(Answer::Value(Some(value(*put))));
        let wrong: Vec<_> = (0..count).filter(|put| !is_right(put)).collect();
        if wrong.is_empty() && losses.is_empty() {
            // The records of this log are in a segment.
            continue;
        }
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        if !losses.is_empty() {
            told_of += 1;
            assert!(losses.len() == 1 && losses[0].records == 1 && !losses[0].is_bound);
            assert!(matches!(answers[2 + wrong[0]], Err(OperationError::Lost { .. })));
        } else {
            assert_eq!(wrong, [count - 1], "nobody says that the last was there");
        }
    }
    assert!(told_of > 1, "{told_of}");
}
