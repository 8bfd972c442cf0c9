//! Page-aligned memory, as direct I/O requires.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The alignment of memory, sufficient for every device.
pub(crate) const ALIGN: usize = 4096;

/// The page size to request for long buffers. With scattered pages of 4 KiB, a device needs several
/// commands for a megabyte (a command has at most 128 segments on a loop device and 168 on SATA).
const HUGE: usize = 2 << 20;

/// Zeroed, page-aligned bytes. Their address can be passed to the kernel, because they do not move
/// until they are dropped.
pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory owns its bytes like a `Vec<u8>`, without sharing or thread-bound state.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference, bytes are only read, as with a `Vec<u8>`.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates `len` zeroed bytes, at least one.
    pub fn zeroed(len: usize) -> Memory {
        let align = if len >= HUGE { HUGE } else { ALIGN };
        let layout = Layout::from_size_align(len.max(1), align).expect("a length that fits memory");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        // Miri does not support `madvise`, but checks the rest of this file.
        if align == HUGE && !cfg!(miri) {
            // Requests huge pages before the memory is touched; this is only a hint.
            // SAFETY: the memory was just allocated and is not used yet.
            unsafe { libc::madvise(start.as_ptr().cast(), len / HUGE * HUGE, libc::MADV_HUGEPAGE) };
        }
        // SAFETY: this many bytes were allocated.
        unsafe { start.as_ptr().write_bytes(0, layout.size()) };
        Memory { start, layout }
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }

    /// Returns the address, for the kernel.
    pub(crate) fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns the contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` points to this many initialized bytes, which are changed only through
        // `bytes_mut`. Memory whose address is used otherwise is never accessed through this
        // method.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    /// Returns the contents for modification.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and this reference is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated in `zeroed` with this layout, and is freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_and_aligned_to_a_page_or_a_huge_page() {
        for (len, at) in [(1, ALIGN), (HUGE - 1, ALIGN), (HUGE, HUGE), (2 * HUGE + 5000, HUGE)] {
            let mut memory = Memory::zeroed(len);
            assert_eq!(memory.address() as usize % at, 0);
            assert_eq!(memory.len(), len);
            assert!(memory.bytes().iter().all(|byte| *byte == 0));
            memory.bytes_mut().fill(7);
        }
    }
}
