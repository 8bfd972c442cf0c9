//! Builds placement policies by name. They decide which device stores which data. Each has one row
//! in [`BUILT`].
//!
//! Disks are lanes 0 to n - 1; the flash device is lane n. A scheduler from
//! [`POLICIES`](super::POLICIES) is also accepted: each disk gets one instance, and the flash is
//! not used.

use super::schedulers::with_policy;
use super::{arrays, schedulers, shapers};
use crate::adapt::DriveCosts;
use crate::cache::{Cache, Lru, S3Fifo};
use crate::contract::{
    AnyPolicy, Given, Listed, Nanos, Origin, Parameter, Policy, PolicyVisitor, Spec, SpecError,
};
use crate::elevator::packing::Packing;
use crate::elevator::tier_lba::TierLba;
use crate::elevator::{
    BID_PARAMETERS, BLOCK_PARAMETERS, Bid, BidConfig, BlockLayer, Elevator, Limits, Scheduler,
};
use crate::stack::array::Array;
use crate::stack::cached::{Bound, Cached, Writing};
use crate::stack::placed::Placed;
use crate::stack::tier::{Choose, Later, MigrateConfig, Rolling, Tier, Tiers};
use crate::stack::{Link, Pairing, PerDisk};

const TRANSFER: Parameter = Parameter::own("transfer-us", "0").about(
    "the network round trip that is added to each request if the flash is in another machine",
);
const SIZE: Parameter = Parameter::own("size-mib", "ALL")
    .about("how much of the flash is used; by default the whole flash");
const DISK: Parameter = Parameter::own("disk", "mq-deadline")
    .about("the disk's scheduler, such as deadline+fifo-batch=32, with + instead of :");
const MIGRATE: Parameter = Parameter::choice("migrate", &["no", "yes"]).about(
    "whether hot extents are also moved to the flash, and cold ones back (see the \
            parameters below)",
);

const DEVIATION: Parameter = Parameter::whole("deviation-mib", 64, 1)
    .about("writes that are at least about this far from most queued requests go to the flash");

const CUTOFF: Parameter = Parameter::whole("cutoff-kib", 4096, 1).about(
    "a stream whose sequential runs are this long, in total or on average, writes to the disk",
);

const PACKING: Parameter = Parameter::whole("packing-kib", 64, 0)
    .about("writes of a stream go to the flash if they are shorter than this on average; 0: none");

/// Parameters of placements with a log on the flash: whether to initialize a blank flash, and a
/// number that distinguishes the log from others.
const FORMAT: Parameter = Parameter::choice("format", &["no", "yes"])
    .about("with serve: whether to initialize a blank flash instead of refusing it");
const ID: Parameter = Parameter::whole("id", 0, 0)
    .about("a number that distinguishes this log from those of other pairs of devices");

/// The default block size of a cache.
const BLOCK_KIB: u32 = 4;

/// The parameters of migration between the tiers.
const MIGRATION: &[Parameter] = &[
    Parameter::whole("extent-kib", 1024, 4)
        .about("the unit that is counted and moved; a multiple of 4"),
    Parameter::own("period-s", "10").about("seconds between two searches for hot extents"),
    Parameter::whole("hot", 4, 1).about(
        "number of uses within about a period that makes an \
        extent hot",
    ),
    Parameter::whole("moves-max", 64, 1).about(
        "maximum number of extents moved per period in \
        each direction",
    ),
];

