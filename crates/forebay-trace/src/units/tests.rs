use forebay_ask::{Spelling, spelled};

use super::*;
use crate::formats::tests::{drain, input, message, read};
use crate::formats::{Format, Input};

type Open = fn(Input) -> Result<Box<dyn Reader>, TraceError>;

fn checked(format: &str, input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let listed = Format::named(format).unwrap();
    let path = input.path.clone();
    let doubt = Doubt::of(format);
    Ok(Box::new(Checked::new(listed.open(input)?, &path, doubt)))
}

const SPC: Open = |input| checked("spc", input);

/// Returns rows in SPC format at these times in microseconds.
fn rows(times_us: impl Iterator<Item = u64>, len: u64) -> Vec<u8> {
    let row = |(n, us): (usize, u64)| {
        format!("0,{},{len},R,{}.{:06}\n", n * 7, us / 1_000_000, us % 1_000_000)
    };
    times_us.enumerate().map(row).collect::<String>().into_bytes()
}

/// Returns the pseudo-random number with index `n`.
fn drawn(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}

#[test]
fn honest_traces_pass() {
    let even = rows((0..2000).map(|n| n * 10_000_000), 512);
    let whole_seconds = rows((0..2000).map(|n| n / 3 * 40_000_000), 512);
    let quiet_seconds = rows((0..2000).map(|n| (n * 3 + drawn(n) % 3) * 1_000_000), 512);
    let idle_with_bursts =
        rows((0..2000).map(|n| n / 4 * 3_600_000_000 + n * 100 + drawn(n) % 90), 512);
    let fast = rows((0..2000).map(|n| n * 1_000_000 / 3_000_000), 4096);
    let short = rows((0..900).map(|n| n * 60_000_000 + drawn(n) % 50_000_000), 512);
    let together = rows((0..2000).map(|_| 0), 1 << 20);
    for text in [even, whole_seconds, quiet_seconds, idle_with_bursts, fast, short, together] {
        let (records, _, notes) = read(SPC, &text);
        assert!(records.len() >= 900 && notes.warnings.is_empty(), "{notes:?}");
    }
}

#[test]
fn impossible_values_are_rejected() {
    let slow = rows((0..2000).map(|n| n * 2_000_000 + drawn(n) % 1_900_000), 512);
    let fast = rows(0..2000, 65_536);
    let bytes = rows((0..2000).map(|n| n * 1000), 8);
    for (text, expected) in
        [(slow, "above 969 ms"), (fast, "65.6 GB/s"), (bytes, "lengths are likely in sectors")]
    {
        let message = message(SPC, &text);
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("if the units are right, --columns volume:number,"));
    }
}

#[test]
fn declared_units_cause_one_warning() {
    let text = rows((0..70_000).map(|n| n * 2_000_000 + drawn(n) % 1_900_000), 512);
    let inner = Format::named("spc").unwrap().open(input(&text)).unwrap();
    let doubt = Doubt { refused: Rejection::None, ..Doubt::of("spc") };
    let checked = Checked::new(inner, Path::new("trace"), doubt);
    let (records, _, notes) = drain(Box::new(checked)).unwrap();
    assert_eq!((records.len(), notes.warnings.len()), (70_000, 1));
}

#[test]
fn declared_units_that_no_drive_could_have_are_refused_unless_they_are_sure() {
    let told = |columns: &str, text: &[u8]| {
        let columns: Columns = columns.parse().unwrap();
        let inner = crate::formats::presets::open_columns(&columns, input(text)).unwrap();
        let checked = Checked::new(inner, Path::new("trace"), Doubt::declared(&columns));
        drain(Box::new(checked)).map(|(_, _, notes)| notes.warnings.len())
    };
    let declared = "at:us,offset:sectors,len:sectors,op";
    let fast: String = (0..2000).map(|n| format!("{n},{n},256,R\n")).collect();
    let message = told(declared, fast.as_bytes()).unwrap_err().to_string();
    assert!(message.contains("131 GB/s"), "{message}");
    assert!(message.contains("likely in ms") && message.contains("units=sure"), "{message}");
    assert_eq!(told(&format!("{declared},units=sure"), fast.as_bytes()).unwrap(), 1);
    // A trace in which nineteen of twenty gaps last seconds is odd but possible.
    let slow: String =
        (0..2000u64).map(|n| format!("{},{n},8,R\n", n * 2_000_000 + drawn(n) % 900_000)).collect();
    assert_eq!(told(declared, slow.as_bytes()).unwrap(), 1);
}

