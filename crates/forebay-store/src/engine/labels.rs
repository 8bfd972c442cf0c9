//! Checks all copies of labels when a store is opened, and rewrites those that are damaged or
//! outdated. This also upgrades a store of an older format before anything is written in the
//! current one.

use crate::frame::BLOCK;
use crate::{Layout, OperationError};

use super::Engine;

impl Engine {
    /// Returns the layout that a disk's label should contain.
    fn labelled(&self, disk: usize) -> Layout {
        Layout { is_labelled_at_end: self.is_labelled_at_end(disk), ..self.disks[disk].layout }
    }

    /// Reads all copies of a disk's label.
    pub(super) async fn find_labels(&self, disk: usize) -> Result<(), OperationError> {
        let layout = self.labelled(disk);
        let label = layout.label();
        for at in layout.labels_at() {
            let found = self.read_around(disk, at, BLOCK as u64).await?;
            if found.bytes == label {
                continue;
            }
            let mut state = self.state.borrow_mut();
            let is_of_it = |found: &Layout| found.disk == layout.disk && found.is_like(&layout);
            match Layout::parse(&found.bytes) {
                Some(Ok(found)) if is_of_it(&found) => drop(state.old_labels.insert(disk)),
                _ => drop(state.damaged_labels.insert((disk, at))),
            }
        }
        Ok(())
    }

    /// Rewrites labels that are damaged, missing or of an older format.
    ///
    /// # Errors
    /// The labels of a disk with an older format cannot be written. Such labels must be upgraded
    /// first, because an older Forebay would not find data written from now on.
    pub(super) async fn mend_labels(&self) -> Result<(), OperationError> {
        for disk in self.present() {
            let (is_old, is_damaged) = {
                let state = self.state.borrow();
                let mut damaged = state.damaged_labels.iter();
                (state.old_labels.contains(&disk), damaged.any(|(of, _)| *of == disk))
            };
            let is_everywhere = self.is_labelled_at_end(disk);
            let is_everywhere_now = is_everywhere || self.claim_end(disk);
            if !is_old && !is_damaged && is_everywhere == is_everywhere_now {
                continue;
            }
            match self.write_labels(disk).await {
                Ok(()) => {
                    let mut state = self.state.borrow_mut();
                    state.old_labels.remove(&disk);
                    let damaged = state.damaged_labels.iter().filter(|(of, _)| *of == disk);
                    let damaged: Vec<u64> = damaged.map(|(_, at)| *at).collect();
                    state.damaged_labels.retain(|(of, _)| *of != disk);
                    drop(state);
                    for at in damaged {
                        let what = format!("its label at byte {at} was damaged and is rewritten");
                        self.notice(disk, what);
                    }
                }
                Err(failure) if is_old => return Err(failure),
                // The damage continues to be reported until a later opening can repair it.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn is_labelled_at_end(&self, disk: usize) -> bool {
        self.disks[disk].is_labelled_at_end.get()
    }

    /// Reserves the last block of a disk for its label. On an older disk that is nearly full, it
    /// may be in use.
    fn claim_end(&self, disk: usize) -> bool {
        let last = self.disks[disk].layout.last_block_at();
        let is_free = self.disks[disk].space.borrow_mut().claim(last, BLOCK as u64);
        self.disks[disk].is_labelled_at_end.set(is_free);
        is_free
    }

    async fn write_labels(&self, disk: usize) -> Result<(), OperationError> {
        let layout = self.labelled(disk);
        for at in layout.labels_at() {
            self.write(disk, at, layout.label(), true).await?;
        }
        Ok(())
    }
}
