//! Formats errors in the arguments of a command.
//!
//! clap's own texts have up to seven lines. Every other message of Forebay is one line: what is
//! wrong, what is expected, and where to read more.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use forebay_ask::nearest;
use forebay_words::plural::listed;

/// Creates an error in the arguments with a complete message.
pub(crate) fn refusal(said: String) -> clap::Error {
    let mut error = clap::Error::new(ErrorKind::ValueValidation);
    error.insert(ContextKind::Custom, ContextValue::String(said));
    error
}

/// Marks an error as being about an argument that is missing.
pub(crate) fn missing(error: clap::Error) -> clap::Error {
    let mut missing = clap::Error::new(ErrorKind::MissingRequiredArgument);
    for (kind, value) in error.context() {
        missing.insert(kind, value.clone());
    }
    missing
}

/// Returns the message for a word that is not one of the commands below `above`, which is called
/// `name`.
pub(crate) fn no_command(above: &Command, name: &str, word: &str) -> String {
    let names: Vec<&str> = above.get_subcommands().map(Command::get_name).collect();
    // A user may leave out the first word of a command such as `plan sla`.
    let groups = above.get_subcommands().filter(|group| group.find_subcommand(word).is_some());
    let inner: Vec<String> = groups.map(|group| format!("{} {word}", group.get_name())).collect();
    let near = match inner.as_slice() {
        [] => suggestion(nearest(word, &names)),
        inner => suggestion(Some(inner.join(" or "))),
    };
    format!("no command '{word}'{near}; `{name} --help` lists all commands")
}

