//! Creates or opens an array, with the options of a run.

use std::collections::{BTreeMap, VecDeque};

use super::{
    Adapting, Array, Care, Counts, Doubted, DriveKind, Drives, Events, Full, Geometry, Hints,
    KINDS, Known, LEVELS, Level, Locks, Log, Losses, Phase, Room, Table, Unit, Unsure,
};
use crate::adapt::{Costs, DriveCosts, First, Rule};
use crate::contract::{Fault, Nanos};

impl Array {
    /// Returns an open, empty array for a run whose data need not survive the run.
    pub fn new(geometry: Geometry, first: Level) -> Array {
        let numbers: Vec<u8> = (1..=geometry.lanes as u8).collect();
        Array { phase: Phase::Ready, ..Array::closed(geometry, first, &numbers, false) }
    }

    /// Returns an array whose state is read from its drives when it is opened. `numbers` are the
    /// numbers of the present drives by lane, from their labels; 0 for a lane without a drive.
    pub fn found(geometry: Geometry, first: Level, numbers: &[u8]) -> Array {
        Array::closed(geometry, first, numbers, false)
    }

    /// Returns a new array on new drives. Opening it writes the first record and overwrites
    /// everything. The caller manages labels.
    pub fn created(geometry: Geometry, first: Level) -> Array {
        let numbers: Vec<u8> = (1..=geometry.lanes as u8).collect();
        Array::closed(geometry, first, &numbers, true)
    }

    /// Makes the next flush of each stream except `knows` fail once, because a previous instance
    /// lost acknowledged writes. Losses are only in memory, and a new instance does not know who
    /// has been informed.
    pub fn owing(mut self, fault: Fault, knows: u32) -> Array {
        self.log.losses = Losses::owing(fault, knows);
        self
    }

    /// Sets the costs of writes on the drives of each kind, as far as they are known.
    pub fn with_costs(self, costs: [Option<DriveCosts>; 2]) -> Array {
        Array { costs, ..self }
    }

    /// Returns the costs of writes on the drives of a kind, if they are known.
    pub fn costs(&self, kind: DriveKind) -> Option<DriveCosts> {
        self.costs[kind as usize]
    }

    /// Makes levels adapt to the workload by `rule`. `costs` are the costs on each kind of drive;
    /// their layout `i` is `levels[i]`.
    pub fn adapting<R>(self, rule: R, costs: [Costs; 2], first: First, levels: Vec<Level>) -> Array
    where
        R: Rule + Send + 'static,
        R::Unit: Send,
    {
        Array { adapting: Some(Adapting::new(rule, costs, first, levels)), ..self }
    }

    /// Limits the data moved by switches to a percentage of the clients' data; 0 means no limit.
    pub fn switching_within(self, percent: u64) -> Array {
        let adapting = self.adapting.map(|adapting| adapting.bounded(percent));
        Array { adapting, ..self }
    }

    /// Makes units pay the rent of their space once per period, while the array is used.
    pub fn charging_every(self, period: Nanos) -> Array {
        let adapting = self.adapting.map(|adapting| adapting.charging(period));
        Array { adapting, ..self }
    }

    /// Sets the number of cells of each drive, by lane, at least [`Geometry::cells`].
    pub fn with_cells(mut self, cells: &[u32]) -> Array {
        self.drives.with_cells(cells);
        self
    }

    /// Sets, by lane, which drives may join although no record names them. All other drives that no
    /// record names have left the array, even if their numbers are higher than those of all
    /// members.
    pub fn joined_by(mut self, joining: &[bool]) -> Array {
        self.joining = Some(joining.to_vec());
        self
    }

    /// Sets the kinds of the drives, by lane. An array that is opened reads them from its records.
    pub fn with_kinds(mut self, kinds: &[DriveKind]) -> Array {
        self.drives.with_kinds(kinds);
        self
    }

    /// Returns the number of drives that may fail while their data still fits on the other drives,
    /// even if all of the promised capacity is written.
    pub fn spare_drives(&self) -> usize {
        self.drives.spares
    }

    /// Returns how many drives may currently fail while their data still fits on the others. This
    /// is less than [`Array::spare_drives`] after drives have been removed.
    pub fn spare_room(&self) -> usize {
        let (level, chunks, units) = (self.promised_level(), self.chunks(), self.geometry.units);
        let missing: usize = KINDS.iter().map(|kind| self.drives.missing_of(*kind)).sum();
        let present = self.drives.present().map(|lane| self.drives.cells(lane));
        let mut cells: Vec<u32> =
            present.chain((0..missing).map(|_| self.geometry.cells)).collect();
        cells.sort_unstable_by(|one, other| other.cmp(one));
        let has_room = |spares: &usize| {
            let left = cells.iter().skip(*spares).copied();
            super::fitting::units_on(left, level, chunks, units) >= units
        };
        (0..=self.drives.spares).rev().find(has_room).unwrap_or(0)
    }

    /// Makes the array read-only: its drives are never written.
    pub fn reading(self) -> Array {
        Array { reads_only: true, ..self }
    }

    /// Marks this many units as written at the first level, without any I/O, as a starting point
    /// for simulations.
    pub fn filled(mut self, units: u64) -> Array {
        let level = self.first;
        for number in 0..units.min(self.geometry.units) {
            let mut unit = Unit { level: Some(level), ..Unit::EMPTY };
            let roles = super::level::all(level.roles(self.chunks()));
            unit.kind = self.first_kind(DriveKind::default(), level);
            if self.allot(number, &mut unit, level, roles).is_some() {
                self.table.set(number, &unit);
                self.hold(number, &Unit::EMPTY, &unit);
            }
        }
        self
    }

    pub(super) fn closed(geometry: Geometry, first: Level, numbers: &[u8], creates: bool) -> Array {
        let chunks = usize::from(geometry.chunks);
        let lean = |level: &&Level| {
            level.tolerates() >= first.tolerates() && level.width(chunks) <= geometry.lanes.into()
        };
        let leanest = LEVELS.iter().filter(lean).min_by_key(|level| level.roles(chunks));
        let leanest = leanest.copied().unwrap_or(first);
        let mut drives = Drives::new(numbers, geometry.cells);
        let promised = if first.tolerates() == 2 { leanest } else { first };
        drives.spares = geometry.spares(promised).into();
        Array {
            first,
            leanest,
            phase: Phase::Closed { creates },
            early: Vec::new(),
            drives,
            table: Table::new(&geometry),
            changed: BTreeMap::new(),
            round: BTreeMap::new(),
            log: Log::default(),
            locks: Locks::default(),
            jobs: Vec::new(),
            vacant: Vec::new(),
            ready: Vec::new(),
            tasks: Vec::new(),
            stalled: VecDeque::new(),
            known: Known::default(),
            care: Care::default(),
            room: Room::default(),
            adapting: None,
            costs: [None; KINDS.len()],
            hints: Hints::default(),
            carried: BTreeMap::new(),
            held: [0; KINDS.len()],
            doubted: Doubted::default(),
            unsure: Unsure::default(),
            levels: [0; LEVELS.len()],
            lost_units: 0,
            full: Full::default(),
            reads_only: false,
            joining: None,
            counts: Counts::default(),
            events: Events::default(),
            geometry,
        }
    }
}
