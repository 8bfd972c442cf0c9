//! Parses the letters with which blkparse and the kernel's tracepoints describe a request.

use crate::formats::blktrace::Category;

/// Returns the direction and flags; `None` for invalid letters.
///
/// An `F` before the direction is a flush, after it FUA. A flush alone, which the kernel spells `F`
/// or `FF`, has no direction.
pub(crate) fn category(rwbs: &[u8]) -> Option<Category> {
    let mut category = Category::default();
    let mut directed = false;
    for letter in rwbs {
        let (more, direction) = match letter {
            b'F' if !directed => (Category::FLUSH, false),
            b'F' => (Category::FUA, false),
            b'R' => (Category::READ, true),
            b'W' => (Category::WRITE, true),
            b'D' => (Category::DISCARD.with(Category::WRITE), true),
            b'N' => (Category::default(), true),
            b'A' => (Category::AHEAD, false),
            b'S' => (Category::SYNC, false),
            b'M' => (Category::META, false),
            // The barrier of kernels before 2.6.37, and a secure erase.
            b'B' => (Category::FLUSH, false),
            b'E' => (Category::default(), false),
            _ => return None,
        };
        category = category.with(more);
        directed |= direction;
    }
    (directed || category.has(Category::FLUSH)).then_some(category)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_f_means_what_its_place_says() {
        let (flush, fua, write) = (Category::FLUSH, Category::FUA, Category::WRITE);
        assert_eq!(category(b"FWFS"), Some(flush.with(write).with(fua).with(Category::SYNC)));
        assert_eq!((category(b"FN"), category(b"FF")), (Some(flush), Some(flush)));
        assert_eq!(category(b"WF"), Some(write.with(fua)));
        assert_eq!(category(b"DE"), Some(Category::DISCARD.with(write)));
        assert_eq!((category(b""), category(b"S"), category(b"Z")), (None, None, None));
    }
}
