//! Parses declarations of columns.

use std::fmt;
use std::str::FromStr;

use forebay_core::Op;

use crate::columns::cursor::Separator;
use crate::columns::names::PARTS;
use crate::columns::notation::Mark;
use crate::columns::op_words::{OpCode, OpWords};
use crate::columns::unit::{CLOCK, DATE, TIME_UNITS, TIMEDELTA, TimeUnit, length_unit_bytes};
use crate::rows::LEN_BYTES_MAX;

/// What a column contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// An ignored column.
    Skip,
    /// The arrival time.
    At(TimeUnit),
    /// The completion time.
    End(TimeUnit),
    /// The time from arrival to completion, which may be empty.
    Latency(TimeUnit),
    /// The offset of the first byte, in units of this many bytes.
    Offset(u64),
    /// The length, in units of this many bytes.
    Len(u64),
    /// The operation.
    Op(OpCode),
    /// The name of the volume or a part of the name. If true, the value must be a number.
    Volume(bool),
    /// The thread id.
    Thread,
    /// The process id.
    Process,
    /// The name of the submitter.
    Name,
    /// The flags, as letters of `PFASM`.
    Flags,
}

/// The columns of a text and their units, as declared with `--columns` or by presets.
///
/// A declaration lists the columns in order, separated by commas: `at`, `end` and `latency` with a
/// unit of time (`at:us`; also `timedelta`, and for `at` and `end` `date` and `clock`), `offset`
/// and `len` with a unit of length (default: bytes), `op` with its words (`op:R/W`, read first;
/// `op:scsi`, `op:disksim`), `volume` (several columns form one name), `thread`, `process`, `name`
/// or `stream`, `flags`, and `_` for columns to ignore. Columns after the last declared one are
/// ignored. Settings are `sep=comma|tab|semicolon|bar|blank`, `decimal=point|comma`, `skip=LINES`
/// and, for columns that the text lacks, `every=10ms`, `op=read`, `len=4096`. `units=sure` accepts
/// units that look wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The declaration as written.
    pub(crate) text: String,
    pub(crate) roles: Vec<Role>,
    /// The names of the columns in messages.
    pub(crate) titles: Vec<String>,
    /// The reason why each column is read as declared. Empty if the user or a format declared the
    /// columns.
    pub(crate) reasons: Vec<String>,
    pub(crate) separator: Option<Separator>,
    /// The decimal mark, if declared.
    pub(crate) mark: Option<Mark>,
    /// The number of lines to skip before the first request.
    pub(crate) skip_lines: u64,
    /// The interval between requests in nanoseconds, for text without times.
    pub(crate) every_ns: Option<u64>,
    /// The operation of all requests, for text without operations.
    pub(crate) op: Option<Op>,
    /// The length of all requests, for text without lengths.
    pub(crate) len_bytes: Option<u64>,
    /// Whether to accept units even if they look wrong.
    pub(crate) trusts_units: bool,
}

/// An invalid declaration of columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("columns {text:?}: got {got}, expected {expected}")]
pub struct BadColumns {
    /// The complete declaration.
    pub text: String,
    /// The invalid part.
    pub got: String,
    /// What is expected in place of the invalid part.
    pub expected: String,
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

type GotExpected = (String, String);

fn wrong<T>(got: impl Into<String>, expected: impl Into<String>) -> Result<T, GotExpected> {
    Err((got.into(), expected.into()))
}

impl FromStr for Columns {
    type Err = BadColumns;

    fn from_str(text: &str) -> Result<Columns, BadColumns> {
        Columns::parse(text).map_err(|(got, expected)| BadColumns {
            text: text.to_owned(),
            got,
            expected,
        })
    }
}

impl Columns {
    /// Sets the names of the columns for messages.
    pub(crate) fn titled(mut self, titles: &str) -> Columns {
        self.titles = titles.split(',').map(str::to_owned).collect();
        self
    }

    /// Returns the declaration of each column, such as `at:ms`.
    pub(crate) fn declared(&self) -> impl Iterator<Item = &str> {
        self.text.split(',').map(str::trim).filter(|piece| !piece.contains('='))
    }

    /// Returns the unit of arrival times, or None if they are dates or missing.
    pub(crate) fn at_unit(&self) -> Option<TimeUnit> {
        let unit = self.roles.iter().find_map(|role| match role {
            Role::At(unit) | Role::End(unit) => Some(*unit),
            _ => None,
        });
        unit.filter(|unit| !unit.is_date())
    }

