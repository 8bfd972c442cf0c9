//! Segments: immutable sorted records, stored as a bulk-loaded B+tree on one disk.
//!
//! The leaves come first, contiguously; each is a frame of at least 8 KiB of records, or of a
//! single record. The inner nodes follow, level by level; each is a frame with the lower bound,
//! offset and length of each child. The filter comes last. The lower bound of a child is its first
//! key, truncated after the first byte that differs from the last key of the preceding child; that
//! of the very first child is truncated after its first byte.
//!
//! A segment is written in one sequential pass. Offsets are relative to the segment's first byte.

use crate::filter::{self, Filter};
use crate::frame::{Fields, Frame, FrameKind, HEAD, pad, put_bytes};
use crate::record::{Key, Record};

/// A leaf ends with the record that makes it at least this long.
const LEAF_BYTES: usize = 8 << 10;
/// An inner node ends with the entry that makes it at least this long, unless that is its first
/// entry.
const NODE_BYTES: usize = 16 << 10;

/// The location of a frame in its segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) len: u32,
}

/// The keys that a segment owns: greater than `after` and not greater than `upto`. None means
/// unbounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) after: Option<Key>,
    pub(crate) upto: Option<Key>,
}

impl Keys {
    pub(crate) fn hold(&self, key: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| after < key)
            && self.upto.as_deref().is_none_or(|upto| key <= upto)
    }

    /// Returns the parts of this range below and above another range.
    pub(crate) fn without(&self, others: &Keys) -> Vec<Keys> {
        let end = |upto: &Option<Key>| (upto.is_none(), upto.clone());
        let before = Keys {
            after: self.after.clone(),
            upto: self.upto.clone().into_iter().chain(others.after.clone()).min(),
        };
        let behind =
            Keys { after: others.upto.clone().max(self.after.clone()), upto: self.upto.clone() };
        let is_some = |keys: &Keys| (false, keys.after.clone()) < end(&keys.upto);
        let mut left = Vec::new();
        if others.after.is_some() && is_some(&before) {
            left.push(before);
        }
        if others.upto.is_some() && is_some(&behind) {
            left.push(behind);
        }
        left
    }
}

/// The sizes of a segment's contents and the locations of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) records: u64,
    /// Bytes of records on the disk.
    pub(crate) record_bytes: u64,
    /// The number of these bytes that belong to keys.
    pub(crate) key_bytes: u64,
    pub(crate) tombstones: u64,
    pub(crate) sequence_max: u64,
    /// The end of the leaves, which begin at 0.
    pub(crate) leaves_len: u64,
    /// The root of the tree; its length is 0 if there are no records.
    pub(crate) top: Place,
    pub(crate) filter: Place,
}

impl Shape {
    /// Returns the mean length of a record.
    pub(crate) fn mean_record(&self) -> u64 {
        self.record_bytes / self.records.max(1)
    }
}

/// The logs whose records a segment contains for its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The first and the last log.
    pub(crate) ages: (u64, u64),
    /// The log before the first one, and the number of its batches. All of these batches must be
    /// found when the store is opened.
    pub(crate) before: (u64, u64),
}

/// The description of a segment in a disk's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) id: u64,
    /// The logs, as in [`Origin`].
    pub(crate) ages: (u64, u64),
    /// The log before them and its number of batches, as in [`Origin`].
    pub(crate) before: (u64, u64),
    pub(crate) keys: Keys,
    /// The offset of the segment on the disk in bytes.
    pub(crate) offset: u64,
    /// The length of the segment on the disk in bytes.
    pub(crate) len: u64,
    pub(crate) shape: Shape,
}

