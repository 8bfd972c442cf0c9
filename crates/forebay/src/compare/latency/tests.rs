//! Compares pairs of recordings whose difference is known.

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

use crate::Input;
use crate::compare::{
    Card, GroupKind, LatencyAnswer, LatencyChange, LatencyFigure, Options, compare, page,
};
use crate::plan::confidence::Random;

const US: u64 = 1000;
const MS: u64 = 1000 * US;

/// Returns 5,000 requests of three processes over 500 s, with latencies of 0.5 to 5 ms; every tenth
/// is a write of 64 KiB by "kworker".
fn recording(seed: u64) -> Vec<Record> {
    let mut random = Random(seed);
    let request = |number: u64| {
        let is_write = number.is_multiple_of(10);
        Record {
            at: Nanos(number * 100 * MS),
            offset: random.below(1 << 20) as u64 * 4096,
            latency: Some(Nanos(500 * US + random.below(4500) as u64 * US)),
            len: if is_write { 65_536 } else { 4096 },
            stream: if is_write { 2 } else { u32::from(number.is_multiple_of(3)) },
            volume: 0,
            op: if is_write { Op::Write } else { Op::Read },
            flags: Flags::NONE,
        }
    };
    (0..5000).map(request).collect()
}

/// Multiplies each record's latency by `factor`.
fn changed(records: &[Record], factor: impl Fn(&Record) -> f64) -> Vec<Record> {
    let slower = |record: &Record, ns: Nanos| Nanos((ns.0 as f64 * factor(record)) as u64);
    let one = |record: &Record| Record {
        latency: record.latency.map(|latency| slower(record, latency)),
        ..*record
    };
    records.iter().map(one).collect()
}

fn input(name: &str, records: Vec<Record>, names: [&str; 3]) -> Input {
    let mut input = Input::from_records(records, names.map(String::from).into());
    input.path = name.into();
    input
}

/// Compares two recordings in which the processes have different ids.
fn card(a: Vec<Record>, b: Vec<Record>) -> Card {
    let a = input("before.csv", a, ["postgres/71", "nginx/80", "kworker/4"]);
    let b = input("after.csv", b, ["postgres/1971", "nginx/1980", "kworker/14"]);
    let options = Options::new(&["fixed:1000".to_string()], None, 1.0, 7).unwrap();
    compare(&a, &b, &options, &mut crate::progress::unheard).unwrap()
}

fn answer(a: Vec<Record>, b: Vec<Record>) -> LatencyAnswer {
    let answer = card(a, b).latencies.unwrap();
    assert!(answer.text.split_whitespace().count() <= 25, "{}", answer.text);
    answer
}

fn holds(card: &Card) -> bool {
    let mut aspects = card.verdict.aspects.iter();
    aspects.find(|aspect| aspect.aspect == "recorded latencies").unwrap().holds
}

/// Regression test: a copy of a trace with ten times the latencies was once called a faithful twin.
#[test]
fn ten_times_the_latency_is_not_a_twin() {
    let a = recording(1);
    let card = card(a.clone(), changed(&a, |_| 10.0));
    assert!(!card.verdict.faithful && !holds(&card), "{}", card.verdict.text);
    let found = card.latencies.as_ref().unwrap();
    assert_eq!((found.change, found.is_paired), (LatencyChange::Slower, true));
    assert_eq!((found.changed_for.as_deref(), found.since_s), (None, None));
    let begins = "after.csv is slower than before.csv: p50 27";
    assert!(found.text.starts_with(begins), "{}", found.text);
    for figure in [found.all().mean_ms, found.all().p50_ms, found.all().p99_ms] {
        assert!((figure.deviation.unwrap() - 9.0).abs() < 0.1, "{figure:?}");
        assert!((figure.deviation_low.unwrap() - 9.0).abs() < 0.1, "{figure:?}");
    }
    let page = page::page(&card);
    assert_eq!((&page.headline, &*page.verdict.words), (&found.text, "Slower"));
}