/// Reads a text with a declaration. Returns the notes or the error message.
fn told(columns: &str, text: &str) -> Result<Vec<String>, String> {
    let columns: Columns = columns.parse().unwrap();
    let inner = crate::formats::presets::open_columns(&columns, input(text.as_bytes())).unwrap();
    let checked = Checked::new(inner, Path::new("trace"), Doubt::declared(&columns));
    let spell = |text: &String| spelled(text, Spelling::Command);
    drain(Box::new(checked))
        .map(|(_, _, notes)| notes.warnings.iter().map(spell).collect())
        .map_err(|error| spell(&error.to_string()))
}

/// Returns rows with offsets in blocks of 4 KiB. Every `run`-th request begins a new run.
fn paged(count: u64, run: u64, len_unit: u64) -> String {
    let mut place = 0;
    let row = |n: u64| {
        if n.is_multiple_of(run) {
            place = drawn(n * 3 + 1) % 200_000_000;
        }
        let (from, blocks) = (place, 1 << (drawn(n) % 5));
        place += blocks;
        format!("{},{from},{},R\n", every_ms(n), blocks * 4096 / len_unit)
    };
    (0..count).map(row).collect()
}

#[test]
fn offsets_in_blocks_of_4_kib_are_doubted() {
    for count in [20, 50, 500, 3000] {
        for run in [1, 2, 8] {
            let text = paged(count, run, 1);
            let case = format!("{count}, {run}");
            let wrong = told("at:ms,offset:sectors,len,op", &text);
            let message = wrong.as_ref().map_or_else(Clone::clone, |notes| notes.join("; "));
            assert!(message.contains("the column may count blocks of 4 KiB"), "{case}: {message}");
            assert!(message.contains("--columns at:ms,offset:pages,len,op"), "{case}: {message}");
            assert!(wrong.is_ok() || run > 1, "{case}: {message}");
            assert!(wrong.is_err() || run < 8 || count < 50, "{case}: {message}");
            assert_eq!(told("at:ms,offset:pages,len,op", &text), Ok(vec![]), "{case}");
        }
    }
    // A partition that begins between pages, and a program that writes single sectors.
    let shifted: String = (0..500)
        .map(|n| format!("{},{},4096,R\n", every_ms(n), drawn(n) % 100_000 * 8 + 63))
        .collect();
    let fine: String =
        (0..500).map(|n| format!("{},{},{},R\n", every_ms(n), drawn(n), 512 << (n % 4))).collect();
    for text in [shifted, fine] {
        assert_eq!(told("at:ms,offset:sectors,len,op", &text), Ok(vec![]));
    }
}

#[test]
fn offsets_in_bytes_are_doubted_in_few_rows_too() {
    for (step, lens) in [(512, [512u64, 1536]), (4096, [4096, 8192]), (65_536, [65_536, 32_768])] {
        for (columns, unit) in
            [("at:ms,offset:sectors,len,op", 1), ("at:ms,offset:sectors,len:sectors,op", 512)]
        {
            for count in [10, 50] {
                let row = |n: u64| {
                    let (from, len) = (drawn(n * 7) % 100_000 * step, lens[n as usize % 2] / unit);
                    format!("{},{from},{len},R\n", every_ms(n))
                };
                let text: String = (0..count).map(row).collect();
                let notes = told(columns, &text).unwrap();
                let case = format!("{step}, {columns}, {count}: {notes:?}");
                assert!(
                    notes.len() == 1 && notes[0].contains("offsets are likely in bytes"),
                    "{case}"
                );
            }
        }
    }
}

/// Returns rows of time, offset, length and operation. Every eighth request begins a new run.
fn requests(count: u64, step: u64, lens: &[u64], time: impl Fn(u64) -> String) -> String {
    let mut place = 0;
    let row = |n: u64| {
        let len = lens[(drawn(n) % lens.len() as u64) as usize] * step;
        if n.is_multiple_of(8) {
            place = drawn(n * 3 + 1) % 20_000_000 * step;
        }
        let from = place;
        place += len;
        (time(n), from, len)
    };
    let rows: Vec<(String, u64, u64)> = (0..count).map(row).collect();
    rows.iter().map(|(at, from, len)| format!("{at},{from},{len},R\n")).collect()
}

