//! Labels: every copy is looked at when the store is opened, and what is not as it should be is written anew. That also
//! makes the present format of an older one, before anything is written that only the present one has.

use crate::frame::BLOCK;
use crate::layout::Layout;
use crate::operation::Trouble;

use super::Engine;

impl Engine {
    /// A disk's layout as its label is to say it.
    fn labelled(&self, disk: usize) -> Layout {
        Layout { is_labelled_at_end: self.is_labelled_at_end(disk), ..self.disks[disk].layout }
    }

    /// Looks at all copies of a disk's label.
    pub(super) async fn find_labels(&self, disk: usize) -> Result<(), Trouble> {
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

    /// Writes labels that are damaged, of an older format or not in all places.
    ///
    /// # Errors
    /// Where a disk of an older format takes none: what is written from now on an older Forebay would not find, so it
    /// has to know.
    pub(super) async fn mend_labels(&self) -> Result<(), Trouble> {
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
                        let what =
                            format!("its label at byte {at} was damaged and is written anew");
                        self.notice(disk, what);
                    }
                }
                Err(trouble) if is_old => return Err(trouble),
                // It is told until an opening comes to it.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn is_labelled_at_end(&self, disk: usize) -> bool {
        self.disks[disk].is_labelled_at_end.get()
    }

    /// Takes the last block of a disk for its label. On an old one that is nearly full somebody may have it.
    fn claim_end(&self, disk: usize) -> bool {
        let last = self.disks[disk].layout.last_block_at();
        let is_free = self.disks[disk].space.borrow_mut().claim(last, BLOCK as u64);
        self.disks[disk].is_labelled_at_end.set(is_free);
        is_free
    }

    async fn write_labels(&self, disk: usize) -> Result<(), Trouble> {
        let layout = self.labelled(disk);
        for at in layout.labels_at() {
            self.write(disk, at, layout.label(), true).await?;
        }
        Ok(())
    }
}
