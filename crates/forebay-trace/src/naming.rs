//! Limits the number and length of names in a trace, so that memory is bounded for any input.

use std::borrow::Cow;

use crate::rows::{RowError, shorten};

/// The maximum length of the name of a stream or volume, which is that of a path.
pub(crate) const NAME_BYTES_MAX: usize = 4096;
/// The maximum total size of all names, including [`ENTRY_BYTES`] for each.
const NAMES_BYTES_MAX: usize = 32 << 20;
/// The approximate memory that a name takes in addition to its bytes.
const ENTRY_BYTES: usize = 64;

/// The memory that is left for the names in a trace.
#[derive(Debug)]
pub(crate) struct NameBudget {
    left_bytes: usize,
}

impl Default for NameBudget {
    fn default() -> NameBudget {
        NameBudget { left_bytes: NAMES_BYTES_MAX }
    }
}

impl NameBudget {
    /// Reserves memory for another name, which is in `column`.
    pub(crate) fn take(
        &mut self,
        column: impl Into<Cow<'static, str>>,
        name: &[u8],
    ) -> Result<(), RowError> {
        let left_bytes = self.left_bytes.checked_sub(name.len() + ENTRY_BYTES);
        match left_bytes.filter(|_| name.len() <= NAME_BYTES_MAX) {
            Some(left_bytes) => self.left_bytes = left_bytes,
            None => return Err(invalid_name(column, name)),
        }
        Ok(())
    }
}

/// Creates the error about a name that does not fit.
#[cold]
pub(crate) fn invalid_name(column: impl Into<Cow<'static, str>>, name: &[u8]) -> RowError {
    let (got, expected) = match name.len() {
        long if long > NAME_BYTES_MAX => {
            let got = format!("a name of {long} bytes, {},", shorten(name));
            (got, format!("at most {NAME_BYTES_MAX} bytes"))
        }
        _ => {
            let mib = NAMES_BYTES_MAX >> 20;
            let got = format!("one more name, {},", shorten(name));
            (
                got,
                format!("at most {mib} MiB of different names, each with {ENTRY_BYTES} bytes more"),
            )
        }
    };
    RowError { column: column.into(), got, expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_and_too_many_are_refused() {
        let mut room = NameBudget::default();
        assert_eq!(room.take("volume", &[b'x'; NAME_BYTES_MAX]), Ok(()));
        let wrong = room.take("volume", &[b'x'; NAME_BYTES_MAX + 1]).unwrap_err();
        assert!(wrong.got.starts_with("a name of 4097 bytes, \"xx"), "{wrong:?}");
        assert_eq!(
            (wrong.column.as_ref(), wrong.expected.as_ref()),
            ("volume", "at most 4096 bytes")
        );
        let more = (0..1 << 20).find_map(|n: u32| room.take("name", &n.to_le_bytes()).err());
        assert!(more.unwrap().expected.starts_with("at most 32 MiB of different names"));
        assert!(room.left_bytes < NAME_BYTES_MAX);
    }
}
