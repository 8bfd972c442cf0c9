//! Tests `forebay plan buy` on the real binary: its answers, what it rejects, and that `forebay
//! serve` accepts the configurations that it proposes.

#[cfg(target_os = "linux")]
use std::fs;

use crate::command;
#[cfg(target_os = "linux")]
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

use crate::command::{Folder, ends, fails, forebay};
#[cfg(target_os = "linux")]
use forebay_rig::nbd::Client;

/// Creates a trace in SPC format with reads at these times in ms, on volumes 0 and 1 in turn, a few
/// thousand sectors apart.
fn trace(folder: &Folder, name: &str, at_ms: impl Iterator<Item = u64>) -> PathBuf {
    let line = |(index, at): (usize, u64)| {
        let sector = index * 7919 % 900 * 8;
        format!("{},{sector},4096,R,{:.6}\n", index % 2, at as f64 / 1e3 + index as f64 * 1e-6)
    };
    folder.file(name, at_ms.enumerate().map(line).collect::<String>())
}

fn buy(arguments: &[&str]) -> Command {
    let mut command = forebay(&["plan", "buy"]);
    command.args(arguments);
    command
}

/// Returns a drive of 2 GB, so that a test can create files of its size.
fn small_drive(folder: &Folder) -> PathBuf {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices/hc550.toml");
    let text = fs::read_to_string(bundled).unwrap();
    let small =
        text.replace("18_000_207_937_536", "2_000_000_000").replace("\"hc550\"", "\"small\"");
    folder.file("small.toml", small)
}

