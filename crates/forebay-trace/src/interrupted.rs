//! Recognizes the message of Python in the output of a tracer that was interrupted or failed.

use forebay_words::plural::counted;

/// The beginnings of the message's first line.
const BEGINNINGS: [&[u8]; 2] = [b"Traceback (most recent call last)", b"Exception ignored in"];
/// The line that follows if a user interrupted the tracer.
const INTERRUPT: &[u8] = b"KeyboardInterrupt";
/// The maximum length of the error in a note, in bytes.
const ERROR_BYTES: usize = 80;

/// The lines that belong to messages of Python.
#[derive(Debug, Default)]
pub(crate) struct PythonMessages {
    /// The number of messages, and the number of the line after which the last message may
    /// continue.
    messages: u64,
    last: u64,
    is_interrupt: bool,
    /// The error that the last line of a message states.
    error: Option<String>,
}

impl PythonMessages {
    /// Returns whether an unreadable line belongs to a message. `number` is the number of the line.
    pub(crate) fn has(&mut self, line: &[u8], number: u64) -> bool {
        let text = line.strip_prefix(b"^C").unwrap_or(line);
        let begins = BEGINNINGS.iter().any(|begin| text.starts_with(begin));
        // Messages about several errors are separated by blank lines.
        let goes_on = self.messages > 0 && number <= self.last + 2;
        if !begins && !goes_on {
            return false;
        }
        self.messages += u64::from(begins);
        self.last = number;
        self.is_interrupt |= text.starts_with(INTERRUPT);
        if !begins && !text.starts_with(b" ") {
            let text = String::from_utf8_lossy(text.get(..ERROR_BYTES).unwrap_or(text));
            self.error = Some(text.trim_end().escape_debug().to_string());
        }
        true
    }

    /// Returns the note about the messages, if there are any.
    pub(crate) fn sentence(&self) -> Option<String> {
        if self.messages == 0 {
            return None;
        }
        let what = match (self.is_interrupt, &self.error) {
            (true, _) => "was interrupted (KeyboardInterrupt)".to_owned(),
            (false, Some(error)) => format!("failed ({error})"),
            (false, None) => "failed".to_owned(),
        };
        let messages = counted(self.messages, "error message");
        Some(format!(
            "the tracer {what} and printed {messages}: requests may be missing at the end"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> (usize, Option<String>) {
        let mut messages = PythonMessages::default();
        let belongs =
            (1..).zip(lines).filter(|(number, line)| messages.has(line.as_bytes(), *number));
        (belongs.count(), messages.sentence())
    }

    #[test]
    fn lines_after_the_first_belong_to_the_message() {
        let begin = "Traceback (most recent call last):";
        let (count, sentence) = told(&["x", begin, "  File \"a\", line 3", "KeyboardInterrupt"]);
        assert_eq!(count, 3);
        assert!(sentence.unwrap().starts_with("the tracer was interrupted"));
        let (count, sentence) =
            told(&["^CTraceback (most recent call last):", "  x", "OSError: a\u{1b}"]);
        assert_eq!(count, 3);
        assert!(sentence.unwrap().starts_with("the tracer failed (OSError: a\\u{1b})"));
        assert_eq!(told(&["x", "KeyboardInterrupt"]), (0, None));
    }

    #[test]
    fn a_later_line_does_not_belong_to_it() {
        let mut messages = PythonMessages::default();
        assert!(messages.has(b"Traceback (most recent call last):", 3));
        assert!(messages.has(b"  File", 4) && messages.has(b"During handling", 6));
        assert!(!messages.has(b"  File", 9));
    }
}
