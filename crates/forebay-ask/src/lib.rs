//! The inputs of a verb, declared once.
//!
//! [`ask!`] declares each input's name, type, default, range and description. The command line, the
//! Python functions, the docs and error messages are generated from that declaration. All front
//! ends parse values from text as people write them, so they accept the same values and report the
//! same errors. Messages name inputs neutrally ([`named`]); each front end spells the names its own
//! way ([`spelled`]).

#![forbid(unsafe_code)]

mod declare;
mod given;
mod input;
mod reference;
mod shell;
mod spelling;
mod units;
mod value;

pub use forebay_core::contract::near::{nearest, suggestion};
pub use given::{Given, GivenValue};
pub use input::{Arity, Check, Choice, Face, Input, Takes, paragraphs};
pub use reference::reference;
pub use shell::shell_word;
pub use spelling::{Spelling, named, python_name, spelled};
pub use units::{Delay, PartialShare, Share, Size, decimal, duration, positive_duration};
pub use value::{Field, Parsed, Value, exists, one_of};

use std::fmt;

/// The inputs of a verb, or a group of inputs that several verbs share.
pub trait Ask: Sized {
    /// The name of the verb, as in `plan capacity`; empty for a group.
    const VERB: &'static str;
    /// The description of the verb: one line, optionally followed by paragraphs.
    const ABOUT: &'static str;

    /// Returns all inputs, including those of groups.
    fn inputs() -> Vec<Input>;

    /// Reads the values of all inputs.
    ///
    /// # Errors
    /// Fails with the first input that is missing or malformed.
    fn fill(given: &Given) -> Result<Self, AskError>;
}

/// Reads an [`Ask`] from the inputs that the user gave. A malformed input is reported before a
/// missing one.
///
/// # Errors
/// Fails if a name is unknown, if two inputs exclude each other, or if [`Ask::fill`] fails.
pub fn read<A: Ask>(given: &Given) -> Result<A, AskError> {
    let inputs = A::inputs();
    given.check(&inputs)?;
    inputs
        .iter()
        .filter(|input| given.has(input.name))
        .try_for_each(|input| (input.read)(input, given))?;
    A::fill(given)
}

/// Checks that whatever the given inputs name exists, such as files and policies.
///
/// # Errors
/// Returns a complete message about the first one that does not exist.
pub fn check<A: Ask>(given: &Given) -> Result<(), String> {
    A::inputs().iter().try_for_each(|input| given.check_named(input))
}

/// An input that is missing, malformed or out of place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskError {
    /// The name of the input that is wrong.
    pub input: String,
    /// A message that states the given value, the expected one, and what to do. It names other
    /// inputs through [`named`].
    pub message: String,
}

impl AskError {
    /// Creates an error about the input `name`.
    pub fn new(name: &str, message: impl Into<String>) -> AskError {
        AskError { input: name.to_string(), message: message.into() }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", named(&self.input), self.message)
    }
}

impl std::error::Error for AskError {}
