//! Replies and their encoding in RESP2 and RESP3.

use crate::Value;

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A word such as OK.
    Simple(&'static str),
    Error(String),
    Integer(i64),
    Bulk(Value),
    Null,
    Array(Vec<Reply>),
    /// Pairs; in RESP2, an array of alternating keys and values.
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    pub(crate) fn text(text: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(text.as_ref().into())
    }

    /// Returns the number of bytes of the reply's content.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Reply::Bulk(bytes) => bytes.len(),
            Reply::Array(items) => items.iter().map(Reply::bytes).sum(),
            Reply::Map(pairs) => pairs.iter().map(|(key, value)| key.bytes() + value.bytes()).sum(),
            _ => 0,
        }
    }

    /// Appends the encoded reply.
    pub(crate) fn put(&self, out: &mut Vec<u8>, is_resp3: bool) {
        let mut line =
            |mark: char, text: &str| out.extend(format!("{mark}{text}\r\n").into_bytes());
        match self {
            Reply::Simple(word) => line('+', word),
            // An error must be a single line.
            Reply::Error(what) => line('-', &what.replace(['\r', '\n'], " ")),
            Reply::Integer(number) => line(':', &number.to_string()),
            Reply::Null if is_resp3 => line('_', ""),
            Reply::Null => line('$', "-1"),
            Reply::Bulk(bytes) => {
                line('$', &bytes.len().to_string());
                out.extend_from_slice(bytes);
                out.extend(b"\r\n");
            }
            Reply::Array(items) => {
                array_head(out, items.len());
                items.iter().for_each(|item| item.put(out, is_resp3));
            }
            Reply::Map(pairs) => {
                match is_resp3 {
                    true => line('%', &pairs.len().to_string()),
                    false => line('*', &(pairs.len() * 2).to_string()),
                }
                for (key, value) in pairs {
                    key.put(out, is_resp3);
                    value.put(out, is_resp3);
                }
            }
        }
    }
}

/// Appends the header of an array of `count` items.
pub(crate) fn array_head(out: &mut Vec<u8>, count: usize) {
    out.extend(format!("*{count}\r\n").into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_follow_the_protocol() {
        let written = |reply: Reply, is_resp3| {
            let mut out = Vec::new();
            reply.put(&mut out, is_resp3);
            String::from_utf8(out).unwrap()
        };
        let pair = || Reply::Map(vec![(Reply::text("a"), Reply::Integer(-1))]);
        assert_eq!(written(Reply::Simple("OK"), false), "+OK\r\n");
        assert_eq!(written(Reply::Error("ERR a\r\nb".into()), false), "-ERR a  b\r\n");
        assert_eq!(written(Reply::Null, false), "$-1\r\n");
        assert_eq!(written(Reply::Null, true), "_\r\n");
        assert_eq!(written(pair(), false), "*2\r\n$1\r\na\r\n:-1\r\n");
        assert_eq!(written(pair(), true), "%1\r\n$1\r\na\r\n:-1\r\n");
        assert_eq!(written(Reply::Array(vec![Reply::Null]), false), "*1\r\n$-1\r\n");
    }
}
