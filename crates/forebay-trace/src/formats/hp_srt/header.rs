//! Parses the text header of an SRT trace as far as requests need it: the host, and for each disk,
//! the size of its sectors and the uses of its sections.
//!
//! The header is nested: `name = { number -> { name = value, … } }`. Unknown content is skipped, so
//! nothing in the header can make a trace unreadable.

use std::collections::BTreeMap;

/// The sector size in bytes if the header does not state it.
const SECTOR_BYTES: u64 = 256;

/// The maximum plausible sector size in bytes.
const SECTOR_BYTES_MAX: u64 = 1 << 16;

/// The maximum nesting depth.
const DEPTH_MAX: usize = 16;

/// The contents of the header.
#[derive(Debug, Default)]
pub(super) struct Header {
    system: String,
    sector_bytes: BTreeMap<u32, u64>,
    sections: BTreeMap<(u32, u32), String>,
}

impl Header {
    pub(super) fn parse(text: &[u8]) -> Header {
        let (mut header, mut path) = (Header::default(), Vec::new());
        // The name that the next opening brace or value belongs to.
        let mut name = String::new();
        for token in tokens(text) {
            match token.as_str() {
                "{" if path.len() < DEPTH_MAX => path.push(std::mem::take(&mut name)),
                "{" => break,
                "}" => {
                    path.pop();
                    name.clear();
                }
                "," | ";" => name.clear(),
                "=" | "->" => {}
                value => {
                    header.note(&path, &name, value);
                    name = value.to_owned();
                }
            }
        }
        header
    }

    /// Processes a word. If `name` precedes it, it is a value; otherwise, it is a name or an item.
    fn note(&mut self, path: &[String], name: &str, value: &str) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match (path.as_slice(), name) {
            ([], "system") => self.system = unquoted(value).unwrap_or_default().to_owned(),
            (["disks", disk], "sectorsize") => {
                let bytes = value.parse().ok().filter(|b| (1..=SECTOR_BYTES_MAX).contains(b));
                if let (Ok(disk), Some(bytes)) = (disk.parse(), bytes) {
                    self.sector_bytes.insert(disk, bytes);
                }
            }
            (["disks", disk, "sections", section], "") => {
                let ids = (disk.parse(), section.parse());
                if let ((Ok(disk), Ok(section)), Some(used)) = (ids, unquoted(value)) {
                    self.sections.entry((disk, section)).or_insert_with(|| used.to_owned());
                }
            }
            _ => {}
        }
    }

    /// Returns the host's name without its domain.
    pub(super) fn host(&self) -> &str {
        match self.system.split('.').next() {
            Some(host) if !host.is_empty() => host,
            _ => "disk",
        }
    }

    pub(super) fn sector_bytes(&self, disk: u32) -> u64 {
        self.sector_bytes.get(&disk).copied().unwrap_or(SECTOR_BYTES)
    }

    /// Returns the use of a section, or its number if the use is unknown.
    pub(super) fn section(&self, disk: u32, section: u32) -> String {
        let used = self.sections.get(&(disk, section));
        used.cloned().unwrap_or_else(|| format!("section {section}"))
    }
}

fn unquoted(value: &str) -> Option<&str> {
    value.strip_prefix('"')
}

/// Splits the text into words, symbols and strings. A string keeps its opening quote.
fn tokens(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let (mut tokens, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '{' | '}' | ',' | ';' | '=' => 1,
            '"' => rest.get(1..).and_then(|r| r.find('"')).map_or(rest.len(), |at| at + 1),
            _ => {
                let ends = |c: char| c.is_whitespace() || "{},;=\"".contains(c);
                rest.find(ends).unwrap_or(rest.len()).max(first.len_utf8())
            }
        };
        let (token, more) = rest.split_at(length);
        tokens.push(token.to_owned());
        let more = if first == '"' { more.strip_prefix('"').unwrap_or(more) } else { more };
        rest = more.trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_nested_sections_are_found() {
        let header = Header::parse(
            b"$$TR x\nversion = 1.3;\nsystem = \"h1.hpl.hp.com\"; description = \"a = { b\";\n\
            disks = { 0 -> { seekparms = {616, 3450}, adaptor = 1 -> { hp_ib , 1.2 , 250 },\n\
            sectorsize = 512, sections = { 8 -> { \"/\", size = (1 2), swap = ( 0 3) },\n\
            14 -> { \"<swap>\", size = (3 4) } } },\n\
            1 -> { sectorsize = 0, sections = { 7 -> { \"usr\" } } } };\n",
        );
        assert_eq!(header.host(), "h1");
        assert_eq!((header.sector_bytes(0), header.sector_bytes(1)), (512, 256));
        let names = [(0, 8), (0, 14), (1, 7), (1, 8)].map(|(d, s)| header.section(d, s));
        assert_eq!(names, ["/", "<swap>", "usr", "section 8"]);
    }

    #[test]
    fn nonsense_is_passed_over() {
        for text in ["", "}}}{{{", "\"", "= = ;", "disks = { 0 -> { sections = { 8 -> { \"x"] {
            assert_eq!(Header::parse(text.as_bytes()).host(), "disk");
        }
        let _ = Header::parse("{".repeat(1 << 16).as_bytes());
        let _ = Header::parse(b"\xff\xc3= \"\xe2\x82\" ->\xe2");
    }
}
