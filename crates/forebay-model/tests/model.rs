//! Tests the model as a whole: generated traces resemble the fitted one without being copies, and
//! any damage to the file is reported in one line.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_core::{Flags, Nanos, Op};
use forebay_model::Model;
use forebay_model::fit::{FitOptions, Fitter, Survey};
use forebay_model::generate::{GenerateOptions, Generator, Mechanism, Mechanisms};
use forebay_trace::Record;
use proptest::prelude::*;

fn fitted(records: &[Record], options: &FitOptions) -> Model {
    let mut survey = Survey::default();
    records.iter().for_each(|record| survey.add(record));
    let mut fitter = Fitter::new(survey, options);
    records.iter().for_each(|record| fitter.add(record));
    assert_eq!(fitter.agrees(), Ok(()));
    fitter.finish()
}

fn fit(records: &[Record]) -> Model {
    fitted(records, &FitOptions::default())
}

fn draw(model: &Model, seed: u64) -> Vec<Record> {
    Generator::new(model, GenerateOptions { seed, ..GenerateOptions::default() }).collect()
}

fn bundled() -> Vec<Record> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
    let mut reader = forebay_trace::open::open(&path, None).unwrap();
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            return records;
        }
        records.extend_from_slice(&batch);
    }
}

fn share(records: &[Record], of: impl Fn(&Record) -> bool) -> f64 {
    records.iter().filter(|record| of(record)).count() as f64 / records.len() as f64
}

fn sequential_share(records: &[Record]) -> f64 {
    let follows = |two: &[Record]| {
        two[0].volume == two[1].volume && two[0].offset + u64::from(two[0].len) == two[1].offset
    };
    records.windows(2).filter(|two| follows(two)).count() as f64 / records.len() as f64
}

fn blocks_used(records: &[Record]) -> f64 {
    let blocks = records.iter().flat_map(|record| {
        let end = record.offset + u64::from(record.len);
        (record.offset / 4096..end.div_ceil(4096)).map(|block| (record.volume, block))
    });
    blocks.collect::<std::collections::BTreeSet<_>>().len() as f64
}

#[test]
fn a_twin_of_the_bundled_trace_resembles_it() {
    let records = bundled();
    let model = fit(&records);
    let twin = draw(&model, 1);
    assert_eq!(twin.len(), records.len());
    assert!(twin.is_sorted_by_key(|record| record.at));
    assert_eq!(twin[twin.len() - 1].at, records[records.len() - 1].at);
    let bytes = |records: &[Record]| records.iter().map(|r| f64::from(r.len)).sum::<f64>();
    assert!((bytes(&twin) / bytes(&records) - 1.0).abs() < 0.01);
    let writes = |records: &[Record]| share(records, |record| record.op == Op::Write);
    assert!((writes(&twin) - writes(&records)).abs() < 1e-3);
    let sequential = (sequential_share(&twin), sequential_share(&records));
    assert!((sequential.0 - sequential.1).abs() < 0.10, "{sequential:?}");
    let used = blocks_used(&twin) / blocks_used(&records);
    assert!((used - 1.0).abs() < 0.10, "{used} of the ground");
    assert!(model.to_file().len() < 40 << 10);
}

/// Returns the share of requests that agree between two traces in operation, length and approximate
/// offset.
fn agreement(a: &[Record], b: &[Record]) -> f64 {
    let same = |(a, b): &(&Record, &Record)| {
        a.op == b.op && a.len == b.len && a.offset.abs_diff(b.offset) < 1 << 20
    };
    a.iter().zip(b).filter(same).count() as f64 / a.len() as f64
}

#[test]
fn the_same_seed_gives_the_same_and_another_gives_another() {
    let records = bundled();
    let model = fit(&records);
    let one = draw(&model, 1);
    assert_eq!(one, draw(&model, 1));
    let two = draw(&model, 2);
    let (seeds, copy) = (agreement(&one, &two), agreement(&one, &records));
    assert!(seeds < 0.2, "two seeds agree on {seeds}");
    assert!(copy <= seeds + 0.03, "trace and twin agree on {copy}, two seeds on {seeds}");
}

fn record(at_ns: u64, offset: u64, op: Op, len: u32) -> Record {
    let (at, flags) = (Nanos(at_ns), Flags::NONE);
    Record { at, offset, latency: None, len, stream: 0, volume: 0, op, flags }
}

