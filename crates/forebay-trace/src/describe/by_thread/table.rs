//! Threads as text: all of them, their types, then one by one.

use super::rows::{ByThread, Figures};
use crate::describe::table::{number, percent, printable, rate, row, size, time};
use forebay_show::grid::Grid;
use forebay_show::prose;
use forebay_show::quantities;

/// Letters that show activity.
const WIDTH: usize = 16;
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl ByThread {
    /// What threads ask for, and when; then what is needed to read both.
    pub(in crate::describe) fn table(&self, columns: u16) -> String {
        let mut what = Grid::new(
            columns,
            ["thread", "type", "weight", "IOPS", "rate", "mean size", "read:write"],
        );
        let mut when = Grid::new(
            columns,
            ["thread", "seq.", "gap", "by quarter, %", "latency", "fluct.", "activity"],
        );
        let mut line = |label: &str, of_type: &str, of: &Figures| {
            what.add_row(row(asked(label, of_type, of)));
            when.add_row(row(timed(label, of, self.all.activity_requests.len())));
        };
        line(&format!("all {}", self.threads), "", &self.all);
        for of in &self.types {
            let threads = if of.threads == 1 { "thread" } else { "threads" };
            let label = format!("{}: {} {threads}", of.label, of.threads);
            line(&label, &of.kind.words(), &of.figures);
        }
        for row in &self.rows {
            line(&printable(&row.label), &row.of_type, &row.figures);
        }
        if let Some(beyond) = &self.beyond {
            line(&format!("{} not followed", self.threads_beyond), "", beyond);
        }
        let hidden = match self.threads_hidden {
            0 => String::new(),
            hidden => format!("\n{hidden} more threads have no row: --limit, --all."),
        };
        let told = |text: &str| prose::wrapped(text, usize::from(columns));
        let asked = told("What threads ask for (weight: their share of the requests):");
        let come = told(&format!(
            "When, and where (seq.: sequential; gap: from one request to the next; quarters: of the space in use, one \
             volume after another; fluctuation and activity: in {} periods of {}):",
            self.periods,
            quantities::seconds(self.period_s),
        ));
        format!("{asked}\n\n{what}\n\n{come}\n\n{when}{hidden}")
    }
}

fn asked(label: &str, of_type: &str, of: &Figures) -> [String; 7] {
    [
        label.to_owned(),
        of_type.to_owned(),
        percent(of.weight_share),
        number(of.mean_iops),
        rate(of.mean_bytes_per_s),
        size(of.mean_kib),
        ratio(of),
    ]
}

fn timed(label: &str, of: &Figures, periods: usize) -> [String; 7] {
    [
        label.to_owned(),
        percent(of.sequential_share),
        time(of.inter_arrival_mean_ms),
        of.quarter_shares.map_or("-".to_owned(), quarters),
        time(of.latency_mean_ms),
        number(of.fluctuation),
        activity(&of.activity_requests, periods),
    ]
}

fn ratio(of: &Figures) -> String {
    match (of.reads, of.writes) {
        (0, _) => "0:1".to_owned(),
        (_, 0) => "1:0".to_owned(),
        (reads, writes) if reads < writes => {
            format!("1:{}", number(Some(writes as f64 / reads as f64)))
        }
        _ => format!("{}:1", number(of.read_write_ratio)),
    }
}

fn quarters(shares: [f64; 4]) -> String {
    shares.map(|share| format!("{:.0}", 100.0 * share)).join("/")
}

/// Requests of `periods` periods as heights, the tallest one full; nothing where there are none.
fn activity(counts: &[u64], periods: usize) -> String {
    let width = periods.min(WIDTH);
    let mut bars = vec![0u64; width];
    for (period, count) in counts.iter().enumerate() {
        bars[period * width / periods] += count;
    }
    let most = bars.iter().max().copied().unwrap_or(0).max(1);
    let height = |bar: u64| (u128::from(bar) * 8).div_ceil(u128::from(most)) as usize;
    bars.iter().map(|bar| height(*bar).checked_sub(1).map_or(' ', |at| HEIGHTS[at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_is_drawn_to_its_own_height() {
        assert_eq!(activity(&[0, 1, 4, 8], 5), " ▁▄█ ");
        let even = activity(&[3; 512], 512);
        assert_eq!(even, "█".repeat(16));
        assert_eq!((activity(&[], 0), activity(&[], 3)), (String::new(), "   ".to_owned()));
    }

    #[test]
    fn ratios_have_a_one() {
        let of = |reads: u64, writes: u64| {
            let read_write_ratio = Some(reads as f64 / writes as f64);
            ratio(&Figures { reads, writes, read_write_ratio, ..Figures::default() })
        };
        assert_eq!([of(3, 1), of(1, 3), of(0, 5), of(5, 0)], ["3.00:1", "1:3.00", "0:1", "1:0"]);
    }
}
