//! `forebay plan buy`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay::devices;
use forebay::plan::amount::Fraction;
use forebay::plan::buy::{
    Answer, By, Candidate, Configuration, DRIVES_MAX, GROWTH_MAX, Layout, Prices, Promise,
    Question, Row, Sharing, answer,
};
use forebay::plan::consolidate::Begin;
use forebay::report;
use forebay_core::Nanos;
use forebay_show::grid::{Cell, right};
use forebay_show::quantities::{bound, or_none, percent, significant};
use forebay_trace::streams::StreamBy;
use forebay_trace::write::Kept;

use crate::options::{Reading, Source, TracePath};
use crate::output::{self, Format, say, wrapped};
use crate::plan_options::{self, Trust};
use crate::progress::Progress;
use crate::report_file::ReportFile;
use crate::stdin;

/// Find which drives to buy, how many and in which layout, to keep promises to clients
///
/// Every number of each drive in each layout is simulated until one does. For all bundled drives and layouts that takes
/// minutes: --device and --layout name those that you would buy.
#[derive(Args)]
pub(crate) struct Buy {
    /// The clients' traces
    #[arg(required = true, value_parser = stdin::trace_path())]
    traces: Vec<TracePath>,
    /// The volumes of each trace are the clients, each with a promise of its own
    #[arg(long, value_enum)]
    by: Option<Volume>,
    /// Keep the clock that the traces have in common: each client begins when it was recorded
    #[arg(long)]
    keep_times: bool,
    /// The time within which requests must be answered
    #[arg(long, value_name = "TIME", value_parser = plan_options::span, default_value = "10ms",
          allow_hyphen_values = true)]
    within: Nanos,
    /// The fraction of each client's requests that is promised
    #[arg(long, value_name = "SHARE", value_parser = plan_options::fraction, default_value = "0.99",
          allow_hyphen_values = true)]
    fraction: Fraction,
    /// A client's own promise, as in web=5ms:0.999; may be given for each
    #[arg(long, value_name = "CLIENT=TIME:SHARE", value_parser = own, allow_hyphen_values = true)]
    promise: Vec<(String, Promise)>,
    /// How many times the bytes and the requests a second will grow to
    #[arg(long, value_name = "TIMES", value_parser = growth, default_value = "1", allow_hyphen_values = true)]
    growth: f64,
    /// Spare drives, ready to replace one that fails
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = clap::value_parser!(u16).range(0..=1024))]
    spare: u16,
    /// Only layouts in which this many drives, any of them, may fail without loss
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = clap::value_parser!(u16).range(0..=2))]
    survives: u16,
    /// Your prices, a TOML file (docs/plan-buy.md)
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// The drives that are tried, comma-separated: bundled ones or device files [default: all bundled ones]
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',')]
    device: Vec<String>,
    /// The layouts that are tried, comma-separated: single, mirror, raid6, flash-cache,
    /// volume-mirror, volume-raid6, adaptive [default: all]
    #[arg(long, value_name = "LAYOUT,...", value_delimiter = ',', value_parser = layout)]
    layout: Vec<Layout>,
    /// Whether clients share drives: shared, apart, or both are tried
    #[arg(long, value_enum, default_value = "both")]
    clients: Who,
    /// The flash that disks share as a cache
    #[arg(long, value_name = "DEVICE", default_value = "d7-p5520")]
    flash: String,
    /// The scheduler of each disk; flash has none
    #[arg(long, value_name = "POLICY", default_value = "mq-deadline")]
    policy: String,
    /// The most drives that are tried
    #[arg(long, value_name = "NUMBER", default_value = "64",
          value_parser = clap::value_parser!(u16).range(1..=DRIVES_MAX as i64))]
    devices_max: u16,
    /// Write the configuration into this folder: setup.sh, serve.toml, cgroup.txt, dmclock.txt
    #[arg(long, value_name = "DIR")]
    configure: Option<PathBuf>,
    /// Also write an HTML report
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    source: Source,
    /// How to print the results
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// What is a client.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Volume {
    /// Each volume.
    Volume,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Who {
    Shared,
    Apart,
    Both,
}

