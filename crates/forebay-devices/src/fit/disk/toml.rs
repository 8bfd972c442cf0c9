//! Formats a fitted disk as a device file.

use std::fmt::Write;

use super::DiskFit;
use super::figures::{KNEE_SHARE, OVERHEAD_MS, RUN_SECTORS, SWITCH_MS, US_PER_SECTOR, ZONES};
use crate::change::MARGIN_RANGE_TURNS;

impl DiskFit {
    /// Formats the device file: first a table of the rows and their errors, then each figure with
    /// its source.
    pub fn toml(&self) -> String {
        let mut text = String::from("# Fitted to an fio sweep by `forebay device fit`.\n");
        for note in &self.notes {
            let _ = writeln!(text, "# Note: {}.", note.replace(char::is_control, " "));
        }
        text += "#\n# row                          measured     model    error  p99 error\n";
        for check in &self.checks {
            let row = &check.measured;
            let p99 = check.p99_error().map_or("-".to_string(), percent);
            let _ = writeln!(
                text,
                "# {:<26} {:>9.1} {:>9.1} {:>8}  {p99:>9}",
                format!("{} at depth {}", super::noun(row.op), row.depth),
                row.iops,
                check.model.iops,
                percent(check.iops_error()),
            );
        }
        let name = self.known.name.replace(char::is_control, " ");
        let _ = write!(
            text,
            "kind = \"hdd\"\nname = {name:?}\ndescription = \"fitted to an fio sweep\"\n"
        );
        self.write_mechanics(&mut text);
        self.write_controller(&mut text);
        text
    }

    fn source(&self, key: &str) -> &str {
        let source = self.sources.iter().find(|(other, _)| *other == key);
        source.map_or("assumed", |(_, source)| source)
    }

    fn write_mechanics(&self, text: &mut String) {
        let figures = &self.figures;
        let [outer, inner] = figures.sustained_mb_per_s;
        table(
            text,
            "geometry",
            &[
                ("capacity_bytes", self.known.capacity_bytes.to_string(), "as given"),
                ("heads", figures.heads.to_string(), self.source("heads")),
                ("rpm", figures.rpm.to_string(), self.source("rpm")),
            ],
        );
        let rates = self.source("sustained");
        table(
            text,
            "zones",
            &[
                ("outer_sustained_mb_per_s", outer.to_string(), rates),
                ("inner_sustained_mb_per_s", inner.to_string(), rates),
                ("count", ZONES.to_string(), "assumed: the count hardly matters"),
            ],
        );
        table(
            text,
            "seek",
            &[
                ("track_to_track_ms", ms(figures.track_to_track_ms), self.source("track")),
                ("average_ms", ms(figures.average_ms), self.source("average")),
                ("full_stroke_ms", ms(figures.full_stroke_ms), self.source("full")),
                ("knee_share", KNEE_SHARE.to_string(), "assumed: usual"),
                ("write_settle_ms", ms(figures.write_settle_ms), self.source("settle")),
            ],
        );
        let switch = ms(SWITCH_MS);
        let of_switch = "assumed: usual; random I/O hardly depends on it";
        table(
            text,
            "switch",
            &[("head_ms", switch.clone(), of_switch), ("cylinder_ms", switch, of_switch)],
        );
        table(text, "command", &[("overhead_ms", ms(OVERHEAD_MS), "assumed: usual")]);
        let unseen = "not measured; fill in from the data sheet";
        let watts = ["idle_w", "seek_w", "transfer_w"].map(|key| (key, "0.0".to_string(), unseen));
        table(text, "power", &watts);
    }

    fn write_controller(&self, text: &mut String) {
        let figures = &self.figures;
        let mut queue = vec![
            ("depth", figures.queue_depth.to_string(), self.source("depth")),
            ("starvation_ms", ms(figures.starvation_ms), self.source("starvation")),
            ("catch_margin_ms", ms(figures.catch_margin_ms), self.source("margin")),
            ("ahead", figures.ahead.to_string(), self.source("ahead")),
        ];
        let [least, greatest] = MARGIN_RANGE_TURNS.map(|turns| ms(turns * 60_000.0 / figures.rpm));
        let range = format!("[{least}, {greatest}]");
        // A catch margin that the sweep did not determine is only a guess.
        if figures.queue_depth > 1 && self.source("margin").starts_with("assumed") {
            queue.insert(3, ("catch_margin_range_ms", range, "as in measured disks"));
        }
        table(text, "queue", &queue);
        let usual = "assumed: random I/O does not show it";
        let run = RUN_SECTORS.to_string();
        table(
            text,
            "buffer",
            &[
                ("segments", "16".to_string(), usual),
                ("segment_sectors", run.clone(), usual),
                ("read_ahead", "\"limit\"".to_string(), usual),
                ("read_ahead_sectors", run.clone(), usual),
                ("read_ahead_on_hit", "true".to_string(), usual),
                ("almost_hits", "true".to_string(), usual),
            ],
        );
        let admits = if figures.admits_newest { "\"newest\"" } else { "\"oldest\"" };
        if figures.places > 0 {
            table(
                text,
                "write_cache",
                &[
                    ("enabled", "true".to_string(), self.source("places")),
                    ("extents", figures.places.to_string(), self.source("places")),
                    ("extent_sectors", run, usual),
                    ("sectors", figures.cache_sectors().to_string(), usual),
                    ("admits", admits.to_string(), self.source("admits")),
                ],
            );
        }
        let rate = US_PER_SECTOR.to_string();
        table(
            text,
            "bus",
            &[
                ("read_us_per_sector", rate.clone(), "assumed: SATA at 300 MB/s"),
                ("write_us_per_sector", rate, "assumed: SATA at 300 MB/s"),
            ],
        );
    }
}

fn table(text: &mut String, title: &str, lines: &[(&str, String, &str)]) {
    let _ = writeln!(text, "\n[{title}]");
    for (key, value, source) in lines {
        let _ = writeln!(text, "{:<34} # {source}", format!("{key} = {value}"));
    }
}

/// Formats a time in ms with nanosecond resolution, which is that of the model.
fn ms(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}