/// A placement as listed, and the function that builds it.
struct BuiltPlacement {
    listed: Listed,
    build: fn(&Place<'_>) -> Result<AnyPolicy, SpecError>,
}

/// All policies that place data, simplest first.
const BUILT: &[BuiltPlacement] = &[
    BuiltPlacement {
        listed: Listed {
            name: "cache",
            origin: Origin::Forebay,
            summary: "keeps copies of the disk's blocks on the flash, evicted by a replacement policy",
            parameters: &[&[
                Parameter::choice("replace", &["lru", "s3fifo"])
                    .about("how blocks are evicted: least recently used first, or by S3-FIFO"),
                Parameter::choice("write", &["back", "through", "around"])
                    .about("whether writes go to the flash, to both devices, or bypass the flash"),
                SIZE,
                Parameter::whole("block-kib", BLOCK_KIB, 1).about(
                    "the size of a block, which is \
                    cached or evicted as a whole",
                ),
                DISK,
                TRANSFER,
                FORMAT,
                ID,
            ]],
        },
        build: |place| place.replacing(),
    },
    BuiltPlacement {
        listed: Listed {
            name: "migrate",
            origin: Origin::Forebay,
            summary: "moves frequently used extents of the disk to the flash, and cold ones back",
            parameters: &[MIGRATION, &[SIZE, DISK, TRANSFER, FORMAT, ID]],
        },
        build: |place| place.scheduled(Later, true),
    },
    BuiltPlacement {
        listed: Listed {
            name: "tier-lba",
            origin: Origin::Forebay,
            summary: "sends writes that are far from most of the request queue to the flash",
            parameters: &[&[DEVIATION, SIZE, TRANSFER, FORMAT, ID, MIGRATE], MIGRATION],
        },
        build: |place| place.tier_lba(),
    },
    BuiltPlacement {
        listed: Listed {
            name: "tier-bcache",
            origin: Origin::Forebay,
            summary: "sends writes to the flash unless their process does long sequential I/O, like \
                bcache",
            parameters: &[&[CUTOFF, SIZE, DISK, TRANSFER, FORMAT, ID, MIGRATE], MIGRATION],
        },
        build: |place| place.tier_bcache(),
    },
    BuiltPlacement {
        listed: Listed {
            name: "bid-hybrid",
            origin: Origin::KernelOnly,
            summary: "runs BID-HDD on the disk, and sends the writes of processes that write little at \
                      a time to the flash",
            parameters: &[
                &[PACKING, SIZE, TRANSFER, FORMAT, ID],
                BID_PARAMETERS,
                &[MIGRATE],
                MIGRATION,
            ],
        },
        build: |place| place.bid_hybrid(),
    },
];

/// All policies that place data, as listed.
pub const PLACEMENTS: &[Listed] = &{
    let mut all = [BUILT[0].listed; BUILT.len()];
    let mut nth = 1;
    while nth < all.len() {
        all[nth] = BUILT[nth].listed;
        nth += 1;
    }
    all
};

/// The placements that are also elevators and therefore accept the block layer's parameters.
pub const DIVERTING: &[&str] = &["tier-lba", "bid-hybrid"];

/// Returns whether `spec` names a policy that requires a flash device, itself or below a shaper.
pub fn is_placement(spec: &str) -> bool {
    let Ok(spec) = Spec::parse(spec) else { return false };
    PLACEMENTS.iter().any(|listed| listed.name == spec.name())
        || shapers::is_shaper(spec.name())
            && spec.inner("over").is_some_and(|over| is_placement(&over))
}

/// The properties of the flash device that a placement must know.
#[derive(Clone, Copy, Debug)]
pub struct FlashLane {
    /// The longest I/O in bytes.
    pub len_max: u32,
    /// The capacity in bytes.
    pub capacity_bytes: u64,
}

/// The available devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceSet {
    /// The number of disks, at least one. All are alike.
    pub disks: u16,
    /// The longest I/O of a disk in bytes.
    pub disk_len_max: u32,
    /// The capacity of each disk in bytes. Only arrays require it.
    pub disk_bytes: u64,
    /// The flash device, which all disks share.
    pub flash: Option<FlashLane>,
    /// Whether the data must survive a restart. If so, policies that keep the location of new data
    /// only in memory are not available; others keep a log on the flash (docs/placement-log.md).
    pub restarts: bool,
    /// The costs of writes to the disks and to the solid-state drives of an array, if known.
    pub costs: [Option<DriveCosts>; 2],
}

