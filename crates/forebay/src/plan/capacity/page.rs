//! The report pages of `plan capacity`.

use forebay_show::html::paragraphs::page_title;
use forebay_show::table::{Cell, Column, Row as TableRow, Table};
use forebay_show::{
    Block, Chart, ChartAxis, ChartScale, Figure, Page, Place, Series, Tone, Unit, Verdict,
};

use forebay_words::plural::{counted, verb};

use super::{Answer, CapacityRow, Promises};
use crate::plan::page::{about_load, key, mean_rate};
use crate::plan::{costed, devices};
use crate::quantities::{bound, promised, significant};

/// For each time bound, points (share of requests, IOPS) for shares from 0.9 on.
type Curves = [Vec<(f64, u64)>];

/// Builds the page for capacities of a constant-rate server.
pub(super) fn of_rate(answer: &Answer, promises: &Promises, curves: &Curves) -> Page {
    let mut page = Page {
        title: page_title("Capacity", &[&answer.trace]),
        verdict: Verdict::new(Tone::Calm, "Capacity"),
        headline: headline(answer),
        about: about_load(&answer.trace, answer.requests, (answer.duration_s, answer.active_s)),
        ..Page::default()
    };
    page.key_figures = vec![mean_rate(answer.mean_iops)];
    if answer.has_seconds() {
        page.key_figures.push(key("busiest second", answer.busiest_second_iops as f64, Unit::Iops));
    }
    page.add("Why", Place::FirstScreen, burst(answer).into_iter().collect());
    page.add("Smallest capacity", Place::FirstScreen, vec![Block::Table(prices(answer, promises))]);
    page.add("What the last few percent cost", Place::Detail, charts(promises, curves));
    page.add_notes("Keep in mind", Place::FirstScreen, answer.cautions.clone());
    page.add("How the answer is found", Place::Detail, vec![Block::Text(HOW.into())]);
    page
}

const HOW: &str = "A server of constant rate takes the same time for every request. It serves the \
    requests that it can still answer in time, first come, first served, and defers the others. No \
    scheduler answers more in time at that rate, so no smaller capacity is enough. A real device \
    is not such a server: specify a device to find how many are needed.";

/// Explains a capacity above the rate of the busiest second.
fn burst(answer: &Answer) -> Option<Block> {
    let (most, last) = knee(answer)?;
    let mut rows = [most, last].into_iter().filter(|_| answer.has_seconds());
    let row = rows.find(|row| row.capacity_iops > answer.busiest_second_iops)?;
    let requests = answer.busiest_within(row)?;
    let arrive = verb(requests, "arrives", "arrive");
    let requests = counted(requests, "request");
    Some(Block::Text(format!(
        "{} IOPS are more than the {} of the busiest second, because up to {requests} {arrive} within {}.",
        row.capacity_iops,
        answer.busiest_second_iops,
        bound(row.within_ms)
    )))
}

/// Compares the capacity for 99 % of the requests (or the largest share below that) with the
/// capacity for all of them, at the time bound where these differ most.
fn headline(answer: &Answer) -> String {
    let Some((most, last)) = knee(answer) else { return String::new() };
    let kept = format!(
        "Answering {} of the requests within {} requires {} IOPS",
        promised(most.fraction),
        bound(most.within_ms),
        most.capacity_iops
    );
    if most.fraction == last.fraction {
        return format!("{kept}.");
    }
    let what = if last.fraction == 1.0 { "all of them".into() } else { promised(last.fraction) };
    if most.capacity_iops == last.capacity_iops {
        return format!("{kept}, and answering {what} requires as much.");
    }
    let times = significant(times(&(most, last)));
    format!("{kept}; answering {what} requires {}, {times} times as many.", last.capacity_iops)
}

/// Returns by which factor the last requests increase the capacity.
fn times((most, last): &(&CapacityRow, &CapacityRow)) -> f64 {
    last.capacity_iops as f64 / most.capacity_iops.max(1) as f64
}

