//! The checks that every report page must pass, including accessibility by keyboard and screen
//! reader.

use std::collections::BTreeSet;

use roxmltree::{Document, Node, ParsingOptions};

/// The headings of columns that contain counts.
const COUNTS: [&str; 10] = [
    "requests",
    "disk spin-ups",
    "most pools",
    "blocks",
    "switches",
    "volumes",
    "IOPS",
    "cylinder",
    "drives that may fail",
    "reads",
];

/// Makes all checks on the page called `name`.
pub(crate) fn walk(name: &str, page: &str) {
    let options = ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = Document::parse_with_options(page, options)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let page = Page { name, document: &document };
    page.frame();
    page.headings();
    page.names();
    page.pictures();
    page.tables();
    page.keys();
    page.figures();
    page.sentences();
    page.stands_alone();
}

struct Page<'a> {
    name: &'a str,
    document: &'a Document<'a>,
}

fn text_of(node: Node<'_, '_>) -> String {
    node.descendants().filter(|one| one.is_text()).filter_map(|one| one.text()).collect()
}

fn within(node: Node<'_, '_>, tag: &str) -> bool {
    node.ancestors().skip(1).any(|above| above.has_tag_name(tag))
}

impl<'a> Page<'a> {
    fn all(&self, tag: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
        self.document.descendants().filter(move |node| node.has_tag_name(tag))
    }

    #[track_caller]
    fn holds(&self, holds: bool, what: &str, node: Node<'_, '_>) {
        assert!(holds, "{}: {what}: {}", self.name, &self.document.input_text()[node.range()]);
    }

    fn frame(&self) {
        let root = self.document.root_element();
        self.holds(root.attribute("lang") == Some("en"), "no language", root);
        for tag in ["title", "main", "h1"] {
            let of_page = self.all(tag).filter(|node| !within(*node, "svg"));
            let of_page: Vec<_> = of_page.collect();
            assert_eq!(of_page.len(), 1, "{}: {tag}", self.name);
            self.holds(!text_of(of_page[0]).trim().is_empty(), "empty", of_page[0]);
        }
    }

    /// Checks that headings never skip a level on the way down, so that they form a table of
    /// contents.
    fn headings(&self) {
        let mut last = 0;
        for node in self.document.descendants() {
            let level = match node.tag_name().name() {
                "h1" => 1,
                "h2" => 2,
                "h3" => 3,
                _ => continue,
            };
            self.holds(level <= last + 1, "a level is skipped", node);
            self.holds(!text_of(node).trim().is_empty(), "empty", node);
            last = level;
        }
    }

    /// Checks that every id is unique and that every reference has a target.
    fn names(&self) {
        let mut names = BTreeSet::new();
        for node in self.document.descendants().filter(|node| node.has_attribute("id")) {
            self.holds(names.insert(node.attribute("id").unwrap()), "an id twice", node);
        }
        for node in self.document.descendants() {
            let referred = node.attribute("aria-labelledby").unwrap_or_default();
            for id in referred.split_whitespace() {
                self.holds(names.contains(id), "refers to nothing", node);
            }
        }
    }

    fn pictures(&self) {
        for svg in self.all("svg").filter(|svg| !within(*svg, "svg")) {
            if svg.attribute("aria-hidden") == Some("true") {
                continue;
            }
            self.holds(svg.attribute("role") == Some("img"), "no image", svg);
            self.holds(svg.has_attribute("aria-labelledby"), "no name", svg);
            for tag in ["title", "desc"] {
                let said = svg.children().find(|node| node.has_tag_name(tag));
                self.holds(said.is_some_and(|said| !text_of(said).trim().is_empty()), tag, svg);
            }
            self.holds(within(svg, "figure"), "stands in no figure", svg);
        }
        for figure in self.all("figure") {
            let said = figure.children().find(|node| node.has_tag_name("figcaption"));
            let said = said.is_some_and(|said| !text_of(said).trim().is_empty());
            self.holds(said, "nothing is said below it", figure);
        }
        for title in self.all("title") {
            self.holds(!text_of(title).trim().is_empty(), "empty", title);
        }
    }

