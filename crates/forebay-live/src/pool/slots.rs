//! Implements the operations of placement policies on buffers.

use forebay_core::{Buf, Bytes, Piece, Slots};
use twox_hash::XxHash3_64;

use super::room::Room;
use super::{BufferKind, ENTRY_BITS, Entry, Pool, entry_of, told};
use crate::galois::{self, BLOCKS_MAX};

/// The byte that fills new buffers in debug builds.
const NEW: u8 = 0xEE;
/// The byte that fills freed buffers in debug builds.
const STALE: u8 = 0xDD;

/// Returns the checksum used by [`Slots::checksum`]: 64-bit XXH3.
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

impl Slots for Pool {
    #[inline]
    fn take(&mut self, len: u32) -> Buf {
        let place = self.room.take(len);
        let buf = self.name(len, BufferKind::Held, place);
        self.live += 1;
        self.held_bytes += Room::size(len) as u64;
        self.peak_bytes = self.peak_bytes.max(self.held_bytes);
        if cfg!(debug_assertions) {
            self.view_mut(Bytes::of(buf).len(len)).fill(NEW);
        }
        buf
    }

    #[inline]
    #[track_caller]
    fn keep(&mut self, buf: Buf) {
        if buf != 0 && self.held(buf).kind == BufferKind::Held {
            let holds = &mut self.entries[entry_of(buf)].holds;
            *holds = holds.checked_add(1).expect("less than four billion holds");
        }
    }

    #[inline]
    #[track_caller]
    fn free(&mut self, buf: Buf) {
        if buf == 0 || self.held(buf).kind != BufferKind::Held {
            return;
        }
        let &Entry { holds, len, place, .. } = self.held(buf);
        if holds == 1 {
            let whole = Bytes::of(buf).len(len);
            let loans = &self.held(buf).loans;
            assert!(loans.is_empty(), "{} freed while a device uses it", told(whole));
            if cfg!(debug_assertions) {
                self.view_mut(whole).fill(STALE);
            }
            self.room.give_back(place, len);
            self.free.push(entry_of(buf) as u32);
            self.live -= 1;
            self.held_bytes -= Room::size(len) as u64;
        }
        let entry = &mut self.entries[entry_of(buf)];
        entry.holds -= 1;
        if entry.holds == 0 {
            entry.name = entry.name.wrapping_add(1 << ENTRY_BITS);
        }
    }

    #[track_caller]
    fn zero(&mut self, to: Piece) {
        if to.buf != 0 {
            self.view_mut(to).fill(0);
        }
    }

    #[track_caller]
    fn copy(&mut self, from: Piece, to: Bytes) {
        let (mut source, one) = ([[].as_slice()], [Some(from.bytes())]);
        let apart = self.apart(from.len, one.into_iter(), &mut source, [to].into_iter());
        if let Some([to, _]) = apart {
            to.copy_from_slice(source[0]);
        }
    }

    #[track_caller]
    fn add(&mut self, from: Piece, to: Bytes, factor: u8) {
        let (mut source, one) = ([[].as_slice()], [Some(from.bytes())]);
        let apart = self.apart(from.len, one.into_iter(), &mut source, [to].into_iter());
        if let Some([to, _]) = apart {
            galois::add(to, source[0], factor);
        }
    }

    #[track_caller]
    fn parity(&mut self, data: &[Bytes], len: u32, parities: &[Bytes]) {
        assert!(
            (1..=2).contains(&parities.len()),
            "expected one or two parities, got {}",
            parities.len()
        );
        assert!(data.len() <= BLOCKS_MAX, "{} data blocks, at most {BLOCKS_MAX}", data.len());
        let mut blocks = [[].as_slice(); BLOCKS_MAX];
        let from = data.iter().copied().map(Some);
        let apart = self.apart(len, from, &mut blocks, parities.iter().copied());
        if let Some([p, q]) = apart {
            galois::parity(&blocks[..data.len()], p, (parities.len() == 2).then_some(q));
        }
    }

