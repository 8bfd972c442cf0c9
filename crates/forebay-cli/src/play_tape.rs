//! `forebay play --check-tape`.

use std::path::Path;

use anyhow::bail;
use forebay::tape::{self, Checked};
use forebay_show::plural::counted;
use serde::Serialize;

use crate::output::{self, Format};
use crate::progress::Progress;

#[derive(Serialize)]
struct Results<'a> {
    tape: String,
    #[serde(flatten)]
    checked: &'a Checked,
}

/// Makes the calls on `path` to a fresh policy and says whether it answers the same.
pub(crate) fn check(path: &Path, format: Format) -> anyhow::Result<()> {
    let progress = Progress::new("checking");
    let checked = tape::check(path, |calls| {
        progress.say(format!("checking {}: {calls} calls", path.display()))
    })?;
    drop(progress);
    let tape = path.display().to_string();
    match format {
        Format::Json | Format::Csv => {
            output::print_data(format, &Results { tape, checked: &checked })?
        }
        Format::Table => output::print(&told(&checked))?,
    }
    match &checked.difference {
        Some(difference) => {
            bail!("{}, line {}: the policy answers otherwise", path.display(), difference.line)
        }
        None => Ok(()),
    }
}

fn told(checked: &Checked) -> String {
    let Checked { policy, calls, requests, ios, difference, .. } = checked;
    let counts = [(calls, "call"), (requests, "request"), (ios, "I/O")];
    let counts = counts.map(|(count, what)| counted(*count, what)).join(", ");
    match difference {
        None => format!("Every answer is the same: {counts} through {policy}."),
        Some(first) => format!(
            "The same up to line {}: {counts} through {policy}. There\n  on the tape: {}\n  the \
             policy:  {}",
            first.line, first.tape, first.policy
        ),
    }
}
