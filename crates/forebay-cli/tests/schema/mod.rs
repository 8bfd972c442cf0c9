//! Checks docs/schema/forebay.json, which describes what each verb prints with `--format json`,
//! against real answers of every verb.
//!
//! `UPDATE=1 cargo test -p forebay-cli --test all schema` adds what the schema lacks; review the
//! changes. If a key was removed or changed its meaning, increase `schema_version`
//! (docs/schema.md).

mod csv;
mod found;
mod held;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::command;
use crate::command::{Folder, ends, forebay};
use crate::shell;

/// The name of each answer in the schema, and the command that prints it. Every command runs in the
/// folder that the previous ones used.
const ASKED: &[(&str, &str)] = &[
    ("describe", "describe mine.csv"),
    ("describe", "describe mine.csv --threads"),
    ("describe", "describe small.spc --stream-by process"),
    ("describe", "describe whole.csv --threads --limit 3"),
    ("simulate", "simulate mine.csv --device sata250 --policy noop,forebay --replay closed"),
    (
        "simulate",
        "simulate mine.csv --device sata250 --flash d7-p5520 --policy cache --fail one-in=50",
    ),
    (
        "simulate",
        "simulate mine.csv --device sata250:plain --policy noop --defragment --least-time",
    ),
    ("simulate", "simulate mine.csv --device fixed:500 --policy miser:cmin=400:delta-ms=50"),
    ("advise", "advise mine.csv -o r.html"),
    ("advise", "advise mine.csv -o r.html --array 6"),
    ("advise", "advise small.spc -o r.html"),
    ("advise", "advise mine.csv --device d7-p5520 -o r.html"),
    ("advise", "advise mine.csv --device iotune:total-iops-sec=9 -o r.html"),
    ("advise", "advise mine.csv --device st1000nm0011 --fit-device -o r.html"),
    ("cache", "cache mine.csv --sizes-mib 1,64"),
    ("cache", "cache small.spc"),
    ("compare", "compare mine.csv other.csv"),
    ("compare", "compare mine.csv small.spc"),
    ("retrodict", "retrodict mine.csv --device st1000nm0011"),
    ("offline", "offline mine.csv --device sata250:plain --policy noop,bid --windows 3 --ios 4"),
    ("fit", "fit mine.csv -o mine.model"),
    ("generate", "generate mine.model -o twin.csv"),
    ("generate", "generate mine.model -o twin.fio"),
    ("convert", "convert mine.csv parts --partition-by volume"),
    ("convert", "convert mine.csv copy.parquet"),
    ("plan capacity", "plan capacity mine.csv"),
    ("plan capacity", "plan capacity mine.csv --within 10ms --hold-out 0.3"),
    ("plan capacity", "plan capacity mine.csv --confidence 0.9 --hold-out 0.3 --by volume"),
    (
        "plan capacity --device",
        "plan capacity mine.csv --within 100ms --fraction 0.5,0.9 --device st1000nm0011",
    ),
    ("plan capacity --cost-us", "plan capacity mine.csv --within 10ms --cost-us 100+0.5/KiB"),
    ("plan consolidate", "plan consolidate mine.csv other.csv --within 10ms --fraction 0.9"),
    (
        "plan consolidate --cost-us",
        "plan consolidate mine.csv other.csv --within 10ms --fraction 0.9 --cost-us 100+0.5/KiB",
    ),
    (
        "plan capacity --device",
        "plan capacity mine.csv --within 10ms --fraction 0.9 --device d7-p5520",
    ),
    ("plan capacity", "plan capacity small.spc"),
    ("plan consolidate", "plan consolidate small.spc small.spc --within 10ms --fraction 0.9"),
    ("plan sla", "plan sla tiers.toml mine.csv"),
    ("plan sla", "plan sla two.toml mine.csv"),
    ("plan power", "plan power small.spc --device sata250"),
    ("simulate", "simulate small.spc --device d7-p5520 --policy noop"),
    ("advise", "advise mine.csv -o r.html --replay closed"),
    ("compare", "compare small.spc small.spc"),
    ("plan sla --cost-us", "plan sla tiers.toml mine.csv --cost-us 100+0.5/KiB"),
    ("plan power", "plan power mine.csv --device st1000nm0011 --epoch 30s"),
    (
        "plan buy",
        "plan buy mine.csv --within 100ms --fraction 0.9 --device hc550,d7-p5520 --layout single,volume-mirror --configure set",
    ),
    (
        "plan buy",
        "plan buy mine.csv --within 100ms --fraction 0.9 --device hc550 --layout mirror --confidence 0.9",
    ),
    ("plan volume", "plan volume mine.csv --within 50ms --type gp3,gp2,premium,ultra"),
    ("plan volume", "plan volume mine.csv --within 1ms --type st1"),
    (
        "plan volume",
        "plan volume mine.csv --within 50ms --type gp3 --current st1:gib=500 --confidence 0.9",
    ),
    ("plan volume", "plan volume mine.csv --within 50ms --type gp3 --current premium:tier=P10"),
    ("plan volume", "plan volume mine.csv --within 50ms --type ./own.toml"),
    ("plan volume", "plan volume --from-counters counters.csv --type gp3,gp2 --current gp3:gib=9"),
    ("play", "play mine.csv --emulate st1000nm0011 --policy noop --for 300ms"),
    ("play", "play mine.csv --target scratch.img --for 300ms"),
    ("play", "play small.spc --emulate st1000nm0011 --fail one-in=2"),
    ("volume", "volume create v"),
    ("volume", "volume status v"),
    ("volume", "volume status v/0 v/1 v/2 v/3 v/4 gone"),
    ("volume", "volume check v"),
    ("store bench", "store bench a b c d --records 50 --operations 50"),
    ("store bench", "store bench a b c d --no-load --records 50 --operations 50 --rate 1000"),
    ("store simulate", "store simulate --total-mb 2"),
    ("array score", "array score st1000nm0011 --writes 20 --filled-mib 1024"),
    ("device validate", "device validate st1000nm0011 x.trace"),
    ("devices", "devices"),
    ("devices", "devices fixed:100"),
    ("policies", "policies"),
    ("formats", "formats"),
    ("formats", "formats msr csv"),
];