/// Builds the policy that `spec` names, a scheduler or a placement, and passes it to `visitor`.
/// Schedulers keep their own type. All others are boxed, because the cost of an indirect call is
/// small compared with their work.
pub fn with_placed<V: PolicyVisitor>(
    spec: &str,
    lanes: &DeviceSet,
    visitor: V,
) -> Result<V::Out, SpecError> {
    match is_stack(spec, lanes) {
        true => build_placed(spec, lanes).map(|policy| visitor.visit(policy)),
        false => with_policy(spec, lanes.disk_len_max, visitor),
    }
}

/// Returns whether `spec` on `lanes` requires more than a scheduler or shaper for one disk.
fn is_stack(spec: &str, lanes: &DeviceSet) -> bool {
    let above = |parsed: Spec| shapers::is_shaper(parsed.name()) && parsed.inner("over").is_some();
    lanes.disks > 1
        || arrays::is_array(spec)
        || is_placement(spec)
        || Spec::parse(spec).is_ok_and(above)
}

/// Does the same as [`with_placed`] but returns a boxed policy, whose placement log belongs to
/// `pairing` (docs/placement-log.md).
///
/// # Errors
/// If the policy does not exist.
pub fn build_paired(
    spec: &str,
    lanes: &DeviceSet,
    pairing: Pairing,
) -> Result<AnyPolicy, SpecError> {
    if let Some(beneath) = beneath(spec, lanes, pairing) {
        let parsed = Spec::parse(spec)?;
        // The stack below enforces the device's limits.
        return shapers::shaper(&parsed, u32::MAX, Some(beneath?));
    }
    if arrays::is_array(spec) {
        return arrays::array(&Spec::parse(spec)?, lanes);
    }
    if !is_placement(spec) {
        if lanes.disks <= 1 {
            return schedulers::build(spec, lanes.disk_len_max);
        }
        let each = (0..lanes.disks).map(|_| schedulers::build(spec, lanes.disk_len_max));
        let each: Vec<_> = each.collect::<Result<_, _>>()?;
        if each.iter().any(|policy| !policy.servers().is_empty() || !policy.classes().is_empty()) {
            let (text, disks) = (spec.trim(), lanes.disks);
            let what =
                "got several disks, expected one: a shaper keeps one promise for the whole trace";
            return Err(SpecError(format!("'{text}' on {disks} disks: {what}")));
        }
        return Ok(Box::new(PerDisk::new(each)));
    }
    let spec = Spec::parse(spec)?;
    let Some(flash) = lanes.flash else {
        return Err(SpecError(format!(
            "'{}': got no flash device, expected one in addition to the disk; specify it as the flash",
            spec.text()
        )));
    };
    let Some(built) = BUILT.iter().find(|built| built.listed.name == spec.name()) else {
        return Err(SpecError(format!("no placement '{}'", spec.name())));
    };
    let mut tables = built.listed.parameters.to_vec();
    if DIVERTING.contains(&spec.name()) {
        tables.push(BLOCK_PARAMETERS);
    }
    let given = Given::new(&spec, &tables);
    (built.build)(&Place { spec: &spec, given, lanes, flash, pairing })
}

/// Returns the stack below the shaper, if `spec` is a shaper above another policy.
fn beneath(
    spec: &str,
    lanes: &DeviceSet,
    pairing: Pairing,
) -> Option<Result<AnyPolicy, SpecError>> {
    let parsed = Spec::parse(spec).ok().filter(|parsed| shapers::is_shaper(parsed.name()))?;
    let over = parsed.inner("over")?;
    Some(stack(&parsed, &over, |over| build_paired(over, lanes, pairing)))
}

/// Checks `over`, the spec of the policy below the shaper `spec`, and builds it with `build`.
fn stack(
    spec: &Spec,
    over: &str,
    build: impl FnOnce(&str) -> Result<AnyPolicy, SpecError>,
) -> Result<AnyPolicy, SpecError> {
    if Spec::parse(over).is_ok_and(|inner| shapers::is_shaper(inner.name())) {
        let what = "over: got a shaper on top of a shaper, expected a scheduler or a placement";
        return Err(SpecError(format!("'{}': {what}", spec.text())));
    }
    build(over).map_err(|error| SpecError(format!("'{}': over: {error}", spec.text())))
}

