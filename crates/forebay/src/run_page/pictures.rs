//! Charts about runs, for all report pages that show runs.

use super::closer::Look;
use super::heads::{self, Ground};
use crate::head::HeadTrace;
use crate::statistics::Figures;
use crate::{Replay, Run, RunResult};
use forebay_show::html::bars::{self, Bar, Part};
use forebay_show::html::charts;
use forebay_show::html::plot::Caption;
use forebay_show::html::text::{name, percent, ratio, seconds, significant};

/// The number of I/Os in a closer look that are also listed as text.
const LISTED: usize = 40;

/// Charts of the head positions under two policies.
pub(crate) struct HeadViews {
    /// A description of the charts.
    pub(crate) about: String,
    /// The rows of charts: one for the complete runs, and possibly one for a closer look.
    pub(crate) rows: Vec<HeadRow>,
}

/// A row of charts: one time span under each policy.
pub(crate) struct HeadRow {
    /// Why this time span is shown; `None` for complete runs.
    pub(crate) why: Option<String>,
    /// The charts, each as a caption in HTML and a picture.
    pub(crate) pictures: Vec<(String, String)>,
    /// Lists of the I/Os in a closer look, with titles, for readers who cannot point at a chart.
    pub(crate) lists: Vec<(String, Vec<heads::IoRow>)>,
}

/// Draws the head positions on a disk with `cylinders` cylinders. Returns `None` if there are no
/// heads or no I/Os.
pub(crate) fn head_views(
    runs: &[(String, Run)],
    policy: &str,
    other: Option<&str>,
    (cylinders, streams): (u32, &[String]),
) -> Option<HeadViews> {
    let named = |policy: &str| -> Option<&Run> {
        runs.iter().find(|(name, _)| name == policy).map(|(_, run)| run)
    };
    let baseline = named(policy).filter(|_| cylinders > 0)?;
    let other = other.and_then(|policy| Some((policy, named(policy)?)));
    let a = baseline.head.points.as_slice();
    let b = other.map_or(a, |(_, run)| run.head.points.as_slice());
    if a.is_empty() && b.is_empty() {
        return None;
    }
    let shown: Vec<(&str, &HeadTrace)> = std::iter::once((policy, &baseline.head))
        .chain(other.map(|(policy, run)| (policy, &run.head)))
        .collect();
    let sparse = Ground::is_sparse(a, b);
    let whole = Ground::whole(a, b);
    let mut rows = vec![head_row(&whole, ("heads", "the whole run"), sparse, &shown, streams)];
    if let Some((ground, look)) = Ground::closer(a, b) {
        let policies: Vec<&str> = shown.iter().map(|(policy, _)| *policy).collect();
        let what = ("closer", "a closer look, the path from I/O to I/O");
        let row = head_row(&ground, what, true, &shown, streams);
        rows.push(HeadRow { why: Some(why(&look, &policies)), ..row });
    }
    let about = format!(
        "The drive has {cylinders} cylinders; the pictures show those in use. Flushes and trims move no heads and are left \
         out."
    );
    Some(HeadViews { about, rows })
}

/// Explains why the time span of the closer look was chosen.
fn why(look: &Look, policies: &[&str]) -> String {
    let digits = if look.to_s - look.from_s < 1.0 { 3 } else { 1 };
    let when = format!("A closer look, from {:.digits$} to {:.digits$} s", look.from_s, look.to_s);
    match (look.apart, policies) {
        (Some([a, b]), [baseline, other]) => format!(
            "{when}, where the difference between the head paths is most typical of the whole \
             run. The mean distance between I/Os is {} cylinders under {baseline} and {} under \
             {other}.",
            significant(a),
            significant(b),
        ),
        _ => format!("{when}, in the middle of the run."),
    }
}

