//! Tests the page of `advise`, whose answer must fit on one screen.

use forebay::advise::verb::AdviseAsk;
use forebay_show::page::{Block, Page, Place};
use forebay_show::terminal::{self, Extent};

use super::law::refused;
use super::{Traces, answered, first_table};

/// Returns the terms on the first screen, with their texts.
fn terms(page: &Page) -> Vec<(String, String)> {
    let first = page.sections.iter().filter(|section| section.place == Place::FirstScreen);
    let terms = first.flat_map(|section| &section.blocks).filter_map(|block| match block {
        Block::Terms(terms) => Some(terms.clone()),
        _ => None,
    });
    terms.flatten().collect()
}

fn has_commands(page: &Page) -> bool {
    let first = page.sections.iter().filter(|section| section.place == Place::FirstScreen);
    first.flat_map(|section| &section.blocks).any(|block| matches!(block, Block::Commands(_)))
}

/// Writes a trace of scattered reads in bursts of `burst`, one burst every `gap_ms`.
fn bursts(traces: &Traces, burst: u64, gap_ms: u64) -> String {
    let mut text = "time_us,op,offset,len\n".to_string();
    for n in 0..20 * burst {
        let offset = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (200 << 30) / 4096 * 4096;
        let at_us = n / burst * gap_ms * 1000 + n % burst * 37;
        text += &format!("{at_us},read,{offset},4096\n");
    }
    traces.file("bursts.csv", &text).display().to_string()
}

#[test]
fn an_overload_comes_first_with_a_device_that_would_keep_up() {
    let traces = Traces::new();
    let trace = bursts(&traces, 300, 1000);
    let given = [("trace", &trace[..]), ("device", "sata250")];
    let page = answered::<AdviseAsk>(&given).page;
    assert!(page.headline.starts_with("This disk cannot keep up: it needs "), "{}", page.headline);
    assert!(page.headline.contains(" such disks would"), "{}", page.headline);
    assert!(page.headline.ends_with(" would suffice."), "{}", page.headline);
    assert_eq!(page.verdict.words, "Overloaded");
    // Latencies that only measure a backlog are not shown.
    let heads: Vec<&str> = first_table(&page).columns.iter().map(|one| &one.head[..]).collect();
    assert_eq!(heads, ["", "done after"]);
}

#[test]
fn a_drive_is_chosen_that_keeps_up() {
    let traces = Traces::new();
    let device = |burst| {
        let trace = bursts(&traces, burst, 1000);
        let page = answered::<AdviseAsk>(&[("trace", &trace), ("prefer", "total")]).page;
        let is_behind = page.headline.contains("cannot keep up");
        let device = page.about.into_iter().find(|(term, _)| term == "Device").unwrap().1;
        (device, is_behind)
    };
    let (first, is_behind) = device(80);
    assert!(first.starts_with("sata250 (the smallest ") && !is_behind, "{first}");
    let (larger, is_behind) = device(300);
    assert!(larger.starts_with("exos-x18 (the smallest ") && !is_behind, "{larger}");
    assert!(
        larger.contains("holds the trace and keeps up with it (sata250 and st1000nm0011 do not)"),
        "{larger}"
    );
    let (nearest, _) = device(900);
    assert!(
        nearest.starts_with("exos-x18 (the closest of the general bundled drives, though it "),
        "{nearest}"
    );
}

#[test]
fn commands_are_shown_only_where_useful() {
    let traces = Traces::new();
    let trace = bursts(&traces, 100, 2000);
    let mut with_commands = 0;
    for current in ["none", "mq-deadline", "bfq", "clook"] {
        let given = [("trace", &trace[..]), ("device", "st1000nm0011:plain"), ("current", current)];
        let answered = answered::<AdviseAsk>(&given);
        let today = answered.data["today"]["policy"].as_str();
        with_commands += u32::from(today.is_some());
        assert!(!answered.page.headline.starts_with("Keep") || today.is_none(), "{current}");
        assert_ne!(today, Some(current));
        assert_eq!(has_commands(&answered.page), today.is_some());
        let does_nothing = terms(&answered.page).iter().any(|(term, _)| term == "Do now");
        assert_ne!(does_nothing, today.is_some());
        assert_eq!(answered.data["baseline"], current);
        let row = format!("now: {current}");
        assert_eq!(first_table(&answered.page).rows[0].cells[0], row.as_str().into());
    }
    assert!((1..4).contains(&with_commands), "{with_commands}");
}

