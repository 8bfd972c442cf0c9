//! Disk operations, and the assignment of disks to tasks.

use forebay_core::{Fault, Lane};

use crate::OperationError;
use crate::executor::Io;

use super::{Engine, Stage, State};

impl Engine {
    pub(super) fn lane(&self, disk: usize) -> Result<Lane, OperationError> {
        self.disks[disk].lane.ok_or(OperationError::Missing { disk })
    }

    pub(super) async fn read(
        &self,
        disk: usize,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, OperationError> {
        let io = self.executor.io(self.lane(disk)?, Io::Read { offset, len });
        io.await.map_err(|fault| self.failed_to_read(disk, fault))
    }

    pub(super) async fn write(
        &self,
        disk: usize,
        offset: u64,
        data: Vec<u8>,
        durable: bool,
    ) -> Result<(), OperationError> {
        let io = self.executor.io(self.lane(disk)?, Io::Write { offset, data, durable });
        io.await.map_err(|fault| self.failed(disk, fault))?;
        self.wrote(disk, offset);
        Ok(())
    }

    pub(super) async fn flush(&self, disk: usize) -> Result<(), OperationError> {
        let io = self.executor.io(self.lane(disk)?, Io::Flush);
        io.await.map(drop).map_err(|fault| self.failed(disk, fault))
    }

    /// Registers a failed write, after which the disk is left alone for a while.
    pub(super) fn failed(&self, disk: usize, fault: Fault) -> OperationError {
        let until = self.executor.now() + self.config.retry;
        self.state.borrow_mut().failed[disk] = Some(until);
        self.failed_to_write(disk, fault);
        OperationError::Disk { disk, fault }
    }

    /// Returns whether a disk is being left alone.
    pub(super) fn is_failed(&self, state: &State, disk: usize) -> bool {
        state.failed[disk].is_some_and(|until| until > self.executor.now())
    }

    /// Waits until a disk is idle and takes it for a stage.
    pub(super) async fn claim(&self, disk: usize, stage: Stage) {
        self.changed
            .until(|| {
                let mut state = self.state.borrow_mut();
                state.is_idle(disk).then(|| self.enter(&mut state, disk, stage))
            })
            .await;
    }

    pub(super) fn enter(&self, state: &mut State, disk: usize, stage: Stage) {
        state.stages[disk] = stage;
        self.note(state, disk);
    }

    pub(super) fn release(&self, disk: usize) {
        self.enter(&mut self.state.borrow_mut(), disk, Stage::Idle);
        self.changed.notify();
    }

    /// Waits until a disk is idle.
    pub(super) async fn idle(&self, disk: usize) {
        self.changed.until(|| self.state.borrow().is_idle(disk).then_some(())).await;
    }
}