fn own(text: &str) -> Result<(String, Promise), String> {
    let wrong = || format!("got '{text}', expected CLIENT=TIME:SHARE, as in web=5ms:0.999");
    // A name may have any character; what is promised has no '='.
    let (name, promised) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (within, fraction) = promised.split_once(':').ok_or_else(wrong)?;
    let promise = Promise {
        within: plan_options::span(within)?,
        fraction: plan_options::fraction(fraction)?,
    };
    Ok((name.to_string(), promise))
}

fn growth(text: &str) -> Result<f64, String> {
    let growth = text.parse().ok().filter(|growth| (0.001..=GROWTH_MAX).contains(growth));
    growth.ok_or_else(|| format!("got '{text}', expected 0.001 to {GROWTH_MAX}, e.g. 1.5"))
}

fn layout(text: &str) -> Result<Layout, String> {
    Layout::named(text).ok_or_else(|| {
        let names = Layout::ALL.map(Layout::name).join(", ");
        format!("got '{text}', expected one of {names}")
    })
}

impl Buy {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let Some(folder) = &self.configure {
            Configuration::check(folder)?;
        }
        let given = |name: &String| self.promise.iter().filter(|own| own.0 == *name).count();
        if let Some((name, _)) = self.promise.iter().find(|(name, _)| given(name) > 1) {
            let said = format!("--promise {name}: got it {} times, expected it once", given(name));
            return Err(forebay::Error::Unfit(said).into());
        }
        let drives: Result<Vec<Candidate>, _> = match self.device.is_empty() {
            true => devices::list()?.iter().map(|device| Candidate::open(&device.name)).collect(),
            false => self.device.iter().map(|name| Candidate::open(name)).collect(),
        };
        let (drives, flash) = (drives?, Candidate::open(&self.flash)?);
        let names: Vec<String> =
            drives.iter().chain([&flash]).map(|one| one.device.name.clone()).collect();
        let prices = self.prices.as_ref().map(|path| Prices::read(path, &names)).transpose()?;
        let kept = self.traces.iter().fold(Kept::default(), |kept, path| kept.and_file(path));
        let report = ReportFile::begin(self.output.as_deref(), &kept)?;
        let reading = Reading::of(&self.source, StreamBy::default());
        let inputs = self.traces.iter().map(|path| reading.read(path));
        let inputs = inputs.collect::<anyhow::Result<Vec<_>>>()?;
        let layouts =
            if self.layout.is_empty() { Layout::ALL.to_vec() } else { self.layout.clone() };
        let question = Question {
            promise: Promise { within: self.within, fraction: self.fraction },
            own: &self.promise,
            by: self.by.map_or(By::Trace, |_| By::Volume),
            begin: if self.keep_times { Begin::OwnClocks } else { Begin::Together },
            trust_times: self.trust.trust_times,
            growth: self.growth,
            spare: self.spare.into(),
            survives: self.survives.into(),
            drives: &drives,
            layouts: &layouts,
            flash: &flash,
            scheduler: &self.policy,
            drives_max: self.devices_max.into(),
            sharings: match self.clients {
                Who::Shared => &[Sharing::Shared],
                Who::Apart => &[Sharing::Apart],
                Who::Both => &[Sharing::Shared, Sharing::Apart],
            },
            prices: &prices.unwrap_or_default(),
        };
        let progress = Progress::new("simulating");
        let answer = answer(&inputs, &question, &mut |told| progress.tell(told))?;
        drop(progress);
        if let Some(report) = report {
            report.write(&report::buy_html(&answer))?;
        }
        match (&self.configure, &answer.configuration) {
            (Some(folder), Some(configuration)) => {
                let replaces = match folder.join("setup.sh").is_file() {
                    true => ", in place of what was there",
                    false => "",
                };
                configuration.write(folder, &kept)?;
                say!("configuration: {}{replaces}", folder.display());
            }
            (Some(folder), None) => {
                say!(
                    "configuration: {} is not written, since nothing keeps the promise",
                    folder.display()
                );
            }
            (None, _) => {}
        }
        match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, &answer)?,
            Format::Table => output::print(&shown(&answer))?,
        }
        Ok(())
    }
}

/// Rows of the table at most: what is far behind nobody buys.
const ROWS_MAX: usize = 20;

