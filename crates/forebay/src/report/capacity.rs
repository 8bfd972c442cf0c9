//! The report of `plan capacity`: the table, and capacity over fraction as a picture.

use super::tables::within;
use crate::plan::amount;
use crate::plan::arrival_times::ArrivalTimes;
use crate::plan::capacity::{Promises, Row};
use crate::plan::devices;
use forebay_show::html::axis::Axis;
use forebay_show::html::charts::{legend, series_class};
use forebay_show::html::document::{document, header, section};
use forebay_show::html::figure;
use forebay_show::html::paragraphs::{called, paragraphs, said};
use forebay_show::html::plot::{Caption, Plot};
use forebay_show::html::table::{Mark, TableRow, table};
use forebay_show::html::text::{bound, count, name, ratio, seconds, significant};

/// What the page shows.
pub struct CapacityPage<'a> {
    /// The trace.
    pub arrivals: &'a ArrivalTimes,
    /// What was asked.
    pub promises: &'a Promises,
    /// The answers.
    pub rows: &'a [Row],
    /// For each bound: (fraction, IOPS), from nine tenths on.
    pub curves: Vec<Vec<(f64, u64)>>,
    /// What real devices do, where it was asked.
    pub devices: Option<DevicesPart<'a>>,
}

/// How many devices keep the promises.
pub struct DevicesPart<'a> {
    /// One of them.
    pub device: &'a str,
    /// What each row says.
    pub said: &'a [String],
    /// The answers, a row for each of the page's.
    pub rows: &'a [devices::Row],
    /// What to keep in mind of them.
    pub notes: &'a [String],
}

pub(super) fn page(page: &CapacityPage<'_>) -> String {
    let trace = page.arrivals.path.display().to_string();
    let body = head(page, &trace)
        + &page.devices.as_ref().map_or(String::new(), |part| counted(page, part))
        + &curves(page)
        + &prices(page)
        + &paragraphs("Keep in mind", "cautions", &cautions(page.arrivals))
        + &about();
    document(&called("Capacity", &[&trace]), &body)
}

fn cautions(arrivals: &ArrivalTimes) -> Vec<String> {
    arrivals.cautions().into_iter().chain(arrivals.size_caution()).collect()
}

fn head(page: &CapacityPage<'_>, trace: &str) -> String {
    let (requests, duration_s) = (page.arrivals.requests(), page.arrivals.duration().as_secs_f64());
    let rate = significant(ratio(requests as f64, duration_s));
    let load =
        format!("{} requests in {} ({rate} requests/s)", count(requests), seconds(duration_s));
    let about = [("Trace", trace.to_string()), ("Load", load)];
    header(("calm", "Capacity"), &headline(page), &about)
}

/// What was asked: how many devices it takes, or the capacity of shares below all; and of all requests what the last
/// hundredth costs, under the bound where it costs most.
fn headline(page: &CapacityPage<'_>) -> String {
    if let Some(part) = &page.devices {
        let number =
            |row: &devices::Row| (row.within_ms, row.fraction, row.devices.map(|n| n as u64));
        return takes(part.rows.iter().map(number), part.device);
    }
    if page.rows.iter().all(|row| row.fraction < 1.0) {
        let whole = page.rows.iter().filter(|row| row.volume.is_none());
        let price = |row: &Row| (row.within_ms, row.fraction, Some(row.capacity_iops));
        return takes(whole.map(price), "IOPS");
    }
    let within = page.promises.within.iter().map(|within| bound(within.as_millis_f64()));
    let knees = within.zip(&page.curves).filter_map(|(within, curve)| {
        let most = curve.iter().find(|point| point.0 == 0.99)?.1;
        Some((within, most, curve.last()?.1))
    });
    let times = |knee: &(String, u64, u64)| ratio(knee.2 as f64, knee.1 as f64);
    match knees.max_by(|a, b| times(a).total_cmp(&times(b))) {
        Some(knee) if times(&knee) >= 1.005 => format!(
            "99\u{a0}% of the requests within {} take {} IOPS, all of them {}: {} times as many",
            knee.0,
            count(knee.1),
            count(knee.2),
            significant(times(&knee)),
        ),
        _ => "The last hundredth of the requests costs nothing more".to_string(),
    }
}

/// Promises that the headline says.
const SAID_MAX: usize = 6;

/// How much each promise takes, of (milliseconds, share, how much).
fn takes(rows: impl Iterator<Item = (f64, f64, Option<u64>)>, unit: &str) -> String {
    let rows: Vec<_> = rows.collect();
    let one = |(nth, (within_ms, share, much)): (usize, &(f64, f64, Option<u64>))| {
        let (of, unit) = match nth {
            0 => (" of the requests", format!(" {unit}")),
            _ => ("", String::new()),
        };
        let much = match much {
            Some(much) => format!("{}{unit}", count(*much)),
            None => "more than were allowed".to_string(),
        };
        format!("{}{of} within {} take {much}", amount::percent(*share), bound(*within_ms))
    };
    let said: Vec<String> = rows.iter().take(SAID_MAX).enumerate().map(one).collect();
    let more = if rows.len() > SAID_MAX { "; the others stand below" } else { "" };
    format!("{}{more}.", said.join(", "))
}