/// Returns the rows for 99 % of the requests (or the largest share below that) and for the largest
/// share, at the time bound where their capacities differ most.
fn knee(answer: &Answer) -> Option<(&CapacityRow, &CapacityRow)> {
    let whole: Vec<&CapacityRow> = answer.rows.iter().filter(|row| row.part().is_none()).collect();
    let by_bound = whole.chunk_by(|one, other| one.within_ms == other.within_ms);
    let knees = by_bound.filter_map(|rows| {
        let by_fraction =
            |one: &&&CapacityRow, other: &&&CapacityRow| one.fraction.total_cmp(&other.fraction);
        let last = rows.iter().max_by(by_fraction)?;
        let most = rows.iter().filter(|row| row.fraction <= 0.99).max_by(by_fraction);
        Some((*most.unwrap_or(last), *last))
    });
    knees.max_by(|one, other| times(one).total_cmp(&times(other)))
}

/// Builds the table with time bounds as rows and shares as columns. Results of checks are below
/// each bound.
fn prices(answer: &Answer, promises: &Promises) -> Table {
    let part = answer.rows.iter().find_map(|row| row.part());
    let fractions = promises.fractions.iter().map(|share| promised(share.as_f64()));
    let names = part.map(|(what, _)| Column::words(what)).into_iter();
    let names = names.chain([Column::words("IOPS within")]);
    let mut table = Table::new(names.chain(fractions.map(|head| Column::of(head, Unit::Count))));
    for rows in answer.rows.chunks(promises.fractions.len().max(1)) {
        let name = rows[0].part().map_or("(all)", |(_, name)| name);
        for (label, cell) in lines(rows) {
            let first = part.map(|_| Cell::Words(name.into())).into_iter();
            let within = Cell::Words(format!("{}{label}", bound(rows[0].within_ms)));
            table.rows.push(TableRow::new(first.chain([within]).chain(rows.iter().map(cell))));
        }
    }
    table
}

