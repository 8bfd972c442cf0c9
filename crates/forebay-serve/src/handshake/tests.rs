//! Tests the handshake with scripted clients.

use std::io::Cursor;

use proptest::prelude::*;

use super::*;

/// A client that sends everything at once and records what it receives.
struct Script {
    says: Cursor<Vec<u8>>,
    hears: Vec<u8>,
}

impl Read for Script {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.says.read(bytes)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hears.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn exports() -> Vec<Export> {
    let export = |name: &str, block_bytes| Export {
        name: name.into(),
        description: format!("about {name}"),
        offset: 0,
        bytes: 0x0102_0000,
        read_only: name == "fixed",
        block_bytes,
        rotational: false,
        trims_to_zero: true,
    };
    vec![export("disk", 512), export("fixed", 1), export("large", 4096)]
}

/// A reply: its option, its type and its data.
type Heard = (u32, u32, Vec<u8>);

/// Runs a handshake on a client's input after the greeting; returns the result, the replies, and
/// the bytes after them.
fn talk(says: &[u8]) -> (io::Result<Option<Agreed>>, Vec<Heard>, Vec<u8>) {
    let mut script = Script { says: Cursor::new(says.to_vec()), hears: Vec::new() };
    let outcome = negotiate(&mut script, &exports());
    let (greeting, mut rest) = script.hears.split_at(18);
    assert_eq!(greeting, b"NBDMAGICIHAVEOPT\0\x03");
    let mut heard = Vec::new();
    while rest.starts_with(&OPTION_REPLY.to_be_bytes()) {
        let mut data = Data(&rest[8..]);
        let (option, kind) = (data.number::<4>().unwrap(), data.number::<4>().unwrap());
        let text = data.text().expect("as long as it says").to_vec();
        heard.push((option, kind, text));
        rest = data.0;
    }
    (outcome, heard, rest.to_vec())
}

fn said(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Encodes the input of a client that uses the fixed newstyle handshake and sends these options.
fn fixed(options: &[Vec<u8>]) -> Vec<u8> {
    [3_u32.to_be_bytes().to_vec(), options.concat()].concat()
}

/// Encodes the data of INFO and GO.
fn chosen(name: &str, asked: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((asked.len() as u16).to_be_bytes());
    data.extend(asked.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// Encodes the data of the options on metadata contexts.
fn context(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

fn kinds(heard: &[Heard]) -> Vec<u32> {
    heard.iter().map(|(_, kind, _)| *kind).collect()
}

fn agreed(export: usize, structured: bool, allocation: bool) -> Option<Agreed> {
    Some(Agreed { export, structured, allocation })
}

#[test]
fn old_style_selection_sends_zeros_unless_the_client_opts_out() {
    let flags = 0b1_0110_1101_u16 | 1 << 10 | 1 << 11;
    for (client, zeros) in [(0_u32, 124), (1, 124), (3, 0), (2, 0)] {
        let says = [client.to_be_bytes().to_vec(), said(option::EXPORT_NAME, b"disk")].concat();
        let (outcome, heard, rest) = talk(&says);
        assert_eq!(outcome.unwrap(), agreed(0, false, false));
        assert_eq!((heard.len(), rest.len()), (0, 10 + zeros), "{client}");
        assert_eq!(rest[..8], 0x0102_0000_u64.to_be_bytes());
        assert_eq!(rest[8..10], flags.to_be_bytes());
        assert!(rest[10..].iter().all(|byte| *byte == 0));
    }
    // The empty name selects the first export. An unknown name ends the handshake, and so does an
    // export whose block size cannot be announced.
    let by = |name: &[u8]| talk(&fixed(&[said(option::EXPORT_NAME, name)]));
    assert_eq!(by(b"").0.unwrap(), agreed(0, false, false));
    for name in [&b"none"[..], b"large", b"disk\0", b"DISK", &[0xff; 4096]] {
        let (outcome, heard, rest) = by(name);
        assert!(outcome.is_err() && heard.is_empty() && rest.is_empty(), "{name:?}");
    }
    // Without the fixed newstyle handshake, EXPORT_NAME is the only valid option.
    let says = [0_u32.to_be_bytes().to_vec(), said(option::LIST, b"")].concat();
    let (outcome, heard, _) = talk(&says);
    assert!(outcome.is_err() && heard.is_empty());
}

#[test]
fn exports_are_listed() {
    let (outcome, heard, rest) = talk(&fixed(&[said(option::LIST, b""), said(option::ABORT, b"")]));
    assert_eq!((outcome.unwrap(), rest.len()), (None, 0));
    let server = reply::SERVER;
    assert_eq!(kinds(&heard), [server, server, server, reply::ACK, reply::ACK]);
    assert_eq!(heard[1].2, b"\0\0\0\x05fixedabout fixed");
    assert_eq!((heard[1].0, heard[3].0, heard[4].0), (3, 3, 2));
    let (_, heard, _) = talk(&fixed(&[said(option::LIST, b"x"), said(option::LIST, b"")]));
    assert_eq!(kinds(&heard), [reply::INVALID, server, server, server, reply::ACK]);
}

#[test]
fn info_describes_an_export_and_go_selects_it() {
    let (outcome, heard, _) = talk(&fixed(&[
        said(option::INFO, &chosen("fixed", &[info::NAME, info::DESCRIPTION, 77])),
        said(option::GO, &chosen("", &[])),
    ]));
    assert_eq!(outcome.unwrap(), agreed(0, false, false), "the empty name is the first");
    let told = |nth: usize| (heard[nth].0, heard[nth].1, &heard[nth].2[..2], &heard[nth].2[2..]);
    // This export supports neither trims nor zeroing, and is read-only.
    let (always, read_only) = (0b1_0000_1101_u16 | 1 << 10, 2);
    let size = [&[0, 0, 0, 0, 1, 2, 0, 0], &(always | read_only).to_be_bytes()[..]].concat();
    assert_eq!(told(0), (6, reply::INFO, &[0, 0][..], &size[..]));
    let blocks = [0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0];
    assert_eq!(told(1), (6, reply::INFO, &[0, 3][..], &blocks[..]));
    assert_eq!(told(2), (6, reply::INFO, &[0, 1][..], &b"fixed"[..]));
    assert_eq!(told(3), (6, reply::INFO, &[0, 2][..], &b"about fixed"[..]));
    assert_eq!((heard[4].0, heard[4].1), (6, reply::ACK));
    assert_eq!(kinds(&heard[5..]), [reply::INFO, reply::INFO, reply::ACK]);
    assert_eq!(heard[7].0, 7);
}

#[test]
fn unfragmented_reads_are_offered_only_with_structured_replies() {
    let go = said(option::GO, &chosen("disk", &[]));
    let structured = said(option::STRUCTURED_REPLY, b"");
    for (options, offered) in [(vec![go.clone()], 0), (vec![structured, go], 1 << 7)] {
        let (outcome, heard, _) = talk(&fixed(&options));
        assert_eq!(outcome.unwrap().unwrap().structured, offered != 0);
        let (_, _, told) = heard.iter().find(|one| one.1 == reply::INFO).unwrap();
        assert_eq!(u16::from_be_bytes([told[10], told[11]]) & 1 << 7, offered);
    }
}

#[test]
fn unknown_exports_are_rejected_and_the_handshake_continues() {
    let lies = [&chosen("disk", &[3])[..], b"x"].concat();
    let mut beyond = chosen("disk", &[3]);
    beyond[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    for option in [option::INFO, option::GO] {
        for (data, refused) in [
            (chosen("none", &[]), reply::UNKNOWN),
            (lies.clone(), reply::INVALID),
            (beyond.clone(), reply::INVALID),
            (b"".to_vec(), reply::INVALID),
            (chosen("disk", &[0; 9])[..20].to_vec(), reply::INVALID),
        ] {
            let go = said(option::GO, &chosen("disk", &[]));
            let (outcome, heard, _) = talk(&fixed(&[said(option, &data), go]));
            assert_eq!(outcome.unwrap(), agreed(0, false, false));
            assert_eq!((heard[0].0, heard[0].1), (option, refused), "{data:?}");
            assert_eq!(heard[1].0, option::GO);
        }
    }
    // The client must query the block size of an export with large blocks, or at least have been
    // told it.
    let large = |option, asked: &[u16]| said(option, &chosen("large", asked));
    let (outcome, heard, _) = talk(&fixed(&[
        large(option::INFO, &[]),
        large(option::GO, &[]),
        large(option::GO, &[info::BLOCK_SIZE]),
    ]));
    assert_eq!(outcome.unwrap(), agreed(2, false, false));
    let last = |option| heard.iter().rfind(|one| one.0 == option).unwrap().1;
    assert_eq!((last(option::INFO), last(option::GO)), (reply::ACK, reply::ACK));
    assert!(kinds(&heard).contains(&reply::BLOCK_SIZE_REQUIRED));
}

#[test]
fn contexts_need_structured_replies_and_belong_to_one_export() {
    let (set, list) = (option::SET_META_CONTEXT, option::LIST_META_CONTEXT);
    let ask = |option, name, queries: &[&str]| said(option, &context(name, queries));
    let structured = said(option::STRUCTURED_REPLY, b"");
    let go = |name| said(option::GO, &chosen(name, &[]));
    let allocation = &["base:allocation"][..];
    let name = |id: u32| [&id.to_be_bytes()[..], ALLOCATION_NAME].concat();
    let (outcome, heard, _) = talk(&fixed(&[
        ask(set, "disk", allocation),
        ask(list, "disk", allocation),
        structured.clone(),
        ask(list, "disk", &[]),
        ask(list, "disk", &["base:"]),
        ask(set, "disk", &["x-other:", "base:allocation", "base:allocation"]),
        go("disk"),
    ]));
    assert_eq!(outcome.unwrap(), agreed(0, true, true));
    let (invalid, meta, ack) = (reply::INVALID, reply::META_CONTEXT, reply::ACK);
    assert_eq!(
        kinds(&heard[..9]),
        [invalid, invalid, ack, meta, ack, meta, ack, meta, ack],
        "{heard:?}"
    );
    assert_eq!((&heard[3].2, &heard[7].2), (&name(0), &name(1)));
    // The last setting counts, and only for its export; a failed setting cancels earlier ones.
    for (second, allocation) in [
        (ask(set, "disk", &["base:"]), false),
        (ask(set, "disk", &[]), false),
        (ask(set, "fixed", allocation), false),
        (ask(set, "none", allocation), false),
        (said(set, b"\0\0\0\x04disk\0\0\0\x02"), false),
        (said(set, &[&context("disk", allocation)[..], b"x"].concat()), false),
        (ask(set, "disk", &["base:other"]), false),
        (ask(list, "disk", &["base:other"]), true),
        (structured.clone(), true),
    ] {
        let first = ask(set, "disk", &["base:allocation"]);
        let (outcome, _, _) =
            talk(&fixed(&[structured.clone(), first, second.clone(), go("disk")]));
        assert_eq!(outcome.unwrap(), agreed(0, true, allocation), "{second:?}");
    }
    // Claiming more queries than the option contains takes neither memory nor time.
    let mut lies = context("disk", allocation);
    lies[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    let (outcome, heard, _) = talk(&fixed(&[structured, said(set, &lies), go("disk")]));
    assert_eq!(outcome.unwrap(), agreed(0, true, false));
    assert_eq!(heard[1].1, invalid);
}

#[test]
fn other_options_are_refused_and_those_too_long_are_skipped() {
    let options: Vec<u32> = vec![0, 4, 5, 11, 12, u32::MAX];
    let says: Vec<Vec<u8>> = options.iter().map(|option| said(*option, b"data")).collect();
    let (_, heard, _) = talk(&fixed(&says));
    let expected: Vec<Heard> =
        options.iter().map(|option| (*option, reply::UNSUPPORTED, Vec::new())).collect();
    assert_eq!(heard, expected);
    let invalid = said(option::STRUCTURED_REPLY, b"x");
    let long = vec![b'I'; OPTION_BYTES_MAX as usize + 1];
    let (outcome, heard, _) = talk(&fixed(&[
        invalid,
        said(option::GO, &long),
        said(99, &vec![0; SKIP_MAX as usize]),
        said(option::GO, &chosen("disk", &[])),
    ]));
    assert_eq!(outcome.unwrap(), agreed(0, false, false));
    assert_eq!(kinds(&heard[..3]), [reply::INVALID, reply::TOO_BIG, reply::TOO_BIG]);
    // Options that are even longer end the handshake. A name that is too long ends it too, because
    // EXPORT_NAME has no error reply.
    for (option, len) in [(99, SKIP_MAX + 1), (option::GO, u32::MAX), (1, OPTION_BYTES_MAX + 1)] {
        let mut says = fixed(&[said(option, b"")]);
        says[16..].copy_from_slice(&len.to_be_bytes());
        says.resize(says.len() + (4 << 20), 0);
        let (outcome, heard, _) = talk(&says);
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(heard.is_empty());
    }
}

#[test]
fn clients_with_another_protocol_or_an_endless_handshake_are_disconnected() {
    let options = |count: u32| vec![said(99, b""); count as usize];
    let go = said(option::GO, &chosen("disk", &[]));
    let (outcome, _, _) = talk(&fixed(&[options(OPTIONS_MAX - 1), vec![go.clone()]].concat()));
    assert_eq!(outcome.unwrap(), agreed(0, false, false));
    let (outcome, heard, _) = talk(&fixed(&[options(OPTIONS_MAX), vec![go]].concat()));
    assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(heard.len() as u32, OPTIONS_MAX);
    for says in [
        &b"\0\0\0\x04"[..],
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x03IHAVEOPS\0\0\0\x02\0\0\0\0",
    ] {
        let (outcome, heard, rest) = talk(says);
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::InvalidData, "{says:?}");
        assert!(heard.is_empty() && rest.is_empty());
    }
}

#[test]
fn a_client_that_breaks_off_anywhere_has_chosen_nothing() {
    let says = fixed(&[
        said(option::STRUCTURED_REPLY, b""),
        said(option::SET_META_CONTEXT, &context("disk", &["base:allocation"])),
        said(99, &vec![0; OPTION_BYTES_MAX as usize + 1]),
        said(option::LIST, b""),
        said(option::GO, &chosen("disk", &[info::BLOCK_SIZE])),
    ]);
    assert_eq!(talk(&says).0.unwrap(), agreed(0, true, true));
    // All positions within the skipped option are equivalent, so one of them is enough.
    let cuts = (0..says.len()).filter(|cut| *cut < 200 || cut + 200 > says.len());
    for cut in cuts.chain([5000]) {
        let error = talk(&says[..cut]).0.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "cut at {cut}");
    }
}

proptest! {
    /// Any option number, with any data and even a false length, gets a reply or ends the
    /// handshake.
    #[test]
    fn any_input_is_answered_or_ends_the_connection(
        options in proptest::collection::vec((0..13_u32, proptest::collection::vec(any::<u8>(), 0..40)), 0..9),
        lie in proptest::option::of((any::<u16>(), any::<u8>())),
    ) {
        let says: Vec<Vec<u8>> =
            options.iter().map(|(option, data)| said(*option, data)).collect();
        let mut says = fixed(&says);
        if let Some((at, byte)) = lie {
            let at = usize::from(at) % says.len();
            says[at] = byte;
        }
        let (outcome, heard, rest) = talk(&says);
        if let Ok(Some(agreed)) = outcome {
            prop_assert!(agreed.export < 3 && (agreed.structured || !agreed.allocation));
        } else {
            prop_assert!(rest.is_empty());
        }
        // There is at most a limited number of replies for each option.
        prop_assert!(heard.len() <= 5 * options.len());
    }
}