impl Described {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let shape = &self.shape;
        let words = [
            self.id,
            self.ages.0,
            self.ages.1,
            self.before.0,
            self.before.1,
            self.offset,
            self.len,
            shape.records,
            shape.record_bytes,
            shape.key_bytes,
            shape.tombstones,
            shape.sequence_max,
            shape.leaves_len,
            shape.top.at,
            shape.top.len.into(),
            shape.filter.at,
            shape.filter.len.into(),
        ];
        words.iter().for_each(|word| out.extend(word.to_le_bytes()));
        for key in [&self.keys.after, &self.keys.upto] {
            out.extend(u32::from(key.is_some()).to_le_bytes());
            put_bytes(out, key.as_deref().unwrap_or_default());
        }
    }

    pub(crate) fn get(fields: &mut Fields<'_>) -> Option<Described> {
        let mut words = [0; 17];
        for word in &mut words {
            *word = fields.u64()?;
        }
        let [id, first, last, log, batches, offset, len, records, record_bytes, key_bytes, ..] =
            words;
        let [.., tombstones, sequence_max, leaves_len, top_at, top_len, filter_at, filter_len] =
            words;
        let place = |at, len: u64| Some(Place { at, len: u32::try_from(len).ok()? });
        let (top, filter) = (place(top_at, top_len)?, place(filter_at, filter_len)?);
        let shape = Shape {
            records,
            record_bytes,
            key_bytes,
            tombstones,
            sequence_max,
            leaves_len,
            top,
            filter,
        };
        let mut key = || {
            let is_there = fields.u32()? == 1;
            let key = fields.bytes()?;
            Some(is_there.then(|| Key::from(key)))
        };
        let keys = Keys { after: key()?, upto: key()? };
        Some(Described {
            id,
            ages: (first, last),
            before: (log, batches),
            keys,
            offset,
            len,
            shape,
        })
    }
}

/// A child of an inner node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Child {
    /// The lower bound of the child's keys: not greater than the child's first key, and greater
    /// than all keys of the preceding child.
    first: Key,
    place: Place,
}

impl Child {
    fn size(&self) -> usize {
        16 + self.first.len()
    }
}

/// An inner node.
#[derive(Debug)]
pub(crate) struct Node {
    /// The level. At level 1, the children are leaves; above, they are nodes of the next lower
    /// level.
    pub(crate) level: u64,
    children: Vec<Child>,
}

impl Node {
    /// Parses a node of the segment `id`.
    pub(crate) fn parse(bytes: &[u8], store: u64, id: u64) -> Option<Node> {
        let (frame, payload) = Frame::parse(bytes, FrameKind::Node, store)?;
        let mut fields = Fields(payload);
        let mut child = || {
            let (at, len) = (fields.u64()?, fields.u32()?);
            Some(Child { first: fields.bytes()?.into(), place: Place { at, len } })
        };
        let children = (0..frame.count).map(|_| child()).collect::<Option<Vec<_>>>()?;
        let fits = frame.a == id && frame.b >= 1 && !children.is_empty() && fields.0.is_empty();
        fits.then_some(Node { level: frame.b, children })
    }

    /// Returns the only child that may contain `key`: the last one whose lower bound does not
    /// exceed it.
    pub(crate) fn child(&self, key: &[u8]) -> Option<Place> {
        let after = self.children.partition_point(|child| &*child.first <= key);
        Some(self.children[after.checked_sub(1)?].place)
    }

    /// Returns the lower bound and the location of each child.
    pub(crate) fn children(&self) -> impl Iterator<Item = (Key, Place)> {
        self.children.iter().map(|child| (child.first.clone(), child.place))
    }

    /// Returns the approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.children.iter().map(|child| child.size() as u64 + 32).sum()
    }
}

/// Parses a leaf of the segment `id`; returns its records and its length.
pub(crate) fn leaf(bytes: &[u8], store: u64, id: u64) -> Option<(Vec<Record>, u64)> {
    let len = Frame::len(bytes, FrameKind::Leaf, store)?;
    let (frame, payload) = Frame::parse(bytes, FrameKind::Leaf, store)?;
    (frame.a == id).then_some((Record::all(payload, frame.count)?, len))
}

/// Parses the filter of the segment `id`.
pub(crate) fn filter(bytes: &[u8], store: u64, id: u64) -> Option<Filter> {
    let (frame, payload) = Frame::parse(bytes, FrameKind::Filter, store)?;
    Filter::get(payload).filter(|_| frame.a == id)
}

/// Appends the filter of the segment `id`.
pub(crate) fn put_filter(out: &mut Vec<u8>, filter: &Filter, store: u64, id: u64) {
    let from = Frame::begin(out);
    filter.put(out);
    Frame { kind: FrameKind::Filter, store, count: 0, a: id, b: 0 }.end(out, from);
}

/// Returns an upper bound on the length of a segment with `record_bytes` bytes of records. The
/// prefixes that distinguish its keys have at most `prefix_bytes` bytes in total and `apart_max`
/// bytes each; nodes store one prefix for each leaf.
pub(crate) fn len_max(record_bytes: u64, records: u64, prefix_bytes: u64, apart_max: u64) -> u64 {
    let leaves = (record_bytes / (LEAF_BYTES - HEAD) as u64 + 1).min(records + 1);
    len_of(record_bytes, records, leaves, prefix_bytes.min(leaves.saturating_mul(apart_max)))
}

