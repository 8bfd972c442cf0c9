//! Tables on a terminal: a line under the header and no other, figures to the right and never parted from their units.

use std::fmt::{self, Display};

use comfy_table::{CellAlignment, ContentArrangement, Table};

/// One line below the header, and no other.
const LINES: &str = "     ─             ";
/// A blank that no cell is wrapped at.
const UNBROKEN: char = '\u{a0}';

/// What stands in one place of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    is_figure: bool,
}

impl Cell {
    /// Words.
    pub fn new(text: impl Display) -> Cell {
        Cell { text: text.to_string(), is_figure: false }
    }
}

/// A figure.
pub fn right(figure: impl Display) -> Cell {
    Cell { text: figure.to_string().replace(' ', &UNBROKEN.to_string()), is_figure: true }
}

impl<T: Display> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(text)
    }
}

/// A table; a column's head stands above its figures.
#[derive(Clone, Debug)]
pub struct Grid {
    columns: u16,
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// A table without rows, of at most so many columns of the terminal.
    pub fn new(columns: u16, heads: impl IntoIterator<Item = impl Display>) -> Grid {
        let heads = heads.into_iter().map(|head| head.to_string()).collect();
        Grid { columns, heads, rows: Vec::new() }
    }

    /// One more row.
    pub fn add_row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// A row for each.
    pub fn add_rows<C: Into<Cell>>(
        &mut self,
        rows: impl IntoIterator<Item = impl IntoIterator<Item = C>>,
    ) {
        rows.into_iter().for_each(|cells| self.add_row(cells));
    }

    /// Whether a column holds figures: the first row says it.
    fn holds_figures(&self, column: usize) -> bool {
        self.rows.first().and_then(|row| row.get(column)).is_some_and(|cell| cell.is_figure)
    }
}

impl Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let placed = |text: &str, is_figure: bool| {
            let place = if is_figure { CellAlignment::Right } else { CellAlignment::Left };
            comfy_table::Cell::new(text).set_alignment(place)
        };
        let mut table = Table::new();
        table.load_preset(LINES);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(self.columns);
        let heads = self.heads.iter().enumerate();
        table.set_header(heads.map(|(index, head)| placed(head, self.holds_figures(index))));
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| placed(&cell.text, cell.is_figure)));
        }
        f.write_str(&shown(&table.to_string()))
    }
}

/// What somebody reads of a table: blanks are blanks, and no line ends in them.
fn shown(text: &str) -> String {
    let text = text.replace(UNBROKEN, " ");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
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
    fn a_table_needs_no_rows_and_rows_no_columns() {
        assert!(Grid::new(40, ["a", "b"]).to_string().starts_with(" a  b\n───"));
        let mut grid = Grid::new(40, ["a", "b"]);
        grid.add_row(["1"]);
        assert_eq!(grid.to_string().lines().count(), 3);
    }
}
