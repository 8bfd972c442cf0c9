//! Tests the reading of blktrace binaries on records made here: both byte orders, damage, copies.

use std::fs;
use std::path::PathBuf;

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::formats::blktrace::Blktrace;
use forebay_trace::open::open;
use forebay_trace::{Dictionary, Notes, Reader, Record, Stream};

/// Returns a record in little-endian order.
pub(super) fn record(
    sequence: u32,
    time: u64,
    action: u32,
    sector: u64,
    bytes: u32,
    pdu: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0x6561_7407, sequence] {
        out.extend_from_slice(&u32::to_le_bytes(word));
    }
    out.extend_from_slice(&time.to_le_bytes());
    out.extend_from_slice(&sector.to_le_bytes());
    for word in [bytes, action, 77, 8 << 20 | 16, 0, (pdu.len() as u32) << 16] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(pdu);
    out
}

/// Returns the same records as written by a machine with the other byte order.
fn big_endian(records: &[u8]) -> Vec<u8> {
    let mut out = records.to_vec();
    let mut at = 0;
    while at < out.len() {
        let payload = usize::from(u16::from_le_bytes([out[at + 46], out[at + 47]]));
        let fields = [4, 4, 8, 8, 4, 4, 4, 4, 4, 2, 2];
        let mut field = at;
        for size in fields {
            out[field..field + size].reverse();
            field += size;
        }
        at += 48 + payload;
    }
    out
}

fn read(files: &[(&str, Vec<u8>)]) -> Result<(Vec<Record>, Notes, Dictionary), String> {
    let open = |(name, bytes): &(&str, Vec<u8>)| {
        let input: Box<dyn std::io::Read + Send> = Box::new(std::io::Cursor::new(bytes.clone()));
        (PathBuf::from(name), input)
    };
    let files = files.iter().map(open).collect();
    let mut reader = Blktrace::from_readers(files).map_err(|error| error.to_string())?;
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).map_err(|error| error.to_string())?;
        if batch.is_empty() {
            return Ok((records, reader.notes().clone(), reader.dictionary().clone()));
        }
        records.extend_from_slice(&batch);
    }
}

/// Returns records of a thread's name, a read with a control group in its payload, a write with
/// FUA, a discard over 1 GiB, and their completions.
fn small() -> Vec<u8> {
    [
        record(1, 10, 0x0811_0101, 800, 8192, &[1; 8]),
        record(2, 11, 0x901a_0001, 64, 4096, &[]),
        record(3, 12, 0x2012_0001, 4096, 3 << 30, &[]),
        record(0, 13, 0x0400_0000, 9, 9, b"java\0garbage...."),
        record(0, 13, 0x0400_0002, 9, 9, b"a message"),
        record(4, 20, 0x0881_0108, 808, 4096, &[1; 8]),
        record(5, 21, 0x0881_0008, 800, 4096, &[]),
        record(6, 30, 0x808a_0008, 64, 4096, &[]),
        record(7, 40, 0x2082_0008, 4096, 3 << 30, &[]),
    ]
    .concat()
}

#[test]
fn both_byte_orders_give_the_same() {
    let little = read(&[("s.blktrace.0", small())]).unwrap();
    let (records, notes, dictionary) = &little;
    let seen: Vec<_> =
        records.iter().map(|r| (r.op, r.at.0, r.offset, r.len, r.latency.map(|l| l.0))).collect();
    assert_eq!(
        seen,
        [
            (Op::Read, 0, 800 * 512, 8192, Some(11)),
            (Op::Write, 1, 64 * 512, 4096, Some(19)),
            (Op::Trim, 2, 4096 * 512, 3 << 30, Some(28)),
        ]
    );
    assert_eq!(records[0].flags, Flags::READAHEAD);
    assert_eq!(records[1].flags, Flags::SYNC.with(Flags::FUA).with(Flags::META));
    let stream = Stream { thread: Some(77), process: None, name: "java".to_owned() };
    assert_eq!(dictionary.streams, [stream]);
    assert!(notes.warnings.is_empty(), "{notes:?}");
    let big = read(&[("s.blktrace.0", big_endian(&small()))]).unwrap();
    assert_eq!(little, big);
}

/// Returns the record with its device replaced.
fn at(device: u32, mut record: Vec<u8>) -> Vec<u8> {
    record[36..40].copy_from_slice(&device.to_le_bytes());
    record
}

