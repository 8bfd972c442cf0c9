//! Builds arrays by name: all disks combined into one volume.

use super::placements::DeviceSet;
use super::{schedulers, shapers};
use crate::adapt::{
    Best, BonusMalus, Costs, Factor, First, Objective, RAID6, Tuning, WorkFunction,
};
use crate::contract::{AnyPolicy, Given, Listed, Nanos, Origin, Parameter, Spec, SpecError};
use crate::stack::array::{Array, DriveKind, Geometry, Hint, KINDS, LEVELS, Level, Update};
use crate::stack::placed::Placed;

/// The names of the rules that switch units between RAID 6 and three copies.
const RULES: &[&str] =
    &["never", "bonus-malus", "half-thresholds", "twice-thresholds", "work-function", "best"];

/// The parameters of a new array.
const MADE: &[Parameter] = &[
    Parameter::choice("level", &["raid6", "raid0", "raid5", "raid10", "raid10x3", "raid10x4"])
        .about("the RAID level of newly written data"),
    Parameter::choice("update", &["fresh", "in-place"])
        .about("whether overwritten data goes to a new place, or is updated in place"),
    Parameter::whole("chunk-kib", 64, 4)
        .about("the size of a chunk, contiguous data on one disk; 4 to 1024, a multiple of 4"),
    Parameter::whole("chunks", 4, 1)
        .about("data chunks in a unit, which has one level; with adapt up to 5"),
    Parameter::whole("filled-mib", 0, 0)
        .about("the amount of data, from the start, that counts as already written"),
    Parameter::whole("ssds", 0, 0).about(
        "solid-state drives in addition to the disks, modeled as the flash; none or enough \
            for a unit",
    ),
];

/// The parameters that determine how an array adapts to its workload, and hints that override it.
const RULED: &[Parameter] = &[
    Parameter::choice("adapt", RULES)
        .about("the rule that switches units between RAID 6 and three copies"),
    Parameter::choice("costs", &["device", "hdd", "ssd"]).about(
        "the costs that the rule uses: those of the drives (for a volume, if it was created with \
            --device), or the paper's costs of hard disks or SSDs",
    ),
    Parameter::choice("first", &["level", "write"]).about(
        "with adapt: the level of a new unit, either the parameter level or the level that \
            suits the first write",
    ),
    Parameter::whole("switch-percent", 0, 0).about(
        "with adapt: the maximum amount of data that switches move, relative to clients' data; 0: \
         no limit",
    ),
    Parameter::millis("rent-ms", 0.0)
        .about("with adapt: the disk time charged per period for the space of a chunk; 0: none"),
    Parameter::millis("period-ms", 60_000.0).about("how often rent-ms is charged"),
    Parameter::own("hints", "none")
        .about("levels and kinds of drive for ranges in MiB: 0-1024@raid10x3/1024-4096@ssd"),
    Parameter::own("disk", "noop")
        .about("the scheduler of each disk, such as deadline+fifo-batch=32, with + instead of :"),
];

/// All policies that combine the disks into one volume.
pub const ARRAYS: &[Listed] = &[Listed {
    name: "array",
    origin: Origin::Forebay,
    summary: "combines all disks into one volume with redundancy; each 256 KiB has its own RAID \
        level, which may adapt to the workload",
    parameters: &[MADE, RULED],
}];

/// Returns the spec of the array, which `spec` names itself or below a shaper.
fn array_of(spec: &str) -> Option<Spec> {
    let spec = Spec::parse(spec).ok()?;
    if ARRAYS.iter().any(|listed| listed.name == spec.name()) {
        return Some(spec);
    }
    let over = shapers::is_shaper(spec.name()).then(|| spec.inner("over")).flatten()?;
    array_of(&over)
}

/// Returns whether `spec` itself names an array.
fn is_named(spec: &str) -> bool {
    Spec::parse(spec).is_ok_and(|spec| ARRAYS.iter().any(|listed| listed.name == spec.name()))
}

/// Returns whether `spec` names an array, itself or below a shaper.
pub fn is_array(spec: &str) -> bool {
    array_of(spec).is_some()
}

