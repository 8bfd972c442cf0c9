//! Tests events in any order that a system may record. They must be paired like in a simple
//! reference implementation, and a truncated file must keep every pair that is complete before its
//! end.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use forebay_trace::open::open;
use forebay_trace::{Notes, Record};
use proptest::prelude::*;

/// Reads a text. Returns the records, the names of volumes and the notes.
fn read(text: &[u8], from: &str) -> Result<(Vec<Record>, Vec<String>, Notes), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    fs::write(&path, text).unwrap();
    let told = |error: forebay_trace::TraceError| error.to_string();
    let mut reader = open(&path, Some(from)).map_err(told)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).map_err(told)?;
        if batch.is_empty() {
            return Ok((all, reader.dictionary().volumes.clone(), reader.notes().clone()));
        }
        all.extend_from_slice(&batch);
    }
}

/// An event, with its time in microseconds, CPU, device, action, first sector and number of
/// sectors.
#[derive(Clone, Debug)]
struct Event {
    at_us: u64,
    cpu: u8,
    device: u8,
    action: char,
    sector: u64,
    sectors: u64,
}

impl Event {
    fn blkparse(&self) -> String {
        let Event { at_us, cpu, device, action, sector, sectors } = self;
        let (s, us) = (at_us / 1_000_000, at_us % 1_000_000);
        format!("8,{device} {cpu} 1 {s}.{us:06}000 7 {action} W {sector} + {sectors} [a]\n")
    }

    fn ftrace(&self) -> String {
        let Event { at_us, cpu, device, action, sector, sectors } = self;
        let (s, us) = (at_us / 1_000_000, at_us % 1_000_000);
        let (event, bytes) = match action {
            'Q' => ("block_bio_queue", ""),
            'D' => ("block_rq_issue", "512 () "),
            'R' => ("block_rq_requeue", "() "),
            _ => ("block_rq_complete", "() "),
        };
        let device = device * 16;
        format!(
            "a-7 [{cpu:03}] {s}.{us:06}: {event}: 8,{device} W {bytes}{sector} + {sectors} [a]\n"
        )
    }
}

/// The life of a request at one of the positions on a device.
#[derive(Clone, Debug)]
struct Life {
    cpu: u8,
    device: u8,
    place: u64,
    sectors: u64,
    gap_us: u64,
    took_us: u64,
    /// When the request is returned to the scheduler and when it is issued again, each relative to
    /// the previous event.
    again_us: Vec<(u64, u64)>,
    completes: bool,
}

fn life() -> impl Strategy<Value = Life> {
    let again = proptest::collection::vec((1..500u64, 1..2_000_000u64), 0..3);
    let times = (0..3000u64, 1..5000u64);
    (0..4u8, 0..3u8, 0..4u64, 1..9u64, times, again, prop::bool::weighted(0.95)).prop_map(
        |(cpu, device, place, sectors, (gap_us, took_us), again_us, completes)| Life {
            cpu,
            device,
            place,
            sectors,
            gap_us,
            took_us,
            again_us,
            completes,
        },
    )
}

type Request = (u8, u64, u64, u64, Option<u64>);

/// Returns the events in order of time, and the requests that they belong to.
fn events(lives: &[Life], arrival: char) -> (Vec<Event>, Vec<Request>) {
    let (mut events, mut requests, mut at_us) = (Vec::new(), Vec::new(), 1_000_000);
    // A position is reused only after its last request has completed.
    let mut free: BTreeMap<(u8, u64), u64> = BTreeMap::new();
    for life in lives {
        let Life { cpu, device, place, sectors, .. } = *life;
        at_us += life.gap_us + 1;
        let from_us = at_us.max(free.get(&(device, place)).copied().unwrap_or(0) + 1);
        let sector = place * 64;
        let mut push = |at_us, action| {
            events.push(Event { at_us, cpu, device, action, sector, sectors });
        };
        let mut now_us = from_us;
        push(now_us, arrival);
        if arrival == 'Q' {
            push(now_us + 1, 'D');
            now_us += 1;
        }
        for (back_us, again_us) in &life.again_us {
            push(now_us + back_us, 'R');
            now_us += back_us + again_us;
            push(now_us, 'D');
        }
        let end_us = now_us + life.took_us;
        if life.completes {
            push(end_us, 'C');
        }
        // If the request never completes, its position cannot be reused.
        free.insert((device, place), if life.completes { end_us } else { u64::MAX / 2 });
        if from_us < u64::MAX / 2 {
            let latency = life.completes.then_some((end_us - from_us) * 1000);
            requests.push((device, sector, sectors, from_us, latency));
        }
    }
    events.retain(|event| event.at_us < u64::MAX / 2);
    events.sort_by_key(|event| event.at_us);
    requests.sort_by_key(|request| request.3);
    (events, requests)
}

