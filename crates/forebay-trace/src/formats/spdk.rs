//! The output of `spdk_trace` with events of block devices (`-e bdev`): `0:  6026.658 b03
//! BDEV_IO_START  id: i7  type: 1  ctx: 0x2000  offset:2048  len: 8`, and `BDEV_IO_DONE` with the
//! same id.
//!
//! Versions of the tool differ: the name of the thread may precede the core; the time stamp counter
//! in parentheses and the owner (`b03`) may follow the time; `size:` replaces `len:`. If a name
//! fills its column, no space follows its colon.
//!
//! Printed times have only seven exact digits. Therefore the time stamp counter (if the line `TSC
//! Rate:` is present) and the field `time:` of completions take precedence.
//!
//! Units: microseconds since the trace began, blocks. The size of a block is not recorded; 512
//! bytes are assumed, with a note. Epoch: the first request. The types are those of SPDK: 1 read, 2
//! write, 3 unmap, 4 flush, 9 write zeroes, 13 zone append; others are skipped. Writing zeroes
//! counts as a write, or as a trim if it is longer than a write can be. The owner is the volume:
//! newer versions number the devices, older versions call all of them b00. Each core is a stream.

use forebay_core::{Flags, Op};

use super::events::calls::{Call, CallLine, Request, number};
use super::{scaled, words};
use crate::Stream;
use crate::rows::{LEN_BYTES_MAX, RowError};

/// The assumed size of a block in bytes.
const BLOCK_BYTES: u64 = 512;
/// The key of completions with the id `N/A`, whose requests began before the trace.
const UNKNOWN: u64 = u64::MAX;

/// The state of reading the output.
#[derive(Default)]
pub(super) struct Spdk {
    has_requests: bool,
    /// The frequency of the time stamp counter in hertz, if known.
    tsc_rate: Option<u64>,
}

/// The parts of an event that precede its fields.
struct Parts<'a> {
    core: u64,
    us: &'a [u8],
    tsc: Option<u64>,
    owner: Option<&'a [u8]>,
    name: &'a [u8],
}

/// Parses the beginning of an event: a core with a colon and a time with decimals, and later a word
/// in capitals, which is the name of the event.
fn parts(line: &[u8]) -> Option<Parts<'_>> {
    let core_of = |word: &[u8]| {
        let word = word.strip_prefix(b"[").unwrap_or(word).strip_suffix(b":")?;
        number(word.strip_suffix(b"]").unwrap_or(word))
    };
    let is_time = |word: &[u8]| word.contains(&b'.') && scaled(word, 3).is_some();
    let (mut words, mut core) = (words(line), None);
    let (core, us) = words.find_map(|word| {
        let found = core.filter(|_| is_time(word)).map(|core| (core, word));
        core = core_of(word);
        found
    })?;
    let is_name = |word: &[u8]| {
        let is_capital = |b: &u8| *b == b'_' || b.is_ascii_uppercase() || b.is_ascii_digit();
        word.contains(&b'_') && word.iter().all(is_capital)
    };
    let (mut owner, mut tsc) = (None, None);
    let name = words.find(|word| {
        let inside = word.strip_suffix(b")").map(|word| word.strip_prefix(b"(").unwrap_or(word));
        tsc = tsc.or(inside.and_then(number));
        let is_owner = inside.is_none() && *word != b"(" && !is_name(word);
        owner = owner.or(is_owner.then_some(*word));
        is_name(word)
    })?;
    Some(Parts { core, us, tsc, owner, name })
}

/// Returns the value of a field, which follows its name and a colon.
fn field<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut words = words(line);
    let rest = words.find_map(|word| word.strip_prefix(name.as_bytes())?.strip_prefix(b":"))?;
    if rest.is_empty() { words.next() } else { Some(rest) }
}

impl CallLine for Spdk {
    const NAME: &'static str = "spdk";
    const LAYOUT: &'static str = "those of spdk_trace, such as core: us BDEV_IO_START id: i1 type: 1 ctx: 0x0 offset: 0 len: 8";

    const SNIFFED_LINES: usize = usize::MAX;

    fn is_line(line: &[u8]) -> bool {
        parts(line).is_some_and(|parts| parts.name.starts_with(b"BDEV_IO_"))
    }

    const ABSOLUTE: &'static str = "run spdk_trace without -T";

