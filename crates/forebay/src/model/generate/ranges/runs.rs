//! Runs that go on: which, and where.

use super::super::super::history::Touched;
use super::super::super::space::Space;
use super::super::super::state::{Kind, SizeClasses};
use super::super::categories::{CategoryDrawer, OUT_OF_PHASE};
use super::RangeDrawer;

/// Steps, each twice as long, that a run takes to find new ground.
const STEPS: u32 = 16;
/// How much more the rank weighs where it is known.
const KNOWN: usize = 64;

/// The cost of a run that is not where it has to be, and of one that would turn from reading to writing.
const STRAY: usize = 1 << 20;
const TURN: usize = 1 << 10;

/// How far ahead of a run is looked for ground to go on on.
const WEAR: u64 = 64 << 10;

impl RangeDrawer {
    /// The rank closest to the drawn one that suits a request of this kind and class, and whether it is
    /// not where it has to be.
    pub(in super::super) fn rank(
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

    /// Where a run that ended at `end` finds new ground: there, or beyond what was used since, in steps of
    /// `len` bytes that double.
    pub(in super::super) fn fresh(&self, (end, len): (u64, u32), touched: &Touched) -> u64 {
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
}

/// How ill the ground from `end` on suits a run of this kind and requests of about `len` bytes.
#[inline]
fn wears((end, len): (u64, u32), kind: Kind, touched: &Touched) -> usize {
    let suits = |ahead| touched.last(end.saturating_add(ahead)).is_none() == kind.is_new();
    let last = u64::from(len.saturating_sub(1));
    3 * usize::from(!suits(0)) + usize::from(!suits(last)) + usize::from(!suits(WEAR))
}
