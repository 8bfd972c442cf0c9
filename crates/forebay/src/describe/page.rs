//! The report page of `describe`.

use std::cmp::Reverse;
use std::path::Path;

use forebay_show::html::paragraphs::page_title;
use forebay_show::{
    Block, Cell, Column, Figure, KeyFigure, Page, Place, Row, Table, Tone, Unit, Verdict,
};
use forebay_trace::describe::description::{Latency, Sizes, VolumeRow};
use forebay_trace::describe::{Description, printable};
use forebay_words::plural::{counted, listed};

use super::oddities::oddities;
use super::threads;
use crate::quantities::{bytes, lasting, percent, seconds, significant};

pub(super) fn page(trace: &Path, of: &Description) -> Page {
    let trace = trace.display().to_string();
    let mut page = Page {
        title: page_title("Description", &[&trace]),
        verdict: Verdict::new(Tone::Calm, "Description"),
        headline: headline(of),
        about: vec![
            ("Trace".into(), format!("{trace} ({})", of.format)),
            ("Load".into(), load(of)),
            ("From".into(), submitters(of)),
        ],
        key_figures: key_figures(of),
        ..Page::default()
    };
    // If the user asked for threads, their table takes the place of this one on the first screen.
    let place = if of.by_thread.is_some() { Place::Detail } else { Place::FirstScreen };
    if let Some(threads) = &of.by_thread {
        threads::add(&mut page, threads);
    }
    page.add("Reads and writes", place, vec![Block::Table(directions(of))]);
    page.add("Who submits them", place, busiest(of).map(Block::Table).into_iter().collect());
    page.add_notes("Noteworthy", place, oddities(of));
    page.add("Order", Place::Detail, vec![Block::Table(order(of))]);
    page.add("Bursts", Place::Detail, vec![Block::Table(scales(of)), Block::Text(BURSTS.into())]);
    page.add("Sizes and latencies", Place::Detail, vec![Block::Table(distributions(of))]);
    page.add("Load", Place::Detail, vec![Block::Text(load(of)), Block::Table(all(of))]);
    page.add("Streams", Place::Detail, streams(of));
    if of.by_volume.len() > 1 {
        page.add("Volumes", Place::Detail, vec![Block::Table(volumes(of))]);
    }
    page.add_notes("Keep in mind", Place::Detail, losses(of));
    page
}

const BURSTS: &str = "A variance far above the mean indicates that the load arrives in bursts.";

fn headline(of: &Description) -> String {
    if let Some(others) = others_alone(of) {
        return others;
    }
    let reads = Figure::new(of.reads as f64 / of.requests.max(1) as f64, Unit::Share);
    let rate = of.mean_iops.zip(of.mean_bytes_per_s);
    let load = match rate {
        Some((iops, rate)) => format!(
            "{} requests per second for {}, {}",
            significant(iops),
            lasting(of.duration_s, of.without_gaps_s),
            Figure::new(rate, Unit::ByteRate).text()
        ),
        None => format!(
            "{} of {}",
            counted(of.requests, "request"),
            bytes((of.read_bytes + of.write_bytes) as f64)
        ),
    };
    // A gap makes the sentence so long that there is no room for the order.
    let has_room = of.without_gaps_s.is_none();
    let order = of.sequential_share.zip(of.sequential_share_by_stream).filter(|_| has_room);
    let order = order.map_or(String::new(), |(disk, stream)| {
        format!("; {} sequential on the disk, {} within streams", percent(disk), percent(stream))
    });
    format!("{load}; {} reads{order}.", percent(reads.value))
}

/// Names the operations of a trace that has no reads and writes; `None` if it has any.
fn others_alone(of: &Description) -> Option<String> {
    let counts = [(of.flushes, "flush"), (of.trims, "trim")];
    let others = counts.into_iter().filter(|(count, _)| *count > 0 && of.requests == 0);
    let others: Vec<String> = others.map(|(count, name)| counted(count, name)).collect();
    let lasts = seconds(of.duration_s);
    (!others.is_empty())
        .then(|| format!("No reads or writes, only {} in {lasts}.", listed(&others)))
}

