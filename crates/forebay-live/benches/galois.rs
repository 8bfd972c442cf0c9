//! Measures the speed of parity and recovery on one core, compared with a copy and a plain XOR of
//! the same bytes in the same run. GB/s are those of the data blocks read. Blocks are 64 KiB, like
//! the chunks of an array.

use std::hint::black_box;
use std::time::Instant;

use forebay_live::galois;

const BLOCK: usize = 64 << 10;
const RUNS: usize = 9;
/// The amount of data per run, so that a run takes some tens of milliseconds.
const WORK_BYTES: usize = 256 << 20;
/// The numbers of data blocks in a stripe.
const WIDTHS: [usize; 3] = [4, 8, 16];

fn main() {
    for width in WIDTHS {
        stripe(width);
    }
}

fn stripe(width: usize) {
    let blocks: Vec<Vec<u8>> = (0..width).map(content).collect();
    let data: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    let (mut p, mut q) = (vec![0; BLOCK], vec![0; BLOCK]);
    println!("{width} data blocks of {} KiB", BLOCK >> 10);
    let mut to = vec![0; BLOCK];
    let copy = gigabytes_s(width, || data.iter().for_each(|from| to.copy_from_slice(from)));
    let line = |what: &str, speed: f64| {
        println!("  {what:<34} {speed:6.2} GB/s  ({:.2} of a copy)", speed / copy);
    };
    line("copy", copy);
    let sum = gigabytes_s(width, || data.iter().for_each(|from| xor(&mut to, from)));
    line("sum, block by block", sum);
    line("P", gigabytes_s(width, || galois::parity(&data, &mut p, None)));
    line("P and Q", gigabytes_s(width, || galois::parity(&data, &mut p, Some(&mut q))));
    let added = gigabytes_s(width, || {
        p.fill(0);
        q.fill(0);
        for (index, from) in data.iter().enumerate() {
            galois::add(&mut p, from, 1);
            galois::add(&mut q, from, 1 << (index % 8));
        }
    });
    line("P and Q, block by block", added);
    galois::parity(&data, &mut p, Some(&mut q));
    let (mut first, mut second) = (vec![0; BLOCK], vec![0; BLOCK]);
    let one = gigabytes_s(width, || {
        galois::recover(&data, &[&p, &q], &[1], &mut [&mut first]);
    });
    line("one block back", one);
    let two = gigabytes_s(width, || {
        galois::recover(&data, &[&p, &q], &[1, 2], &mut [&mut first, &mut second]);
    });
    line("two blocks back", two);
    assert!(first == blocks[1] && second == blocks[2], "the blocks came back");
}

/// Returns the best of several runs, because other processes can only slow a run down.
fn gigabytes_s(width: usize, mut stripe: impl FnMut()) -> f64 {
    let rounds = WORK_BYTES / BLOCK / width;
    let seconds = (0..RUNS).map(|_| {
        let began = Instant::now();
        for _ in 0..rounds {
            black_box(&mut stripe)();
        }
        began.elapsed().as_secs_f64()
    });
    (rounds * width * BLOCK) as f64 / 1e9 / seconds.fold(f64::INFINITY, f64::min)
}

/// The plain XOR, byte by byte.
fn xor(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}

fn content(seed: usize) -> Vec<u8> {
    (0..BLOCK).map(|at| ((at * 31 + seed * 97) ^ (at >> 8)) as u8).collect()
}
