//! The report of `plan buy`: what to buy, what each thing that was tried comes to, what cannot do it, and the answer
//! as configuration.

use forebay_show::quantities;

use crate::plan::buy::{Answer, ClientNeed, Row};
use forebay_show::html::document::{document, header, section, tiles};
use forebay_show::html::paragraphs::paragraphs;
use forebay_show::html::table::{Mark, headings, table};
use forebay_show::html::text::{NONE, bound, bytes, count, escape, name, percent, significant};

/// Rows that are shown; what is far behind nobody buys.
const ROWS_MAX: usize = 40;

/// What the first of the rows has least of.
fn does(answer: &Answer) -> &'static str {
    match answer.rows.iter().any(|row| row.price.is_some()) {
        true => "What does it, the cheapest first",
        false => "What does it, those that draw least power first",
    }
}

pub(super) fn page(answer: &Answer) -> String {
    let mut body = head(answer);
    if let Some(best) = best(answer) {
        body += &figures(answer, best);
        body += &section(does(answer), &rows(answer));
    }
    body += &paragraphs("What cannot do it", "findings", &answer.refused);
    body += &section("Who is served", &clients(answer));
    body += &paragraphs("Keep in mind", "cautions", &answer.cautions);
    if let Some(configuration) = &answer.configuration {
        let text = |title: &str, text: &str| {
            format!("<p class=\"small\">{title}</p><pre><code>{}</code></pre>\n", lines(text))
        };
        body += &section(
            "As configuration",
            &[
                text("What makes the drives to try it on (setup.sh)", &configuration.setup),
                text("forebay serve (serve.toml)", &configuration.serve),
                text("cgroup v2", &configuration.cgroup),
                text("dmClock", &configuration.dmclock),
            ]
            .concat(),
        );
    }
    body += &about();
    document("What to buy", &body)
}

/// Each line escaped by itself, for line ends are escaped too.
fn lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

fn best(answer: &Answer) -> Option<&Row> {
    answer.rows.first().filter(|row| row.drives.is_some())
}

fn head(answer: &Answer) -> String {
    let (class, verdict) = match best(answer) {
        Some(_) => ("good", "What to buy"),
        None => ("calm", "Nothing does it"),
    };
    let requests: u64 = answer.clients.iter().map(|need| need.requests).sum();
    let reach = answer.clients.iter().map(|need| need.bytes as f64).sum();
    let about = [
        ("Clients", format!("{}, {} requests", answer.clients.len(), count(requests))),
        ("Data", bytes(reach)),
        ("Growth", format!("{} times", significant(answer.growth))),
    ];
    header((class, verdict), &answer.said, &about)
}

fn figures(answer: &Answer, best: &Row) -> String {
    let of = format!("{} {}, {}", best.drives.unwrap_or(0), name(&best.drive), best.layout.name());
    let whose =
        if answer.clients.len() > 1 { "in time, client that gets least" } else { "in time" };
    let worst = best.worst();
    let figures = [
        ("price", money(best)),
        ("power", watts(best)),
        ("drives busy", best.utilisation.map_or(NONE.into(), percent)),
        (whose, worst.map_or(NONE.into(), |worst| percent_found(worst.in_time_fraction))),
    ];
    tiles(&of, &figures)
}

fn percent_found(share: f64) -> String {
    format!("{:.2}\u{a0}%", share * 100.0)
}

fn money(row: &Row) -> String {
    row.priced().map_or(NONE.into(), |price| escape(&price))
}

fn watts(row: &Row) -> String {
    row.mean_power_w.map_or(NONE.into(), |watts| quantities::watts(watts).replace(' ', "\u{a0}"))
}

fn rows(answer: &Answer) -> String {
    let several = answer.clients.len() > 1;
    let least = match best(answer).is_some_and(|row| row.price.is_some()) {
        true => "cheapest",
        false => "least power",
    };
    let heads = headings(&[
        "drive, layout",
        "price",
        "power",
        "buy",
        "may fail",
        "for bytes",
        "redundant",
        "for time",
        "decides",
        "busy",
    ]);
    let number = |number: Option<u64>| number.map_or(NONE.to_string(), count);
    let does = answer.rows.iter().filter(|row| row.drives.is_some()).take(ROWS_MAX);
    let cells = |(at, row): (usize, &Row)| {
        let plus = |extra: usize, what: &str| match extra {
            0 => String::new(),
            extra => format!(" + {extra} {what}"),
        };
        let bought = format!(
            "{}{}{}",
            row.drives.unwrap_or(0),
            plus(row.cache_drives, "flash"),
            plus(row.spare_drives, "spare")
        );
        let sharing = if several { format!(", {}", row.sharing.name()) } else { String::new() };
        let cells = vec![
            format!("{}, {}{sharing}", name(&row.drive), row.layout.name()),
            money(row),
            watts(row),
            bought,
            row.survives.to_string(),
            number(row.drives_for_bytes),
            number(row.drives_for_redundancy.map(|drives| drives as u64)),
            number(row.drives_for_time.map(|drives| drives as u64)),
            row.binds.map_or(NONE, |binds| binds.name()).to_string(),
            row.utilisation.map_or(NONE.into(), percent),
        ];
        (Mark::best(least, at == 0), cells)
    };
    let all = answer.rows.iter().filter(|row| row.drives.is_some()).count();
    let more = match all.saturating_sub(ROWS_MAX) {
        0 => String::new(),
        more => format!("<p class=\"small\">{more} more in JSON.</p>"),
    };
    table(&heads, &does.enumerate().map(cells).collect::<Vec<_>>()) + &more
}

