//! `forebay plan sla`.

use std::path::PathBuf;

use clap::Args;
use forebay::plan::sla::{Division, Price, Sla as Promise, price};
use forebay::report::{self, SlaPage};
use forebay_core::rtt::RATE_MAX_IOPS;
use forebay_show::grid::right;
use forebay_show::quantities::bound;
use forebay_trace::write::Kept;
use serde::Serialize;

use crate::options::{Source, TracePath};
use crate::output::{self, Format, wrapped};
use crate::plan_costed::{self, Answered};
use crate::plan_options::{self, Trust, percent, share_found};
use crate::progress::Progress;
use crate::report_file::ReportFile;
use crate::stdin;

/// Check and price a promise of several tiers, e.g. 90 % within 20 ms, 99 % within 50 ms
#[derive(Args)]
pub(crate) struct Sla {
    /// A TOML file: for each tier [[tier]] with fraction = 0.99 and within_ms = 50
    promise: PathBuf,
    /// The trace; - is standard input
    #[arg(value_parser = stdin::trace_path())]
    trace: TracePath,
    /// Also check the promise at this capacity, in requests a second
    #[arg(long, value_name = "IOPS", value_parser = iops, allow_hyphen_values = true)]
    capacity: Option<u64>,
    /// Give each request a cost by its length: microseconds plus microseconds a KiB, as in 100+0.5/KiB, or a
    /// device, whose random reads set it. The answer is then how many times as fast one server must be, first
    /// come, first served
    #[arg(long, value_name = "COST", conflicts_with = "capacity", allow_negative_numbers = true)]
    cost_us: Option<String>,
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

fn iops(text: &str) -> Result<u64, String> {
    let rate = text.parse().ok().filter(|rate| (1..=RATE_MAX_IOPS).contains(rate));
    rate.ok_or_else(|| {
        format!("got '{text}', expected a whole number of requests a second, 1 to {RATE_MAX_IOPS}")
    })
}

#[derive(Serialize)]
struct Results {
    trace: String,
    requests: u64,
    #[serde(flatten)]
    price: Price,
}

impl Sla {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let promise = Promise::open(&self.promise)?;
        let clock = self.trust.within(promise.within());
        let kept = Kept::trace(&self.trace).and_file(&self.promise);
        let report = ReportFile::begin(self.output.as_deref(), &kept)?;
        if let Some(cost) = &self.cost_us {
            let costs = &plan_costed::costs(cost)?;
            let load = plan_costed::load(&self.source, &self.trace, false, clock)?;
            let answered = Answered { costs, report, format: self.format };
            return plan_costed::tiers(&load, &promise, answered);
        }
        let arrivals = plan_options::arrivals(&self.source, &self.trace, false, clock)?;
        let progress = Progress::new("searching for the least capacity");
        let found = price(&arrivals, &promise, self.capacity)?;
        drop(progress);
        if let Some(report) = report {
            report.write(&report::sla_html(&SlaPage { arrivals: &arrivals, price: &found }))?;
        }
        match self.format {
            Format::Json | Format::Csv => output::print_data(
                self.format,
                &Results {
                    trace: self.trace.display().to_string(),
                    requests: arrivals.requests(),
                    price: found,
                },
            )?,
            Format::Table => {
                let blind = plan_options::size_blind([&arrivals], "--cost-us counts bytes too");
                output::print(&shown(&found, blind))?;
            }
        }
        Ok(())
    }
}

fn shown(found: &Price, blind: Option<String>) -> String {
    let said: Vec<String> = std::iter::once(wrapped(&found.told())).chain(blind).collect();
    let mut text = format!("{}\n\n{}", said.join("\n"), tiers(&found.least));
    if let Some((checked, told)) = found.checked.as_ref().zip(found.checked_told()) {
        text += &format!("\n\n{}\n\n{}", wrapped(&told), tiers(checked));
    }
    text
}

fn tiers(division: &Division) -> String {
    let mut table = output::table(["within", "promised", "answered", "kept", "its share, IOPS"]);
    for tier in &division.tiers {
        let share = tier.share(division.way).map_or_else(String::from, |share| share.to_string());
        let kept = if tier.kept { "yes" } else { "no" };
        let (within, promised) = (bound(tier.within_ms), percent(tier.fraction));
        let cells = [within, promised, share_found(tier.achieved_fraction), kept.into(), share];
        table.add_row(cells.map(right));
    }
    table.to_string()
}
