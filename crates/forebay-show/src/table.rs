//! Tables of typed cells, and the texts that all renderers print for them.

use crate::{Figure, Unit};
use forebay_words::quantities::NONE;

/// A table with typed cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns of the table, from the left.
    pub columns: Vec<Column>,
    /// The rows of the table, from the top. A row may have fewer cells than there are columns.
    pub rows: Vec<Row>,
}

/// A column of a table. All its figures have one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The heading of the column. Renderers add the unit.
    pub head: String,
    /// The unit of the column's figures; irrelevant for words.
    pub unit: Unit,
    /// Whether the column's figures have the unit of the column before it, so that the two can be
    /// compared at a glance.
    pub is_joined: bool,
}

/// A row of a table, which may be highlighted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// How the row is highlighted.
    pub mark: RowMark,
    /// The cells of the row. The first one is its name.
    pub cells: Vec<Cell>,
}

/// How a row of a table is highlighted.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RowMark {
    /// The row is not highlighted.
    #[default]
    Plain,
    /// The row is highlighted as the answer. A word after its name says why.
    Best(String),
    /// The row is not highlighted, but has a word after its name.
    Badge(String),
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// A cell without a value.
    #[default]
    Missing,
    /// A cell of words.
    Words(String),
    /// A value in the unit of its column.
    Value(f64),
    /// A value in the unit of its column, with an interval.
    Interval {
        /// The value itself.
        value: f64,
        /// The lower end of the interval.
        low: f64,
        /// The upper end of the interval.
        high: f64,
    },
    /// A figure with its own unit, for rows of different quantities.
    Figure(Figure),
    /// A figure that is printed in multiples of `worth`. The name of its row or table states that
    /// unit.
    Scaled {
        /// The figure in its base unit.
        figure: Figure,
        /// The size of the printed unit, in base units.
        worth: f64,
    },
    /// A value that is marked by whether it is within its limit.
    Judged {
        /// The value, formatted.
        words: String,
        /// Whether the value is within its limit.
        is_good: bool,
    },
}

/// A column, and the function that returns its cell for the item that a row shows.
pub type ColumnOf<'a, T> = (Column, &'a dyn Fn(&T) -> Cell);

impl Column {
    /// Creates a column of words.
    pub fn words(head: impl Into<String>) -> Column {
        Column::of(head, Unit::Number)
    }

    /// Creates a column of figures in `unit`.
    pub fn of(head: impl Into<String>, unit: Unit) -> Column {
        Column { head: head.into(), unit, is_joined: false }
    }

    /// Makes the column share the unit of the column before it.
    pub fn joined(self) -> Column {
        Column { is_joined: true, ..self }
    }
}

impl Row {
    /// Creates a row that is not highlighted.
    pub fn new(cells: impl IntoIterator<Item = Cell>) -> Row {
        Row { mark: RowMark::Plain, cells: cells.into_iter().collect() }
    }

    /// Creates a row of figures in one unit, with which the row's name ends: "read p99, ms". For
    /// tables with rows of different quantities.
    pub fn in_one_unit(name: &str, unit: Unit, values: &[Option<f64>]) -> Row {
        let known: Vec<f64> = values.iter().copied().flatten().collect();
        let (worth, suffix) = unit.of_row(&known);
        let head = if suffix.is_empty() { name.to_string() } else { format!("{name}, {suffix}") };
        let cell = |value: &Option<f64>| match value {
            None => Cell::Missing,
            Some(value) if unit == Unit::Count => Figure::new(*value, unit).into(),
            Some(value) => Cell::Scaled { figure: Figure::new(*value, unit), worth },
        };
        Row::new([head.into()].into_iter().chain(values.iter().map(cell)))
    }
}

impl Cell {
    /// Creates a cell with a formatted value that is marked by whether it is within its limit.
    pub fn judged(words: impl Into<String>, is_good: bool) -> Cell {
        Cell::Judged { words: words.into(), is_good }
    }

    /// Creates a cell for a time in milliseconds, in a column of seconds.
    pub fn ms(ms: impl Into<Option<f64>>) -> Cell {
        Cell::value(ms.into().map(|ms| ms / 1e3))
    }

    /// Creates a cell for a value; if the value is missing, the cell is empty.
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

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Value(count as f64)
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Cell {
        Cell::value(value)
    }
}

