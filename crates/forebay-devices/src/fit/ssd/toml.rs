//! Formats a fitted solid-state drive as a device file.

use std::fmt::Write;

use super::SsdFit;
use super::side::{CHANNEL_MB_PER_S, Side};
use crate::fit::check::{RowChecked, errors_text, evidence_text};
use crate::ssd::US_MAX;

/// The capacity that is assumed if none was given.
const CAPACITY_BYTES: u64 = 480_103_981_056;
const PAGE_BYTES: u64 = 4096;
const PROGRAM_PAGES: u64 = 8;
const PAGES_PER_BLOCK: u64 = 1024;
/// The assumed margin by which programs are faster than the maximum measured rate requires.
const QUICKER: f64 = 1.3;

type Line<'a> = (&'a str, String, &'a str);

impl SsdFit {
    /// Formats the device file: the source of each figure, and a table with the errors of `rows`.
    pub fn toml(&self, rows: &[RowChecked], notes: &[String]) -> String {
        let mut text = String::from("# Fitted to an fio sweep by `forebay device fit`.\n");
        for note in notes {
            let _ = writeln!(text, "# Note: {}.", note.replace(char::is_control, " "));
        }
        text += &errors_text(rows);
        let name = self.known.name.replace(char::is_control, " ");
        let _ = write!(
            text,
            "kind = \"ssd\"\nname = {name:?}\ndescription = \"fitted to an fio sweep\"\n"
        );
        self.write_flash(&mut text);
        self.write_interface(&mut text);
        self.write_rest(&mut text);
        text += &evidence_text(rows);
        text
    }

    fn write_flash(&self, text: &mut String) {
        let reads = &self.reads;
        let size = match self.known.capacity_bytes {
            Some(bytes) => (bytes, "as given"),
            None => (CAPACITY_BYTES, "assumed: the size was not given"),
        };
        // Each die programs its share of the maximum rate plus the margin.
        let pages_per_s = self.written_mb_per_s * 1e6 / PAGE_BYTES as f64 * QUICKER;
        let program_us = f64::from(reads.lanes) * PROGRAM_PAGES as f64 * 1e6 / pages_per_s;
        // A program that takes less time does not limit the measured rate either.
        let program_us = program_us.min(US_MAX);
        let usual = "assumed: a sweep does not show it";
        table(
            text,
            "flash",
            &[
                ("capacity_bytes", size.0.to_string(), size.1),
                ("page_bytes", PAGE_BYTES.to_string(), usual),
                ("program_pages", PROGRAM_PAGES.to_string(), usual),
                ("pages_per_block", PAGES_PER_BLOCK.to_string(), usual),
                ("channels", reads.lanes.to_string(), "fitted: the number of concurrent reads"),
                ("dies_per_channel", "1".to_string(), "fitted: see channels"),
                ("over_provisioning_percent", "9".to_string(), usual),
                ("read_us", modes(reads), "fitted: both latencies and their shares"),
                (
                    "read_busy_share",
                    share(reads.busy_share),
                    "fitted: the part during which the \
                    die is busy",
                ),
                ("program_us", us(program_us), "derived: not slower than the measurements"),
                ("erase_us", "3000".to_string(), usual),
                ("channel_mb_per_s", CHANNEL_MB_PER_S.to_string(), usual),
            ],
        );
    }

    fn write_interface(&self, text: &mut String) {
        let (link, is_shown) = self.link_mb_per_s;
        let of_link = if is_shown { "fitted: the fastest large I/Os" } else { "assumed: usual" };
        let duplex = self.queue_depth > super::SATA_DEPTH;
        let of_duplex = "assumed: PCI Express carries both directions at once, SATA does not";
        table(
            text,
            "link",
            &[("mb_per_s", us(link), of_link), ("duplex", duplex.to_string(), of_duplex)],
        );
        let place =
            |side: &Side| if side.behind { "\"completion\"" } else { "\"arrival\"" }.to_string();
        let of_place = "fitted: before or after the flash";
        let mut lines: Vec<Line> = vec![
            ("interval_us", us(self.reads.interval_us), "fitted: the highest rate of reads"),
            ("interval_at", place(&self.reads), of_place),
        ];
        if let Some(writes) = &self.writes {
            let of_rate = "fitted: the highest rate of writes";
            lines.push(("write_interval_us", us(writes.interval_us), of_rate));
            lines.push(("write_interval_at", place(writes), of_place));
        }
        let depth = "assumed: 32 with SATA, no limit that matters with NVMe";
        lines.push(("overhead_us", "0".to_string(), "a part of read_us"));
        lines.push(("queue_depth", self.queue_depth.to_string(), depth));
        table(text, "command", &lines);
    }

    fn write_rest(&self, text: &mut String) {
        let usual = "assumed: a sweep does not show it";
        let mut lines: Vec<Line> = vec![
            ("bytes", (16_u64 << 20).to_string(), usual),
            ("power_loss_protection", "false".to_string(), usual),
        ];
        if let Some(writes) = &self.writes {
            let of = "fitted: both latencies and their shares";
            lines.push(("entrance_us", modes(writes), of));
            let busy = share(writes.busy_share);
            lines.push((
                "entrance_busy_share",
                busy,
                "fitted: the part during which other writes \
                wait",
            ));
            lines.push((
                "entrance_lanes",
                writes.lanes.to_string(),
                "fitted: the number of \
                concurrent writes",
            ));
        }
        table(text, "write_buffer", &lines);
        let unseen = "assumed: not measured; fill in from the data sheet";
        let watts = ["idle_w", "read_w", "write_w"].map(|key| (key, "0.0".to_string(), unseen));
        table(text, "power", &watts);
        let pause = |side: &Side| {
            let us = |time: forebay_core::Nanos| us(time.0 as f64 / 1e3);
            (us(side.host.gap), us(side.host.wake))
        };
        let gap = "fitted: the pause between a completion and the next I/O";
        let wake = "fitted: the additional delay at depth 1, where the host sleeps";
        let (of_reads, of_writes) = (pause(&self.reads), self.writes.as_ref().map(pause));
        let mut lines: Vec<Line> =
            vec![("read_gap_us", of_reads.0, gap), ("read_wake_us", of_reads.1, wake)];
        if let Some((of_gap, of_wake)) = of_writes {
            lines.extend([("write_gap_us", of_gap, gap), ("write_wake_us", of_wake, wake)]);
        }
        table(text, "host", &lines);
    }
}

fn modes(side: &Side) -> String {
    let ([first, second], of_first) = (side.modes_us, share(side.first_share));
    let of_second = share(1.0 - side.first_share);
    format!("[[{}, {of_first}], [{}, {of_second}]]", us(first), us(second))
}

/// Formats a time in us with nanosecond resolution, which is that of the model.
fn us(value: f64) -> String {
    format!("{}", (value.max(0.0) * 1e3).round() / 1e3)
}

fn share(value: f64) -> String {
    format!("{}", (value * 1e4).round() / 1e4)
}

fn table(text: &mut String, title: &str, lines: &[Line]) {
    let _ = writeln!(text, "\n[{title}]");
    for (key, value, source) in lines {
        let _ = writeln!(text, "{:<45} # {source}", format!("{key} = {value}"));
    }
}
