//! Compares `forebay serve` without a policy to nbdkit's file plugin and qemu-nbd.

use crate::fio::Shape;
use crate::servers::{Measured, Server};
use crate::{Made, Options, median};

/// Where the file is, and how the servers access it.
struct Place {
    name: &'static str,
    ours: &'static [&'static str],
    qemu: &'static [&'static str],
    /// Whether nbdkit is measured; it always uses the page cache.
    nbdkit: bool,
}

const MEMORY: Place =
    Place { name: "memory", ours: &["--buffered"], qemu: &["--cache=writeback"], nbdkit: true };
const CACHED: Place = Place { name: "disk, cached", ..MEMORY };
const DIRECT: Place = Place {
    name: "disk, direct",
    ours: &[],
    qemu: &["--cache=none", "--aio=native"],
    nbdkit: false,
};

/// The results of each server for one workload, by round.
struct Row {
    shape: Shape,
    ours: Vec<Measured>,
    nbdkit: Vec<Measured>,
    qemu: Vec<Measured>,
}

pub(crate) fn compare(options: &Options) {
    for (place, folder) in
        [(MEMORY, &options.memory), (CACHED, &options.disk), (DIRECT, &options.disk)]
    {
        let made = Made::new(folder);
        print(&place, &measure(&place, &made, options));
    }
}

/// Measures all workloads on the file at `place`.
fn measure(place: &Place, made: &Made, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    let (file, at) = (made.file(), |name| made.socket(name));
    let ours = Server::ours(&file, at("ours"), place.ours);
    let nbdkit = place.nbdkit.then(|| Server::nbdkit(&file, at("nbdkit"))).flatten();
    let qemu = Server::qemu(&file, at("qemu"), place.qemu);
    for (writes, kib, depth) in shapes(&[false, true], &[4, 256], &[1, 32]) {
        let shape = Shape { writes, kib, depth };
        let none = Vec::new;
        let mut row = Row { shape, ours: none(), nbdkit: none(), qemu: none() };
        for round in 0..options.rounds {
            let mut turns = [
                (Some(&ours), &mut row.ours),
                (nbdkit.as_ref(), &mut row.nbdkit),
                (qemu.as_ref(), &mut row.qemu),
            ];
            turns.rotate_left(round % 3);
            for (server, measured) in turns {
                measured.extend(server.map(|server| server.measure(shape, options.seconds)));
            }
        }
        rows.push(row);
    }
    rows
}

fn shapes(a: &[bool], b: &[u32], c: &[u32]) -> Vec<(bool, u32, u32)> {
    let pairs = a.iter().flat_map(|&a| b.iter().map(move |&b| (a, b)));
    pairs.flat_map(|(a, b)| c.iter().map(move |&c| (a, b, c))).collect()
}

/// Returns the median ratio of our figure to theirs, or `None` if the other server was not
/// measured.
fn ratio(ours: &[Measured], theirs: &[Measured], of: fn(&Measured) -> f64) -> Option<f64> {
    let pairs = ours.iter().zip(theirs);
    (!theirs.is_empty()).then(|| median(pairs.map(|(ours, theirs)| of(ours) / of(theirs))))
}

fn iops(measured: &Measured) -> f64 {
    measured.seen.iops
}

fn print(place: &Place, rows: &[Row]) {
    let ratios: Vec<[Option<f64>; 4]> = rows
        .iter()
        .map(|row| {
            [
                ratio(&row.ours, &row.nbdkit, iops),
                ratio(&row.ours, &row.qemu, iops),
                ratio(&row.ours, &row.nbdkit, Measured::per_cpu_s),
                ratio(&row.ours, &row.qemu, Measured::per_cpu_s),
            ]
        })
        .collect();
    let won = |column: usize| {
        let all: Vec<f64> = ratios.iter().filter_map(|row| row[column]).collect();
        format!("{} of {}", all.iter().filter(|&&ratio| ratio >= 0.995).count(), all.len())
    };
    if place.nbdkit {
        println!(
            "{}: ours is at least as fast as nbdkit in {} rows, and does at least as much a CPU second in {}.",
            place.name,
            won(0),
            won(2)
        );
    }
    println!(
        "{}: ours is at least as fast as qemu-nbd in {} rows, and does at least as much a CPU second in {}.\n",
        place.name,
        won(1),
        won(3)
    );
    println!("{:>29} {:^17} {:^17}", "", "IOPS, ours over", "per CPU s, over");
    println!(
        "{:<6}{:>8}{:>6}{:>9} {:>8} {:>8} {:>8} {:>8}",
        "", "block", "depth", "IOPS", "nbdkit", "qemu", "nbdkit", "qemu"
    );
    let tell = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
    for (row, ratios) in rows.iter().zip(&ratios) {
        let Shape { writes, kib, depth } = row.shape;
        let way = if writes { "write" } else { "read" };
        print!("{way:<6}{kib:>4} KiB{depth:>6}");
        print!("{:>9.0} ", median(row.ours.iter().map(iops)));
        println!("{}", ratios.map(|ratio| format!("{:>8}", tell(ratio))).join(" "));
    }
    println!();
}