/// Builds the policies for the drives of `array`, like [`arrays::with_rules`]. If `spec` names a
/// shaper, a single one is added above the whole array.
///
/// # Errors
/// If the policy does not exist.
pub fn build_over_array(spec: &str, array: Array, len_max: u32) -> Result<AnyPolicy, SpecError> {
    let ruled = |spec: &str| -> Result<AnyPolicy, SpecError> {
        Ok(Box::new(arrays::with_rules(spec, array, len_max)?))
    };
    match Spec::parse(spec).ok().filter(|parsed| shapers::is_shaper(parsed.name())) {
        None => ruled(spec),
        Some(shaper) => {
            let over = shaper.inner("over").unwrap_or_else(|| "noop".into());
            let beneath = stack(&shaper, &over, ruled)?;
            shapers::shaper(&shaper, u32::MAX, Some(beneath))
        }
    }
}

/// Builds the policy that `spec` names and returns it boxed.
pub fn build_placed(spec: &str, lanes: &DeviceSet) -> Result<Box<dyn Policy + Send>, SpecError> {
    build_paired(spec, lanes, Pairing::default())
}

/// The inputs for building a placement.
struct Place<'a> {
    spec: &'a Spec,
    given: Given<'a>,
    lanes: &'a DeviceSet,
    flash: FlashLane,
    pairing: Pairing,
}

