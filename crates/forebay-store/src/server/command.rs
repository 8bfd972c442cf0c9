//! Parses the commands of a Redis client.
//!
//! A command is an array of bulk strings, in RESP2 and RESP3 alike (the Redis serialization
//! protocol specification, "Sending commands to a Redis server"), or words on one line, as typed by
//! hand. All lengths are validated before the bytes are passed to the RESP decoder, so that clients
//! cannot cause large allocations or deep nesting.

use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

/// The maximum number of arguments of a command.
const ARGUMENTS_MAX: usize = 1 << 16;
/// The maximum length of a line other than a bulk string.
const LINE_MAX: usize = 64 << 10;

/// The words of a command.
pub(crate) type Words = Vec<Vec<u8>>;

/// Parses the command at the start of `bytes` and returns it with its length; returns None if it is
/// incomplete.
///
/// # Errors
/// Describes what is wrong, after which the rest of the connection cannot be parsed.
pub(crate) fn next(bytes: &[u8], bytes_max: usize) -> Result<Option<(Words, usize)>, String> {
    if bytes.first().is_some_and(|first| *first != b'*') {
        return inline(bytes);
    }
    let Some(len) = whole(bytes, bytes_max)? else { return Ok(None) };
    let wrong =
        |error: redis_protocol::error::RedisProtocolError| format!("Protocol error: {error}");
    match decode_range(&bytes[..len]).map_err(wrong)? {
        // An array of length -1 is an empty command.
        Some((RangeFrame::Null, used)) if used == len => Ok(Some((Vec::new(), len))),
        Some((RangeFrame::Array(items), used)) if used == len => {
            let word = |item: &RangeFrame| match item {
                RangeFrame::BulkString((from, upto)) => Ok(bytes[*from..*upto].to_vec()),
                _ => Err("Protocol error: expected bulk strings".to_string()),
            };
            Ok(Some((items.iter().map(word).collect::<Result<_, _>>()?, len)))
        }
        _ => Err("Protocol error: expected an array of bulk strings".into()),
    }
}

/// Parses a command given as words on one line.
fn inline(bytes: &[u8]) -> Result<Option<(Words, usize)>, String> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() > LINE_MAX {
            Err("Protocol error: too big inline request".into())
        } else {
            Ok(None)
        };
    };
    let words = bytes[..end].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    Ok(Some((words.map(<[u8]>::to_vec).collect(), end + 1)))
}

/// Returns the length of the command at the start of `bytes`, once it is complete.
fn whole(bytes: &[u8], bytes_max: usize) -> Result<Option<usize>, String> {
    let Some((count, mut at)) = number(bytes, 0, b'*')? else { return Ok(None) };
    let count = usize::try_from(count).unwrap_or(0);
    if count > ARGUMENTS_MAX {
        return Err(format!(
            "Protocol error: got {count} arguments, expected at most {ARGUMENTS_MAX}"
        ));
    }
    for _ in 0..count {
        let Some((len, begin)) = number(bytes, at, b'$')? else { return Ok(None) };
        let len = usize::try_from(len).map_err(|_| "Protocol error: invalid bulk length")?;
        if begin - at > LINE_MAX || begin.saturating_add(len) > bytes_max {
            return Err(format!("Protocol error: a command is longer than {bytes_max} bytes"));
        }
        at = begin + len + 2;
        if bytes.len() < at {
            return Ok(None);
        }
        if &bytes[at - 2..at] != b"\r\n" {
            return Err("Protocol error: a bulk string does not end where it says".into());
        }
    }
    Ok(Some(at))
}

/// Parses the number that follows `mark` at a position; also returns the position after its line.
fn number(bytes: &[u8], at: usize, mark: u8) -> Result<Option<(i64, usize)>, String> {
    let line = &bytes[at.min(bytes.len())..];
    let Some(first) = line.first() else { return Ok(None) };
    if *first != mark {
        return Err(format!(
            "Protocol error: expected '{}', got '{}'",
            mark as char,
            first.escape_ascii()
        ));
    }
    // No valid number is longer than this.
    let Some(end) = line.iter().take(24).position(|byte| *byte == b'\r') else {
        return if line.len() < 24 {
            Ok(None)
        } else {
            Err("Protocol error: invalid length".into())
        };
    };
    if line.len() < end + 2 {
        return Ok(None);
    }
    let number = std::str::from_utf8(&line[1..end]).ok().and_then(|text| text.parse().ok());
    match number {
        Some(number) if line[end + 1] == b'\n' => Ok(Some((number, at + end + 2))),
        _ => Err("Protocol error: invalid length".into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        bytes
    }

    proptest! {
        #[test]
        fn commands_are_read_once_they_are_whole(
            words in proptest::collection::vec(proptest::collection::vec(0..=255_u8, 0..40), 1..6),
            more in proptest::collection::vec(0..=255_u8, 0..10),
        ) {
            let bytes = encoded(&words);
            for len in 0..bytes.len() {
                prop_assert_eq!(next(&bytes[..len], 1000), Ok(None));
            }
            let all = [&bytes[..], &more].concat();
            prop_assert_eq!(next(&all, 1000), Ok(Some((words, bytes.len()))));
        }

        #[test]
        fn arbitrary_bytes_cause_no_panic(bytes in proptest::collection::vec(prop_oneof![
            Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'-'), b'0'..=b'9', 0..=255_u8,
        ], 0..60)) {
            if let Ok(Some((words, used))) = next(&bytes, 100) {
                prop_assert!(used <= bytes.len() && words.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn lengths_are_not_believed() {
        let refused = |text: &str| next(text.as_bytes(), 1000).unwrap_err();
        assert!(refused("*1000000000\r\n").contains("at most"));
        assert!(refused("*1\r\n$1000000000\r\n").contains("longer than 1000"));
        assert!(refused("*1\r\n*1\r\n").contains("expected '$'"));
        assert!(refused("*1\r\n$-1\r\n").contains("invalid bulk length"));
        assert!(refused("*1\r\n$3\r\nabcde").contains("does not end"));
        assert!(refused("*99999999999999999999999\r\n").contains("invalid length"));
        assert_eq!(next(b"*0\r\n", 10), Ok(Some((vec![], 4))));
        assert_eq!(next(b"*-1\r\n", 10), Ok(Some((vec![], 5))));
    }

    #[test]
    fn words_in_a_line_are_a_command() {
        let words =
            |text: &str| next(text.as_bytes(), 10).map(|next| next.map(|(words, _)| words.len()));
        assert_eq!(words("GET  key\r\n"), Ok(Some(2)));
        assert_eq!(words("\r\n"), Ok(Some(0)));
        assert_eq!(words("GET"), Ok(None));
    }
}
