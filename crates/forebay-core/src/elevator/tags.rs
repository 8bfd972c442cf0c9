//! The tags of a multi-queue request queue, and the order in which they are allocated.
//!
//! Source: Linux 6.12, `lib/sbitmap.c`. Tags are in words of 64. A kind of request that must leave
//! some tags to others may use only the first few of each word, and waits for one of these even if
//! others are free. A freed tag is not allocated again before the rest of its word has been used.
//!
//! Linux uses smaller words for few tags, but it sizes a scheduler's tags for the maximum number.
//! On a guest whose disk has 64 tags, there is one word, so a kind that may use one tag per word
//! has a single tag.

/// The number of bits in a word.
const WORD_BITS: u32 = u64::BITS;
const SHIFT: u32 = WORD_BITS.ilog2();

/// A word of tags.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// The tags in use, and those freed since the word was last exhausted.
    used: u64,
    freed: u64,
}

/// The tags of a queue.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    words: Vec<Word>,
    depth: u32,
    /// The tag at which the next search starts.
    hint: u32,
}

impl Tags {
    pub(crate) fn new(depth: u32) -> Tags {
        let words = vec![Word::default(); depth.div_ceil(WORD_BITS) as usize];
        Tags { words, depth, hint: 0 }
    }

    /// Returns the number of tags in a word.
    #[inline]
    pub(crate) fn word(&self) -> u32 {
        WORD_BITS.min(self.depth)
    }

    /// Returns the number of tags of a word that corresponds to `part` of all tags.
    #[inline]
    pub(crate) fn in_word(&self, part: u32) -> u32 {
        let scaled = u64::from(part) * u64::from(self.word());
        scaled.div_ceil(u64::from(self.depth)).min(self.word().into()) as u32
    }

    /// Allocates a free tag among the first `first` of each word.
    #[inline]
    pub(crate) fn take(&mut self, first: u32) -> Option<u32> {
        let hint = if self.hint < self.depth { self.hint } else { 0 };
        let is_shallow = first < self.word();
        let mut from = if is_shallow { hint % WORD_BITS } else { 0 };
        let (count, start) = (self.words.len(), (hint >> SHIFT) as usize);
        for at in (start..count).chain(0..start) {
            let size = WORD_BITS.min(self.depth - ((at as u32) << SHIFT));
            if let Some(bit) = self.words[at].take(first.min(size), from) {
                let tag = ((at as u32) << SHIFT) + bit;
                if tag == hint {
                    self.hint = if hint + 2 >= self.depth { 0 } else { hint + 1 };
                }
                return Some(tag);
            }
            from = 0;
        }
        self.hint = 0;
        None
    }

    /// Frees a tag.
    #[inline]
    pub(crate) fn free(&mut self, tag: u32) {
        let bit = 1 << (tag % WORD_BITS);
        let word = &mut self.words[(tag >> SHIFT) as usize];
        debug_assert!(word.used & bit != 0 && word.freed & bit == 0, "a tag is freed twice");
        word.freed |= bit;
        self.hint = tag;
    }
}

impl Word {
    /// Allocates one of the first `first` tags, beginning the search at bit `from`.
    #[inline]
    fn take(&mut self, first: u32, from: u32) -> Option<u32> {
        let within = if first == WORD_BITS { u64::MAX } else { (1 << first) - 1 };
        let find = |used: u64| {
            let free = !used & within;
            let above = free >> from << from;
            [above, free].into_iter().find(|free| *free != 0).map(u64::trailing_zeros)
        };
        let bit = find(self.used).or_else(|| {
            self.used &= !self.freed;
            self.freed = 0;
            find(self.used)
        })?;
        self.used |= 1 << bit;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tag_is_handed_out_once_until_it_is_free() {
        for depth in [1, 2, 3, 4, 7, 32, 63, 64, 65, 100, 256, 1000] {
            let mut tags = Tags::new(depth);
            let word = tags.word();
            let mut taken: Vec<u32> = std::iter::from_fn(|| tags.take(word)).collect();
            assert_eq!(taken.len(), depth as usize);
            tags.free(taken[0]);
            assert_eq!(tags.take(word), Some(taken[0]), "{depth}");
            taken.sort_unstable();
            assert!(taken.iter().copied().eq(0..depth), "{depth}");
        }
    }

    #[test]
    fn a_kind_waits_for_the_first_tags_of_words_though_others_are_free() {
        let mut tags = Tags::new(128);
        assert_eq!((tags.word(), tags.in_word(96), tags.in_word(128)), (64, 48, 64));
        let writes: Vec<u32> = std::iter::from_fn(|| tags.take(6)).collect();
        assert_eq!(writes.len(), 12);
        assert_eq!(tags.take(1), None);
        tags.free(1);
        assert_eq!(tags.take(1), None);
        tags.free(64);
        assert_eq!(tags.take(1), Some(64));
    }
}