/// The disk works off the burst in time, so the load does not count as one that it cannot keep up
/// with.
#[test]
fn a_burst_in_a_calm_trace_is_told_as_a_burst() {
    let traces = Traces::new();
    let mut text = "time_us,op,offset,len\n".to_string();
    for n in 0..1200u64 {
        let offset = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (200 << 30) / 4096 * 4096;
        text += &format!("{},read,{offset},4096\n", 1_000_000 + n * 37);
    }
    (0..600u64)
        .for_each(|n| text += &format!("{},read,{},4096\n", 20_000_003 + n * 150_007, n << 20));
    let trace = traces.file("burst.csv", &text).display().to_string();
    let page = answered::<AdviseAsk>(&[("trace", &trace), ("device", "sata250")]).page;
    assert!(page.headline.starts_with("In bursts this disk falls "), "{}", page.headline);
    assert!(page.headline.ends_with(" would suffice."), "{}", page.headline);
}

#[test]
fn a_lag_is_no_overload_where_requests_wait_for_answers() {
    let traces = Traces::new();
    let mut text = "time_us,op,offset,len,latency_us\n".to_string();
    for n in 0..600u64 {
        let offset = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (200 << 30) / 4096 * 4096;
        text += &format!("{},read,{offset},4096,200\n", n * 8003);
    }
    let trace = traces.file("waits.csv", &text).display().to_string();
    let given = [("trace", &trace[..]), ("device", "sata250"), ("replay", "dependent")];
    let page = answered::<AdviseAsk>(&given).page;
    assert!(!page.headline.contains("cannot keep up"), "{}", page.headline);
}

/// Writes a trace of `count` reads of 4 KiB, scattered over 200 GiB, that arrive `gap_us` apart.
fn scattered_reads(traces: &Traces, count: u64, gap_us: u64) -> String {
    let mut text = "time_us,op,offset,len\n".to_string();
    for n in 0..count {
        let offset = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (200 << 30) / 4096 * 4096;
        text += &format!("{},read,{offset},4096\n", n * gap_us);
    }
    traces.file("scattered.csv", &text).display().to_string()
}

#[test]
fn a_disk_that_barely_keeps_up_is_called_saturated() {
    let traces = Traces::new();
    let trace = scattered_reads(&traces, 3000, 16_000);
    let given = [("trace", &trace[..]), ("device", "sata250:plain"), ("current", "noop")];
    let answered = answered::<AdviseAsk>(&given);
    let (page, data) = (answered.page, answered.data);
    assert_eq!(data["is_saturated"], true, "{}", page.headline);
    assert!(page.headline.contains(" is nearly saturated, busy "), "{}", page.headline);
    assert_eq!(page.verdict.words, "Nearly saturated");
}

#[test]
fn an_idle_disk_is_busy_for_a_share_that_can_be_read() {
    let traces = Traces::new();
    let trace = scattered_reads(&traces, 300, 60_000_000);
    let page = answered::<AdviseAsk>(&[("trace", &trace), ("device", "sata250")]).page;
    assert!(page.headline.contains("busy less than 0.1 % of the time"), "{}", page.headline);
    let why = terms(&page).into_iter().find(|(term, _)| term == "Why").unwrap().1;
    assert!(why.starts_with("requests rarely overlap: "), "{why}");
}

