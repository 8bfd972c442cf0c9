//! Parses the letters (RWBS) by which blkparse and the kernel's tracepoints describe a request.

use super::Category;

/// Returns the direction and the flags, or `None` if letters are invalid.
///
/// An `F` before the direction means a flush, and after it FUA. A flush alone, which the kernel
/// writes as `F` or `FF`, has no direction.
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
            // The barriers of kernels before 2.6.37, and secure erases.
            b'B' => (Category::FLUSH, false),
            b'E' => (Category::default(), false),
            // Atomic writes, and writes of zeros that transfer no data.
            b'U' => (Category::default(), false),
            b'Z' if directed => (Category::default(), false),
            // Of the commands to zones, only the append transfers data.
            b'Z' if rwbs.get(1) == Some(&b'A') => return Some(Category::WRITE),
            b'Z' => return Some(Category::default()),
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
    fn the_meaning_of_f_depends_on_its_position() {
        let (flush, fua, write) = (Category::FLUSH, Category::FUA, Category::WRITE);
        assert_eq!(category(b"FWFS"), Some(flush.with(write).with(fua).with(Category::SYNC)));
        assert_eq!((category(b"FN"), category(b"FF")), (Some(flush), Some(flush)));
        assert_eq!(category(b"WF"), Some(write.with(fua)));
        assert_eq!(category(b"DE"), Some(Category::DISCARD.with(write)));
        assert_eq!((category(b""), category(b"S"), category(b"Y")), (None, None, None));
    }

    #[test]
    fn letters_of_new_kernels_are_known() {
        let write = Category::WRITE;
        assert_eq!(category(b"WSU"), Some(write.with(Category::SYNC)));
        assert_eq!((category(b"ZA"), category(b"ZRA")), (Some(write), Some(Category::default())));
        assert_eq!(category(b"WZ"), Some(write));
    }
}
