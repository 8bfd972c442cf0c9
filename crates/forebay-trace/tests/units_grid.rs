//! Tests combinations of units, alignments and epochs. If a trace is declared correctly, it is read
//! without doubts. If it is declared wrongly, it is rejected or doubted, but never read silently.

use std::fmt::Write;
use std::fs;

use forebay_trace::open::{COLUMNS, open};
use proptest::prelude::*;

/// A unit of time: its name, and the number of nanoseconds in it.
const TIMES: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const ALIGNMENTS: [u64; 8] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// The epochs in seconds: 0, and a day in May 2024.
const EPOCHS_S: [u64; 2] = [0, 1_716_900_000];
const REQUESTS: u64 = 3_000;

/// A workload of a 500-GB drive: its alignment in bytes, the mean gap in microseconds, the first
/// second, and a seed.
#[derive(Clone, Copy, Debug)]
struct Workload {
    align: u64,
    gap_us: u64,
    epoch_s: u64,
    seed: u64,
}

impl Workload {
    /// Formats the rows, with times in units of `time_ns` and with offsets and lengths in units of
    /// `bytes`.
    fn rows(self, time_ns: u64, bytes: u64) -> String {
        self.first(REQUESTS, time_ns, bytes)
    }

    /// Writes its first `count` rows.
    fn first(self, count: u64, time_ns: u64, bytes: u64) -> String {
        let (mut rows, mut state, mut at_ns) =
            (String::new(), self.seed | 1, self.epoch_s * 1_000_000_000);
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..count {
            at_ns += draw(2 * self.gap_us) * 1_000 + draw(1_000);
            let offset = draw(500_000_000_000 / self.align) * self.align;
            let len = (1 + draw(4)) * self.align;
            let op = ["R", "W"][draw(2) as usize];
            let (whole, rest) = (at_ns / time_ns, at_ns % time_ns);
            let digits = time_ns.ilog10() as usize;
            let fraction = if digits > 0 { format!(".{rest:0digits$}") } else { String::new() };
            writeln!(rows, "{whole}{fraction},{op},{},{}", offset / bytes, len / bytes).unwrap();
        }
        rows
    }
}

/// Returns whether a text is read without any message about its units.
fn is_silent(text: &str, columns: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    fs::write(&path, text).unwrap();
    let Ok(mut reader) = open(&path, Some(&format!("{COLUMNS}{columns}"))) else { return false };
    let mut batch = Vec::new();
    while reader.read(&mut batch).is_ok() {
        if batch.is_empty() {
            return reader.notes().warnings.is_empty();
        }
    }
    false
}

fn workload() -> impl Strategy<Value = Workload> {
    let align = proptest::sample::select(&ALIGNMENTS[..]);
    let epoch_s = proptest::sample::select(&EPOCHS_S[..]);
    (align, 200u64..20_000, epoch_s, any::<u64>())
        .prop_map(|(align, gap_us, epoch_s, seed)| Workload { align, gap_us, epoch_s, seed })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(forebay_testing::longer(40) as u32))]

    #[test]
    fn units_that_are_right_raise_no_doubt(work in workload(), time in 0..4usize, sectors: bool) {
        let (unit, ns) = TIMES[time];
        let (places, bytes) = if sectors { (":sectors", 512) } else { ("", 1) };
        let columns = format!("at:{unit},op,offset{places},len{places},sep=comma");
        prop_assert!(is_silent(&work.rows(ns, bytes), &columns), "{columns}");
    }

    #[test]
    fn bytes_are_not_taken_for_sectors(work in workload(), time in 0..4usize) {
        let (unit, ns) = TIMES[time];
        for columns in ["offset:sectors,len:sectors", "offset:sectors,len"] {
            let columns = format!("at:{unit},op,{columns},sep=comma");
            prop_assert!(!is_silent(&work.rows(ns, 1), &columns), "{columns}");
        }
    }

    /// A number is a date in only one unit.
    #[test]
    fn dates_are_read_in_their_unit(work in workload(), time in 0..4usize, wrong in 0..4usize) {
        prop_assume!(time != wrong && work.epoch_s > 0);
        let columns = format!("at:{},op,offset,len,sep=comma", TIMES[wrong].0);
        prop_assert!(!is_silent(&work.rows(TIMES[time].1, 1), &columns), "{columns}");
    }

    /// Without a date, a factor of a thousand is detected if it makes the trace faster than any
    /// drive or slower than any workload.
    #[test]
    fn impossible_rates_are_doubted(work in workload(), time in 0..4usize) {
        let busy = Workload { epoch_s: 0, gap_us: 200, ..work };
        let calm = Workload { epoch_s: 0, gap_us: 5_000, ..work };
        if let Some((faster, _)) = time.checked_sub(2).and_then(|wrong| TIMES.get(wrong)) {
            let columns = format!("at:{faster},op,offset,len,sep=comma");
            prop_assert!(!is_silent(&busy.rows(TIMES[time].1, 1), &columns), "{columns}");
        }
        if let Some((slower, _)) = TIMES.get(time + 1) {
            let columns = format!("at:{slower},op,offset,len,sep=comma");
            prop_assert!(!is_silent(&calm.rows(TIMES[time].1, 1), &columns), "{columns}");
        }
    }

    /// A few requests show bytes, too, unless they are so small that they may be sectors of a program that moves large
    /// blocks.
    #[test]
    fn a_few_bytes_are_not_taken_for_sectors(work in workload(), time in 0..4usize, count in 4u64..32) {
        let (unit, ns) = TIMES[time];
        let columns = format!("at:{unit},op,offset:sectors,len:sectors,sep=comma");
        let work = Workload { align: work.align.max(4096), ..work };
        prop_assert!(!is_silent(&work.first(count, ns, 1), &columns), "{columns}");
    }

    /// The same few requests raise no doubt if their units are right.
    #[test]
    fn a_few_requests_in_their_units_raise_no_doubt(work in workload(), time in 0..4usize, sectors: bool, count in 1u64..200) {
        let (unit, ns) = TIMES[time];
        let (places, bytes) = if sectors { (":sectors", 512) } else { ("", 1) };
        let columns = format!("at:{unit},op,offset{places},len{places},sep=comma");
        prop_assert!(is_silent(&work.first(count, ns, bytes), &columns), "{columns}");
    }

    /// Seconds from the beginning of a trace, which are no dates, have too many decimals for milliseconds.
    #[test]
    fn relative_seconds_are_not_taken_for_milliseconds(work in workload(), count in 100u64..2_000) {
        let work = Workload { epoch_s: 0, ..work };
        let text = work.first(count, 1_000_000_000, 1);
        prop_assert!(!is_silent(&text, "at:ms,op,offset,len,sep=comma"));
    }
}
