//! Phrases: what comes again and again in a sequence of numbers, told once.
//!
//! Pairs of neighbours that come often become numbers of their own, and pairs of those again, until none
//! comes often enough: byte pair encoding (P. Gage, 1994), many pairs in each pass.

use rustc_hash::FxHashMap;

/// Two numbers, each of the sequence or of a phrase before.
pub(super) type Phrase = [u32; 2];

/// A phrase that comes less often makes nothing shorter.
const TIMES_MIN: u32 = 4;

/// Shortens a sequence of numbers below `first` by at most `phrases_max` phrases, numbered from `first`
/// on.
pub(super) fn shorten(
    mut sequence: Vec<u32>,
    first: u32,
    phrases_max: usize,
) -> (Vec<u32>, Vec<Phrase>) {
    let mut phrases: Vec<Phrase> = Vec::new();
    let mut least = u32::MAX;
    loop {
        let counts = counts(&sequence);
        least = least.min(counts.values().copied().max().unwrap_or(0));
        let mut often: Vec<(u32, Phrase)> = counts
            .into_iter()
            .filter(|&(_, count)| count >= least.max(TIMES_MIN))
            .map(|(pair, count)| (count, pair))
            .collect();
        often.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        often.truncate(phrases_max - phrases.len());
        // Pairs overlap: what each is worth shows when all are replaced.
        let uses = uses(&sequence, &often.iter().map(|&(_, pair)| (pair, pair)).collect());
        let from = first + phrases.len() as u32;
        let kept: Vec<Phrase> = often
            .into_iter()
            .map(|(_, pair)| pair)
            .filter(|pair| uses.get(pair).is_some_and(|&times| times >= TIMES_MIN))
            .collect();
        if !kept.is_empty() {
            sequence = replaced(&sequence, &kept.iter().copied().zip(from..).collect());
            phrases.extend(kept);
        } else if least <= TIMES_MIN || phrases.len() == phrases_max {
            return (sequence, phrases);
        }
        least = (least / 2).max(TIMES_MIN);
    }
}

fn counts(sequence: &[u32]) -> FxHashMap<Phrase, u32> {
    let mut counts = FxHashMap::default();
    for pair in sequence.windows(2) {
        *counts.entry([pair[0], pair[1]]).or_default() += 1;
    }
    counts
}

/// Goes through a sequence from left to right, and answers every number or pair that is named.
fn each<T: Copy>(
    sequence: &[u32],
    named: &FxHashMap<Phrase, T>,
    mut told: impl FnMut(Result<T, u32>),
) {
    let mut at = 0;
    while at < sequence.len() {
        let pair = sequence.get(at..at + 2).and_then(|pair| named.get(pair));
        told(pair.copied().ok_or(sequence[at]));
        at += 1 + usize::from(pair.is_some());
    }
}

fn uses(sequence: &[u32], pairs: &FxHashMap<Phrase, Phrase>) -> FxHashMap<Phrase, u32> {
    let mut uses = FxHashMap::default();
    each(sequence, pairs, |found| {
        if let Ok(pair) = found {
            *uses.entry(pair).or_default() += 1;
        }
    });
    uses
}

fn replaced(sequence: &[u32], phrases: &FxHashMap<Phrase, u32>) -> Vec<u32> {
    let mut shorter = Vec::with_capacity(sequence.len());
    each(sequence, phrases, |found| shorter.push(found.unwrap_or_else(|number| number)));
    shorter
}

/// The sequence with its phrases written out; none where a number means nothing, or of more than `len_max`
/// numbers.
pub(super) fn expand(
    sequence: &[u32],
    phrases: &[Phrase],
    first: u32,
    len_max: usize,
) -> Option<Vec<u32>> {
    let mut lens: Vec<u64> = Vec::with_capacity(phrases.len());
    for phrase in phrases {
        let len = len_of(phrase, &lens, first)?;
        lens.push(len);
    }
    if len_of(sequence, &lens, first)? > len_max as u64 {
        return None;
    }
    let mut expanded = Vec::new();
    let mut open: Vec<u32> = Vec::new();
    for &number in sequence {
        open.push(number);
        while let Some(number) = open.pop() {
            match number.checked_sub(first) {
                None => expanded.push(number),
                Some(phrase) => {
                    let [begin, end] = phrases[phrase as usize];
                    open.extend([end, begin]);
                }
            }
        }
    }
    Some(expanded)
}

/// How long numbers are when phrases of these lengths are written out; none if one is no phrase yet.
fn len_of(numbers: &[u32], lens: &[u64], first: u32) -> Option<u64> {
    numbers.iter().try_fold(0u64, |sum, number| {
        let len = match number.checked_sub(first) {
            None => 1,
            Some(phrase) => *lens.get(phrase as usize)?,
        };
        Some(sum.saturating_add(len))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_told_once() {
        let song = [1, 2, 3, 1, 2, 3, 4];
        let sequence: Vec<u32> = song.iter().copied().cycle().take(700).collect();
        let (shorter, phrases) = shorten(sequence.clone(), 5, 100);
        assert!(shorter.len() + 2 * phrases.len() < 60, "{} {}", shorter.len(), phrases.len());
        assert!(expand(&shorter, &phrases, 5, 700) == Some(sequence.clone()));
        assert_eq!(expand(&shorter, &phrases, 5, 699), None);
        let (_, few) = shorten(sequence, 5, 2);
        assert_eq!(few.len(), 2);
    }

    #[test]
    fn any_sequence_comes_back() {
        let mut state = 1u32;
        for (len, kinds) in [(0, 1), (1, 1), (5, 1), (1000, 1), (3000, 2), (5000, 9), (999, 400)] {
            let sequence: Vec<u32> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 16) % kinds
                })
                .collect();
            let (shorter, phrases) = shorten(sequence.clone(), kinds, 50);
            assert!(shorter.len() + 2 * phrases.len() <= sequence.len());
            assert!(expand(&shorter, &phrases, kinds, len) == Some(sequence));
        }
    }

    #[test]
    fn phrases_that_mean_nothing_are_refused() {
        assert_eq!(expand(&[3], &[[0, 3]], 3, 9), None);
        assert_eq!(expand(&[4], &[[0, 1]], 3, 9), None);
        // Each twice as long as the one before.
        let bomb: Vec<Phrase> = (0..80).map(|n| [n, n]).collect();
        assert_eq!(expand(&[80], &bomb, 1, 1 << 20), None);
    }
}