#[test]
fn the_answer_is_a_sentence_then_a_table_of_100_columns_then_configuration() {
    let folder = Folder::new();
    let (a, b) = (
        trace(&folder, "a.spc", (0..60).map(|n| n * 40)),
        trace(&folder, "b.spc", (0..60).map(|n| n * 40 + 20)),
    );
    let text = "currency = \"USD\"\non = \"2026-11\"\n[drive.990-pro]\namount = 309.99\n";
    let prices = folder.file("prices.toml", text);
    let asked = [
        "--prices",
        prices.to_str().unwrap(),
        "--within",
        "20ms",
        "--device",
        "990-pro,hc550,st2000dm008",
        "--layout",
        "single,raid6",
        "--spare",
        "1",
    ];
    let (out, _) = ends(buy(&asked).args([&a, &b]), 0);
    assert!(out.starts_with("Buy 1 990-pro (single), 1 spare, for 619.98 USD, to keep "), "{out}");
    let safer =
        "Tolerates no drive failure (6 990-pro as raid6 would, 2169.93 USD); all clients share";
    assert!(out.contains(safer) && out.contains("990-pro, single, apart"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let (out, _) = ends(buy(&asked).args([&a, &b]).arg("--explain"), 0);
    for part in [
        "\n drive, layout  ",
        "[[export]]\n    name = \"a.spc\"",
        "io.weight",
        "# client reservation_iops",
        "keep_iops",
    ] {
        assert!(out.contains(part), "no {part}: {out}");
    }
    let (found, _) = command::json(buy(&asked).args([&a, &b]));
    let row = &found["rows"][0];
    assert_eq!((row["drive"].as_str(), row["drives"].as_u64()), (Some("990-pro"), Some(1)));
    assert_eq!((row["spare_drives"].as_u64(), row["price"].as_f64()), (Some(1), Some(619.98)));
    assert_eq!(row["simulated_requests"].as_u64(), Some(120));
    assert_eq!(found["clients"][1]["client"], "b.spc");
    assert_eq!(found["rows"].as_array().unwrap().len(), 3 * 2 * 2);
    assert!(found["configuration"]["serve"].as_str().unwrap().contains("emulate = \"990-pro\""));
}

/// A price has the same value in the sentence, in the table and on the page.
#[test]
fn a_price_has_the_same_figure_everywhere() {
    let folder = Folder::new();
    let (trace, page) =
        (trace(&folder, "t.spc", (0..140).map(|n| n * 53)), folder.path("buy.html"));
    let asked = ["--device", "fixed:300", "--layout", "single", "--spare", "2"];
    for (amount, shown) in [
        ("331.5", "994.50 EUR"),
        ("0.126", "0.38 EUR"),
        ("333.2", "999.60 EUR"),
        ("333.3333", "1000.00 EUR"),
        ("4111.11", "12333.33 EUR"),
        ("0", "0.00 EUR"),
    ] {
        let text = format!(
            "currency = \"EUR\"\non = \"2026-11\"\n[drive.\"fixed:300\"]\namount = {amount}\n"
        );
        let prices = folder.file("prices.toml", text);
        let mut command = buy(&asked);
        command.arg(&trace).arg("--prices").arg(&prices).arg("-o").arg(&page);
        let (out, _) = ends(&mut command, 0);
        let of = |text: &str| -> Vec<String> {
            let before = text.split(" EUR").collect::<Vec<_>>();
            let figures = before[..before.len() - 1].iter();
            let is_part = |c: char| c.is_ascii_digit() || c == '.';
            figures
                .map(|part| part.rsplit(|c| !is_part(c)).next().unwrap().to_string() + " EUR")
                .collect()
        };
        // The price appears in the sentence, as the key figure, and in one row.
        assert_eq!(of(&out), [shown, shown, shown], "{out}");
        let text = fs::read_to_string(&page).unwrap();
        let text = text.split("</style>").nth(1).unwrap().replace('\u{a0}', " ");
        let found = of(&text.replace('\u{202f}', ""));
        assert!(found.len() >= 3 && found.iter().all(|one| one == shown), "{amount}: {found:?}");
        let (csv, _) = ends(command.args(["--format", "csv"]), 0);
        let exact = amount.parse::<f64>().unwrap() * 3.0;
        let column = csv.lines().next().unwrap().split(',').position(|head| head == "price");
        let found: f64 =
            csv.lines().nth(1).unwrap().split(',').nth(column.unwrap()).unwrap().parse().unwrap();
        assert!((found - exact).abs() < 1e-9, "data keep all digits: {csv}");
    }
}

#[test]
fn each_client_may_have_its_own_promise_and_volumes_are_clients() {
    let folder = Folder::new();
    let trace = trace(&folder, "t.spc", (0..160).map(|n| n / 8 * 400));
    let asked = [
        "--trust-times",
        "--by",
        "volume",
        "--device",
        "fixed:100",
        "--layout",
        "single",
        "--clients",
        "shared",
    ];
    let drives = |more: &[&str]| {
        let (found, _) = command::json(buy(&asked).args(more).arg(&trace));
        (found["rows"][0]["drives"].clone(), found["clients"][1]["within_ms"].clone())
    };
    let (all, own) = (["--within", "40ms", "--fraction", "1"], ["--promise", "1=500ms:0.5"]);
    let (strict, eased) =
        (drives(&all), drives(&[all, ["--promise", "1=10ms:1", "--devices-max", "99"]].concat()));
    assert_eq!((strict.1.as_f64(), eased.1.as_f64()), (Some(40.0), Some(10.0)));
    assert_ne!(strict.0, eased.0);
    assert_eq!(drives(&[&all[..], &own].concat()).1.as_f64(), Some(500.0));
}

#[test]
fn the_report_is_a_page() {
    let folder = Folder::new();
    let (trace, page) =
        (trace(&folder, "t.spc", (0..140).map(|n| n * 53)), folder.path("buy.html"));
    let asked = ["--device", "990-pro", "--layout", "single"];
    let (_, err) = ends(buy(&asked).arg(&trace).arg("-o").arg(&page), 0);
    assert!(err.contains("buy.html"), "{err}");
    let text = fs::read_to_string(page).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.contains("Buy 1 990-pro"));
}

#[test]
fn impossible_values_are_rejected_with_one_message() {
    let folder = Folder::new();
    let good = trace(&folder, "t.spc", (0..40).map(|n| n * 53));
    let prices =
        folder.file("prices.toml", "currency = \"EUR\"\non = \"2026\"\n[drive.hc550]\nprice = 3\n");
    let binary = folder.file("prices.bin", [0xff, 0xfe, 0, 1]);
    let empty = folder.file("empty.spc", "");
    let prices = prices.to_str().unwrap();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--within", "0ms"], &["--within", "a time above 0"]),
        (&["--within", "-5ms"], &["--within"]),
        (&["--fraction", "1.1"], &["--fraction", "at most 1"]),
        (&["--fraction", "nan"], &["--fraction"]),
        (&["--growth", "0"], &["--growth", "from 0.001 to 1000"]),
        (&["--growth", "nan"], &["--growth"]),
        (&["--growth", "inf"], &["--growth"]),
        (&["--spare", "70000"], &["--spare"]),
        (&["--survives", "3"], &["--survives"]),
        (&["--device", "no-such-drive"], &["no device 'no-such-drive'"]),
        (&["--device", ""], &["no device ''"]),
        (&["--device", "ebs-gp3:gib=100"], &["--device", "`forebay plan volume`"]),
        (&["--layout", "raid7"], &["raid7", "flash-cache"]),
        (&["--layout", "raid6", "--devices-max", "4"], &["nothing to try", "RAID 6 takes 6"]),
        (&["--layout", "flash-cache", "--device", "d7-p5520"], &["nothing to try", "only disks"]),
        (
            &["--promise", "t.spc=1s:1", "--promise", "t.spc=2s:1"],
            &["--promise: got t.spc 2 times"],
        ),
        (&["--configure", prices], &["--configure", "expected a folder"]),
        (&["--configure", "/proc/forebay/x"], &["--configure", "expected a folder"]),
        (&["--policy", "no-such-policy"], &["no policy 'no-such-policy'"]),
        (
            &["--policy", "miser:cmin=100", "--device", "hc550", "--layout", "single"],
            &["miser", "got a shaper, expected a scheduler"],
        ),
        (&["--flash", "hc550"], &["--flash hc550", "solid-state drive"]),
        (&["--promise", "t.spc"], &["--promise", "CLIENT=TIME:SHARE"]),
        (&["--promise", "other=5ms:0.9"], &["--promise: got no client called other", "t.spc"]),
        (&["--promise", "t.spc=5:0.9"], &["--promise", "a time with its unit"]),
        (&["--prices", prices], &["prices.toml", "line 4", "unknown field `price`"]),
        (&["--prices", binary.to_str().unwrap()], &["prices.bin"]),
        (&["--prices", "/nonexistent"], &["/nonexistent"]),
        (&["--devices-max", "0"], &["--devices-max"]),
        (&["--devices-max", "1025"], &["--devices-max"]),
        (&["--report", good.to_str().unwrap()], &["t.spc"]),
    ];
    for (arguments, parts) in cases {
        fails(buy(arguments).arg(&good), 2, parts);
    }
    fails(&mut buy(&[empty.to_str().unwrap()]), 2, &["empty.spc"]);
    fails(&mut buy(&[]), 2, &["<TRACE>..."]);
}

