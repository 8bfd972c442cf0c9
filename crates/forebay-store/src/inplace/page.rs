//! Pages of a tree that is updated in place.
//!
//! A page is a frame (`a` is its position) padded to the page size. An entry of a leaf (`LEAF`)
//! consists of: length of the key (4 bytes); length of the value (4; all ones for a deletion, one
//! less if it is stored separately); sequence number (8); key; value, or its position (8) and
//! length (4). An entry of an inner page (`NODE`) consists of: the child's position (8), and the
//! smallest key that it may contain (length, bytes); the latter is ignored for the first child.

use crate::frame::{Fields, Frame, FrameKind, HEAD, put_bytes};
use crate::record::{Key, Record, Value};

const TOMBSTONE: u32 = u32::MAX;
const APART: u32 = u32::MAX - 1;
/// The bytes of a leaf's entry other than key and value.
const ENTRY_HEAD: usize = 16;
/// The bytes of the location of a separately stored value.
const EXTENT: usize = 12;

/// Returns the number of bytes in a page for entries.
fn room(page_bytes: usize) -> usize {
    page_bytes - HEAD
}

/// Returns the maximum length of a key: with a separately stored value, its entry occupies a
/// quarter of a page.
pub(crate) fn key_max(page_bytes: usize) -> usize {
    room(page_bytes) / 4 - ENTRY_HEAD - EXTENT
}

/// Returns whether a record is stored completely in its leaf.
pub(crate) fn fits_in_leaf(record: &Record, page_bytes: usize) -> bool {
    record.size() <= room(page_bytes) / 4
}

/// The location of a separately stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) at: u64,
    /// The length of the value; the extent consists of whole blocks.
    pub(crate) len: u32,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The value is stored in the leaf; None if the key was deleted.
    Here(Option<Value>),
    Apart(Extent),
}

/// A version of a key in a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) sequence: u64,
    pub(crate) content: Content,
}

impl Entry {
    fn size(&self) -> usize {
        let content = match &self.content {
            Content::Here(value) => value.as_ref().map_or(0, |value| value.len()),
            Content::Apart(_) => EXTENT,
        };
        ENTRY_HEAD + self.key.len() + content
    }

    fn write(&self, out: &mut Vec<u8>) {
        let len = match &self.content {
            Content::Here(None) => TOMBSTONE,
            Content::Here(Some(value)) => value.len() as u32,
            Content::Apart(_) => APART,
        };
        out.extend((self.key.len() as u32).to_le_bytes());
        out.extend(len.to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend_from_slice(&self.key);
        match &self.content {
            Content::Here(value) => out.extend_from_slice(value.as_deref().unwrap_or_default()),
            Content::Apart(extent) => {
                out.extend(extent.at.to_le_bytes());
                out.extend(extent.len.to_le_bytes());
            }
        }
    }

    fn read(fields: &mut Fields<'_>) -> Option<Entry> {
        let (key_len, len, sequence) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let key = fields.take(key_len as usize)?.into();
        let content = match len {
            TOMBSTONE => Content::Here(None),
            APART => Content::Apart(Extent { at: fields.u64()?, len: fields.u32()? }),
            len => Content::Here(Some(fields.take(len as usize)?.into())),
        };
        Some(Entry { key, sequence, content })
    }
}

/// The entries of a page, in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Leaf(Vec<Entry>),
    /// The smallest key and the position of each child.
    Inner(Vec<(Key, u64)>),
}

impl Page {
    /// Returns whether the entries are too long for a page.
    pub(crate) fn is_over(&self, page_bytes: usize) -> bool {
        self.bytes() > room(page_bytes)
    }