/// Returns the same upper bound for at most `leaves` leaves whose lower bounds have at most
/// `first_bytes` bytes in total.
fn len_of(record_bytes: u64, records: u64, leaves: u64, first_bytes: u64) -> u64 {
    let head = HEAD as u64;
    // Each level above the first has at most half as many entries as the level below it, rounded
    // up. The second level may contain all the long keys.
    let nodes = 3 * (leaves * (16 + head) + first_bytes);
    let filter = records * 10 / 8 + 8 + head;
    (record_bytes + leaves * head + nodes + filter).next_multiple_of(crate::frame::BLOCK as u64)
}

/// Encodes a segment: accepts records in key order and produces bytes.
pub(crate) struct Writer {
    store: u64,
    id: u64,
    out: Vec<u8>,
    /// The number of bytes that the caller has already taken.
    sent: u64,
    leaf: Vec<u8>,
    leaf_records: u32,
    leaf_first: Option<Key>,
    leaves: Vec<Child>,
    /// The total length of the leaves' lower bounds.
    first_bytes: u64,
    hashes: Vec<u64>,
    shape: Shape,
    last: Option<Key>,
}

impl Writer {
    pub(crate) fn new(store: u64, id: u64) -> Writer {
        Writer {
            store,
            id,
            out: Vec::new(),
            sent: 0,
            leaf: Vec::new(),
            leaf_records: 0,
            leaf_first: None,
            leaves: Vec::new(),
            first_bytes: 0,
            hashes: Vec::new(),
            shape: Shape::default(),
            last: None,
        }
    }

    /// Appends a record, whose key must be greater than the previous one.
    pub(crate) fn push(&mut self, record: &Record) {
        debug_assert!(self.last.as_ref().is_none_or(|last| *last < record.key), "in order");
        if self.leaf_records == 0 {
            Frame::begin(&mut self.leaf);
            self.leaf_first = Some(self.distinguishing_prefix(&record.key).into());
        }
        record.put(&mut self.leaf);
        self.leaf_records += 1;
        self.hashes.push(filter::hash(&record.key));
        self.shape.records += 1;
        self.shape.record_bytes += record.size() as u64;
        self.shape.key_bytes += record.key.len() as u64;
        self.shape.tombstones += u64::from(record.value.is_none());
        self.shape.sequence_max = self.shape.sequence_max.max(record.sequence);
        self.last = Some(record.key.clone());
        if self.leaf.len() >= LEAF_BYTES {
            self.end_leaf();
        }
    }

