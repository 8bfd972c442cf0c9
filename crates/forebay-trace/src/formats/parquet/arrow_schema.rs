//! Decodes the Arrow schema that Arrow's writers (pyarrow, Polars, pandas) store in the metadata of
//! a Parquet file as `ARROW:schema`.
//!
//! Parquet has no type for durations or for times in whole seconds. Such columns are plain integers
//! in Parquet, and only the Arrow schema contains their unit. It is an IPC message in Base64 and a
//! FlatBuffer (`Message.fbs` and `Schema.fbs` of the Arrow format, whose field numbers are given
//! below). Only names and the relevant types are decoded.

/// What the Arrow schema says about the type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    /// Times since 1970 in ticks of `tick_ns` nanoseconds.
    Timestamp { tick_ns: u64 },
    /// Durations in ticks of `tick_ns` nanoseconds.
    Duration { tick_ns: u64 },
    /// Times of day.
    Time,
    /// Dates.
    Date,
    /// Strings.
    Text,
    /// Nothing beyond the Parquet type.
    None,
}

/// Returns the name of each column and the hint about its type, or the problem with `text`.
pub(super) fn hints(text: &str) -> Result<Vec<(String, Hint)>, &'static str> {
    let bytes = base64(text).ok_or("not Base64")?;
    // A message begins with its length, which is preceded by a marker since Arrow 0.15.
    let message = match bytes.strip_prefix(&[0xFF; 4]) {
        Some(rest) => rest.get(4..).unwrap_or_default(),
        None => &bytes,
    };
    columns(&Buffer(message)).ok_or("not a schema")
}

fn columns(buffer: &Buffer) -> Option<Vec<(String, Hint)>> {
    const SCHEMA: u8 = 1;
    let message = buffer.follow(0)?;
    // In a Message, field 1 is the type of the header, and field 2 the header.
    if buffer.byte(buffer.field(message, 1)??)? != SCHEMA {
        return None;
    }
    let schema = buffer.follow(buffer.field(message, 2)??)?;
    // In a Schema, field 1 is the list of fields.
    let Some(fields) = buffer.field(schema, 1)? else { return Some(Vec::new()) };
    let fields = buffer.follow(fields)?;
    // Each entry takes four bytes. Check this, so that a wrong count cannot make a short text
    // allocate a large list.
    let count = buffer.word(fields)? as usize;
    if count > buffer.0.len() / 4 {
        return None;
    }
    let column = |nth: usize| {
        let field = buffer.follow(fields + 4 + 4 * nth)?;
        // In a Field, 0 is the name, 2 the number of the type, and 3 the type.
        let name = match buffer.field(field, 0)? {
            Some(name) => buffer.text(buffer.follow(name)?)?,
            None => String::new(),
        };
        let number = match buffer.field(field, 2)? {
            Some(at) => buffer.byte(at)?,
            None => 0,
        };
        let kind = buffer.field(field, 3)?.map(|at| buffer.follow(at));
        Some((name, hint(buffer, number, kind)?))
    };
    (0..count).map(column).collect()
}

fn hint(buffer: &Buffer, number: u8, kind: Option<Option<usize>>) -> Option<Hint> {
    // In each of these types, field 0 is the unit. If it is omitted, the default applies.
    let tick_ns = |default: u16| {
        let unit = match buffer.field(kind??, 0)? {
            Some(at) => buffer.short(at)?,
            None => default,
        };
        [1_000_000_000, 1_000_000, 1_000, 1].get(usize::from(unit)).copied()
    };
    Some(match number {
        5 | 20 | 24 => Hint::Text,
        8 => Hint::Date,
        9 => Hint::Time,
        10 => Hint::Timestamp { tick_ns: tick_ns(0)? },
        18 => Hint::Duration { tick_ns: tick_ns(1)? },
        _ => Hint::None,
    })
}

/// A FlatBuffer. The fields of its tables are found through a list of relative offsets.
struct Buffer<'a>(&'a [u8]);

