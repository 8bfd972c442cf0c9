//! In which order states come, as text.

use serde::{Deserialize, Serialize};

use super::super::letters::{PAIRS, pairs, push_pair};

/// In which order states come, stretch by stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Requests of a stretch but the last; one of a single state may be several times as long.
    pub each: u64,
    /// Two letters for each number: a state of the stretch, in no order, or from the number of states on
    /// how often the one before comes besides, less one.
    pub states: String,
}

/// States and how often each.
pub type Mix = Vec<(u32, u32)>;

impl Order {
    /// Of stretches of `each` requests, of a part with so many states.
    pub fn new(each: u64, stretches: &[Mix], states: usize) -> Order {
        let most = (PAIRS - states.min(PAIRS - 1)) as u32;
        let mut text = String::new();
        for &(state, count) in stretches.iter().flatten() {
            push_pair(&mut text, state as usize);
            let mut more = count.saturating_sub(1);
            while more > 0 {
                let told = more.min(most);
                push_pair(&mut text, states + told as usize - 1);
                more -= told;
            }
        }
        Order { each, states: text }
    }

    /// The stretches; none of letters that are none, or where a state is missing.
    pub fn stretches(&self, states: usize) -> Option<Vec<Mix>> {
        let mut all: Vec<(u32, u64)> = Vec::new();
        for number in pairs(&self.states)? {
            match number.checked_sub(states) {
                None => all.push((number as u32, 1)),
                Some(more) => all.last_mut()?.1 += more as u64 + 1,
            }
        }
        let mut stretches = Vec::new();
        let (mut mix, mut sum) = (Mix::new(), 0);
        for (state, count) in all {
            mix.push((state, u32::try_from(count).ok()?));
            sum += count;
            if sum >= self.each {
                stretches.push(std::mem::take(&mut mix));
                sum = 0;
            }
        }
        if !mix.is_empty() {
            stretches.push(mix);
        }
        Some(stretches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back() {
        let stretches =
            [vec![(0, 1), (2, 3)], vec![(1, 40_000)], vec![(2, 2), (1, 1), (0, 1)], vec![(0, 1)]];
        let order = Order::new(4, &stretches, 3);
        assert_eq!(order.stretches(3), Some(stretches.to_vec()));
        let broken = |states: &str| Order { each: 4, states: states.into() }.stretches(3);
        assert_eq!((broken("#"), broken("#&##"), broken("\"\"")), (None, None, None));
        assert_eq!(broken(""), Some(Vec::new()));
    }
}