fn curves(page: &CapacityPage<'_>) -> String {
    let names: Vec<String> = page
        .promises
        .within
        .iter()
        .map(|w| format!("within {}", bound(w.as_millis_f64())))
        .collect();
    let pictures: String = [("curve", 0.9, "the last tenth"), ("knee", 0.99, "the last hundredth")]
        .iter()
        .map(|(id, from, what)| {
            let title = format!("Capacity over the fraction of requests, {what}");
            let ends = names.iter().zip(&page.curves).filter_map(|(name, curve)| {
                let first = curve.iter().find(|point| point.0 >= *from)?;
                Some(format!(
                    " {name}: {} IOPS at {}, {} at the end.",
                    count(first.1),
                    amount::percent(first.0),
                    count(curve.last()?.1)
                ))
            });
            let description = format!(
                "For each bound, the least capacity that answers a fraction in time.{}",
                ends.collect::<String>()
            );
            let caption = Caption { id, title: &title, description: &description };
            figure(
                &curve(&caption, &names, &page.curves, *from),
                &format!("<b>Capacity</b>, {what}"),
            )
        })
        .collect();
    let legend = legend(names.iter().map(String::as_str), &[]);
    section("What the last requests cost", &format!("{legend}<div class=\"pair\">{pictures}</div>"))
}

/// Points of a line that say their figures.
const SPOTS_MAX: usize = 21;

fn curve(caption: &Caption<'_>, names: &[String], curves: &[Vec<(f64, u64)>], from: f64) -> String {
    const SIZE: (f64, f64) = (560.0, 340.0);
    let (left, right) = Plot::across(SIZE.0);
    let (bottom, top) = Plot::upwards(SIZE.1);
    let highest = curves.iter().flatten().map(|point| point.1).max().unwrap_or(1) as f64;
    let x = Axis::between(from * 100.0, 100.0, left, right);
    let y = Axis::linear(highest * 1.05, bottom, top);
    let mut plot = Plot::new(caption, SIZE, (x, "requests in time, %"), (y, "IOPS"));
    for (index, (whose, curve)) in names.iter().zip(curves).enumerate() {
        let points = curve.iter().filter(|point| point.0 >= from);
        let points: Vec<(f64, f64)> =
            points.map(|&(fraction, iops)| (fraction * 100.0, iops as f64)).collect();
        plot.line(&points, &format!("series {}", series_class(index)));
        plot.spots(&points, SPOTS_MAX, |(share, iops)| {
            let share = amount::percent(share / 100.0);
            format!("{share} {whose}: {}\u{a0}IOPS", count(iops as u64))
        });
    }
    plot.finish()
}

fn prices(page: &CapacityPage<'_>) -> String {
    let mut headings = vec!["IOPS".to_string()];
    let percent = |row: &Row| format!("{}\u{a0}%", significant_share(row.fraction));
    let fractions = page.promises.fractions.len();
    headings.extend(page.rows.iter().take(fractions).map(percent));
    let line = |line: &[Row]| {
        let within = format!("within {}", bound(line[0].within_ms));
        let first = match &line[0].volume {
            Some(volume) => format!("{}: {within}", name(volume)),
            None => within,
        };
        (Mark::Plain, std::iter::once(first).chain(line.iter().map(price)).collect())
    };
    let lines: Vec<TableRow> = page.rows.chunks(fractions.max(1)).map(line).collect();
    section("Least capacity", &table(&headings, &lines))
}

/// The devices' section.
fn counted(page: &CapacityPage<'_>, part: &DevicesPart<'_>) -> String {
    let paragraph = |text: &String| format!("<p>{}</p>", said(text));
    let told: String = part.said.iter().map(paragraph).collect();
    let notes: String = part.notes.iter().map(paragraph).collect();
    let fractions = page.promises.fractions.len();
    let shares = part.rows.iter().take(fractions);
    let heads = shares.map(|row| format!("{}\u{a0}%", significant_share(row.fraction)));
    let heads: Vec<String> = std::iter::once("Devices".to_string()).chain(heads).collect();
    let number = |row: &devices::Row| row.devices.map_or("none".into(), |n| count(n as u64));
    let line = |line: &[devices::Row]| {
        let within = format!("within {}", bound(line[0].within_ms));
        (Mark::Plain, std::iter::once(within).chain(line.iter().map(number)).collect())
    };
    let lines: Vec<TableRow> = part.rows.chunks(fractions.max(1)).map(line).collect();
    let title = format!("How many {} it takes", name(part.device));
    section(&title, &format!("{told}{}{notes}", table(&heads, &lines)))
}

/// A bound as it was given.
pub(super) fn price(row: &Row) -> String {
    let interval = row.interval;
    capacity(row.capacity_iops, interval.map(|of| (of.capacity_low_iops, of.capacity_high_iops)))
}

