//! Parses DiskSim's parameter text (libparam): blocks of `key = value` pairs.
//!
//! A block is written `type name { key = value, ... }`. A value is a number, a word, a list in
//! brackets or another block. `#` begins a comment, and everything before the equals sign is the
//! key. Text outside of blocks (`instantiate`, `topology`, `source`) is ignored.

use std::fmt;

/// The maximum nesting depth of blocks and lists.
const DEPTH: u32 = 32;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Word(String),
    List(Vec<Value>),
    Block(Block),
}

/// A `key = value` pair and the line on which it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) line: usize,
}

/// A block and the line on which it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) kind: String,
    /// The name of the block, or an empty string.
    pub(crate) name: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) line: usize,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Word(word) => write!(f, "'{}'", short(word)),
            Value::List(values) => write!(f, "a list of {}", values.len()),
            Value::Block(block) => write!(f, "a block of {}", short(&block.kind)),
        }
    }
}

/// Shortens `text` for use in a message.
fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

/// The line of an error, and its description.
pub(crate) type LibparamError = (usize, String);

/// Parses all blocks of a file, in order.
pub(crate) fn parse(text: &str) -> Result<Vec<Block>, LibparamError> {
    let mut parser = Parser { rest: text, line: 1 };
    let mut blocks = Vec::new();
    loop {
        parser.skip_blank();
        let line = parser.line;
        let head = parser.text_until("{[\n");
        match parser.take() {
            None => return Ok(blocks),
            Some('{') => blocks.push(parser.block(&head, line, 0)?),
            Some('[') => parser.skip_list()?,
            Some(_) => {}
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    line: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.rest = &self.rest[found.len_utf8()..];
        self.line += usize::from(found == '\n');
        Some(found)
    }

    /// Skips whitespace and comments.
    fn skip_blank(&mut self) {
        while let Some(next) = self.peek() {
            match next {
                '#' => while self.take().is_some_and(|c| c != '\n') {},
                c if c.is_whitespace() => {
                    self.take();
                }
                _ => return,
            }
        }
    }

    /// Returns the text up to one of the characters in `ends`, without comments and with whitespace
    /// collapsed.
    fn text_until(&mut self, ends: &str) -> String {
        let mut text = String::new();
        while let Some(next) = self.peek() {
            if next == '#' {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.take();
                }
            } else if ends.contains(next) {
                break;
            } else {
                text.push(next);
                self.take();
            }
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn skip_list(&mut self) -> Result<(), LibparamError> {
        let begins = self.line;
        let mut depth = 1;
        while depth > 0 {
            self.text_until("[]");
            match self.take() {
                Some('[') => depth += 1,
                Some(_) => depth -= 1,
                None => {
                    return Err((begins, "got an unclosed '[', expected a ']'".into()));
                }
            }
        }
        Ok(())
    }

    /// Parses a block after its opening brace. `head` is the text before the brace: `type name` or
    /// `type`.
    fn block(&mut self, head: &str, line: usize, depth: u32) -> Result<Block, LibparamError> {
        let (kind, name) = head.split_once(' ').unwrap_or((head, ""));
        let (kind, name) = (kind.to_string(), name.to_string());
        if depth > DEPTH {
            return Err((line, format!("got more than {DEPTH} nested blocks")));
        }
        let mut entries = Vec::new();
        loop {
            self.skip_blank();
            match self.peek() {
                None => {
                    let what = format!(
                        "got the end of the file in block '{}', expected '}}'",
                        short(&kind)
                    );
                    return Err((line, what));
                }
                Some('}') => {
                    self.take();
                    return Ok(Block { kind, name, entries, line });
                }
                Some(',') => {
                    self.take();
                }
                Some(_) => entries.push(self.entry(depth)?),
            }
        }
    }

    fn entry(&mut self, depth: u32) -> Result<Entry, LibparamError> {
        let line = self.line;
        let key = self.text_until("={}[],");
        if self.take() != Some('=') {
            return Err((
                line,
                format!("got '{}' without a value, expected `key = value`", short(&key)),
            ));
        }
        if key.is_empty() {
            return Err((line, "got a value without a key, expected `key = value`".to_string()));
        }
        let value = self.value(depth)?;
        Ok(Entry { key, value, line })
    }

    fn value(&mut self, depth: u32) -> Result<Value, LibparamError> {
        self.skip_blank();
        let line = self.line;
        if self.peek() == Some('[') {
            self.take();
            return self.list(line, depth + 1);
        }
        let text = self.text_until(",{}[]=\n");
        self.skip_blank();
        if self.peek() == Some('{') {
            self.take();
            return Ok(Value::Block(self.block(&text, line, depth + 1)?));
        }
        if text.is_empty() {
            return Err((
                line,
                "got no value, expected a number, a word, a list or a block".into(),
            ));
        }
        Ok(match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Value::Number(number),
            _ => Value::Word(text),
        })
    }

    /// Parses a list after its opening bracket.
    fn list(&mut self, line: usize, depth: u32) -> Result<Value, LibparamError> {
        if depth > DEPTH {
            return Err((line, format!("got more than {DEPTH} nested lists")));
        }
        let mut values = Vec::new();
        loop {
            self.skip_blank();
            match self.peek() {
                None => {
                    return Err((line, "got an unclosed list, expected a ']'".into()));
                }
                Some(']') => {
                    self.take();
                    return Ok(Value::List(values));
                }
                Some(',') => {
                    self.take();
                }
                Some('}' | '=') => {
                    let what = "got an unexpected character in a list, expected ',' or ']'";
                    return Err((self.line, what.to_string()));
                }
                Some(_) => values.push(self.value(depth)?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lists_comments_and_sources_are_read() {
        let text = "# head\nsource x.y\ntopology a b [ c d [] ]\n\
                    disk NAME {\n Segment size (in blks) = 4e2, # note\n A b. = [ 1,\n -2 ],\n\
                    Model = source m.model,\n In = kind {\n x = word\n } # end\n}\nrest\n";
        let blocks = parse(text).unwrap();
        assert_eq!(blocks.len(), 1);
        let Block { kind, name, entries, line } = &blocks[0];
        assert_eq!((kind.as_str(), name.as_str()), ("disk", "NAME"));
        assert_eq!((*line, entries.len()), (4, 4));
        assert_eq!(entries[0].key, "Segment size (in blks)");
        assert_eq!((&entries[0].value, entries[0].line), (&Value::Number(400.0), 5));
        assert_eq!(entries[1].value, Value::List(vec![Value::Number(1.0), Value::Number(-2.0)]));
        assert_eq!(entries[2].value, Value::Word("source m.model".to_string()));
        let Value::Block(inner) = &entries[3].value else { panic!() };
        assert_eq!((inner.kind.as_str(), inner.line), ("kind", 9));
        assert_eq!(inner.entries[0].value, Value::Word("word".to_string()));
    }

    #[test]
    fn faults_have_their_line() {
        let fault = |text: &str| parse(text).unwrap_err();
        assert_eq!(fault("a b {\n x = 1,\n").0, 1);
        assert!(fault("a b {\n x = 1,\n").1.contains("end of the file in block 'a'"));
        assert_eq!(fault("a {\n x\n}").0, 2);
        assert!(fault("a {\n = 3}").1.contains("without a key"));
        assert!(fault("a {\n x = ,}").1.contains("no value"));
        assert!(fault("a {\n x = [ 1, 2 }").1.contains("in a list"));
        assert!(fault("a {\n x = [ 1, 2").1.contains("unclosed"));
        assert!(fault("t [ a [ ]").1.contains("unclosed"));
        let deep = "a = b {".repeat(100);
        assert!(fault(&format!("a {{{deep}")).1.contains("nested"));
    }
}
