//! Tables of typed cells, and the texts that all renderers print of them.

use crate::figure::{Figure, Unit};
use crate::quantities::NONE;

/// A table: columns, and rows of cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// From the left.
    pub columns: Vec<Column>,
    /// From the top; each has a cell for each column, or fewer.
    pub rows: Vec<Row>,
}

/// A column. Its figures share one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The heading. Renderers add the unit.
    pub head: String,
    /// The unit of its figures. It has no effect on words.
    pub unit: Unit,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Whether it stands out.
    pub mark: RowMark,
    /// The first one names the row.
    pub cells: Vec<Cell>,
}

/// How a row is highlighted.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RowMark {
    /// Nothing.
    #[default]
    Plain,
    /// It is what the page answers with; a word says why.
    Best(String),
    /// A word behind its name.
    Badge(String),
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// No value.
    #[default]
    Missing,
    /// Words.
    Words(String),
    /// A value in the column's unit.
    Value(f64),
    /// A value in the column's unit, and the interval that it lies in.
    Interval {
        /// The value.
        value: f64,
        /// The interval's lower end.
        low: f64,
        /// Its upper end.
        high: f64,
    },
    /// A figure with a unit of its own, where rows differ in what they count.
    Figure(Figure),
    /// A value that is within its limit, or not.
    Judged {
        /// The text of the value.
        words: String,
        /// Whether it is within its limit.
        is_good: bool,
    },
}

impl Column {
    /// A column of words.
    pub fn words(head: impl Into<String>) -> Column {
        Column { head: head.into(), unit: Unit::Number }
    }

    /// A column of figures in `unit`.
    pub fn of(head: impl Into<String>, unit: Unit) -> Column {
        Column { head: head.into(), unit }
    }
}

impl Row {
    /// A row like any other.
    pub fn new(cells: impl IntoIterator<Item = Cell>) -> Row {
        Row { mark: RowMark::Plain, cells: cells.into_iter().collect() }
    }
}

impl Cell {
    /// `words` about something that is within its limit, or is not.
    pub fn judged(words: impl Into<String>, is_good: bool) -> Cell {
        Cell::Judged { words: words.into(), is_good }
    }

    /// A value that may not exist.
    pub fn value(value: Option<f64>) -> Cell {
        value.map_or(Cell::Missing, Cell::Value)
    }
}

impl From<&str> for Cell {
    fn from(words: &str) -> Cell {
        Cell::Words(words.to_string())
    }
}

impl From<String> for Cell {
    fn from(words: String) -> Cell {
        Cell::Words(words)
    }
}

impl From<Figure> for Cell {
    fn from(figure: Figure) -> Cell {
        Cell::Figure(figure)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell::Value(value)
    }
}

/// A cell as it is printed.
#[derive(Clone, Debug, PartialEq)]
pub struct CellText {
    /// The text of the cell.
    pub text: String,
    /// The interval's ends, where there is one.
    pub interval: Option<(String, String)>,
    /// Whether it is a figure, which stands right.
    pub is_figure: bool,
    /// Whether it is within its limit, where it has one.
    pub is_good: Option<bool>,
}

impl CellText {
    /// In one line: the value and its interval.
    pub fn line(&self) -> String {
        match &self.interval {
            Some((low, high)) => format!("{} ({low} - {high})", self.text),
            None => self.text.clone(),
        }
    }
}

/// A table as it is printed: heads with units, and the texts of all cells.
#[derive(Clone, Debug, PartialEq)]
pub struct TableText {
    /// Heads with units.
    pub heads: Vec<String>,
    /// Cells by row.
    pub rows: Vec<Vec<CellText>>,
    /// Whether a column holds figures.
    pub are_figures: Vec<bool>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// The texts to print.
    pub fn text(&self) -> TableText {
        let scales: Vec<(f64, &str)> =
            (0..self.columns.len()).map(|column| self.scale(column)).collect();
        let head = |(column, scale): (&Column, &(f64, &str))| match scale.1 {
            "" => column.head.clone(),
            unit if column.head.is_empty() => unit.to_string(),
            unit => format!("{}, {unit}", column.head),
        };
        let heads = self.columns.iter().zip(&scales).map(head).collect();
        let rows: Vec<Vec<CellText>> =
            self.rows.iter().map(|row| self.cells(row, &scales)).collect();
        let is_figure = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
            let mut cells = cells.filter(|cell| **cell != Cell::Missing).peekable();
            cells.peek().is_some() && !cells.any(|cell| matches!(cell, Cell::Words(_)))
        };
        let are_figures = (0..self.columns.len()).map(is_figure).collect();
        TableText { heads, rows, are_figures }
    }

    fn cells(&self, row: &Row, scales: &[(f64, &str)]) -> Vec<CellText> {
        let text = |(cell, (column, scale)): (&Cell, (&Column, &(f64, &str)))| {
            let written = |value: f64| column.unit.in_column(value, scale.0);
            let (text, interval) = match cell {
                Cell::Missing => (NONE.to_string(), None),
                Cell::Words(words) => (words.clone(), None),
                Cell::Value(value) => (written(*value), None),
                Cell::Interval { value, low, high } => {
                    (written(*value), Some((written(*low), written(*high))))
                }
                Cell::Figure(figure) => (figure.text(), None),
                Cell::Judged { words, .. } => (words.clone(), None),
            };
            let is_figure = !matches!(cell, Cell::Words(_));
            let is_good = match cell {
                Cell::Judged { is_good, .. } => Some(*is_good),
                _ => None,
            };
            CellText { text, interval, is_figure, is_good }
        };
        row.cells.iter().zip(self.columns.iter().zip(scales)).map(text).collect()
    }

    /// The factor that the values of a column are divided by, and the resulting unit.
    fn scale(&self, column: usize) -> (f64, &'static str) {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
        let values: Vec<f64> = cells
            .filter_map(|cell| match cell {
                Cell::Value(value) | Cell::Interval { value, .. } => Some(*value),
                _ => None,
            })
            .collect();
        match values.is_empty() {
            true => (1.0, ""),
            false => self.columns[column].unit.of_column(&values),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_name_units_and_cells_do_not() {
        let mut table = Table::new([
            Column::words(""),
            Column::of("p99", Unit::Seconds),
            Column::of("IOPS", Unit::Count),
            Column::words("why"),
        ]);
        table.rows.push(Row::new(["a".into(), 0.0123.into(), 100.0.into(), "because".into()]));
        table.rows.push(Row::new([
            "b".into(),
            Cell::Missing,
            Cell::Interval { value: 120.0, low: 110.0, high: 130.0 },
        ]));
        let text = table.text();
        assert_eq!(text.heads, ["", "p99, ms", "IOPS", "why"]);
        assert_eq!(text.are_figures, [false, true, true, false]);
        let lines: Vec<Vec<String>> =
            text.rows.iter().map(|row| row.iter().map(CellText::line).collect()).collect();
        assert_eq!(lines[0], ["a", "12.3", "100", "because"]);
        assert_eq!(lines[1], ["b", "-", "120 (110 - 130)"]);
        let mut table = Table::new([Column::words("")]);
        table.rows.push(Row::new([Cell::judged("+5 %", false)]));
        let cell = &table.text().rows[0][0];
        assert_eq!((cell.line().as_str(), cell.is_good), ("+5 %", Some(false)));
    }
}
