//! Detects rows that have more fields than the header line. The additional fields are ignored. They
//! may be caused by a comma within a name.

use crate::columns::cursor::{Cursor, Separator};
use forebay_words::plural::{counted, verb};

/// Counts rows with additional fields.
#[derive(Default)]
pub(super) struct ExtraFields {
    /// The number of fields in the header line, or 0 if there is no header.
    named: usize,
    rows: u64,
    /// The line number of the first row with additional fields.
    first: u64,
}

impl ExtraFields {
    /// Processes a line that may be the header: it is one if it has names for at least `columns`
    /// columns.
    pub(super) fn name(&mut self, names: &[u8], columns: usize, separator: Separator) {
        let line = [names, b"\n"].concat();
        let named = Cursor::new(&line, separator).fields();
        self.named = if named >= columns && named > 1 { named } else { 0 };
    }

    /// Examines `lines` complete lines of text, which follow line `before`.
    pub(super) fn look(&mut self, text: &[u8], (before, lines): (u64, u64), separator: Separator) {
        let Separator::Byte(byte) = separator else { return };
        if self.named == 0 {
            return;
        }
        // Usually every row has as many fields as the header, so the total number of separators can
        // be predicted.
        let usual = (self.named as u64 - 1) * lines;
        if memchr::memchr_iter(byte, text).count() as u64 != usual {
            self.look_closer(text, before, separator);
        }
    }

    #[cold]
    fn look_closer(&mut self, text: &[u8], before: u64, separator: Separator) {
        for (line, number) in text.split_inclusive(|&byte| byte == b'\n').zip(before + 1..) {
            if self.has_more(line, separator) {
                self.rows += 1;
                self.first = if self.rows == 1 { number } else { self.first };
            }
        }
    }

    /// Returns whether any of the additional fields is not empty.
    fn has_more(&self, line: &[u8], separator: Separator) -> bool {
        let mut cursor = Cursor::new(line, separator);
        cursor.first();
        let mut number = 0;
        while let Ok(field) = cursor.field() {
            number += 1;
            if number > self.named && !field.trim_ascii().is_empty() {
                return true;
            }
            if cursor.next().is_err() {
                break;
            }
        }
        false
    }

    /// Returns a note about rows with additional fields, if there are any.
    pub(super) fn sentence(&self) -> Option<String> {
        (self.rows > 0).then(|| {
            format!(
                "{} {} more fields than the {} that are named, and the additional fields are \
                 ignored (the first such line is {}); an unquoted separator within a name shifts \
                 all later fields",
                counted(self.rows, "row"),
                verb(self.rows, "has", "have"),
                self.named,
                self.first
            )
        })
    }
}
