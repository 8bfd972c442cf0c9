//! The waiting commands that might be served without the arm.

/// The keys of these commands in ascending order, which is the order of arrival.
#[derive(Clone, Debug, Default)]
pub(super) struct Hopes(Vec<u64>);

impl Hopes {
    pub(super) fn with_capacity(depth: usize) -> Hopes {
        Hopes(Vec::with_capacity(depth))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, key: u64) {
        if let Err(at) = self.0.binary_search(&key) {
            self.0.insert(at, key);
        }
    }

    pub(super) fn remove(&mut self, key: u64) {
        if let Ok(at) = self.0.binary_search(&key) {
            self.0.remove(at);
        }
    }

    /// Returns the next key above `key`.
    pub(super) fn after(&self, key: u64) -> Option<u64> {
        self.0.get(self.0.partition_point(|hope| *hope <= key)).copied()
    }

    /// Returns the next key below `key`.
    pub(super) fn before(&self, key: u64) -> Option<u64> {
        let at = self.0.partition_point(|hope| *hope < key);
        at.checked_sub(1).map(|at| self.0[at])
    }
}
