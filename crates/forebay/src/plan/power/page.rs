//! The report page of `plan power`: which plan to choose, each plan's power, and how well each
//! keeps the promise.

use forebay_show::html::bars::{self, Bar};
use forebay_show::html::paragraphs::page_title;
use forebay_show::html::plot::Caption;
use forebay_show::table::{Cell, Column, Row as TableRow, RowMark, Table};
use forebay_show::{Block, Figure, KeyFigure, Page, Place, Tone, Unit, Verdict};
use forebay_words::plural::counted;

use super::verb::{Answer, OfTrace};
use super::{Power, PowerRow, Question};
use crate::plan::page::key;
use crate::quantities::{self, bound, promised, watts};

pub(super) fn page(answer: &Answer, question: &Question) -> Page {
    let pays = |of: &&OfTrace| of.power.recommended().is_some_and(|row| row.plan != "all-on");
    let paying = answer.traces.iter().filter(pays).count();
    let names: Vec<&str> = answer.traces.iter().map(|of| of.trace.as_str()).collect();
    let (headline, title) = match answer.traces.as_slice() {
        [only] => (headline(&only.power, question), only.trace.clone()),
        several => (
            match paying {
                0 => format!("Leave all pools on, for each of {} traces.", several.len()),
                _ => format!("Switch pools off for {paying} of {} traces.", several.len()),
            },
            format!("{} traces", several.len()),
        ),
    };
    let mut page = Page {
        title: page_title("Power", &[&title]),
        verdict: match paying {
            0 => Verdict::new(Tone::Calm, "Nothing to switch off"),
            _ => Verdict::new(Tone::Good, "Switch pools off"),
        },
        headline,
        about: about(&names, question),
        ..Page::default()
    };
    if let [only] = answer.traces.as_slice() {
        page.key_figures = key_figures(&only.power);
    } else {
        let table = Block::Table(overview(&answer.traces));
        page.add("What to do for each trace", Place::FirstScreen, vec![table]);
    }
    for (index, of) in answer.traces.iter().enumerate() {
        let whose = match answer.traces.len() {
            1 => String::new(),
            _ => format!(": {}", of.trace),
        };
        add_trace(&mut page, of, (index, &whose), question);
    }
    let cautions = |of: &OfTrace| match answer.traces.len() {
        1 => of.power.cautions.clone(),
        _ => of.power.cautions.iter().map(|said| format!("{}: {said}", of.trace)).collect(),
    };
    let cautions = answer.traces.iter().flat_map(cautions).collect();
    page.add_notes("Keep in mind", Place::FirstScreen, cautions);
    page.add("How the answer is found", Place::Detail, vec![Block::Text(HOW.into())]);
    page
}

const HOW: &str = "Each pool holds all the data. A request goes to the first pool that answers it \
                   in time, so the last pools are idle first. A disk uses its active power while \
                   it serves requests, its idle power while it spins without requests, and its \
                   standby power while it is off; each spin-up uses additional energy. The \
                   recommended plan uses the least energy among those that keep the promise in \
                   every epoch. It is never oracle, because the next epoch is not known in \
                   advance.";

fn promise(question: &Question) -> String {
    format!("{} within {}", promised(question.fraction.as_f64()), within(question))
}

fn within(question: &Question) -> String {
    bound(question.within.as_millis_f64())
}

/// States which plan to choose.
pub(super) fn headline(power: &Power, question: &Question) -> String {
    let promise = promise(question);
    let Some(best) = power.recommended() else {
        return format!(
            "Allow more time or promise less: no plan keeps {promise} in each of the {}.",
            counted(power.epochs as u64, "epoch")
        );
    };
    let way = match (best.plan, best.max_pools) {
        ("all-on", 1) => {
            return format!(
                "One pool of {} is enough, and cannot be switched off: {} for {promise}.",
                counted(question.pool_disks, "disk"),
                watts(best.mean_power_w)
            );
        }
        ("all-on", _) if power.epochs == 1 => {
            return format!(
                "The trace is too short for a plan: it covers only one epoch of {}.",
                bound(question.epoch.as_millis_f64())
            );
        }
        ("all-on", pools) => {
            return format!(
                "Leave all {pools} pools on: no other plan keeps {promise} with less power."
            );
        }
        ("static", pools) => format!("Keep {} on", counted(pools as u64, "pool")),
        (_, _) => "Switch pools by past needs".to_string(),
    };
    let saved = match best.saving_share {
        saved if saved < 0.0 => format!("{} more", quantities::percent(-saved)),
        saved => format!("{} less", quantities::percent(saved)),
    };
    let mean = watts(best.mean_power_w);
    format!("{way} ({}): {mean}, {saved} than all on, and {promise} in every epoch.", best.plan)
}