#[test]
fn a_request_of_a_volume_above_another_counts_once() {
    const VOLUME: u32 = 253 << 20;
    // The payload of a remap contains the device above, the device below, and the sector above.
    let payload = [&VOLUME.to_be_bytes()[..], &[0; 4], &800u64.to_be_bytes()].concat();
    for grouped in [false, true] {
        // The id of a control group may precede the payload.
        let group = [7; 8];
        let before: &[u8] = if grouped { &group } else { &[] };
        let remap = 0x0012_000f | u32::from(grouped) << 8;
        let records = [
            at(VOLUME, record(1, 10, 0x0012_0001, 800, 4096, &[])),
            record(2, 11, remap, 2848, 4096, &[before, &payload].concat()),
            record(3, 12, 0x0012_0001, 2848, 4096, &[]),
            record(4, 30, 0x0082_0008, 2848, 4096, &[]),
            at(VOLUME, record(5, 31, 0x0082_0008, 800, 4096, &[])),
        ]
        .concat();
        for bytes in [records.clone(), big_endian(&records)] {
            let (records, notes, dictionary) = read(&[("s.blktrace.0", bytes)]).unwrap();
            let [request] = records[..] else { panic!("{records:?}") };
            assert_eq!((request.offset, request.latency), (2848 * 512, Some(Nanos(18))));
            assert_eq!(dictionary.volumes, ["8,16"]);
            assert!(notes.warnings[0].starts_with("volume 253,0 is a layer above volume 8,16"));
        }
    }
}

#[test]
fn damage_is_named_with_its_place() {
    let fails = |bytes: Vec<u8>, parts: &[&str]| {
        let error = read(&[("s.blktrace.0", bytes)]).err().unwrap();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    fails(vec![], &["s.blktrace.0", "nothing"]);
    fails(b"0,1,2,R,0.5\n".to_vec(), &["byte 0", "bytes 302c312c"]);
    fails(small().split_off(1), &["byte 0", "bytes 746165"]);
    let first = record(1, 10, 0x0811_0001, 800, 8192, &[]);
    let foreign = [&first[..], &[0xee; 48]].concat();
    fails(foreign, &["byte 48", "got bytes eeeeeeee", "expected a blktrace record"]);
    let newer = [&[8], &first[1..]].concat();
    fails(newer, &["byte 0", "bytes 08746165", "version 7"]);
    let absurd = record(1, 10, 0x0811_0001, 800, (1 << 30) + 512, &[]);
    fails([&first[..], &absurd[..]].concat(), &["byte 48", "1073742336 bytes", "1 GiB"]);
    fails(record(1, 10, 0x0811_0001, 1 << 55, 512, &[]), &["sector 36028797018963968"]);
    fails([first.clone(), big_endian(&first)].concat(), &["byte 48"]);
}

#[test]
fn what_can_be_kept_is_kept_and_counted() {
    let first = record(1, 10, 0x0811_0001, 800, 8192, &[]);
    let warned = |bytes: Vec<u8>, part: &str| {
        let (records, notes, _) = read(&[("s.blktrace.0", bytes)]).unwrap();
        assert_eq!(records.len(), 1);
        assert!(notes.warnings.iter().any(|warning| warning.contains(part)), "{notes:?}");
        notes
    };
    warned([&first[..], &first[..20]].concat(), "byte 48: the last record is truncated");
    let named = record(2, 11, 0x0400_0000, 0, 0, b"java\0\0\0\0");
    warned([&first[..], &named[..52]].concat(), "byte 48: the last record is truncated");
    warned([&first[..], &[0; 100]].concat(), "100 zero bytes from byte 48");
    let zero = record(2, 11, 0x0811_0001, 800, 0, &[]);
    assert_eq!(warned([first.clone(), zero].concat(), "has no completions").rows_skipped, 1);

    let files = [("s.blktrace.0", vec![]), ("s.blktrace.3", first)];
    let (records, notes, _) = read(&files).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(notes.warnings[0], "s.blktrace.0: empty");
    assert!(notes.warnings[1].contains("CPU 1-2:"), "{notes:?}");
}

#[test]
fn times_that_run_backwards_are_sorted_or_raised() {
    let at = |time| record(1, time, 0x0811_0001, 8 * time, 4096, &[]);
    let (records, notes, _) = read(&[("s", [at(30), at(10), at(20)].concat())]).unwrap();
    let times: Vec<_> = records.iter().map(|record| (record.at.0, record.offset)).collect();
    assert_eq!(times, [(0, 10 * 4096), (10, 20 * 4096), (20, 30 * 4096)]);
    assert_eq!(notes.rows_late, 0);
    let many: Vec<u8> = (1000..3000).chain([5]).flat_map(at).collect();
    let (records, notes, _) = read(&[("s", many)]).unwrap();
    assert_eq!((records.len(), notes.rows_late), (2001, 1));
    assert!(records.is_sorted_by_key(|record| record.at));
}

/// Opens one file of a set as users do, with this share of damaged records.
fn opened(bytes: &[u8], share: &str) -> Result<(Vec<Record>, Notes), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.blktrace.0");
    fs::write(&path, bytes).unwrap();
    let told = |error: forebay_trace::TraceError| error.to_string();
    let mut reader = open(&path, Some(&format!("bad-rows:{share}:"))).map_err(told)?;
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).map_err(told)?;
        if batch.is_empty() {
            return Ok((records, reader.notes().clone()));
        }
        records.extend_from_slice(&batch);
    }
}

