use super::*;
use crate::formats::tests::{drain, input, message, read};
use crate::formats::{FORMATS, Input};

type Open = fn(Input) -> Result<Box<dyn Reader>, TraceError>;

fn checked(format: &str, input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let listed = FORMATS.iter().find(|listed| listed.name == format).unwrap();
    let path = input.path.clone();
    let doubt = Doubt::of(format);
    Ok(Box::new(Checked::new((listed.open)(input)?, &path, doubt)))
}

const SPC: Open = |input| checked("spc", input);

/// SPC rows at these times in microseconds.
fn rows(times_us: impl Iterator<Item = u64>, len: u64) -> Vec<u8> {
    let row = |(n, us): (usize, u64)| {
        format!("0,{},{len},R,{}.{:06}\n", n * 7, us / 1_000_000, us % 1_000_000)
    };
    times_us.enumerate().map(row).collect::<String>().into_bytes()
}

/// Numbers that look drawn.
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
fn what_cannot_be_is_refused() {
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
fn who_names_the_units_is_warned_once() {
    let text = rows((0..70_000).map(|n| n * 2_000_000 + drawn(n) % 1_900_000), 512);
    let inner = crate::formats::presets::open("spc", input(&text)).unwrap();
    let doubt = Doubt { refused: Refused::None, ..Doubt::of("spc") };
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
    // Nineteen of twenty gaps of seconds are odd, not impossible.
    let slow: String =
        (0..2000u64).map(|n| format!("{},{n},8,R\n", n * 2_000_000 + drawn(n) % 900_000)).collect();
    assert_eq!(told(declared, slow.as_bytes()).unwrap(), 1);
}
