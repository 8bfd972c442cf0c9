//! The targets of a run: files and devices through a driver, a volume, or emulated devices.

use std::io;
use std::path::PathBuf;

use forebay_core::catalog::{DeviceSet, FlashLane, build_placed, is_placement};
use forebay_core::contract::AnyPolicy;
use forebay_core::device::failing::Failing;
use forebay_core::{Buf, Device, DeviceModel, Lane, Nanos, Piece, Policy, Request, Slots};
use forebay_live::{
    Driver, Emulated, Ended, LEN_MAX, Lanes, Target, Threads, Uring, Waker, WallClock,
};

use forebay::input::Input;
use forebay::layout::VolumeLayout as Placement;
use forebay::simulate::Bed;
use forebay::statistics::Known;
use forebay_volume::{FoundVolume, find, over, status};

use crate::error::Error;
use crate::{Plan, targets};

/// Files and block devices as targets.
#[derive(Clone, Debug)]
pub struct Real {
    /// The target of all volumes that have no target of their own; these volumes are placed one
    /// after another.
    pub target: Option<PathBuf>,
    /// Volumes with their own targets.
    pub volumes: Vec<(String, PathBuf)>,
    /// The flash that placement policies use in addition to the targets.
    pub flash: Option<PathBuf>,
    /// The I/O driver; by default io_uring if the kernel supports it.
    pub driver: Option<Driver>,
    /// Whether existing data on the targets may be overwritten.
    pub overwrite: bool,
    /// Whether to bypass the page cache.
    pub direct: bool,
    /// The maximum number of I/Os in flight on a target.
    pub depth: u32,
}

/// A volume of drives as the target.
#[derive(Clone, Debug)]
pub struct OnVolume {
    /// The drives, or a folder of them.
    pub drives: Vec<PathBuf>,
    /// The I/O driver; by default io_uring if the kernel supports it.
    pub driver: Option<Driver>,
    /// The maximum number of I/Os in flight on a drive.
    pub depth: u32,
}

