//! What a model keeps of its trace beyond the weights of states: each trait of a source that has it
//! is there again in what is drawn.

use std::collections::HashMap;
use std::path::Path;

use forebay::model::check;
use forebay::model::fit::{self, FitOptions};
use forebay::model::generate::{GenerateOptions, Generator};
use forebay::model::state::Category;
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::{Dictionary, Notes, Reader, Record, Stream, TraceError};

use super::{chain, draw, fit, fitted, record};

/// The share of neighbours for which `of` answers true.
fn share(records: &[Record], of: impl Fn(&Record, &Record) -> bool) -> f64 {
    let count = records.windows(2).filter(|pair| of(&pair[0], &pair[1])).count();
    count as f64 / (records.len() - 1) as f64
}

/// Numbers without an order.
fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

#[test]
fn streams_stay_or_take_turns() {
    for each in [1, 100] {
        let mut records = chain(6000);
        records.iter_mut().zip(0u32..).for_each(|(record, n)| record.stream = n / each % 2);
        let drawn = draw(&fit(&records, 1), 1);
        let stay = |records: &[Record]| share(records, |a, b| a.stream == b.stream);
        assert!((stay(&drawn) - stay(&records)).abs() < 0.02, "{}", stay(&drawn));
    }
}

#[test]
fn flags_stay_with_their_requests() {
    let mut records = chain(6000);
    for (record, n) in records.iter_mut().zip(0u64..) {
        if record.op == Op::Write && scattered(n) % 10 < 3 {
            record.flags = Flags::SYNC;
        }
    }
    let flagged = |records: &[Record], op| {
        let of = records.iter().filter(|r| r.op == op && r.flags == Flags::SYNC);
        of.count() as f64 / records.iter().filter(|r| r.op == op).count() as f64
    };
    let drawn = draw(&fit(&records, 1), 1);
    assert_eq!(flagged(&drawn, Op::Read), 0.0);
    assert!((flagged(&drawn, Op::Write) - 0.3).abs() < 0.03, "{}", flagged(&drawn, Op::Write));
}

#[test]
fn sizes_come_in_rows_as_they_did() {
    for (each, low, high) in [(50, 0.85, 1.0), (1, 0.0, 0.1)] {
        let mut records = chain(6000);
        for (record, n) in records.iter_mut().zip(0u64..) {
            record.op = Op::Read;
            record.len = 512 * (1 + scattered(n / each) % 30) as u32;
        }
        let drawn = draw(&fit(&records, 1), 1);
        let rows = share(&drawn, |a, b| a.len == b.len);
        assert!((low..high).contains(&rows), "{each}: {rows}");
    }
}

#[test]
fn what_is_read_again_is_as_large_as_it_was() {
    let size = |place: u64| 512 * (1 + scattered(place + 7) % 30) as u32;
    let records: Vec<Record> = (0..8000u64)
        .map(|n| (n, scattered(n) % 300))
        .map(|(n, place)| record(n * 1_000_000, place << 24, Op::Read, size(place)))
        .collect();
    let drawn = draw(&fit(&records, 1), 1);
    let mut known: HashMap<u64, u32> = HashMap::new();
    let (mut again, mut alike) = (0.0, 0.0);
    for record in &drawn {
        if let Some(len) = known.insert(record.offset, record.len) {
            again += 1.0;
            alike += f64::from(u8::from(len == record.len));
        }
    }
    assert!(again > 7000.0 && alike / again > 0.5, "{again} {alike}");
}

