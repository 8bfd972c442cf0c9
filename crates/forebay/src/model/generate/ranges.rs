//! Places within a range: the past again, near a recent request, or anew.

use rustc_hash::FxHashMap;

use super::super::bins::{NEAR_BINS, jump_bin, log_bounds};
use super::super::file::Part;
use super::super::history::{Heads, Latest, Ring, Touched};
use super::super::space::{CELLS, LEVEL_MAX, SECTOR, Space};
use super::super::state::{Category, Kind, Range, SizeClasses};
use super::categories::CategoryDrawer;
use super::draw::{Bag, Dice, Table};

/// Times a new place is drawn again because it was used before.
const RETRIES: usize = 6;
/// Requests of the past among which the one at the right distance is chosen.
const AIMS: usize = 12;
/// How far from a drawn request of the past one is looked for that was not repeated since.
const PROBES: u64 = 12;

pub(super) struct RangeDrawer {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) heads: Heads,
    pub(super) ring: Ring,
    pub(super) referenced: u64,
    /// Cells of heat in it: first, count.
    pub(super) cells: Vec<(u32, u32)>,
    pub(super) cell: Bag,
}

impl RangeDrawer {
    /// The request of the past with this number, or one close to it that was not repeated since.
    pub(super) fn past(&mut self, number: u64, latest: &Latest) -> Option<(u64, Option<u32>)> {
        let mut fallback = None;
        for step in 0..PROBES {
            let tried = if step % 2 == 0 {
                number.wrapping_add(step / 2)
            } else {
                number.wrapping_sub(step / 2 + 1)
            };
            let Some(past) = self.ring.get(tried) else { continue };
            if latest.find(past.address) == Some(tried) {
                self.referenced = tried;
                return Some((past.address, Some(past.len)));
            }
            fallback = fallback.or(Some((past.address, Some(past.len))));
        }
        fallback
    }

    /// The rank closest to the drawn one that suits a request of this kind and class.
    pub(super) fn rank(
        &self,
        rank: usize,
        (kind, class): (Kind, Option<usize>),
        (space, volume_ends): (&Space, &[u64]),
        touched: &Touched,
        classes: &SizeClasses,
    ) -> usize {
        let cost = |&at: &usize| {
            let (end, _, len) = self.heads.at(at);
            let is_last = volume_ends[space.volume(end.saturating_sub(1))] == end;
            let strays = is_last != kind.is_next();
            let wears = touched.last(end).is_none() != kind.is_new();
            let differs = class.is_some_and(|class| classes.of(len) != class);
            (strays, wears, differs, at.abs_diff(rank))
        };
        (0..self.heads.len()).min_by_key(cost).unwrap_or(0)
    }

    /// Of several requests of the past, the one that is about as far away as wanted.
    pub(super) fn again(
        &mut self,
        ago: &Table,
        (jump, last_end): (usize, u64),
        dice: &mut Dice,
        latest: &Latest,
    ) -> Option<(u64, Option<u32>)> {
        let mut best: Option<(usize, u64)> = None;
        for _ in 0..AIMS {
            let (low, count) = log_bounds(ago.draw(dice));
            let number = self.ring.count().saturating_sub(low + dice.below(count));
            let Some(past) = self.ring.get(number) else { continue };
            if past.address == last_end {
                // That would be sequential.
                continue;
            }
            let off = jump_bin(last_end, past.address).abs_diff(jump);
            if best.is_none_or(|(least, _)| off < least) {
                best = Some((off, number));
            }
            if off == 0 {
                break;
            }
        }
        self.past(best?.1, latest)
    }