/// Returns 2000 reads and their completions; a name with a payload follows every tenth.
fn long() -> Vec<Vec<u8>> {
    let request = |n: u64| {
        let name = record(0, n * 100, 0x0400_0000, 0, 0, b"java\0\0\0\0");
        let mut both = vec![
            record(1, n * 100, 0x0811_0001, n * 8, 4096, &[]),
            record(2, n * 100 + 50, 0x0881_0008, n * 8, 4096, &[]),
        ];
        both.extend(n.is_multiple_of(10).then_some(name));
        both
    };
    (0..2000).flat_map(request).collect()
}

#[test]
fn damage_in_the_middle_is_skipped_up_to_the_next_record() {
    let records = long();
    let whole = records.concat();
    let (all, _) = opened(&whole, "0").unwrap();
    assert_eq!(all.len(), 2000);
    let at: usize = records[..2001].iter().map(Vec::len).sum();
    for (from, bytes, least) in [
        (at, vec![0xee; 48], 1999),
        (at, vec![0; 480], 1990),
        // A magic number, and the first byte of another record.
        (at + 1, vec![0xee; 1], 1999),
        (at + 3, 0x6561_7407u32.to_le_bytes().to_vec(), 1999),
        // The length of a payload, and the length of a request.
        (at + 46, vec![0xff; 2], 1999),
        (at + 24, vec![0xff; 4], 1999),
        (at + 17, vec![0xee; 100], 1997),
    ] {
        let mut damaged = whole.clone();
        damaged[from..from + bytes.len()].copy_from_slice(&bytes);
        let (some, notes) =
            opened(&damaged, "1%").unwrap_or_else(|e| panic!("{from} {bytes:?}: {e}"));
        assert!(
            (least..=2000).contains(&some.len()),
            "{from} {bytes:?}: {} of 2000, {notes:?}",
            some.len()
        );
        assert!(notes.rows_bad > 0 && notes.rows_bad < 12, "{notes:?}");
        let note = notes
            .warnings
            .iter()
            .find(|note| note.contains("damaged and left out (1 part at byte"));
        let is_short = |note: &String| note.starts_with(|sign: char| sign.is_ascii_digit());
        assert!(note.is_some_and(is_short), "a single file need not be named: {notes:?}");
        assert!(opened(&damaged, "0").is_err());
    }
    // Bytes that were lost or added.
    for (lost, added) in [(1, 0), (48, 0), (61, 0), (0, 1), (0, 4096)] {
        let damaged =
            [&whole[..at + 20], &vec![0xee; added][..], &whole[at + 20 + lost..]].concat();
        let (some, _) = opened(&damaged, "5%").unwrap();
        assert!((1996..=2000).contains(&some.len()), "{lost} {added}: {}", some.len());
    }
    let mut hollow = whole.clone();
    hollow[20_000..40_000].fill(0);
    let error = opened(&hollow, "1%").unwrap_err();
    assert!(
        error.contains("byte ")
            && error.contains("cannot be read; at most 1 % (and always one row) is skipped"),
        "{error}"
    );
    assert!(opened(&hollow, "20%").unwrap().0.len() > 1500);
}

