//! The verbs `device fit`, `device import` and `device validate`.

use std::path::{Path, PathBuf};

use forebay_ask::{Choice, Parsed, Size, Value, exists, named};
use forebay_show::figure::{Figure as Shown, Unit};
use forebay_show::{Block, Cell, Column, Page, Place, Row, Table, Tone, Verdict};
use forebay_words::plural::counted;
use serde::Serialize;

use super::{
    Compared, DriveKind, Fit, FitFigures, FitOptions, Imported, RowFigures, SweepFigures, compare,
    fit, import, told_of,
};
use crate::Error;
use crate::devices::fit::disk::{FAR_OFF, POOR_FIT};
use crate::devices::fit::ssd::P99_FAR_OFF;
use crate::devices::validate::{Arrivals, Validation};
use crate::verb::{Answered, DeviceInput, Session, Verb, warn_all};

forebay_ask::ask! {
    /// Fit a drive model to fio's measurements: a sweep of queue depths, or latency logs
    ///
    /// fio's results (`--output-format=json` or `json+`) at several queue depths make a disk or a
    /// solid-state drive; `forebay device job` prints a job that measures them. A folder of latency
    /// logs makes a disk, zone by zone (docs/measure-a-drive.md has both jobs).
    pub struct DeviceFitAsk("device fit") {
        /// fio's results or folders of them, or one folder with the logs zones*, back*, near* and
        /// seek*_lat.*.log
        measurements: Vec<PathBuf> [.positional().word("MEASURED").at_least_one().checked(exists)],
        /// The device file to write
        output: PathBuf [.short('o')],
        /// The drive's size (blockdev --getsize64 DEVICE). Required for logs; has little effect for
        /// a sweep
        capacity: Option<Size>,
        /// Data surfaces of a disk, if known. Has little effect, because distances are measured as
        /// shares of the disk
        heads: Option<u32> [.word("COUNT").between(1.0, 64.0)],
        /// The speed of a disk in revolutions per minute. Only used for a sweep, because logs
        /// reveal it
        rpm: Option<f64> [.word("RPM").between(1_000.0, 30_000.0).otherwise("what reads at depth 1 suggest")],
        /// The drive's name
        name: Option<String> [.otherwise("the name of the output")],
        /// The kind of drive that a sweep was measured on
        kind: Option<DriveKind> [.otherwise("what its rates say")],
    }
}

forebay_ask::ask! {
    /// Make a device file from a DiskSim .diskspecs and the .model, .seek and .parv next to it
    pub struct DeviceImportAsk("device import") {
        /// The .diskspecs file
        file: PathBuf [.positional()],
        /// The device file to write. Without it, nothing is written
        output: Option<PathBuf> [.short('o')],
    }
}

forebay_ask::ask! {
    /// Compare a model with measurements of the drive: fio's results, or a DiskSim validation trace
    ///
    /// fio's results (files that end in .json, or folders of them) are measured again on the model,
    /// row by row.
    ///
    /// A trace is played from 20 positions of the platters. With simulated arrivals the results
    /// hardly differ, because each request after the first is issued a fixed time after a
    /// completion: the spread shows the effect of the unknown start, not the uncertainty of the
    /// distance. Compare the distance with the one for redrawn rotation.
    pub struct DeviceValidateAsk("device validate") {
        /// A bundled device or a device file
        device: DeviceInput [.positional()],
        /// fio's results, or one trace, compressed or not
        trace: Vec<PathBuf> [.positional().word("MEASURED").at_least_one()],
        /// When a trace's requests are issued: simulated (a gap after the simulated completion) or
        /// measured (as recorded)
        arrivals: Parsed<Arrivals> = "simulated" [.word("WHEN")],
    }
}

impl Value for DriveKind {
    const WORD: &'static str = "KIND";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "hdd", about: "a disk" },
        Choice { name: "ssd", about: "a solid-state drive" },
    ];

    fn parse(text: &str) -> Result<DriveKind, String> {
        text.parse()
    }
}

impl Verb for DeviceFitAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let options = FitOptions {
            capacity_bytes: self.capacity.map(|size| size.bytes),
            heads: self.heads,
            rpm: self.rpm,
            name: self.name,
            kind: self.kind,
        };
        session.begin("fitting", None);
        match fit(&self.measurements, &options, &self.output)? {
            Fit::Logs(fitted) => {
                let mut notes = told_of(&fitted);
                if options.rpm.is_some() {
                    notes.push(format!("{} is ignored: the logs show the speed", named("rpm")));
                }
                warn_all(session, &self.output, &notes);
                let figures = FitFigures::of(&fitted, &self.output);
                Answered::new(&figures, logs_page(&figures))
            }
            Fit::Sweep(figures) => {
                warn_all(session, &self.output, &figures.notes);
                Answered::new(&figures, fit_page(&figures))
            }
        }
    }
}

