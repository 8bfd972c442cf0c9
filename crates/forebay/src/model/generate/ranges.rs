//! Places within a range: the past again, near a recent request, or anew.

use super::super::bins::{age_bounds, align, reach, reach_bin};
use super::super::file::Part;
use super::super::history::{Latest, Past, RangePast, Starts, Touched};
use super::super::space::{CELLS, SECTOR, Space};
use super::super::spot::{self, Spot};
use super::super::state::{FOLLOWS_MAX, Kind, NEAR_BYTES, Range, SizeClasses};
use super::categories::{CategoryDrawer, OUT_OF_PHASE};
use super::draw::{Bag, Dice};

/// Times a new place is drawn again because it was used before.
const RETRIES: usize = 8;
/// Steps, each twice as long, that a run takes to find new ground.
const STEPS: u32 = 16;
/// Requests of the past among which the one at the right distance is chosen.
const AIMS: u64 = 32;
/// Times one is looked for at the right distance.
const SIGHTS: usize = 10;

pub(super) struct RangeDrawer {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) past: RangePast,
    /// Where requests began that continued no run.
    pub(super) starts: Starts,
    /// Cells of heat in it: first, count.
    pub(super) cells: Vec<(u32, u32)>,
    pub(super) cell: Bag,
}

impl AsMut<RangePast> for RangeDrawer {
    fn as_mut(&mut self) -> &mut RangePast {
        &mut self.past
    }
}

impl RangeDrawer {
    /// The request of the past that came so many after the one used last, or soon after, if it was not
    /// repeated since: the one that is most as old and as far away as wanted.
    pub(super) fn follow(
        &mut self,
        on: u64,
        wanted: Spot,
        misfit: impl Fn(Past) -> usize,
        latest: &Latest,
    ) -> Option<(u64, Option<u32>)> {
        let reference = self.past.reference(self.first);
        let candidate = |distance: u64| {
            let number = self.past.referenced + distance;
            let past = self.past.ring.get(number)?;
            if latest.find(past.address) != Some(number)
                || self.past.heads.find(past.address).is_some()
                || misfit(past) >= OUT_OF_PHASE
            {
                return None;
            }
            let ago = self.past.ring.count() - number;
            let found = spot::again(Kind::Follow, ago, reference, (past.address, past.len));
            let off = spot::off(Kind::Follow, found, wanted) + 4 * usize::from(distance != on);
            Some((off, number, past))
        };
        let (_, number, past) =
            (1..=FOLLOWS_MAX).filter_map(candidate).min_by_key(|found| found.0)?;
        self.past.referenced = number;
        Some((past.address, Some(past.len)))
    }

    /// Where a run that ended at `end` finds new ground: there, or beyond what was used since, in steps of
    /// `len` bytes that double.
    pub(super) fn fresh(&self, (end, len): (u64, u32), touched: &Touched) -> u64 {
        let last = u64::from(len.saturating_sub(1));
        let is_fresh =
            |at: u64| touched.last(at).is_none() && touched.last(at.saturating_add(last)).is_none();
        // What is small is run over: the run touches what is next to it.
        if [0, 1, 4].iter().any(|n| touched.last(end.saturating_add(n * u64::from(len))).is_none())
        {
            return end;
        }
        let steps = (0..STEPS).map(|power| end.saturating_add(u64::from(len) << power));
        steps.take_while(|&at| at < self.end).find(|&at| is_fresh(at)).unwrap_or(end)
    }

    /// How long the last request was that began there.
    pub(super) fn began(
        &self,
        address: u64,
        (latest, touched): (&Latest, &Touched),
    ) -> Option<u32> {
        // Most often nothing did, and what was just looked up tells.
        touched.last(address)?;
        let past = self.past.ring.get(latest.find(address)?)?;
        (past.address == address).then_some(past.len)
    }