/// A line of the table: its label, and the function that returns the cell for a row of the answer.
type Line = (&'static str, fn(&CapacityRow) -> Cell);

fn lines(rows: &[CapacityRow]) -> Vec<Line> {
    let mut lines: Vec<Line> = vec![("", |row| {
        let value = row.capacity_iops as f64;
        row.interval.map_or(Cell::Value(value), |of| Cell::Interval {
            value,
            low: of.capacity_low_iops as f64,
            high: of.capacity_high_iops as f64,
        })
    })];
    if rows.iter().any(|row| row.held_out.is_some()) {
        lines.push((": without the held-out part", |row| {
            Cell::value(row.held_out.map(|held| held.train_capacity_iops as f64))
        }));
        lines.push((": share in time in that part", |row| {
            let share = row.held_out.map(|held| held.held_out_fraction);
            share.map_or(Cell::Missing, |share| Figure::new(share, Unit::Achieved).into())
        }));
        lines.push((": capacity for that part alone", |row| {
            let alone = row.held_out.and_then(|held| held.held_out_capacity_iops);
            Cell::value(alone.map(|iops| iops as f64))
        }));
    }
    lines
}

fn charts(promises: &Promises, curves: &Curves) -> Vec<Block> {
    let chart = |(id, from, what): (&str, f64, &str)| {
        let series = promises.within.iter().zip(curves).map(|(within, curve)| Series {
            name: format!("within {}", bound(within.as_millis_f64())),
            points: curve
                .iter()
                .filter(|point| point.0 >= from)
                .map(|(share, iops)| (*share, *iops as f64))
                .collect(),
            is_faint: false,
        });
        Block::Chart(Chart {
            id: id.into(),
            title: format!("Capacity by share of requests: the last {what}"),
            description: "For each time limit, the smallest capacity that answers each share of \
                          the requests in time."
                .into(),
            x: ChartAxis::new(
                "requests in time, %",
                Unit::Promise,
                100.0,
                ChartScale::Between(from, 1.0),
            ),
            y: ChartAxis::new("IOPS", Unit::Iops, 1.0, ChartScale::Linear),
            series: series.collect(),
            is_half: true,
        })
    };
    [("curve", 0.9, "tenth"), ("knee", 0.99, "hundredth")].map(chart).into()
}

/// Builds the page for speeds, if the cost of a request depends on its length.
pub(super) fn of_cost(answer: &costed::Answer, costs: &costed::Costs) -> Page {
    let [unit, meant] = answer.meant(costs);
    let mut page = Page {
        title: page_title("Capacity", &[&answer.about.trace]),
        verdict: Verdict::new(Tone::Calm, "Speed"),
        headline: speed_headline(answer),
        about: vec![("Trace".into(), answer.about.trace.clone()), ("Cost".into(), unit.clone())],
        ..Page::default()
    };
    let fractions = answer.bounds().next().unwrap_or(&[]).iter().map(|row| promised(row.fraction));
    let heads = fractions.map(|head| Column::of(head, Unit::Number));
    let mut table = Table::new([Column::words("speed within")].into_iter().chain(heads));
    for rows in answer.bounds() {
        let figures = rows.iter().map(|row| Cell::Value(row.speed));
        let within = Cell::Words(bound(rows[0].within_ms));
        table.rows.push(TableRow::new([within].into_iter().chain(figures)));
    }
    let said = vec![Block::Table(table), Block::Text(unit), Block::Text(meant)];
    page.add("Smallest speed", Place::FirstScreen, said);
    let series = answer.bounds().map(|rows| Series {
        name: format!("within {}", bound(rows[0].within_ms)),
        points: rows.iter().map(|row| (row.fraction, row.speed)).collect(),
        is_faint: false,
    });
    let series: Vec<Series> = series.collect();
    let least = answer.rows.iter().map(|row| row.fraction).fold(1.0, f64::min);
    if least < 1.0 {
        let chart = Chart {
            id: "speeds".into(),
            title: "Smallest speed for a share of the requests".into(),
            description: "For each time limit, the smallest speed that answers each share of the requests in time.".into(),
            x: ChartAxis::new(
                "requests in time, %",
                Unit::Promise,
                100.0,
                ChartScale::Between(least, 1.0),
            ),
            y: ChartAxis::new("speed", Unit::Number, 1.0, ChartScale::Linear),
            series,
            is_half: false,
        };
        page.add("What the last few percent cost", Place::Detail, vec![Block::Chart(chart)]);
    }
    page.add_notes("Keep in mind", Place::FirstScreen, answer.cautions.clone());
    page
}

/// States the speed for most requests within each time bound: for 99 % of them, or for the largest
/// share below that.
fn speed_headline(answer: &costed::Answer) -> String {
    let first = answer.bounds().next().unwrap_or(&[]).iter().enumerate();
    let most = first.filter(|(_, row)| row.fraction <= 0.99);
    let nth =
        most.max_by(|(_, a), (_, b)| a.fraction.total_cmp(&b.fraction)).map_or(0, |one| one.0);
    let chosen = answer.bounds().filter_map(|rows| rows.get(nth));
    let share = chosen.clone().next().map_or(1.0, |row| row.fraction);
    let each = chosen
        .map(|row| format!("speed {} within {}", significant(row.speed), bound(row.within_ms)));
    let each: Vec<String> = each.collect();
    format!("Answering {} of the requests requires {}.", promised(share), each.join(", "))
}

/// The maximum number of promises that are described on the first screen of a terminal.
const SENTENCES_MAX: usize = 2;

/// Builds the page for numbers of devices; `notes` are about the devices' model.
pub(super) fn of_devices(answer: &devices::Answer, notes: &[String]) -> Page {
    let told = told(answer);
    let mut page = Page {
        title: page_title("Capacity", &[&answer.trace]),
        verdict: Verdict::new(Tone::Calm, "Devices"),
        headline: device_headline(answer),
        about: vec![
            ("Trace".into(), answer.trace.clone()),
            ("Device".into(), format!("{}, {}", answer.device, answer.policy)),
        ],
        ..Page::default()
    };
    let mut first: Vec<&devices::DevicesRow> = answer.rows.iter().collect();
    first.truncate(
        answer.rows.iter().take_while(|row| row.within_ms == answer.rows[0].within_ms).count(),
    );
    let heads = first.iter().map(|row| Column::of(promised(row.fraction), Unit::Count));
    let mut table = Table::new([Column::words("devices within")].into_iter().chain(heads));
    for rows in answer.rows.chunk_by(|one, other| one.within_ms == other.within_ms) {
        let cells = rows.iter().map(|row| number(row, answer.devices_max));
        let within = Cell::Words(bound(rows[0].within_ms));
        table.rows.push(TableRow::new([within].into_iter().chain(cells)));
    }
    page.add("How many devices it takes", Place::FirstScreen, vec![Block::Table(table)]);
    let place = if told.len() <= SENTENCES_MAX { Place::FirstScreen } else { Place::Detail };
    page.add("Why", place, told.into_iter().map(Block::Text).collect());
    page.add_notes("Keep in mind", Place::FirstScreen, notes.to_vec());
    page
}

/// Describes each promise in one sentence, without repeating the headline.
fn told(answer: &devices::Answer) -> Vec<String> {
    let (device, max) = (&answer.device, answer.devices_max);
    let first = strictest(answer);
    let sentence = |row: &devices::DevicesRow| match first == Some(row) {
        true => devices::beside_headline(row, device, max),
        false => Some(row.told(device, max)),
    };
    answer.rows.iter().filter_map(sentence).collect()
}

/// Returns the row of the strictest promise that can be kept.
fn strictest(answer: &devices::Answer) -> Option<&devices::DevicesRow> {
    let kept = answer.rows.iter().filter(|row| row.devices.is_some());
    kept.max_by(|one, other| {
        let by_bound = other.within_ms.total_cmp(&one.within_ms);
        one.devices.cmp(&other.devices).then(by_bound)
    })
}

/// Formats a number of devices. If no number keeps the promise, formats the highest number that was
/// tried, with the share that it answers in time.
fn number(row: &devices::DevicesRow, devices_max: usize) -> Cell {
    let never = row.alone_fraction.is_some_and(|alone| alone < row.fraction) && !row.has_arm;
    match row.devices {
        Some(devices) => Cell::Value(devices as f64),
        None if never => Cell::Words("never".into()),
        None => {
            let share = Figure::new(row.achieved_fraction, Unit::Achieved).text();
            Cell::Words(format!("> {devices_max} ({share})"))
        }
    }
}

/// States the number of devices for the strictest promise that can be kept.
fn device_headline(answer: &devices::Answer) -> String {
    let Some(row) = strictest(answer) else {
        let bytes = answer.rows.iter().filter_map(|row| row.devices_for_bytes).max();
        if let Some(bytes) = bytes.filter(|bytes| *bytes > answer.devices_max as u64) {
            return format!(
                "The data alone needs {bytes} {}, more than the {} allowed.",
                answer.device, answer.devices_max
            );
        }
        return format!(
            "No number of {} up to {} keeps any of these promises.",
            answer.device, answer.devices_max
        );
    };
    let devices = row.devices.unwrap_or_default();
    let verb = if devices == 1 { "answers" } else { "answer" };
    let fewer = row.one_less_fraction.map_or(String::new(), |share| {
        let share = Figure::new(share, Unit::Achieved).text();
        format!("; one fewer answers only {share}")
    });
    format!(
        "{devices} {} {verb} {} of the requests within {}{fewer}.",
        answer.device,
        promised(row.fraction),
        bound(row.within_ms)
    )
}
