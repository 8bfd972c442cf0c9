//! The report of `plan power`: which plan of switching pools to take, what each draws, and what becomes of the promise.

use forebay_show::quantities;

use crate::plan::power::{Power, Question, Row};
use forebay_show::html::bars::{self, Bar};
use forebay_show::html::document::{document, header, section, tiles};
use forebay_show::html::figure;
use forebay_show::html::paragraphs::{called, paragraphs, said};
use forebay_show::html::plot::Caption;
use forebay_show::html::table::{Mark, headings, named, table};
use forebay_show::html::text::{
    NONE, bound, count, joules, millis, name, percent, seconds, significant,
};

/// What the page shows.
pub struct PowerPage<'a> {
    /// What was asked.
    pub question: &'a Question,
    /// The traces, and what was found of each.
    pub traces: &'a [(&'a str, &'a Power)],
}

pub(super) fn page(page: &PowerPage<'_>) -> String {
    let mut body = head(page);
    let mut cautions = Vec::new();
    for (index, (trace, power)) in page.traces.iter().enumerate() {
        let whose =
            if page.traces.len() > 1 { format!(": {}", name(trace)) } else { String::new() };
        body += &of_trace(page.question, power, index, &whose);
        cautions.extend(power.cautions.iter().map(|said| format!("{trace}: {said}")));
    }
    body += &paragraphs("Keep in mind", "cautions", &cautions);
    if let Some((_, power)) = page.traces.first() {
        let [_, _, words] = power.told(page.question);
        body += &section("What the words mean", &format!("<p>{}</p>{HOW}", said(&words)));
    }
    let title = match page.traces {
        [(trace, _)] => trace.to_string(),
        several => format!("{} traces", several.len()),
    };
    document(&called("Power", &[&title]), &body)
}

const HOW: &str = "<p>Each pool holds all the data. A request goes to the first pool that answers it in time, so the last ones are \
    idle first. A disk draws its active power while it serves, its idle power while it turns, its standby power while it \
    is off, and the energy of a spin-up each time. The plan that is recommended draws least of those that keep the promise in every \
    epoch; oracle is none of them, for nobody knows the coming epoch.</p>";

fn head(page: &PowerPage<'_>) -> String {
    let pays = |power: &&Power| power.recommended().is_some_and(|row| row.plan != "all-on");
    let (all, paying) =
        (page.traces.len(), page.traces.iter().filter(|(_, power)| pays(power)).count());
    let said = match page.traces {
        [(_, power)] => power.answer(page.question),
        _ => format!("Switching pools off pays for {paying} of {all} traces."),
    };
    let verdict = match paying {
        0 => ("calm", "Nothing to switch off"),
        _ => ("good", "Switch pools off"),
    };
    let asked = page.question;
    let promise = crate::plan::amount::percent(asked.fraction.as_f64())
        + &format!(" within {}", asked.within);
    let disk = &asked.disk;
    let mut about = vec![
        ("Promise", format!("{promise}, in each epoch of {}", seconds(asked.epoch.as_secs_f64()))),
        (
            "Pools",
            format!("{} of {} each, {} IOPS a disk", asked.pool_disks, disk.name, count(disk.iops)),
        ),
        (
            "A disk",
            format!(
                "{} active, {} idle, {} off",
                watt(disk.active_w),
                watt(disk.idle_w),
                watt(disk.standby_w)
            ),
        ),
    ];
    if let [(trace, _)] = page.traces {
        about.insert(0, ("Trace", trace.to_string()));
    }
    header(verdict, &said, &about)
}

/// The sections of one trace; their titles end with `whose`.
fn of_trace(question: &Question, power: &Power, index: usize, whose: &str) -> String {
    let [always, switched, _] = power.told(question);
    let answer = if whose.is_empty() { String::new() } else { power.answer(question) };
    let said = [answer, always, switched].map(|answer| match answer.as_str() {
        "" => String::new(),
        text => format!("<p>{}</p>", said(text)),
    });
    let four = power.recommended().map_or(String::new(), |best| best_of(best, whose));
    let drawn = format!(
        "<div class=\"findings\">{}</div>{}{}",
        said.concat(),
        watts(power, index),
        plans(power)
    );
    four + &section(&format!("What each plan draws{whose}"), &drawn)
        + &section(&format!("How fast requests are answered{whose}"), &times(power))
}

fn best_of(best: &Row, whose: &str) -> String {
    let late = best.answered.last().map_or(NONE.to_string(), |last| percent(1.0 - last.fraction));
    tiles(
        &format!("recommended: {}{whose}", best.plan),
        &[
            ("mean power", watt(best.mean_power_w)),
            ("less than all on", percent(best.saved())),
            ("pools on, on average", significant(best.mean_pools)),
            ("of the requests are late", late),
        ],
    )
}

fn watt(watts: f64) -> String {
    quantities::watts(watts).replace(' ', "\u{a0}")
}

/// What every plan draws, as bars.
fn watts(power: &Power, index: usize) -> String {
    let best = power.recommended().map(|row| row.plan);
    let bar = |row: &Row| {
        let broken = match row.broken_epochs {
            0 => "kept".to_string(),
            broken => format!("broken in {broken} of {}", power.epochs),
        };
        let total = format!("{}, {broken}", watt(row.mean_power_w));
        Bar::single(row.plan, row.mean_power_w, total, best == Some(row.plan))
    };
    let bars: Vec<Bar> = power.rows.iter().map(bar).collect();
    let caption = Caption {
        id: &format!("watts-{index}"),
        title: "Mean power of each plan",
        description: "A bar for each plan, as long as its mean power; the table below has the figures.",
    };
    let said = "<b>Mean power</b>, and whether the promise is kept in every epoch";
    bars::picture(&caption, &bars, None).map_or(String::new(), |picture| figure(&picture, said))
}

/// What each plan costs.
fn plans(power: &Power) -> String {
    let heads = headings(&[
        "plan",
        "mean power",
        "energy",
        "less than all on",
        "mean pools",
        "most pools",
        "disk spin-ups",
        "late requests",
        "broken epochs",
    ]);
    rows(power, &heads, |row| {
        vec![
            watt(row.mean_power_w),
            joules(row.energy_j),
            percent(row.saved()),
            significant(row.mean_pools),
            count(row.max_pools as u64),
            count(row.disk_spin_ups),
            count(row.late_requests),
            count(row.broken_epochs),
        ]
    })
}

/// Response times under each plan.
fn times(power: &Power) -> String {
    let steps = power.rows.first().map_or(&[][..], |row| row.answered.as_slice());
    let steps = steps.iter().map(|step| format!("within {}", bound(step.within_ms)));
    let heads = std::iter::once("plan".to_string()).chain(steps);
    let heads: Vec<String> = heads.chain(["mean".into(), "longest".into()]).collect();
    let answered = rows(power, &heads, |row| {
        let shares = row.answered.iter().map(|answered| percent(answered.fraction));
        shares.chain([millis(row.mean_ms), millis(row.max_ms)]).collect()
    });
    named("Share of the requests answered in time, by plan", &answered)
}

/// A row for each plan, that of the recommended one highlighted.
fn rows(power: &Power, heads: &[String], figures: impl Fn(&Row) -> Vec<String>) -> String {
    let best = power.recommended().map(|row| row.plan);
    let row = |row: &Row| {
        let is_best = best == Some(row.plan);
        let cells = std::iter::once(row.plan.to_string()).chain(figures(row)).collect();
        (Mark::best("recommended", is_best), cells)
    };
    table(heads, &power.rows.iter().map(row).collect::<Vec<_>>())
}