#[test]
fn the_same_latencies_are_told_beside_the_twin() {
    let a = recording(1);
    let card = card(a.clone(), a);
    assert!(card.verdict.faithful && holds(&card), "{}", card.verdict.text);
    let found = card.latencies.as_ref().unwrap();
    assert_eq!(found.change, LatencyChange::Same);
    assert!(found.text.starts_with("after.csv is as fast as before.csv: p50 "), "{}", found.text);
    let page = page::page(&card);
    assert_eq!((&page.headline, &*page.verdict.words), (&found.text, "A faithful twin"));
}

/// Forty writes are too few to call a trace slower, and too few to call it a poor twin.
#[test]
fn a_few_slow_requests_are_named_but_not_judged() {
    let rare = |record: &Record| {
        let is_write = record.at.0.is_multiple_of(12_500 * MS);
        let (op, stream) = if is_write { (Op::Write, 2) } else { (Op::Read, 0) };
        Record { op, stream, ..*record }
    };
    let a: Vec<Record> = recording(1).iter().map(rare).collect();
    let b = changed(&a, |record| if record.op == Op::Write { 2.0 } else { 1.0 });
    let card = card(a, b);
    let found = card.latencies.as_ref().unwrap();
    assert_eq!(found.change, LatencyChange::Same);
    assert!(found.text.contains("; writes (40, too few to judge): mean "), "{}", found.text);
    assert!(found.text.split_whitespace().count() <= 25, "{}", found.text);
    assert!(holds(&card) && card.verdict.faithful, "{}", card.verdict.text);
}

/// If B is another load, whether B is as fast as A comes second.
#[test]
fn another_load_is_told_before_its_speed() {
    let a = recording(1);
    let other = |(number, record): (usize, &Record)| Record {
        at: Nanos(number as u64 * number as u64 * 14 * US),
        offset: number as u64 * 512,
        len: 512,
        ..*record
    };
    let b = a.iter().enumerate().map(other).collect();
    let card = card(a, b);
    let found = card.latencies.as_ref().unwrap();
    assert!(!found.is_paired && found.change == LatencyChange::Same, "{}", found.text);
    let page = page::page(&card);
    assert_eq!(page.headline, card.verdict.text);
    let forebay_show::page::Block::Text(second) = &page.sections[0].blocks[0] else {
        panic!("{page:?}")
    };
    assert_eq!(second, &found.text);
}

/// A slow moment in one recording makes the traces differ, but it may be chance.
#[test]
fn a_difference_that_may_be_chance_is_neither_alike_nor_slower() {
    let a = recording(1);
    let b = changed(&a, |record| if record.at < Nanos(10_000 * MS) { 9.0 } else { 1.0 });
    let found = answer(a, b);
    assert_eq!(
        (found.change, &found.changed_for),
        (LatencyChange::Unsure, &None),
        "{}",
        found.text
    );
    assert!(
        found.text.starts_with("No significant difference in latency between before.csv and after"),
        "{}",
        found.text
    );
}

#[test]
fn another_draw_of_the_same_latencies_is_no_change() {
    let found = answer(recording(1), recording(2));
    assert_eq!(found.change, LatencyChange::Same, "{}", found.text);
    // The second trace has half the requests in half the time, so its blocks cannot be paired with
    // the first's.
    let found = answer(recording(1), recording(2)[..2500].to_vec());
    assert!(!found.is_paired || found.change == LatencyChange::Same, "{}", found.text);
    let slower = changed(&recording(2)[..2500], |_| 1.3);
    let found = answer(recording(1), slower);
    assert_eq!(found.change, LatencyChange::Slower, "{}", found.text);
}

