//! A block's parameters by name, noting which were asked for.

use std::cell::RefCell;

use super::libparam::{Block, Entry, Fault, Value};

/// A block whose parameters are taken one by one.
pub(super) struct Params<'a> {
    block: &'a Block,
    asked: RefCell<Vec<bool>>,
}

impl<'a> Params<'a> {
    pub(super) fn new(block: &'a Block) -> Params<'a> {
        Params { block, asked: RefCell::new(vec![false; block.entries.len()]) }
    }

    /// The last entry of that name, as in DiskSim; case makes no difference.
    pub(super) fn entry(&self, key: &str) -> Option<&'a Entry> {
        let mut found = None;
        for (index, entry) in self.block.entries.iter().enumerate() {
            if entry.key.eq_ignore_ascii_case(key) {
                self.asked.borrow_mut()[index] = true;
                found = Some(entry);
            }
        }
        found
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, Fault> {
        match self.entry(key) {
            None => Ok(None),
            Some(Entry { value: Value::Number(number), .. }) => Ok(Some(*number)),
            Some(Entry { value, line, .. }) => {
                Err((*line, format!("{key}: got {value}, expected a number")))
            }
        }
    }

    /// A number that has to be there.
    pub(super) fn needed(&self, key: &str) -> Result<f64, Fault> {
        self.number(key)?.ok_or_else(|| {
            let kind = &self.block.kind;
            (self.block.line, format!("missing `{key}`, expected it in this {kind}"))
        })
    }

    /// A number that is 0 where it is missing.
    pub(super) fn or_zero(&self, key: &str) -> Result<f64, Fault> {
        Ok(self.number(key)?.unwrap_or(0.0))
    }

    /// A time in ms that is 0 where it is missing, and 1000 at most.
    pub(super) fn time(&self, key: &str) -> Result<f64, Fault> {
        let ms = self.or_zero(key)?;
        if (0.0..=1_000.0).contains(&ms) {
            return Ok(ms);
        }
        Err((self.line_of(key), format!("{key}: got {ms}, expected a time in ms from 0 to 1000")))
    }

    /// A whole number of `range` that has to be there.
    pub(super) fn needed_count(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, Fault> {
        let number = self.needed(key)?;
        let (least, most) = (*range.start(), *range.end());
        if number.fract() == 0.0 && (f64::from(least)..=f64::from(most)).contains(&number) {
            return Ok(number as u32);
        }
        let expected = format!("a whole number from {least} to {most}");
        Err((self.line_of(key), format!("{key}: got {number}, expected {expected}")))
    }

    /// The same, `default` where it is missing.
    pub(super) fn count_of(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, Fault> {
        self.number(key)?.map_or(Ok(default), |_| self.needed_count(key, range))
    }

    /// Entries whose key was given before: the last one holds.
    pub(super) fn repeated(&self) -> Vec<&'a Entry> {
        let entries = &self.block.entries;
        let before = |index: usize, entry: &Entry| {
            entries[..index].iter().any(|other| other.key.eq_ignore_ascii_case(&entry.key))
        };
        let all = entries.iter().enumerate();
        all.filter(|(index, entry)| before(*index, entry)).map(|(_, entry)| entry).collect()
    }

    /// A whole number from 0 on, 0 where it is missing.
    pub(super) fn count(&self, key: &str) -> Result<u64, Fault> {
        let number = self.or_zero(key)?;
        if (0.0..=9e15).contains(&number) && number.fract() == 0.0 {
            return Ok(number as u64);
        }
        let line = self.entry(key).map_or(self.block.line, |entry| entry.line);
        Err((line, format!("{key}: got {number}, expected a whole number from 0 on")))
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Fault> {
        Ok(self.or_zero(key)? != 0.0)
    }

    pub(super) fn word(&self, key: &str) -> Option<(&'a str, usize)> {
        match self.entry(key)? {
            Entry { value: Value::Word(word), line, .. } => Some((word, *line)),
            _ => None,
        }
    }

    /// A list of numbers; none where it is missing.
    pub(super) fn numbers(&self, key: &str) -> Result<Vec<f64>, Fault> {
        let Some(Entry { value, line, .. }) = self.entry(key) else { return Ok(Vec::new()) };
        let wrong = |got: &Value| (*line, format!("{key}: got {got}, expected a list of numbers"));
        let Value::List(values) = value else { return Err(wrong(value)) };
        let number = |value: &Value| match value {
            Value::Number(number) => Ok(*number),
            other => Err(wrong(other)),
        };
        values.iter().map(number).collect()
    }

    /// The same, whole and from 0 on.
    pub(super) fn counts(&self, key: &str) -> Result<Vec<u64>, Fault> {
        let line = self.entry(key).map_or(self.block.line, |entry| entry.line);
        let whole = |number: f64| {
            if (0.0..=9e15).contains(&number) && number.fract() == 0.0 {
                return Ok(number as u64);
            }
            Err((line, format!("{key}: got {number}, expected whole numbers from 0 on")))
        };
        self.numbers(key)?.into_iter().map(whole).collect()
    }

    pub(super) fn line(&self) -> usize {
        self.block.line
    }

    /// The line of a parameter, or of the block where it is missing.
    pub(super) fn line_of(&self, key: &str) -> usize {
        self.entry(key).map_or(self.block.line, |entry| entry.line)
    }

    /// Parameters that nobody asked for and that are neither among `without_effect` nor 0.
    pub(super) fn unknown(&self, without_effect: &[&str]) -> Vec<&'a Entry> {
        let asked = self.asked.borrow();
        let entries = self.block.entries.iter().zip(asked.iter());
        let left = entries.filter(|(_, asked)| !**asked).map(|(entry, _)| entry);
        left.filter(|entry| {
            entry.value != Value::Number(0.0)
                && !without_effect.iter().any(|key| key.eq_ignore_ascii_case(&entry.key))
        })
        .collect()
    }
}