fn load(of: &Description) -> String {
    // Flushes attached to another request have no record of their own, so they are not in this
    // number.
    let alone = of.records.saturating_sub(of.requests + of.trims);
    let flushes = match of.flushes {
        0 => String::new(),
        all if alone < all => format!(", {} ({alone} on their own)", counted(all, "flush")),
        all => format!(", {}", counted(all, "flush")),
    };
    let trims =
        if of.trims > 0 { format!(", {}", counted(of.trims, "trim")) } else { String::new() };
    let requests = counted(of.requests, "request");
    format!("{requests} in {}{flushes}{trims}", seconds(of.duration_s))
}

fn submitters(of: &Description) -> String {
    let counts = [(of.threads, "thread"), (of.processes, "process"), (of.volumes, "volume")];
    let recorded = counts.into_iter().filter(|(count, _)| *count > 0);
    let recorded: String =
        recorded.map(|(count, name)| format!(", {}", counted(count, name))).collect();
    format!("{} by {}{recorded}", counted(of.streams, "stream"), of.stream_by)
}

fn key_figures(of: &Description) -> Vec<KeyFigure> {
    let figure = |name: &str, value: f64, unit: Unit| KeyFigure {
        name: name.into(),
        before: None,
        figure: Figure::new(value, unit),
    };
    let touched = figure("footprint", of.footprint_bytes as f64, Unit::Bytes);
    let submitters = match has_volumes_alone(of) {
        true => figure("volumes", of.volumes as f64, Unit::Count),
        false => figure("streams", of.streams as f64, Unit::Count),
    };
    let outstanding = of.concurrency.mean_outstanding;
    let outstanding = outstanding.map(|mean| figure("mean outstanding", mean, Unit::Number));
    [touched, submitters].into_iter().chain(outstanding).collect()
}

/// Converts a size from KiB to a cell in bytes.
fn size(kib: Option<f64>) -> Cell {
    Cell::value(kib.map(|kib| kib * 1024.0))
}

type Direction<'a> = (&'static str, u64, u64, &'a Sizes, &'a Latency);

fn both(of: &Description) -> [Direction<'_>; 2] {
    [
        ("reads", of.reads, of.read_bytes, &of.read_size, &of.read_latency),
        ("writes", of.writes, of.write_bytes, &of.write_size, &of.write_latency),
    ]
}

fn directions(of: &Description) -> Table {
    Table::listing(
        both(of),
        &[
            (Column::words(""), &|(name, ..)| (*name).into()),
            (Column::of("requests", Unit::Count), &|(_, requests, ..)| (*requests).into()),
            (Column::of("total", Unit::Bytes), &|(_, _, total, ..)| (*total).into()),
            (Column::of("mean size", Unit::Bytes), &|(.., sizes, _)| size(sizes.mean_kib)),
            (Column::of("mean latency", Unit::Seconds), &|(.., of)| Cell::ms(of.mean_ms)),
            (Column::of("p99", Unit::Seconds).joined(), &|(.., of)| Cell::ms(of.p99_ms)),
        ],
    )
}

fn distributions(of: &Description) -> Table {
    Table::listing(
        both(of),
        &[
            (Column::words(""), &|(name, ..)| (*name).into()),
            (Column::of("mean size", Unit::Bytes), &|(.., sizes, _)| size(sizes.mean_kib)),
            (Column::of("p50", Unit::Bytes), &|(.., sizes, _)| size(sizes.p50_kib)),
            (Column::of("p90", Unit::Bytes), &|(.., sizes, _)| size(sizes.p90_kib)),
            (Column::of("p99", Unit::Bytes), &|(.., sizes, _)| size(sizes.p99_kib)),
            (Column::of("largest", Unit::Bytes), &|(.., sizes, _)| size(sizes.max_kib)),
            (Column::of("mean latency", Unit::Seconds), &|(.., of)| Cell::ms(of.mean_ms)),
            (Column::of("p50 latency", Unit::Seconds).joined(), &|(.., of)| Cell::ms(of.p50_ms)),
            (Column::of("p99 latency", Unit::Seconds).joined(), &|(.., of)| Cell::ms(of.p99_ms)),
            (Column::of("with a latency", Unit::Share), &|(.., of)| of.measured_share.into()),
        ],
    )
}

/// The maximum number of submitters on the first screen.
const BUSIEST_MAX: usize = 4;