fn every_ms(n: u64) -> String {
    (n * 5 + drawn(n) % 5).to_string()
}

/// Alignments in bytes that drives and file systems use.
const STEPS: [u64; 6] = [512, 4096, 8192, 16_384, 32_768, 65_536];

#[test]
fn bytes_read_in_sectors_are_refused_with_the_columns_to_write() {
    for step in STEPS {
        let lens = if step <= 4096 { [8, 16, 24, 64] } else { [1, 2, 3, 5] };
        let text = requests(2000, step, &lens, every_ms);
        for (declared, expected) in [
            ("at:ms,offset:sectors,len:sectors,op", "at:ms,offset,len,op"),
            ("at:ms,offset:sectors,len,op", "at:ms,offset,len,op"),
            ("at:ms,offset,len:sectors,op", "at:ms,offset,len,op"),
            ("at:ms,offset:kib,len:kib,op", "at:ms,offset,len,op"),
        ] {
            let instead = format!("if so, --columns {expected}");
            // Read in sectors, large requests in steps of 256 KiB are possible too.
            if step == 512 && declared.matches("sectors").count() == 2 {
                let warned = told(declared, &text).unwrap();
                assert!(warned.len() == 1 && warned[0].ends_with(&instead), "{warned:?}");
                continue;
            }
            let message = told(declared, &text).unwrap_err();
            assert!(message.contains(&format!("{instead};")), "{step}: {message}");
            assert!(message.ends_with("units=sure"), "{message}");
        }
        assert_eq!(told("at:ms,offset,len,op", &text), Ok(vec![]), "{step}");
    }
}

#[test]
fn sectors_read_in_bytes_are_refused_with_the_columns_to_write() {
    // Offsets in sectors with lengths in bytes, lengths in sectors with offsets in bytes, and both
    // in sectors.
    let rows = |unit: (u64, u64)| -> String {
        let text = requests(2000, 8, &[1, 2, 3, 8], every_ms);
        let row = |row: &str| {
            let fields: Vec<&str> = row.split(',').collect();
            let number = |n: usize| fields[n].parse::<u64>().unwrap();
            format!("{},{},{},R\n", fields[0], number(1) * unit.0, number(2) * unit.1)
        };
        text.lines().map(row).collect()
    };
    let message = told("at:ms,offset,len,op", &rows((1, 512))).unwrap_err();
    assert!(message.contains("if so, --columns at:ms,offset:sectors,len,op;"), "{message}");
    let told_of = |unit| told("at:ms,offset,len,op", &rows(unit)).unwrap();
    let [only] = &told_of((512, 1))[..] else { panic!() };
    assert!(only.ends_with("if so, --columns at:ms,offset,len:sectors,op"), "{only}");
    let [only] = &told_of((1, 1))[..] else { panic!() };
    assert!(only.ends_with("if so, --columns at:ms,offset:sectors,len:sectors,op"), "{only}");
    for (unit, columns) in [
        ((1, 512), "at:ms,offset:sectors,len,op"),
        ((512, 1), "at:ms,offset,len:sectors,op"),
        ((1, 1), "at:ms,offset:sectors,len:sectors,op"),
        ((512, 512), "at:ms,offset,len,op"),
    ] {
        assert_eq!(told(columns, &rows(unit)), Ok(vec![]), "{columns}");
    }
}

#[test]
fn large_requests_in_sectors_are_read() {
    let columns = "at:ms,offset:sectors,len:sectors,op";
    // A benchmark of a drive, in which all requests are 1 MiB long and in steps of 1 MiB. With 256
    // KiB or 2 MiB, values might be bytes that form whole sectors or pages.
    assert_eq!(told(columns, &requests(2000, 2048, &[1], every_ms)), Ok(vec![]));
    for sectors in [512, 4096] {
        let warned = told(columns, &requests(2000, sectors, &[1], every_ms)).unwrap();
        assert!(warned.len() == 1 && warned[0].contains("likely in bytes"), "{warned:?}");
    }
    // A backup sends a few short requests among the long ones.
    let text = requests(2000, 2048, &[1, 2, 4, 8], every_ms) + "99999,77,8,R\n";
    assert_eq!(told(columns, &text), Ok(vec![]));
    // Offsets within a file may be any number of bytes.
    let file = requests(2000, 1, &[100, 4096, 5000, 31], every_ms);
    assert_eq!(told("at:ms,offset,len,op", &file), Ok(vec![]));
}

