//! New ground.

use super::super::super::bins::{reach, reach_bin};
use super::super::super::history::Touched;
use super::super::super::relative_place::{self, RelativePlace};
use super::super::super::space::Space;
use super::super::categories::CategoryDrawer;
use super::super::draw::Dice;
use super::{RETRIES, RangeDrawer, align_near};

/// How far ahead of a new place is looked for ground not used before.
const ROOM: [u64; 6] = [0, 128 << 10, 1 << 20, 8 << 20, 32 << 20, 128 << 20];

impl RangeDrawer {
    /// New ground near a recent end for a request of `len` bytes.
    pub(in super::super) fn near(
        &self,
        drawer: &CategoryDrawer,
        (wanted, len): (RelativePlace, u32),
        dice: &mut Dice,
        touched: &Touched,
    ) -> u64 {
        let mut best: Option<(usize, u64)> = None;
        for slid in 0..2 * RETRIES {
            let (rank, distance, is_exact) = relative_place::beside(wanted, len, dice.unit());
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
    pub(in super::super) fn far(
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

/// How far the ground from `address` on was not used before.
fn room(address: u64, touched: &Touched) -> usize {
    ROOM.iter().take_while(|&&ahead| touched.last(address.saturating_add(ahead)).is_none()).count()
}