impl Buffer<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn short(&self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    fn word(&self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    /// Follows the offset stored at a position.
    fn follow(&self, at: usize) -> Option<usize> {
        at.checked_add(self.word(at)? as usize)
    }

    /// Returns the position of a field in a table, or `Some(None)` if the table omits it.
    fn field(&self, table: usize, number: usize) -> Option<Option<usize>> {
        let back = i32::from_le_bytes(self.bytes(table)?);
        let list = usize::try_from(i64::try_from(table).ok()? - i64::from(back)).ok()?;
        let at = 4 + 2 * number;
        if at + 2 > usize::from(self.short(list)?) {
            return Some(None);
        }
        let place = usize::from(self.short(list.checked_add(at)?)?);
        Some((place != 0).then_some(table + place))
    }

    fn text(&self, at: usize) -> Option<String> {
        let bytes = self.0.get(at.checked_add(4)?..)?.get(..self.word(at)? as usize)?;
        String::from_utf8(bytes.to_vec()).ok()
    }
}

/// Decodes Base64, which may lack padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut held, mut bits) = (Vec::with_capacity(text.len() / 4 * 3), 0u32, 0);
    for sign in text.trim_end_matches('=').bytes() {
        let value = match sign {
            b'A'..=b'Z' => sign - b'A',
            b'a'..=b'z' => sign - b'a' + 26,
            b'0'..=b'9' => sign - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schema from pyarrow with metadata of its own. It has a column of each relevant type and
    /// some of other types.
    const KINDS: &str = concat!(
        "/////8gCAAAQAAAAAAAKAA4ABgAFAAgACgAAAAABBAAQAAAAAAAKAAwAAAAEAAgACgAAADQAAAAEAAAAAQAA",
        "AAwAAAAIAAwABAAIAAgAAAAQAAAABAAAAAEAAAB5AAAAAQAAAHgAAAALAAAAKAIAAOwBAAC8AQAAkAEAAGgB",
        "AABAAQAAGAEAAMgAAABcAAAAMAAAAAQAAAAU/v//AAABChAAAAAUAAAABAAAAAAAAAABAAAAawAAAGr+//8A",
        "AAIAPP7//wAAAQMQAAAAFAAAAAQAAAAAAAAAAQAAAGoAAACS/v//AAACAGT+//8AAAEMFAAAABgAAAAEAAAA",
        "AQAAABAAAAABAAAAaQAAAJD+//+M/v//AAABAhAAAAAYAAAABAAAAAAAAAAEAAAAaXRlbQAAAACw////AAAA",
        "AUAAAAAQABgACAAGAAcADAAQABQAEAAAAAAAAQUUAAAAPAAAABwAAAAEAAAAAAAAAAEAAABoAAAACAAIAAAA",
        "BAAIAAAADAAAAAgADAAIAAcACAAAAAAAAAEIAAAAHP///xj///8AAAEYEAAAABQAAAAEAAAAAAAAAAEAAABn",
        "AAAAQP///zz///8AAAEUEAAAABQAAAAEAAAAAAAAAAEAAABmAAAAZP///2D///8AAAEIEAAAABQAAAAEAAAA",
        "AAAAAAEAAABlAAAAiP///4T///8AAAEJEAAAABQAAAAEAAAAAAAAAAEAAABkAAAA2v///wAAAACs////AAAB",
        "EhAAAAAYAAAABAAAAAAAAAABAAAAYwAGAAgABgAGAAAAAAADANj///8AAAESEAAAABgAAAAEAAAAAAAAAAEA",
        "AABiAAAABAAEAAQAAAAQABQACAAGAAcADAAAABAAEAAAAAAAAQoQAAAAHAAAAAQAAAAAAAAAAQAAAGEAAAAI",
        "AAwABgAIAAgAAAAAAAEABAAAAAMAAABVVEMA",
    );

    #[test]
    fn every_type_is_told_with_its_unit() {
        let expected = [
            ("a", Hint::Timestamp { tick_ns: 1_000_000 }),
            ("b", Hint::Duration { tick_ns: 1_000_000 }),
            ("c", Hint::Duration { tick_ns: 1 }),
            ("d", Hint::Time),
            ("e", Hint::Date),
            ("f", Hint::Text),
            ("g", Hint::Text),
            ("h", Hint::Text),
            ("i", Hint::None),
            ("j", Hint::None),
            ("k", Hint::Timestamp { tick_ns: 1_000 }),
        ];
        let expected: Vec<_> =
            expected.into_iter().map(|(name, hint)| (name.to_string(), hint)).collect();
        assert_eq!(hints(KINDS).as_ref(), Ok(&expected));
        assert_eq!(hints(KINDS.trim_end_matches('=')), Ok(expected));
    }

    #[test]
    fn bytes_that_are_no_schema_are_refused_and_never_more() {
        for text in ["", "AAAA", "/////w==", "no Base64!", "////////////////"] {
            assert!(hints(text).is_err(), "{text:?}");
        }
        for length in 0..KINDS.len() {
            let _ = hints(&KINDS[..length]);
        }
        for at in 0..KINDS.len() {
            for sign in ["A", "/", "g"] {
                let mut hurt = KINDS.to_string();
                hurt.replace_range(at..=at, sign);
                let _ = hints(&hurt);
            }
        }
    }
}
