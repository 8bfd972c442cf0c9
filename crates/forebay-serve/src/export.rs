//! Exports: what clients see under a name.

use crate::protocol::{PAYLOAD_MAX, can};

/// What clients see under a name: a range of what lies behind.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its name; the empty one is the default.
    pub name: String,
    /// For people.
    pub description: String,
    /// Where it begins.
    pub offset: u64,
    /// Bytes it has.
    pub bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// What requests have to be multiples of.
    pub block_bytes: u32,
    /// Whether it turns: clients then do not spread their requests.
    pub rotational: bool,
    /// Whether a trim leaves zeros, so that zeros need not be written.
    pub trims_to_zero: bool,
}

impl Export {
    /// What it can do, in the protocol's bits; `structured` says whether answers are.
    pub(crate) fn flags(&self, structured: bool) -> u16 {
        let always = can::HAS_FLAGS | can::FLUSH | can::FUA | can::MULTI_CONN | can::CACHE;
        let writing = can::TRIM | can::WRITE_ZEROES | can::FAST_ZERO;
        always
            | if self.read_only { can::READ_ONLY } else { writing }
            | if self.rotational { can::ROTATIONAL } else { 0 }
            | if structured { can::DO_NOT_FRAGMENT } else { 0 }
    }

    /// The least, the preferred and the longest request in bytes.
    pub(crate) fn blocks(&self) -> [u32; 3] {
        [self.block_bytes, self.block_bytes.max(4096), PAYLOAD_MAX]
    }
}
