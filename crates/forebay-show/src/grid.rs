//! Formats tables for a terminal, with a single line below the header and right-aligned figures.
//!
//! Words are wrapped, figures never. If not all columns fit side by side, the remaining ones follow
//! below, in further tables.

use std::fmt::{self, Display};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};

use crate::prose::{NO_BREAK, joined};

/// A comfy-table preset with a line below the header and no other lines.
const LINES: &str = "     ─             ";
/// The number of spaces between columns.
const APART: usize = 2;
/// The minimum width to which a column of words is wrapped.
const WORDS_LEAST: usize = 20;

/// The content of one cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    is_figure: bool,
}

impl Cell {
    /// Creates a cell of words.
    pub fn new(text: impl Display) -> Cell {
        Cell { text: joined(&text.to_string()), is_figure: false }
    }
}

/// Creates a cell with a figure.
pub fn right(figure: impl Display) -> Cell {
    Cell { text: figure.to_string(), is_figure: true }
}

impl<T: Display> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(text)
    }
}

/// A table for a terminal. Column heads are aligned like the cells below them.
#[derive(Clone, Debug)]
pub struct Grid {
    columns: u16,
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// Creates an empty table that is at most `columns` characters wide.
    pub fn new(columns: u16, heads: impl IntoIterator<Item = impl Display>) -> Grid {
        let heads = heads.into_iter().map(|head| head.to_string()).collect();
        Grid { columns, heads, rows: Vec::new() }
    }

    /// Adds a row of cells.
    pub fn add_row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Returns whether a column holds figures, judging by the first row.
    fn holds_figures(&self, column: usize) -> bool {
        self.rows.first().and_then(|row| row.get(column)).is_some_and(|cell| cell.is_figure)
    }

    /// Returns the minimum width of a column: the width of its longest figure, or the width to
    /// which its words can be wrapped.
    fn least(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let texts =
            cells.map(|cell| cell.text.as_str()).chain(self.heads.get(column).map(String::as_str));
        let widest = texts.flat_map(str::lines).map(|line| line.chars().count()).max().unwrap_or(0);
        APART + if self.holds_figures(column) { widest } else { widest.min(WORDS_LEAST) }
    }

    /// Splits the columns into groups that fit side by side. Every group starts with the first
    /// column, which names the rows.
    fn parts(&self) -> Vec<Vec<usize>> {
        let is_figure = |column: &usize| self.holds_figures(*column);
        let first = (0..self.heads.len()).find(is_figure).unwrap_or(self.heads.len());
        let names: Vec<usize> = (0..first).collect();
        let width =
            |columns: &[usize]| columns.iter().map(|column| self.least(*column)).sum::<usize>();
        let mut parts = vec![names.clone()];
        for column in first..self.heads.len() {
            let last = parts.last_mut().expect("one part from the start");
            if last.len() > first && width(last) + self.least(column) > usize::from(self.columns) {
                parts.push(names.iter().copied().chain([column]).collect());
            } else {
                last.push(column);
            }
        }
        parts
    }

    /// Formats a group of columns as a table.
    fn part(&self, columns: &[usize]) -> String {
        let placed = |text: &str, is_figure: bool| {
            let place = if is_figure { CellAlignment::Right } else { CellAlignment::Left };
            comfy_table::Cell::new(text).set_alignment(place)
        };
        let mut table = Table::new();
        table.load_preset(LINES);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(self.columns);
        let head = |column: &usize| placed(&self.heads[*column], self.holds_figures(*column));
        table.set_header(columns.iter().map(head));
        for row in &self.rows {
            let cells = columns.iter().filter_map(|column| row.get(*column));
            table.add_row(cells.map(|cell| placed(&cell.text, cell.is_figure)));
        }
        for (column, drawn) in columns.iter().zip(table.column_iter_mut()) {
            if self.holds_figures(*column) && self.least(*column) < usize::from(self.columns) {
                drawn.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        let text = table.to_string().replace(NO_BREAK, " ");
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

impl Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.parts().iter().map(|columns| self.part(columns)).collect();
        f.write_str(&parts.join("\n\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_figures_are_not() {
        let mut grid = Grid::new(24, ["what it is called", "size"]);
        grid.add_row([Cell::new("some long name"), right("1.24 MiB")]);
        grid.add_row([Cell::new("x"), right("8 B")]);
        let text = grid.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 24), "{text}");
        assert!(lines.iter().any(|line| line.ends_with("  1.24 MiB")), "{text}");
        assert!(lines.iter().any(|line| line.ends_with("      size")), "{text}");
        assert!(lines.iter().any(|line| line.ends_with("       8 B")), "{text}");
        assert!(lines.len() > 4 && lines.iter().any(|line| line.starts_with("───")), "{text}");
        assert!(lines.iter().all(|line| line.trim_end() == *line), "{text:?}");
    }

    #[test]
    fn a_table_too_wide_goes_on_below() {
        let table = |columns| {
            let mut grid = Grid::new(columns, ["", "a", "b", "c"]);
            grid.add_row([
                Cell::new("some words"),
                right("1.24 MiB"),
                right("12.3 MB/s"),
                right("9 B"),
            ]);
            grid.to_string()
        };
        // The widths add up to 12 + 10 + 11 + 5 = 38.
        assert!(table(38).contains("some words  1.24 MiB  12.3 MB/s  9 B"), "{}", table(38));
        let parts = |columns| -> Vec<usize> {
            let text = table(columns);
            assert!(
                text.lines().all(|line| line.chars().count() <= usize::from(columns)),
                "{text}"
            );
            for figure in ["1.24 MiB", "12.3 MB/s", "9 B"] {
                assert_eq!(text.matches(figure).count(), 1, "{text}");
            }
            text.split("\n\n").map(|part| part.lines().count()).collect()
        };
        assert_eq!((parts(38), parts(37), parts(30)), (vec![3], vec![3, 3], vec![3, 3]));
        assert_eq!(parts(22).len(), 3);
    }

    #[test]
    fn no_line_ends_between_a_figure_and_its_unit() {
        let mut grid = Grid::new(12, ["what"]);
        grid.add_row(["it takes 15 ms now"]);
        assert!(grid.to_string().ends_with(" it takes\n 15 ms now"), "{grid}");
    }

    #[test]
    fn a_table_needs_no_rows_and_rows_no_columns() {
        assert!(Grid::new(40, ["a", "b"]).to_string().starts_with(" a  b\n───"));
        let mut grid = Grid::new(40, ["a", "b"]);
        grid.add_row(["1"]);
        assert_eq!(grid.to_string().lines().count(), 3);
    }
}
