//! Shared parts of all tests: pseudorandom numbers from a seed, how long tests run, and how they
//! report that they are skipped.
//!
//! The numbers are SplitMix64's (Steele, Lea and Flood, *Fast splittable pseudorandom number
//! generators*, OOPSLA 2014).

// This crate is used only in tests.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The increment of the state: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the next number of the sequence and advances `state`, which starts as the seed.
pub const fn random(state: &mut u64) -> u64 {
    let drawn = mixed(*state);
    *state = state.wrapping_add(STEP);
    drawn
}

/// Returns the next number below `end`, or 0 if `end` is 0.
pub const fn below(state: &mut u64, end: u64) -> u64 {
    let drawn = random(state);
    if end == 0 { 0 } else { drawn % end }
}

/// Returns the first number of the sequence of the seed `number`.
pub const fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(STEP);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// Returns the factor by which tests are to be lengthened, from `FOREBAY_LAWS`, which `make laws`
/// sets; None if it is not set.
pub fn laws_times() -> Option<u64> {
    std::env::var("FOREBAY_LAWS").ok().and_then(|times| times.parse().ok())
}

/// Returns `count`, multiplied by `FOREBAY_LAWS` if it is set.
pub fn longer(count: u64) -> u64 {
    count * laws_times().unwrap_or(1)
}

/// Reports that the current test, or a part of it, cannot run here. `.ci/stage` counts what is
/// reported and prints the reasons at the end.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    // Not `eprintln!`, because the test harness hides what it prints in tests that pass.
    let _ = writeln!(io::stderr(), "!!! {test} is SKIPPED: {why}");
    if let Some(path) = std::env::var_os("FOREBAY_SKIPS") {
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        // A single write, because other tests append at the same time.
        file.write_all(format!("{why}\t{test}\n").as_bytes()).unwrap();
    }
}

/// Returns the path of a recorded trace or of a folder of them in `../shared/traces`, which is not
/// part of the repository. If it is missing, reports that the test is skipped.
pub fn recorded(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if !path.exists() {
        skipped("a recorded trace is not in ../shared/traces");
        return None;
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the reference code draws from the seed 1234567.
    #[test]
    fn the_sequence_is_splitmix64() {
        let mut state = 1_234_567;
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([random(&mut state), random(&mut state)], expected);
        assert_eq!(mixed(1_234_567), expected[0]);
    }
}
