//! A table: the one that every page has, in one style.
//!
//! Invariants: each has a caption and headings by column and row, scrolls by keys where it is wider than its page, and
//! marks the row that the page answers with in one way.

use super::text::{NONE, escape};

/// What stands for a table's name until whoever places it gives it one: [`super::document::section`] gives its own title, or
/// [`named`] another. No text from outside holds it, for [`escape`] replaces it.
pub const UNNAMED: char = '\0';

/// `markup` whose tables are called `title`, which is markup that is safe in attributes.
pub fn named(title: &str, markup: &str) -> String {
    markup.replace(UNNAMED, title)
}

/// What tells a row from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    Plain,
    /// It is what the page answers with: it stands out, and a badge behind its name says why.
    Best(String),
    /// Its name has a badge.
    Badge(String),
}

impl Mark {
    /// Of a row that is the answer, for a reason in a word, or one as any other.
    pub fn best(why: &str, is_best: bool) -> Mark {
        if is_best { Mark::Best(why.to_string()) } else { Mark::Plain }
    }
}

/// A row of a table: finished markup, the name first.
pub type TableRow = (Mark, Vec<String>);

/// A table, as yet [`UNNAMED`]: headings, and rows of finished markup. Figures stand right, below one another; a column
/// in which as many cells begin with a word as with a figure stands left and may be wrapped, as the first one does.
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

/// What stands in the place of a figure.
const NO_FIGURES: [&str; 4] = [NONE, "baseline", "none", "same"];

/// Whether as many cells of a column begin with a word as with a figure, or more.
fn has_words(rows: &[TableRow], column: usize) -> bool {
    let cells = rows.iter().filter_map(|(_, cells)| cells.get(column)).map(|cell| read(cell));
    let begins = cells.filter(|cell| !NO_FIGURES.contains(&cell.as_str()));
    let begins: Vec<char> = begins.filter_map(|cell| cell.chars().next()).collect();
    let words = begins.iter().filter(|first| first.is_alphabetic()).count();
    words > 0 && words * 2 >= begins.len()
}

/// What is read of markup.
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

/// Headings as markup.
pub fn headings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| escape(name)).collect()
}

/// A figure with a bar of its share behind it.
pub fn with_bar(text: &str, share: f64) -> String {
    let width = if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    format!("<span class=\"bar\" style=\"--w:{width:.1}%\">{text}</span>")
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
        // As many words as figures are words; what stands in a figure's place is none.
        assert_eq!(columns, [false, true, false, false]);
        let table = table(&headings(&["", "needs", "time", "less"]), &rows);
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
        let rows =
            [Mark::best("least", true), Mark::best("least", false), Mark::Badge("today".into())];
        let table = table(&headings(&["a", "b"]), &rows.map(row));
        let shown: Vec<&str> = table.lines().filter(|line| line.starts_with("<tr")).collect();
        assert!(shown[0].starts_with("<tr class=\"best\">"), "{table}");
        assert!(shown[0].contains("</i> <span class=\"badge\">least</span></th>"), "{table}");
        assert!(shown[1].starts_with("<tr><th") && !shown[1].contains("badge"));
        assert!(shown[2].starts_with("<tr><th") && shown[2].contains(">today</span></th>"));
    }
}
