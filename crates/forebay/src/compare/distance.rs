//! Computes distances between two distributions, each given as values with their counts.

/// The distances between two distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Apart {
    /// The Kolmogorov-Smirnov distance: the largest difference of the cumulative distributions.
    pub(super) ks: f64,
    /// The Wasserstein-1 distance: how far values have to be moved, on average, to turn one
    /// distribution into the other. Equals the area between the two cumulative distributions, and
    /// has the values' unit.
    pub(super) wasserstein: f64,
}

/// Returns the distances between `a` and `b`, whose values are sorted; `None` if either is empty.
pub(super) fn apart(a: &[(f64, u64)], b: &[(f64, u64)]) -> Option<Apart> {
    let total = |values: &[(f64, u64)]| values.iter().map(|value| value.1).sum::<u64>();
    let (all_a, all_b) = (total(a), total(b));
    if all_a == 0 || all_b == 0 {
        return None;
    }
    let (mut apart, mut below_a, mut below_b) = (Apart::default(), 0u64, 0u64);
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut last: Option<(f64, f64)> = None;
    loop {
        let value = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => x.0.min(y.0),
            (Some(only), None) | (None, Some(only)) => only.0,
            (None, None) => return Some(apart),
        };
        if let Some((before, difference)) = last {
            apart.wasserstein += (value - before) * difference;
        }
        below_a += a.next_if(|entry| entry.0 <= value).map_or(0, |entry| entry.1);
        below_b += b.next_if(|entry| entry.0 <= value).map_or(0, |entry| entry.1);
        let difference = (below_a as f64 / all_a as f64 - below_b as f64 / all_b as f64).abs();
        apart.ks = apart.ks.max(difference);
        last = Some((value, difference));
    }
}

/// Returns the total variation between two distributions over the same cells: the share of the
/// counts that lies in different cells.
pub(super) fn total_variation(a: &[u64], b: &[u64]) -> f64 {
    let total = |counts: &[u64]| counts.iter().sum::<u64>().max(1) as f64;
    let (all_a, all_b) = (total(a), total(b));
    let shares = a.iter().zip(b).map(|(&a, &b)| (a as f64 / all_a - b as f64 / all_b).abs());
    shares.sum::<f64>() / 2.0
}

/// Returns the total variation to expect of two samples of one distribution, if requests are
/// independent: the sum of the mean absolute differences of all shares, halved.
pub(super) fn total_variation_by_counting(a: &[u64], b: &[u64]) -> f64 {
    let total = |counts: &[u64]| counts.iter().sum::<u64>().max(1) as f64;
    let (all_a, all_b) = (total(a), total(b));
    let mean_difference = |(&a, &b): (&u64, &u64)| {
        let share = (a + b) as f64 / (all_a + all_b);
        let variance = share * (1.0 - share) * (1.0 / all_a + 1.0 / all_b);
        (variance * std::f64::consts::FRAC_2_PI).sqrt()
    };
    a.iter().zip(b).map(mean_difference).sum::<f64>() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counted(values: &[u32]) -> Vec<(f64, u64)> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        sorted.chunk_by(|a, b| a == b).map(|same| (f64::from(same[0]), same.len() as u64)).collect()
    }

    #[test]
    fn worked_by_hand() {
        // From 1 on, the cumulative shares are 1/2 and 0; from 2 on, 1 and 1/2; from 4 on, both are
        // 1.
        let found = apart(&counted(&[1, 2]), &counted(&[2, 4])).unwrap();
        assert_eq!(found, Apart { ks: 0.5, wasserstein: 1.5 });
        let same = apart(&counted(&[3, 5, 5]), &counted(&[3, 5, 5, 3, 5, 5])).unwrap();
        assert_eq!(same, Apart::default());
        assert_eq!(apart(&[(0.0, 3)], &[(7.0, 1)]).unwrap(), Apart { ks: 1.0, wasserstein: 7.0 });
        assert_eq!(apart(&[], &[(7.0, 1)]), None);
        assert_eq!(total_variation(&[3, 1, 0], &[1, 1, 2]), 0.5);
        assert_eq!(total_variation(&[2, 0], &[0, 7]), 1.0);
    }

    proptest! {
        #[test]
        fn both_agree_with_their_definitions(
            a in prop::collection::vec(0u32..60, 1..40),
            b in prop::collection::vec(0u32..60, 1..40),
        ) {
            let below = |values: &[u32], x: u32| {
                values.iter().filter(|value| **value <= x).count() as f64 / values.len() as f64
            };
            let differences: Vec<f64> = (0..60).map(|x| (below(&a, x) - below(&b, x)).abs()).collect();
            let found = apart(&counted(&a), &counted(&b)).unwrap();
            let ks = differences.iter().copied().fold(0.0, f64::max);
            prop_assert!((found.ks - ks).abs() < 1e-12);
            // The reference repeats the values of each side until both have equally many, then
            // pairs them in sorted order.
            let repeat = |values: &[u32], times: usize| {
                let mut all: Vec<u32> = values.iter().flat_map(|&v| std::iter::repeat_n(v, times)).collect();
                all.sort_unstable();
                all
            };
            let (long_a, long_b) = (repeat(&a, b.len()), repeat(&b, a.len()));
            let moved: u32 = long_a.iter().zip(&long_b).map(|(x, y)| x.abs_diff(*y)).sum();
            let wasserstein = f64::from(moved) / long_a.len() as f64;
            prop_assert!((found.wasserstein - wasserstein).abs() < 1e-9);
        }
    }
}
