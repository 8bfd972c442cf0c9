//! The bytes of an emulated device: in memory, allocated page by page, or in a file.
//!
//! Bytes that were never written read as zeros. The content after a trim is undefined.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

/// The content of a device.
pub trait Store {
    /// Reads bytes.
    ///
    /// # Errors
    /// An error of the system, as for the other methods.
    fn read(&mut self, offset: u64, to: &mut [u8]) -> io::Result<()>;

    /// Writes bytes. With `durable`, they survive a power cut.
    ///
    /// # Errors
    /// An error of the system.
    fn write(&mut self, offset: u64, from: &[u8], durable: bool) -> io::Result<()>;

    /// Marks a range as no longer needed.
    ///
    /// # Errors
    /// An error of the system.
    fn trim(&mut self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes everything written before durable.
    ///
    /// # Errors
    /// An error of the system.
    fn flush(&mut self) -> io::Result<()>;
}

/// The size of a page in bytes.
pub const PAGE: usize = 4096;
/// A page of the store.
pub type Page = [u8; PAGE];

/// Returns the pages that a range overlaps, and the range within each.
pub fn pages(offset: u64, len: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let (size, end) = (PAGE as u64, offset.saturating_add(len));
    let touched = (offset / size..end.div_ceil(size)).map(move |page| {
        let begin = page * size;
        let within = |at: u64| (at.max(begin) - begin).min(size) as usize;
        (page, within(offset)..within(end))
    });
    touched.filter(|(_, range)| !range.is_empty())
}

/// Content in memory, allocated only for pages that have been written.
#[derive(Clone, Default)]
pub struct Sparse {
    pages: BTreeMap<u64, Box<Page>>,
}

impl Sparse {
    /// Creates content that is all zeros.
    pub fn new() -> Sparse {
        Sparse::default()
    }

    /// Reads the bytes starting at `offset`.
    pub fn get(&self, offset: u64, mut to: &mut [u8]) {
        for (page, range) in pages(offset, to.len() as u64) {
            let (now, later) = to.split_at_mut(range.len());
            match self.pages.get(&page) {
                Some(content) => now.copy_from_slice(&content[range]),
                None => now.fill(0),
            }
            to = later;
        }
    }

    /// Returns a page, allocating it if necessary.
    pub fn page(&mut self, page: u64) -> &mut Page {
        self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE]))
    }

    /// Returns the allocated parts of a range. The time depends on the number of allocated pages,
    /// not on the length of the range.
    pub fn present(&self, offset: u64, len: u64) -> Vec<(u64, Range<usize>)> {
        let size = PAGE as u64;
        let end = offset.saturating_add(len);
        let touched = self.pages.range(offset / size..end.div_ceil(size));
        let part = |(page, _): (&u64, _)| {
            let begin = (page * size).max(offset);
            pages(begin, end.min((page * size).saturating_add(size)) - begin).next()
        };
        touched.filter_map(part).collect()
    }
}

impl Store for Sparse {
    fn read(&mut self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.get(offset, to);
        Ok(())
    }

    fn write(&mut self, offset: u64, mut from: &[u8], _durable: bool) -> io::Result<()> {
        for (page, range) in pages(offset, from.len() as u64) {
            let (now, later) = from.split_at(range.len());
            self.page(page)[range].copy_from_slice(now);
            from = later;
        }
        Ok(())
    }

    fn trim(&mut self, offset: u64, len: u64) -> io::Result<()> {
        for (page, range) in self.present(offset, len) {
            if range == (0..PAGE) {
                self.pages.remove(&page);
            } else {
                self.page(page)[range].fill(0);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file is as long as the data written to it, and reads as zeros beyond. A trim punches a hole.
impl Store for File {
    fn read(&mut self, mut offset: u64, mut to: &mut [u8]) -> io::Result<()> {
        while !to.is_empty() {
            match self.read_at(to, offset) {
                Ok(0) => break,
                Ok(count) => {
                    to = &mut to[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        to.fill(0);
        Ok(())
    }

    fn write(&mut self, offset: u64, from: &[u8], durable: bool) -> io::Result<()> {
        self.write_all_at(from, offset)?;
        if durable { self.sync_data() } else { Ok(()) }
    }

    fn trim(&mut self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(self, how, offset, len)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: usize = 6 * PAGE;

    /// An offset, a length, and the byte to write; None for a trim.
    type Act = (usize, usize, Option<u8>);

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let len = prop_oneof![0..20_usize, 0..3 * PAGE, Just(PAGE)];
        let at = prop_oneof![0..CAPACITY, (0..CAPACITY / PAGE).prop_map(|page| page * PAGE)];
        let act = (at, len, prop_oneof![3 => (1..=255_u8).prop_map(Some), 1 => Just(None)]);
        proptest::collection::vec(act, 1..40)
    }

    fn holds_what_a_vector_would(store: &mut impl Store, acts: &[Act]) {
        let mut model = vec![0; CAPACITY];
        for &(at, len, byte) in acts {
            let len = len.min(CAPACITY - at);
            match byte {
                Some(byte) => store.write(at as u64, &vec![byte; len], len % 7 == 0).unwrap(),
                None => store.trim(at as u64, len as u64).unwrap(),
            }
            model[at..at + len].fill(byte.unwrap_or(0));
            let mut seen = vec![0xAA; CAPACITY + 9 - at / 2];
            store.read(at as u64 / 2, &mut seen).unwrap();
            let (within, beyond) = seen.split_at(CAPACITY - at / 2);
            assert!(within == &model[at / 2..] && beyond == [0; 9]);
        }
        store.flush().unwrap();
    }

    proptest! {
        #[test]
        fn memory_holds_what_a_vector_would(acts in acts()) {
            let mut sparse = Sparse::new();
            holds_what_a_vector_would(&mut sparse, &acts);
            sparse.trim(0, u64::MAX).unwrap();
            prop_assert!(sparse.pages.is_empty());
        }
    }

    proptest! {
        // There are few cases because each one writes to the disk.
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn a_file_holds_what_a_vector_would(acts in acts()) {
            holds_what_a_vector_would(&mut tempfile::tempfile().unwrap(), &acts);
        }
    }

    #[test]
    fn memory_is_used_only_for_written_blocks() {
        let mut sparse = Sparse::new();
        sparse.write(1 << 50, &[1; 10], false).unwrap();
        sparse.write((1 << 40) - 1, &[1; 2], false).unwrap();
        sparse.read(1 << 60, &mut [0; 100_000]).unwrap();
        assert_eq!(sparse.pages.len(), 3);
        sparse.trim(1 << 40, 1 << 62).unwrap();
        assert_eq!(sparse.pages.len(), 1);
        sparse.read(u64::MAX - 9, &mut [0; 20]).unwrap();
    }
}
