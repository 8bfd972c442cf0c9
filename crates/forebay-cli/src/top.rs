//! `forebay top`: shows the activity of a server.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use forebay::names;
use forebay::verb::SecondInterruption;
use forebay_core::Nanos;
use forebay_serve::control::client;
use forebay_serve::figures::{
    BackFigures, DiskFigures, ExportFigures, Figures, LateFigures, PaceFigures, VolumeFigures,
    WindowFigures,
};
use forebay_words::quantities::achieved;

use forebay::words;
use forebay_show::grid::{Cell, Grid, right};
use forebay_words::plural::{counted, verb};
use forebay_words::quantities::{self, bound, millis, or_none, percent, rate, significant};
use serde::Serialize;

use crate::interrupt;
use crate::output::{self, Format};
use crate::verb::Formatted;

forebay_ask::ask! {
    /// Show the activity of a server: each export's rate and latencies against its promise, each
    /// disk's I/Os
    ///
    /// On a terminal, figures are updated until Ctrl-C. Otherwise the server is queried twice, one
    /// interval apart, and the activity in between is printed. Latencies cover the last five to ten
    /// seconds. JSON and CSV are printed once, with figures since the server started.
    pub(crate) struct TopAsk("top") {
        /// The socket that the server listens on (forebay serve --socket)
        socket: PathBuf [.positional().word("SOCKET")],
        /// How often to query the server: 1s, 500ms
        interval: Nanos = "1s",
        /// Print once, even on a terminal
        once: bool,
    }
}

/// The server's figures, to be printed as JSON.
#[derive(Serialize)]
struct TopAnswer<'a> {
    uptime_s: f64,
    backs: &'a [BackFigures],
    /// The disks and volumes that did not answer in time.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    unanswered: &'a [String],
}

/// How often to check whether the user wants to stop.
const TICK: Duration = Duration::from_millis(50);

impl Formatted<TopAsk> {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let TopAsk { socket, interval, once } = self.ask;
        let mut before = client::figures(&socket)?;
        if self.format != Format::Table {
            return output::print_data(
                self.format,
                &TopAnswer {
                    uptime_s: before.uptime_s,
                    backs: &before.backs,
                    unanswered: &before.unanswered,
                },
            );
        }
        let goes_on = io::stdout().is_terminal() && !once;
        interrupt::shortens(SecondInterruption::Ends, |stop| {
            while !stop.load(Ordering::Relaxed) {
                let mut left = Duration::from_nanos(interval.0);
                while !left.is_zero() && !stop.load(Ordering::Relaxed) {
                    let step = left.min(TICK);
                    thread::sleep(step);
                    left -= step;
                }
                let now = client::figures(&socket)?;
                if goes_on {
                    output::clear()?;
                }
                output::print(&page(&before, &now))?;
                if !goes_on {
                    break;
                }
                before = now;
            }
            Ok(())
        })
    }
}

/// Formats the activity between two snapshots.
fn page(before: &Figures, now: &Figures) -> String {
    let fresh = Figures { backs: Vec::new(), uptime_s: 0.0, ..before.clone() };
    let is_same = |one: &BackFigures, other: &BackFigures| {
        one.name == other.name && one.start_id == other.start_id
    };
    // If the server was restarted between the snapshots, its counters began at zero.
    let is_known = |back| before.backs.iter().any(|then| is_same(then, back));
    let goes_on = before.backs.is_empty() || now.backs.iter().any(is_known);
    let before = if goes_on && now.uptime_s >= before.uptime_s { before } else { &fresh };
    let span_s = (now.uptime_s - before.uptime_s).max(1e-3);
    let silent = |name: &String| output::wrapped(&format!("'{name}' does not answer.")) + "\n";
    let mut text: String = now.unanswered.iter().map(silent).collect();
    for back in &now.backs {
        let none = BackFigures { exports: Vec::new(), disks: Vec::new(), ..back.clone() };
        let then = before.backs.iter().find(|other| is_same(other, back)).unwrap_or(&none);
        text += &sentence(then, back, span_s);
        text += &volume(back);
        text += &rearranged(back);
        text.push('\n');
        text += &format!("{}\n\n{}\n\n", exports(then, back, span_s), disks(then, back, span_s));
        if !back.counted.is_empty() {
            let told = |(key, value): &(String, f64)| {
                format!("{} {}", words::words(key), words::shown(key, *value))
            };
            let counted = back.counted.iter().map(told);
            let counted =
                format!("Counted since the start: {}.", counted.collect::<Vec<_>>().join(", "));
            text += &(output::wrapped(&counted) + "\n");
        }
    }
    text
}

