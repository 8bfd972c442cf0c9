//! The devices that a trace is tried on: disks, and a flash device beside them.

use forebay_core::Device;
use forebay_core::policy::{FlashLane, Lanes, build_placed, is_placement};

use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::Input;
use crate::place::Placement;
use crate::replayed::Setup;

/// The devices a trace is tried on.
#[derive(Clone, Copy)]
pub struct Bed<'a> {
    /// The disk; a single solid-state drive or server may stand in its place.
    pub disk: &'a OpenDevice,
    /// How many of it there are, at least one; volumes are dealt over them in turn.
    pub disks: u16,
    /// The flash device they share, which only placements use.
    pub flash: Option<&'a OpenDevice>,
}

impl<'a> Bed<'a> {
    /// One device alone.
    pub fn of(disk: &'a OpenDevice) -> Bed<'a> {
        Bed { disk, disks: 1, flash: None }
    }

    /// The devices that `policy` uses, disks first: a scheduler has no use for the flash.
    pub(crate) fn devices(&self, policy: &str) -> Vec<&'a OpenDevice> {
        let disks = usize::from(self.disks.max(1));
        let flash = self.flash.filter(|_| is_placement(policy));
        std::iter::repeat_n(self.disk, disks).chain(flash).collect()
    }

    pub(crate) fn placement(&self, input: &Input, setup: Setup) -> Placement {
        Placement::over(&input.extents, self.disks, self.disk.model.capacity(), setup.map)
    }

    pub(crate) fn lanes(&self) -> Lanes {
        let flash = |device: &OpenDevice| FlashLane {
            len_max: device.model.len_max(),
            capacity_bytes: device.model.capacity(),
        };
        Lanes {
            disks: self.disks.max(1),
            disk_len_max: self.disk.model.len_max(),
            flash: self.flash.map(flash),
        }
    }

    /// Fails if `policy` is not what can run here, before anything is read.
    pub fn check(&self, policy: &str) -> Result<(), Error> {
        build_placed(policy, &self.lanes())?;
        Ok(())
    }
}
