//! The types that inputs can have, and how their values are read.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forebay_core::Nanos;

use crate::AskError;
use crate::given::Given;
use crate::input::{Arity, Check, Choice, Input, Takes};
use crate::nearest;
use crate::units::{Delay, PartialShare, Share, Size, duration, positive_duration};

/// The type of a field in an [`ask!`](crate::ask) declaration: a value, or a group of inputs.
pub trait Field: Sized {
    /// Appends the declarations of the inputs that the field is read from.
    fn declare(input: Input, all: &mut Vec<Input>);
    /// Reads the value of the field.
    ///
    /// # Errors
    /// Fails if an input is missing or malformed.
    fn fill(input: Input, given: &Given) -> Result<Self, AskError>;
}

/// A type that an input can have, with its properties.
pub trait Value: Sized {
    /// How often the input can be given.
    const ARITY: Arity = Arity::One;
    /// The placeholder for a value in help.
    const WORD: &'static str;
    /// The kinds of value that front ends accept for this type.
    const TAKES: Takes = Takes::Text;
    /// The type's name in Python annotations.
    const PYTHON: &'static str = "str";
    /// The words that the type accepts, if it is an enumeration.
    const CHOICES: &'static [Choice] = &[];
    /// Checks that what a value names exists, before a verb runs.
    const CHECK: Option<Check> = None;

    /// Parses a value as users write it.
    ///
    /// # Errors
    /// Returns a message that states what was given and what was expected.
    fn parse(text: &str) -> Result<Self, String>;

    /// Returns the value as a number, to be compared with the input's range; `None` if it has none.
    fn number(&self) -> Option<f64> {
        None
    }

    /// Returns the values of an object that a front end passed instead of text; `None` if there is
    /// none.
    fn of_object(_: &Input, _: &Given) -> Option<Vec<Self>> {
        None
    }

    /// Reads the value of an input.
    ///
    /// # Errors
    /// Fails if a value is missing, malformed or out of range.
    fn read(input: &Input, given: &Given) -> Result<Self, AskError> {
        if let Some(value) = Self::of_object(input, given).and_then(|mut all| all.pop()) {
            return Ok(value);
        }
        match given.of(input)?.as_slice() {
            [text] => checked(input, text),
            [] => Err(AskError::new(input.name, format!("missing; expected {}", expected(input)))),
            [..] => Err(AskError::new(input.name, "got several values, expected one")),
        }
    }
}

/// Describes the value that an input expects, for the error that none was given.
fn expected(input: &Input) -> String {
    match input.choices {
        [] => input.word.to_string(),
        choices => {
            let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
            format!("one of {}", names.join(", "))
        }
    }
}

/// Parses a value and checks its range. An error about a misspelled word suggests the correct one.
fn checked<T: Value>(input: &Input, text: &str) -> Result<T, AskError> {
    let value = T::parse(text).map_err(|said| {
        let names: Vec<&str> = input.choices.iter().map(|choice| choice.name).collect();
        let near = nearest(text, &names).filter(|_| !said.contains("did you mean"));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        AskError::new(input.name, said + &near)
    })?;
    if let (Some((least, most)), Some(number)) = (input.range, value.number())
        && !(least..=most).contains(&number)
    {
        let before = if most.is_finite() { "from" } else { "of" };
        let range = input.range_text().unwrap_or_default();
        let said = format!("got '{text}', expected a number {before} {range}");
        return Err(AskError::new(input.name, said));
    }
    Ok(value)
}

impl<T: Value> Field for T {
    fn declare(input: Input, all: &mut Vec<Input>) {
        all.push(shaped::<T>(input));
    }

    fn fill(input: Input, given: &Given) -> Result<Self, AskError> {
        T::read(&shaped::<T>(input), given)
    }
}

/// Completes `input` with the properties of its type `T`.
fn shaped<T: Value>(input: Input) -> Input {
    let word = if input.word.is_empty() { T::WORD } else { input.word };
    Input {
        arity: T::ARITY,
        word,
        takes: T::TAKES,
        python: T::PYTHON,
        choices: T::CHOICES,
        check: input.check.or(T::CHECK),
        read: |input, given| T::read(input, given).map(drop),
        ..input
    }
}

/// Checks that a file or folder exists, and that a file can be read.
///
/// # Errors
/// Returns the path and the operating system's message.
pub fn exists(path: &OsStr) -> Result<(), String> {
    let path = Path::new(path);
    let found = fs::metadata(path).and_then(|found| match found.is_file() {
        true => File::open(path).map(drop),
        // Opening a pipe or a device may wait or have effects.
        false => Ok(()),
    });
    // Reading the file reports other errors.
    let is_missing = |kind| {
        [ErrorKind::NotFound, ErrorKind::NotADirectory, ErrorKind::PermissionDenied].contains(&kind)
    };
    match found {
        Err(error) if is_missing(error.kind()) => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}

impl<T: Value> Value for Option<T> {
    const ARITY: Arity = Arity::Optional;
    const WORD: &'static str = T::WORD;
    const TAKES: Takes = T::TAKES;
    const PYTHON: &'static str = T::PYTHON;
    const CHOICES: &'static [Choice] = T::CHOICES;
    const CHECK: Option<Check> = T::CHECK;

    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(Some)
    }

    fn number(&self) -> Option<f64> {
        self.as_ref().and_then(T::number)
    }

    fn read(input: &Input, given: &Given) -> Result<Self, AskError> {
        let is_given = given.has(input.name) || input.default.is_some();
        if is_given { T::read(input, given).map(Some) } else { Ok(None) }
    }
}