/// Summarizes how well a model fits the rows of a sweep that fits use.
fn fits(rows: &[RowFigures]) -> String {
    let fitted = || rows.iter().filter(|row| row.fitted);
    let worst = |error: fn(&RowFigures) -> Option<f64>| {
        fitted().filter_map(error).map(f64::abs).fold(0.0, f64::max)
    };
    let [rates, tails] =
        [worst(|row| Some(row.iops_error_share)), worst(|row| row.p99_error_share)]
            .map(|share| Shown::new(share, Unit::Share).text());
    format!("rates are at most {rates} off, p99s at most {tails}")
}

/// States which rows a fit was compared with. Only rows of the sweep itself can be compared, so
/// other depths may be further off.
fn compared_with(rows: &[RowFigures]) -> String {
    let count = rows.iter().filter(|row| row.fitted).count() as u64;
    let rows_fitted = counted(count, "row");
    format!(
        "The model was compared with the {rows_fitted} that it was fitted to; other rows may be further off."
    )
}

/// Builds a page about a fit to a sweep. If the fit is poor, the page says what that means.
fn fit_page(figures: &SweepFigures) -> Page {
    let headline = format!("{}: {}.", figures.output, fits(&figures.rows));
    let said = compared_with(&figures.rows);
    let Some(why) = poor(figures) else {
        return sweep_page("Fit", headline, Some(said), &figures.rows, &figures.notes);
    };
    let said = Some(format!("{why} {said}"));
    let page = sweep_page("Fit", headline, said, &figures.rows, &figures.notes);
    Page { verdict: Verdict::new(Tone::Warning, "Poor fit"), ..page }
}

/// Says why a fit is poor, or returns None if it is not.
fn poor(figures: &SweepFigures) -> Option<&'static str> {
    let is_above = |share: Option<f64>, most: f64| share.is_some_and(|share| share.abs() > most);
    let (rates, p99s) = (figures.iops_error_share, figures.p99_error_share);
    match figures.kind {
        DriveKind::Hdd if is_above(rates, POOR_FIT) => {
            Some("This is not one disk, or not a disk of this kind.")
        }
        DriveKind::Ssd if is_above(rates, POOR_FIT) => {
            Some("This is not one solid-state drive, or the rows contradict each other.")
        }
        DriveKind::Ssd if is_above(rates, FAR_OFF) || is_above(p99s, P99_FAR_OFF) => {
            Some("The notes name the rows that the model misses.")
        }
        _ => None,
    }
}

/// Builds a page that compares the measured figures of a sweep with the model's, after what is
/// `said` about the comparison. The table fits in 80 columns.
fn sweep_page(
    kind: &str,
    headline: String,
    said: Option<String>,
    rows: &[RowFigures],
    notes: &[String],
) -> Page {
    let of_fit = |row: &RowFigures| if row.fitted { "" } else { " *" };
    let time = |us: Option<f64>| Cell::value(us.map(|us| us / 1e6));
    let table = Table::listing(
        rows,
        &[
            (Column::words("row"), &|row| format!("{}{}", row.short, of_fit(row)).into()),
            (Column::of("IOPS", Unit::Count), &|row| row.measured_iops.into()),
            (Column::of("model", Unit::Count).joined(), &|row| row.model_iops.into()),
            (Column::of("rate error", Unit::Share), &|row| row.iops_error_share.into()),
            (Column::of("p99", Unit::Seconds), &|row| time(row.measured_p99_us)),
            (Column::of("model", Unit::Seconds).joined(), &|row| time(row.model_p99_us)),
            (Column::of("p99 error", Unit::Share), &|row| row.p99_error_share.into()),
        ],
    );
    let mut blocks: Vec<Block> = said.into_iter().map(Block::Text).collect();
    blocks.push(Block::Table(table));
    if rows.iter().any(|row| !row.fitted) {
        blocks.push(Block::Text("Fits do not use the rows marked with *.".to_string()));
    }
    let mut page = titled(kind, headline);
    page.add("The model compared with the measurements", Place::FirstScreen, blocks);
    page.add_notes("Keep in mind", Place::Detail, notes.to_vec());
    page
}

fn titled(kind: &str, headline: String) -> Page {
    let verdict = Verdict::new(Tone::Calm, kind);
    Page { title: format!("{kind} of a drive"), verdict, headline, ..Page::default() }
}