fn about(traces: &[&str], question: &Question) -> Vec<(String, String)> {
    let disk = &question.disk;
    let epoch = bound(question.epoch.as_millis_f64());
    let mut about = vec![
        ("Promise".into(), format!("{}, in each epoch of {epoch}", promise(question))),
        (
            "Pools".into(),
            format!("{} of {} each, {} IOPS a disk", question.pool_disks, disk.name, disk.iops),
        ),
        (
            "A disk".into(),
            format!(
                "{} active, {} idle, {} off",
                watts(disk.active_w),
                watts(disk.idle_w),
                watts(disk.standby_w)
            ),
        ),
    ];
    if let [trace] = traces {
        about.insert(0, ("Trace".into(), trace.to_string()));
    }
    about
}

fn key_figures(power: &Power) -> Vec<KeyFigure> {
    let Some(best) = power.recommended() else { return Vec::new() };
    let before = power.rows.first().filter(|all_on| all_on.plan != best.plan);
    let mean = key("mean power", best.mean_power_w, Unit::Watts);
    let before = before.map(|all_on| Figure::new(all_on.mean_power_w, Unit::Watts));
    let answered = best.answered.last().map_or(f64::NAN, |last| last.fraction);
    vec![
        KeyFigure { before, ..mean },
        key("pools on", best.mean_pools, Unit::Number),
        key("in time", answered, Unit::Achieved),
    ]
}

/// Builds the table with the recommended plan for each trace.
fn overview(traces: &[OfTrace]) -> Table {
    Table::listing(
        traces,
        &[
            (Column::words("trace"), &|of| of.trace.clone().into()),
            (Column::words("plan"), &|of| {
                of.power.recommended().map_or("none keeps the promise", |row| row.plan).into()
            }),
            (Column::of("mean power", Unit::Watts), &|of| {
                of.power.recommended().map(|row| row.mean_power_w).into()
            }),
            (Column::of("saved", Unit::Share), &|of| {
                of.power.recommended().map(|row| row.saving_share).into()
            }),
        ],
    )
}

/// Adds the sections about one trace, whose titles end with `whose`.
fn add_trace(page: &mut Page, of: &OfTrace, (index, whose): (usize, &str), question: &Question) {
    let (power, mut blocks) = (&of.power, Vec::new());
    let place = if whose.is_empty() { Place::FirstScreen } else { Place::Detail };
    if !whose.is_empty() {
        blocks.push(Block::Text(headline(power, question)));
    }
    blocks.push(Block::Text(always(power, question)));
    blocks.extend(picture(power, index));
    blocks.push(Block::Table(plans(power)));
    page.add(&format!("What each plan draws{whose}"), place, blocks);
    let [pools, times] = [pools(power), times(power)].map(Block::Table);
    let title = format!("Pools, and how fast requests are answered{whose}");
    page.add(&title, Place::Detail, vec![Block::Text(words(question)), pools, times]);
}

/// States how many pools are never switched off, and whether switching changes anything.
fn always(power: &Power, question: &Question) -> String {
    let (Power { pool_disks, disk_iops, device, .. }, all) = (power, &power.rows[0]);
    let pools = counted(all.max_pools as u64, "pool");
    let is_same = |row: &PowerRow| {
        row.energy_j == all.energy_j && row.mean_pools == all.mean_pools && row.disk_spin_ups == 0
    };
    let same = match power.rows[1..].iter().all(is_same) {
        true => format!(" Switching saves nothing: every plan keeps {pools} on in each epoch."),
        false => String::new(),
    };
    format!(
        "All on, {pools} of {pool_disks} {device} (each disk {disk_iops} IOPS, each pool {}) answer {} of the requests \
         within {}.{same}",
        pool_disks * disk_iops,
        promised(question.baseline.as_f64()),
        within(question),
    )
}

