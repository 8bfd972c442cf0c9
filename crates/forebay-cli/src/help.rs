//! Makes `forebay help VERB` print the same text as `forebay VERB --help`.
//!
//! Replaces clap's built-in `help`, which does not accept `--help` and whose description does not
//! fit ours.

use clap::{Arg, ArgMatches, Command};

use crate::usage;

const HELP: &str = "help";
const VERB: &str = "COMMAND";

/// Adds a `help` subcommand wherever there are other subcommands.
pub(crate) fn added(command: Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_string()).collect();
    if names.is_empty() {
        return command;
    }
    let verb =
        Arg::new(VERB).num_args(0..).help("The command with its parent commands, such as plan sla");
    let help = Command::new(HELP).about("Explain a command, or list them all").arg(verb);
    let command = names.into_iter().fold(command, |all, name| all.mut_subcommand(name, added));
    command.disable_help_subcommand(true).subcommand(help)
}

/// Returns the requested text if the user ran a `help` subcommand, or "no such verb". Like clap,
/// returns it as an error to print.
pub(crate) fn asked(command: &mut Command, matches: &ArgMatches) -> Option<clap::Error> {
    let mut path = vec![command.get_name().to_string()];
    let mut matches = matches;
    let words = loop {
        let (name, below) = matches.subcommand()?;
        if name == HELP {
            break below.get_many::<String>(VERB).into_iter().flatten();
        }
        path.push(name.to_string());
        matches = below;
    };
    path.extend(words.cloned());
    if let Some(said) = unknown(command, &path) {
        return Some(usage::refusal(said));
    }
    command.try_get_matches_from_mut(path.iter().map(String::as_str).chain(["--help"])).err()
}

/// Returns the message about the first word of `path` that is not a verb.
fn unknown(command: &Command, path: &[String]) -> Option<String> {
    let mut command = command;
    for (nth, word) in path.iter().enumerate().skip(1) {
        match command.find_subcommand(word) {
            Some(found) => command = found,
            None => return Some(usage::no_command(command, &path.get(..nth)?.join(" "), word)),
        }
    }
    None
}