#[test]
fn without_usable_times_the_answer_says_why_and_what_is_known_all_the_same() {
    let traces = Traces::new();
    let mut text = "at,op,offset,len\n".to_string();
    (0..3000u64).for_each(|n| text += &format!("{},read,{},4096\n", n / 100, n % 500 * 4096));
    let trace = traces.file("seconds.csv", &text).display().to_string();
    let given = [("trace", &trace[..]), ("columns", "at:s,op,offset,len:bytes,skip=1")];
    let page = answered::<AdviseAsk>(&given).page;
    assert_eq!(page.headline, "No advice: the trace's clock steps by 1 s, too coarse to replay.");
    let cache = terms(&page).into_iter().find(|(term, _)| term == "Cache").unwrap().1;
    assert!(cache.contains("an LRU cache of 1.95 MiB finds 83.3 % "), "{cache}");
}

#[test]
fn conflicting_inputs_are_rejected_by_name() {
    let traces = Traces::new();
    let trace = bursts(&traces, 30, 1500);
    for (name, text, said) in [
        ("current", "cache", "--current: got 'cache', expected a scheduler, one of noop"),
        ("current", "mq-deadlin", "did you mean mq-deadline?"),
        ("for", "5m", "--for: got a trace, "),
        ("fit_device", "true", "--fit-device: has an effect only with --device"),
    ] {
        let error = refused::<AdviseAsk>(&[("trace", &trace), (name, text)]);
        assert!(error.contains(said), "{error}");
    }
}

/// The volumes of a trace that names no submitters are its streams. This one has scattered reads on
/// one volume, and long sequential reads on another.
#[test]
fn volumes_that_disturb_each_other_are_named() {
    let traces = Traces::new();
    let mut rows: Vec<(u64, String)> = Vec::new();
    let mut add = |at_us: u64, disk: u64, offset: u64, len: u64| {
        let ticks = 128_166_372_000_000_000 + at_us * 10;
        rows.push((at_us, format!("{ticks},srv,{disk},Read,{offset},{len},60000\n")));
    };
    for n in 0..2000u64 {
        let offset = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (200 << 30) / 4096 * 4096;
        add(n * 30_000 + n * 7919 % 9000, 0, offset, 8192);
    }
    (0..3000u64).for_each(|n| add(n * 20_000, 1, n << 19, 1 << 19));
    rows.sort();
    let text: String = rows.into_iter().map(|(_, row)| row).collect();
    let trace = traces.file("srv.csv", &text).display().to_string();
    let found = answered::<AdviseAsk>(&[("trace", &trace[..]), ("device", "st1000nm0011")]);
    let first = &found.data["disturbances"][0];
    let [is, was] = ["p99_without_ms", "p99_ms"].map(|key| first[key].as_f64().unwrap());
    assert!(first["matters"] == true && is < 0.8 * was, "{first}");
    let screen = terminal::text(&found.page, 80, Extent::FirstScreen);
    assert!(screen.contains("srv.0") && screen.contains("srv.1"), "{screen}");
    assert!(screen.contains(" without it"), "{screen}");
    assert!(screen.lines().count() <= 24, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    // The page says the same.
    assert_eq!(found.page.verdict.words, "Streams disturb each other", "{screen}");
    let key = &found.page.key_figures[0];
    assert_eq!((key.figure.value, key.before.unwrap().value), (is / 1e3, was / 1e3));
}

/// A comment between two recordings over the same time is evidence that they should be separate.
#[test]
fn a_second_recording_after_a_comment_lowers_trust() {
    let traces = Traces::new();
    let row = |n: u64| format!("{},read,{},4096\n", n * 20_000, n * 7919 % 4099 * 4096);
    let run: String = (0..500).map(row).collect();
    let text = format!("time_us,op,offset,len\n{run}# second run\n{run}");
    let trace = traces.file("runs.csv", &text).display().to_string();
    let found = answered::<AdviseAsk>(&[("trace", &trace[..])]);
    let starts = found.data["description"]["run_starts"].as_array().unwrap();
    assert_eq!((starts.len(), &starts[0]["evidence"]), (1, &"comment".into()));
    assert_eq!((&starts[0]["request"], &starts[0]["is_appended"]), (&501.into(), &false.into()));
    let (_, trust) = terms(&found.page).into_iter().find(|(term, _)| term == "Trust").unwrap();
    assert!(
        trust.starts_with("Little: the clock goes back at request 501 of the file after a comment"),
        "{trust}"
    );
}
