//! The commands COMMAND and CONFIG, which clients send before using a server. No setting can be
//! changed.

use super::{Reply, matches, table};

/// Executes COMMAND: returns the number of commands, but no details.
pub(super) fn commands(arguments: &[Vec<u8>]) -> Result<Reply, String> {
    let Some((part, rest)) = arguments.split_first() else { return Ok(Reply::Array(Vec::new())) };
    match &*part.to_ascii_uppercase() {
        b"COUNT" if rest.is_empty() => Ok(Reply::Integer(table::COUNT as i64)),
        b"COUNT" => Err(table::wrong_count("command|count")),
        b"DOCS" => Ok(Reply::Map(Vec::new())),
        _ => Err(table::unknown_part("COMMAND", part, "COUNT and DOCS")),
    }
}

/// Executes CONFIG GET, with which benchmarks determine the durability of writes.
pub(super) fn config(arguments: &[Vec<u8>], is_durable: bool) -> Result<Reply, String> {
    match arguments.len() {
        _ if !arguments[0].eq_ignore_ascii_case(b"GET") => {
            return Err(table::unknown_part("CONFIG", &arguments[0], "GET"));
        }
        1 => return Err(table::wrong_count("config|get")),
        _ => {}
    }
    let known = [
        // In Redis, this value means that no periodic snapshots are taken. Benchmarks query it.
        ("save", ""),
        ("appendonly", "yes"),
        ("appendfsync", if is_durable { "always" } else { "no" }),
    ];
    let is_asked = |name: &str| {
        arguments[1..].iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let asked = known.iter().filter(|(name, _)| is_asked(name));
    let pair = |(name, value): &(&str, &str)| (Reply::text(name), Reply::text(value));
    Ok(Reply::Map(asked.map(pair).collect()))
}