/// Returns whether the trace has several volumes but only one stream.
fn has_volumes_alone(of: &Description) -> bool {
    of.streams <= 1 && of.volumes > 1
}

/// Builds the table of the streams that transfer most bytes, or of volumes if there is only one
/// stream.
fn busiest(of: &Description) -> Option<Table> {
    let mut table = Table::new([
        Column::words("busiest"),
        Column::of("of I/Os", Unit::Share),
        Column::of("of bytes", Unit::Share),
        Column::of("read", Unit::Bytes),
        Column::of("written", Unit::Bytes),
        Column::of("sequential", Unit::Share),
    ]);
    let shown = |label: &str, shares: [Option<f64>; 2], bytes: [u64; 2], sequential| {
        let cells = [Cell::value(shares[0]), Cell::value(shares[1])];
        let [read, written] = bytes.map(|bytes| Cell::from(bytes as f64));
        let last = [read, written, Cell::value(sequential)];
        Row::new([printable(label).into()].into_iter().chain(cells).chain(last))
    };
    if has_volumes_alone(of) {
        let moved = |row: &VolumeRow| row.read_bytes + row.write_bytes;
        let mut rows: Vec<&VolumeRow> = of.by_volume.iter().collect();
        rows.sort_by_key(|row| Reverse(moved(row)));
        let all = (of.read_bytes + of.write_bytes).max(1) as f64;
        table.rows.extend(rows.into_iter().take(BUSIEST_MAX).map(|row| {
            let shares = [row.request_share, Some(moved(row) as f64 / all)];
            shown(&row.label, shares, [row.read_bytes, row.write_bytes], row.sequential_share)
        }));
        return Some(table);
    }
    table.rows.extend(of.by_stream.rows.iter().take(BUSIEST_MAX).map(|row| {
        let shares = [row.request_share, row.byte_share];
        shown(&row.label, shares, [row.read_bytes, row.write_bytes], row.sequential_share)
    }));
    (of.streams > 1).then_some(table)
}

fn order(of: &Description) -> Table {
    let mut table = Table::new([
        Column::words("one after another"),
        Column::of("sequential", Unit::Share),
        Column::of("mean requests in a row", Unit::Number),
    ]);
    for (name, share, in_a_row) in [
        ("on the disk", of.sequential_share, of.runs.mean_requests),
        ("within streams", of.sequential_share_by_stream, of.stream_runs.mean_requests),
        ("within threads", of.sequential_share_by_thread, None),
    ] {
        table.rows.push(Row::new([name.into(), Cell::value(share), Cell::value(in_a_row)]));
    }
    table
}

/// Builds the table of arrivals in bins, with one row per bin length.
fn scales(of: &Description) -> Table {
    let scale = |ms: u64| match ms {
        ms if ms < 1000 => format!("{ms} ms"),
        ms => format!("{} s", ms / 1000),
    };
    let mut table = Table::new([
        Column::words("arrivals in"),
        Column::of("mean requests", Unit::Number),
        Column::of("peak IOPS", Unit::Number),
        Column::of("variance / mean", Unit::Number),
    ]);
    for bins in &of.arrivals {
        let figures = [bins.mean_requests, bins.peak_iops, bins.dispersion].map(Cell::value);
        table.rows.push(Row::new([scale(bins.bin_ms).into()].into_iter().chain(figures)));
    }
    table
}

/// Builds the table of figures about the whole trace that appear in no other table.
pub(crate) fn all(of: &Description) -> Table {
    let mut table = Table::new([Column::words("figure"), Column::words("value")]);
    let mut add = |name: &str, unit: Unit, value: Option<f64>| {
        table.rows.push(Row::in_one_unit(name, unit, &[value]));
    };
    let seconds = |ms: Option<f64>| ms.map(|ms| ms / 1e3);
    add("footprint", Unit::Bytes, Some(of.footprint_bytes as f64));
    if !of.footprint_exact {
        add("standard error of that", Unit::Share, Some(of.footprint_error_share));
    }
    add("jumps", Unit::Count, Some(of.seeks.count as f64));
    add("median jump", Unit::Bytes, of.seeks.p50_bytes.map(|bytes| bytes as f64));
    add("mean gap between arrivals", Unit::Seconds, seconds(of.inter_arrival.mean_ms));
    add("p99 of the gaps", Unit::Seconds, seconds(of.inter_arrival.p99_ms));
    add("coefficient of variation of the gaps", Unit::Number, of.inter_arrival.variation);
    add("mean outstanding", Unit::Number, of.concurrency.mean_outstanding);
    let most = of.concurrency.max_outstanding.map(|most| most as f64);
    add("most outstanding", Unit::Count, most);
    add("requests of at most 4 KiB", Unit::Share, of.small_request_share);
    add("bytes in requests of 256 KiB or more", Unit::Share, of.large_request_byte_share);
    add("written bytes from write-back", Unit::Share, of.write_back_share);
    table
}