#[test]
fn the_answer_says_for_whom() {
    let a = recording(1);
    let whom = |factor: &dyn Fn(&Record) -> f64| {
        let found = answer(a.clone(), changed(&a, factor));
        assert_eq!(found.change, LatencyChange::Slower, "{}", found.text);
        found.changed_for.unwrap_or_default()
    };
    let only =
        |is_slow: fn(&Record) -> bool| move |of: &Record| if is_slow(of) { 4.0 } else { 1.0 };
    assert_eq!(whom(&only(|of| of.stream == 1)), "reads of nginx of up to 4 KiB");
    assert_eq!(whom(&only(|of| of.op == Op::Read)), "reads of postgres and nginx of up to 4 KiB");
    // All requests are slower, but nearly all of the added latency belongs to one operation.
    let mostly = |of: &Record| if of.op == Op::Write { 500.0 } else { 1.2 };
    assert_eq!(whom(&mostly), "writes of kworker of over 16 to 64 KiB");
    let found = answer(a.clone(), changed(&a, only(|of| of.stream == 1)));
    assert!(found.text.ends_with(", mainly reads of nginx."), "{}", found.text);
    let names: Vec<_> =
        found.groups.iter().filter(|of| of.kind == GroupKind::Name).map(|of| &*of.group).collect();
    assert_eq!(names, ["postgres", "nginx", "kworker"]);
}

#[test]
fn another_mix_is_distinguished_from_slower_requests() {
    // In both traces, writes take ten times as long as reads; the second trace has more writes.
    let slow_writes = |of: &Record| if of.op == Op::Write { 10.0 } else { 1.0 };
    let a = changed(&recording(1), slow_writes);
    let number = |of: &Record| of.at.0 / (100 * MS);
    let written = |of: &Record| match number(of) % 3 {
        0 => Record { op: Op::Write, len: 65_536, stream: 2, ..*of },
        _ => *of,
    };
    let b: Vec<Record> = recording(2).iter().map(written).collect();
    let found = answer(a, changed(&b, slow_writes));
    assert_eq!((found.change, found.mix_of), (LatencyChange::Slower, Some(GroupKind::Operation)));
    assert!(found.text.ends_with(" reads (was 90.0 %)."), "{}", found.text);
}

#[test]
fn a_kind_of_request_may_be_in_one_trace_only() {
    let slow_writes = |of: &Record| if of.op == Op::Write { 10.0 } else { 1.0 };
    let a = changed(&recording(1), slow_writes);
    let writes: Vec<Record> = a.iter().filter(|of| of.op == Op::Write).copied().collect();
    let found = answer(a, writes);
    assert_eq!((found.change, found.mix_of), (LatencyChange::Slower, Some(GroupKind::Operation)));
}

#[test]
fn a_step_has_a_time() {
    let a = recording(1);
    let late = |of: &Record| if of.at.0 >= 300_000 * MS { 3.0 } else { 1.0 };
    for b in [changed(&a, late), changed(&recording(2), late)] {
        let found = answer(a.clone(), b);
        let since_s = found.since_s.unwrap();
        assert!((since_s - 300.0).abs() < 10.1, "{since_s}");
        assert!(found.text.contains("slower than before.csv since about 3"), "{}", found.text);
    }
    // The first trace is slow from some time on, and the second is not.
    let found = answer(changed(&a, late), a.clone());
    assert_eq!((found.change, found.since_s.is_some()), (LatencyChange::Faster, true));
    assert_eq!(answer(a.clone(), changed(&a, |_| 0.5)).since_s, None);
}

#[test]
fn an_episode_has_a_beginning_and_an_end() {
    let a = recording(1);
    let night = |of: &Record| if of.at.0 / MS / 100_000 == 2 { 3.0 } else { 1.0 };
    let found = answer(a.clone(), changed(&recording(2), night));
    let span = (found.since_s.unwrap(), found.until_s.unwrap());
    assert!((span.0 - 200.0).abs() < 10.1 && (span.1 - 300.0).abs() < 10.1, "{span:?}");
    assert!(found.text.contains("slower than before.csv from about "), "{}", found.text);
    // The figures are those of the episode: three times as long in it, and as before outside.
    let inside = found.in_span.as_ref().unwrap();
    for figure in [inside.mean_ms, inside.p50_ms, inside.p99_ms] {
        assert!((figure.deviation.unwrap() - 2.0).abs() < 0.1, "{figure:?}");
    }
    assert!(found.all().p50_ms.deviation.unwrap() < 0.5, "{:?}", found.all().p50_ms);
    let told = |figure: LatencyFigure| [figure.b, figure.a].map(crate::quantities::millis);
    let [p50, was] = told(inside.p50_ms);
    assert!(found.text.contains(&format!("p50 {p50} (was {was})")), "{}", found.text);
    assert!((900..1100).contains(&inside.b_requests), "{}", inside.b_requests);
    assert_eq!(answer(a.clone(), changed(&a, |_| 3.0)).in_span.map(|of| of.group), None);
    // The first sentence names the time even if it also says for whom.
    let of_nginx = |of: &Record| if of.stream == 1 { night(of) } else { 1.0 };
    let found = answer(a.clone(), changed(&recording(2), |of| of_nginx(of).powi(2)));
    assert!(found.text.contains(" from about 2"), "{}", found.text);
    assert!(found.text.ends_with(", mainly reads of nginx."), "{}", found.text);
}

