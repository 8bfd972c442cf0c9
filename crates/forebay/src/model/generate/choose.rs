//! Which state the next request is in: by what can follow the last one, and what is left of its budgets.

use super::super::state::GAP_CLASSES;
use super::part::PartGenerator;
use super::states::Candidate;

/// How much a state counts that would go on in another range.
const STRAY_WEIGHT: f32 = 1e-3;

impl PartGenerator {
    #[inline]
    pub(super) fn choose_state(&mut self, gap: usize, next: usize) {
        if self.period_left == 0 {
            self.begin_period();
        }
        self.period_left -= 1;
        if self.mix_left == 0 {
            self.begin_mix();
        }
        self.mix_left -= 1;
        let node = self.follow(gap, next).or_else(|| self.follow(GAP_CLASSES, next));
        let mut node = match node {
            Some(node) => node,
            None => self.any_state(),
        };
        while self.state_of[node as usize] == u32::MAX {
            node = self.descend(node);
        }
        self.state = self.state_of[node as usize] as usize;
        for &node in &self.states[self.state].nodes {
            self.budget[node as usize] -= 1.0;
        }
        let flavour = self.states[self.state].category.flavour();
        let left = &mut self.flavours[usize::from(flavour)].0;
        *left = (*left - 1.0).max(0.0);
    }

    fn begin_mix(&mut self) {
        self.flavours.iter_mut().for_each(|flavour| flavour.0 = 0.0);
        for &(flavour, count) in &self.epoch_mixes[self.mix_epoch] {
            self.flavours[usize::from(flavour)].0 = count as f32;
            self.mix_left += u64::from(count);
        }
        self.mix_left = self.mix_left.max(1);
        self.mix_epoch = (self.mix_epoch + 1) % self.epoch_mixes.len();
    }

    /// How much a flavour's share of what is left of the epoch exceeds its share of all.
    #[inline]
    fn favour(&self, flavour: u8) -> f32 {
        let (left, share) = self.flavours[usize::from(flavour)];
        left * share
    }

    fn begin_period(&mut self) {
        self.budget.fill(0.0);
        for &(state, count) in &self.periods[self.period] {
            for &node in &self.states[state as usize].nodes {
                self.budget[node as usize] += count as f32;
            }
            self.period_left += u64::from(count);
        }
        self.period = (self.period + 1) % self.periods.len();
    }

    /// A node that follows the current state after a gap of that class.
    #[inline]
    fn follow(&mut self, gap: usize, next: usize) -> Option<u32> {
        let uniform = self.dice.unit() as f32;
        let candidates = &self.states[self.state].next[gap];
        let weigh = |&(node, weight): &Candidate| {
            weight
                * self.budget[node as usize]
                * self.before_gap[node as usize][next]
                * self.favour(self.flavour_of[node as usize])
        };
        let sum: f32 = candidates.iter().map(weigh).sum();
        if sum <= 0.0 {
            return None;
        }
        let mut drawn = uniform * sum;
        let mut last = None;
        for candidate in candidates {
            let weight = weigh(candidate);
            if weight > 0.0 {
                last = Some(candidate.0);
                drawn -= weight;
                if drawn < 0.0 {
                    break;
                }
            }
        }
        last
    }

    /// A node below one, by their budgets.
    fn descend(&mut self, node: u32) -> u32 {
        let children = &self.children[node as usize];
        let sum: f32 = children.iter().map(|&child| self.budget[child as usize]).sum();
        let mut drawn = self.dice.unit() as f32 * sum;
        let mut last = children[0];
        for &child in children {
            let budget = self.budget[child as usize];
            if budget > 0.0 {
                last = child;
                drawn -= budget;
                if drawn < 0.0 {
                    break;
                }
            }
        }
        last
    }

    /// A node of any state of the period, by what is left of them.
    fn any_state(&mut self) -> u32 {
        let period = (self.period + self.periods.len() - 1) % self.periods.len();
        let uniform = self.dice.unit() as f32;
        let mix = &self.periods[period];
        let range = self.states[self.state].range;
        let weigh = |state: u32| {
            let state = &self.states[state as usize];
            // What goes on elsewhere than here would not go on.
            let strays = state.category.kind().is_next() && state.range != range;
            let favour = self.favour(state.category.flavour()) + STRAY_WEIGHT;
            let budget = self.budget[state.nodes[0] as usize] * favour;
            if strays { budget * STRAY_WEIGHT } else { budget }
        };
        let sum: f32 = mix.iter().map(|&(state, _)| weigh(state)).sum();
        let mut drawn = uniform * sum;
        let mut last = mix[0].0;
        for &(state, _) in mix {
            let weight = weigh(state);
            if weight > 0.0 {
                last = state;
                drawn -= weight;
                if drawn < 0.0 {
                    break;
                }
            }
        }
        self.states[last as usize].nodes[0]
    }
}