    #[track_caller]
    fn recover(&mut self, data: &[Bytes], len: u32, parities: &[Bytes], lost: &[usize]) {
        let count = data.len() + parities.len();
        assert!(data.len() <= BLOCKS_MAX, "{} data blocks, at most {BLOCKS_MAX}", data.len());
        assert!(
            parities.len() <= 2 && lost.len() <= parities.len() && lost.iter().all(|l| *l < count),
            "{lost:?} lost of {} blocks with {} parities",
            data.len(),
            parities.len()
        );
        let all = data.iter().chain(parities).copied().enumerate();
        let left = all.map(|(index, bytes)| (!lost.contains(&index)).then_some(bytes));
        let place = |index: &usize| *data.iter().chain(parities).nth(*index).expect("checked");
        let mut blocks = [[].as_slice(); BLOCKS_MAX + 2];
        let apart = self.apart(len, left, &mut blocks, lost.iter().map(place));
        if let Some(mut rebuilt) = apart {
            let (data, parities) = blocks[..count].split_at(data.len());
            galois::recover(data, parities, lost, &mut rebuilt[..lost.len()]);
        }
    }

    fn checksum(&self, of: Piece) -> Option<u64> {
        (of.buf != 0).then(|| checksum(self.view(of)))
    }

    #[track_caller]
    fn put(&mut self, to: Piece, record: &[u8]) {
        if to.buf != 0 {
            self.view_mut(to).copy_from_slice(record);
        }
    }