    fn tables(&self) {
        for table in self.all("table") {
            let caption = table.first_element_child().filter(|node| node.has_tag_name("caption"));
            let named = caption.is_some_and(|caption| !text_of(caption).trim().is_empty());
            self.holds(named, "no caption", table);
            let rows: Vec<Node<'_, '_>> =
                table.descendants().filter(|node| node.has_tag_name("tr")).collect();
            let cells = |row: &Node<'_, '_>| row.children().filter(Node::is_element).count();
            for row in &rows {
                self.holds(cells(row) == cells(&rows[0]), "cells more or less", *row);
                let first = row.first_element_child().unwrap();
                self.holds(first.has_tag_name("th"), "no name", *row);
            }
            for head in table.descendants().filter(|node| node.has_tag_name("th")) {
                let is_above = within(head, "thead");
                let scope = if is_above { "col" } else { "row" };
                self.holds(head.attribute("scope") == Some(scope), "no scope", head);
            }
            let best = rows.iter().filter(|row| row.attribute("class") == Some("best"));
            self.holds(best.count() <= 1, "several are highlighted", table);
        }
    }

    /// Checks that scrolling elements can be reached by keyboard and have a label.
    fn keys(&self) {
        for table in self.all("table") {
            let wide = table.parent().unwrap();
            let reached = wide.attribute("tabindex") == Some("0");
            let named = wide.attribute("aria-label").is_some_and(|name| !name.trim().is_empty());
            self.holds(
                reached && named && wide.attribute("role") == Some("region"),
                "cannot be reached",
                wide,
            );
        }
        for figure in self.all("figure") {
            self.holds(figure.attribute("tabindex") == Some("0"), "cannot be reached", figure);
            let mut titles = figure.descendants().filter(|node| node.has_tag_name("title"));
            let says = titles.any(|title| !title.parent().unwrap().has_tag_name("svg"));
            self.holds(says, "nothing in it says what it is", figure);
        }
        for node in self.document.descendants() {
            let order = node.attribute("tabindex");
            self.holds(order.is_none_or(|order| order == "0"), "an order of its own", node);
        }
        for details in self.all("details") {
            let first = details.first_element_child();
            let named = first.is_some_and(|first| first.has_tag_name("summary"));
            self.holds(named, "no summary", details);
        }
    }

    /// Checks that no figure is NaN or infinite, and that no count has decimals.
    fn figures(&self) {
        let is_read = |node: &Node<'_, '_>| {
            node.is_text() && !within(*node, "style") && !within(*node, "script")
        };
        for node in self.document.descendants().filter(is_read) {
            let text = node.text().unwrap_or_default();
            let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
            for wrong in ["NaN", "inf", "null", "None", "Some"] {
                assert!(!words.contains(&wrong), "{}: {wrong} in {text:?}", self.name);
            }
            assert!(!text.contains('\0'), "{}: no name in {text:?}", self.name);
        }
        for table in self.all("table") {
            let rows: Vec<_> = table.descendants().filter(|node| node.has_tag_name("tr")).collect();
            let cells = |row: &Node<'_, '_>| -> Vec<String> {
                row.children().filter(Node::is_element).map(text_of).collect()
            };
            let heads = cells(&rows[0]);
            for row in &rows[1..] {
                for (head, cell) in heads.iter().zip(cells(row)).skip(1) {
                    let counts = COUNTS.contains(&head.as_str());
                    self.holds(!counts || !cell.contains('.'), head, *row);
                }
            }
        }
    }

    /// Checks that no line can break between a figure and its unit, and that no backtick was left
    /// unconverted.
    fn sentences(&self) {
        for node in self.document.descendants().filter(|node| node.is_text()) {
            let text = node.text().unwrap_or_default();
            if ["style", "script", "code"].iter().any(|tag| within(node, tag)) {
                continue;
            }
            assert_eq!(text, forebay_show::prose::joined(text), "{}", self.name);
            assert!(!text.contains('`'), "{}: {text}", self.name);
        }
    }

    /// Checks that the page needs nothing from outside, and has no script except the one that
    /// zooms.
    fn stands_alone(&self) {
        let outside = ["src", "srcset", "href", "action", "data", "onload", "onclick"];
        for node in self.document.descendants() {
            for name in outside {
                self.holds(!node.has_attribute(name), name, node);
            }
        }
        let scripts: Vec<_> = self.all("script").collect();
        assert!(scripts.len() <= 1, "{}", self.name);
        let figures = self.document.descendants().any(|node| node.has_tag_name("figure"));
        assert_eq!(scripts.len() == 1, figures, "{}: a script that has nothing to do", self.name);
        let style: String = self.all("style").map(text_of).collect();
        for wrong in ["url(", "@import", "http"] {
            assert!(!style.contains(wrong), "{}: {wrong}", self.name);
        }
    }
}