impl<T: Value> Value for Vec<T> {
    const ARITY: Arity = Arity::List;
    const WORD: &'static str = T::WORD;
    const TAKES: Takes = T::TAKES;
    const PYTHON: &'static str = T::PYTHON;
    const CHOICES: &'static [Choice] = T::CHOICES;
    const CHECK: Option<Check> = T::CHECK;

    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(|one| vec![one])
    }

    fn read(input: &Input, given: &Given) -> Result<Self, AskError> {
        let values = match T::of_object(input, given) {
            Some(values) => values,
            None => {
                let texts = given.of(input)?;
                texts.iter().map(|text| checked(input, text.trim())).collect::<Result<_, _>>()?
            }
        };
        if values.is_empty() && (given.has(input.name) || input.requires_entry) {
            return Err(AskError::new(input.name, "got none, expected at least one"));
        }
        Ok(values)
    }
}

impl Value for bool {
    const ARITY: Arity = Arity::Flag;
    const WORD: &'static str = "";
    const PYTHON: &'static str = "bool";

    fn parse(text: &str) -> Result<bool, String> {
        text.parse().map_err(|_| format!("got '{text}', expected true or false"))
    }

    fn read(input: &Input, given: &Given) -> Result<bool, AskError> {
        if given.has(input.name) { checked(input, &given.of(input)?.concat()) } else { Ok(false) }
    }
}

impl Value for String {
    const WORD: &'static str = "TEXT";

    fn parse(text: &str) -> Result<String, String> {
        Ok(text.to_string())
    }
}

impl Value for PathBuf {
    const WORD: &'static str = "FILE";
    const TAKES: Takes = Takes::Path;
    const PYTHON: &'static str = "str | PathLike[str]";

    fn parse(text: &str) -> Result<PathBuf, String> {
        Ok(PathBuf::from(text))
    }

    /// Front ends may pass paths as objects, because paths need not be valid UTF-8.
    fn of_object(input: &Input, given: &Given) -> Option<Vec<PathBuf>> {
        given.as_object::<Vec<PathBuf>>(input.name).cloned()
    }
}

macro_rules! numbers {
    ($($type:ty: $python:literal, $expected:literal;)*) => {
        $(impl Value for $type {
            const WORD: &'static str = "NUMBER";
            const TAKES: Takes = Takes::Number;
            const PYTHON: &'static str = $python;

            fn parse(text: &str) -> Result<$type, String> {
                text.trim().parse().map_err(|_| format!("got '{text}', expected {}", $expected))
            }

            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }
        })*
    };
}

numbers! {
    u16: "int", "a whole number from 0 to 65535";
    u32: "int", "a whole number from 0 to 4294967295";
    u64: "int", "a whole number from 0 to 18446744073709551615";
    usize: "int", "a whole number of at least 0";
    f64: "float", "a number";
}

impl Value for Nanos {
    const WORD: &'static str = "TIME";

    fn parse(text: &str) -> Result<Nanos, String> {
        positive_duration(text)
    }
}

impl Value for Delay {
    const WORD: &'static str = "TIME";

    fn parse(text: &str) -> Result<Delay, String> {
        duration(text).map(Delay)
    }
}

impl Value for Size {
    const WORD: &'static str = "SIZE";
    const TAKES: Takes = Takes::Number;
    const PYTHON: &'static str = "str | int";

    fn parse(text: &str) -> Result<Size, String> {
        text.parse()
    }

    fn number(&self) -> Option<f64> {
        Some(self.bytes as f64)
    }
}

impl Value for Share {
    const WORD: &'static str = "SHARE";
    const TAKES: Takes = Takes::Number;
    const PYTHON: &'static str = "str | float";

    fn parse(text: &str) -> Result<Share, String> {
        text.parse()
    }

    fn number(&self) -> Option<f64> {
        Some(self.as_f64())
    }
}

impl Value for PartialShare {
    const WORD: &'static str = "SHARE";
    const TAKES: Takes = Takes::Number;
    const PYTHON: &'static str = "str | float";

    fn parse(text: &str) -> Result<PartialShare, String> {
        text.parse()
    }

    fn number(&self) -> Option<f64> {
        Some(self.0)
    }
}

/// A value whose foreign type implements `FromStr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<T>(pub T);

impl<T> Deref for Parsed<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromStr<Err: Display>> Value for Parsed<T> {
    const WORD: &'static str = "VALUE";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map(Parsed).map_err(|error: T::Err| error.to_string())
    }
}
/// Returns the one of `values` whose name in `choices`, at the same position, is `text`.
///
/// # Errors
/// Returns the names, if `text` is none of them.
pub fn one_of<T, const N: usize>(
    text: &str,
    choices: &[Choice],
    values: [T; N],
) -> Result<T, String> {
    let mut named = choices.iter().zip(values);
    if let Some((_, value)) = named.find(|(choice, _)| choice.name == text) {
        return Ok(value);
    }
    let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
    let expected = match names.as_slice() {
        [] => String::new(),
        [only] => only.to_string(),
        [all @ .., last] => format!("{} or {last}", all.join(", ")),
    };
    Err(format!("got '{text}', expected {expected}"))
}