/// Returns rows at pseudo-random offsets in steps of `step`, each with one of the lengths.
fn drawn_at(count: u64, step: u64, places: u64, lens: &[u64]) -> String {
    let len = |n: u64| lens[(drawn(n) % lens.len() as u64) as usize];
    let place = |n: u64| drawn(n * 3 + 1) % places * step;
    (0..count).map(|n| format!("{},{},{},R\n", n * 20 + drawn(n) % 9, place(n), len(n))).collect()
}

/// Returns whether rows are accepted both with a declaration and with a preset, whose unit is a
/// guess.
fn is_read(columns: &str, text: &str) -> bool {
    let parsed: Columns = columns.parse().unwrap();
    let inner = crate::formats::presets::open_columns(&parsed, input(text.as_bytes())).unwrap();
    let doubt = Doubt { refused: Rejection::Doubtful, columns: Some(parsed), names: None };
    let guessed = Checked::new(inner, Path::new("trace"), doubt);
    told(columns, text).is_ok() && drain(Box::new(guessed)).is_ok()
}

#[test]
fn large_requests_of_drives_and_arrays_are_read() {
    let columns = "at:ms,offset:sectors,len:sectors,op";
    let far = 100_000_000_000_000 / (1 << 20);
    for (step, places, lens) in [
        (2048, far, &[2048][..]),
        (8192, 100_000, &[8192, 16_384, 4096]),
        (512, far * 4, &[512, 1024, 2048, 4096]),
        (3072, 20_000, &[3072, 512, 1536]),
        (32_768, 100_000, &[32_768]),
    ] {
        assert!(is_read(columns, &drawn_at(2000, step, places, lens)), "{step}");
    }
    let backup = |len: u64| -> String {
        (0..1000).map(|n| format!("{},{},{len},W\n", n * 20 + drawn(n) % 9, n * len)).collect()
    };
    assert!([2048, 4096, 8192, 32_768].iter().all(|len| is_read(columns, &backup(*len))));
}

#[test]
fn requests_at_few_places_or_at_the_heads_of_blocks_are_read() {
    let columns = "at:ms,offset:sectors,len,op";
    for (step, places, lens) in [
        (1, 1, &[4096][..]),
        (2048, 2, &[4096]),
        (1_048_576, 20, &[512, 4096]),
        (2048, 1_000_000, &[4096]),
        (2048, 1_000_000, &[65_536]),
        (512, 1_000_000, &[131_072]),
        (8192, 100_000, &[65_536]),
    ] {
        assert!(is_read(columns, &drawn_at(1000, step, places, lens)), "{step} {places}");
    }
    assert_eq!(told(columns, &drawn_at(1000, 2048, 2, &[4096])), Ok(vec![]));
    let each_second = |places: u64| -> String {
        let at = |n: u64| n * 1000 + drawn(n) % 900;
        (0..1500).map(|n| format!("{},{},4096,W\n", at(n), n % places * 2048)).collect()
    };
    assert!(is_read(columns, &each_second(2)) && !is_read(columns, &each_second(900)));
}

#[test]
fn one_odd_row_hides_no_bytes_and_the_advice_is_judged_right() {
    let odd = "99999,12345,100,R\n";
    for (columns, lens, which) in [
        ("at:ms,offset:sectors,len:sectors,op", &[4096, 65_536][..], "offsets and lengths are"),
        ("at:ms,offset:sectors,len:sectors,op", &[4096, 8192, 16_384], "offsets and lengths are"),
        ("at:ms,offset:sectors,len,op", &[4096], "offsets are"),
        ("at:ms,offset:sectors,len,op", &[4096, 1_048_576], "offsets are"),
        ("at:ms,offset:sectors,len,op", &[262_144, 1_048_576], "offsets are"),
    ] {
        let text = drawn_at(2000, 4096, 10_000_000, lens);
        for text in [text.clone() + odd, text.clone() + "99999,12345,4096,R\n", text] {
            let said = told(columns, &text).map_or_else(|error| error, |said| said.join(" "));
            assert!(
                said.contains(which) && said.contains("if so, --columns at:ms,offset,len,op"),
                "{said}"
            );
            assert_eq!(told("at:ms,offset,len,op", &text), Ok(vec![]));
        }
    }
}

