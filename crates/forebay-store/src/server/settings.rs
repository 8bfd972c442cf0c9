//! What clients ask of a server before they use it: COMMAND and CONFIG. Nothing can be set.

use super::glob::matches;
use super::reply::Reply;
use super::table;

/// What COMMAND says: how many there are; and of each of them nothing.
pub(super) fn commands(arguments: &[Vec<u8>]) -> Result<Reply, String> {
    let Some((part, rest)) = arguments.split_first() else { return Ok(Reply::Array(Vec::new())) };
    match &*part.to_ascii_uppercase() {
        b"COUNT" if rest.is_empty() => Ok(Reply::Integer(table::COUNT as i64)),
        b"COUNT" => Err(table::wrong_count("command|count")),
        b"DOCS" => Ok(Reply::Map(Vec::new())),
        _ => Err(table::unknown_part("COMMAND", part, "COUNT and DOCS")),
    }
}

/// CONFIG GET, of which benchmarks want to know how durable writes are.
pub(super) fn config(arguments: &[Vec<u8>], is_durable: bool) -> Result<Reply, String> {
    match arguments.len() {
        _ if !arguments[0].eq_ignore_ascii_case(b"GET") => {
            return Err(table::unknown_part("CONFIG", &arguments[0], "GET"));
        }
        1 => return Err(table::wrong_count("config|get")),
        _ => {}
    }
    let known = [
        // What Redis says where it keeps no snapshots of its own accord; benchmarks ask for it.
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
