//! Exports: the named disks that clients see.

use crate::protocol::{PAYLOAD_MAX, can};

/// A named range of a back, as clients see it.
#[derive(Clone, Debug)]
pub struct Export {
    /// The name; an empty name makes it the default export.
    pub name: String,
    /// A description for people.
    pub description: String,
    /// The offset in the back in bytes.
    pub offset: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// The block size in bytes, to which requests must be aligned.
    pub block_bytes: u32,
    /// Whether the disk is rotational; clients then avoid scattered requests.
    pub rotational: bool,
    /// Whether a trimmed range reads as zeros, so that zeros can be written by trimming.
    pub trims_to_zero: bool,
}

impl Export {
    /// Returns whether clients may stay connected if this export becomes `other`: `other` has the
    /// same range or a longer one.
    pub(crate) fn may_become(&self, other: &Export) -> bool {
        let range = |one: &Export| (one.name.clone(), one.offset, one.read_only);
        range(self) == range(other) && other.bytes >= self.bytes
    }

    /// Returns the protocol's transmission flags; `structured` says whether replies are structured.
    pub(crate) fn flags(&self, structured: bool) -> u16 {
        let always = can::HAS_FLAGS | can::FLUSH | can::FUA | can::MULTI_CONN | can::CACHE;
        let writing = can::TRIM | can::WRITE_ZEROES | can::FAST_ZERO;
        always
            | if self.read_only { can::READ_ONLY } else { writing }
            | if self.rotational { can::ROTATIONAL } else { 0 }
            | if structured { can::DO_NOT_FRAGMENT } else { 0 }
    }

    /// Returns the minimum, preferred and maximum request size in bytes.
    pub(crate) fn blocks(&self) -> [u32; 3] {
        [self.block_bytes, self.block_bytes.max(4096), PAYLOAD_MAX]
    }
}
