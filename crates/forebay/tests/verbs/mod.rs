//! What holds for every declared verb: its page is sound in every form, and every figure on it stands in its data.

mod advise;
mod cache;
mod compare;
mod describe;
mod law;
mod plan;
mod simulate;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use forebay::progress::Told;
use forebay::verb::{Answered, Session, Verb, answer};
use forebay_ask::{Ask, Given, Spelling, read};
use forebay_show::page::{Block, Page};
use forebay_show::table::Table;
use forebay_trace::unpack::Consumed;

use crate::pages::walk::walk;
use law::{is_sound, tables};

/// Keeps what it is warned of.
#[derive(Default)]
struct Quiet(Vec<String>);

impl Session for Quiet {
    fn begin(&mut self, _: &str, _: Option<&Path>) -> Consumed {
        Consumed::default()
    }
    fn progress(&mut self, _: &Told) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn read(&mut self, _: &Path, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn warn(&mut self, subject: &Path, sentence: &str) {
        self.0.push(format!("{}: {sentence}", subject.display()));
    }
}

/// A folder for traces, which goes with it.
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

    /// A CSV trace of reads at these milliseconds, with these lengths.
    fn csv(&self, name: &str, rows: impl Iterator<Item = (u64, u64)>) -> PathBuf {
        let mut text = "time_ms,op,offset,len\n".to_string();
        for (nth, (at_ms, len)) in rows.enumerate() {
            text += &format!("{at_ms},read,{},{len}\n", nth as u64 % 1000 * 65_536);
        }
        self.file(name, &text)
    }

    /// A read every 20 ms and, every 10 s, thirty at once.
    fn bursty(&self, name: &str) -> PathBuf {
        let burst = |n: u64| if n % 500 == 250 { 30 } else { 1 };
        self.csv(name, (0..3000).flat_map(|n| std::iter::repeat_n((n * 20, 4096), burst(n))))
    }
}

/// The bundled trace.
fn sample() -> String {
    format!("{}/../../traces/terasort.parquet", env!("CARGO_MANIFEST_DIR"))
}

/// The first table of a page.
fn first_table(page: &Page) -> &Table {
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    let mut tables = blocks.filter_map(|block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    });
    tables.next().unwrap()
}

/// What verb `V` answers to these inputs, held to what holds for all.
fn answered<V: Verb>(given: &[(&str, &str)]) -> Answered<V::Beyond> {
    let mut all = Given::default();
    for (name, text) in given {
        all.text(name, *text);
    }
    let ask = read::<V>(&all).unwrap();
    let answered = answer(ask, &mut Quiet::default(), Spelling::Command).unwrap();
    is_sound(<V as Ask>::VERB, &answered);
    answered
}
