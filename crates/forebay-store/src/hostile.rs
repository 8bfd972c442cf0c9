//! Entry points for fuzzing with untrusted bytes: no input may cause a panic or excessive memory
//! use.

use crate::batch::FoundBatch;
use crate::filter::Filter;
use crate::frame::{Frame, FrameKind, pad};
use crate::root::Root;
use crate::segment::{self, Node};
use crate::{Layout, server};

const STORE: u64 = 1;

/// The words of a command, and the command's length in bytes.
pub type Command = (Vec<Vec<u8>>, usize);

/// Parses the first command in a client's input.
///
/// # Errors
/// Describes what is wrong with the input.
pub fn command(bytes: &[u8]) -> Result<Option<Command>, String> {
    server::next_command(bytes, 1 << 20)
}

/// Parses an HTTP request for metrics; returns whether it is complete.
///
/// # Errors
/// Returns the status of the response.
pub fn request(bytes: &[u8]) -> Result<bool, &'static str> {
    server::next_request(bytes).map(|asked| asked.is_some())
}

/// Parses a disk's bytes as every kind of frame, both unchanged and as the payload of a frame with
/// a valid checksum. Returns how many were parsed.
pub fn disk(bytes: &[u8]) -> usize {
    let Some((&selector, payload)) = bytes.split_first() else { return 0 };
    let kinds = [
        FrameKind::Label,
        FrameKind::BatchOf4,
        FrameKind::Leaf,
        FrameKind::Node,
        FrameKind::Filter,
        FrameKind::Root,
        FrameKind::StretchOf4,
        FrameKind::Batch,
        FrameKind::Stretch,
    ];
    let kind = kinds[usize::from(selector) % kinds.len()];
    let mut framed = Vec::new();
    let from = Frame::begin(&mut framed);
    framed.extend_from_slice(payload);
    // Fields that are valid for this kind of frame: the second of four disks, a node above leaves,
    // or the first frame of its log or chain.
    let b = match kind {
        FrameKind::Label => 4,
        FrameKind::Node => 1,
        _ => 0,
    };
    let (count, a) = (u32::from(selector >> 3) % 5, 1);
    Frame { kind, store: STORE, count, a, b }.end(&mut framed, from);
    pad(&mut framed);
    read(&framed) + read(bytes)
}

fn read(bytes: &[u8]) -> usize {
    let found = [
        Layout::parse(bytes).is_some(),
        FoundBatch::parse(bytes, STORE).is_some_and(|found| found.batch.log == 1),
        segment::leaf(bytes, STORE, 1).is_some(),
        Node::parse(bytes, STORE, 1).is_some_and(|node| node.child(b"key").is_some()),
        segment::filter(bytes, STORE, 1).is_some_and(|filter: Filter| filter.may_hold(7)),
        Root::parse(bytes, STORE).is_some(),
    ];
    found.iter().filter(|found| **found).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_ask_for_metrics_or_not() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/metrics/");
        let asked = ["prometheus", "old", "cut", "post"]
            .map(|name| request(&std::fs::read(format!("{folder}{name}")).unwrap()));
        assert_eq!(asked, [Ok(true), Ok(true), Ok(false), Err("405 Method Not Allowed")]);
        assert!(request(&[b'a'; 9000]).is_err(), "it has no end");
    }

    /// Every seed of the fuzzer must parse as its own kind once it has a valid checksum.
    #[test]
    fn seeds_get_past_the_sums() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/store/");
        let names = ["label", "batch", "leaf", "node", "filter", "root", "stretch"];
        for name in names.into_iter().chain(["label5", "batch5", "stretch5"]) {
            let bytes = std::fs::read(format!("{folder}{name}")).unwrap();
            let expected = if name == "filter" { 0..=1 } else { 1..=1 };
            assert!(expected.contains(&disk(&bytes)), "{name}: {}", disk(&bytes));
        }
        assert_eq!(disk(&[]), 0);
    }
}