#[test]
fn groups_that_change_in_opposite_directions_are_both_named() {
    let a = recording(1);
    let operations = |of: &Record| if of.op == Op::Read { 2.0 } else { 0.4 };
    let found = answer(a.clone(), changed(&recording(2), operations));
    assert_eq!(found.change, LatencyChange::Mixed);
    let begins = "after.csv: reads are slower than in before.csv (mean 5.";
    assert!(found.text.starts_with(begins), "{}", found.text);
    assert!(found.text.contains("), writes faster (1."), "{}", found.text);
    let names = |of: &Record| if of.stream == 1 { 2.0 } else { 0.5 };
    let found = answer(a.clone(), changed(&recording(2), names));
    assert_eq!(found.change, LatencyChange::Mixed);
    assert!(found.text.contains("requests of nginx are slower"), "{}", found.text);
    // Even if the changes cancel out, the trace is no twin.
    let reads = |of: &Record| if of.op == Op::Read { 1.15 } else { 0.1 };
    let card = card(a.clone(), changed(&a, |of| reads(of)));
    assert!(!holds(&card), "{:?}", card.verdict.aspects);
    let found = card.latencies.unwrap();
    assert_eq!(found.change, LatencyChange::Mixed, "{}", found.text);
}

/// Reads are faster and writes are as fast, but nearly all requests of the second trace are reads.
#[test]
fn another_mix_of_reads_and_writes_is_not_called_slower_without_the_reason() {
    let mixed = |seed: u64, reads_in_500: u64, read_ms: u64| {
        let mut random = Random(seed);
        let mut one = |number: u64| {
            let is_read = number * 41 % 500 < reads_in_500;
            let ns = if is_read { read_ms * MS } else { 150 * US };
            let latency = Some(Nanos(ns * 9 / 10 + random.below(ns as usize / 5) as u64));
            let op = if is_read { Op::Read } else { Op::Write };
            Record { at: Nanos(number * 10 * MS), latency, op, ..recording(1)[0] }
        };
        (0..500).map(&mut one).collect::<Vec<_>>()
    };
    let found = answer(mixed(1, 12, 6), mixed(2, 496, 2));
    assert_eq!(found.change, LatencyChange::Slower, "{}", found.text);
    assert_eq!(found.mix_of, Some(GroupKind::Operation), "{}", found.text);
    assert!(
        found.text.contains("because the mix changed: 99.2 % reads (was 2.40 %)."),
        "{}",
        found.text
    );
    // Without the change of the mix, the second trace would be slower, too.
    let found = answer(mixed(1, 250, 2), mixed(2, 300, 8));
    assert_eq!((found.change, found.mix_of), (LatencyChange::Slower, None), "{}", found.text);
}

/// If the tail and the median of reads change in opposite directions, the text says that it is
/// about reads.
#[test]
fn a_longer_tail_with_a_shorter_median_names_both_and_the_operation() {
    let a = recording(1);
    let rare = |of: &Record| match (of.op, of.at.0 / (100 * MS) % 60) {
        (Op::Read, 31) => 6.0,
        (Op::Read, _) => 0.8,
        _ => 1.0,
    };
    let found = answer(a.clone(), changed(&a, rare));
    assert_eq!(found.change, LatencyChange::Mixed, "{}", found.text);
    let begins = "after.csv: the tail of reads is longer than in before.csv (p99 ";
    assert!(found.text.starts_with(begins), "{}", found.text);
    assert!(found.text.contains("), the median shorter ("), "{}", found.text);
    let reads = found.groups.iter().find(|group| group.group == "reads").unwrap();
    assert_eq!(reads.change, LatencyChange::Mixed);
    let other = |of: &Record| 1.0 / rare(of);
    let found = answer(changed(&a, rare), changed(&changed(&a, rare), other));
    assert!(found.text.contains("the tail of reads is shorter than in"), "{}", found.text);
    assert!(found.text.contains("), the median longer ("), "{}", found.text);
}

