//! A B+tree that is updated in place: what the paper's logs become, to compare with sorted runs.
//!
//! One tree a disk. Inner pages stay in memory, leaves pass through a cache of bounded bytes. A record up to a
//! quarter of a page lies in its leaf; a longer value lies in an extent of its own, as overflow pages
//! do, and its leaf says where. A page keeps its place for good and is written there again and again: that is
//! what makes it random. Deletions stay as records, since another disk's tree may have an older version.
//!
//! It is for measurements in virtual time: what a power cut leaves of it is not a tree, and nothing
//! finds it again. A store on files refuses it.

pub(crate) mod page;
pub(crate) mod tree;
