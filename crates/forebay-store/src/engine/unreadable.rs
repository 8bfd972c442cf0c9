//! Reads as much as possible when a store is opened: an unreadable block counts as damaged, and its
//! position is recorded.

use std::ops::Range;

use forebay_core::Fault;

use crate::OperationError;
use crate::frame::BLOCK;

use super::Engine;

/// The maximum number of unreadable blocks in one read before opening fails.
const UNREADABLE_MAX: usize = 64;

/// Bytes read from a disk, with zeros in place of unreadable blocks.
#[derive(Default)]
pub(super) struct Partial {
    pub(super) bytes: Vec<u8>,
    /// The positions of the unreadable blocks.
    unreadable: Vec<u64>,
}

impl Partial {
    /// Returns whether a range contains an unreadable block.
    pub(super) fn lacks(&self, range: &Range<u64>) -> bool {
        self.unreadable.iter().any(|at| *at < range.end && range.start < at + BLOCK as u64)
    }
}

impl Engine {
    /// Reads a large range in steps; unreadable blocks do not make it fail.
    pub(super) async fn read_around(
        &self,
        disk: usize,
        at: u64,
        len: u64,
    ) -> Result<Partial, OperationError> {
        let mut found = Partial { bytes: Vec::with_capacity(len as usize), unreadable: Vec::new() };
        self.read_on_around(&mut found, disk, at, len).await?;
        Ok(found)
    }

    /// Appends the bytes up to `len` of the range that begins at `at`.
    pub(super) async fn read_on_around(
        &self,
        found: &mut Partial,
        disk: usize,
        at: u64,
        len: u64,
    ) -> Result<(), OperationError> {
        let mut step = self.config.step_bytes;
        while (found.bytes.len() as u64) < len {
            let done = found.bytes.len() as u64;
            let some = step.min((len - done) as usize);
            match self.read(disk, at + done, some).await {
                Ok(bytes) => found.bytes.extend(bytes),
                // From here on, read block by block.
                Err(OperationError::Disk { fault: Fault::Media, .. }) if some > BLOCK => {
                    step = BLOCK
                }
                Err(OperationError::Disk { fault: Fault::Media, .. })
                    if found.unreadable.len() < UNREADABLE_MAX =>
                {
                    found.unreadable.push(done);
                    found.bytes.resize(found.bytes.len() + some, 0);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_lacks_the_blocks_that_it_meets() {
        let found = Partial { bytes: Vec::new(), unreadable: vec![8192, 20480] };
        for (range, lacks) in [
            (0..8192, false),
            (0..8193, true),
            (8192..8193, true),
            (12287..12288, true),
            (12288..20480, false),
            (12288..40960, true),
            (24576..24577, false),
        ] {
            assert_eq!(found.lacks(&range), lacks, "{range:?}");
        }
    }
}