#[test]
fn uptimes_that_are_dates_in_another_unit_are_read() {
    let columns = "at:ns,latency:ns,offset:sectors,len:sectors,op";
    let rows = |per_s: u64, latency: &str| -> String {
        let gap = 1_000_000_000 / per_s;
        let at = |n: u64| 1_641_600_000_000_000 + n * gap + drawn(n) % gap;
        (0..2000).map(|n| format!("{},{latency},{},8,R\n", at(n), drawn(n) * 8)).collect()
    };
    for (per_s, latency) in [(50, "80000"), (2000, "80000"), (60_000, "80000"), (300_000, "90000")]
    {
        assert!(is_read(columns, &rows(per_s, latency)), "{per_s}");
    }
    let unknown = columns.replace("latency:ns", "_");
    assert!([50, 60_000, 100_000].iter().all(|per_s| is_read(&unknown, &rows(*per_s, "-"))));
    assert!(told(&unknown, &rows(300_000, "-")).is_err());
}

#[test]
fn seconds_since_1970_in_a_smaller_unit_are_refused_or_noted() {
    let epoch = |per_s: u64| {
        move |n: u64| {
            let us = n * 1_000_000 / per_s + drawn(n) % (1_000_000 / per_s);
            format!("{}.{:06}", 1_716_900_000 + us / 1_000_000, us % 1_000_000)
        }
    };
    let text = |per_s, count| requests(count, 8, &[1, 2], epoch(per_s));
    for (unit, per_s) in [("ms", 200), ("us", 200), ("us", 20), ("ms", 5000)] {
        let declared = format!("at:{unit},offset:sectors,len:sectors,op");
        let message = told(&declared, &text(per_s, 2000)).unwrap_err();
        let expected = "if so, --columns at:s,offset:sectors,len:sectors,op;";
        assert!(message.contains(expected) && message.contains("begins in 2024"), "{message}");
    }
    let declared = "at:ms,offset:sectors,len:sectors,op";
    let warned = told(declared, &text(3, 50)).unwrap();
    assert!(warned.len() == 1 && warned[0].contains("begins in 2024"), "{warned:?}");
    // `units=sure` accepts the trace. Correct dates and uptimes are not reported.
    assert!(told(&format!("{declared},units=sure"), &text(200, 2000)).is_ok());
    assert_eq!(told("at:s,offset:sectors,len:sectors,op", &text(200, 2000)), Ok(vec![]));
    let uptime = |n: u64| (1_500_000_000 + n * 5000 + drawn(n) % 4000).to_string();
    let text = requests(2000, 8, &[1, 2], uptime);
    assert_eq!(told("at:us,offset:sectors,len:sectors,op", &text), Ok(vec![]));
    let text =
        requests(2000, 8, &[1, 2], |n| (1_716_900_000_000_000_000 + n * 5_000_000).to_string());
    assert_eq!(told("at:ns,offset:sectors,len:sectors,op", &text), Ok(vec![]));
}

#[test]
fn latencies_are_held_against_arrivals_and_lengths() {
    let columns = "at:us,latency:us,offset:sectors,len:sectors,op";
    let rows = |apart: u64, latency: u64, len: u64| -> String {
        (0..2000u64).map(|n| format!("{},{latency},{},{len},R\n", n * apart, drawn(n))).collect()
    };
    assert_eq!(told(columns, &rows(1000, 5000, 8)), Ok(vec![]));
    let warned = told(columns, &rows(1, 90_000_000, 1)).unwrap();
    assert!(warned.is_empty(), "as many as there are in a burst");
    let warned = told(columns, &rows(1000, 3, 256)).unwrap();
    assert!(warned.len() == 1 && warned[0].contains("faster than at 16.0 GB/s"), "{warned:?}");
    let seconds_as_ms = rows(1000, 0, 8).replace(",0,", ",0.3,");
    let warned = told(columns, &seconds_as_ms).unwrap();
    assert!(warned.len() == 1 && warned[0].contains("within 1 us"), "{warned:?}");
}