impl Place<'_> {
    /// Returns the settings for the placement's log, if the placement must survive a restart.
    fn bound(&self) -> Result<Option<Bound>, SpecError> {
        let (formats, id) = (!self.given.is_first("format")?, self.given.whole("id")?.into());
        let (disk_bytes, pairing) = (self.lanes.disk_bytes, self.pairing);
        Ok(self.lanes.restarts.then_some(Bound { id, pairing, disk_bytes, formats }))
    }

    /// Builds a cache with the requested replacement policy.
    fn replacing(&self) -> Result<AnyPolicy, SpecError> {
        match self.given.is_first("replace")? {
            true => self.cache(Lru::new),
            false => self.cache(S3Fifo::new),
        }
    }

    fn cache<C: Cache + Send + 'static>(
        &self,
        cache: impl Fn(u32) -> C,
    ) -> Result<AnyPolicy, SpecError> {
        let expected = "a whole number from 1 to 1048576";
        let block_bytes = self.spec.between("block-kib", BLOCK_KIB, 1..=1 << 20, expected)? * 1024;
        let writing = match self.given.choice("write")? {
            0 => Writing::Back,
            1 => Writing::Through,
            _ => Writing::Around,
        };
        let size_bytes = self.size_bytes()?;
        let disks = self.disks()?;
        let flash = self.flash_lane()?;
        let bound = self.bound()?.filter(|_| writing == Writing::Back);
        self.spec.finish()?;
        let frames = match bound {
            Some(_) => Cached::<C>::frames_beside_log(size_bytes, block_bytes),
            None => Cached::<C>::frames(size_bytes, block_bytes),
        };
        if frames == 0 {
            return Err(SpecError(format!(
                "'{}': got {size_bytes} bytes of flash, expected space for several blocks of \
                 {block_bytes} bytes",
                self.spec.text()
            )));
        }
        let cached = Cached::new(cache(frames), block_bytes, writing, self.lanes.disks);
        let cached = match bound {
            Some(bound) => cached.surviving(bound),
            None => cached,
        };
        Ok(Box::new(Placed::over(cached, disks.into_iter().chain([flash]).collect())))
    }

    fn bid_hybrid(&self) -> Result<AnyPolicy, SpecError> {
        let threshold_bytes = self.given.whole("packing-kib")?.saturating_mul(1024);
        let limits = Bid::limits(&self.given, self.limits()?)?;
        let config = BidConfig::given(&self.given)?;
        let packing = Packing { threshold_bytes };
        self.diverting(|| BlockLayer::new(Bid::hybrid(config, packing), limits))
    }

    fn tier_bcache(&self) -> Result<AnyPolicy, SpecError> {
        let cutoff_kib = self.given.whole("cutoff-kib")?;
        self.scheduled(Rolling::new(u64::from(cutoff_kib) * 1024), false)
    }

    fn tier_lba(&self) -> Result<AnyPolicy, SpecError> {
        let deviation_mib = self.given.whole("deviation-mib")?;
        let limits = self.limits()?;
        let elevator = TierLba::new(u64::from(deviation_mib) << 20);
        self.diverting(|| BlockLayer::new(elevator.clone(), limits))
    }

    fn limits(&self) -> Result<Limits, SpecError> {
        Limits::given(&self.given, self.lanes.disk_len_max)
    }

    /// Builds disks whose schedulers divert requests to the flash.
    fn diverting<E: Elevator + Send + 'static>(
        &self,
        disk: impl Fn() -> BlockLayer<E>,
    ) -> Result<AnyPolicy, SpecError> {
        let (flash, size_bytes) = (self.flash_lane()?, self.size_bytes()?);
        let migrates = !self.given.is_first("migrate")?;
        let bound = self.bound()?;
        let migrate = migrates.then(|| self.migration()).transpose()?;
        self.spec.finish()?;
        let disks = (0..self.lanes.disks.max(1)).map(|_| Tier::Disk(disk()));
        let lanes = disks.chain([Tier::Flash(flash)]).collect();
        let tiers = self.tiers(size_bytes, Later, bound).migrating(migrate);
        Ok(Box::new(Placed::over(tiers, lanes)))
    }

    /// Builds disks with any scheduler, below which `choose` decides what goes to the flash.
    fn scheduled<C: Choose + Send + 'static>(
        &self,
        choose: C,
        always_migrates: bool,
    ) -> Result<AnyPolicy, SpecError> {
        let (flash, size_bytes) = (self.flash_lane()?, self.size_bytes()?);
        let disks = self.disks()?;
        let migrates = always_migrates || !self.given.is_first("migrate")?;
        let bound = self.bound()?;
        let migrate = migrates.then(|| self.migration()).transpose()?;
        self.spec.finish()?;
        let lanes = disks.into_iter().chain([flash]).collect();
        let tiers = self.tiers(size_bytes, choose, bound).migrating(migrate);
        Ok(Box::new(Placed::over(tiers, lanes)))
    }

    fn tiers<C: Choose>(&self, size_bytes: u64, choose: C, bound: Option<Bound>) -> Tiers<C> {
        let bytes = match bound {
            Some(_) => Tiers::<C>::bytes_beside_log(size_bytes),
            None => size_bytes,
        };
        Tiers::new(self.lanes.disks, bytes, choose).surviving(bound)
    }

    fn migration(&self) -> Result<MigrateConfig, SpecError> {
        let extent_kib = self.given.whole("extent-kib")?;
        let period_s =
            self.spec.between("period-s", 10.0, 0.001..=1e6, "seconds from 0.001 to 1000000")?;
        let wrong = |what: String| Err(SpecError(format!("'{}': {what}", self.spec.text())));
        if !extent_kib.is_multiple_of(4) || extent_kib > 1 << 20 {
            return wrong(format!(
                "extent-kib: got {extent_kib}, expected a multiple of 4 up to 1048576"
            ));
        }
        Ok(MigrateConfig {
            extent_bytes: extent_kib * 1024,
            period: Nanos::from_secs_f64(period_s),
            hot: self.given.whole("hot")?,
            moves_max: self.given.whole("moves-max")?,
        })
    }

    /// Returns how many bytes of the flash may be used.
    fn size_bytes(&self) -> Result<u64, SpecError> {
        let all_mib = (self.flash.capacity_bytes >> 20).min(u32::MAX.into()) as u32;
        let asked = self.spec.at_least("size-mib", all_mib, 1)?;
        if asked > all_mib {
            return Err(SpecError(format!(
                "'{}': size-mib: got {asked}, expected at most the {all_mib} of the flash device",
                self.spec.text()
            )));
        }
        Ok(u64::from(asked) << 20)
    }

    /// Returns the schedulers of the disks: `disk=NAME`, with parameters as in
    /// `disk=bid+history=4`.
    fn disks(&self) -> Result<Vec<AnyPolicy>, SpecError> {
        let default = "mq-deadline".to_string();
        let scheduler = self.spec.inner("disk").unwrap_or(default);
        let build = |_| {
            schedulers::build(&scheduler, self.lanes.disk_len_max)
                .map_err(|error| SpecError(format!("'{}': disk: {error}", self.spec.text())))
        };
        (0..self.lanes.disks.max(1)).map(build).collect()
    }

    /// Returns the flash device: multi-queue, first in, first out, behind a link.
    fn flash_lane(&self) -> Result<AnyPolicy, SpecError> {
        let expected = "microseconds from 0 to 1000000";
        let us: f64 = self.spec.between("transfer-us", 0.0, 0.0..=1e6, expected)?;
        let latency = Nanos((us * 1e3).round() as u64);
        let none =
            schedulers::build(&format!("none:requests-max={FLASH_TAGS}"), self.flash.len_max)?;
        Ok(Box::new(Link::new(none, latency)))
    }
}

