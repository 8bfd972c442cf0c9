//! A B+tree that is updated in place: the structure to which the paper converts logs, for
//! comparison with sorted runs.
//!
//! There is one tree per disk. Inner pages stay in memory; leaves are cached up to a limit. A
//! record of up to a quarter of a page is stored in its leaf; the value of a longer record is
//! stored in an extent of its own (like overflow pages), and the leaf contains its location. A page
//! keeps its position and is rewritten there repeatedly, which causes random I/O. Deletions remain
//! as records, because another disk's tree may contain an older version.
//!
//! The tree is for measurements in virtual time only: it does not survive a power cut or a restart.
//! A store on files rejects it.

pub(crate) mod page;
pub(crate) mod tree;