/// Returns the number of solid-state drives that `spec` adds to the disks of the array. Each is
/// like the flash device.
pub fn array_ssds(spec: &str) -> u16 {
    let Some(spec) = array_of(spec) else { return 0 };
    Given::new(&spec, &tables()).whole("ssds").map_or(0, |ssds| ssds.min(LANES_MAX) as u16)
}

/// Returns the size in bytes of the volume that `spec` creates from `lanes`; `None` if it does not
/// name an array.
///
/// # Errors
/// If `lanes` do not allow such an array.
pub fn volume_bytes(spec: &str, lanes: &DeviceSet) -> Result<Option<u64>, SpecError> {
    let Some(spec) = array_of(spec) else { return Ok(None) };
    let tables = tables();
    let given = Given::new(&spec, &tables);
    Ok(Some(ArraySpec::of(&given, lanes)?.geometry.capacity_bytes()))
}

fn tables() -> Vec<&'static [Parameter]> {
    ARRAYS.iter().flat_map(|listed| listed.parameters.to_vec()).collect()
}

/// The maximum number of drives of each kind.
const LANES_MAX: u32 = 32;
/// The scheduler of solid-state drives, which serves requests in order of arrival.
const FLASH_SCHEDULER: &str = "none:requests-max=1023";

/// The parsed parameters of an array.
struct ArraySpec {
    geometry: Geometry,
    level: Level,
    /// The capacity of each drive in bytes, by lane: first disks, then solid-state drives.
    bytes: Vec<u64>,
    kinds: Vec<DriveKind>,
}

impl ArraySpec {
    fn of(given: &Given<'_>, lanes: &DeviceSet) -> Result<ArraySpec, SpecError> {
        let names = ["raid6", "raid0", "raid5", "raid10", "raid10x3", "raid10x4"];
        let level = Level::named(names[given.choice("level")?]).unwrap_or(Level::RAID6);
        let update = [Update::Fresh, Update::InPlace][given.choice("update")?];
        let adapts = given.choice("adapt")? > 0;
        let chunks = given.whole("chunks")?;
        let wrong = |what: String| Err(SpecError(format!("'{}': {what}", given.spec.text())));
        let both = [Level::RAID6, Level::TRIPLE];
        let changes = adapts || given_hints(given.spec)? != "none";
        let levels = if changes && both.contains(&level) { both.to_vec() } else { vec![level] };
        let width = levels.iter().map(|level| level.width(chunks as usize)).max().unwrap_or(1);
        if usize::from(lanes.disks) < width {
            return wrong(format!("got {} disks, expected at least {width}", lanes.disks));
        }
        let ssds = given.whole("ssds")?;
        if ssds > LANES_MAX {
            return wrong(format!("ssds: got {ssds}, expected {LANES_MAX} at most"));
        }
        let ssds = ssds as usize;
        let flash_bytes = lanes.flash.map_or(0, |flash| flash.capacity_bytes);
        if ssds > 0 && (ssds < width || lanes.flash.is_none()) {
            return wrong(format!(
                "ssds: got {ssds}, expected none, or at least {width} and a flash device as their \
                 model"
            ));
        }
        let copies = levels.iter().map(|level| match level {
            Level::Mirrored { copies } => *copies,
            Level::Striped { .. } => 1,
        });
        let sizes = Geometry {
            volume: 0,
            lanes: lanes.disks,
            chunk_bytes: given.whole("chunk-kib")?.saturating_mul(1024),
            chunks: chunks.min(255) as u8,
            copies_max: copies.max().unwrap_or(1),
            units: 0,
            cells: 0,
            ring: 0,
            update,
        };
        let disks = vec![lanes.disk_bytes; lanes.disks.into()];
        let solid = vec![flash_bytes; ssds];
        let lean = if levels.len() > 1 { Level::RAID6 } else { level };
        let sets: [&[u64]; 2] = [&disks, &solid];
        let kinds = [vec![DriveKind::Hdd; disks.len()], vec![DriveKind::Ssd; ssds]].concat();
        match Geometry::fitting(sizes, lean, if ssds > 0 { &sets } else { &sets[..1] }) {
            Some(geometry) => {
                Ok(ArraySpec { geometry, level, bytes: [disks, solid].concat(), kinds })
            }
            None => wrong(format!(
                "got {chunks} chunks of {} KiB on {} disks of {} bytes, expected chunks of 4 to \
                 1024 KiB, a multiple of 4, no more than 16 copies and parities of a unit's \
                 chunks, up to 32 disks, and space for them",
                sizes.chunk_bytes / 1024,
                lanes.disks,
                lanes.disk_bytes
            )),
        }
    }
}