    fn sizes(&self) -> Vec<usize> {
        match self {
            Page::Leaf(entries) => entries.iter().map(Entry::size).collect(),
            Page::Inner(children) => children.iter().map(|(key, _)| 12 + key.len()).collect(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Page::Leaf(entries) => entries.iter().map(Entry::size).sum(),
            Page::Inner(children) => children.iter().map(|(key, _)| 12 + key.len()).sum(),
        }
    }

    /// Splits off the upper half by bytes, or only the last entry if entries are only ever
    /// appended. Returns the smallest key of the new page.
    pub(crate) fn split(&mut self, is_appended: bool) -> (Key, Page) {
        let sizes = self.sizes();
        let half = sizes.iter().sum::<usize>() / 2;
        let mut below = 0;
        let middle = sizes.iter().position(|size| {
            below += size;
            below > half
        });
        let last = sizes.len() - 1;
        let at = if is_appended { last } else { middle.unwrap_or(last).max(1) };
        match self {
            Page::Leaf(entries) => {
                let upper = entries.split_off(at);
                (upper[0].key.clone(), Page::Leaf(upper))
            }
            Page::Inner(children) => {
                let upper = children.split_off(at);
                (upper[0].0.clone(), Page::Inner(upper))
            }
        }
    }

    /// Encodes the page for position `place`.
    pub(crate) fn write(&self, store: u64, place: u64, page_bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(page_bytes);
        let from = Frame::begin(&mut out);
        let (kind, count) = match self {
            Page::Leaf(entries) => {
                entries.iter().for_each(|entry| entry.write(&mut out));
                (FrameKind::Leaf, entries.len())
            }
            Page::Inner(children) => {
                for (key, place) in children {
                    out.extend(place.to_le_bytes());
                    put_bytes(&mut out, key);
                }
                (FrameKind::Node, children.len())
            }
        };
        Frame { kind, store, count: count as u32, a: place, b: 0 }.end(&mut out, from);
        out.resize(page_bytes, 0);
        out
    }

    /// Parses the page at position `place`, if the bytes are valid.
    pub(crate) fn parse(bytes: &[u8], store: u64, place: u64) -> Option<Page> {
        if let Some((frame, payload)) = Frame::parse(bytes, FrameKind::Leaf, store) {
            let mut fields = Fields(payload);
            let entries = (0..frame.count).map(|_| Entry::read(&mut fields)).collect::<Option<_>>();
            return entries.filter(|_| frame.a == place && fields.0.is_empty()).map(Page::Leaf);
        }
        let (frame, payload) = Frame::parse(bytes, FrameKind::Node, store)?;
        let mut fields = Fields(payload);
        let child = |fields: &mut Fields<'_>| {
            let place = fields.u64()?;
            Some((fields.bytes()?.into(), place))
        };
        let children = (0..frame.count).map(|_| child(&mut fields)).collect::<Option<_>>();
        children.filter(|_| frame.a == place && fields.0.is_empty()).map(Page::Inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, content: Content) -> Entry {
        Entry { key: key.as_bytes().into(), sequence: 7, content }
    }

    #[test]
    fn a_page_is_read_as_it_was_written_at_its_place_only() {
        let value = |len| Content::Here(Some(vec![3; len].into()));
        let leaf = Page::Leaf(vec![
            entry("a", value(0)),
            entry("b", Content::Here(None)),
            entry("c", value(900)),
            entry("d", Content::Apart(Extent { at: 1 << 40, len: 100_000 })),
        ]);
        let key = |key: &str| Key::from(key.as_bytes());
        let inner = Page::Inner(vec![(key(""), 4096), (key("k"), 8192)]);
        for page in [leaf, inner] {
            let bytes = page.write(5, 4096, 8192);
            assert_eq!(bytes.len(), 8192);
            assert_eq!(Page::parse(&bytes, 5, 4096), Some(page));
            assert_eq!(Page::parse(&bytes, 5, 8192), None);
            assert_eq!(Page::parse(&bytes, 6, 4096), None);
            assert_eq!(Page::parse(&bytes[..60], 5, 4096), None);
        }
    }

    #[test]
    fn both_halves_of_the_longest_entries_fit() {
        let page_bytes = 4096;
        let key = |at: usize| format!("{at:0len$}", len = key_max(page_bytes));
        let far = || Content::Apart(Extent { at: 0, len: 1 });
        let mut page = Page::Leaf((0..4).map(|at| entry(&key(at), far())).collect());
        assert!(!page.is_over(page_bytes));
        let Page::Leaf(entries) = &mut page else { panic!("a leaf") };
        entries.push(entry(&key(4), far()));
        assert!(page.is_over(page_bytes));
        let (least, upper) = page.split(false);
        assert!(!page.is_over(page_bytes) && !upper.is_over(page_bytes));
        assert_eq!(&*least, key(2).as_bytes());
        let (least, upper) = page.split(true);
        assert_eq!((&*least, upper.sizes().len()), (key(1).as_bytes(), 1));
    }
}
