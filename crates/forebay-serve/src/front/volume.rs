//! Executes orders to the policy of a volume, and adds drives to it, between two requests.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use forebay_core::contract::{VolumeEvent, VolumeOrder, VolumeState};
use forebay_core::{Nanos, Op};
use forebay_live::SocketLanes;
use forebay_volume::Successor;

use super::{Course, Front};
use crate::Scrub;
use crate::back::JoinedDrive;
use crate::figures::DiskFigures;

/// The channel for an order's result: success, or why the order was not carried out.
pub(crate) type Carried = Sender<Result<(), String>>;

/// A drive that is to join a volume.
pub(crate) struct JoiningDrive {
    pub(crate) successor: Successor,
    pub(crate) purpose: Purpose,
    pub(crate) done: Carried,
}

/// Why a drive joins a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It replaces the drive with this number.
    Replaces(u8),
    /// The drive enlarges the volume. It may be a solid-state drive.
    Adds { is_ssd: bool },
}

/// The counts of the policies that served a volume before the current one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EarlierCounts {
    checks: u64,
    drives_failed: u64,
    rotten_blocks: u64,
    repaired_chunks: u64,
    moved_chunks: u64,
}

impl EarlierCounts {
    /// Returns the state of a volume with these counts included.
    pub(super) fn with(self, state: VolumeState) -> VolumeState {
        VolumeState {
            checks: state.checks + self.checks,
            drives_failed: state.drives_failed + self.drives_failed,
            rotten_blocks: state.rotten_blocks + self.rotten_blocks,
            repaired_chunks: state.repaired_chunks + self.repaired_chunks,
            moved_chunks: state.moved_chunks + self.moved_chunks,
            ..state
        }
    }

    /// Returns the counts of `state`.
    pub(super) fn of(state: &VolumeState) -> EarlierCounts {
        EarlierCounts {
            checks: state.checks,
            drives_failed: state.drives_failed,
            rotten_blocks: state.rotten_blocks,
            repaired_chunks: state.repaired_chunks,
            moved_chunks: state.moved_chunks,
        }
    }
}

impl Front {
    /// Passes an order to the policy.
    pub(super) fn order(&mut self, order: &VolumeOrder, now: Nanos) -> Result<(), String> {
        let policy = self.policy.as_ref().filter(|_| self.course == Course::Open);
        let policy = policy.ok_or("its policy is being switched; try again")?;
        policy.borrow_mut().order(now, order)?;
        match order {
            VolumeOrder::Limit { .. } => self.limit = Some(*order),
            VolumeOrder::Check { .. } => self.check = Some(*order),
            _ => {}
        }
        // A request of the server's own makes the driver check for due work.
        (self.now, self.nudges) = (self.now.max(now), self.nudges + 1);
        self.ask(Op::Open);
        Ok(())
    }

    /// Adds a drive.
    pub(super) fn join<L: SocketLanes + ?Sized>(
        &mut self,
        successor: Successor,
        purpose: Purpose,
        lanes: &mut L,
    ) -> Result<(), String> {
        if self.course != Course::Open {
            return Err("its policy is being switched; try again".into());
        }
        let Successor { target, number, cells } = successor;
        let path = target.path().to_path_buf();
        let lane = lanes.add(target).map_err(|error| match error.kind() {
            std::io::ErrorKind::Unsupported => {
                "its drives are emulated, and no drive can join while it is served".to_string()
            }
            _ => format!("{}: cannot be added: {error}", path.display()),
        })?;
        self.name_lane(lane.into(), path);
        let order = match purpose {
            Purpose::Replaces(member) => VolumeOrder::Replace { lane, number, cells, member },
            Purpose::Adds { is_ssd } => VolumeOrder::Add { lane, number, cells, is_ssd },
        };
        self.order(&order, lanes.wall())?;
        self.joined.push(JoinedDrive { lane, number, cells });
        Ok(())
    }

    /// Checks the volume regularly from now on.
    pub(crate) fn scrub(&mut self, scrub: Option<Scrub>, since_1970: Nanos) {
        self.scrub = scrub.map(|scrub| (scrub, scrub.next_after(since_1970)));
    }

    /// Begins a regular check if it is due, unless another check is in progress.
    pub(crate) fn scrub_if_due(&mut self, now: Nanos, since_1970: Nanos) {
        let Some((scrub, _)) = self.scrub.filter(|(_, due)| *due <= since_1970) else { return };
        let Some(state) = self.volume_state(true) else { return };
        let order = VolumeOrder::Check { bytes_per_s: scrub.bytes_per_s };
        // While the policy is being switched, orders fail; the check stays due.
        if state.is_checking || self.order(&order, now).is_ok() {
            self.scrub = Some((scrub, scrub.next_after(since_1970)));
        }
    }

    fn name_lane(&mut self, lane: usize, path: PathBuf) {
        let file = path.display().to_string();
        self.tally.add_lane(lane, DiskFigures { file, ..DiskFigures::default() });
    }

    /// Returns the drives that have joined since the start.
    pub(crate) fn joined(&self) -> &[JoinedDrive] {
        &self.joined
    }

    /// Returns the state of the volume; None if `wanted` is false or there is no volume.
    pub(crate) fn volume_state(&self, wanted: bool) -> Option<VolumeState> {
        self.policy.as_ref().filter(|_| wanted)?.borrow().volume()
    }

    /// Returns the events on the volume since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<VolumeEvent> {
        self.policy.as_ref().map_or_else(Vec::new, |policy| policy.borrow_mut().take_events())
    }
}