    fn parse(text: &str) -> Result<Columns, GotExpected> {
        let mut columns = Columns {
            text: text.to_owned(),
            roles: Vec::new(),
            titles: Vec::new(),
            reasons: Vec::new(),
            separator: None,
            mark: None,
            skip_lines: 0,
            every_ns: None,
            op: None,
            len_bytes: None,
            trusts_units: false,
        };
        for piece in text.split(',').map(str::trim) {
            if let Some((key, value)) = piece.split_once('=') {
                columns.set(key, value)?;
            } else {
                let (name, unit) =
                    piece.split_once(':').map_or((piece, None), |(n, u)| (n, Some(u)));
                let role = role(name, unit)?;
                columns.refuse_twice(&role, name)?;
                columns.roles.push(role);
                columns.titles.push(name.to_owned());
            }
        }
        columns.complete()?;
        Ok(columns)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), GotExpected> {
        let piece = format!("\"{key}={value}\"");
        match key {
            "sep" => {
                self.separator = Some(match value {
                    "comma" => Separator::Byte(b','),
                    "tab" => Separator::Byte(b'\t'),
                    "semicolon" => Separator::Byte(b';'),
                    "bar" => Separator::Byte(b'|'),
                    "blank" => Separator::Blanks,
                    _ => {
                        return wrong(
                            piece,
                            "sep=comma, sep=tab, sep=semicolon, sep=bar or sep=blank",
                        );
                    }
                });
            }
            "decimal" => {
                self.mark = Some(match value {
                    "point" => Mark::Point,
                    "comma" => Mark::Comma,
                    _ => return wrong(piece, "decimal=point or decimal=comma"),
                });
            }
            "skip" => match value.parse() {
                Ok(lines) => self.skip_lines = lines,
                Err(_) => return wrong(piece, "a number of lines, such as skip=1"),
            },
            "every" => {
                self.every_ns = every_ns(value);
                if self.every_ns.is_none() {
                    return wrong(piece, "a time such as every=10ms (ns, us, ms, s)");
                }
            }
            "op" => {
                self.op = OpWords::usual().word(value.as_bytes());
                if self.op.is_none() {
                    return wrong(piece, "op=read, op=write or op=trim");
                }
            }
            "len" => match value.parse() {
                Ok(bytes @ 1..=LEN_BYTES_MAX) => self.len_bytes = Some(bytes),
                _ => return wrong(piece, "a number of bytes such as len=4096, at most 1 GiB"),
            },
            "units" if value == "sure" => self.trusts_units = true,
            "units" => return wrong(piece, "units=sure"),
            _ => {
                return wrong(
                    piece,
                    "a setting: sep=, decimal=, skip=, every=, op=, len=, units=sure",
                );
            }
        }
        Ok(())
    }

    fn refuse_twice(&self, role: &Role, name: &str) -> Result<(), GotExpected> {
        let same = |other: &&Role| std::mem::discriminant(*other) == std::mem::discriminant(role);
        let before = self.roles.iter().filter(same).count();
        let most = match role {
            Role::Skip => return Ok(()),
            Role::Volume(_) => PARTS,
            _ => 1,
        };
        if before >= most {
            let times = if most == 1 { "once" } else { "at most three times" };
            return wrong(format!("{name:?} again"), format!("it {times}; _ skips a column"));
        }
        Ok(())
    }