    /// Returns the shortest prefix that distinguishes the next key from the last one.
    fn distinguishing_prefix<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        distinguishing_prefix(self.last.as_deref().unwrap_or_default(), key)
    }

    /// Returns the number of bytes produced so far, including those already taken.
    pub(crate) fn len(&self) -> u64 {
        self.sent + (self.out.len() + self.leaf.len()) as u64
    }

    /// Returns an upper bound on the segment's length with one more record.
    pub(crate) fn len_with(&self, record: &Record) -> u64 {
        let first =
            self.leaf_first.as_deref().unwrap_or_else(|| self.distinguishing_prefix(&record.key));
        let first_bytes = self.first_bytes + first.len() as u64;
        let (bytes, records) =
            (self.shape.record_bytes + record.size() as u64, self.shape.records + 1);
        len_of(bytes, records, self.leaves.len() as u64 + 2, first_bytes)
    }

    /// Returns the next `count` bytes, or None if fewer are available.
    pub(crate) fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        (self.out.len() >= count).then(|| {
            let rest = self.out.split_off(count);
            self.sent += count as u64;
            std::mem::replace(&mut self.out, rest)
        })
    }

    fn end_leaf(&mut self) {
        let Some(first) = self.leaf_first.take() else { return };
        let place = Place { at: self.sent + self.out.len() as u64, len: self.leaf.len() as u32 };
        self.frame(FrameKind::Leaf, self.leaf_records, 0).end(&mut self.leaf, 0);
        self.out.append(&mut self.leaf);
        self.leaf_records = 0;
        self.first_bytes += first.len() as u64;
        self.leaves.push(Child { first, place });
    }

    fn frame(&self, kind: FrameKind, count: u32, b: u64) -> Frame {
        Frame { kind, store: self.store, count, a: self.id, b }
    }

    /// Returns the hashes of all keys so far, from which the caller builds the filter.
    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Returns the remaining bytes, padded to whole blocks, the segment's shape, and the root of
    /// its tree. The filter must contain all keys.
    pub(crate) fn finish(mut self, filter: &Filter) -> (Vec<u8>, Shape, Option<Node>) {
        self.end_leaf();
        self.shape.leaves_len = self.sent + self.out.len() as u64;
        let mut level = 0;
        let mut children = std::mem::take(&mut self.leaves);
        let mut top = None;
        while !children.is_empty() && (children.len() > 1 || level == 0) {
            level += 1;
            let parents = self.nodes(level, &children);
            if let [only] = &parents[..] {
                self.shape.top = only.place;
                top = Some(Node { level, children: std::mem::take(&mut children) });
            }
            children = if top.is_some() { Vec::new() } else { parents };
        }
        let from = self.out.len();
        put_filter(&mut self.out, filter, self.store, self.id);
        let len = (self.out.len() - from) as u32;
        self.shape.filter = Place { at: self.sent + from as u64, len };
        pad(&mut self.out);
        (self.out, self.shape, top)
    }

    /// Encodes a level of nodes; returns the nodes as children for the next level.
    fn nodes(&mut self, level: u64, children: &[Child]) -> Vec<Child> {
        let mut parents = Vec::new();
        let mut rest = children;
        while let Some(first) = rest.first() {
            let mut bytes = 0;
            let fits = |child: &&Child| {
                bytes += child.size();
                bytes <= NODE_BYTES
            };
            let count = rest.iter().take_while(fits).count().max(2).min(rest.len());
            let (node, later) = rest.split_at(count);
            let from = Frame::begin(&mut self.out);
            for child in node {
                self.out.extend(child.place.at.to_le_bytes());
                self.out.extend(child.place.len.to_le_bytes());
                put_bytes(&mut self.out, &child.first);
            }
            self.frame(FrameKind::Node, count as u32, level).end(&mut self.out, from);
            let len = (self.out.len() - from) as u32;
            let place = Place { at: self.sent + from as u64, len };
            parents.push(Child { first: first.first.clone(), place });
            rest = later;
        }
        parents
    }
}

