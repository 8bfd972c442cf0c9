//! Memory that begins at a page, as direct I/O wants it.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Memory begins at a multiple of this, enough for every device there is.
pub(crate) const ALIGN: usize = 4096;

/// Zeroed bytes that begin at a page. The kernel may be told their address: they stay where they
/// are until they are dropped.
pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its bytes like a `Vec<u8>`, without sharing or thread-bound state.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference bytes are only read, as those of a `Vec<u8>`.
unsafe impl Sync for Memory {}

impl Memory {
    /// `len` bytes, more than none.
    pub fn zeroed(len: usize) -> Memory {
        let layout = Layout::from_size_align(len.max(1), ALIGN).expect("a length that fits memory");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Memory { start, layout }
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }

    /// Where it begins; for the kernel.
    pub(crate) fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// What it contains.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is that many initialised bytes, changed only through `bytes_mut`. Memory
        // whose address is used otherwise is never asked for its bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    /// What it contains, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the reference is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout, and only once freed.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