#[test]
fn runs_go_on_with_the_stream_that_began_them() {
    // Two files read at once, each by a stream of its own.
    let records: Vec<Record> = (0..6000u64)
        .map(|n| {
            let stream = scattered(n) % 2;
            (n, stream)
        })
        .scan([0u64; 2], |ends, (n, stream)| {
            let offset = (stream << 33) + ends[stream as usize];
            ends[stream as usize] += 8192;
            let read = record(n * 1_000_000, offset, Op::Read, 8192);
            Some(Record { stream: stream as u32, ..read })
        })
        .collect();
    let drawn = draw(&fit(&records, 1), 1);
    let mut ends: HashMap<u64, u32> = HashMap::new();
    let (mut on, mut same) = (0.0, 0.0);
    for record in &drawn {
        if let Some(stream) = ends.remove(&record.offset) {
            on += 1.0;
            same += f64::from(u8::from(stream == record.stream));
        }
        ends.insert(record.offset + u64::from(record.len), record.stream);
    }
    assert!(on > 5000.0 && same / on > 0.95, "{on} {same}");
}

#[test]
fn a_flush_is_in_the_range_of_the_request_before() {
    let mut records = vec![record(0, super::EXTENT - 4096, Op::Write, 4096)];
    for n in 1..2000u64 {
        let op = if n % 4 == 0 { Op::Flush } else { Op::Write };
        let (offset, len) = if op == Op::Flush { (0, 0) } else { ((50 << 30) + (n << 20), 4096) };
        records.push(record(n * 1_000_000, offset, op, len));
    }
    let model = fit(&records, 1);
    for state in &model.parts[0].states {
        assert_eq!(state.0, "3", "{:?}", Category(state.1).op());
    }
    let flushes = draw(&model, 1).iter().filter(|record| record.op == Op::Flush).count();
    assert_eq!(flushes, 499);
}

#[test]
fn times_are_multiples_of_what_they_were_multiples_of() {
    let mut records = chain(4000);
    records.iter_mut().for_each(|record| record.at.0 = record.at.0 / 100_000 * 100_000);
    for period in [None, Some(Nanos(1_000_000_000))] {
        let drawn = draw(&fitted(&records, |options| options.period = period), 1);
        assert!(drawn.iter().all(|record| record.at.0 % 100_000 == 0));
        assert!(drawn.iter().any(|record| record.at.0 % 1_000_000 != 0));
    }
}

#[test]
fn intensity_and_length_are_as_asked() {
    let model = fit(&chain(6000), 1);
    let whole = draw(&model, 1);
    let last = whole[5999].at.0;
    let faster = GenerateOptions { seed: 1, intensity: 4.0, ..GenerateOptions::default() };
    let fast: Vec<Record> = Generator::new(&model, faster).collect();
    assert!(fast.len() == 6000 && fast[5999].at.0.abs_diff(last / 4) <= 1);
    let until = Some(Nanos(last / 2));
    let half = GenerateOptions { seed: 1, until, ..GenerateOptions::default() };
    let half: Vec<Record> = Generator::new(&model, half).collect();
    assert!(half[..] == whole[..half.len()] && half[half.len() - 1].at.0 <= last / 2);
    assert!(whole[half.len()].at.0 > last / 2);
}

#[test]
fn parts_that_are_alike_are_not_drawn_alike() {
    let mut records = Vec::new();
    for (n, read) in chain(2000).into_iter().enumerate() {
        for stream in 0..2 {
            records.push(Record { stream, offset: read.offset + (n as u64 % 3) * 4096, ..read });
        }
    }
    records.iter_mut().for_each(|r| r.offset = r.offset.min(super::EXTENT - (1 << 20)));
    let drawn = draw(&fitted(&records, |options| options.by_stream = true), 1);
    let of = |stream| -> Vec<u64> {
        drawn.iter().filter(|r| r.stream == stream).map(|r| r.offset).collect()
    };
    assert!(of(0).len() == 2000 && of(0) != of(1));
}

