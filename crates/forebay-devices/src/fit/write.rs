//! Formats a fitted disk as a device file, with the standard error of each figure.

use std::fmt::Write;

use super::{Figure, Fitted};

impl Fitted {
    /// Formats the fitted disk as a device file.
    pub fn toml(&self) -> String {
        let (seek, known) = (&self.seek, &self.known);
        let mut text = format!(
            "# Fitted to fio's latencies by `forebay device fit`. \"fitted\" figures carry their \
             standard error;\n# \"assumed\" ones cannot be seen in reads at queue depth 1.\n# {} \
             random reads came from the drive's cache and {} log lines were not reads.\nkind = \
             \"hdd\"\nname = {:?}\ndescription = \"fitted to measurements\"\n",
            self.cached, self.lines_skipped, known.name,
        );
        let rpm = 60e3 / self.revolution_ms.value;
        let rpm =
            Figure { value: rpm, error: rpm * self.revolution_ms.error / self.revolution_ms.value };
        let mut section = |title: &str, lines: &[(&str, String, String)]| {
            let _ = writeln!(text, "\n[{title}]");
            for (key, value, source) in lines {
                let _ = writeln!(text, "{:<34} # {source}", format!("{key} = {value}"));
            }
        };
        let fitted = |key: &'static str, figure: Figure| {
            (key, format!("{:.9}", figure.value), format!("fitted: {figure}"))
        };
        let assumed = |key: &'static str, value: &str, why: &str| {
            (key, value.to_string(), format!("assumed: {why}"))
        };
        let given = ("heads", known.heads.to_string(), "as given".to_string());
        section("geometry", &[given, fitted("rpm", rpm)]);
        let of_curve = format!(
            "best of a grid; the curve takes {} ms over one cylinder, {} over a third of the disk, \
             {} over all of it",
            seek.track_to_track_ms, seek.third_stroke_ms, seek.full_stroke_ms
        );
        section(
            "seek",
            &[
                fitted("short_ms", seek.short_ms),
                fitted("short_us_per_root", seek.short_us_per_root),
                fitted("long_ms", seek.long_ms),
                fitted("long_us_per_cylinder", seek.long_us_per_cylinder),
                ("knee_cylinders", seek.knee_cylinders.to_string(), of_curve),
                assumed("write_settle_ms", "0.5", "the jobs only read"),
            ],
        );
        section(
            "switch",
            &[
                fitted("head_ms", self.switch_ms),
                (
                    "cylinder_ms",
                    format!("{:.9}", self.switch_ms.value),
                    "equal to the head switch; reads show only their sum".to_string(),
                ),
            ],
        );
        section("command", &[fitted("overhead_ms", self.overhead_ms)]);
        let unseen = "not measured; fill in from the data sheet";
        section(
            "power",
            &[
                assumed("idle_w", "0.0", unseen),
                assumed("seek_w", "0.0", unseen),
                assumed("transfer_w", "0.0", unseen),
            ],
        );
        self.write_zones(&mut text);
        text
    }

    fn write_zones(&self, text: &mut String) {
        for zone in &self.zones {
            let _ = write!(
                text,
                "\n[[zone]] # from byte {}, sustained MB/s fitted: {}\nfirst_cylinder = {}\n\
                 last_cylinder = {}\nsectors_per_track = {}\n",
                zone.first_byte,
                zone.sustained_mb_per_s,
                zone.first_cylinder,
                zone.first_cylinder.saturating_add(zone.cylinders - 1),
                zone.sectors_per_track,
            );
        }
    }
}
