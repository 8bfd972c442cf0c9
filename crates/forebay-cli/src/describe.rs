//! `forebay describe`.

use clap::Args;
use forebay_core::Nanos;
use forebay_trace::describe::{ThreadOptions, by_thread};

use crate::options::span;
use crate::options::{self, Reading, TracePath};
use crate::output::{self, Format};
use crate::stdin;

/// Say what a trace is like: sizes, sequential runs, bursts, streams, volumes
#[derive(Args)]
pub(crate) struct Describe {
    /// The trace; - is standard input
    #[arg(value_parser = stdin::trace_path())]
    trace: TracePath,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    threads: Threads,
    /// How to print the description
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// What to say of the threads.
#[derive(Args)]
struct Threads {
    /// Also describe the threads by types, then one by one: data or log, fluctuation, intensity,
    /// sizes, gaps, reads and writes, sequential share, quarters of the storage
    #[arg(long)]
    threads: bool,
    /// Threads with a row of their own: those with most requests
    #[arg(long, value_name = "NUMBER", default_value_t = by_thread::ROWS, requires = "threads")]
    limit: usize,
    /// A row for every thread, up to 4096
    #[arg(long, requires = "threads", conflicts_with = "limit")]
    all: bool,
    /// Length of the periods that fluctuation is taken over [default: 30min, less where the trace has fewer
    /// than eight]
    #[arg(long, value_name = "TIME", value_parser = span, requires = "threads",
          allow_hyphen_values = true)]
    period: Option<Nanos>,
}

impl Threads {
    fn options(&self) -> Option<ThreadOptions> {
        let rows_max = if self.all { by_thread::THREADS_MAX } else { self.limit };
        let options = ThreadOptions { period: self.period, rows_max, ..ThreadOptions::default() };
        self.threads.then_some(options)
    }
}

impl Describe {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (description, notes) = self.reading.describe(&self.trace, self.threads.options())?;
        match self.format {
            Format::Json | Format::Csv => {
                options::say_notes(&self.trace, &notes);
                output::print_data(self.format, &description)?;
            }
            Format::Table => output::print(&description.table(output::columns() as u16))?,
        }
        Ok(())
    }
}