    /// The rank closest to the drawn one that suits a request of this kind and class, and whether it is
    /// not where it has to be.
    pub(super) fn rank(
        &self,
        rank: usize,
        (kind, class, is_read, is_known): (Kind, Option<usize>, Option<bool>, bool),
        (space, volume_ends): (&Space, &[u64]),
        touched: &Touched,
        (classes, drawer): (&SizeClasses, &CategoryDrawer),
    ) -> Option<(usize, bool)> {
        let rank = rank.min(self.past.heads.len().checked_sub(1)?);
        let weight = if is_known { KNOWN } else { 1 };
        let heads = &self.past.heads;
        // The cost of what must not be is above that of what should not.
        let (mut least, mut best) = (usize::MAX, rank);
        for away in 0..heads.len() {
            if weight * away >= least {
                break;
            }
            let ahead = (away > 0).then_some(rank + away);
            for at in [rank.checked_sub(away), ahead].into_iter().flatten() {
                if at >= heads.len() {
                    continue;
                }
                let (end, _, len) = heads.at(at);
                let is_last = match volume_ends {
                    [only] => *only == end,
                    _ => volume_ends[space.volume(end.saturating_sub(1))] == end,
                };
                let strays = is_last != kind.is_next();
                let turns = is_read.is_some_and(|is_read| heads.is_read(at) != is_read);
                let mut cost =
                    STRAY * usize::from(strays) + TURN * usize::from(turns) + weight * away;
                if cost >= least {
                    continue;
                }
                let phase = if drawer.is_common(end) { 0 } else { 8 * OUT_OF_PHASE };
                let differs = class.is_some_and(|class| classes.of(len) != class);
                cost += 2 * usize::from(differs) + phase;
                // What has to be looked up comes last.
                if cost < least {
                    cost += 4 * wears((end, len), kind, touched);
                }
                if cost < least {
                    (least, best) = (cost, at);
                }
            }
        }
        Some((best, least >= STRAY))
    }

    /// Of the requests of the past, one that is about as old and about as far away as wanted, and as
    /// large. Some are looked at for their age, some for their place.
    pub(super) fn again(
        &mut self,
        (kind, wanted, next): (Kind, Spot, Option<Kind>),
        misfit: impl Fn(Past) -> usize,
        dice: &mut Dice,
        (latest, touched): (&Latest, &Touched),
    ) -> Option<(u64, Option<u32>)> {
        let reference = self.past.reference(self.first);
        let newest = self.past.ring.count().checked_sub(1)?;
        let side = side(kind, reference);
        let mut best: Option<(usize, u64, Past)> = None;
        let mut consider = |number: u64| {
            let Some(past) = self.past.ring.get(number) else { return false };
            let number = latest.find(past.address).unwrap_or(number).max(number);
            let ago = (newest + 1).saturating_sub(number);
            let found = spot::again(kind, ago, reference, (past.address, past.len));
            let strays = !side.contains(&past.address);
            let off = spot::off(kind, found, wanted)
                + 30 * usize::from(strays)
                + misfit(past)
                + self.misfit((number, past), next, latest, touched);
            // Where a head is would be sequential.
            if best.is_none_or(|(least, ..)| off < least)
                && self.past.heads.find(past.address).is_none()
            {
                best = Some((off, number, past));
            }
            best.is_some_and(|(least, ..)| least == 0)
        };
        let (low, count) = age_bounds(spot::age(wanted));
        let count = count.min((newest + 2).saturating_sub(low));
        let (tries, first) = (count.min(AIMS), dice.below(count.max(1)));
        // Evenly over the ages.
        let mut done =
            (0..tries).any(|n| consider(newest + 1 - low - (first + n * count / tries) % count));
        for _ in 0..SIGHTS {
            if done {
                break;
            }
            let place = spot::aim(kind, reference, wanted, dice.unit());
            let below = self.starts.below(place);
            let above = self.starts.from(place);
            done = [below, above]
                .into_iter()
                .flatten()
                .any(|start| latest.find(start).is_some_and(&mut consider));
        }
        let (_, number, past) = best?;
        self.past.referenced = number;
        Some((past.address, Some(past.len)))
    }

    /// How ill a request of the past suits what comes next in the range.
    pub(super) fn misfit(
        &self,
        (number, past): (u64, Past),
        next: Option<Kind>,
        latest: &Latest,
        touched: &Touched,
    ) -> usize {
        match next {
            Some(Kind::Follow) => {
                let follows = self.past.ring.get(number + 1);
                let fits =
                    follows.is_some_and(|past| latest.find(past.address) == Some(number + 1));
                6 * usize::from(!fits)
            }
            Some(kind) if kind.is_next() => {
                let end = past.address + u64::from(past.len);
                let ahead =
                    [0, 64 << 10, 256 << 10].map(|ahead| touched.last(end + ahead).is_none());
                let off = ahead.iter().filter(|is_new| **is_new != kind.is_new()).count();
                2 * off + 4 * usize::from(ahead[0] != kind.is_new())
            }
            _ => 0,
        }
    }

