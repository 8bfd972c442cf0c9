//! The LRU cache of segments' inner nodes.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::segment::Node;

/// A node's segment and its offset in the segment, which identify the node.
type Name = (u64, u64);

/// The cached nodes, limited by their total size.
#[derive(Default)]
pub(crate) struct Nodes {
    nodes: BTreeMap<Name, (Rc<Node>, u64)>,
    by_use: BTreeMap<u64, Name>,
    uses: u64,
    bytes: u64,
    bytes_max: u64,
}

impl Nodes {
    pub(crate) fn new(bytes_max: u64) -> Nodes {
        Nodes { bytes_max, ..Nodes::default() }
    }

    /// Returns the approximate size of all cached nodes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn get(&mut self, name: Name) -> Option<Rc<Node>> {
        let (node, used) = self.nodes.get_mut(&name)?;
        self.uses += 1;
        self.by_use.remove(used);
        self.by_use.insert(self.uses, name);
        *used = self.uses;
        Some(Rc::clone(node))
    }

    pub(crate) fn insert(&mut self, name: Name, node: &Rc<Node>) {
        self.uses += 1;
        if let Some((other, used)) = self.nodes.insert(name, (Rc::clone(node), self.uses)) {
            self.bytes -= other.bytes();
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, name);
        self.bytes += node.bytes();
        while self.bytes > self.bytes_max
            && let Some((_, name)) = self.by_use.pop_first()
            && let Some((node, _)) = self.nodes.remove(&name)
        {
            self.bytes -= node.bytes();
        }
    }
}
