//! Compares the description of the Hadoop captures with the table of characteristics published with
//! them, which an independent script computed. Skipped if the captures are not available.

use std::path::Path;

use forebay_testing::recorded;
use forebay_trace::describe::{Describer, Description, Options};
use forebay_trace::open::open;

const CAPTURES: [&str; 5] = ["terasort", "wordcount", "grep", "randomtextwriter", "sample"];

fn describe(path: &Path) -> Description {
    let mut reader = open(path, None).unwrap();
    let mut describer = Describer::new(Options::default());
    let mut batch = Vec::new();
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            return describer.finish(reader.dictionary(), reader.notes());
        }
        describer.add(&batch, reader.dictionary());
    }
}

fn show(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |v| format!("{v:.digits$}"))
}

fn pair(a: Option<f64>, b: Option<f64>, digits: [usize; 2]) -> String {
    format!("{} / {}", show(a, digits[0]), show(b, digits[1]))
}

/// Returns the rows of the table for a description, with the same words and rounding.
fn rows(d: &Description) -> Vec<(&'static str, String)> {
    let percent = |share: Option<f64>| show(share.map(|s| 100.0 * s), 1);
    let bytes = (d.read_bytes + d.write_bytes) as f64;
    let (r, w) = (&d.read_size, &d.write_size);
    let latency = [d.read_latency.p50_ms, d.write_latency.p50_ms];
    let max_kib = r.max_kib.into_iter().chain(w.max_kib).reduce(f64::max);
    vec![
        ("duration s", show(Some(d.duration_s), 0)),
        ("requests", d.requests.to_string()),
        ("GB read", show(Some(d.read_bytes as f64 / 1e9), 2)),
        ("GB written", show(Some(d.write_bytes as f64 / 1e9), 2)),
        ("reads % of requests", percent(Some(d.reads as f64 / d.requests as f64))),
        ("reads % of bytes", percent(Some(d.read_bytes as f64 / bytes))),
        ("read KiB mean / median", pair(r.mean_kib, r.p50_kib, [0, 0])),
        ("write KiB mean / median", pair(w.mean_kib, w.p50_kib, [0, 0])),
        ("max KiB", show(max_kib, 0)),
        ("sequential % global", percent(d.sequential_share)),
        ("sequential % per pid", percent(d.sequential_share_by_thread)),
        ("seeks", d.seeks.count.to_string()),
        ("median seek MiB", show(d.seeks.p50_bytes.map(|b| b as f64 / 1_048_576.0), 0)),
        ("pids", d.threads.to_string()),
        ("tgids", d.processes.to_string()),
        ("% bytes in >= 256 KiB", percent(d.large_request_byte_share)),
        ("% requests <= 4 KiB", percent(d.small_request_share)),
        ("% written bytes by kworker", percent(d.write_back_share)),
        ("flushes", d.flushes.to_string()),
        ("median latency ms r / w", pair(latency[0], latency[1], [2, 1])),
    ]
}

/// Returns the cells of the row called `name`.
fn cells<'a>(readme: &'a str, name: &str) -> Vec<&'a str> {
    let line = readme.lines().find(|line| line.starts_with(&format!("| {name} |")));
    line.unwrap_or("").split('|').map(str::trim).skip(2).collect()
}

/// Returns whether the numbers in two cells differ by at most 0.1 %, the width of a latency's
/// bucket.
fn close(a: &str, b: &str) -> bool {
    let figures =
        |cell: &str| cell.split(" / ").map(|f| f.parse().ok()).collect::<Vec<Option<f64>>>();
    let (a, b) = (figures(a), figures(b));
    let near = |(a, b): (&Option<f64>, &Option<f64>)| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= a.abs() * 0.001,
        _ => a.is_none() && b.is_none(),
    };
    a.len() == b.len() && a.iter().zip(&b).all(near)
}

#[test]
fn captures_have_the_published_characteristics() {
    let Some(folder) = recorded("hadoop") else { return };
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for (column, capture) in CAPTURES.iter().enumerate() {
        let d = describe(&folder.join(format!("{capture}.parquet")));
        for (name, ours) in rows(&d) {
            let published = cells(&readme, name);
            let published = published.get(column).copied().unwrap_or("");
            let same = published == ours || name.contains("latency") && close(published, &ours);
            assert!(same, "{capture}: {name}: published {published}, ours {ours}");
        }
        assert_eq!((d.rows_skipped, d.rows_late), (0, 0), "{capture}");
    }
}

/// Checks figures that the table lacks. They were computed once from the columns with numpy.
#[test]
fn terasort_has_the_figures_numpy_gives() {
    let Some(folder) = recorded("hadoop") else { return };
    let d = describe(&folder.join("terasort.parquet"));
    assert_eq!(d.footprint_bytes, 13_313_564_672);
    assert!((d.inter_arrival.variation.unwrap() - 21.020_844_103_558).abs() < 1e-9);
    assert!((d.arrivals[1].mean_requests.unwrap() - 1.928_178_484_107_579_5).abs() < 1e-12);
    assert!((d.arrivals[1].dispersion.unwrap() - 16.846_323_550_023_556).abs() < 1e-9);
}