/// Generates arbitrary requests on a few volumes, including flushes and trims.
fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let op = prop_oneof![Just(Op::Read), Just(Op::Write), Just(Op::Flush), Just(Op::Trim)];
    let one = (0u64..3_000_000, 0u64..1 << 34, 1u32..300_000, 0u32..3, 0u32..4, op);
    proptest::collection::vec(one, 1..400).prop_map(|list| {
        let mut at = 0;
        list.into_iter()
            .map(|(gap, place, len, volume, stream, op)| {
                at += gap;
                let (offset, len) = if op == Op::Flush { (0, 0) } else { (place / 512 * 512, len) };
                Record { volume, stream, ..record(at, offset, op, len) }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn twins_keep_volumes_duration_and_counts(records in any_records(), seed: u64) {
        let first = records[0].at.0;
        let records: Vec<Record> =
            records.iter().map(|r| Record { at: Nanos(r.at.0 - first), ..*r }).collect();
        let model = fit(&records);
        let twin = draw(&model, seed);
        prop_assert_eq!(twin.len(), records.len());
        prop_assert!(twin.is_sorted_by_key(|record| record.at));
        for record in &twin {
            let extent = model.volumes.volumes[record.volume as usize].extent_mib << 20;
            prop_assert!(record.offset + u64::from(record.len) <= extent);
            prop_assert!((record.len == 0) == (record.op == Op::Flush));
        }
        let ops = |records: &[Record]| share(records, |record| record.op == Op::Write);
        prop_assert_eq!(ops(&twin), ops(&records));
    }

    #[test]
    fn a_file_is_read_back_and_damage_is_detected(
        records in any_records(),
        at in 0usize..1 << 16,
        change in 1u8..,
    ) {
        let model = fit(&records);
        let mut file = model.to_file();
        let path = Path::new("a.model");
        prop_assert_eq!(Model::from_file(path, &file).unwrap(), model);
        let at = at % file.len();
        prop_assert!(Model::from_file(path, &file[..at]).is_err());
        file[at] ^= change;
        let told = Model::from_file(path, &file).unwrap_err().to_string();
        prop_assert!(told.starts_with("a.model") && told.lines().count() == 1, "{}", told);
    }

    /// With a correct checksum, damaged content is either refused or requests can be generated from
    /// it.
    #[test]
    fn content_is_refused_or_drawn_from(
        records in any_records(),
        changes in proptest::collection::vec((0usize..1 << 16, any::<u8>()), 1..4),
    ) {
        let mut content = fit(&records).content();
        for (at, byte) in changes {
            let at = at % content.len();
            content[at] = byte;
        }
        if let Ok(model) = Model::from_content(Path::new("a.model"), &content) {
            let options = GenerateOptions { requests: Some(500), ..GenerateOptions::default() };
            for record in Generator::new(&model, options) {
                let extent = model.volumes.volumes[record.volume as usize].extent_mib << 20;
                prop_assert!(record.offset + u64::from(record.len) <= extent);
            }
        }
    }
}

#[test]
fn old_models_and_other_files_are_distinguished() {
    let told = |file: &[u8]| Model::from_file(Path::new("m"), file).unwrap_err().to_string();
    assert!(told(b"{\"forebay_model\":1,\"requests\":3}").contains("an earlier Forebay"));
    assert!(told(b"forebay model 9\nxyz").contains("form 9"));
    assert!(told(b"forebay model 3\nxyz").contains("got a model of form 3"));
    assert!(told(b"").contains("an empty file") && told(b"at_ns,op").contains("something else"));
}

/// The file is a model written by an earlier Forebay, whose volumes had no gaps.
#[test]
fn a_model_of_form_4_is_read_and_written_as_the_current_one() {
    let path = Path::new("form-4.model");
    let old = Model::from_file(path, include_bytes!("old/form-4.model")).unwrap();
    let twin = draw(&old, 1);
    assert_eq!((twin.len(), old.requests, old.volumes.volumes.len()), (80, 80, 2));
    let file = old.to_file();
    assert!(file.starts_with(b"forebay model 5\n"));
    assert_eq!(Model::from_file(path, &file).unwrap(), old);
    // The checksum is verified first, in every format.
    let mut damaged = include_bytes!("old/form-4.model").to_vec();
    damaged[40] ^= 1;
    assert!(Model::from_file(path, &damaged).unwrap_err().to_string().contains("the sum"));
}

/// Returns reads and writes in hot spots of the 8 GiB that start at `base`, some of them
/// sequential.
fn spots(base: u64) -> Vec<Record> {
    let (mut state, mut at) = (5u64, 0);
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let spot = |n: u64| n * n % 61 * (128 << 20);
    (0..8_000)
        .map(|n| {
            if n % 4 == 0 {
                at = spot(random(9)) + random(1 << 13) * 4096;
            } else {
                at += 4096;
            }
            let op = if at >> 30 & 1 == 0 { Op::Read } else { Op::Write };
            record(n * 1_000_000, base + at, op, 4096)
        })
        .collect()
}

/// Returns the share of requests of one trace that would have to move to match the other's
/// distribution over 64 parts of 8 GiB starting at `base`, and the rest.
fn elsewhere(a: &[Record], b: &[Record], base: u64) -> f64 {
    let parts = |records: &[Record]| {
        let mut parts = [0f64; 65];
        for record in records {
            let part = record.offset.checked_sub(base).map_or(64, |at| (at >> 27).min(64));
            parts[part as usize] += 1.0 / records.len() as f64;
        }
        parts
    };
    parts(a).iter().zip(parts(b)).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

/// Adds distant requests to a trace and checks that this hardly changes the model.
#[test]
fn distant_requests_change_nothing_material() {
    let plain = spots(0);
    let model = fit(&plain);
    let off = elsewhere(&draw(&model, 1), &plain, 0);
    let far = |at: &[u64]| {
        let mut records = plain.clone();
        for (n, &offset) in (0..).zip(at) {
            let place = 1 + n * 7_900 / at.len();
            records.insert(place, record(records[place].at.0, offset, Op::Read, 4096));
        }
        records
    };
    let handful: Vec<u64> = (1..=5).map(|n| n << 42).collect();
    let many: Vec<u64> = (1..=90).map(|n| n << 38).collect();
    let hundreds: Vec<u64> = (1..=700).map(|n| (n << 40) + n * 37 % 11 * 4096).collect();
    let cases: [(&str, Vec<u64>); 7] = [
        ("1 TiB", vec![1 << 40]),
        ("1 PiB", vec![1 << 50]),
        ("8 EiB", vec![(1 << 63) - 4096]),
        ("the end", vec![u64::MAX - (2 << 20)]),
        ("a handful", handful),
        ("many", many),
        ("hundreds", hundreds),
    ];
    for (name, at) in cases {
        let records = far(&at);
        let with = fit(&records);
        assert_eq!(with.volumes.ranges(), model.volumes.ranges(), "{name}");
        let file = with.to_file();
        let more = 200 + 30 * at.len().min(300);
        assert!(file.len() < model.to_file().len() + more, "{name}: {}", file.len());
        assert_eq!(Model::from_file(Path::new("m"), &file).unwrap(), with, "{name}");
        let twin = draw(&with, 1);
        let beyond = |records: &[Record]| records.iter().filter(|r| r.offset >= 9 << 30).count();
        // The number of distant requests is within three standard deviations of that of independent
        // draws.
        let share = at.len() as f64 / records.len() as f64;
        let deviation = (at.len() as f64 * (1.0 - share)).sqrt();
        let off_by = beyond(&twin) as f64 - at.len() as f64;
        assert!(off_by.abs() <= 3.0 * deviation, "{name}: {} are far away", beyond(&twin));
        let own = elsewhere(&twin, &records, 0);
        assert!(own < off + 0.05, "{name}: {own} elsewhere, {off} without");
        let used = blocks_used(&twin) / blocks_used(&records);
        assert!((used - 1.0).abs() < 0.1, "{name}: {used} of the ground");
        let sequential = (sequential_share(&twin), sequential_share(&records));
        assert!((sequential.0 - sequential.1).abs() < 0.1, "{name}: {sequential:?}");
    }
}

#[test]
fn a_volume_may_be_used_only_at_its_end_or_in_two_places_far_apart() {
    for base in [0, 1 << 42, (1 << 63) - (9u64 << 30)] {
        let records = spots(base);
        let twin = draw(&fit(&records), 1);
        let off = elsewhere(&twin, &records, base);
        assert!(off < 0.1, "{base}: {off} elsewhere");
        assert!(twin.iter().all(|record| record.offset >= base), "{base}");
    }
    let far = 1u64 << 45;
    let mut both = spots(0);
    (0..).zip(&mut both).for_each(|(n, record)| record.offset += n / 100 % 2 * far);
    let twin = draw(&fit(&both), 1);
    let beyond = |records: &[Record]| share(records, |record| record.offset >= far);
    assert!((beyond(&twin) - beyond(&both)).abs() < 0.05, "{} beyond", beyond(&twin));
    let upper = |records: &[Record]| -> Vec<Record> {
        records.iter().filter(|record| record.offset >= far).copied().collect()
    };
    assert!(elsewhere(&upper(&twin), &upper(&both), far) < 0.15);
}

/// A flush has no place, regardless of the offset it is recorded with.
#[test]
fn a_flush_far_away_reaches_nowhere() {
    let mut records = spots(0);
    let reached = fit(&records).volumes.volumes[0].extent_mib;
    records[17] = Record { len: 0, offset: 1 << 60, op: Op::Flush, ..records[17] };
    assert_eq!(fit(&records).volumes.volumes[0].extent_mib, reached);
}

#[test]
fn a_smaller_budget_makes_a_smaller_model_that_still_draws() {
    let records = bundled();
    let model = fit(&records);
    let mut last = model.to_file().len();
    for budget in [12 << 10, 8 << 10, 6 << 10] {
        let (smaller, file) = model.clone().within(budget);
        assert!(file.len() <= budget && file.len() <= last, "{} of {budget}", file.len());
        last = file.len();
        let twin = draw(&smaller, 1);
        assert_eq!(twin.len(), records.len());
        let bytes = |records: &[Record]| records.iter().map(|r| f64::from(r.len)).sum::<f64>();
        assert!((bytes(&twin) / bytes(&records) - 1.0).abs() < 0.05);
        assert_eq!(Model::from_file(Path::new("m"), &file).unwrap(), smaller);
    }
}

#[test]
fn longer_runs_begin_again_and_intensity_shortens_gaps() {
    let records: Vec<Record> =
        (0..500).map(|n| record(n * 1_000_000, n % 50 * 8192, Op::Read, 4096)).collect();
    let model = fit(&records);
    let long = |intensity| -> Vec<Record> {
        let options =
            GenerateOptions { requests: Some(1700), intensity, ..GenerateOptions::default() };
        Generator::new(&model, options).collect()
    };
    let (plain, twice) = (long(1.0), long(2.0));
    assert_eq!((plain.len(), twice.len()), (1700, 1700));
    assert!(plain.is_sorted_by_key(|record| record.at));
    assert!(plain[1699].at.0.abs_diff(1_697_000_000) < 5_000_000, "{:?}", plain[1699].at);
    assert_eq!(plain[1699].at.0, twice[1699].at.0 * 2);
    let until = GenerateOptions { until: Some(Nanos(250_000_000)), ..GenerateOptions::default() };
    assert!(Generator::new(&model, until).count().abs_diff(250) < 30);
    assert!(until.has_end(&model) && !until.has_end(&fit(&records[..1])));
}

/// The trace is a Markov chain over four quarters. It stays in a quarter with probability 0.7 and
/// moves to the next with 0.3. Requests are reads of 4 KiB in even quarters and writes of 64 KiB in
/// odd ones.
#[test]
fn a_known_chain_comes_back_and_needs_its_transitions() {
    let (mut quarter, mut state) = (0u64, 9u64);
    let mut unit = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let quarter_bytes = 16u64 << 30;
    let mut records = vec![record(0, 4 * quarter_bytes - 4096, Op::Read, 4096)];
    for n in 1..20_000 {
        if unit() < 0.3 {
            quarter = (quarter + 1) % 4;
        }
        let place = (unit() * (quarter_bytes - 65_536) as f64) as u64 / 4096 * 4096;
        let (op, len) = if quarter % 2 == 0 { (Op::Read, 4096) } else { (Op::Write, 65_536) };
        records.push(record(n * 1_000_000, quarter * quarter_bytes + place, op, len));
    }
    let model = fitted(&records, &FitOptions { level: Some(1), ..FitOptions::default() });
    let stays = |mechanisms: Mechanisms| {
        let options = GenerateOptions { mechanisms, ..GenerateOptions::default() };
        let twin: Vec<Record> = Generator::new(&model, options).collect();
        let mut moves: BTreeMap<(u64, u64), f64> = BTreeMap::new();
        for two in twin.windows(2) {
            let of = (two[0].offset / quarter_bytes, two[1].offset / quarter_bytes);
            *moves.entry(of).or_default() += 1.0 / twin.len() as f64;
        }
        let kept: f64 = (0..4).map(|quarter| moves[&(quarter, quarter)]).sum();
        let on: f64 = (0..4).map(|quarter| moves[&(quarter, (quarter + 1) % 4)]).sum();
        (kept, on)
    };
    let (kept, on) = stays(Mechanisms::default());
    assert!((kept - 0.7).abs() < 0.05 && (on - 0.3).abs() < 0.05, "{kept} {on}");
    let (kept, _) = stays(Mechanisms::default().without(Mechanism::Transitions));
    assert!(kept < 0.6, "{kept} stay without transitions");
}

/// Returns a volume whose blocks are each written once.
fn filled(blocks: u64) -> Vec<Record> {
    // The order differs from that of the addresses.
    (0..blocks).map(|n| record(n * 1_000, n * 7 % blocks * 4096, Op::Write, 4096)).collect()
}

#[test]
fn ground_counts_as_new_again_when_the_trace_begins_again() {
    let records = filled(2_003);
    let model = fit(&records);
    let options = GenerateOptions { requests: Some(4_006), ..GenerateOptions::default() };
    let drawn: Vec<Record> = Generator::new(&model, options).collect();
    for cycle in drawn.chunks(2_003) {
        assert!(blocks_used(cycle) > 1_900.0, "{}", blocks_used(cycle));
    }
}

#[test]
fn streams_stay_as_long_as_they_did() {
    let mut records = filled(4_000);
    (0..).zip(&mut records).for_each(|(n, record)| record.stream = n / 50 % 4);
    let changes = |records: &[Record]| {
        records.windows(2).filter(|two| two[0].stream != two[1].stream).count() as f64
    };
    let twin = draw(&fit(&records), 1);
    let times = changes(&twin) / changes(&records);
    assert!((0.5..2.0).contains(&times), "{times} times as many changes");
}

#[test]
fn every_class_has_the_flags_that_it_had() {
    let mut records = filled(1_000);
    for (n, record) in (0u32..).zip(&mut records) {
        record.len = if n % 2 == 0 { 4096 } else { 65_536 };
        record.flags = Flags((n % 32) as u16);
    }
    let flags = |records: &[Record]| {
        let mut counts = BTreeMap::new();
        records.iter().for_each(|record| *counts.entry(record.flags.0).or_insert(0) += 1);
        counts
    };
    assert_eq!(flags(&draw(&fit(&records), 1)), flags(&records));
}

/// Returns a trace whose rate, mix and locations change over time.
fn changing() -> Vec<Record> {
    let request = |n: u64| {
        let at = if n < 3_000 { n * 50_000 } else { 150_000_000 + (n - 3_000) * 1_000 };
        let op = if n * 13 % 6_900 < n { Op::Write } else { Op::Read };
        record(at, n * 7_919 % 50_000 * 4096, op, 4096 + (n % 3) as u32 * 4096)
    };
    (0..6_900).map(request).collect()
}

#[test]
fn a_smaller_model_keeps_the_course_of_time_and_all_writes() {
    let records = changing();
    let writes = |records: &[Record]| records.iter().filter(|r| r.op == Op::Write).count();
    for kib in [64, 8, 6, 5, 4, 3, 2, 1] {
        let (model, _) = fit(&records).within(kib << 10);
        let twin = draw(&model, 1);
        assert_eq!((twin.len(), writes(&twin)), (records.len(), writes(&records)), "{kib} KiB");
        for part in 1..4 {
            let at = part * records.len() / 4;
            let (a, b) = (records[at].at.0 as f64, twin[at].at.0 as f64);
            assert!((a / b - 1.0).abs() < 0.35, "{kib} KiB: request {at} at {a} and {b}");
        }
    }
}