    #[track_caller]
    fn get(&self, from: Piece, record: &mut [u8]) -> bool {
        if from.buf != 0 {
            record.copy_from_slice(self.view(from));
        }
        from.buf != 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn piece(buf: Buf, at: u32, len: u32) -> Piece {
        Piece { buf, at, len }
    }

    /// An operation on the pool. Buffers are given by index, modulo the number of buffers.
    #[derive(Clone, Debug)]
    enum Act {
        Take(u32),
        Keep(usize),
        Free(usize),
        Put(usize, u32, Vec<u8>),
        Zero(usize, u32, u32),
        Copy(usize, u32, usize, u32, u32),
        Add(usize, u32, usize, u32, u32, u8),
    }

    fn act() -> impl Strategy<Value = Act> {
        let (which, at, len) = (0..64_usize, 0..20_000_u32, 0..9000_u32);
        let bytes = proptest::collection::vec(any::<u8>(), 0..600);
        prop_oneof![
            (1..20_000_u32).prop_map(Act::Take),
            which.clone().prop_map(Act::Keep),
            which.clone().prop_map(Act::Free),
            which.clone().prop_map(Act::Free),
            (which.clone(), at.clone(), bytes).prop_map(|(b, at, bytes)| Act::Put(b, at, bytes)),
            (which.clone(), at.clone(), len.clone()).prop_map(|(b, at, l)| Act::Zero(b, at, l)),
            (which.clone(), at.clone(), which.clone(), at.clone(), len.clone())
                .prop_map(|(f, fa, t, ta, l)| Act::Copy(f, fa, t, ta, l)),
            (which.clone(), at.clone(), which, at, len, any::<u8>())
                .prop_map(|(f, fa, t, ta, l, by)| Act::Add(f, fa, t, ta, l, by)),
        ]
    }

    /// The model of the pool: buffers as plain vectors, with their number of holds.
    #[derive(Default)]
    struct Model(BTreeMap<Buf, (u32, Vec<u8>)>);

    impl Model {
        fn buf(&self, nth: usize) -> Option<Buf> {
            let count = self.0.len();
            (count > 0).then(|| *self.0.keys().nth(nth % count).unwrap())
        }

        /// Returns a range of the `nth` buffer, limited to the buffer's length.
        fn piece(&self, nth: usize, at: u32, len: u32) -> Option<Piece> {
            let buf = self.buf(nth)?;
            let whole = self.0[&buf].1.len() as u32;
            let at = at % whole;
            Some(piece(buf, at, len.min(whole - at)))
        }

        fn bytes(&mut self, of: Piece) -> &mut [u8] {
            let bytes = &mut self.0.get_mut(&of.buf).unwrap().1;
            &mut bytes[of.at as usize..][..of.len as usize]
        }

        /// Returns two ranges of the same length that do not overlap.
        fn two(&self, f: usize, fa: u32, t: usize, ta: u32, len: u32) -> Option<(Piece, Piece)> {
            let (mut from, mut to) = (self.piece(f, fa, len)?, self.piece(t, ta, len)?);
            from.len = from.len.min(to.len);
            to.len = from.len;
            let apart = from.buf != to.buf || from.at.abs_diff(to.at) >= from.len;
            apart.then_some((from, to))
        }
    }

    fn play(pool: &mut Pool, model: &mut Model, act: Act) -> Option<()> {
        match act {
            Act::Take(len) => {
                let buf = pool.take(len);
                let content = pool.view(piece(buf, 0, len)).to_vec();
                assert!(model.0.insert(buf, (1, content)).is_none(), "the name is new");
            }
            Act::Keep(nth) => {
                let buf = model.buf(nth)?;
                pool.keep(buf);
                model.0.get_mut(&buf)?.0 += 1;
            }
            Act::Free(nth) => {
                let buf = model.buf(nth)?;
                pool.free(buf);
                let holds = &mut model.0.get_mut(&buf)?.0;
                *holds -= 1;
                if *holds == 0 {
                    model.0.remove(&buf);
                }
            }
            Act::Put(nth, at, bytes) => {
                let to = model.piece(nth, at, bytes.len() as u32)?;
                pool.put(to, &bytes[..to.len as usize]);
                model.bytes(to).copy_from_slice(&bytes[..to.len as usize]);
            }
            Act::Zero(nth, at, len) => {
                let to = model.piece(nth, at, len)?;
                pool.zero(to);
                model.bytes(to).fill(0);
            }
            Act::Copy(f, fa, t, ta, len) => {
                let (from, to) = model.two(f, fa, t, ta, len)?;
                pool.copy(from, to.bytes());
                let content = model.bytes(from).to_vec();
                model.bytes(to).copy_from_slice(&content);
            }
            Act::Add(f, fa, t, ta, len, factor) => {
                let (from, to) = model.two(f, fa, t, ta, len)?;
                pool.add(from, to.bytes(), factor);
                let content = model.bytes(from).to_vec();
                galois::add(model.bytes(to), &content, factor);
            }
        }
        Some(())
    }

    proptest! {
        #[test]
        fn buffers_hold_what_vectors_would(
            arena_bytes in 0..100_000_usize,
            acts in proptest::collection::vec(act(), 1..80),
        ) {
            let (mut pool, mut model) = (Pool::new(arena_bytes), Model::default());
            for act in acts {
                let _ = play(&mut pool, &mut model, act);
                prop_assert_eq!(pool.live(), model.0.len());
            }
            for (buf, (_, content)) in &model.0 {
                let whole = piece(*buf, 0, content.len() as u32);
                prop_assert!(pool.view(whole) == content, "{buf:#x}");
                let mut record = vec![0; content.len()];
                prop_assert!(pool.get(whole, &mut record));
                prop_assert!(record == *content);
            }
        }
    }

    /// Creates a buffer that contains these blocks of `len` bytes, one after another.
    fn fill(pool: &mut Pool, contents: &[Vec<u8>]) -> Vec<Bytes> {
        let len = contents[0].len() as u32;
        let buf = pool.take(len * contents.len() as u32);
        let places: Vec<Bytes> =
            (0..).map(|nth| Bytes { buf, at: nth * len }).take(contents.len()).collect();
        for (place, content) in places.iter().zip(contents) {
            pool.put(place.len(len), content);
        }
        places
    }

    #[test]
    fn stripes_come_back_in_place_from_one_buffer_or_many() {
        const LEN: u32 = 300;
        for together in [true, false] {
            let mut pool = Pool::new(1 << 20);
            let contents: Vec<Vec<u8>> = (0..5_u8)
                .map(|nth| (0..LEN).map(|at| (at as u8).wrapping_mul(nth + 3)).collect())
                .collect();
            let all = match together {
                true => fill(&mut pool, &contents),
                false => contents
                    .iter()
                    .map(|one| fill(&mut pool, std::slice::from_ref(one))[0])
                    .collect(),
            };
            let (data, parities) = all.split_at(3);
            pool.parity(data, LEN, parities);
            let whole: Vec<Vec<u8>> =
                all.iter().map(|at| pool.view(at.len(LEN)).to_vec()).collect();
            let data_slices: Vec<&[u8]> = contents[..3].iter().map(Vec::as_slice).collect();
            let (mut p, mut q) = (vec![0; 300], vec![0; 300]);
            galois::parity(&data_slices, &mut p, Some(&mut q));
            assert!(whole[..3] == contents[..3] && whole[3] == p && whole[4] == q);
            for lost in [vec![], vec![4], vec![1], vec![2, 0], vec![1, 3], vec![4, 2], vec![3, 4]] {
                for index in &lost {
                    pool.zero(all[*index].len(LEN));
                }
                pool.recover(data, LEN, parities, &lost);
                for (at, content) in all.iter().zip(&whole) {
                    assert!(pool.view(at.len(LEN)) == content, "{lost:?}, together {together}");
                }
            }
            pool.parity(data, LEN, &parities[..1]);
            assert_eq!(pool.view(parities[0].len(LEN)), p);
        }
    }

    #[test]
    #[should_panic(
        expected = "bytes 100..200 of buffer 0x1 written over bytes 150..250 of buffer 0x1"
    )]
    fn ranges_do_not_overlap() {
        let mut pool = Pool::new(0);
        let buf = pool.take(300);
        pool.copy(piece(buf, 150, 100), Bytes { buf, at: 100 });
    }

    #[test]
    #[should_panic(expected = "written over")]
    fn two_parities_do_not_allocate_either() {
        let mut pool = Pool::new(0);
        let buf = pool.take(300);
        let at = |at| Bytes { buf, at };
        pool.parity(&[at(0)], 100, &[at(100), at(199)]);
    }

    #[test]
    fn no_content_is_no_work() {
        let mut pool = Pool::new(0);
        let buf = pool.take(4);
        pool.put(piece(buf, 0, 4), b"kept");
        let none = Bytes::NONE;
        pool.keep(0);
        pool.free(0);
        pool.zero(none.len(9));
        pool.put(none.len(2), b"no");
        pool.copy(none.len(4), Bytes::of(buf));
        pool.copy(piece(buf, 0, 4), none);
        pool.add(none.len(4), Bytes::of(buf), 1);
        pool.parity(&[none], 4, &[Bytes::of(buf)]);
        pool.recover(&[none], 4, &[Bytes::of(buf)], &[0]);
        assert_eq!(pool.checksum(none.len(4)), None);
        assert!(!pool.get(none.len(4), &mut [0; 4]));
        assert_eq!(pool.view(piece(buf, 0, 4)), b"kept");
    }

    #[test]
    fn checksums_are_those_of_xxh3() {
        let mut pool = Pool::new(0);
        let buf = pool.take(240);
        pool.zero(piece(buf, 0, 240));
        // This is the checksum of no bytes, according to the reference implementation.
        assert_eq!(pool.checksum(piece(buf, 7, 0)), Some(0x2d06_8005_38d3_94c2));
        let zeros = pool.checksum(piece(buf, 0, 240));
        assert_eq!(zeros, Some(XxHash3_64::oneshot(&[0; 240])));
        pool.put(piece(buf, 239, 1), &[1]);
        assert_ne!(pool.checksum(piece(buf, 0, 240)), zeros);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn stale_and_new_bytes_are_seen() {
        let mut pool = Pool::new(1 << 16);
        let (start, _) = pool.arena().unwrap();
        let buf = pool.take(1 << 16);
        assert!(pool.view(piece(buf, 0, 1 << 16)).iter().all(|byte| *byte == NEW));
        pool.zero(piece(buf, 0, 1 << 16));
        pool.free(buf);
        // SAFETY: the arena lives as long as the pool, and nothing changes it here.
        let stale = unsafe { std::slice::from_raw_parts(start, 1 << 16) };
        assert!(stale.iter().all(|byte| *byte == STALE));
    }
}
