//! Computes medians, which are robust against a few outliers.

use super::Figure;

/// Returns the median of `values` and its standard error, estimated from the median absolute
/// deviation as for a normal distribution. Returns `None` if `values` is empty.
pub(super) fn median(values: &[f64]) -> Option<Figure> {
    let value = middle(values.to_vec())?;
    let spread = middle(values.iter().map(|one| (one - value).abs()).collect())? * 1.4826;
    Some(Figure { value, error: 1.2533 * spread / (values.len() as f64).sqrt() })
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let upper = *values.get(count / 2)?;
    Some(if count.is_multiple_of(2) { (values[count / 2 - 1] + upper) / 2.0 } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_values_do_not_move_it() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 1e9]).unwrap().value, 3.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 1e9]).unwrap().value, 3.0);
        assert_eq!(median(&[2.0, 2.0, 2.0]).unwrap().error, 0.0);
    }
}