/// Draws the runs side by side and, for a closer look, lists its I/Os.
fn head_row(
    ground: &Ground,
    (id, what): (&str, &str),
    sparse: bool,
    shown: &[(&str, &HeadTrace)],
    streams: &[String],
) -> HeadRow {
    let draw = |(index, (policy, head)): (usize, &(&str, &HeadTrace))| {
        let thinned = match head.every() {
            1 => String::new(),
            every => format!(", every {every}th I/O"),
        };
        let caption = Caption {
            id: &format!("{id}-{index}"),
            title: &format!("Head position under {policy}"),
            description: &format!(
                "Cylinder of each I/O over time under {policy}, {what}{thinned}: {}.",
                ground.told(&head.points)
            ),
        };
        let picture = match sparse {
            true => ground.path(&caption, &head.points, streams),
            false => ground.density(&caption, &head.points, streams),
        };
        (picture, format!("<b>{}</b>, {what}{thinned}", name(policy)))
    };
    let list = |(policy, head): &(&str, &HeadTrace)| {
        let within = ground.within(&head.points);
        let title = format!("Its first {} I/Os, {policy}", within.len().min(LISTED));
        (title, heads::io_rows(within, streams, LISTED))
    };
    HeadRow {
        why: None,
        pictures: shown.iter().enumerate().map(draw).collect(),
        lists: shown.iter().filter(|_| sparse).map(list).collect(),
    }
}

/// Draws the arrivals, given as (seconds, requests per second). Returns the picture and its
/// caption.
pub(crate) fn arrivals_picture(steps: &[(f64, f64)]) -> Option<(String, String)> {
    let caption = Caption {
        id: "arrivals",
        title: "Arrival rate",
        description: "Requests per second over the time of the trace, with the mean.",
    };
    let text = "As replayed, before any scheduling; the dashed line is the mean";
    Some((charts::arrivals(&caption, steps)?, text.into()))
}

/// Returns the parts of a run's busy time in seconds, each with its CSS class and name. The last
/// part is the time that the others do not explain.
fn spent_in(figures: &Figures) -> [(&'static str, &'static str, f64); 4] {
    let Figures { seek_s, rotation_s, transfer_s, busy_s, .. } = *figures;
    [
        ("seek", "seeking", seek_s),
        ("rotation", "rotating", rotation_s),
        ("transfer", "transferring", transfer_s),
        ("other", "overhead", busy_s - seek_s - rotation_s - transfer_s),
    ]
    .map(|(class, name, s)| (class, name, if s.is_finite() { s.max(0.0) } else { 0.0 }))
}

fn spent(run: &RunResult) -> Bar {
    let parts = spent_in(&run.figures);
    let whole: f64 = parts.iter().map(|part| part.2).sum();
    let part = |(class, name, s): (&str, &str, f64)| {
        let share = percent(ratio(s, whole));
        let told = format!("{}: {name} {} ({share})", run.policy, seconds(s));
        Part { class: class.to_string(), size: s, tooltip: told, label: share }
    };
    Bar {
        name: run.policy.clone(),
        parts: parts.map(part).to_vec(),
        total: seconds(run.figures.busy_s),
    }
}

/// Draws how a disk spends its time. Returns the picture and its caption; `None` for a device
/// without heads, whose time cannot be divided into parts.
pub(crate) fn spent_picture<'a>(
    runs: impl Iterator<Item = &'a RunResult>,
    replay: Replay,
) -> Option<(String, String)> {
    let total = match replay {
        Replay::Closed | Replay::Dependent => {
            "Busy time; the total above runs until all requests are done"
        }
        Replay::Open => "Busy time, which is the total above",
    };
    let bars: Vec<Bar> = runs.map(spent).collect();
    let caption = Caption {
        id: "spent",
        title: "Where the disk's time went",
        description: "For each scheduler, seconds spent seeking, rotating, transferring and on \
                      overhead.",
    };
    let picture = bars::picture(&caption, &bars, None)?;
    let keys = bars::legend(&[
        ("seek", "seeking"),
        ("rotation", "rotational wait"),
        ("transfer", "transfer"),
        ("other", "overhead and other"),
    ]);
    Some((keys + &picture, total.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_busy_time_fill_it() {
        let advice = crate::advise::sample::advice();
        let figures = Figures {
            seek_s: 4.0,
            rotation_s: 3.0,
            transfer_s: 2.0,
            busy_s: 10.0,
            ..advice.runs[0].figures.clone()
        };
        assert_eq!(spent_in(&figures).map(|part| part.2), [4.0, 3.0, 2.0, 1.0]);
        let wrong = Figures { seek_s: f64::NAN, ..figures };
        assert_eq!(spent_in(&wrong).map(|part| part.2), [0.0, 3.0, 2.0, 0.0]);
    }
}
