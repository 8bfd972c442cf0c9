//! A slab: values in a vector, identified by their index. Freed slots are reused last in, first
//! out.
//!
//! A slab grows while a run warms up and allocates nothing after that.

/// Values identified by dense `u32` keys.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { values: Vec::new(), free: Vec::new() }
    }
}

impl<T: Copy> Slab<T> {
    /// Stores `value` and returns its key.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(key) = self.free.pop() {
            self.values[key as usize] = value;
            return key;
        }
        self.values.push(value);
        (self.values.len() - 1) as u32
    }

    /// Frees `key` and returns its value. The key must be in use.
    #[inline]
    pub fn remove(&mut self, key: u32) -> T {
        self.free.push(key);
        self.values[key as usize]
    }

    /// Returns the number of stored values.
    pub fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    /// Returns whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, key: u32) -> &T {
        &self.values[key as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, key: u32) -> &mut T {
        &mut self.values[key as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_reused() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), 'a');
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab[a], slab[b], slab.len()), ('c', 'b', 2));
    }
}