/// The name of a server's answer, which does not come from the list of commands.
const TOP: &str = "top";
/// Verbs that are not run here, because they need a disk to capture from, a measured drive, or
/// DiskSim files.
const NOT_ASKED: &[&str] = &["capture", "device fit", "device import", "device probe"];

fn path() -> PathBuf {
    shell::root().join("docs/schema/forebay.json")
}

/// Creates the files that the commands need.
fn prepare(folder: &Folder) {
    command::start_of_sample(folder, "mine.csv", 400);
    command::start_of_sample(folder, "other.csv", 300);
    folder.file("small.spc", command::SPC);
    let tier =
        |fraction, within_ms| format!("[[tier]]\nfraction = {fraction}\nwithin_ms = {within_ms}\n");
    folder.file("tiers.toml", tier(0.9, 20));
    folder.file("two.toml", tier(0.9, 20) + &tier(1.0, 500));
    folder.file("prices.toml", "currency = \"EUR\"\non = \"2026\"\n[drive.hc550]\nprice = 3\n");
    let counters = "time,read_ops,write_ops,read_bytes,write_bytes\n1,9,9,36864,36864\n2,9,9,9,9\n";
    folder.file("counters.csv", counters);
    let volume = "kind = \"volume\"\nname = \"own\"\ndescription = \"own\"\n\
                  capacity_bytes = 1099511627776\n[[bucket]]\nof = \"ops\"\nrate = 90000\ndepth = 9\n\
                  [latency]\nread_us = 1\nwrite_us = 1\n";
    folder.file("own.toml", volume);
    folder.file("x.trace", "R Hit 10 4 5000.0 2000.0\nW Hit 14 4 900.0 20000.0\n");
    for name in ["a", "b", "c", "d", "v", "w"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    let made = ["store", "create", "a", "b", "c", "d", "--mb", "100"];
    ends(forebay(&made).current_dir(folder.root()), 0);
    for (volume, n) in ["v", "w"].into_iter().flat_map(|volume| (0..6).map(move |n| (volume, n))) {
        let drive = folder.path(&format!("{volume}/{n}"));
        forebay_rig::holes(drive, 32 << 20);
    }
    folder.file("disk.img", vec![0; 1 << 20]);
}

/// Runs all commands and returns their answers by name.
fn answers(folder: &Path) -> Vec<(&'static str, Value)> {
    let asked = ASKED.iter().map(|(name, words)| {
        let words: Vec<&str> = words.split(' ').chain(["--format", "json"]).collect();
        // This volume lacks a drive, so it is degraded.
        let code = if words.contains(&"gone") { 3 } else { 0 };
        let (out, _) = ends(forebay(&words).current_dir(folder), code);
        (*name, serde_json::from_str(&out).unwrap())
    });
    let mut answers: Vec<(&str, Value)> = asked.collect();
    answers.push(("volume", lossy(folder)));
    answers.push((TOP, serde_json::from_str(&top(folder, "json")).unwrap()));
    answers
}

/// Returns the answer for a volume that lost data, because three of its drives were wiped except
/// for their metadata.
fn lossy(folder: &Path) -> Value {
    let ask = |words: &str, code| {
        ends(forebay(&words.split(' ').collect::<Vec<_>>()).current_dir(folder), code).0
    };
    ask("volume create w", 0);
    let rows = (0..8).map(|unit| format!("{unit},write,{},262144\n", unit << 18));
    let rows: String = rows.collect();
    fs::write(folder.join("some.csv"), format!("at_ns,op,offset,len\n{rows}")).unwrap();
    ask("play some.csv --volume w", 0);
    let status: Value = serde_json::from_str(&ask("volume status w --format json", 0)).unwrap();
    let records = status["records_per_drive_bytes"].as_u64().unwrap();
    for drive in ["w/0", "w/1", "w/2"] {
        let drive = fs::File::options().write(true).open(folder.join(drive)).unwrap();
        drive.set_len((8192 + records).next_multiple_of(1 << 20)).unwrap();
        drive.set_len(32 << 20).unwrap();
    }
    serde_json::from_str(&ask("volume check w --format json", 1)).unwrap()
}

/// Returns the output of `top` for a server that has just started.
fn top(folder: &Path, format: &str) -> String {
    let text = "forebay serve disk.img --socket s --policy noop 2>/dev/null &\n\
                until forebay top s --format json >/dev/null 2>&1; do sleep 0.05; done\nforebay top s --format FORMAT\nkill $!; wait $!";
    shell::run(folder, &text.replace("FORMAT", format)).unwrap()
}

#[test]
fn every_answer_matches_the_schema() {
    let folder = Folder::new();
    shell::prepared(folder.root());
    prepare(&folder);
    let answers = answers(folder.root());
    let mut schema: Value = match fs::read_to_string(path()) {
        Ok(text) => serde_json::from_str(&text).unwrap(),
        Err(_) => json!({"$defs": {}}),
    };
    if std::env::var_os("UPDATE").is_some() {
        for (name, answer) in &answers {
            let known = schema["$defs"].get(*name).cloned();
            schema["$defs"][*name] = found::merged(known, found::of("", answer));
        }
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        fs::write(path(), text).unwrap();
        let _ = writeln!(io::stderr(), "docs/schema/forebay.json is written anew: look at it");
    }
    for (name, answer) in &answers {
        let wrong = held::wrong(&schema["$defs"][*name], answer, name);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert_eq!(schema["$defs"][*name]["properties"]["schema_version"]["const"], 4, "{name}");
    }
    are_csv_too(folder.root(), &answers);
    // The schema must not describe answers that no command prints.
    let defined = schema["$defs"].as_object().unwrap().keys();
    for name in defined.filter(|name| !NOT_ASKED.contains(&name.as_str())) {
        assert!(answers.iter().any(|(asked, _)| asked == name), "no answer of {name}");
    }
}

/// Checks the CSV output of each verb by repeating its last command.
fn are_csv_too(folder: &Path, answers: &[(&'static str, Value)]) {
    const MEASURED: [&str; 2] = ["play", "store bench"];
    for (at, (name, words)) in ASKED.iter().enumerate() {
        if ASKED[at + 1..].iter().any(|(later, _)| later == name) {
            continue;
        }
        let words: Vec<&str> = words.split(' ').chain(["--format", "csv"]).collect();
        let (out, _) = ends(forebay(&words).current_dir(folder), 0);
        csv::hold(name, &answers[at].1, &out, MEASURED.contains(name));
    }
    let (name, answer) = answers.last().unwrap();
    csv::hold(name, answer, &top(folder, "csv"), true);
}

/// Every verb with `--format json` must be in the list of commands, so that its answer is in the
/// schema.
#[test]
fn every_verb_with_data_is_checked() {
    for verb in shell::verbs() {
        let words: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        let (help, _) = ends(&mut forebay(&words), 0);
        if !help.contains("docs/schema.md") {
            continue;
        }
        let name = verb.join(" ");
        let group = verb[0].as_str();
        let named = |asked: &&str| *asked == name || (group == "volume" && *asked == group);
        let all =
            ASKED.iter().map(|(asked, _)| *asked).chain([TOP]).chain(NOT_ASKED.iter().copied());
        assert!(all.into_iter().any(|asked| named(&asked)), "{name} prints JSON and is not asked");
    }
}