#[test]
fn a_tail_may_change_alone() {
    let a = recording(1);
    let tail = |of: &Record| if of.latency.unwrap().0 > 4800 * US { 1.5 } else { 1.0 };
    let found = answer(a.clone(), changed(&a, tail));
    assert_eq!(found.change, LatencyChange::Slower);
    assert_eq!(found.all().p50_ms.deviation, Some(0.0));
    assert!(found.all().p99_ms.deviation.unwrap() > 0.4);
}

#[test]
fn latencies_of_one_trace_only_are_not_compared_and_the_verdict_says_so() {
    let a = recording(1);
    let none: Vec<Record> = a.iter().map(|of| Record { latency: None, ..*of }).collect();
    // Some formats write zeros if the latency is unknown.
    let zeros = changed(&a, |_| 0.0);
    for without in [none.clone(), zeros] {
        for (card, lacking) in [
            (card(a.clone(), without.clone()), "after.csv"),
            (card(without, a.clone()), "before.csv"),
        ] {
            assert!(card.latencies.is_none() && card.verdict.faithful);
            let said = format!("recorded latencies were not compared, because {lacking} has none.");
            assert!(card.verdict.text.ends_with(&said), "{}", card.verdict.text);
            assert!(card.left_out[0].contains("has no recorded latencies"));
            assert_eq!(page::page(&card).headline, card.verdict.text);
        }
    }
    let neither = card(none.clone(), none);
    assert!(
        neither.left_out.is_empty() && neither.verdict.text.ends_with("passes every comparison.")
    );
}

#[test]
fn rows_without_a_latency_are_left_out_and_counted() {
    let a = recording(1);
    let keep = |of: &Record| (of.at.0 / (100 * MS)).is_multiple_of(4);
    let b: Vec<Record> = changed(&a, |_| 2.0)
        .into_iter()
        .map(|of| Record { latency: of.latency.filter(|_| keep(&of)), ..of })
        .collect();
    let card = card(a, b);
    let found = card.latencies.as_ref().unwrap();
    assert_eq!((found.change, found.b_known_share), (LatencyChange::Slower, 0.25));
    assert!(card.cautions[0].starts_with("after.csv: 25.0 % of its reads and writes"));
}

#[test]
fn few_requests_are_not_judged() {
    let one = recording(1)[..1].to_vec();
    let found = card(one.clone(), changed(&one, |_| 10.0));
    let latencies = found.latencies.as_ref().unwrap();
    assert_eq!((latencies.change, holds(&found)), (LatencyChange::TooFew, false));
    assert_eq!(page::page(&found).headline, found.verdict.text);
    assert!(!card(one.clone(), one.clone()).verdict.faithful);
    let found = answer(recording(1), one);
    assert_eq!(found.change, LatencyChange::TooFew);
}

#[test]
fn only_writes_have_no_reads_to_compare() {
    let writes: Vec<Record> =
        recording(1).into_iter().map(|of| Record { op: Op::Write, ..of }).collect();
    let found = answer(writes.clone(), changed(&writes, |_| 2.0));
    assert_eq!((found.change, found.changed_for), (LatencyChange::Slower, None));
    assert!(found.groups.iter().all(|group| group.group != "reads"));
}

#[test]
fn the_first_screen_fits() {
    use forebay_show::terminal::{Extent, text};
    let a = recording(1);
    let late = |of: &Record| if of.at.0 >= 300_000 * MS && of.stream == 1 { 9.0 } else { 1.0 };
    for card in [card(a.clone(), changed(&a, late)), card(a.clone(), a)] {
        let screen = text(&page::page(&card), 80, Extent::FirstScreen);
        assert!(screen.lines().count() <= 24, "{screen}");
    }
}
