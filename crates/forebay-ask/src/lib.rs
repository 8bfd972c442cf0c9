//! The inputs of a verb, declared once.
//!
//! [`ask!`] declares a verb's inputs: name, type, default, range and one sentence each. The command line, Python, the docs
//! and error messages are made from that declaration. Values come as people write them, so that all faces accept the
//! same and refuse the same in the same words. Messages name inputs neutrally ([`named`]); each face spells them its own
//! way ([`spelled`]).

#![forbid(unsafe_code)]

mod declare;
mod given;
mod input;
mod reference;
mod spelling;
mod units;
mod value;

pub use forebay_core::contract::near::nearest;
pub use given::{Given, GivenValue};
pub use input::{Arity, Choice, Face, Input, Takes, paragraphs};
pub use reference::reference;
pub use spelling::{Spelling, named, python_name, spelled};
pub use units::{Delay, PartialShare, Share, Size, decimal, duration, positive_duration};
pub use value::{Field, Parsed, Value};

use std::fmt;

/// The inputs of a verb, or a group of inputs that several verbs share.
pub trait Ask: Sized {
    /// The verb, as in `plan capacity`; empty for a group.
    const VERB: &'static str;
    /// Its description: a line, optionally followed by paragraphs.
    const ABOUT: &'static str;

    /// Its inputs, those of its groups among them.
    fn inputs() -> Vec<Input>;

    /// Reads all inputs from what was given.
    ///
    /// # Errors
    /// The first input that is missing or malformed.
    fn fill(given: &Given) -> Result<Self, AskError>;
}

/// Reads an [`Ask`] from what was given.
///
/// # Errors
/// An unknown name, inputs that exclude each other, and whatever [`Ask::fill`] refuses.
pub fn read<A: Ask>(given: &Given) -> Result<A, AskError> {
    given.check(&A::inputs())?;
    A::fill(given)
}

/// An input that is missing, malformed or out of place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskError {
    /// The input's name.
    pub input: String,
    /// The value that was given, what was expected, and what to do. It refers to other inputs through [`named`].
    pub said: String,
}

impl AskError {
    /// An error about the input `name`.
    pub fn new(name: &str, said: impl Into<String>) -> AskError {
        AskError { input: name.to_string(), said: said.into() }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", named(&self.input), self.said)
    }
}

impl std::error::Error for AskError {}