/// The answer, what was tried, what cannot do it, and what was decided as configuration.
fn shown(answer: &Answer) -> String {
    let mut parts = vec![output::emphasised(&wrapped(&answer.said))];
    if answer.clients.len() > 1 {
        parts.push(clients(answer));
    }
    if answer.rows.iter().any(|row| row.drives.is_some()) {
        parts.push(drives(answer));
    }
    let refused = answer.refused.iter().map(|said| wrapped(said));
    parts.extend(Some(refused.collect::<Vec<_>>().join("\n")).filter(|said| !said.is_empty()));
    parts.extend(Some(output::cautions(&answer.cautions)).filter(|said| !said.is_empty()));
    if let Some(configuration) = &answer.configuration {
        for (title, text) in [
            ("What makes the drives to try it on (setup.sh):", &configuration.setup),
            ("forebay serve (serve.toml):", &configuration.serve),
            ("cgroup v2:", &configuration.cgroup),
            ("dmClock:", &configuration.dmclock),
        ] {
            let lines =
                text.trim_end().lines().map(|line| format!("    {line}").trim_end().to_string());
            parts.push(format!("{title}\n{}", lines.collect::<Vec<_>>().join("\n")));
        }
    }
    parts.join("\n\n")
}

/// What each client needs of a server of constant rate, and gets of the best.
fn clients(answer: &Answer) -> String {
    let mut shown = output::table(["client", "requests", "promise", "IOPS alone", "gets"]);
    let best = answer.rows.first().filter(|row| row.drives.is_some());
    for need in answer.clients.iter().take(ROWS_MAX) {
        let gets = best.and_then(|row| row.clients.iter().find(|of| of.client == need.client));
        shown.add_row([
            Cell::new(&need.client),
            right(need.requests.to_string()),
            right(format!("{} < {}", plan_options::percent(need.fraction), bound(need.within_ms))),
            right(need.capacity_iops.map_or("-".into(), |iops| iops.to_string())),
            right(gets.map_or("-".into(), |of| plan_options::share_found(of.in_time_fraction))),
        ]);
    }
    let more = answer.clients.len().saturating_sub(ROWS_MAX);
    let more = if more > 0 { format!("\n({more} more in --format json)") } else { String::new() };
    format!(
        "What each client needs of a server of constant rate, and what it gets of the best:\n\n{shown}{more}"
    )
}

fn drives(answer: &Answer) -> String {
    let several = answer.clients.len() > 1;
    let heads = [
        "drive",
        "layout",
        "clients",
        "bytes",
        "redundancy",
        "time",
        "buy",
        "decides",
        "busy",
        "W",
        "price",
    ];
    let kept = |head: &&str| several || *head != "clients";
    let mut shown = output::table(heads.into_iter().filter(|head| kept(head)).collect::<Vec<_>>());
    let does: Vec<&Row> = answer.rows.iter().filter(|row| row.drives.is_some()).collect();
    let number = |number: Option<u64>| number.map_or("-".to_string(), |number| number.to_string());
    for row in does.iter().take(ROWS_MAX) {
        let plus = |count: usize, what: &str| match count {
            0 => String::new(),
            count => format!("+{count}{what}"),
        };
        let bought = format!(
            "{}{}{}",
            row.drives.unwrap_or(0),
            plus(row.cache_drives, "f"),
            plus(row.spare_drives, "s")
        );
        let clients = several.then(|| Cell::new(row.sharing.name()));
        let first =
            [Cell::new(&row.drive), Cell::new(row.layout.name())].into_iter().chain(clients);
        shown.add_row(first.chain([
            right(number(row.drives_for_bytes)),
            right(number(row.drives_for_redundancy.map(|drives| drives as u64))),
            right(number(row.drives_for_time.map(|drives| drives as u64))),
            right(bought),
            Cell::new(row.binds.map_or("-", |binds| binds.name())),
            right(or_none(row.utilisation, percent)),
            right(or_none(row.mean_power_w, significant)),
            right(row.priced().unwrap_or("-".into())),
        ]));
    }
    let more = does.len().saturating_sub(ROWS_MAX);
    let more = if more > 0 { format!("\n({more} more in --format json)") } else { String::new() };
    let first = if does.iter().any(|row| row.price.is_some()) {
        "the cheapest first"
    } else {
        "those that draw least power first, as no price is known"
    };
    let said = wrapped(&format!(
        "What does it, {first}: how many drives the bytes take, the bytes with their redundancy, and the time alone; how \
         many to buy for all three (f: flash before disks, s: spare), and what decides that; how busy drives are."
    ));
    format!("{said}\n\n{shown}{more}")
}
