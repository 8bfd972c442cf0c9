//! The supported commands and their numbers of arguments.

/// A supported command.
struct Rule {
    name: &'static str,
    least: usize,
    most: usize,
}

const MANY: usize = usize::MAX;

const fn rule(name: &'static str, least: usize, most: usize) -> Rule {
    Rule { name, least, most }
}

const RULES: [Rule; 23] = [
    rule("GET", 1, 1),
    rule("SET", 2, MANY),
    rule("DEL", 1, MANY),
    rule("UNLINK", 1, MANY),
    rule("EXISTS", 1, MANY),
    rule("MGET", 1, MANY),
    rule("MSET", 2, MANY),
    rule("SCAN", 1, MANY),
    rule("DBSIZE", 0, 0),
    rule("INFO", 0, MANY),
    rule("PING", 0, 1),
    rule("ECHO", 1, 1),
    rule("SELECT", 1, 1),
    rule("AUTH", 1, 2),
    rule("HELLO", 0, MANY),
    rule("COMMAND", 0, MANY),
    rule("CLIENT", 1, MANY),
    rule("CONFIG", 1, MANY),
    rule("QUIT", 0, MANY),
    rule("MULTI", 0, 0),
    rule("EXEC", 0, 0),
    rule("DISCARD", 0, 0),
    rule("RESET", 0, 0),
];

/// The number of supported commands.
pub(super) const COUNT: usize = RULES.len();

/// The maximum length of client input quoted in a message.
const REPEATED: usize = 64;

/// Checks that a command, whose name is in upper case, exists and accepts this number of arguments.
///
/// # Errors
/// Describes the problem.
pub(super) fn fits(name: &str, arguments: usize) -> Result<(), String> {
    if ["WATCH", "UNWATCH"].contains(&name) {
        return Err(format!(
            "ERR {name} is not supported: MULTI to EXEC is atomic, but keys cannot be watched"
        ));
    }
    let Some(rule) = RULES.iter().find(|rule| rule.name == name) else {
        return Err(format!("ERR unknown command '{}'", repeated(name.as_bytes())));
    };
    let is_odd = name == "MSET" && !arguments.is_multiple_of(2);
    match (rule.least..=rule.most).contains(&arguments) && !is_odd {
        true => Ok(()),
        false => Err(wrong_count(&name.to_lowercase())),
    }
}

/// Formats the error for a wrong number of arguments; the command's name is in lower case.
pub(super) fn wrong_count(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

/// Formats the error for an unknown subcommand.
pub(super) fn unknown_part(name: &str, part: &[u8], known: &str) -> String {
    format!("ERR unknown subcommand '{}': {name} supports {known}", repeated(part))
}

/// Shortens client input for a message.
pub(super) fn repeated(said: &[u8]) -> String {
    let some = &said[..said.len().min(REPEATED)];
    String::from_utf8_lossy(some).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::metrics;

    #[test]
    fn every_command_is_counted_by_its_name() {
        let names: Vec<String> = RULES.iter().map(|rule| rule.name.to_lowercase()).collect();
        let counted: Vec<&str> = metrics::COMMANDS.to_vec();
        assert_eq!(counted[..counted.len() - 1], names);
    }

    #[test]
    fn repeated_names_are_short_and_one_line() {
        assert_eq!(repeated(b"a'\r\n\xff"), "a\\'\\r\\n\u{fffd}");
        assert!(fits(&"x".repeat(1 << 20), 0).unwrap_err().len() < 100);
    }
}
