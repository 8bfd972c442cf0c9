//! Runs every target on its seeds and on fixed mutations of them. This part of fuzzing needs no
//! fuzzer.
//!
//! `FUZZ_MUTATIONS` is the number of mutations per target. An input that breaks a target is written
//! to `fuzz/artifacts`.

#![allow(clippy::unwrap_used)] // tests

mod mutate;

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_core::catalog::{ARRAYS, PLACEMENTS, POLICIES, SHAPERS, YARDSTICKS};
use forebay_fuzz::{TARGETS, Target};
use forebay_trace::formats::{FORMATS, Format};
use mutate::Mutations;

/// The default number of mutations per target.
const MUTATIONS: usize = 2000;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder("seeds").join(target.name)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no seeds", target.name);
    let seeds = paths.iter().map(|path| fs::read(path).unwrap());
    seeds.chain(examples(target.name)).collect()
}

/// Returns the examples of the formats that a target covers, or the shortest specs of all policies.
fn examples(target: &str) -> Vec<Vec<u8>> {
    if target == "specs" {
        let all = [POLICIES, SHAPERS, PLACEMENTS, ARRAYS, YARDSTICKS].into_iter().flatten();
        return all.map(|listed| listed.shortest_spec().into_bytes()).collect();
    }
    let texts = FORMATS.iter().filter(|format| format.is_text());
    let example = |format: &Format| match target {
        "open" => Some(format.example.to_owned()),
        "presets" | "texts" if format.preset().is_some() == (target == "presets") => {
            Some(format!("{}\n{}", format.name, format.example))
        }
        _ => (format.name == target).then(|| format.example.to_owned()),
    };
    texts.filter_map(example).map(String::into_bytes).collect()
}

/// Runs a target on an input. If the target panics, stores the input and returns an error.
fn holds(target: &Target, what: &str, input: &[u8]) -> Result<(), String> {
    catch_unwind(|| (target.run)(input)).map_err(|_| {
        let kept = folder("artifacts").join(target.name);
        fs::create_dir_all(&kept).unwrap();
        let kept = kept.join(what.replace(' ', "-"));
        fs::write(&kept, input).unwrap();
        format!("{}: {what}, kept in {}", target.name, kept.display())
    })
}

fn replay(target: &Target, mutations: usize) -> Result<(), String> {
    let seeds = seeds(target);
    for (nth, seed) in seeds.iter().enumerate() {
        holds(target, &format!("seed {nth}"), seed)?;
        // Truncate the seed by a few bytes and in the middle.
        for cut in [1, 2, 7, seed.len() / 2, seed.len()].map(|by| seed.len().saturating_sub(by)) {
            holds(target, &format!("seed {nth} cut at {cut}"), &seed[..cut])?;
        }
    }
    let mut drawn = Mutations::of(&seeds, target.name);
    (0..mutations).try_for_each(|nth| holds(target, &format!("mutation {nth}"), &drawn.next()))
}

#[test]
fn every_target_keeps_its_promises_on_seeds_and_their_mutations() {
    let mutations = std::env::var("FUZZ_MUTATIONS").ok().and_then(|text| text.parse().ok());
    let mutations = mutations.unwrap_or(MUTATIONS);
    let threads = std::thread::available_parallelism().map_or(2, |count| count.get());
    let next = AtomicUsize::new(0);
    let broken: Vec<String> = std::thread::scope(|scope| {
        let worker = || {
            let mut broken = Vec::new();
            while let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
                broken.extend(replay(target, mutations).err());
            }
            broken
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_target_has_seeds_and_every_seed_a_target() {
    let named: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_string()).collect();
    let entries = fs::read_dir(folder("seeds")).unwrap();
    let found = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(named, found);
}

/// If a target breaks, the input that broke it is reported.
#[test]
fn a_broken_promise_is_found() {
    let brittle = Target { name: "spc", run: |data| assert!(!data.contains(&b'7')) };
    let told = replay(&brittle, 10).unwrap_err();
    assert!(told.starts_with("spc: seed 0") && told.contains("artifacts"), "{told}");
    let kept = told.split_once("kept in ").unwrap().1;
    assert!(fs::read(kept).unwrap().contains(&b'7'));
    fs::remove_file(kept).unwrap();
}