    fn time(line: &[u8]) -> Option<u64> {
        scaled(parts(line)?.us, 3)
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Call<'a>, RowError> {
        let Some(Parts { core, us, tsc, owner, name }) = parts(line) else {
            let rate = line.trim_ascii().strip_prefix(b"TSC Rate:");
            self.tsc_rate = rate.and_then(|rate| number(rate.trim_ascii())).or(self.tsc_rate);
            return Ok(Call::Other);
        };
        if !matches!(name, b"BDEV_IO_START" | b"BDEV_IO_DONE") {
            return Ok(Call::Other);
        }
        let at_ns = scaled(us, 3)
            .ok_or_else(|| RowError::new("time", us, "microseconds such as 6026.658"))?;
        let exact =
            |(tsc, rate)| u64::try_from(u128::from(tsc) * 1_000_000_000 / u128::from(rate)).ok();
        let rate = self.tsc_rate.filter(|rate| *rate > 0);
        let at_ns = tsc.zip(rate).and_then(exact).unwrap_or(at_ns);
        let wanted = |name: &'static str| {
            let value = field(line, name).unwrap_or_default();
            let expected = "a whole number such as 4096 or 0x1000";
            number(value).ok_or_else(|| RowError::new(name, value, expected))
        };
        let id = field(line, "id").unwrap_or_default();
        let digits = id.strip_prefix(b"i").unwrap_or(id);
        let key = number(digits).or((id == b"N/A").then_some(UNKNOWN));
        let key = key.ok_or_else(|| RowError::new("id", id, "an id such as i7"))?;
        if name == b"BDEV_IO_DONE" {
            let took = field(line, "time").and_then(|us| scaled(us, 3));
            return Ok(took.map_or(Call::End([key, 0], at_ns), |ns| Call::EndAfter([key, 0], ns)));
        }
        let len = if field(line, "len").is_some() { "len" } else { "size" };
        let bytes = |name| Ok(wanted(name)?.saturating_mul(BLOCK_BYTES));
        let op = match wanted("type")? {
            1 => Op::Read,
            2 | 13 => Op::Write,
            3 => Op::Trim,
            4 => Op::Flush,
            9 if bytes(len)? > LEN_BYTES_MAX => Op::Trim,
            9 => Op::Write,
            _ => return Ok(Call::Skipped),
        };
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (bytes("offset")?, bytes(len)?) };
        self.has_requests = true;
        let stream = Stream { name: format!("core {core}"), ..Stream::default() };
        let (flags, volume) = (Flags::NONE, owner.unwrap_or(b"disk"));
        Ok(Call::Begin([key, 0], Request { at_ns, op, offset, len, flags, volume, stream }))
    }

    fn sentences(&self) -> Vec<String> {
        let note = "the format does not contain the block size: 512 bytes are assumed";
        self.has_requests.then(|| note.to_owned()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::events::calls;
    use crate::formats::tests::{message, read};
    use forebay_core::Nanos;

    const TEXT: &[u8] = b"TSC Rate: 2100000000\n\
        2:     10.500 ( 22050)   BDEV_IO_START    id:    i7   type:   2  ctx:  0x2000  offset:  16  len:  8\n\
        2:     11.000 ( 23100)   NVMF_REQ_NEW     id:    r1\n\
        3:     12.000 ( 25200)   BDEV_IO_START    id:    i8   type:   1  ctx:  0x2010  offset:  0x0  len:  1\n\
        2:     90.750 (190575)   BDEV_IO_DONE     id:    i7   time:  80.250  ctx:  0x2000\n";

    #[test]
    fn records_of_one_id_are_a_request() {
        let (records, dictionary, notes) = read(calls::open::<Spdk>, TEXT);
        let seen: Vec<_> =
            records.iter().map(|r| (r.op, r.offset, r.len, r.latency.map(|l| l.0))).collect();
        assert_eq!(seen, [(Op::Write, 8192, 4096, Some(80_250)), (Op::Read, 0, 512, None)]);
        assert_eq!(records[1].at.0, 1500);
        assert_eq!(dictionary.streams[1].name, "core 3");
        assert_eq!(notes.warnings.len(), 2, "{notes:?}");
    }

    /// Lines of several versions of the tool.
    #[test]
    fn records_of_all_versions_are_read() {
        let lines = |start: &str, end: &str| {
            format!("TSC Rate: 2100000000\nTrace Size of lcore (0): 32768\n{start}\n{end}\n")
        };
        for (start, end, volume, took_ns) in [
            (
                " 0: 141193.578 b00 BDEV_IO_START                         id:    i429      type:  2                ctx:   0x7ffb7d48b110   offset:12048            len:   2",
                " 0: 143030.609 b00 BDEV_IO_DONE                          id:    i429      time:  1837.035         ctx:   0x7ffb7d48b110",
                "b00",
                1_837_035,
            ),
            (
                " 0: 141193.578 b12 BDEV_IO_START                         id:    i429 (r520)      type:  2                offset:12048            len:   2",
                " 0: 143030.609 b12 BDEV_IO_DONE                          id:    i429 (r520)      time:  1837.035",
                "b12",
                1_837_035,
            ),
            (
                "reactor_0     0: 141193.578 (296506513) b03 BDEV_IO_START            size:      2 id:    i429            type:  2                ctx:   0x7ffb7d48b110   offset:12048            qd:    1",
                "app_thread    0: 143030.609 (300364278) b03 BDEV_IO_DONE                           id:    i429            time:  1837.031         ctx:   0x7ffb7d48b110   qd:    0",
                "b03",
                1_837_031,
            ),
            (
                " 0: 141193.578 Nvme0n1  BDEV_IO_START  size: 2 id: i429 type: 2 offset: 12048 qd: 1",
                " 0: 143030.609 Nvme0n1  BDEV_IO_DONE  id: i429 time: 1837.031 qd: 0",
                "Nvme0n1",
                1_837_031,
            ),
            (
                "[0]: 141193.578 BDEV_IO_START size:2 id:i429 type:2 offset:12048",
                "[0]: 143030.609 BDEV_IO_DONE id:i429",
                "disk",
                1_837_031,
            ),
        ] {
            let text = lines(start, end);
            assert!(calls::sniff::<Spdk>(text.as_bytes()), "{start}");
            let (records, dictionary, notes) = read(calls::open::<Spdk>, text.as_bytes());
            let seen: Vec<_> =
                records.iter().map(|r| (r.op, r.offset, r.len, r.latency.map(|l| l.0))).collect();
            assert_eq!(seen, [(Op::Write, 12_048 * 512, 1024, Some(took_ns))], "{start}");
            assert_eq!((&*dictionary.volumes[0], &*dictionary.streams[0].name), (volume, "core 0"));
            assert_eq!((notes.rows_bad, notes.warnings.len()), (0, 1), "{notes:?}");
        }
    }

    #[test]
    fn types_that_write_or_free_blocks_are_requests() {
        const GIB: u64 = 1 << 30;
        let told = |kind: u64, blocks: u64| {
            let text = format!(
                "0: 10.0 b1 BDEV_IO_START id: i1 type: {kind} offset: 16 len: {blocks}\n\
                 0: 20.0 b1 BDEV_IO_DONE id: i1 time: 10.0\n"
            );
            read(calls::open::<Spdk>, text.as_bytes())
        };
        for (kind, op, len) in [
            (13, Op::Write, 4096),
            (9, Op::Write, 4096),
            (9, Op::Write, GIB),
            (9, Op::Trim, 2 * GIB),
            (9, Op::Trim, 64 * GIB),
            (3, Op::Trim, 2 * GIB),
            (3, Op::Trim, 4 * GIB),
            (3, Op::Trim, 1000 * GIB + 512),
        ] {
            let (records, _, notes) = told(kind, len / 512);
            let case = format!("{kind}, {len}: {notes:?}");
            assert!(
                records.iter().all(|r| r.op == op && r.latency == Some(Nanos(10_000))),
                "{case}"
            );
            assert_eq!(records.iter().map(|r| u64::from(r.len)).sum::<u64>(), len, "{case}");
            assert_eq!(records[0].offset, 8192);
            assert_eq!((notes.rows_bad, notes.rows_skipped), (0, 0), "{case}");
            assert_eq!(notes.rows_added, records.len() as u64 - 1);
            assert_eq!(
                notes.warnings.iter().any(|note| note.contains("of 4 GiB or more")),
                len >= 4 * GIB
            );
        }
        assert_eq!(told(5, 8).2.rows_skipped, 1);
    }

    #[test]
    fn ends_of_requests_before_the_trace_are_counted() {
        let text =
            [TEXT, b" 1: 99.000 b00 BDEV_IO_DONE              id:    N/A             ctx: 0x2\n"]
                .concat();
        let (records, _, notes) = read(calls::open::<Spdk>, &text);
        assert_eq!((records.len(), notes.rows_bad), (2, 0));
        assert!(
            notes.warnings.iter().any(|note| note.starts_with("1 completion has no request")),
            "{notes:?}"
        );
    }

    #[test]
    fn differences_between_lines_are_refused() {
        let begin =
            " 0: 20.000 ( 48000) BDEV_IO_START id: i1 type: 1 ctx: 0x2000 offset: 16 len: 8\n";
        let end = " 0: 80.000 (192000) BDEV_IO_DONE id: i1 time: 80.000 ctx: 0x2000\n";
        let text = message(calls::open::<Spdk>, [begin, end].repeat(2).concat().as_bytes());
        assert!(text.contains("spdk_trace without -T"), "{text}");
    }

    #[test]
    fn nonsense_names_line_and_column() {
        let bad = [TEXT, b"2: 99.0 (1) BDEV_IO_START id: i9 type: 1 ctx: 0x0 offset: x len: 8\n"]
            .concat();
        let text = message(calls::open::<Spdk>, &bad);
        assert!(text.contains("line 6") && text.contains("column offset"), "{text}");
        assert!(calls::sniff::<Spdk>(TEXT) && !calls::sniff::<Spdk>(b"0: 1 2\n"));
    }
}