fn found(text: &str, from: &str, spread: u32) -> Vec<Request> {
    let (records, volumes, _) = read(text.as_bytes(), from).unwrap();
    let device = |volume: u32| -> u8 {
        let minor: u32 = volumes[volume as usize].strip_prefix("8,").unwrap().parse().unwrap();
        (minor / spread) as u8
    };
    let request = |record: &Record| {
        let (sector, sectors) = (record.offset / 512, u64::from(record.len) / 512);
        (device(record.volume), sector, sectors, record.at.0 / 1000, record.latency.map(|l| l.0))
    };
    records.iter().map(request).collect()
}

/// Makes times relative to the first request, and sorts requests with equal times.
fn from_first(mut requests: Vec<Request>) -> Vec<Request> {
    let first = requests.iter().map(|request| request.3).min().unwrap_or(0);
    for request in &mut requests {
        request.3 -= first;
    }
    requests.sort();
    requests
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_interleaving_is_paired_like_the_reference(
        lives in proptest::collection::vec(life(), 1..60),
        arrival in prop::sample::select(&['Q', 'D'][..]),
        swaps in proptest::collection::vec(0..1000usize, 0..20),
    ) {
        let (mut events, requests) = events(&lives, arrival);
        // Completions may be at most a minute late.
        prop_assume!(events.last().unwrap().at_us - events[0].at_us < 50_000_000);
        // Swap some events, as if they were in files of different CPUs.
        for swap in swaps {
            let at = swap % events.len();
            if at + 1 < events.len() {
                events.swap(at, at + 1);
            }
        }
        let expected = from_first(requests);
        let blkparse: String = events.iter().map(Event::blkparse).collect();
        prop_assert_eq!(from_first(found(&blkparse, "blkparse", 1)), expected.clone());
        let ftrace: String = events.iter().map(Event::ftrace).collect();
        prop_assert_eq!(from_first(found(&ftrace, "ftrace", 16)), expected);
    }
}

/// Formats in which a request consists of several lines, for which there are seeds.
const FORMATS: [&str; 7] = ["blkparse", "ftrace", "strace", "sysdig", "nbdkit", "qemu", "spdk"];

fn seeds(format: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(format);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Returns the properties of a request that truncation must not change.
fn key(record: &Record) -> (u64, u32, u8, Option<u64>) {
    (record.offset, record.len, record.op as u8, record.latency.map(|latency| latency.0))
}

#[test]
fn a_cut_at_any_byte_loses_no_pair_before_it() {
    for format in FORMATS {
        for text in seeds(format) {
            // The requests that are read from any number of complete lines. Later lines may show
            // that some of them are not separate requests.
            let place = |record: &Record| (record.offset, record.len, record.op);
            let ends = (0..=text.len()).filter(|&end| end > 0 && text[end - 1] == b'\n');
            let read_to = |end| read(&text[..end], format).map(|(records, ..)| records);
            let known: Vec<_> =
                ends.chain([text.len()]).flat_map(read_to).flatten().map(|r| place(&r)).collect();
            let mut before = Err(String::new());
            for cut in 0..=text.len() {
                let got = read_to(cut);
                if cut > 0 && text[cut - 1] == b'\n' {
                    before.clone_from(&got);
                }
                let Ok(expected) = &before else { continue };
                let got = got.unwrap_or_else(|told| panic!("{format}, {cut}: {told}"));
                let mut left: Vec<_> = got.iter().map(key).collect();
                for pair in expected.iter().filter(|record| record.latency.is_some()) {
                    let found = left.iter().position(|record| *record == key(pair));
                    left.swap_remove(found.unwrap_or_else(|| panic!("{format}, {cut}: {pair:?}")));
                }
                // A truncated number must not become part of a request.
                for record in &got {
                    assert!(known.contains(&place(record)), "{format}, {cut}: {record:?}");
                }
            }
        }
    }
}
