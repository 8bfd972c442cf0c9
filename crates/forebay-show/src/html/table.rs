//! Builds HTML tables in the one style that all pages use.
//!
//! Invariants: each table has a caption, and headings for columns and rows. A table that is wider
//! than the page can be scrolled with the keyboard. The row that answers the page's question is
//! always marked in the same way.

use super::text::NONE;

/// The placeholder for a table's name. The code that places the table replaces it:
/// [`super::document::section`] by its title, or [`named`] by another name. Text from outside
/// cannot contain this character, because [`escape`] replaces it.
pub const UNNAMED: char = '\0';

/// Sets the name of all tables in `markup` to `title`, which must be markup that is safe in
/// attributes.
pub fn named(title: &str, markup: &str) -> String {
    markup.replace(UNNAMED, title)
}

/// How a row of a table is highlighted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The row is not highlighted.
    Plain,
    /// The row is highlighted as the answer. A badge after its name says why.
    Best(String),
    /// The row is not highlighted, but has a badge after its name.
    Badge(String),
}

/// A row of a table: its mark, and its cells as markup. The first cell is the row's name.
pub type TableRow = (Mark, Vec<String>);

/// Builds a table from headings and rows, which must be markup already. The table is still
/// [`UNNAMED`]. Columns of figures are right-aligned. The first column, and columns with at least
/// as many words as figures, are left-aligned and may wrap.
pub fn table(headings: &[String], rows: &[TableRow]) -> String {
    let is_text: Vec<bool> =
        (0..headings.len()).map(|column| column == 0 || has_words(rows, column)).collect();
    let class = |column: usize| match is_text.get(column) {
        Some(true) => " class=\"words\"",
        Some(false) | None => "",
    };
    let head = |(column, head): (usize, &String)| {
        format!("<th scope=\"col\"{}>{head}</th>", class(column))
    };
    let heads: String = headings.iter().enumerate().map(head).collect();
    let mut body = String::new();
    for (mark, cells) in rows {
        let (row, badge) = match mark {
            Mark::Plain => ("<tr>", String::new()),
            Mark::Best(why) => ("<tr class=\"best\">", badge(why)),
            Mark::Badge(why) => ("<tr>", badge(why)),
        };
        body.push_str(row);
        for (column, cell) in cells.iter().enumerate() {
            body.push_str(&match column {
                0 => format!("<th scope=\"row\" class=\"words\">{cell}{badge}</th>"),
                _ => format!("<td{}>{cell}</td>", class(column)),
            });
        }
        body.push_str("</tr>\n");
    }
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{UNNAMED}\"><table><caption>{UNNAMED}</caption>\
         <thead><tr>{heads}</tr></thead><tbody>\n{body}</tbody></table></div>"
    )
}

fn badge(why: &str) -> String {
    format!(" <span class=\"badge\">{why}</span>")
}

/// Texts that may take the place of a figure, and count neither as words nor as figures.
const NO_FIGURES: [&str; 4] = [NONE, "baseline", "none", "same"];

/// Returns whether at least half of a column's cells start with a word, and not with a figure.
fn has_words(rows: &[TableRow], column: usize) -> bool {
    let cells = rows.iter().filter_map(|(_, cells)| cells.get(column)).map(|cell| read(cell));
    let begins = cells.filter(|cell| !NO_FIGURES.contains(&cell.as_str()));
    let begins: Vec<char> = begins.filter_map(|cell| cell.chars().next()).collect();
    let words = begins.iter().filter(|first| first.is_alphabetic()).count();
    words > 0 && words * 2 >= begins.len()
}

/// Returns the text of markup, without its tags.
fn read(markup: &str) -> String {
    let mut is_tag = false;
    let mut is_read = |character: char| match character {
        '<' | '>' => {
            is_tag = character == '<';
            false
        }
        _ => !is_tag,
    };
    markup.chars().filter(|&character| is_read(character)).collect::<String>().trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: &[[&str; 4]]) -> Vec<TableRow> {
        let row = |cells: &[&str; 4]| (Mark::Plain, cells.map(String::from).to_vec());
        cells.iter().map(row).collect()
    }

    #[test]
    fn figures_stand_right_and_words_left() {
        let rows = rows(&[
            ["1 a", "nothing", "410\u{a0}s", "<span class=\"x\">baseline</span>"],
            ["2 b", "6\u{a0}MiB of flash", NONE, "<span class=\"x\">−5\u{a0}%</span>"],
            ["3 c", "queue", "none", "baseline"],
            ["4 d", "7\u{a0}GiB of flash", "3\u{a0}s", NONE],
        ]);
        let columns: Vec<bool> = (0..4).map(|column| has_words(&rows, column)).collect();
        // A column with as many words as figures counts as words. Texts that take the place of a
        // figure count as neither.
        assert_eq!(columns, [false, true, false, false]);
        let table = table(&["", "needs", "time", "less"].map(String::from), &rows);
        assert!(
            table.contains(
                "<th scope=\"col\" class=\"words\">needs</th><th scope=\"col\">time</th>"
            )
        );
        assert!(table.contains(
            "<th scope=\"row\" class=\"words\">1 a</th><td class=\"words\">nothing</td><td>410"
        ));
        assert!(!has_words(&[], 0) && !has_words(&rows, 9));
    }

    #[test]
    fn the_answer_stands_out_and_says_why() {
        let row = |mark: Mark| (mark, vec!["<i>a</i>".to_string(), "1".into()]);
        let rows = [Mark::Best("least".into()), Mark::Plain, Mark::Badge("today".into())];
        let table = table(&["a", "b"].map(String::from), &rows.map(row));
        let shown: Vec<&str> = table.lines().filter(|line| line.starts_with("<tr")).collect();
        assert!(shown[0].starts_with("<tr class=\"best\">"), "{table}");
        assert!(shown[0].contains("</i> <span class=\"badge\">least</span></th>"), "{table}");
        assert!(shown[1].starts_with("<tr><th") && !shown[1].contains("badge"));
        assert!(shown[2].starts_with("<tr><th") && shown[2].contains(">today</span></th>"));
    }
}