/// Summarizes the activity in a sentence: the throughput, and which promises are not kept.
fn sentence(then: &BackFigures, back: &BackFigures, span_s: f64) -> String {
    let total = |of: &BackFigures| of.exports.iter().map(|one| one.reads + one.writes).sum::<u64>();
    let rate = significant(total(back).saturating_sub(total(then)) as f64 / span_s);
    let name = if back.name.is_empty() { "The disk" } else { &back.name };
    let outstanding = back.exports.iter().map(|one| one.under_way).sum::<u64>();
    let mut text = match rate.as_str() {
        "0" if outstanding > 0 => format!(
            "{name} has completed no request, and {} {} outstanding; its policy is {}",
            counted(outstanding, "request"),
            verb(outstanding, "is", "are"),
            back.policy
        ),
        "0" => format!("{name} is idle; its policy is {}", back.policy),
        _ => format!("{name} serves {rate} requests a second with {}", back.policy),
    };
    if back.switches > 0 {
        let (times, pause) = (back.switches, back.last_pause_ms);
        text +=
            &format!(", switched {}, the last time in {}", counted(times, "time"), millis(pause));
    }
    text = output::wrapped(&(text + ".")) + "\n";
    if let Some(PaceFigures { percent, measured_iops }) = back.pace {
        let measured = match measured_iops {
            Some(iops) => format!("The disk serves {} requests a second", significant(iops)),
            None => "The disk was not busy for long enough to be measured".into(),
        };
        let told = format!(
            "{measured}; {} of each promise is kept.",
            quantities::percent(percent / 100.0)
        );
        text += &(output::wrapped(&told) + "\n");
    }
    let is_promised = back.exports.iter().any(|export| export.keep_iops > 0);
    if let Some(WindowFigures { window_ms, device_tail_ms }) = back.window.filter(|_| is_promised) {
        let tail = match device_tail_ms > 0.0 {
            true => format!("up to about {} longer than expected", millis(device_tail_ms)),
            false => "no longer than expected".into(),
        };
        let told = format!(
            "Requests without a promise may occupy the disk for {}; promised ones take {tail}.",
            millis(window_ms)
        );
        text += &(output::wrapped(&told) + "\n");
    }
    if let Some(LateFigures { p99_ms, longest_ms, .. }) = back.late {
        let told = format!(
            "The disk is emulated: 99 % of its I/Os completed at most {} late, and all of them at \
             most {} late.",
            millis(p99_ms),
            millis(longest_ms)
        );
        text += &(output::wrapped(&told) + "\n");
    }
    if let Some(why) = &back.waits_for {
        let told = format!("Its policy cannot be opened: {why}; requests are waiting.");
        text += &(output::wrapped(&told) + "\n");
    }
    for disk in back.disks.iter().filter(|disk| disk.silent_s >= SILENT_S) {
        let silent = quantities::seconds(disk.silent_s);
        let told = format!("{} has not answered for {silent}; its requests wait.", disk.file);
        text += &(output::wrapped(&told) + "\n");
    }
    if let Some(blocks) = back.dirty_blocks.filter(|blocks| *blocks > 0) {
        let told = format!("{} on its flash only.", verb_of(blocks));
        text += &(output::wrapped(&told) + "\n");
    }
    let is_asked = |one: &&ExportFigures| one.kept + one.overdue > 0 || one.broken.is_some();
    for one in back.exports.iter().filter(|one| one.keep_iops > 0).filter(is_asked) {
        // Outstanding requests older than the bound are already late.
        let share = achieved(one.kept_in_time as f64 / (one.kept + one.overdue).max(1) as f64);
        let (name, iops, within) = (&one.name, one.keep_iops, or_none(one.within_ms, bound));
        let clock = if back.late.is_some() { " by the clock of the emulated disk" } else { "" };
        let told = format!(
            "{name}: {share} of the requests covered by {iops} IOPS within {within} were \
                in time{clock}."
        );
        text += &(output::wrapped(&told) + "\n");
        if let Some(why) = &one.broken {
            let told = format!("{name}: the promise is broken: {why}.");
            text += &(output::wrapped(&told) + "\n");
        }
    }
    text
}