    /// New ground near a recent end for a request of `len` bytes.
    pub(super) fn near(
        &mut self,
        drawer: &mut CategoryDrawer,
        (wanted, len): (Spot, u32),
        dice: &mut Dice,
        touched: &Touched,
    ) -> u64 {
        let mut best: Option<(usize, u64)> = None;
        for slid in 0..2 * RETRIES {
            let (rank, distance, is_exact) = spot::beside(wanted, len, dice.unit());
            let head = self.past.heads.at(rank.min(self.past.heads.len() - 1)).0;
            // Where that is used, further on.
            let slid = (slid as i64 / 2) * i64::from(len) * distance.signum();
            let distance = distance.saturating_add(slid);
            let aimed = head.saturating_add_signed(distance);
            // The distance tells the alignment where it is exact.
            let alignment = drawer.alignments.draw(dice);
            let aligned = match is_exact && drawer.is_common(aimed) {
                true => aimed,
                false => align_near(aimed, distance.unsigned_abs(), alignment),
            };
            let address = match (self.first..self.end).contains(&aligned) {
                true => aligned,
                false => self.aligned(aimed.clamp(self.first, self.end - 1), alignment),
            };
            // Where a head is would be sequential.
            let last = address.saturating_add(u64::from(len.saturating_sub(1)));
            let off = usize::from(touched.last(address).is_some())
                + usize::from(touched.last(last).is_some())
                + usize::from(!drawer.is_common(address))
                + 2 * usize::from(self.past.heads.find(address).is_some());
            if best.is_none_or(|(least, _)| off < least) {
                best = Some((off, address));
            }
            if off == 0 {
                break;
            }
        }
        best.map_or(self.first, |(_, address)| address)
    }

    /// The place closest to an address that is aligned like that, if the range has one.
    fn aligned(&self, address: u64, alignment: usize) -> u64 {
        let below = align(address, alignment);
        if below >= self.first {
            return below;
        }
        let above = (1..8).map(|power| align(self.first + (2048 << power), alignment));
        above.into_iter().find(|above| (self.first..self.end).contains(above)).unwrap_or(self.first)
    }

    /// A place near the last end for a request of `len` bytes, on ground used before.
    pub(super) fn within(
        &self,
        (kind, wanted, len): (Kind, Spot, u32),
        drawer: &CategoryDrawer,
        dice: &mut Dice,
        touched: &Touched,
    ) -> u64 {
        let reference = self.past.reference(self.first);
        let mut address = self.first;
        for _ in 0..RETRIES {
            let (distance, is_exact) = spot::within(wanted, len, dice.unit());
            let aimed = match kind {
                Kind::AgainBehind => reference.saturating_sub(distance),
                _ => reference.saturating_add(distance),
            };
            let alignment = drawer.alignments.draw(dice);
            address = match is_exact && drawer.is_common(aimed) {
                true => aimed,
                false => align_near(aimed, distance, alignment),
            };
            address = address.clamp(self.first, self.end - 1);
            if touched.last(address).is_some() && self.past.heads.find(address).is_none() {
                break;
            }
        }
        address
    }

    /// A place within the `len` bytes at an address, but not at their beginning.
    pub(super) fn inside(
        &self,
        (address, len): (u64, u32),
        drawer: &CategoryDrawer,
        dice: &mut Dice,
    ) -> u64 {
        for _ in 0..RETRIES {
            let within = address + SECTOR + dice.below(u64::from(len).max(1));
            let aligned = align(within, drawer.alignments.draw(dice));
            if aligned > address {
                return aligned;
            }
        }
        address / 4096 * 4096 + 4096
    }

    /// The cell of heat that an address is in.
    fn cell_of(&self, address: u64, space: &Space) -> Option<usize> {
        let cell = (self.first..self.end).contains(&address).then(|| space.cell(address))?;
        let after = self.cells.partition_point(|&(first, _)| first <= cell);
        let (first, count) = self.cells[after.checked_sub(1)?];
        (cell < first + count).then_some(after - 1)
    }

    /// How soon a run that goes on would come to a place.
    fn in_the_way(&self, address: u64) -> usize {
        let ends = (0..self.past.heads.len()).map(|rank| self.past.heads.at(rank).0);
        let before = ends.filter_map(|end| address.checked_sub(end)).min().unwrap_or(u64::MAX);
        ROOM.iter().filter(|&&room| before < room).count()
    }

