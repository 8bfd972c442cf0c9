//! The properties of declared inputs.

use std::ffi::OsStr;

use crate::{AskError, Given};

/// How often an input can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// The input is a flag without a value; false unless given.
    Flag,
    /// The input is required exactly once, unless it has a default.
    One,
    /// The input may be given at most once.
    Optional,
    /// The input may be given several times, or as several values separated by commas.
    List,
}

/// The kinds of value that front ends (the command line and Python) accept. Every value can also be
/// given as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Only text.
    Text,
    /// A number.
    Number,
    /// A path, which need not be valid UTF-8.
    Path,
    /// A path, or pairs of numbers.
    PathOrPairs,
    /// Text, or a dict.
    TextOrDict,
    /// A trace: a path, or an object of the front end's own type.
    Trace,
    /// A policy: a name, or an object of the front end's own type.
    Policy,
}

impl Takes {
    /// Returns whether the command line passes the value on as a path.
    pub fn is_path(self) -> bool {
        matches!(self, Takes::Path | Takes::PathOrPairs | Takes::Trace)
    }
}

/// One of the words that an input accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The word as users write it.
    pub name: &'static str,
    /// The meaning of the word, in one line.
    pub about: &'static str,
}

/// The front ends that offer an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// All front ends offer the input.
    Any,
    /// Only the command line offers the input.
    Command,
    /// Only Python offers the input.
    Python,
}

/// An input, as described in help, signatures, docs and error messages.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// The name of the input in snake_case, as in Python; the command line spells it
    /// `--kebab-case`.
    pub name: &'static str,
    /// The description of the input: a sentence, optionally followed by paragraphs with details.
    pub about: &'static str,
    /// How often the input can be given.
    pub arity: Arity,
    /// The placeholder for the input's value in help, such as `TIME`.
    pub word: &'static str,
    /// The kinds of value that front ends accept for this input.
    pub takes: Takes,
    /// The input's type in Python annotations.
    pub python: &'static str,
    /// The words that the input accepts; empty if it accepts any value.
    pub choices: &'static [Choice],
    /// The default value of the input, as users would write it.
    pub default: Option<&'static str>,
    /// The default value on the command line, if it differs from Python's.
    pub command_default: Option<&'static str>,
    /// The text that help shows in place of a default.
    pub default_text: Option<&'static str>,
    /// The minimum and maximum of the input's value, if it is a number.
    pub range: Option<(f64, f64)>,
    /// The input's one-letter option on the command line.
    pub short: Option<char>,
    /// Whether the input is positional on the command line and comes first in Python.
    pub is_positional: bool,
    /// Whether a list must have at least one entry.
    pub requires_entry: bool,
    /// Whether values may contain commas, so that text is not split into a list at commas.
    pub allows_commas: bool,
    /// Names of the inputs that this one cannot be combined with.
    pub excludes: &'static [&'static str],
    /// The name of another input that must be given if this one is.
    pub requires: Option<&'static str>,
    /// The front ends that offer the input.
    pub face: Face,
    /// Checks that what a value names exists, such as a file or a policy.
    pub check: Option<Check>,
    /// Reads the value as the input's type does.
    pub(crate) read: fn(&Input, &Given) -> Result<(), AskError>,
}

/// A function that fails, with a complete message, if what a value names does not exist.
pub type Check = fn(&OsStr) -> Result<(), String>;

impl Input {
    /// Creates an input called `name`. Its type fills in the rest.
    pub fn new(name: &'static str, about: &'static str) -> Input {
        Input {
            // A Rust keyword is declared as a raw identifier, as in `r#for`.
            name: name.strip_prefix("r#").unwrap_or(name),
            about,
            arity: Arity::One,
            word: "",
            takes: Takes::Text,
            python: "str",
            choices: &[],
            default: None,
            command_default: None,
            default_text: None,
            range: None,
            short: None,
            is_positional: false,
            requires_entry: false,
            allows_commas: false,
            excludes: &[],
            requires: None,
            face: Face::Any,
            check: None,
            read: |_, _| Ok(()),
        }
    }

    /// Sets the default value, as users would write it.
    pub const fn default(self, default: &'static str) -> Input {
        Input { default: Some(default), ..self }
    }

    /// Sets the default value on the command line only.
    pub const fn default_on_command(self, default: &'static str) -> Input {
        Input { command_default: Some(default), ..self }
    }

    /// Sets the text that help shows in place of a default.
    pub const fn otherwise(self, said: &'static str) -> Input {
        Input { default_text: Some(said), ..self }
    }

    /// Sets the placeholder for the value in help.
    pub const fn word(self, word: &'static str) -> Input {
        Input { word, ..self }
    }

    /// Restricts a number to the range from `least` to `most`.
    pub const fn between(self, least: f64, most: f64) -> Input {
        Input { range: Some((least, most)), ..self }
    }

    /// Restricts a number to at least `least`.
    pub const fn at_least(self, least: f64) -> Input {
        Input { range: Some((least, f64::INFINITY)), ..self }
    }

    /// Sets the one-letter option on the command line. A positional input can then also be given as
    /// an option.
    pub const fn short(self, short: char) -> Input {
        Input { short: Some(short), ..self }
    }

    /// Makes the input positional.
    pub const fn positional(self) -> Input {
        Input { is_positional: true, ..self }
    }

    /// Requires at least one entry in a list.
    pub const fn at_least_one(self) -> Input {
        Input { requires_entry: true, ..self }
    }

    /// Allows commas in values, so that a list can only be given by repeating the option.
    pub const fn repeated(self) -> Input {
        Input { allows_commas: true, ..self }
    }

    /// Forbids combining the input with the named inputs.
    pub const fn excludes(self, names: &'static [&'static str]) -> Input {
        Input { excludes: names, ..self }
    }

    /// Requires that the named input is given as well.
    pub const fn requires(self, name: &'static str) -> Input {
        Input { requires: Some(name), ..self }
    }

    /// Replaces the type's check that what a value names exists.
    pub const fn checked(self, check: Check) -> Input {
        Input { check: Some(check), ..self }
    }

    /// Offers the input only on this front end.
    pub const fn only(self, face: Face) -> Input {
        Input { face, ..self }
    }

    /// Formats the range of numbers that the input accepts, such as "6 to 32" or "at least 1".
    pub fn range_text(&self) -> Option<String> {
        let (least, most) = self.range?;
        Some(match most.is_finite() {
            true => format!("{} to {}", limit(least), limit(most)),
            false => format!("at least {}", limit(least)),
        })
    }

    /// Returns whether the input must be given.
    pub fn is_required(&self) -> bool {
        self.requires_entry || self.arity == Arity::One && self.default.is_none()
    }

    /// Splits the description into paragraphs.
    pub fn paragraphs(&self) -> Vec<String> {
        paragraphs(self.about)
    }
}

/// Splits a doc comment into paragraphs and joins the lines of each.
pub fn paragraphs(about: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in about.lines().map(str::trim) {
        match (line, all.last_mut()) {
            ("", Some(last)) if !last.is_empty() => all.push(String::new()),
            (line, Some(last)) if last.is_empty() => last.push_str(line),
            (line, Some(last)) => {
                last.push(' ');
                last.push_str(line);
            }
            (_, None) => {}
        }
    }
    all.retain(|paragraph| !paragraph.is_empty());
    all
}

/// Formats a limit as people would write it, such as 4096 or 1e-6.
fn limit(limit: f64) -> String {
    match limit.abs() {
        size if size > 0.0 && !(1e-4..1e10).contains(&size) => format!("{limit:e}"),
        _ => limit.to_string(),
    }
}
