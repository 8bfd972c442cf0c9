//! Reads: the newest log or segment that contains a key determines the key's value. Reads see every
//! acknowledged write before, during and after its transformation. If data that may affect the key
//! is lost, the read fails instead of returning an older value.

use std::rc::Rc;

use crate::segment::{self, Node, Place};
use crate::{Key, OperationError, Value, filter};

use super::{Engine, Log, Segment, Version};

/// The state of the store at one moment. While it is held, segments remain on their disks and logs
/// remain in memory.
#[derive(Clone)]
pub(super) struct Picture {
    pub(super) logs: Vec<Rc<Log>>,
    pub(super) version: Rc<Version>,
    /// The exclusive upper bound on sequence numbers.
    pub(super) upto: u64,
}

impl Engine {
    /// Returns the value of a key.
    pub(super) async fn get(
        &self,
        key: &Key,
        picture: Picture,
    ) -> Result<Option<Value>, OperationError> {
        self.know()?;
        if let Some(trees) = &self.trees {
            return self.get_in_place(trees, key).await;
        }
        let Picture { logs, version, upto } = picture;
        let hash = filter::hash(key);
        let mut logs = logs.iter().rev().peekable();
        for run in &version.runs {
            // Transformations may end in a different order than they began.
            while let Some(log) = logs.next_if(|log| log.id > run.ages.1) {
                if let Some(value) = log.get(key, upto) {
                    return Ok(value);
                }
            }
            let Some(part) = run.part(key) else { continue };
            if !part.segment.holes.is_empty() {
                // The remaining records of the log are newer than some holes and older than others.
                let log = logs.next_if(|log| log.id == run.ages.1);
                let version = log.and_then(|log| log.newest(key, upto));
                let sequence = version.as_ref().map(|version| version.0);
                let mut holes = part.segment.holes.iter();
                if let Some(hole) = holes.find(|hole| hole.may_decide(key, hash, sequence)) {
                    return Err(hole.failure.clone());
                }
                match version {
                    Some((_, value)) => return Ok(value),
                    None => continue,
                }
            }
            if part.segment.filter.may_hold(hash)
                && let Some(value) = self.find(&part.segment, key).await?
            {
                return Ok(value);
            }
        }
        Ok(logs.find_map(|log| log.get(key, upto)).flatten())
    }

    /// Returns the current state, which is preserved while the result is held.
    pub(super) fn picture(&self) -> Picture {
        let state = self.state.borrow();
        let (logs, version) = (state.logs.clone(), Rc::clone(&state.version));
        Picture { logs, version, upto: state.seen_upto }
    }

    /// Finds a key's version in a segment.
    async fn find(
        &self,
        segment: &Segment,
        key: &Key,
    ) -> Result<Option<Option<Value>>, OperationError> {
        if let Some(failure) = &segment.lost {
            return Err(failure.clone());
        }
        let Some(place) = self.leaf_place(segment, key).await? else { return Ok(None) };
        let bytes = self.read_part(segment, place.at, place.len.into()).await?;
        let leaf = segment::leaf(&bytes, self.store, segment.described.id);
        let (records, _) = leaf.ok_or_else(|| self.damaged(segment, place.at))?;
        let found = records.into_iter().find(|record| record.key == *key);
        Ok(found.map(|record| record.value))
    }

    /// Returns the only leaf of a segment that may contain a key; None if the key precedes all
    /// leaves.
    pub(super) async fn leaf_place(
        &self,
        segment: &Segment,
        key: &[u8],
    ) -> Result<Option<Place>, OperationError> {
        let Some(mut node) = segment.top.clone() else { return Ok(None) };
        loop {
            let Some(place) = node.child(key) else { return Ok(None) };
            if node.level == 1 {
                return Ok(Some(place));
            }
            node = self.node(segment, place).await?;
        }
    }

    async fn node(&self, segment: &Segment, place: Place) -> Result<Rc<Node>, OperationError> {
        let name = (segment.described.id, place.at);
        if let Some(node) = self.state.borrow_mut().nodes.get(name) {
            return Ok(node);
        }
        let bytes = self.read_part(segment, place.at, place.len.into()).await?;
        let node = Node::parse(&bytes, self.store, segment.described.id);
        let node = Rc::new(node.ok_or_else(|| self.damaged(segment, place.at))?);
        self.state.borrow_mut().nodes.insert(name, &node);
        Ok(node)
    }
}