/// The target of a run.
#[derive(Clone, Copy)]
pub enum On<'a> {
    /// A volume. The policy is either the scheduler of each drive, or `array` with a rule.
    Volume(&'a OnVolume),
    /// Files and block devices.
    Real(&'a Real),
    /// Emulated devices, in wall time.
    Emulated(Bed<'a>),
}

impl<'a> On<'a> {
    /// Returns the lanes that a policy must know before targets are opened. Their sizes are
    /// placeholders.
    pub(super) fn lanes_before(&self) -> DeviceSet {
        match self {
            On::Emulated(bed) => bed.lanes(),
            On::Volume(_) => policy_lanes(1, None),
            On::Real(real) => {
                let flash = real.flash.as_ref().map(|_| u64::from(LEN_MAX) << 20);
                let mut paths: Vec<_> = real.volumes.iter().map(|(_, path)| path).collect();
                paths.extend(&real.target);
                paths.sort();
                paths.dedup();
                policy_lanes(paths.len().max(1), flash)
            }
        }
    }

    /// Opens the targets.
    pub(super) fn prepare(self, input: &Input, plan: Plan<'_>) -> Result<Prepared<'a>, Error> {
        super::check(self, plan.policy)?;
        match self {
            On::Volume(volume) => {
                // The capacity comes from the volume's records, because the drives' labels contain
                // only the size at creation, before any growth.
                let opened = status(&volume.drives)?;
                let bytes = opened.geometry.capacity_bytes();
                let found = find(&volume.drives, true)?;
                let notes = [opened.told(&volume.drives), found.notes.clone()].concat();
                Ok(Prepared {
                    policy_lanes: policy_lanes(found.drives.len(), None),
                    placement: Placement::new(&input.extents, bytes, plan.setup.map)
                        .without_gaps(&input.stretches),
                    disks: found.drives.len(),
                    source: Source::Volume {
                        found,
                        driver: volume.driver,
                        depth: volume.depth,
                        notes,
                    },
                })
            }
            On::Emulated(bed) => Ok(Prepared {
                policy_lanes: bed.lanes_with_costs(plan.policy),
                placement: bed.placement(input, plan.policy, plan.setup),
                disks: usize::from(bed.disks.max(1)),
                source: Source::Models(bed),
            }),
            On::Real(real) => {
                let placement = is_placement(plan.policy);
                let opened = targets::open(input, real, plan, placement)?;
                let flash = opened.flash.as_ref().map(|flash| flash.capacity_bytes());
                Ok(Prepared {
                    policy_lanes: policy_lanes(opened.targets.len(), flash),
                    placement: opened.placement,
                    disks: opened.targets.len(),
                    source: Source::Targets {
                        targets: opened.targets.into_iter().chain(opened.flash).collect(),
                        driver: real.driver,
                        depth: real.depth,
                    },
                })
            }
        }
    }
}

fn policy_lanes(disks: usize, flash_bytes: Option<u64>) -> DeviceSet {
    let flash = |capacity_bytes| FlashLane { len_max: LEN_MAX, capacity_bytes };
    // Data written by a run need not be found after a restart.
    let restarts = false;
    DeviceSet {
        disks: disks as u16,
        disk_len_max: LEN_MAX,
        // Arrays on real drives are volumes, so no size is needed.
        disk_bytes: 0,
        flash: flash_bytes.map(flash),
        restarts,
        costs: [None; 2],
    }
}

/// Opened targets, before the run begins.
pub(super) struct Prepared<'a> {
    pub(super) policy_lanes: DeviceSet,
    pub(super) placement: Placement,
    /// The number of disks; later lanes are flash.
    disks: usize,
    source: Source<'a>,
}

enum Source<'a> {
    Models(Bed<'a>),
    Targets { targets: Vec<Target>, driver: Option<Driver>, depth: u32 },
    Volume { found: FoundVolume, driver: Option<Driver>, depth: u32, notes: Vec<String> },
}

impl Prepared<'_> {
    /// Builds the policy for `spec`. On a volume, `spec` is either a rule for changing levels or
    /// the scheduler of each drive.
    pub(super) fn policy(&self, spec: &str) -> Result<AnyPolicy, Error> {
        match &self.source {
            Source::Volume { found, .. } => Ok(Box::new(over(found.array(), spec)?)),
            _ => Ok(build_placed(spec, &self.policy_lanes)?),
        }
    }

    /// Returns whether the target is a volume, which accepts I/Os of any alignment.
    pub(super) fn is_volume(&self) -> bool {
        matches!(self.source, Source::Volume { .. })
    }

    /// Returns the number of lanes that are disks under `policy`.
    pub(super) fn disks(&self, policy: &dyn Policy) -> usize {
        self.disks.max(policy.servers().len())
    }

    /// Returns the names of the emulated devices that the policy `spec` uses; empty for real
    /// targets.
    pub(super) fn names(&self, spec: &str) -> Vec<String> {
        match &self.source {
            Source::Models(bed) => bed.devices(spec).iter().map(|one| one.name.clone()).collect(),
            Source::Targets { .. } | Source::Volume { .. } => Vec::new(),
        }
    }

    /// Returns notes about the targets for the user.
    pub(super) fn notes(&self) -> Vec<String> {
        let targets = match &self.source {
            Source::Targets { targets, .. } => targets,
            Source::Volume { notes, .. } => return notes.clone(),
            Source::Models(_) => return Vec::new(),
        };
        let of = |target: &Target| {
            let path = target.path().display().to_string();
            target.notes().iter().map(move |note| format!("{path}: {note}")).collect::<Vec<_>>()
        };
        targets.iter().flat_map(of).collect()
    }

    /// Creates the lanes for `policy`, whose spec is `spec`, and starts their clock. Adds notes for
    /// the user to `notes`.
    pub(super) fn lanes(
        self,
        policy: &dyn Policy,
        spec: &str,
        notes: &mut Vec<String>,
    ) -> Result<LiveLanes, Error> {
        match self.source {
            Source::Models(bed) => {
                let models = match policy.servers() {
                    [] => bed.devices(spec).iter().map(|device| device.model.clone()).collect(),
                    servers => bed.disk.lanes(servers)?,
                };
                let failing = |(lane, model)| Failing::new(model, lane as Lane, bed.failures);
                let models: Vec<DeviceModel> = models;
                let models = models.into_iter().enumerate().map(failing).collect();
                Ok(LiveLanes::Emulated(Emulated::new(models, WallClock::start())))
            }
            Source::Targets { targets, driver, depth } => real(targets, driver, depth, notes),
            Source::Volume { found, driver, depth, .. } => {
                let targets = found.drives.into_iter().map(|(_, target)| target).collect();
                real(targets, driver, depth, notes)
            }
        }
    }
}

/// Creates lanes with the requested driver, or with the best available one.
fn real(
    targets: Vec<Target>,
    driver: Option<Driver>,
    depth: u32,
    notes: &mut Vec<String>,
) -> Result<LiveLanes, Error> {
    let failed = |driver, source| Error::Driver { driver, source };
    let threads = |targets| {
        let threads = Threads::new(targets, depth).map_err(|source| failed("threads", source))?;
        Ok(LiveLanes::Threads(threads))
    };
    if driver == Some(Driver::Threads) {
        return threads(targets);
    }
    match Uring::new(targets, depth) {
        Ok(uring) => {
            if !uring.is_registered() {
                notes.push("buffers could not be registered (`ulimit -l` is low)".into());
            }
            Ok(LiveLanes::Uring(Box::new(uring)))
        }
        Err((source, _)) if driver == Some(Driver::Uring) => Err(failed("io_uring", source)),
        Err((source, targets)) => {
            notes.push(format!("threads instead of io_uring, which is not available: {source}"));
            threads(targets)
        }
    }
}

/// The lanes of a run.
pub(super) enum LiveLanes {
    Uring(Box<Uring>),
    Threads(Threads),
    Emulated(Emulated<Failing<DeviceModel>, WallClock>),
}

macro_rules! each {
    ($lanes:expr, $one:ident => $answer:expr) => {
        match $lanes {
            LiveLanes::Uring($one) => $answer,
            LiveLanes::Threads($one) => $answer,
            LiveLanes::Emulated($one) => $answer,
        }
    };
}

impl LiveLanes {
    /// Returns the driver's name for results.
    pub(super) fn driver(&self) -> &'static str {
        match self {
            LiveLanes::Uring(_) => "io_uring",
            LiveLanes::Threads(_) => "threads",
            LiveLanes::Emulated(_) => "emulated",
        }
    }

    /// Returns the device models; empty for real targets.
    pub(super) fn models(&self) -> Vec<&DeviceModel> {
        match self {
            LiveLanes::Emulated(emulated) => {
                emulated.devices().iter().map(Failing::device).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the buffer with the data of writes; 0 if writes have no content.
    pub(super) fn pattern(&self) -> Buf {
        each!(self, lanes => lanes.pattern())
    }

    /// Returns the block size that all lanes support; None if they accept any alignment.
    pub(super) fn block_bytes(&self) -> Option<u32> {
        self.targets().iter().filter_map(|target| target.block_bytes()).max()
    }

    /// Returns the real targets; empty if devices are emulated.
    pub(super) fn targets(&self) -> Vec<&Target> {
        match self {
            LiveLanes::Uring(uring) => uring.targets().iter().collect(),
            LiveLanes::Threads(threads) => threads.targets().collect(),
            LiveLanes::Emulated(_) => Vec::new(),
        }
    }

    /// Returns the properties of each lane for the statistics.
    pub(super) fn known(&self) -> Vec<LaneKnown> {
        match self {
            LiveLanes::Emulated(emulated) => {
                let models = emulated.devices().iter().map(Failing::device);
                models.map(|model| LaneKnown::Model(Box::new(model.without_content()))).collect()
            }
            real => real.targets().iter().map(|_| LaneKnown::Real).collect(),
        }
    }
}

impl Lanes for LiveLanes {
    fn count(&self) -> usize {
        each!(self, lanes => lanes.count())
    }
    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        each!(self, lanes => lanes.reap(next, ended))
    }
    fn wall(&mut self) -> Nanos {
        each!(self, lanes => lanes.wall())
    }
    fn room(&self, lane: Lane) -> bool {
        each!(self, lanes => lanes.room(lane))
    }
    fn slots(&mut self) -> &mut dyn Slots {
        each!(self, lanes => lanes.slots())
    }
    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        each!(self, lanes => lanes.start(now, io, pieces));
    }
    fn in_flight(&self) -> usize {
        each!(self, lanes => lanes.in_flight())
    }
    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        each!(self, lanes => lanes.proceed(until))
    }
    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        each!(self, lanes => lanes.held_up())
    }
    fn waker(&mut self) -> io::Result<Waker> {
        each!(self, lanes => lanes.waker())
    }
}

/// What the statistics know about a lane in addition to its I/Os: the model of an emulated device,
/// and nothing for a real target.
pub(super) enum LaneKnown {
    Model(Box<DeviceModel>),
    Real,
}

impl Known for LaneKnown {
    fn floor(&self, io: &Request) -> Nanos {
        match self {
            LaneKnown::Model(model) => Device::floor(&**model, io),
            LaneKnown::Real => Nanos::ZERO,
        }
    }
    fn cylinders(&self) -> u32 {
        match self {
            LaneKnown::Model(model) => Device::cylinders(&**model),
            LaneKnown::Real => 0,
        }
    }
}