#[test]
fn drives_too_slow_for_a_promise_are_listed_without_failing() {
    let folder = Folder::new();
    let trace = trace(&folder, "t.spc", (0..140).map(|n| n * 53));
    let asked = ["--within", "10us", "--device", "hc550,990-pro"];
    let folder_asked = folder.path("conf");
    let (out, said) = ends(buy(&asked).arg(&trace).arg("--configure").arg(&folder_asked), 0);
    assert!(said.contains("conf: the configuration is not written, since nothing"), "{said}");
    assert!(!folder_asked.exists());
    assert!(out.starts_with("Nothing that was tried keeps 99 % within 10 µs"), "{out}");
    let (out, _) = ends(buy(&asked).arg(&trace).arg("--explain"), 0);
    assert!(out.contains("Too slow in any number, even if no arm"), "{out}");
    let (found, _) = command::json(buy(&asked).arg(&trace));
    assert!(found["configuration"].is_null() && found["rows"][0]["drives"].is_null());
}

/// Returns the proposed configuration for a layout, and the folder in which `setup.sh` was run.
fn set_up(layout: &str, more: &[&str]) -> (Folder, Value) {
    let folder = Folder::new();
    let drive = small_drive(&folder);
    let (a, b) = (
        trace(&folder, "a b\"c.spc", (0..60).map(|n| n * 207)),
        trace(&folder, "b.spc", (0..60).map(|n| n * 207 + 101)),
    );
    let mut command =
        buy(&["--within", "80ms", "--fraction", "0.9", "--layout", layout, "--configure"]);
    command.arg(folder.path("conf")).arg("--device").arg(&drive).args(more).args([&a, &b]);
    let (found, _) = command::json(&mut command);
    assert!(found["rows"][0]["drives"].is_u64(), "{layout}: {found}");
    let binary = assert_cmd::cargo::cargo_bin!("forebay");
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut script = Command::new("sh");
    script.args(["-e", "setup.sh"]).current_dir(folder.path("conf")).env("PATH", path);
    ends(&mut script, 0);
    (folder, found)
}