fn clients(answer: &Answer) -> String {
    let heads =
        headings(&["client", "requests", "data", "promise", "IOPS alone", "gets of the best"]);
    let gets = |need: &ClientNeed| {
        let of = best(answer)?.clients.iter().find(|of| of.client == need.client)?;
        Some(percent_found(of.in_time_fraction))
    };
    let cells = |need: &ClientNeed| {
        let promise = format!(
            "{}\u{a0}% within {}",
            significant(need.fraction * 100.0),
            bound(need.within_ms)
        );
        let cells = vec![
            name(&need.client),
            count(need.requests),
            bytes(need.bytes as f64),
            promise,
            need.capacity_iops.map_or(NONE.into(), count),
            gets(need).unwrap_or(NONE.into()),
        ];
        (Mark::Plain, cells)
    };
    table(&heads, &answer.clients.iter().take(ROWS_MAX).map(cells).collect::<Vec<_>>())
}

fn about() -> String {
    section(
        "How it is found",
        "<p>Every drive is simulated in every layout, from the least number on, until each client’s promise is kept: \
         no smaller number does. Data lie in stripes of 1&#160;MiB over all sets of drives; requests come as recorded, \
         faster by the growth. IOPS alone: what a server of constant rate needs that puts the rest aside.</p>",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;
    use crate::plan::buy::{By, Candidate, Layout, Prices, Promise, Question, Sharing, answer};
    use crate::plan::consolidate::Begin;
    use forebay_core::{Flags, Nanos, Op};
    use forebay_trace::Record;

    fn found(within_ms: u64) -> Answer {
        let record = |number: u64| Record {
            at: Nanos::from_millis(number * 20),
            offset: (number % 50) << 20,
            latency: None,
            len: 4096,
            stream: 0,
            volume: (number % 2) as u32,
            op: Op::Read,
            flags: Flags::NONE,
        };
        let inputs = [Input::from_records((0..200).map(record).collect(), vec!["a".into()])];
        let open = |name: &str| Candidate::open(name).unwrap();
        let drives = [open("fixed:100"), open("990-pro"), open("hc550")];
        let question = Question {
            promise: Promise {
                within: Nanos::from_millis(within_ms),
                fraction: "0.99".parse().unwrap(),
            },
            own: &[],
            by: By::Volume,
            begin: Begin::Together,
            trust_times: true,
            growth: 1.0,
            spare: 0,
            survives: 0,
            drives: &drives,
            layouts: &[Layout::Single],
            flash: &open("d7-p5520"),
            scheduler: "mq-deadline",
            drives_max: 4,
            sharings: &[Sharing::Shared],
            prices: &Prices::default(),
        };
        answer(&inputs, &question, &mut crate::progress::unheard).unwrap()
    }

    #[test]
    fn the_page_is_whole_and_refers_to_nothing_outside() {
        for within_ms in [1, 12] {
            let mut answer = found(within_ms);
            let hostile = "<script>alert('\"&')</script>".to_string();
            answer.clients[0].client = hostile.clone();
            answer.refused.push(hostile.clone());
            for row in &mut answer.rows {
                (row.utilisation, row.mean_power_w) = (Some(f64::NAN), Some(f64::INFINITY));
                row.drive = hostile.clone();
            }
            let page = page(&answer);
            let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
            roxmltree::Document::parse_with_options(&page, options).unwrap();
            let figures = page.split("</style>").nth(1).unwrap();
            for wrong in ["<script", "http", "src=", "url(", "NaN", "inf\u{a0}"] {
                assert!(!figures.contains(wrong), "{wrong}");
            }
        }
    }

    #[test]
    fn it_says_what_to_buy_and_how_to_set_it_up_or_that_nothing_does() {
        let does = page(&found(12));
        assert!(does.contains("Buy 1 990-pro") && does.contains("class=\"best\""), "{does}");
        assert!(does.contains("[[export]]\nname = &quot;0&quot;"));
        let none = page(&Answer { rows: Vec::new(), configuration: None, ..found(12) });
        assert!(none.contains("Nothing does it") && !none.contains("[[export]]"));
    }
}