    fn complete(&self) -> Result<(), GotExpected> {
        let has = |wanted: fn(&Role) -> bool| self.roles.iter().any(wanted);
        let at = has(|role| matches!(role, Role::At(_)));
        let end = has(|role| matches!(role, Role::End(_)));
        let latency = has(|role| matches!(role, Role::Latency(_)));
        let missing = |what: &str| wrong(format!("no {what}"), format!("{what} among the columns"));
        if !has(|role| matches!(role, Role::Offset(_))) {
            return missing("offset");
        }
        match (has(|role| matches!(role, Role::Len(_))), self.len_bytes) {
            (false, None) => return wrong("no len", "len among the columns, or len=BYTES"),
            (true, Some(_)) => return wrong("len twice", "a column len or the setting len="),
            _ => {}
        }
        match (has(|role| matches!(role, Role::Op(_))), self.op) {
            (false, None) => return wrong("no op", "op among the columns, or op=read or op=write"),
            (true, Some(_)) => return wrong("op twice", "a column op or the setting op="),
            _ => {}
        }
        match (at, end, latency, self.every_ns) {
            (true, true, true, _) => wrong("at, end and latency", "at most two of these"),
            (true, _, _, Some(_)) | (_, true, _, Some(_)) => {
                wrong("every= together with a column of times", "one of them")
            }
            (false, false, _, None) => wrong("no at", "at among the columns, or every=TIME"),
            (false, true, false, None) => wrong(
                "end without at",
                "at or latency in addition to \
                end",
            ),
            _ => Ok(()),
        }
    }
}

/// Parses the name of a column and its unit, which is separated by a colon.
fn role(name: &str, unit: Option<&str>) -> Result<Role, GotExpected> {
    let time = || {
        let got = unit.map_or(format!("{name:?} without a unit"), |unit| {
            format!("the unit {unit:?} for {name}")
        });
        let names: Vec<String> =
            TIME_UNITS.iter().map(|unit| format!("{name}:{}", unit.name)).collect();
        match unit {
            Some("timedelta") => Ok(TIMEDELTA),
            _ => unit.and_then(TimeUnit::named).ok_or((got, names.join(", "))),
        }
    };
    let moment = || match unit {
        Some("date") => Ok(DATE),
        Some("clock") => Ok(CLOCK),
        _ => time().map_err(|(got, names)| (got, format!("{names}, {name}:date, {name}:clock"))),
    };
    let length = || match unit {
        None => Ok(1),
        Some(unit) => length_unit_bytes(unit).ok_or((
            format!("the unit {unit:?} for {name}"),
            "bytes, sectors (512 bytes), kib, mib, pages (4096 bytes) or blocks:BYTES".to_owned(),
        )),
    };
    let plain = |role| match unit {
        None => Ok(role),
        Some(unit) => wrong(format!("{unit:?} behind {name}"), format!("{name} alone")),
    };
    match name {
        "at" => moment().map(Role::At),
        "end" => moment().map(Role::End),
        "latency" => time().map(Role::Latency),
        "offset" => length().map(Role::Offset),
        "len" => length().map(Role::Len),
        "op" => op_code(unit).map(Role::Op),
        "volume" if unit == Some("number") => Ok(Role::Volume(true)),
        "volume" => plain(Role::Volume(false)),
        "thread" => plain(Role::Thread),
        "process" => plain(Role::Process),
        "name" | "stream" => plain(Role::Name),
        "flags" => plain(Role::Flags),
        "_" => plain(Role::Skip),
        _ => wrong(
            format!("{name:?}"),
            "at, op, offset, len, latency, end, volume, thread, process, name, stream, flags, or _ \
             to skip a column",
        ),
    }
}

fn op_code(unit: Option<&str>) -> Result<OpCode, GotExpected> {
    match unit {
        None => Ok(OpCode::Words(OpWords::usual())),
        Some("scsi") => Ok(OpCode::Scsi),
        Some("disksim") => Ok(OpCode::Disksim),
        Some(words) => OpWords::declared(words).map(OpCode::Words).ok_or((
            format!("the words {words:?} for op"),
            "op, op:READ/WRITE with the words for them such as op:R/W or op:0/1, op:scsi (hex) or \
             op:disksim (bit 0 set for reads)"
                .to_owned(),
        )),
    }
}

/// Parses an interval such as `10ms`.
fn every_ns(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at(digits);
    let ns = count.parse::<u64>().ok()?.checked_mul(TimeUnit::named(unit)?.ns)?;
    (ns > 0).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_is_read_and_shown() {
        let text = "at:us,op,offset:sectors,len:blocks:4096,volume,volume:number,_,latency:ticks";
        let columns: Columns = text.parse().unwrap();
        assert_eq!((columns.to_string(), columns.roles.len()), (text.to_owned(), 8));
        assert_eq!(columns.roles[3], Role::Len(4096));
        assert_eq!(columns.at_unit().unwrap().ns, 1000);
        let columns: Columns = "offset,every=10ms,op=read,len=512,sep=blank".parse().unwrap();
        assert_eq!((columns.every_ns, columns.op), (Some(10_000_000), Some(Op::Read)));
        for good in ["end:ms,latency:ms,op,offset,len", "at:s,end:s,op:R+RS/W,offset,len,stream"] {
            assert!(good.parse::<Columns>().is_ok(), "{good}");
        }
    }

    #[test]
    fn messages_name_the_piece() {
        for (bad, expected) in [
            ("", "got \"\", expected at, op,"),
            ("at,op,offset,len", "got \"at\" without a unit, expected at:ns"),
            ("at:hours,op,offset,len", "got the unit \"hours\" for at"),
            ("at:us,op,offset:furlongs,len", "got the unit \"furlongs\" for offset"),
            ("at:us,op,offset,len,lun", "got \"lun\", expected at, op,"),
            ("at:us,op:R,offset,len", "got the words \"R\" for op"),
            ("at:us,op,len", "got no offset"),
            ("at:us,op,offset", "got no len"),
            ("at:us,offset,len", "got no op"),
            ("op,offset,len", "got no at"),
            ("end:us,op,offset,len", "got end without at"),
            ("at:us,at:us,op,offset,len", "got \"at\" again"),
            ("at:us,op,offset,len,every=1ms", "got every="),
            ("at:us,op,offset,len,sep=|", "got \"sep=|\""),
            ("at:us,op,offset,len,every=0ms", "got \"every=0ms\""),
            ("at:us,op,offset,len,skip=x", "got \"skip=x\""),
            ("at:us,op,offset,len:blocks:0", "got the unit \"blocks:0\" for len"),
            ("at:us,op,offset,len,flags:x", "got \"x\" behind flags"),
            ("at:us,end:us,latency:us,op,offset,len", "got at, end and latency"),
        ] {
            let message = bad.parse::<Columns>().unwrap_err().to_string();
            assert!(message.contains(expected), "{bad}: {message}");
        }
    }
}