/// How long a disk may be silent before it is reported.
const SILENT_S: f64 = 5.0;

/// Returns "5 blocks are", with the number of blocks.
fn verb_of(blocks: u64) -> String {
    format!("{} {}", counted(blocks, "block"), verb(blocks, "is", "are"))
}

fn exports(then: &BackFigures, back: &BackFigures, span_s: f64) -> Grid {
    let heads = [
        "export", "clients", "queue", "reads/s", "writes/s", "rate", "p50", "p99", "max", "failed",
    ];
    let mut table = output::table(heads);
    let named = |one: &ExportFigures| match one.name.is_empty() {
        true => "(default)".into(),
        false => one.name.clone(),
    };
    let names = shortened(&back.exports.iter().map(named).collect::<Vec<_>>());
    for (at, (one, name)) in back.exports.iter().zip(&names).enumerate() {
        let none = ExportFigures::default();
        // An export without clients may have been replaced by another one with its number.
        let then = then.exports.get(at).filter(|then| then.name == one.name).unwrap_or(&none);
        let moved = |of: &ExportFigures| of.read_bytes + of.written_bytes;
        let bytes = moved(one).saturating_sub(moved(then));
        table.add_row(row(
            name,
            [
                one.clients.to_string(),
                one.under_way.to_string(),
                significant(one.reads.saturating_sub(then.reads) as f64 / span_s),
                significant(one.writes.saturating_sub(then.writes) as f64 / span_s),
                rate(bytes as f64 / span_s),
                or_none(one.recent_p50_ms, millis),
                or_none(one.recent_p99_ms, millis),
                or_none(one.recent_longest_ms, millis),
                one.failed.to_string(),
            ],
        ));
    }
    table
}

fn disks(then: &BackFigures, back: &BackFigures, span_s: f64) -> Grid {
    let mut heads =
        vec!["disk", "queue", "busy", "reads/s", "writes/s", "others/s", "rate", "failed"];
    let is_volume = back.disks.iter().any(|disk| disk.drive.is_some());
    heads.extend(["free", "state"].iter().filter(|_| is_volume));
    let mut table = output::table(heads);
    let files: Vec<&str> = back.disks.iter().map(|disk| disk.file.as_str()).collect();
    let names = shortened(&names::told_apart(&files));
    for (at, (one, name)) in back.disks.iter().zip(&names).enumerate() {
        let none = DiskFigures::default();
        let then = then.disks.get(at).unwrap_or(&none);
        let each_s = |now: u64, then: u64| significant(now.saturating_sub(then) as f64 / span_s);
        let mut cells = vec![
            one.under_way.to_string(),
            percent((one.busy_s - then.busy_s).max(0.0) / span_s),
            each_s(one.reads, then.reads),
            each_s(one.writes, then.writes),
            each_s(one.others, then.others),
            rate(one.moved_bytes.saturating_sub(then.moved_bytes) as f64 / span_s),
            one.failed.to_string(),
        ];
        cells.extend(one.drive.into_iter().flat_map(|drive| {
            let state = if drive.is_present { "used" } else { "missing" };
            [quantities::bytes(drive.free_bytes as f64), state.into()]
        }));
        table.add_row(row(name, cells));
    }
    table
}

fn are_different(names: &[String]) -> bool {
    names.iter().collect::<BTreeSet<_>>().len() == names.len()
}

/// Shortens long names in the middle, so that the columns stay aligned. Names that would become
/// equal begin with their number instead.
fn shortened(names: &[String]) -> Vec<String> {
    let cut = |name: &str, room: usize| -> String {
        let all: Vec<char> = name.chars().collect();
        if all.len() <= room {
            return name.to_string();
        }
        let head = (room - 1) / 2;
        let tail = &all[all.len() - (room - 1 - head)..];
        all[..head].iter().chain(&['…']).chain(tail).collect()
    };
    let short: Vec<String> = names.iter().map(|name| cut(name, NAME_MAX)).collect();
    if are_different(&short) {
        return short;
    }
    let placed = |(at, name): (usize, &String)| {
        let place = format!("{at}:");
        place.clone() + &cut(name, NAME_MAX - place.len())
    };
    names.iter().enumerate().map(placed).collect()
}