/// Starts a server with the proposed configuration, and checks that it serves each client's export
/// and stops without errors.
#[cfg(target_os = "linux")]
fn is_served(folder: &Folder, clients: &[&str]) {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("forebay"))
        .args(["serve", "serve.toml"])
        .current_dir(folder.path("conf"))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut all = String::new();
    while !all.contains("serving") {
        assert!(said.read_line(&mut all).unwrap() > 0, "it does not serve: {all}");
    }
    for client in clients {
        Client::simple(&folder.path("conf/forebay.sock"), client);
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A server accepts the configuration proposed for each layout, with files in place of drives.
#[cfg(target_os = "linux")]
#[test]
fn serve_accepts_the_proposed_configuration() {
    for (layout, clients) in [
        ("single", "shared"),
        ("single", "apart"),
        ("mirror", "shared"),
        ("raid6", "apart"),
        ("volume-mirror", "shared"),
        ("volume-raid6", "shared"),
        ("adaptive", "apart"),
        ("flash-cache", "shared"),
    ] {
        let flash = ["--flash", "samsung-830:capacity-gb=1", "--clients", clients];
        let (folder, found) = set_up(layout, &flash);
        let serve = found["configuration"]["serve"].as_str().unwrap();
        // For md devices, a single file replaces the array, so its drives cannot be emulated.
        let level = match layout {
            "mirror" => Some("--level=10 --chunk=512K --raid-devices=2 DRIVES"),
            "raid6" => Some("--level=6 --chunk=512K --raid-devices=6 DRIVES"),
            _ => None,
        };
        assert_eq!(serve.contains("mdadm"), level.is_some(), "{layout}: {serve}");
        assert!(level.is_none_or(|level| serve.contains(level)), "{layout}: {serve}");
        assert_eq!(serve.contains("emulate = "), level.is_none(), "{layout}");
        assert_eq!(serve.matches("keep_iops = ").count(), 2, "{layout}");
        // Clients on the same drive are placed one after another.
        let figure = |key: &str| -> Vec<&str> {
            let lines = serve.lines().filter_map(|line| line.strip_prefix(key));
            lines.map(|line| line.trim_matches(|c| " =\"".contains(c))).collect()
        };
        let second = if clients == "shared" { figure("size")[0] } else { "0MiB" };
        assert_eq!(figure("offset"), ["0MiB", second], "{layout}");
        is_served(&folder, &["a b\"c.spc", "b.spc"]);
    }
}
