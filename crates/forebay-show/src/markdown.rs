//! Renders a page as Markdown, for docs and papers.

use crate::{Block, CellText, Page, RowMark, Table};

/// Renders `page` as Markdown: the title as a first-level heading, then all sections in reading
/// order. Charts are replaced by their descriptions.
pub fn text(page: &Page) -> String {
    let mut parts = vec![format!("# {}", page.title), format!("**{}**", page.headline)];
    let figure = |key: &crate::page::KeyFigure| {
        let before = key.before.map(|before| format!("{} → ", before.text()));
        format!("- {}: {}{}", key.name, before.unwrap_or_default(), key.figure.text())
    };
    let figures: Vec<String> = page.key_figures.iter().map(figure).collect();
    if !figures.is_empty() {
        parts.push(figures.join("\n"));
    }
    let about = page.about.iter().map(|(term, text)| format!("- **{term}**: {text}"));
    parts.push(about.collect::<Vec<_>>().join("\n"));
    for section in &page.sections {
        let blocks: Vec<String> =
            section.blocks.iter().map(block).filter(|text| !text.is_empty()).collect();
        if !section.title.is_empty() && !blocks.is_empty() {
            parts.push(format!("## {}", section.title));
        }
        parts.extend(blocks);
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n") + "\n"
}

fn block(of: &Block) -> String {
    let listed =
        |all: &[String]| all.iter().map(|one| format!("- {one}")).collect::<Vec<_>>().join("\n");
    match of {
        Block::Text(text) => text.clone(),
        Block::List(texts) | Block::Notes(texts) => listed(texts),
        Block::Terms(terms) => {
            let one = |(term, text): &(String, String)| format!("- **{term}**: {text}");
            terms.iter().map(one).collect::<Vec<_>>().join("\n")
        }
        Block::Commands(commands) => format!("```sh\n{}\n```", commands.join("\n")),
        Block::Table(of) => table(of),
        Block::Chart(chart) => format!("*{}. {}*", chart.title, chart.description),
        Block::Beside(blocks) => blocks.iter().map(block).collect::<Vec<_>>().join("\n\n"),
        Block::Legend(_) | Block::Picture { .. } => String::new(),
    }
}

/// Formats a table in Markdown, with pipes between cells.
pub fn table(of: &Table) -> String {
    let text = of.text();
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let safe = |cell: &str| cell.replace('|', "\\|").replace('\n', " ");
    let ruled = text.are_figures.iter().map(|is| if *is { "---:" } else { "---" }.to_string());
    let mut lines =
        vec![row(text.heads.iter().map(|head| safe(head)).collect()), row(ruled.collect())];
    for (marked, cells) in of.rows.iter().zip(&text.rows) {
        let mut cells: Vec<String> = cells.iter().map(CellText::line).map(|c| safe(&c)).collect();
        if let (RowMark::Best(word) | RowMark::Badge(word), Some(first)) =
            (&marked.mark, cells.first_mut())
        {
            *first = format!("**{first}** ({word})");
        }
        cells.resize(text.heads.len(), String::new());
        lines.push(row(cells));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, Place, Row, Unit};

    #[test]
    fn a_page_is_headings_text_and_tables() {
        let mut table = Table::new([Column::words("drive"), Column::of("p99", Unit::Seconds)]);
        table.rows.push(Row::new(["a|b".into(), 0.0123.into()]));
        let mut page = Page { title: "T".into(), headline: "H.".into(), ..Page::default() };
        page.add("Drives", Place::Detail, vec![Block::Table(table)]);
        let expected =
            "# T\n\n**H.**\n\n## Drives\n\n| drive | p99, ms |\n| --- | ---: |\n| a\\|b | 12.3 |\n";
        assert_eq!(text(&page), expected);
    }
}