/// The maximum length of a name in a table.
const NAME_MAX: usize = 12;

/// Formats the progress of a disk whose blocks are being rearranged.
fn rearranged(back: &BackFigures) -> String {
    let given_up = back.counted.iter().any(|(name, value)| name == ABANDONED && *value > 0.0);
    let told = match back.rearranged {
        None => return String::new(),
        Some(true) => "All blocks are at their new locations.",
        Some(false) if given_up => {
            "Copying blocks failed, so all blocks remain where they are. Check the disk; restarting \
             the server repeats the attempt."
        }
        Some(false) => "Blocks are being copied to their new locations whenever the disk is idle.",
    };
    output::wrapped(told) + "\n"
}

/// The name of the counter for abandoned rearrangements.
const ABANDONED: &str = "rearranging_abandoned";

/// Formats the state of a volume: its RAID levels, its drives and the progress of a rebuild.
fn volume(back: &BackFigures) -> String {
    let Some(volume) = &back.volume else { return String::new() };
    let VolumeFigures { units, drives, drives_present, care_units_left, all_units, .. } = volume;
    let mut text = match drives_present < drives {
        true => {
            let missing = drives - drives_present;
            format!("{missing} of {drives} drives {} missing. ", verb(missing, "is", "are"))
        }
        false => format!("All {drives} drives are in use. "),
    };
    let level = |(level, units): &(String, u64)| format!("{units} {level}");
    let levels: Vec<String> = units.iter().map(level).collect();
    text += &match levels.is_empty() {
        true => "Nothing was written yet.".into(),
        false => format!("Units by level: {}.", levels.join(", ")),
    };
    if *care_units_left > 0 {
        let share = percent((all_units - care_units_left) as f64 / (*all_units).max(1) as f64);
        text += &format!(" Rebuilding: {share} of {all_units} units are checked.");
    }
    if volume.lost_units > 0 {
        let (units, are) =
            (counted(volume.lost_units, "unit"), verb(volume.lost_units, "is", "are"));
        text += &format!(
            " {units} {are} not fully readable: run `forebay volume check` for \
            details."
        );
    }
    if volume.lacks_room > 0 {
        text += " Its drives have no space, so writes are waiting.";
    }
    output::wrapped(&text) + "\n"
}

fn row(name: &str, figures: impl IntoIterator<Item = String>) -> Vec<Cell> {
    [Cell::new(name)].into_iter().chain(figures.into_iter().map(right)).collect()
}

#[cfg(test)]
mod tests {
    use forebay_serve::figures::{DriveFigures, SCHEMA_VERSION};

    use super::*;

    fn disk(reads: u64, is_present: bool) -> DiskFigures {
        let drive = Some(DriveFigures { is_present, free_bytes: 2_500_000_000, faults: 0 });
        DiskFigures { file: "/srv/drives/one".into(), reads, drive, ..DiskFigures::default() }
    }

    fn looked(uptime_s: f64, count: u64) -> Figures {
        let export = ExportFigures {
            name: "an export with a long name".into(),
            clients: 255,
            reads: 100_000 + count,
            read_bytes: (100_000 + count) << 20,
            recent_p99_ms: Some(12_345.6),
            keep_iops: 300,
            within_ms: Some(10.0),
            kept: 1000,
            kept_in_time: 999,
            broken: Some("while requests waited, 9 were served".into()),
            ..ExportFigures::default()
        };
        let back = BackFigures {
            name: "data".into(),
            policy: "noop".into(),
            switches: 2,
            last_pause_ms: 3.25,
            exports: vec![export],
            disks: vec![disk(count, true), disk(0, false)],
            pace: Some(PaceFigures { percent: 62.5, measured_iops: Some(287.4) }),
            window: Some(WindowFigures { window_ms: 21.5, device_tail_ms: 0.25 }),
            rearranged: Some(false),
            late: Some(LateFigures { p50_ms: 0.02, p99_ms: 1.25, longest_ms: 9.0 }),
            volume: Some(VolumeFigures {
                units: vec![("raid6".into(), 1200), ("raid10x3".into(), 34)],
                all_units: 4000,
                drives: 6,
                drives_present: 5,
                care_units_left: 3000,
                ..VolumeFigures::default()
            }),
            dirty_blocks: Some(2048),
            waits_for: None,
            start_id: "1".into(),
            counted: (0..30).map(|nth| (format!("units_switched_{nth}"), 1e9)).collect(),
        };
        let unanswered = Vec::new();
        Figures { schema_version: SCHEMA_VERSION, uptime_s, backs: vec![back], unanswered }
    }