/// Builds the array that `spec` describes.
pub(super) fn array(spec: &Spec, lanes: &DeviceSet) -> Result<AnyPolicy, SpecError> {
    let tables = tables();
    let given = Given::new(spec, &tables);
    if lanes.restarts {
        let what = "got the policy array, which keeps nothing after a run, expected a volume \
            (forebay volume create)";
        return Err(SpecError(format!("'{}': {what}", spec.text())));
    }
    let ArraySpec { geometry, level, bytes, kinds } = ArraySpec::of(&given, lanes)?;
    let filled = u64::from(given.whole("filled-mib")?) << 20;
    let units = filled.div_ceil(geometry.unit_bytes());
    // Units that were never written have the initial level, without consulting the rule.
    let array = Array::new(geometry, level).with_costs(lanes.costs);
    let array = match kinds.contains(&DriveKind::Ssd) {
        true => {
            let cells: Vec<u32> = bytes.iter().map(|bytes| geometry.cells_in(*bytes)).collect();
            array.with_kinds(&kinds).with_cells(&cells)
        }
        false => array,
    };
    let array = ruled(&given, array.filled(units))?;
    let mut policies = schedulers_of(spec, lanes.disks.into(), lanes.disk_len_max)?;
    let solid = lanes.flash.filter(|_| bytes.len() > policies.len());
    for flash in solid.iter().cycle().take(bytes.len() - policies.len()) {
        policies.push(schedulers::build(FLASH_SCHEDULER, flash.len_max)?);
    }
    spec.finish()?;
    Ok(Box::new(Placed::over(array, policies)))
}

/// Returns the existing `array` with the policies that `spec` requests. `spec` either describes an
/// array, which adapts `array` to its workload, or names a scheduler, and then each drive gets its
/// own instance.
///
/// # Errors
/// If the policy does not exist, the array does not support it, or `spec` has parameters that only
/// apply to a new array.
pub fn with_rules(
    spec: &str,
    array: Array,
    len_max: u32,
) -> Result<Placed<Array, AnyPolicy>, SpecError> {
    let lanes = array.lanes();
    if !is_named(spec) {
        let disks = (0..lanes).map(|_| schedulers::build(spec, len_max));
        return Ok(Placed::over(array, disks.collect::<Result<_, _>>()?));
    }
    let spec = Spec::parse(spec)?;
    let tables = [RULED];
    let array = ruled(&Given::new(&spec, &tables), array)?;
    let disks = schedulers_of(&spec, lanes, len_max)?;
    spec.finish()?;
    Ok(Placed::over(array, disks))
}

/// Returns a scheduler for each disk.
fn schedulers_of(spec: &Spec, disks: usize, len_max: u32) -> Result<Vec<AnyPolicy>, SpecError> {
    let name = spec.inner("disk").unwrap_or_else(|| "noop".to_string());
    let build = |_| {
        schedulers::build(&name, len_max)
            .map_err(|error| SpecError(format!("'{}': disk: {error}", spec.text())))
    };
    (0..disks).map(build).collect()
}

