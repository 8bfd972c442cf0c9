//! Minimizes a function of several variables without derivatives (Nelder and Mead 1965).

/// Returns the smallest value found in `steps` steps from `from`, and where it was found.
///
/// `value(at, limit)` is the value at a point. If that is `limit` or more, `value` may return any
/// number that is at least `limit`, because only the comparison matters: this saves work, and does
/// not change the result.
pub(super) fn minimize<const N: usize>(
    from: [f64; N],
    span: f64,
    steps: u32,
    value: impl Fn(&[f64; N], f64) -> f64,
) -> (f64, [f64; N]) {
    let any = f64::INFINITY;
    let corner = |axis: usize| {
        let mut at = from;
        at[axis] += span;
        (value(&at, any), at)
    };
    let mut corners = vec![(value(&from, any), from)];
    corners.extend((0..N).map(corner));
    for _ in 0..steps {
        corners.sort_by(|one, other| one.0.total_cmp(&other.0));
        let worst = corners[N];
        let middle: [f64; N] = std::array::from_fn(|axis| {
            corners[..N].iter().map(|(_, at)| at[axis]).sum::<f64>() / N as f64
        });
        let beyond = |times: f64, limit: f64| {
            let at =
                std::array::from_fn(|axis| middle[axis] + times * (worst.1[axis] - middle[axis]));
            (value(&at, limit), at)
        };
        let second_worst = corners[N - 1].0;
        let reflected = beyond(-1.0, second_worst);
        corners[N] = if reflected.0 < corners[0].0 {
            let expanded = beyond(-2.0, reflected.0);
            if expanded.0 < reflected.0 { expanded } else { reflected }
        } else if reflected.0 < second_worst {
            reflected
        } else {
            beyond(0.5, worst.0)
        };
        if corners[N].0 >= worst.0 {
            let best = corners[0].1;
            for (_, at) in &mut corners[1..] {
                *at = std::array::from_fn(|axis| best[axis] + 0.5 * (at[axis] - best[axis]));
            }
            corners[1..].iter_mut().for_each(|corner| corner.0 = value(&corner.1, any));
        }
    }
    corners.sort_by(|one, other| one.0.total_cmp(&other.0));
    corners[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_curved_valley_is_found() {
        let valley = |x: &[f64; 2]| (1.0 - x[0]).powi(2) + 100.0 * (x[1] - x[0] * x[0]).powi(2);
        let (cost, at) = minimize([-1.2, 1.0], 0.3, 300, |x, _| valley(x));
        assert!(cost < 1e-9 && (at[0] - 1.0).abs() < 1e-3, "{cost} at {at:?}");
        // Above the limit, the value of the function does not matter.
        let cut = |x: &[f64; 2], limit| if valley(x) < limit { valley(x) } else { f64::INFINITY };
        for steps in [3, 40, 300] {
            let exact = minimize([-1.2, 1.0], 0.3, steps, |x, _| valley(x));
            assert_eq!(minimize([-1.2, 1.0], 0.3, steps, cut), exact);
        }
        // Infinity marks an invalid region.
        let (_, at) =
            minimize([3.0], 0.5, 100, |x, _| if x[0] < 1.0 { f64::INFINITY } else { x[0] });
        assert!((at[0] - 1.0).abs() < 1e-3, "{at:?}");
    }
}
