//! Pictures of runs, as every page that tells of runs shows them.

use super::charts::{self, TimeSpent};
use super::heads::Ground;
use super::page::section;
use super::plot::Caption;
use super::text::name;
use crate::simulate::{Replay, Run, RunResult};

pub(super) fn figure(picture: &str, caption: &str) -> String {
    format!("<figure>{picture}<figcaption>{caption}</figcaption></figure>")
}

/// Where the heads are under one policy and another, on a disk of so many cylinders.
pub(super) fn heads(
    runs: &[(String, Run)],
    policy: &str,
    other: Option<&str>,
    cylinders: u32,
) -> String {
    let named = |policy: &str| -> Option<&Run> {
        runs.iter().find(|(name, _)| name == policy).map(|(_, run)| run)
    };
    let Some(baseline) = named(policy).filter(|_| cylinders > 0) else {
        return String::new();
    };
    let other = other.and_then(|policy| Some((policy, named(policy)?)));
    let a = baseline.head.points.as_slice();
    let b = other.map_or(a, |(_, run)| run.head.points.as_slice());
    if a.is_empty() && b.is_empty() {
        return String::new();
    }
    let shown: Vec<_> =
        std::iter::once((policy, a)).chain(other.map(|(policy, _)| (policy, b))).collect();
    let row = |ground: &Ground, id: &str, sparse: bool, what: &str| -> String {
        let draw = |(index, (policy, points)): (usize, &(&str, super::heads::Points<'_>))| {
            let caption = Caption {
                id: &format!("{id}-{index}"),
                title: &format!("Head position under {policy}"),
                description: &format!("Cylinder of each I/O over time under {policy}, {what}."),
            };
            let picture = if sparse {
                ground.path(&caption, points)
            } else {
                ground.density(&caption, points)
            };
            figure(&picture, &format!("<b>{}</b>, {what}", name(policy)))
        };
        let pictures: String = shown.iter().enumerate().map(draw).collect();
        format!("<div class=\"pair\">{pictures}</div>")
    };
    let sparse = Ground::is_sparse(a, b);
    let mut rows = row(&Ground::whole(a, b), "heads", sparse, "the whole run");
    if let Some(ground) = Ground::closer(a, b) {
        rows += &row(&ground, "closer", true, "a closer look, the path from I/O to I/O");
    }
    let about = format!(
        "<p class=\"note\">The drive has {cylinders} cylinders; the pictures show those in use.</p>"
    );
    section("Where the heads are", &(about + &rows))
}

/// How latencies are distributed, those of `told` before the others.
pub(super) fn latencies(runs: &[(String, Run)], told: &[Option<&str>]) -> String {
    let reads: Vec<_> = runs.iter().map(|(_, run)| run.read_distribution.as_slice()).collect();
    let writes: Vec<_> = runs.iter().map(|(_, run)| run.write_distribution.as_slice()).collect();
    let span = charts::latency_span(reads.iter().chain(&writes).copied());
    let stands_out: Vec<bool> =
        runs.iter().map(|(policy, _)| told.contains(&Some(policy.as_str()))).collect();
    let draw = |id: &str, kind: &str, series: &[&[(f64, f64)]]| {
        let caption = Caption {
            id,
            title: &format!("{kind} latency by scheduler"),
            description: "Share of requests answered within a latency; further left is faster.",
        };
        charts::distributions(&caption, series, &stands_out, span).map(|picture| {
            figure(&picture, &format!("<b>{kind}</b>: share answered within a latency"))
        })
    };
    let pictures: String = draw("reads", "Reads", &reads)
        .into_iter()
        .chain(draw("writes", "Writes", &writes))
        .collect();
    if pictures.is_empty() {
        return String::new();
    }
    let names = runs.iter().map(|(policy, _)| policy.as_str());
    let legend = charts::legend(names, &stands_out);
    section("Latency", &format!("{legend}<div class=\"pair\">{pictures}</div>"))
}

/// (seconds, requests per second) of the arrivals.
pub(super) fn arrivals(steps: &[(f64, f64)]) -> String {
    let caption = Caption {
        id: "arrivals",
        title: "Arrival rate",
        description: "Requests per second over the time of the trace, with the mean.",
    };
    let picture = charts::arrivals(&caption, steps);
    let whole = |picture: String| {
        figure(&picture, "As replayed, before any scheduling; the dashed line is the mean")
    };
    picture.map_or(String::new(), |picture| section("Arrivals", &whole(picture)))
}

fn spent_in(run: &RunResult) -> TimeSpent<'_> {
    TimeSpent {
        policy: &run.policy,
        seek_s: run.figures.seek_s,
        rotation_s: run.figures.rotation_s,
        transfer_s: run.figures.transfer_s,
        busy_s: run.figures.busy_s,
        floor_s: run.figures.transfer_bound_s,
    }
}

/// Of a disk; what else has no heads spends its time on nothing that could be told apart.
pub(super) fn time_spent(runs: &[RunResult], replay: Replay) -> String {
    let total = match replay {
        Replay::Closed => "Busy time; the total above runs until all is done",
        Replay::Open | Replay::Dependent => "Busy time, which is the total above",
    };
    let spent: Vec<TimeSpent<'_>> = runs.iter().map(spent_in).collect();
    let caption = Caption {
        id: "spent",
        title: "Where the disk's time went",
        description: "For each scheduler, seconds spent seeking, rotating, transferring and on \
                      overhead, against the least time that moving the bytes takes.",
    };
    let Some(picture) = charts::time_spent(&caption, &spent) else {
        return String::new();
    };
    let key = |(class, name): (&str, &str)| {
        format!(
            "<li><svg viewBox=\"0 0 14 14\" aria-hidden=\"true\"><rect class=\"{class}\" \
             width=\"14\" height=\"14\"/></svg>{name}</li>"
        )
    };
    let keys: String = [
        ("seek", "seeking"),
        ("rotation", "rotational wait"),
        ("transfer", "transfer"),
        ("other", "overhead and other"),
    ]
    .into_iter()
    .map(key)
    .collect();
    let content = format!(
        "<ul class=\"legend boxes\">{keys}</ul>{}",
        figure(&picture, &format!("{total}; the line marks what moving the bytes alone takes"))
    );
    section("Where the disk's time went", &content)
}
