//! What touches its neighbours goes on to do so, in short traces and in long ones.

use forebay_core::Op;
use forebay_trace::Record;

use super::{draw, fit, record};

const BLOCK: u64 = 4096;

fn noise(n: u64) -> u64 {
    let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// How many requests end where the one before began, and how many begin where it ended.
fn touching(records: &[Record]) -> [usize; 2] {
    let end = |r: &Record| r.offset + u64::from(r.len);
    let backward = records.windows(2).filter(|pair| end(&pair[1]) == pair[0].offset).count();
    let forward = records.windows(2).filter(|pair| pair[1].offset == end(&pair[0])).count();
    [backward, forward]
}

fn footprint_blocks(records: &[Record]) -> usize {
    let blocks = |r: &Record| r.offset / BLOCK..(r.offset + u64::from(r.len)).div_ceil(BLOCK);
    records.iter().flat_map(blocks).collect::<std::collections::HashSet<_>>().len()
}

/// Pieces of 32 requests somewhere in 64 GiB, each from its end to its beginning, twice.
fn backward(pieces: u64) -> Vec<Record> {
    let mut records = vec![record(0, (64 << 30) - BLOCK, Op::Read, 4096)];
    for piece in 0..2 * pieces {
        let begin = noise(piece % pieces) % (1 << 23) * BLOCK;
        for n in (0..32).rev() {
            let at_ns = records.len() as u64 * 1_000_000;
            records.push(record(at_ns, begin + n * BLOCK, Op::Read, 4096));
        }
    }
    records
}

#[test]
fn what_goes_backward_touches_what_is_before_it() {
    let records = backward(150);
    let drawn = draw(&fit(&records, 3), 1);
    let ([theirs, _], [ours, forward]) = (touching(&records), touching(&drawn));
    assert!(ours * 100 > theirs * 97 && forward < 100, "{theirs} {ours} {forward}");
}

#[test]
fn places_within_a_page_are_told_apart() {
    // A log of 512 bytes a write that begins again and again, and is read now and then.
    let mut records = vec![record(0, (64 << 30) - 512, Op::Read, 512)];
    for n in 0..8000u64 {
        let (round, place) = (n / 400, n % 400);
        let at_ns = (n + 1) * 1_000_000;
        records.push(record(at_ns, round % 5 * (1 << 33) + place * 512, Op::Write, 512));
    }
    let model = fit(&records, 3);
    let drawn = draw(&model, 1);
    let ([_, theirs], [_, ours]) = (touching(&records), touching(&drawn));
    assert_eq!(model.grain_bytes, 512);
    assert!(ours * 100 > theirs * 97, "{theirs} {ours}");
    let (theirs, ours) = (footprint_blocks(&records), footprint_blocks(&drawn));
    assert!(ours.abs_diff(theirs) * 20 < theirs, "{theirs} {ours}");
}

#[test]
fn runs_do_not_run_into_each_other() {
    // Runs of 2 to 16 MiB that fill a tenth of the space, three at a time.
    let mut records = vec![record(0, (64 << 30) - BLOCK, Op::Read, 4096)];
    let mut heads: Vec<(u64, u64)> = Vec::new();
    let mut place = 0;
    for n in 0..30_000u64 {
        while heads.len() < 3 {
            place += (1 + noise(n) % 64) << 20;
            let len = (2 + noise(place) % 15) << 20;
            heads.push((place, place + len));
            place += len;
        }
        let head = (noise(n + 2) % 3) as usize;
        records.push(record((n + 1) * 1_000_000, heads[head].0, Op::Read, 65_536));
        heads[head].0 += 65_536;
        if heads[head].0 == heads[head].1 {
            heads.swap_remove(head);
        }
    }
    let drawn = draw(&fit(&records, 3), 1);
    let (theirs, ours) = (footprint_blocks(&records), footprint_blocks(&drawn));
    assert!(ours * 100 > theirs * 96, "{theirs} {ours}");
    let ([_, theirs], [_, ours]) = (touching(&records), touching(&drawn));
    assert!(ours * 100 > theirs * 96, "{theirs} {ours}");
}

#[test]
fn what_follows_a_pause_does_so_where_the_order_is_not_known() {
    // Reads follow a pause, writes none; where, at random: no order of 300,000 can be told.
    let mut at_ns = 0;
    let mut records = vec![record(0, (64 << 30) - BLOCK, Op::Read, 4096)];
    for n in 0..300_000u64 {
        let is_read = noise(n).is_multiple_of(3);
        at_ns += if is_read { 30_000_000 } else { 2_000 };
        let op = if is_read { Op::Read } else { Op::Write };
        records.push(record(at_ns, noise(n ^ 0x5555) % (1 << 24) * BLOCK, op, 4096));
    }
    let model = fit(&records, 2);
    assert!(!model.parts[0].order.of_places && model.parts[0].order.each > 1);
    let drawn = draw(&model, 1);
    let suits =
        |pair: &&[Record]| (pair[1].at.0 - pair[0].at.0 > 1_000_000) == (pair[1].op == Op::Read);
    let count = drawn.windows(2).filter(suits).count();
    assert!(count * 100 > drawn.len() * 80, "{count}");
}
