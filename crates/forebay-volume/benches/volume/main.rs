//! Compares writes to a volume of six drives with fio sending the same I/Os to the same drives.
//!
//! A volume is created and filled. Then a client writes 1 GiB, 32 writes at a time, with a flush
//! after each 64 MiB and one at the end. Meanwhile, all I/Os of the volume on its drives are
//! recorded: data, trailers, records, reads for parities, and flushes. fio then sends the same I/Os
//! in the same order to the same drives through io_uring, with the average queue depth of the
//! volume. For fio, a write that must be durable immediately (a record) is a write and a flush, as
//! it is for a drive without FUA. fio does not wait for flushes, and computes no checksums and no
//! parities. The share is fio's time divided by the volume's.
//!
//! `cargo bench -p forebay-volume --bench volume -- FOLDER` creates six files in the folder. If six
//! paths are given, they are used as drives, and their contents are lost. The volume and fio
//! alternate; the medians count.

#![allow(clippy::unwrap_used)]

mod client;
mod fio;
mod sent;

use std::fs::File;
use std::path::{Path, PathBuf};

use forebay_core::Nanos;
use forebay_core::stack::array::Level;
use forebay_live::{CpuTime, Patterned, Punctual, Target, Uring, run};
use forebay_volume::{Create, create, find, over};

use client::{Client, Load};
use sent::Sent;

const ROUNDS: usize = 5;
const DRIVE_BYTES: u64 = 768 << 20;
/// The policy and the queue depth of `forebay play`.
const POLICY: &str = "noop";
const LANE_DEPTH: u32 = 256;

/// The result of a run on the volume.
struct Round {
    took: Nanos,
    cpu: CpuTime,
    sent: Sent,
}

/// Creates a volume on `drives`, fills it, and writes `load` to it.
fn volume(drives: &[PathBuf], level: Level, load: Load) -> Round {
    let how = Create { overwrite: true, ..Create::new(level) };
    create(drives, how).unwrap();
    let found = find(drives, true).unwrap();
    let mut policy = over(found.array(), POLICY).unwrap();
    let targets: Vec<Target> = found.drives.into_iter().map(|(_, target)| target).collect();
    let mut lanes = Uring::new(targets, LANE_DEPTH).map_err(|(error, _)| error).unwrap();
    let pattern = lanes.pattern();
    let mut client = Patterned::new(Client::new(load), pattern, true);
    let mut sent = Sent::default();
    let _punctual = Punctual::thread(false).unwrap();
    run(&mut policy, &mut lanes, &mut client, &mut sent).unwrap();
    let client = client.workload;
    assert_eq!((sent.failed, client.failed), (0, 0), "I/Os failed");
    sent.keep(client.began, client.ended);
    Round { took: client.ended - client.began, cpu: client.cpu(), sent }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs the volume and fio in turn, and prints a row of the table.
fn compare(drives: &[PathBuf], name: &str, level: Level, load: Load) {
    let client_mb = load.bytes() as f64 / 1e6;
    let (mut ours, mut theirs, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    let (mut our_cpu_s, mut their_cpu_s, mut last) = (Vec::new(), Vec::new(), None);
    for _ in 0..ROUNDS {
        let round = volume(drives, level, load);
        let (fio_s, fio_cpu_s) = fio::send(drives, &round.sent);
        let took_s = round.took.as_secs_f64();
        ours.push(client_mb / took_s);
        theirs.push(client_mb / fio_s);
        shares.push(fio_s / took_s);
        our_cpu_s.push((round.cpu.user + round.cpu.system).as_secs_f64());
        their_cpu_s.push(fio_cpu_s);
        last = Some(round.sent);
    }
    let (least, most) = (
        shares.iter().copied().fold(f64::MAX, f64::min),
        shares.iter().copied().fold(0.0, f64::max),
    );
    println!(
        "{name:<13} {load:<18} {:7.0} {:7.0} {:6.2} {least:6.2}-{most:.2} {:6.2} {:6.2}  {}",
        median(ours),
        median(theirs),
        median(shares),
        median(our_cpu_s),
        median(their_cpu_s),
        last.unwrap().said(load.bytes()),
    );
}

/// Creates six files in `folder` and writes them once, so that the file system has allocated their
/// blocks.
fn files(folder: &Path) -> Vec<PathBuf> {
    let path = |at| folder.join(format!("drive{at}"));
    let paths: Vec<PathBuf> = (1..=6).map(path).collect();
    for path in &paths {
        let file = File::create(path).unwrap();
        let some = vec![1; 1 << 20];
        let at = |step: u64| step * some.len() as u64;
        let steps = 0..DRIVE_BYTES / some.len() as u64;
        steps.for_each(|step| {
            std::os::unix::fs::FileExt::write_all_at(&file, &some, at(step)).unwrap()
        });
        file.sync_all().unwrap();
    }
    paths
}

fn main() {
    let paths: Vec<PathBuf> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .map(PathBuf::from)
        .collect();
    let (folder, drives) = match &paths[..] {
        [folder] => {
            let folder = tempfile::tempdir_in(folder).unwrap();
            let drives = files(folder.path());
            (Some(folder), drives)
        }
        drives if drives.len() == 6 => (None, drives.to_vec()),
        _ => panic!("got {} paths, expected a folder or six drives", paths.len()),
    };
    println!(
        "{ROUNDS} rounds each; MB/s of the client's bytes; the share is fio's time over the volume's"
    );
    println!(
        "{:<13} {:<18} {:>7} {:>7} {:>6} {:>11} {:>6} {:>6}  sent to drives",
        "level", "writes", "volume", "fio", "share", "range", "CPU s", "fio's"
    );
    let levels = [
        ("three copies", Level::Mirrored { copies: 3 }),
        ("two copies", Level::Mirrored { copies: 2 }),
        ("RAID 6", Level::RAID6),
    ];
    let only = std::env::var("BENCH_ONLY").unwrap_or_default();
    for (name, level) in levels {
        for load in Load::ALL.into_iter().filter(|load| format!("{name}, {load}").contains(&only)) {
            compare(&drives, name, level, load);
        }
    }
    drop(folder);
}