    /// New ground about as far away as wanted.
    pub(super) fn far(
        &mut self,
        (alignment, reach_wanted): (usize, usize),
        dice: &mut Dice,
        (touched, space): (&Touched, &Space),
    ) -> u64 {
        let reference = self.past.reference(self.first);
        let mut best: Option<(usize, u64, Option<usize>)> = None;
        for _ in 0..RETRIES {
            let aimed = reach(reference, reach_wanted, dice.unit());
            let cell = match self.cell_of(aimed, space) {
                Some(cell) if self.cell.take(cell) => Some(cell),
                _ => (!self.cell.is_empty()).then(|| self.cell.draw(dice)),
            };
            let (low, high) = match cell.and_then(|cell| self.cells.get(cell)) {
                Some(&(first, count)) => {
                    let low = u64::from(first) * space.cell_bytes();
                    (low, low + u64::from(count) * space.cell_bytes())
                }
                None => (self.first, self.end),
            };
            let (low, high) = (low.max(self.first), high.min(self.end).max(low + 1));
            let drawn = if (low..high).contains(&aimed) && touched.last(aimed).is_none() {
                aimed
            } else {
                low + dice.below(high - low)
            };
            let drawn = self.aligned(drawn, alignment);
            let off = reach_bin(reference, drawn).abs_diff(reach_wanted);
            let bad = 2 * off + ROOM.len() - room(drawn, touched) + self.in_the_way(drawn);
            let worse = match best {
                Some((least, _, _)) if least <= bad => Some(cell),
                _ => best.replace((bad, drawn, cell)).map(|(_, _, cell)| cell),
            };
            if let Some(cell) = worse.flatten() {
                self.cell.put(cell);
            }
            if bad == 0 {
                break;
            }
        }
        best.map_or(self.first, |(_, address, _)| address)
    }
}

/// Where places used again are that come about like this.
fn side(kind: Kind, reference: u64) -> std::ops::RangeInclusive<u64> {
    match kind {
        Kind::AgainAhead => reference..=reference.saturating_add(NEAR_BYTES),
        Kind::AgainBehind => reference.saturating_sub(NEAR_BYTES)..=reference.saturating_sub(1),
        _ => 0..=u64::MAX,
    }
}

/// How much more the rank weighs where it is known.
const KNOWN: usize = 64;

/// The cost of a run that is not where it has to be, and of one that would turn from reading to writing.
const STRAY: usize = 1 << 20;
const TURN: usize = 1 << 10;

/// How far ahead of a run is looked for ground to go on on.
const WEAR: u64 = 64 << 10;

/// The place nearest to an address that is aligned like that, as far as a distance lets it be.
fn align_near(address: u64, distance: u64, alignment: usize) -> u64 {
    // A power of two of pages above the distance would lead elsewhere.
    let power_max = (distance / 4096).max(1).ilog2() as usize;
    let bin = alignment.min(7 + power_max);
    let grain = 4096u64 << bin.saturating_sub(7);
    align(address.saturating_add(grain / 2), bin)
}

/// How ill the ground from `end` on suits a run of this kind and requests of about `len` bytes.
#[inline]
fn wears((end, len): (u64, u32), kind: Kind, touched: &Touched) -> usize {
    let suits = |ahead| touched.last(end.saturating_add(ahead)).is_none() == kind.is_new();
    let last = u64::from(len.saturating_sub(1));
    3 * usize::from(!suits(0)) + usize::from(!suits(last)) + usize::from(!suits(WEAR))
}

/// How far ahead of a new place is looked for ground not used before.
const ROOM: [u64; 6] = [0, 128 << 10, 1 << 20, 8 << 20, 32 << 20, 128 << 20];

/// How far the ground from `address` on was not used before.
fn room(address: u64, touched: &Touched) -> usize {
    ROOM.iter().take_while(|&&ahead| touched.last(address.saturating_add(ahead)).is_none()).count()
}

/// The ranges that are leaves.
pub(super) fn ranges(
    leaves: &[Range],
    part: &Part,
    space: &Space,
    grain_bytes: u32,
) -> Vec<RangeDrawer> {
    let mut list = Vec::new();
    for leaf in leaves {
        let width = (CELLS >> (2 * leaf.level())) as u32;
        let first = leaf.first_cell();
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
            past: RangePast::default(),
            starts: Starts::new(grain_bytes),
            cell: Bag::new(cells.iter().map(|cell| u64::from(cell.2)).collect()),
            cells: cells.iter().map(|cell| (cell.0, cell.1)).collect(),
        });
    }
    list
}