/// A capacity, with its interval where there is one.
pub(super) fn capacity(iops: u64, interval: Option<(u64, u64)>) -> String {
    count(iops) + &within(interval.map(|(low, high)| (count(low), count(high))))
}

/// A share in per cent, with as many digits as it was given.
fn significant_share(fraction: f64) -> String {
    let percent = format!("{:.10}", fraction * 100.0);
    percent.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn about() -> String {
    section(
        "How it is found",
        "<p>A server of constant rate takes the same time for every request and serves first come \
         first served those it can still answer in time. No scheduler answers more in time at that \
         rate, so no smaller capacity is enough. A real device is no such server: \
         <code>--device</code> asks how many of it are needed.</p>",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::capacity::{Doubt, curve, table};
    use crate::plan::confidence::Bootstrap;
    use forebay_core::Nanos;

    fn html(path: &str) -> String {
        told(path).0
    }

    fn told(path: &str) -> (String, Vec<Row>) {
        page_of(path, &["0.9", "0.9995", "1"])
    }

    fn of(fractions: &[&str]) -> (String, Vec<Row>) {
        page_of("t", fractions)
    }

    /// The page, and the rows that it tells of.
    fn page_of(path: &str, fractions: &[&str]) -> (String, Vec<Row>) {
        let times = (0..100u64).flat_map(|s| std::iter::repeat_n(s * 1_000_000_000, s as usize));
        let arrivals = ArrivalTimes {
            lengths: (512, 512),
            path: path.into(),
            whole: times.map(Nanos).collect(),
            volumes: Vec::new(),
            notes: forebay_trace::Notes::default(),
        };
        let fractions = fractions.iter().map(|text| text.parse().unwrap()).collect();
        let promises = Promises { within: vec![Nanos(1_000_000_000)], fractions };
        let doubt = Doubt { bootstrap: Some(Bootstrap { level: 0.9, seed: 1 }), hold_out: None };
        let rows = table(&arrivals, &promises, doubt, &mut crate::progress::unheard).unwrap();
        let curves = curve(&arrivals, &promises.within).unwrap();
        let page = page(&CapacityPage {
            arrivals: &arrivals,
            promises: &promises,
            rows: &rows,
            curves,
            devices: None,
        });
        (page, rows)
    }

    #[test]
    fn every_capacity_stands_above_its_interval() {
        let (page, rows) = told("t");
        let wide = |row: &&Row| {
            row.interval.is_some_and(|of| of.capacity_low_iops < of.capacity_high_iops)
        };
        assert!(rows.iter().any(|row| wide(&row)));
        for row in &rows {
            let of = row.interval.unwrap();
            let (low, high) = (of.capacity_low_iops, of.capacity_high_iops);
            let range = format!("<span class=\"small\">{low} to {high}</span>");
            let cell = format!("<td>{}<br/>{range}</td>", row.capacity_iops);
            assert!(page.contains(&cell), "{cell}: {page}");
        }
    }

    #[test]
    fn the_page_is_whole_and_refers_to_nothing_outside() {
        let page = html("<script>alert(1)</script>");
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
        let lines = document.descendants().filter_map(|node| node.attribute("class"));
        assert_eq!(lines.filter(|class| *class == "series s0").count(), 3);
        let body = page.split("</style>").nth(1).unwrap();
        for wrong in ["http", "src=", "url(", "NaN"] {
            assert!(!page.contains(wrong) && !body.contains("<script"), "{wrong}");
        }
        // Who cannot see a picture is told where each line begins and ends.
        assert!(
            page.contains(" within 1\u{a0}s: 90\u{a0}IOPS at 99\u{a0}%, 99 at the end.</desc>"),
            "{body}"
        );
        assert!(page.contains("99.95\u{a0}%") && page.contains("90\u{a0}%"));
    }

    #[test]
    fn the_headline_answers_what_was_asked() {
        let rows = [(50.0, 0.9, Some(3)), (50.0, 0.99, Some(1300)), (100.0, 0.99, None)];
        let said = "90 % of the requests within 50\u{a0}ms take 3 drives, 99 % within 50\u{a0}ms take 1\u{202f}300, \
                    99 % within 100\u{a0}ms take more than were allowed.";
        assert_eq!(takes(rows.into_iter(), "drives"), said);
        let many = takes([rows[0]; SAID_MAX + 1].into_iter(), "drives");
        assert!(
            many.matches("take").count() == SAID_MAX && many.ends_with("; the others stand below.")
        );
        // Shares below all have prices of their own; of all, the last hundredth is told.
        assert!(
            of(&["0.9", "0.99"]).0.contains(
                "<h1 class=\"sentence\">90\u{a0}% of the requests within 1\u{a0}s take 69"
            )
        );
    }

    #[test]
    fn the_headline_says_what_the_last_hundredth_costs() {
        let said = "within 1\u{a0}s take 90\u{a0}IOPS, all of them 99: 1.10\u{a0}times as many";
        assert!(html("t").contains(said));
    }
}
