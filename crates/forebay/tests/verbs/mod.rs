//! Tests of declared verbs, each of which must obey the common rules ([`law`]).

mod advise;
mod array_score;
mod cache;
mod compare;
mod describe;
mod files;
mod law;
mod listings;
mod offline;
mod plan;
mod plan_volume;
mod retrodict;
mod simulate;

use std::fs;
use std::path::PathBuf;

use forebay_show::page::Page;
use forebay_show::table::Table;

use crate::pages::walk::walk;
use law::{Quiet, answered, tables};

/// A folder for traces, which is removed when dropped.
struct Traces(tempfile::TempDir);

impl Traces {
    fn new() -> Traces {
        Traces(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a CSV trace of reads, given as (arrival in milliseconds, length in bytes).
    fn csv(&self, name: &str, rows: impl Iterator<Item = (u64, u64)>) -> PathBuf {
        let mut text = "time_ms,op,offset,len\n".to_string();
        for (nth, (at_ms, len)) in rows.enumerate() {
            text += &format!("{at_ms},read,{},{len}\n", nth as u64 % 1000 * 65_536);
        }
        self.file(name, &text)
    }

    /// Writes a trace with a read every 20 ms and, every 10 s, thirty reads at once.
    fn bursty(&self, name: &str) -> PathBuf {
        let burst = |n: u64| if n % 500 == 250 { 30 } else { 1 };
        self.csv(name, (0..3000).flat_map(|n| std::iter::repeat_n((n * 20, 4096), burst(n))))
    }
}

/// Returns the path of the bundled trace.
fn sample() -> String {
    format!("{}/../../traces/terasort.parquet", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the first table of a page.
fn first_table(page: &Page) -> &Table {
    tables(page)[0]
}