/// Formats an error in the arguments `given` (without the program's name) as one line.
pub(crate) fn message(error: &clap::Error, command: &mut Command, given: &[OsString]) -> String {
    command.build();
    let (verb, name) = verb(command, given);
    let refused = Refused { error, verb: &verb, name: &name, given };
    let said = refused.said().unwrap_or_else(|| {
        let whole = error.to_string();
        let first = whole.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
        first.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    // Arguments may contain line breaks, but the message is one line.
    said.replace(['\n', '\r', '\t'], " ")
}

/// Returns the verb that the arguments begin with, and its full name.
fn verb(command: &Command, given: &[OsString]) -> (Command, String) {
    let (mut verb, mut name) = (command, command.get_name().to_string());
    for word in given {
        let Some(inner) = word.to_str().and_then(|word| verb.find_subcommand(word)) else { break };
        name = format!("{name} {}", inner.get_name());
        verb = inner;
    }
    (verb.clone(), name)
}

fn one_of(names: &[&str]) -> String {
    match names {
        [only] => only.to_string(),
        all => format!("one of {}", all.join(", ")),
    }
}

fn suggestion(near: Option<impl std::fmt::Display>) -> String {
    near.map_or(String::new(), |near| format!(" (did you mean {near}?)"))
}

/// Returns the option without its value, or the placeholder of a positional argument without
/// brackets, from clap's description, such as `--device <DEVICE>` or `<TRACE>...`.
fn name_of(argument: &str) -> &str {
    match argument.split(' ').next() {
        Some(option) if option.starts_with('-') => {
            option.split(['=', '[']).next().unwrap_or(option)
        }
        _ => argument.trim_end_matches("...").trim_matches(['<', '>', '[', ']']),
    }
}

/// An error in the arguments of a verb.
struct Refused<'a> {
    error: &'a clap::Error,
    verb: &'a Command,
    /// The name of the verb with the program's name, such as `forebay plan sla`.
    name: &'a str,
    given: &'a [OsString],
}

impl Refused<'_> {
    /// Returns the message; `None` for an error without the expected details.
    fn said(&self) -> Option<String> {
        if let Some(said) = self.one(ContextKind::Custom) {
            return Some(said.to_string());
        }
        let see = format!("see `{} --help`", self.name);
        let argument = || self.one(ContextKind::InvalidArg).map(name_of);
        Some(match self.error.kind() {
            ErrorKind::UnknownArgument => self.unknown(self.one(ContextKind::InvalidArg)?, &see),
            ErrorKind::MissingRequiredArgument => {
                let missing: Vec<&str> =
                    self.all(ContextKind::InvalidArg).into_iter().map(name_of).collect();
                format!("missing {}, as in `{}`; {see}", listed(&missing), self.usage())
            }
            ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let names = self.verb.get_subcommands().map(Command::get_name);
                let names: Vec<&str> = names.filter(|name| *name != "help").collect();
                format!("missing command, expected {}; {see}", one_of(&names))
            }
            ErrorKind::InvalidSubcommand => {
                no_command(self.verb, self.name, self.one(ContextKind::InvalidSubcommand)?)
            }
            ErrorKind::InvalidValue => self.invalid_value(argument()?, &see)?,
            ErrorKind::TooManyValues => {
                let got = self.one(ContextKind::InvalidValue)?;
                format!("{}: got '{got}', expected no value; {see}", argument()?)
            }
            ErrorKind::ArgumentConflict => {
                let (argument, others) = (argument()?, self.all(ContextKind::PriorArg));
                match others.first().map(|other| name_of(other)) {
                    Some(other) if other != argument => format!(
                        "{argument}: cannot be combined with {other}; leave one of them out"
                    ),
                    _ => format!("{argument}: given more than once; give it once"),
                }
            }
            ErrorKind::InvalidUtf8 => format!("got an argument that is not UTF-8; {see}"),
            _ => return None,
        })
    }

    fn unknown(&self, argument: &str, see: &str) -> String {
        if !argument.starts_with('-') {
            return format!("too many arguments: '{argument}'; expected `{}`; {see}", self.usage());
        }
        let longs: Vec<&str> = self.verb.get_arguments().filter_map(|arg| arg.get_long()).collect();
        // clap reads `-format` as the option `-f`.
        let is_meant = |word: &&str| !word.starts_with("--") && word.starts_with(argument);
        let word = self.given.iter().filter_map(|word| word.to_str()).find(is_meant);
        let word = word.filter(|_| !argument.starts_with("--")).unwrap_or(argument);
        let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
        let near = (name.len() > 1).then(|| nearest(name, &longs)).flatten();
        let near = near.map(|near| format!("--{near}"));
        let near = near.or_else(|| self.one(ContextKind::SuggestedArg).map(String::from));
        let word = word.split('=').next().unwrap_or_default();
        match near {
            Some(near) => format!("no option '{word}'{}; {see}", suggestion(Some(near))),
            None => format!("no option '{word}', expected `{}`; {see}", self.usage()),
        }
    }

    fn invalid_value(&self, argument: &str, see: &str) -> Option<String> {
        let got = self.one(ContextKind::InvalidValue)?;
        let valid = self.all(ContextKind::ValidValue);
        let expected = match valid.as_slice() {
            [] => {
                let argument = self.one(ContextKind::InvalidArg)?;
                name_of(argument.split_once(' ').map_or(argument, |(_, value)| value)).to_string()
            }
            all => one_of(all),
        };
        if got.is_empty() {
            return Some(format!("{argument}: got no value, expected {expected}; {see}"));
        }
        let near = nearest(got, &valid).map(|near| format!("; did you mean {near}?"));
        let near = near.unwrap_or_default();
        Some(format!("{argument}: got '{got}', expected {expected}{near}"))
    }

    /// Returns how the verb is used, with the arguments that the error is about.
    fn usage(&self) -> String {
        let of_error = match self.error.get(ContextKind::Usage) {
            Some(ContextValue::StyledStr(usage))
                if self.error.kind() == ErrorKind::MissingRequiredArgument =>
            {
                Some(usage.to_string())
            }
            _ => None,
        };
        let usage = of_error.unwrap_or_else(|| self.verb.clone().render_usage().to_string());
        usage.trim_start_matches("Usage:").trim().to_string()
    }

    fn one(&self, kind: ContextKind) -> Option<&str> {
        self.all(kind).first().copied()
    }

    fn all(&self, kind: ContextKind) -> Vec<&str> {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => vec![text],
            Some(ContextValue::Strings(texts)) => texts.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }
}