    #[test]
    fn truncated_names_stay_distinct() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let short = |all: &[&str]| shortened(&names(all));
        assert_eq!(short(&["a-customer-n1", "a-customer-n2"]), ["a-cus…mer-n1", "a-cus…mer-n2"]);
        assert_eq!(short(&["twelve-chars", "x"]), ["twelve-chars", "x"]);
        let alike = ["a-customer-1-database", "a-customer-2-database"];
        assert_eq!(short(&alike), ["0:a-cu…abase", "1:a-cu…abase"]);
        assert_eq!(shortened(&names::told_apart(&["disk", "disk"])), ["0:disk", "1:disk"]);
    }

    #[test]
    fn an_abandoned_copy_is_reported_to_watchers() {
        let mut back = looked(1.0, 0).backs.remove(0);
        assert!(rearranged(&back).starts_with("Blocks are being copied"));
        back.counted.push((ABANDONED.into(), 1.0));
        assert!(rearranged(&back).starts_with("Copying blocks failed"));
        back.rearranged = None;
        assert_eq!(rearranged(&back), "");
    }

    #[test]
    fn a_page_shows_what_happened_since_the_previous_page() {
        let text = page(&looked(10.0, 0), &looked(12.0, 80_000));
        assert!(text.starts_with("data serves 40000 requests a second with noop"), "{text}");
        assert!(
            text.contains("99.90 % of the requests covered by 300 IOPS within 10 ms were in time"),
            "{text}"
        );
        for said in [
            "1 of 6 drives is missing. Units by level: 1200 raid6, 34 raid10x3.",
            "Rebuilding: 25.0 % of 4000 units",
            "The disk serves 287 requests a second; 62.5 % of each promise is kept.",
            "99 % of its I/Os completed at most 1.25 ms late",
            "were in time by the clock of the emulated disk.",
            "2048 blocks are on its flash only.",
            "for 21.5 ms; promised ones take up to about 250 µs longer than expected.",
            "an export with a long name: the promise is broken: while requests waited, 9 were served.",
        ] {
            assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(said), "{text}");
        }
        let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_string();
        assert!(row("used").contains("one") && row("used").contains("40000"), "{text}");
        assert!(row("  missing").contains(" 1:one "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let mut prompt = looked(12.0, 0);
        prompt.backs[0].window = Some(WindowFigures { window_ms: 21.5, device_tail_ms: 0.0 });
        let prompt = page(&looked(10.0, 0), &prompt);
        let prompt = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(prompt.contains("promised ones take no longer than expected."), "{prompt}");
        let idle = page(&looked(10.0, 0), &looked(12.0, 0));
        assert!(idle.starts_with("data is idle; its policy is noop"), "{idle}");
        let silent = Figures { unanswered: vec!["other".into()], ..looked(12.0, 0) };
        let silent = page(&looked(10.0, 0), &silent);
        assert!(silent.starts_with("'other' does not answer.\ndata is idle"), "{silent}");
        let mut hangs = looked(12.0, 0);
        hangs.backs[0].exports[0].under_way = 1;
        let hangs = page(&looked(10.0, 0), &hangs);
        assert!(
            hangs.starts_with("data has completed no request, and 1 request is outstanding;"),
            "{hangs}"
        );
        // A disk was removed and added again, or the server was restarted and is already older than
        // it was at the first snapshot. The counters began at zero.
        let mut again = looked(12.0, 0);
        again.backs[0].start_id = "2".into();
        again.backs[0].disks[0].reads = 0;
        let text = page(&looked(1.0, 80_000), &again);
        assert!(text.starts_with("data serves 8333 requests a second"), "{text}");
        let mut silent = looked(12.0, 0);
        silent.backs[0].disks[0].silent_s = 66.4;
        assert!(page(&looked(10.0, 0), &silent).contains("has not answered for 66"));
        // The server was restarted between these snapshots.
        let fresh = Figures { backs: Vec::new(), ..looked(10.0, 0) };
        assert!(page(&fresh, &looked(12.0, 80_000)).contains("data serves 90000"), "{text}");
    }
}