fn streams(of: &Description) -> Vec<Block> {
    let table = Table::listing(
        of.by_stream.rows.iter().chain(&of.by_stream.other),
        &[
            (Column::words("stream"), &|row| printable(&row.label).into()),
            (Column::of("requests", Unit::Count), &|row| row.requests.into()),
            (Column::of("share", Unit::Share), &|row| row.request_share.into()),
            (Column::of("read", Unit::Bytes), &|row| row.read_bytes.into()),
            (Column::of("written", Unit::Bytes), &|row| row.write_bytes.into()),
            (Column::of("of all bytes", Unit::Share), &|row| row.byte_share.into()),
            (Column::of("mean size", Unit::Bytes), &|row| size(row.mean_kib)),
            (Column::of("sequential", Unit::Share), &|row| row.sequential_share.into()),
        ],
    );
    vec![Block::Text(format!("{}.", submitters(of))), Block::Table(table)]
}

fn volumes(of: &Description) -> Table {
    Table::listing(
        &of.by_volume,
        &[
            (Column::words("volume"), &|row| printable(&row.label).into()),
            (Column::of("requests", Unit::Count), &|row| row.requests.into()),
            (Column::of("share", Unit::Share), &|row| row.request_share.into()),
            (Column::of("read", Unit::Bytes), &|row| row.read_bytes.into()),
            (Column::of("written", Unit::Bytes), &|row| row.write_bytes.into()),
            (Column::of("touched", Unit::Bytes), &|row| row.footprint_bytes.into()),
            (Column::of("highest address", Unit::Bytes), &|row| row.extent_bytes.into()),
            (Column::of("mean size", Unit::Bytes), &|row| size(row.mean_kib)),
            (Column::of("sequential", Unit::Share), &|row| row.sequential_share.into()),
        ],
    )
}

/// Lists what was lost or changed while the trace was read.
fn losses(of: &Description) -> Vec<String> {
    let read = format!("rows skipped: {}; late rows moved: {}.", of.rows_skipped, of.rows_late);
    let is_something = of.rows_skipped + of.rows_late > 0;
    is_something.then_some(read).into_iter().chain(of.warnings.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use forebay_core::{Flags, Nanos, Op};
    use forebay_trace::Record;

    /// Describes requests that arrive each 10 ms, of the given operations.
    fn said(ops: &[Op], gap_s: u64) -> String {
        let at = |n: usize| n as u64 * 10 + if n < ops.len() / 2 { 0 } else { gap_s * 1000 };
        let record = |(n, op): (usize, &Op)| Record {
            at: Nanos::from_millis(at(n)),
            offset: n as u64 * 4096,
            latency: None,
            len: if *op == Op::Flush { 0 } else { 4096 },
            stream: 0,
            volume: 0,
            op: *op,
            flags: Flags::NONE,
        };
        let records = ops.iter().enumerate().map(record).collect();
        headline(&Input::from_records(records, vec!["a".into()]).description)
    }

    #[test]
    fn other_operations_alone_are_named() {
        let both: Vec<Op> = [[Op::Flush; 101], [Op::Trim; 101]].concat();
        assert_eq!(said(&both, 0), "No reads or writes, only 101 flushes and 101 trims in 2.01 s.");
        assert_eq!(said(&[Op::Trim; 101], 0), "No reads or writes, only 101 trims in 1.00 s.");
    }

    #[test]
    fn rates_leave_out_a_gap_that_is_nearly_the_whole_trace() {
        let found = said(&[Op::Read; 200], 10 * 365 * 86_400);
        let begins = "101 requests per second for 1.98 s, leaving out a gap of ";
        assert!(found.starts_with(begins), "{found}");
    }
}