/// Adds hints and a rule for adapting to an array.
fn ruled(given: &Given<'_>, array: Array) -> Result<Array, SpecError> {
    let level = array.first_level();
    let hints = hints(given.spec, array.geometry())?;
    let array = array.hinted(&hints);
    let rule = given.choice("adapt")?;
    let costs = costs(&array, given.choice("costs")?);
    let first = match given.is_first("first")? {
        false => First::ByFirstWrite,
        true => First::Fixed(RAID6 + u8::from(level == Level::TRIPLE)),
    };
    let switch_percent = given.whole("switch-percent")?;
    let (rent, period) = (given.millis("rent-ms")?, given.millis("period-ms")?);
    if rule == 0 {
        return Ok(array);
    }
    let levels = vec![Level::RAID6, Level::TRIPLE];
    if !levels.contains(&level) || !levels.iter().all(|level| array.geometry().takes(*level)) {
        return Err(SpecError(format!(
            "'{}': adapt: got level={} on {} disks, expected raid6 or raid10x3, and enough disks \
             for both",
            given.spec.text(),
            level.name(),
            array.geometry().lanes
        )));
    }
    let chunks = array.geometry().chunks.into();
    let rents = levels.iter().map(|level| level.roles(chunks) as u64 * rent.0).collect();
    let objective = Objective { capacity: 1, rents, ..Objective::default() };
    let costs = costs.map(|costs| objective.weigh(costs));
    let (half, twice) = (Factor { times: 1, over: 2 }, Factor { times: 2, over: 1 });
    let array = match RULES[rule] {
        "bonus-malus" => array.adapting(BonusMalus::new(Factor::ONE), costs, first, levels),
        "half-thresholds" => array.adapting(BonusMalus::new(half), costs, first, levels),
        "twice-thresholds" => array.adapting(BonusMalus::new(twice), costs, first, levels),
        "work-function" => array.adapting(WorkFunction, costs, first, levels),
        _ => {
            let best = Best::new(&costs[0], Tuning::default());
            array.adapting(best, costs, first, levels)
        }
    };
    let array = array.switching_within(switch_percent.into());
    Ok(if rent > Nanos::ZERO { array.charging_every(period) } else { array })
}

/// Returns the costs that a rule uses on the drives of each kind. If the costs of the drives are
/// unknown, the paper's costs of such drives are used.
fn costs(array: &Array, choice: usize) -> [Costs; KINDS.len()] {
    let of_paper = [Costs::paper_hdd, Costs::paper_ssd];
    KINDS.map(|kind| match choice {
        0 => array
            .costs(kind)
            .and_then(|costs| costs.costs())
            .unwrap_or_else(of_paper[kind as usize]),
        chosen => of_paper[chosen - 1](),
    })
}

/// Returns the size of the array that `spec` describes, if it needs the costs of its drives
/// ([`DeviceSet::costs`]) because it adapts to them.
pub fn needs_costs(spec: &str, lanes: &DeviceSet) -> Option<Geometry> {
    let spec = array_of(spec)?;
    let tables = tables();
    let given = Given::new(&spec, &tables);
    let needs = given.choice("adapt").ok()? > 0 && given.is_first("costs").ok()?;
    needs.then(|| ArraySpec::of(&given, lanes).ok())?.map(|it| it.geometry)
}

fn given_hints(spec: &Spec) -> Result<String, SpecError> {
    spec.get("hints", "none".to_string(), "hints")
}

/// Parses hints of the form `FROM-TO@LEVEL@KIND` in MiB, separated by `/`. Level and kind may come
/// in either order, and one of them may be omitted.
fn hints(spec: &Spec, geometry: &Geometry) -> Result<Vec<Hint>, SpecError> {
    let text = given_hints(spec)?;
    if text == "none" {
        return Ok(Vec::new());
    }
    let wrong = |what: &str| {
        let expected = "FROM-TO@LEVEL@KIND in MiB, such as 0-1024@raid10x3/1024-4096@ssd, with a \
            level that the array supports and hdd or ssd";
        SpecError(format!("'{}': hints: got '{what}', expected {expected}", spec.text()))
    };
    let one = |text: &str| {
        let mut words = text.split('@');
        let (from, to) = words.next()?.split_once('-')?;
        let bytes = |mib: &str| mib.parse::<u32>().ok().map(|mib| u64::from(mib) << 20);
        let mut hint = Hint { bytes: bytes(from)?..bytes(to)?, level: None, kind: None };
        for word in words {
            match (Level::named(word), DriveKind::named(word)) {
                (Some(level), _) if geometry.takes(level) => hint.level = Some(level),
                (_, Some(kind)) => hint.kind = Some(kind),
                _ => return None,
            }
        }
        let says = hint.level.is_some() || hint.kind.is_some();
        (says && !hint.bytes.is_empty()).then_some(hint)
    };
    text.split('/').map(|text| one(text).ok_or_else(|| wrong(text))).collect()
}

const _: () = assert!(LEVELS.len() == 6, "every level can be asked for");