/// Times in seconds with six decimals in a column of ms.
#[test]
fn relative_seconds_read_as_milliseconds_are_noted() {
    let rows = |times: fn(u64) -> String, latency_ms: &str| -> String {
        (0..400u64).map(|n| format!("{},{latency_ms},{},8,R\n", times(n), drawn(n) * 8)).collect()
    };
    let every_2_ms = |n: u64| format!("0.{:06}", n * 2_000 + drawn(n) % 900);
    let columns = |unit: &str| format!("at:{unit},latency:ms,offset:sectors,len:sectors,op");
    for latency_ms in ["4.5", "0.9", "-"] {
        let text = rows(every_2_ms, latency_ms);
        let warned = told(&columns("ms"), &text).unwrap();
        assert!(warned.len() == 1 && warned[0].contains("may be in s"), "{latency_ms}: {warned:?}");
        assert_eq!(told(&columns("s"), &text), Ok(vec![]));
    }
    // A fast drive, with times in nanoseconds.
    let fast = |n: u64| format!("{}.{:06}", n / 40, n % 40 * 25_000 + drawn(n) % 9_000);
    assert_eq!(told(&columns("ms"), &rows(fast, "0.08")), Ok(vec![]));
}

/// Random lengths of one or two sectors in bytes, and times in seconds in a column of ms.
#[test]
fn short_requests_in_bytes_and_short_times_in_seconds_are_noted() {
    let short = drawn_at(2000, 512, 1 << 21, &[512, 1024]);
    for columns in ["at:ms,offset:sectors,len:sectors,op", "at:ms,offset:sectors,len,op"] {
        let warned = told(columns, &short).unwrap();
        assert!(warned.len() == 1 && warned[0].contains("likely in bytes"), "{warned:?}");
    }
    let time = |n: u64| format!("0.{:06}", n * 710);
    let seconds = requests(1400, 4096, &[1, 2], time);
    let warned = told("at:ms,offset,len,op", &seconds).unwrap();
    assert!(warned.len() == 1 && warned[0].contains("the times may be in s; if so"), "{warned:?}");
    assert_eq!(told("at:s,offset,len,op", &seconds), Ok(vec![]));
}

/// One or a few distant requests do not indicate a wrong unit, but a majority of requests beyond a
/// PiB does.
#[test]
fn a_few_distant_requests_are_read() {
    let columns = "at:ms,offset,len,op";
    let rows = |far: fn(u64) -> bool, at: u64| -> String {
        let place = |n: u64| if far(n) { at + n * 4096 } else { n * 7919 % 10_007 * 4096 };
        (0..2_000).map(|n| format!("{},{},4096,R\n", n * 20 + drawn(n) % 9, place(n))).collect()
    };
    for at in [1u64 << 40, 1 << 50, 1 << 60, (1 << 63) - (1 << 30)] {
        for far in [|n| n == 700, |n| n % 150 == 7, |n| n >= 1_990] {
            assert!(told(columns, &rows(far, at)).is_ok(), "{at}");
        }
    }
    assert!(told(columns, &rows(|n| n % 3 > 0, 1 << 51)).is_err());
}

#[test]
fn few_rows_far_beyond_the_limits_are_noted() {
    let columns = "at:us,latency:us,offset:sectors,len:sectors,op";
    let row =
        |n: u64, apart: u64, far: u64| format!("{},90,{},8,R\n", n * apart, drawn(n) * far * 8);
    let rows = |apart, far| -> String { (0..40).map(|n| row(n, apart, far)).collect() };
    let notes = |text: String| told(columns, &text).unwrap_or_else(|refused| vec![refused]);
    assert_eq!(notes(rows(10_000, 1)), [""; 0]);
    let has = |notes: &[String], part: &str| notes.iter().any(|told| told.contains(part));
    let far = notes(rows(10_000, 1 << 13));
    assert!(has(&far, "a volume of at least"), "{far:?}");
    let fast = rows(1, 1).replace(",8,R", ",65536,R");
    assert!(has(&notes(fast.clone()), "requests/s on one volume"), "{fast}");
}

#[test]
fn latencies_that_would_pile_up_are_noted() {
    let rows = |latency_s: u64| -> String {
        let row = |n: u64| format!("{},{latency_s},{},8,R\n", n * 10, drawn(n) * 8);
        (0..1500).map(row).collect()
    };
    let notes = |latency_s| told("at:ms,latency:s,offset:sectors,len:sectors,op", &rows(latency_s));
    let long = notes(500).unwrap();
    assert!(
        long.iter().any(|told| told.contains("50000 outstanding requests on average")),
        "{long:?}"
    );
    let fine = notes(5).unwrap();
    assert!(!fine.iter().any(|told| told.contains("outstanding")), "{fine:?}");
}
