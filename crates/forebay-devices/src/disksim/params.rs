//! Accesses the parameters of a block by name and records which were used.

use std::cell::RefCell;

use super::libparam::{Block, Entry, LibparamError, Value};

/// A block whose parameters are read individually.
pub(super) struct Params<'a> {
    block: &'a Block,
    asked: RefCell<Vec<bool>>,
}

impl<'a> Params<'a> {
    pub(super) fn new(block: &'a Block) -> Params<'a> {
        Params { block, asked: RefCell::new(vec![false; block.entries.len()]) }
    }

    /// Returns the last entry with this name, as DiskSim does. Case is ignored.
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

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, LibparamError> {
        match self.entry(key) {
            None => Ok(None),
            Some(Entry { value: Value::Number(number), .. }) => Ok(Some(*number)),
            Some(Entry { value, line, .. }) => {
                Err((*line, format!("{key}: got {value}, expected a number")))
            }
        }
    }

    /// Returns a required number.
    pub(super) fn needed(&self, key: &str) -> Result<f64, LibparamError> {
        self.number(key)?.ok_or_else(|| {
            let kind = &self.block.kind;
            (self.block.line, format!("missing `{key}`, expected it in this {kind}"))
        })
    }

    /// Returns a number, or 0 if the parameter is missing.
    pub(super) fn or_zero(&self, key: &str) -> Result<f64, LibparamError> {
        Ok(self.number(key)?.unwrap_or(0.0))
    }

    /// Returns a time of at most 1000 ms, or 0 if the parameter is missing.
    pub(super) fn time(&self, key: &str) -> Result<f64, LibparamError> {
        let ms = self.or_zero(key)?;
        if (0.0..=1_000.0).contains(&ms) {
            return Ok(ms);
        }
        Err((self.line_of(key), format!("{key}: got {ms}, expected a time in ms from 0 to 1000")))
    }

    /// Returns a required time of at most 1000 ms.
    pub(super) fn needed_time(&self, key: &str) -> Result<f64, LibparamError> {
        self.needed(key)?;
        self.time(key)
    }

    /// Returns a time like [`Params::time`], with a note if the parameter is missing, although
    /// DiskSim requires it.
    pub(super) fn time_or_note(
        &self,
        key: &str,
        notes: &mut Vec<(usize, String)>,
    ) -> Result<f64, LibparamError> {
        if self.number(key)?.is_none() {
            notes.push((self.line(), format!("missing `{key}`; 0 ms is assumed")));
        }
        self.time(key)
    }

    /// Returns a required whole number in `range`.
    pub(super) fn needed_count(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, LibparamError> {
        let number = self.needed(key)?;
        let (least, most) = (*range.start(), *range.end());
        if number.fract() == 0.0 && (f64::from(least)..=f64::from(most)).contains(&number) {
            return Ok(number as u32);
        }
        let expected = format!("a whole number from {least} to {most}");
        Err((self.line_of(key), format!("{key}: got {number}, expected {expected}")))
    }

    /// Returns a whole number in `range`, or `default` if the parameter is missing.
    pub(super) fn count_of(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, LibparamError> {
        self.number(key)?.map_or(Ok(default), |_| self.needed_count(key, range))
    }

    /// Returns the entries whose key was already used earlier in the block; the last entry counts.
    pub(super) fn repeated(&self) -> Vec<&'a Entry> {
        let entries = &self.block.entries;
        let before = |index: usize, entry: &Entry| {
            entries[..index].iter().any(|other| other.key.eq_ignore_ascii_case(&entry.key))
        };
        let all = entries.iter().enumerate();
        all.filter(|(index, entry)| before(*index, entry)).map(|(_, entry)| entry).collect()
    }

    /// Returns a nonnegative whole number, or 0 if the parameter is missing.
    pub(super) fn count(&self, key: &str) -> Result<u64, LibparamError> {
        let number = self.or_zero(key)?;
        if (0.0..=9e15).contains(&number) && number.fract() == 0.0 {
            return Ok(number as u64);
        }
        let line = self.entry(key).map_or(self.block.line, |entry| entry.line);
        Err((line, format!("{key}: got {number}, expected a whole number of at least 0")))
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, LibparamError> {
        Ok(self.or_zero(key)? != 0.0)
    }

    pub(super) fn word(&self, key: &str) -> Option<(&'a str, usize)> {
        match self.entry(key)? {
            Entry { value: Value::Word(word), line, .. } => Some((word, *line)),
            _ => None,
        }
    }

    /// Returns a list of numbers, which is empty if the parameter is missing.
    pub(super) fn numbers(&self, key: &str) -> Result<Vec<f64>, LibparamError> {
        let Some(Entry { value, line, .. }) = self.entry(key) else { return Ok(Vec::new()) };
        let wrong = |got: &Value| (*line, format!("{key}: got {got}, expected a list of numbers"));
        let Value::List(values) = value else { return Err(wrong(value)) };
        let number = |value: &Value| match value {
            Value::Number(number) => Ok(*number),
            other => Err(wrong(other)),
        };
        values.iter().map(number).collect()
    }

    /// Returns a list of nonnegative whole numbers, which is empty if the parameter is missing.
    pub(super) fn counts(&self, key: &str) -> Result<Vec<u64>, LibparamError> {
        let line = self.entry(key).map_or(self.block.line, |entry| entry.line);
        let whole = |number: f64| {
            if (0.0..=9e15).contains(&number) && number.fract() == 0.0 {
                return Ok(number as u64);
            }
            Err((line, format!("{key}: got {number}, expected whole numbers of at least 0")))
        };
        self.numbers(key)?.into_iter().map(whole).collect()
    }

    pub(super) fn line(&self) -> usize {
        self.block.line
    }

    /// Returns the line of a parameter, or the line of the block if the parameter is missing.
    pub(super) fn line_of(&self, key: &str) -> usize {
        self.entry(key).map_or(self.block.line, |entry| entry.line)
    }

    /// Returns the parameters that were not used, except those that are in `without_effect` or 0.
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