#[test]
fn names_are_kept_only_where_they_are_asked_for() {
    let mut records = chain(600);
    records.iter_mut().zip(0u32..).for_each(|(r, n)| (r.stream, r.volume) = (n % 3, n % 2));
    let opening = || Ok(rows(&records, &["alpha", "beta", "delta"], &["home", "var"]));
    for names in [false, true] {
        let options = FitOptions { level: Some(1), names, ..FitOptions::default() };
        let model = fit::fit(Path::new("t"), opening, &options, |_| ()).unwrap().model;
        let told =
            ["alpha", "beta", "delta", "home", "var"].map(|name| model.json().contains(name));
        assert_eq!(told, [names; 5]);
        let of = |name: &str| names.then(|| name.to_string());
        assert_eq!([0, 1].map(|at| model.volumes[at].name.clone()), ["home", "var"].map(of));
        assert_eq!([0, 2].map(|at| model.streams[at].name.clone()), ["alpha", "delta"].map(of));
        let said = model.reveals().concat();
        assert!(said.contains(if names { "names: of volumes and streams" } else { "names: none" }));
    }
}

#[test]
fn the_level_that_is_chosen_is_one_that_keeps_the_disk_as_busy() {
    let records = chain(3000);
    let opening = || Ok(rows(&records, &["a"], &[""]));
    let options = FitOptions::default();
    let fitted = fit::fit(Path::new("t"), opening, &options, |_| ()).unwrap();
    let tried = &fitted.tried;
    assert!(tried.levels.iter().map(|level| level.0).eq(1..=4));
    let off = |level: &(u8, f64)| (level.1 / tried.trace_iops - 1.0).abs();
    let close = tried.levels.iter().rev().find(|level| off(level) <= 0.03);
    let nearest = tried.levels.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
    // Requests fall everywhere: there is no room for a fourth level.
    let expected = close.or(nearest).map(|level| level.0.min(3));
    assert_eq!(Some(fitted.model.level), expected, "{tried:?}");
}

#[test]
fn what_is_fitted_can_be_read_again_or_is_refused() {
    let fit = |at: [u64; 3], offset: u64| {
        let mut records = at.map(|at| record(at, 0, Op::Read, 4096)).to_vec();
        records[1].offset = offset;
        let opening = || Ok(rows(&records, &["a"], &[""]));
        let options = FitOptions { level: Some(2), ..FitOptions::default() };
        fit::fit(Path::new("t"), opening, &options, |_| ()).map(|fitted| fitted.model)
    };
    // Months between requests, and all at once.
    for at in [[0, 9_100_000_000_000_000_000, 9_200_000_000_000_000_000], [5, 5, 5]] {
        let model = fit(at, 1 << 40).unwrap();
        assert!(check::parse(Path::new("m.json"), model.json().as_bytes()).unwrap() == model);
    }
    let said = fit([0, 1, 2], 1 << 62).unwrap_err().to_string();
    assert!(
        said.starts_with("t: got a trace whose model would have volumes[0].extent_mib"),
        "{said}"
    );
}

/// A trace in memory.
struct Rows(Vec<Record>, Dictionary, Notes);

fn rows(records: &[Record], streams: &[&str], volumes: &[&str]) -> Box<dyn Reader> {
    let stream = |name: &&str| Stream { thread: None, process: None, name: name.to_string() };
    let dictionary = Dictionary {
        streams: streams.iter().map(stream).collect(),
        volumes: volumes.iter().map(|name| name.to_string()).collect(),
    };
    Box::new(Rows(records.to_vec(), dictionary, Notes::default()))
}

impl Reader for Rows {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        *batch = std::mem::take(&mut self.0);
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        &self.1
    }

    fn notes(&self) -> &Notes {
        &self.2
    }
}

#[test]
fn write_back_workers_are_one_stream() {
    let mut records = chain(600);
    records.iter_mut().zip(0u32..).for_each(|(record, n)| record.stream = n % 3);
    let streams = ["kworker/0:1", "java", "kworker/1:2"];
    let opening = || Ok(rows(&records, &streams, &["home"]));
    let options = FitOptions { level: Some(1), names: true, ..FitOptions::default() };
    let model = fit::fit(Path::new("t"), opening, &options, |_| ()).unwrap().model;
    let told: Vec<_> = model.streams.iter().map(|s| (s.name.as_deref(), s.requests)).collect();
    assert_eq!(told, [(Some("write-back"), 400), (Some("java"), 200)]);
}