/// Returns the shortest prefix of `key` that distinguishes it from the preceding key `last`.
pub(crate) fn distinguishing_prefix<'a>(last: &[u8], key: &'a [u8]) -> &'a [u8] {
    let same = last.iter().zip(key).take_while(|(a, b)| a == b).count();
    &key[..(same + 1).min(key.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    const STORE: u64 = 5;

    fn record(number: u32, key_len: usize, value_len: usize) -> Record {
        let mut key = number.to_be_bytes().to_vec();
        key.resize(key_len.max(4), 0);
        let value = (!number.is_multiple_of(7)).then(|| Value::from(vec![number as u8; value_len]));
        Record { key: key.into(), sequence: u64::from(number) + 3, value }
    }

    /// Encodes a segment whose keys are the even numbers below twice `count`.
    fn written(
        count: u32,
        key_len: usize,
        value_len: usize,
    ) -> (Vec<u8>, Shape, Filter, Option<Node>) {
        let mut writer = Writer::new(STORE, 8);
        let mut out = Vec::new();
        for number in 0..count {
            writer.push(&record(number * 2, key_len, value_len));
            while let Some(bytes) = writer.take(4096) {
                out.extend(bytes);
            }
        }
        let mut filter = Filter::for_keys(count as usize);
        filter.insert(writer.hashes());
        let (rest, shape, top) = writer.finish(&filter);
        out.extend(rest);
        (out, shape, filter, top)
    }

    fn find(bytes: &[u8], shape: &Shape, key: &[u8]) -> Option<Record> {
        let mut place = shape.top;
        loop {
            let at = &bytes[place.at as usize..][..place.len as usize];
            let node = Node::parse(at, STORE, 8).expect("a node");
            place = node.child(key)?;
            if node.level == 1 {
                let (records, len) = leaf(&bytes[place.at as usize..], STORE, 8).expect("a leaf");
                assert_eq!(len, u64::from(place.len));
                return records.into_iter().find(|record| *record.key == *key);
            }
        }
    }

    #[test]
    fn every_record_is_found_and_no_other() {
        for (count, key_len, value_len) in
            [(1, 4, 0), (3, 4, 20_000), (5000, 16, 30), (700, 2000, 9000), (9, 64 << 10, 1)]
        {
            let (bytes, shape, filter, top) = written(count, key_len, value_len);
            let records = (0..count).map(|number| record(number * 2, key_len, value_len));
            let records: Vec<Record> = records.collect();
            assert_eq!(shape.records, u64::from(count));
            assert_eq!(shape.sequence_max, u64::from(count) * 2 + 1);
            let record_bytes: u64 = records.iter().map(|record| record.size() as u64).sum();
            let lens = || records.iter().map(|record| record.key.len() as u64);
            let (key_bytes, key_bytes_max) = (lens().sum(), lens().max().unwrap());
            assert_eq!(shape.record_bytes, record_bytes);
            let most = len_max(record_bytes, u64::from(count), key_bytes, key_bytes_max);
            assert!(bytes.len() as u64 <= most);
            assert!(bytes.len().is_multiple_of(4096));
            let at = |place: Place| &bytes[place.at as usize..][..place.len as usize];
            assert_eq!(super::filter(at(shape.filter), STORE, 8).as_ref(), Some(&filter));
            let found = Node::parse(at(shape.top), STORE, 8).unwrap();
            assert_eq!(top.unwrap().children, found.children);
            for record in &records {
                assert!(filter.may_hold(filter::hash(&record.key)));
                assert_eq!(find(&bytes, &shape, &record.key).as_ref(), Some(record));
                let mut odd = record.key.to_vec();
                odd[3] += 1;
                assert_eq!(find(&bytes, &shape, &odd), None);
            }
            let (mut at, mut scanned) = (0, Vec::new());
            while at < shape.leaves_len {
                let (records, len) = leaf(&bytes[at as usize..], STORE, 8).unwrap();
                scanned.extend(records);
                at += len;
            }
            assert_eq!(scanned, records);
        }
    }

    #[test]
    fn set_difference_of_keys() {
        let key = |number: u8| (1..=5).contains(&number).then(|| Key::from([number]));
        let all = || {
            (0..=5).flat_map(move |after| {
                (after + 1..=6).map(move |upto| Keys { after: key(after), upto: key(upto) })
            })
        };
        for (keys, others) in all().flat_map(|keys| all().map(move |others| (keys.clone(), others)))
        {
            let left = keys.without(&others);
            for number in 0..=7_u8 {
                let number = [number];
                let expected = keys.hold(&number) && !others.hold(&number);
                let holding = left.iter().filter(|left| left.hold(&number)).count();
                assert_eq!(holding, usize::from(expected), "{keys:?} without {others:?}: {left:?}");
            }
            assert!(left.windows(2).all(|pair| pair[0].upto <= pair[1].after), "{left:?}");
        }
    }

    #[test]
    fn an_empty_segment_has_a_filter_alone() {
        let (bytes, shape, filter, top) = written(0, 4, 0);
        assert_eq!((shape.records, shape.top, shape.leaves_len), (0, Place::default(), 0));
        assert!(top.is_none() && !filter.may_hold(7));
        assert_eq!(bytes.len(), 4096);
    }

    #[test]
    fn roots_are_read_as_written() {
        let shape = written(5, 4, 4).1;
        let keys = |after: Option<&[u8]>, upto: Option<&[u8]>| Keys {
            after: after.map(Key::from),
            upto: upto.map(Key::from),
        };
        for keys in [keys(None, None), keys(Some(b""), None), keys(None, Some(b"zz"))] {
            let described =
                Described { id: 1, ages: (2, 3), before: (1, 9), keys, offset: 4, len: 5, shape };
            let mut bytes = Vec::new();
            described.put(&mut bytes);
            assert_eq!(Described::get(&mut Fields(&bytes)).as_ref(), Some(&described));
            (0..bytes.len())
                .for_each(|len| assert!(Described::get(&mut Fields(&bytes[..len])).is_none()));
        }
        assert!(keys(Some(b"a"), Some(b"c")).hold(b"b") && keys(Some(b"a"), Some(b"c")).hold(b"c"));
        assert!(!keys(Some(b"a"), None).hold(b"a") && !keys(None, Some(b"c")).hold(b"d"));
    }
}
