//! Inputs, as verbs declare them.

/// How often an input can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Takes no value. It is false unless given.
    Flag,
    /// Required exactly once, unless it has a default.
    One,
    /// At most once.
    Optional,
    /// Several times, or several values in one, separated by commas.
    List,
}

/// The kinds of value that faces accept. Every value can also be given as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Text.
    Text,
    /// A number.
    Number,
    /// A path, which need not be valid text.
    Path,
    /// A path, or pairs of numbers.
    PathOrPairs,
    /// Text, or a dict.
    TextOrDict,
    /// A trace: a path, or an object of the face's own.
    Trace,
    /// A policy: its name, or an object of the face's own.
    Policy,
}

impl Takes {
    /// Whether the command line passes the value on as a path.
    pub fn is_path(self) -> bool {
        matches!(self, Takes::Path | Takes::PathOrPairs | Takes::Trace)
    }
}

/// One of the words that an input accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// Its meaning, in one line.
    pub about: &'static str,
}

/// Which faces offer an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// All faces.
    Any,
    /// The command line.
    Command,
    /// Python.
    Python,
}

/// An input: what help, signatures, docs and error messages say of it.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// Its name in snake_case, as in Python; the command line writes `--kebab-case`.
    pub name: &'static str,
    /// Its description: a sentence, optionally followed by paragraphs with details.
    pub about: &'static str,
    /// How often it can be given.
    pub arity: Arity,
    /// The placeholder for its value in help, such as `TIME`.
    pub word: &'static str,
    /// The kinds of value that faces accept.
    pub takes: Takes,
    /// Its type in Python's annotations.
    pub python: &'static str,
    /// The words that it accepts; empty where it is no choice.
    pub choices: &'static [Choice],
    /// Its value unless one is given.
    pub default: Option<&'static str>,
    /// Its value on the command line unless one is given there.
    pub command_default: Option<&'static str>,
    /// The text that help shows in place of a default.
    pub default_said: Option<&'static str>,
    /// The least and the greatest value.
    pub range: Option<(f64, f64)>,
    /// Its letter on the command line.
    pub short: Option<char>,
    /// Whether it is positional on the command line, and comes first in Python.
    pub is_positional: bool,
    /// Whether a list may not be empty.
    pub needs_one: bool,
    /// Whether commas are part of its values.
    pub keeps_commas: bool,
    /// The inputs that it cannot be combined with.
    pub excludes: &'static [&'static str],
    /// The input that it makes sense with.
    pub requires: Option<&'static str>,
    /// Which faces offer it.
    pub face: Face,
}

impl Input {
    /// An input called `name`. Its type fills in the rest.
    pub fn new(name: &'static str, about: &'static str) -> Input {
        Input {
            // A word of Rust's own is declared as `r#for`.
            name: name.strip_prefix("r#").unwrap_or(name),
            about,
            arity: Arity::One,
            word: "",
            takes: Takes::Text,
            python: "str",
            choices: &[],
            default: None,
            command_default: None,
            default_said: None,
            range: None,
            short: None,
            is_positional: false,
            needs_one: false,
            keeps_commas: false,
            excludes: &[],
            requires: None,
            face: Face::Any,
        }
    }

    /// Its value unless one is given, as people write it.
    pub const fn default(self, default: &'static str) -> Input {
        Input { default: Some(default), ..self }
    }

    /// Its value on the command line unless one is given there. Other faces have no default.
    pub const fn default_on_command(self, default: &'static str) -> Input {
        Input { command_default: Some(default), ..self }
    }

    /// Describes in help what happens if the input is not given.
    pub const fn otherwise(self, said: &'static str) -> Input {
        Input { default_said: Some(said), ..self }
    }

    /// The placeholder for its value in help.
    pub const fn word(self, word: &'static str) -> Input {
        Input { word, ..self }
    }

    /// A number from `least` to `most`.
    pub const fn between(self, least: f64, most: f64) -> Input {
        Input { range: Some((least, most)), ..self }
    }

    /// A number of at least `least`.
    pub const fn at_least(self, least: f64) -> Input {
        Input { range: Some((least, f64::INFINITY)), ..self }
    }

    /// Its letter on the command line.
    pub const fn short(self, short: char) -> Input {
        Input { short: Some(short), ..self }
    }

    /// Makes the input positional.
    pub const fn positional(self) -> Input {
        Input { is_positional: true, ..self }
    }

    /// A list that may not be empty.
    pub const fn at_least_one(self) -> Input {
        Input { needs_one: true, ..self }
    }

    /// Commas are part of its values, so it is repeated for several.
    pub const fn repeated(self) -> Input {
        Input { keeps_commas: true, ..self }
    }

    /// Cannot be combined with these.
    pub const fn excludes(self, names: &'static [&'static str]) -> Input {
        Input { excludes: names, ..self }
    }

    /// Makes sense only with this.
    pub const fn requires(self, name: &'static str) -> Input {
        Input { requires: Some(name), ..self }
    }

    /// Only this face offers it.
    pub const fn only(self, face: Face) -> Input {
        Input { face, ..self }
    }

    /// Whether a verb cannot do without it.
    pub fn is_required(&self) -> bool {
        self.needs_one || self.arity == Arity::One && self.default.is_none()
    }

    /// The first paragraph of its description.
    pub fn sentence(&self) -> String {
        self.paragraphs().first().cloned().unwrap_or_default()
    }

    /// Its description, split into paragraphs.
    pub fn paragraphs(&self) -> Vec<String> {
        paragraphs(self.about)
    }
}

/// The paragraphs of a doc comment, each in one line.
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