/// The maximum number of outstanding requests to a flash device: the size of an NVMe queue (1023
/// tags in Linux).
const FLASH_TAGS: u32 = 1023;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(spec: &str) -> String {
        let flash = Some(FlashLane { len_max: 1 << 20, capacity_bytes: 1 << 40 });
        let lanes = DeviceSet {
            disks: 1,
            disk_len_max: 1 << 20,
            disk_bytes: 0,
            flash,
            restarts: false,
            costs: [None; 2],
        };
        build_placed(spec, &lanes).err().map_or_else(String::new, |error| error.0)
    }

    #[test]
    fn placements_that_must_survive_a_restart_have_a_log() {
        let flash = Some(FlashLane { len_max: 1 << 20, capacity_bytes: 8 << 20 });
        let restarts = |restarts, spec: &str| {
            let lanes = DeviceSet {
                disks: 1,
                disk_len_max: 1 << 20,
                disk_bytes: 0,
                flash,
                restarts,
                costs: [None; 2],
            };
            build_placed(spec, &lanes)
        };
        let figure = |policy: &dyn Policy, name| {
            policy.figures().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        let back = restarts(true, "cache:format=yes:id=7").unwrap();
        assert_eq!(figure(&*back, "log_records"), Some(0.0));
        // The log occupies part of the flash.
        let used = figure(&*back, "flash_bytes").unwrap();
        assert!((7.5e6..=8_388_608.0).contains(&used), "{used}");
        for (is_kept, spec) in [(false, "cache"), (true, "cache:write=through")] {
            assert_eq!(figure(&*restarts(is_kept, spec).unwrap(), "log_records"), None, "{spec}");
        }
        for spec in PLACEMENTS.iter().map(|listed| listed.name) {
            assert!(restarts(true, spec).is_ok() && restarts(false, spec).is_ok());
        }
    }

    #[test]
    fn placement_errors_say_what_is_expected() {
        assert_eq!(said("cache:write=through:block-kib=1048576:size-mib=100000"), "");
        assert!(
            said("cache:block-kib=4194304").ends_with("expected a whole number from 1 to 1048576")
        );
        assert!(said("cache:transfer-us=1e300").contains("got '1e300', expected microseconds"));
        assert!(said("migrate:period-s=1e300").contains("got '1e300', expected seconds"));
        let unknown = said("cache:write=through:x=1");
        assert_eq!(unknown.matches("write").count(), 2, "in the spec and in the list: {unknown}");
    }
}
