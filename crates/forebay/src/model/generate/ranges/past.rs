//! Places used before.

use super::super::super::bins::{age_bounds, align};
use super::super::super::history::{Latest, Past, Touched};
use super::super::super::relative_place::{self, RelativePlace};
use super::super::super::space::SECTOR;
use super::super::super::state::{FOLLOWS_MAX, Kind, NEAR_BYTES};
use super::super::categories::{CategoryDrawer, OUT_OF_PHASE};
use super::super::draw::Dice;
use super::{RETRIES, RangeDrawer, align_near};

/// Requests of the past among which the one at the right distance is chosen.
const AIMS: u64 = 32;
/// Times one is looked for at the right distance.
const SIGHTS: usize = 10;

impl RangeDrawer {
    /// The request of the past that came so many after the one used last, or soon after, if it was not
    /// repeated since: the one that is most as old and as far away as wanted.
    pub(in super::super) fn follow(
        &mut self,
        on: u64,
        wanted: RelativePlace,
        misfit: impl Fn(Past) -> usize,
        latest: &Latest,
    ) -> Option<Past> {
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
            let found =
                relative_place::again(Kind::Follow, ago, reference, (past.address, past.len));
            let off =
                relative_place::off(Kind::Follow, found, wanted) + 4 * usize::from(distance != on);
            Some((off, number, past))
        };
        let (_, number, past) =
            (1..=FOLLOWS_MAX).filter_map(candidate).min_by_key(|found| found.0)?;
        self.past.referenced = number;
        Some(past)
    }

    /// How long the last request was that began there.
    pub(in super::super) fn began(
        &self,
        address: u64,
        (latest, touched): (&Latest, &Touched),
    ) -> Option<u32> {
        // Most often nothing did, and what was just looked up tells.
        touched.last(address)?;
        let past = self.past.ring.get(latest.find(address)?)?;
        (past.address == address).then_some(past.len)
    }

    /// Of the requests of the past, one that is about as old and about as far away as wanted, and as
    /// large. Some are looked at for their age, some for their place.
    pub(in super::super) fn again(
        &mut self,
        (kind, wanted, next): (Kind, RelativePlace, Option<Kind>),
        misfit: impl Fn(Past) -> usize,
        dice: &mut Dice,
        (latest, touched): (&Latest, &Touched),
    ) -> Option<Past> {
        let reference = self.past.reference(self.first);
        let newest = self.past.ring.count().checked_sub(1)?;
        let side = side(kind, reference);
        let mut best: Option<(usize, u64, Past)> = None;
        let mut consider = |number: u64| {
            let Some(past) = self.past.ring.get(number) else { return false };
            let number = latest.find(past.address).unwrap_or(number).max(number);
            let ago = (newest + 1).saturating_sub(number);
            let found = relative_place::again(kind, ago, reference, (past.address, past.len));
            let strays = !side.contains(&past.address);
            let off = relative_place::off(kind, found, wanted)
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
        let (low, count) = age_bounds(relative_place::age(wanted));
        let count = count.min((newest + 2).saturating_sub(low));
        let (tries, first) = (count.min(AIMS), dice.below(count.max(1)));
        // Evenly over the ages.
        let mut done =
            (0..tries).any(|n| consider(newest + 1 - low - (first + n * count / tries) % count));
        for _ in 0..SIGHTS {
            if done {
                break;
            }
            let place = relative_place::aim(kind, reference, wanted, dice.unit());
            let below = self.starts.below(place);
            let above = self.starts.from(place);
            done = [below, above]
                .into_iter()
                .flatten()
                .any(|start| latest.find(start).is_some_and(&mut consider));
        }
        let (_, number, past) = best?;
        self.past.referenced = number;
        Some(past)
    }

    /// How ill a request of the past suits what comes next in the range.
    pub(in super::super) fn misfit(
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

    /// A place near the last end for a request of `len` bytes, on ground used before.
    pub(in super::super) fn within(
        &self,
        (kind, wanted, len): (Kind, RelativePlace, u32),
        drawer: &CategoryDrawer,
        dice: &mut Dice,
        touched: &Touched,
    ) -> u64 {
        let reference = self.past.reference(self.first);
        let mut address = self.first;
        for _ in 0..RETRIES {
            let (distance, is_exact) = relative_place::within(wanted, len, dice.unit());
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

    /// A place within a request of the past, but not at its beginning.
    pub(in super::super) fn inside(
        &self,
        Past { address, len }: Past,
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
}

/// Where places used again are that come about like this.
fn side(kind: Kind, reference: u64) -> std::ops::RangeInclusive<u64> {
    match kind {
        Kind::AgainAhead => reference..=reference.saturating_add(NEAR_BYTES),
        Kind::AgainBehind => reference.saturating_sub(NEAR_BYTES)..=reference.saturating_sub(1),
        _ => 0..=u64::MAX,
    }
}
