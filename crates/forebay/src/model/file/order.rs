//! In which order states come, as a model's file keeps it.

use serde::{Deserialize, Serialize};

use super::super::base91::{PAIRS, pairs, push_pair};
use super::phrases::{Phrase, expand, shorten};

/// States, or places of states, and how often each.
pub type Mix = Vec<(u32, u32)>;

/// Numbers for how often the one before comes besides: powers of two.
const POWERS: usize = 32;
/// Numbers that a written out order may have.
pub const WRITTEN_MAX: usize = 1 << 20;

/// In which order states come, stretch by stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Requests of a stretch but the last; one of a single state may be several times as long.
    pub each: u64,
    /// Whether it numbers the places of all states, one state after the other, instead of the states.
    pub of_places: bool,
    /// Two letters for each number: a state (or place) of the stretch, in no order; then 32 that say that
    /// the one before comes 1, 2, 4 ... times besides; then phrases.
    pub states: String,
    /// What comes again and again: two numbers each.
    pub phrases: String,
}

impl Order {
    /// Of stretches of `each` requests, of so many `states`, or places of states.
    pub fn new(each: u64, of_places: bool, stretches: &[Mix], states: usize) -> Order {
        let numbers = written(stretches, states);
        let first = states + POWERS;
        let (shorter, phrases) = shorten(numbers, first as u32, PAIRS.saturating_sub(first));
        let text = |numbers: &mut dyn Iterator<Item = u32>| {
            let mut text = String::new();
            numbers.for_each(|number| push_pair(&mut text, number as usize));
            text
        };
        Order {
            each,
            of_places,
            states: text(&mut shorter.into_iter()),
            phrases: text(&mut phrases.into_iter().flatten()),
        }
    }

    /// Numbers that it takes.
    pub fn numbers(&self) -> usize {
        (self.states.len() + self.phrases.len()) / 2
    }

    /// The stretches; none of letters that are none, or where a state is missing.
    pub fn stretches(&self, states: usize) -> Option<Vec<Mix>> {
        let numbers = |text: &str| -> Option<Vec<u32>> {
            Some(pairs(text)?.into_iter().map(|number| number as u32).collect())
        };
        let phrases = numbers(&self.phrases)?;
        let (phrases, rest): (&[Phrase], _) = phrases.as_chunks();
        let first = (states + POWERS) as u32;
        let numbers = expand(&numbers(&self.states)?, phrases, first, WRITTEN_MAX)?;
        if !rest.is_empty() {
            return None;
        }
        let mut all: Mix = Vec::new();
        for number in numbers {
            match number.checked_sub(states as u32) {
                None => all.push((number, 1)),
                Some(power) => {
                    let last = all.last_mut()?;
                    last.1 = last.1.checked_add(1 << power)?;
                }
            }
        }
        let mut stretches = Vec::new();
        let (mut mix, mut sum) = (Mix::new(), 0);
        for (state, count) in all {
            mix.push((state, count));
            sum += u64::from(count);
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

/// How many numbers say it all without phrases.
pub fn written_len(stretches: &[Mix]) -> usize {
    stretches.iter().flatten().map(|&(_, count)| 1 + (count - 1).count_ones() as usize).sum()
}

fn written(stretches: &[Mix], states: usize) -> Vec<u32> {
    let mut numbers = Vec::new();
    for &(state, count) in stretches.iter().flatten() {
        numbers.push(state);
        let more = count.saturating_sub(1);
        let powers = (0..POWERS as u32).filter(|power| more >> power & 1 == 1);
        numbers.extend(powers.map(|power| states as u32 + power));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back() {
        let stretches = [
            vec![(0, 1), (2, 3)],
            vec![(1, 40_000)],
            vec![(2, 2), (1, 1), (0, 1)],
            vec![(0, u32::MAX)],
            vec![(0, 1)],
        ];
        let order = Order::new(4, false, &stretches, 3);
        assert_eq!(order.stretches(3), Some(stretches.to_vec()));
        assert_eq!(order.numbers(), written_len(&stretches));
        let broken = |states: &str| Order { states: states.into(), ..order.clone() }.stretches(3);
        assert_eq!((broken("#"), broken("#&##"), broken("\"\"")), (None, None, None));
        assert_eq!(broken(""), Some(Vec::new()));
    }

    #[test]
    fn an_order_with_phrases_comes_back() {
        let stretches: Vec<Mix> =
            (0..3000).map(|n| vec![(n % 7, 1 + n % 7 % 2), (n % 7 + 1, 2 - n % 7 % 2)]).collect();
        let order = Order::new(3, true, &stretches, 8);
        assert!(order.numbers() < 200, "{}", order.numbers());
        assert!(order.stretches(8) == Some(stretches));
        assert_eq!(Order { phrases: "###".into(), ..order }.stretches(8), None);
    }
}