/// A cell, formatted as text.
#[derive(Clone, Debug, PartialEq)]
pub struct CellText {
    /// The text of the cell.
    pub text: String,
    /// The ends of the cell's interval, if it has one.
    pub interval: Option<(String, String)>,
    /// Whether the cell is a figure, and therefore right-aligned.
    pub is_figure: bool,
    /// Whether the cell's value is within its limit; `None` if it has no limit.
    pub is_good: Option<bool>,
}

impl CellText {
    /// Formats the cell's value and its interval on one line.
    pub fn line(&self) -> String {
        match &self.interval {
            Some((low, high)) => format!("{} ({low} - {high})", self.text),
            None => self.text.clone(),
        }
    }
}

/// A table with all its cells formatted.
#[derive(Clone, Debug, PartialEq)]
pub struct TableText {
    /// The heads of the columns, with their units.
    pub heads: Vec<String>,
    /// The cells of each row.
    pub rows: Vec<Vec<CellText>>,
    /// For each column, whether it holds figures.
    pub are_figures: Vec<bool>,
}

impl Table {
    /// Creates an empty table.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Creates a table with a row for each of `things`. Every column comes with its cell in a row.
    pub fn listing<T>(things: impl IntoIterator<Item = T>, columns: &[ColumnOf<'_, T>]) -> Table {
        let row = |thing| Row::new(columns.iter().map(|(_, cell)| cell(&thing)));
        let rows = things.into_iter().map(row).collect();
        Table { columns: columns.iter().map(|(column, _)| column.clone()).collect(), rows }
    }

    /// Highlights the rows, from the first on.
    pub fn marked(mut self, marks: impl IntoIterator<Item = RowMark>) -> Table {
        self.rows.iter_mut().zip(marks).for_each(|(row, mark)| row.mark = mark);
        self
    }

    /// Formats all heads and cells of the table.
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
                Cell::Scaled { figure, worth } => {
                    (Figure::new(figure.value / worth, Unit::Number).text(), None)
                }
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

    /// Returns the columns that share a unit with `column`.
    fn joined(&self, column: usize) -> std::ops::Range<usize> {
        let is_joined = |at: &usize| self.columns.get(*at).is_some_and(|of| of.is_joined);
        let first = (0..=column).rev().find(|at| !is_joined(at)).unwrap_or(0);
        let end = (column + 1..).find(|at| !is_joined(at)).unwrap_or(column + 1);
        first..end
    }

    /// Returns the divisor for the values of a column, and the unit that results.
    fn scale(&self, column: usize) -> (f64, &'static str) {
        let joined = self.joined(column);
        let cells = self.rows.iter().flat_map(|row| {
            let end = joined.end.min(row.cells.len());
            row.cells.get(joined.start..end).unwrap_or_default()
        });
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
    fn joined_columns_share_a_unit() {
        let head = |after: Column| {
            let mut table = Table::new([Column::of("before", Unit::Seconds), after]);
            table.rows.push(Row::new([1.24.into(), 0.9.into()]));
            let text = table.text();
            (text.heads, text.rows[0][1].text.clone())
        };
        let after = Column::of("after", Unit::Seconds);
        let heads = |after: &str| vec!["before, s".to_string(), after.to_string()];
        assert_eq!(head(after.clone()), (heads("after, ms"), "900".into()));
        assert_eq!(head(after.joined()), (heads("after, s"), "0.900".into()));
    }

    #[test]
    fn a_row_in_one_unit_names_it() {
        let row = Row::in_one_unit("read p99", Unit::Seconds, &[Some(1.95), None, Some(0.976)]);
        let text = |row: Row| {
            let mut table = Table::new(["", "a", "b", "c"].map(Column::words));
            table.rows.push(row);
            table.text().rows[0].iter().map(CellText::line).collect::<Vec<_>>()
        };
        assert_eq!(text(row), ["read p99, s", "1.95", "-", "0.976"]);
        let row = Row::in_one_unit("late", Unit::Share, &[Some(0.397), Some(0.0401)]);
        assert_eq!(text(row), ["late, %", "39.7", "4.01"]);
        let row = Row::in_one_unit("I/Os", Unit::Count, &[Some(12345.0)]);
        assert_eq!(text(row), ["I/Os", "12345"]);
    }

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