    pub(super) fn near(
        &mut self,
        drawer: &mut CategoryDrawer,
        dice: &mut Dice,
        touched: &Touched,
    ) -> u64 {
        let mut best = None;
        for _ in 0..RETRIES {
            let rank = drawer.ranks.draw(dice).min(self.heads.len() - 1);
            let bin = drawer.distances.draw(dice);
            let (low, count) = log_bounds(bin % NEAR_BINS);
            let distance = (low + dice.below(count)).saturating_mul(SECTOR);
            let head = self.heads.at(rank).0;
            let grain = SECTOR << drawer.alignments.draw(dice);
            let aimed = if bin < NEAR_BINS {
                head.saturating_sub(distance.max(SECTOR))
            } else {
                // Not where the head is: that would be sequential.
                head.saturating_add(distance.max(grain / 2 + SECTOR))
            };
            let address =
                (aimed.saturating_add(grain / 2) / grain * grain).clamp(self.first, self.end - 1);
            if self.heads.find(address).is_some() {
                continue;
            }
            if touched.last(address).is_none() {
                return address;
            }
            best = Some(address);
        }
        best.unwrap_or(self.first)
    }

    pub(super) fn far(
        &mut self,
        drawer: &CategoryDrawer,
        dice: &mut Dice,
        touched: &Touched,
        (space, last_end): (&Space, u64),
    ) -> u64 {
        let jump = drawer.jumps.draw(dice);
        let mut best: Option<(usize, u64, Option<usize>)> = None;
        for _ in 0..RETRIES {
            let cell = (!self.cell.is_empty()).then(|| self.cell.draw(dice));
            let (low, high) = match cell.and_then(|cell| self.cells.get(cell)) {
                Some(&(first, count)) => {
                    let low = u64::from(first) * space.cell_bytes();
                    (low, low + u64::from(count) * space.cell_bytes())
                }
                None => (self.first, self.end),
            };
            let (low, high) = (low.max(self.first), high.min(self.end).max(low + 1));
            let grain = SECTOR << drawer.alignments.draw(dice);
            let drawn = ((low + dice.below(high - low)) / grain * grain).max(self.first);
            let off = jump_bin(last_end, drawn).abs_diff(jump);
            let good = 4 * room(drawn, touched) + 3 - off.min(3);
            let worse = match best {
                Some((most, _, _)) if most >= good => Some(cell),
                _ => best.replace((good, drawn, cell)).map(|(_, _, cell)| cell),
            };
            if let Some(cell) = worse.flatten() {
                self.cell.put(cell);
            }
            if good == 4 * ROOM.len() + 3 {
                break;
            }
        }
        best.map_or(self.first, |(_, address, _)| address)
    }
}

/// How far ahead of a new place is looked for ground not used before.
const ROOM: [u64; 6] = [0, 128 << 10, 1 << 20, 8 << 20, 32 << 20, 128 << 20];

/// How far the ground from `address` on was not used before.
fn room(address: u64, touched: &Touched) -> usize {
    ROOM.iter().take_while(|&&ahead| touched.last(address.saturating_add(ahead)).is_none()).count()
}

/// The ranges of states, and the number of each.
pub(super) fn ranges(
    states: &[(Range, Category)],
    part: &Part,
    space: &Space,
) -> (FxHashMap<Range, u32>, Vec<RangeDrawer>) {
    let mut numbers = FxHashMap::default();
    let mut list = Vec::new();
    for (range, _) in states {
        if numbers.contains_key(range) {
            continue;
        }
        numbers.insert(*range, list.len() as u32);
        let width = (CELLS >> (2 * range.level())) as u32;
        let first = range.index() * width;
        let cells: Vec<(u32, u32, u32)> = part
            .heat
            .iter()
            .filter(|(begin, count, _)| *begin < first + width && begin + count > first)
            .copied()
            .collect();
        let bytes = |cell: u32| u64::from(cell) * space.cell_bytes();
        let begin = bytes(first).min(space.span() - 1);
        list.push(RangeDrawer {
            first: begin,
            end: bytes(first + width).min(space.span()).max(begin + 1),
            heads: Heads::default(),
            ring: Ring::default(),
            referenced: 0,
            cell: Bag::new(cells.iter().map(|cell| u64::from(cell.2)).collect()),
            cells: cells.iter().map(|cell| (cell.0, cell.1)).collect(),
        });
    }
    debug_assert!(states.iter().all(|(range, _)| range.level() <= LEVEL_MAX));
    (numbers, list)
}