/// The first record determines the byte order, and by it the format is recognized.
#[test]
fn a_damaged_beginning_is_skipped() {
    let records = long();
    for whole in [records.concat(), big_endian(&records.concat())] {
        for damaged in [1, 3, 40, 48, 100, 1000] {
            let mut bytes = whole.clone();
            bytes[..damaged].fill(0xee);
            let (some, notes) = opened(&bytes, "5%").unwrap();
            assert!((1985..=2000).contains(&some.len()), "{damaged}: {}", some.len());
            let is_told = |note: &String| note.contains("damaged and left out (1 part at byte 0)");
            assert!(notes.rows_bad > 0 && notes.warnings.iter().any(is_told), "{notes:?}");
            assert!(opened(&bytes, "0").is_err());
        }
        let (some, _) = opened(&whole[7..], "1%").unwrap();
        assert_eq!(some.len(), 1999);
    }
}

#[test]
fn a_copied_file_counts_once() {
    let (records, other) = (long(), record(1, 5, 0x0811_0001, 1 << 20, 4096, &[]));
    let file = |cpu: u32, bytes: &[u8]| (format!("s.blktrace.{cpu}"), bytes.to_vec());
    let told = |files: &[(String, Vec<u8>)]| {
        let files: Vec<_> = files.iter().map(|(name, bytes)| (&**name, bytes.clone())).collect();
        let (records, notes, _) = read(&files).unwrap();
        (
            records,
            notes
                .warnings
                .into_iter()
                .filter(|note| note.contains("a copy of the other"))
                .collect(),
        )
    };
    let whole = records.concat();
    let (once, notes): (_, Vec<String>) = told(&[file(0, &whole), file(1, &other)]);
    assert_eq!((once.len(), notes.len()), (2001, 0));
    let (twice, notes) = told(&[file(0, &whole), file(1, &other), file(2, &whole)]);
    assert!(once == twice);
    let expected = "s.blktrace.2: 4000 events are also in s.blktrace.0, ";
    assert!(notes.len() == 1 && notes[0].starts_with(expected), "{notes:?}");
    // A copy of a part.
    let half = records[..2100].concat();
    let (twice, notes) = told(&[file(0, &half), file(1, &other), file(2, &whole)]);
    assert!(once == twice && notes.len() == 1, "{notes:?}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(forebay_testing::longer(40) as u32))]

    /// Bytes that change at one spot cost a few requests.
    #[test]
    fn one_damaged_spot_costs_a_few_requests(from in 0.0..1.0f64, bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 1..200)) {
        let whole = long().concat();
        let from = 4800 + ((whole.len() - 5800) as f64 * from) as usize;
        let mut damaged = whole.clone();
        damaged[from..from + bytes.len()].copy_from_slice(&bytes);
        let (some, _) = opened(&damaged, "5%").unwrap();
        proptest::prop_assert!((1985..=2006).contains(&some.len()), "{}", some.len());
    }
}

/// After truncation at any byte, or with bits flipped, reading gives an error or records, but never
/// a panic.
#[test]
fn no_bytes_make_it_panic() {
    let whole = small();
    for end in 0..whole.len() {
        let _ = read(&[("s", whole[..end].to_vec())]);
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            let _ = read(&[("s", damaged)]);
        }
    }
}

/// The kernel writes the number of an error, such as -5, in 16 bits.
#[test]
fn a_completion_with_an_error_gives_no_latency() {
    let (queue, mut end) = (record(1, 10, 0x0811_0001, 800, 4096, &[]), Vec::new());
    end.extend(record(2, 20, 0x0881_0008, 800, 4096, &[]));
    end[44..46].copy_from_slice(&(-5i16).to_le_bytes());
    let bytes = [queue, end].concat();
    for bytes in [big_endian(&bytes), bytes] {
        let (records, notes, _) = read(&[("s", bytes)]).unwrap();
        assert_eq!((records.len(), records[0].latency), (1, None));
        assert_eq!(notes.warnings, ["1 request failed, so its latency is treated as unknown"]);
    }
}

/// Requests overlap at random, many of them never complete, and one comes an impossible time later.
#[test]
fn memory_and_time_stay_bounded_when_nothing_completes() {
    let mut bytes = Vec::new();
    for i in 0..300_000u64 {
        let sector = i.wrapping_mul(0x9e37_79b9) % (1 << 24);
        bytes.extend(record(1, i * 1000, 0x0811_0001, sector, 1 << 20, &[]));
        if i % 4 == 0 {
            bytes.extend(record(1, i * 1000, 0x0881_0008, sector, 4096, &[]));
        }
    }
    let (records, notes, _) = read(&[("s", bytes)]).unwrap();
    assert_eq!(records.len(), 300_000);
    assert!(notes.warnings[0].contains("have no completion"), "{notes:?}");
}