fn words(question: &Question) -> String {
    format!(
        "all-on and static keep as many pools on as the whole trace needs, for {} and for {}; \
         predicted as many as past epochs needed; oracle as many as the next epoch will need. \
         Late: requests not answered within {}. Broken: epochs in which fewer than {} were \
         answered in time.",
        promised(question.baseline.as_f64()),
        promised(question.fraction.as_f64()),
        within(question),
        promised(question.fraction.as_f64()),
    )
}

/// Builds a bar chart of each plan's power.
fn picture(power: &Power, index: usize) -> Option<Block> {
    let best = power.recommended().map(|row| row.plan);
    let bar = |row: &PowerRow| {
        let broken = match row.broken_epochs {
            0 => "kept".to_string(),
            broken => format!("broken in {broken} of {}", power.epochs),
        };
        let total = format!("{}, {broken}", watts(row.mean_power_w));
        Bar::single(row.plan, row.mean_power_w, total, best == Some(row.plan))
    };
    let bars: Vec<Bar> = power.rows.iter().map(bar).collect();
    let caption = Caption {
        id: &format!("watts-{index}"),
        title: "Mean power of each plan",
        description: "One bar for each plan: its mean power. The table below has the \
            figures.",
    };
    let svg = bars::picture(&caption, &bars, None)?;
    let caption = "<b>Mean power</b>, and whether the promise is kept in every epoch".into();
    Some(Block::Picture { svg, caption })
}

fn plans(power: &Power) -> Table {
    let columns = [
        Column::of("power", Unit::Watts),
        Column::of("saved", Unit::Share),
        Column::of("mean pools", Unit::Number),
        Column::of("late", Unit::Count),
        Column::of("broken", Unit::Count),
    ];
    by_plan(power, columns.into(), |row| {
        vec![
            row.mean_power_w,
            row.saving_share,
            row.mean_pools,
            row.late_requests as f64,
            row.broken_epochs as f64,
        ]
    })
}

fn pools(power: &Power) -> Table {
    let columns = [
        Column::of("energy", Unit::Joules),
        Column::of("most pools", Unit::Count),
        Column::of("disk spin-ups", Unit::Count),
    ];
    by_plan(power, columns.into(), |row| {
        vec![row.energy_j, row.max_pools as f64, row.disk_spin_ups as f64]
    })
}

/// Builds the table of response times under each plan.
fn times(power: &Power) -> Table {
    let steps = power.rows.first().map_or(&[][..], |row| row.answered.as_slice());
    let steps = steps.iter().map(|step| format!("within {}", bound(step.within_ms)));
    let mut columns: Vec<Column> = steps.map(|head| Column::of(head, Unit::Achieved)).collect();
    columns.extend(["mean", "longest"].map(|head| Column::of(head, Unit::Seconds)));
    by_plan(power, columns, |row| {
        let shares = row.answered.iter().map(|answered| answered.fraction);
        shares.chain([row.mean_ms / 1e3, row.max_ms / 1e3]).collect()
    })
}

/// Builds a table with one row per plan, in which the recommended plan is highlighted.
fn by_plan(power: &Power, columns: Vec<Column>, figures: impl Fn(&PowerRow) -> Vec<f64>) -> Table {
    let best = power.recommended().map(|row| row.plan);
    let mut table = Table::new([Column::words("plan")].into_iter().chain(columns));
    table.rows.extend(power.rows.iter().map(|row| {
        let is_best = best == Some(row.plan);
        let mark = if is_best { RowMark::Best("best".into()) } else { RowMark::Plain };
        let figures = figures(row).into_iter().map(Cell::Value);
        TableRow { mark, cells: [row.plan.into()].into_iter().chain(figures).collect() }
    }));
    table
}