/// Builds a page with the figures of a fit to logs, with their standard errors.
fn logs_page(figures: &FitFigures) -> Page {
    let milliseconds = [
        ("revolution", figures.revolution_ms),
        ("overhead", figures.overhead_ms),
        ("track switch", figures.switch_ms),
        ("seek of one track", figures.track_to_track_ms),
        ("seek of a third", figures.third_stroke_ms),
        ("full seek", figures.full_stroke_ms),
    ];
    let rates = [("outer edge", figures.outer_mb_per_s), ("inner edge", figures.inner_mb_per_s)];
    let mut table =
        Table::new([Column::words(""), Column::words("value"), Column::words("standard error")]);
    let cell = |value: f64, unit| Cell::Figure(Shown::new(value, unit));
    for (what, [value, error]) in milliseconds {
        let cells = [value / 1e3, error / 1e3].map(|value| cell(value, Unit::Seconds));
        table.rows.push(Row::new([Cell::from(what)].into_iter().chain(cells)));
    }
    for (what, [value, error]) in rates {
        let cells = [value * 1e6, error * 1e6].map(|value| cell(value, Unit::ByteRate));
        table.rows.push(Row::new([Cell::from(what)].into_iter().chain(cells)));
    }
    let headline = format!("{}: a disk of {} zones.", figures.output, figures.zones);
    let mut page = titled("Fit", headline);
    page.add("Figures", Place::FirstScreen, vec![Block::Table(table)]);
    page
}

impl Verb for DeviceImportAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        #[derive(Serialize)]
        struct ImportAnswer<'a> {
            device: &'a str,
            summary: &'a str,
            /// Parameters of the DiskSim drive that were left out or repaired, one sentence each.
            notes: &'a [String],
            text: &'a str,
        }
        let Imported { device, summary, notes, text } = import(&self.file, self.output.as_deref())?;
        warn_all(session, &self.file, &notes);
        let mut page = titled(
            "Import",
            match &self.output {
                Some(output) => format!("{device} was imported to {}.", output.display()),
                None => format!("{device} can be imported."),
            },
        );
        let drive = vec![Block::Text(format!("{summary}."))];
        page.add("Drive", Place::FirstScreen, drive);
        if self.output.is_none() {
            let hint = format!("`--explain` shows the device file; {} writes it.", named("output"));
            page.add("What next", Place::FirstScreen, vec![Block::Text(hint)]);
            let lines = text.lines().map(String::from).collect();
            page.add("Device file", Place::Detail, vec![Block::Commands(lines)]);
        }
        page.add_notes("Keep in mind", Place::Detail, notes.clone());
        let answer =
            ImportAnswer { device: &device, summary: &summary, notes: &notes, text: &text };
        Answered::new(&answer, page)
    }
}

impl Verb for DeviceValidateAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        session.begin("comparing", None);
        let (compared, told) = compare(&self.device.0, &self.trace, *self.arrivals)?;
        warn_all(session, Path::new(&self.device.0), &told);
        let page = match &compared {
            Compared::Trace(figures) => trace_page(figures),
            Compared::Sweep(figures) => {
                let headline = format!("{}: {}.", figures.device, fits(&figures.rows));
                sweep_page("Validation", headline, None, &figures.rows, &[])
            }
        };
        Answered::new(&compared, page)
    }
}

fn trace_page(figures: &Validation) -> Page {
    let time = |ms: f64| Shown::new(ms / 1e3, Unit::Seconds);
    let plain = |value: f64| Shown::new(value, Unit::Number);
    let rows = [
        ("requests", Shown::new(figures.requests as f64, Unit::Count)),
        ("mean, measured", time(figures.mean_measured_ms)),
        ("mean, simulated", time(figures.mean_simulated_ms)),
        ("RMS distance of the distributions", time(figures.rms_ms)),
        ("  as a share of the measured mean", Shown::new(figures.rms_share, Unit::Share)),
        ("  minimum over the start phases", time(figures.rms_least_ms)),
        ("  maximum over the start phases", time(figures.rms_greatest_ms)),
        ("  of redrawn rotation alone", time(figures.sampling_floor_ms)),
        ("correlation, request by request", plain(figures.correlation)),
        ("  of a shuffled trace", plain(figures.correlation_shuffled)),
    ];
    let mut table = Table::new([Column::words(""), Column::words(&*figures.device)]);
    table.rows = rows.map(|(what, figure)| Row::new([what.into(), figure.into()])).into();
    let [distance, share] = [time(figures.rms_ms), Shown::new(figures.rms_share, Unit::Share)];
    let headline = format!(
        "{}: simulated service times differ from the drive's by {} (RMS), {} of the mean.",
        figures.device,
        distance.text(),
        share.text()
    );
    let mut page = titled("Validation", headline);
    page.add("Service times", Place::FirstScreen, vec![Block::Table(table)]);
    page
}
