//! The figures that determine the verdict, each with its bound. The page colors these figures by
//! whether they are within their bounds.
//!
//! The bound on features is the largest deviation in the paper (**model**, section V.C). All other
//! bounds are Forebay's own. If a second recording like the first trace can differ from it by more
//! than such a bound ([`super::resamples`]), the bound is widened to that difference.

use forebay_words::quantities::{percent, significant};

use super::{
    Card, DeviationKind, Dispersion, Distance, Feature, Heat, LatencyFigure, Quantity, Response,
};
use crate::quantities;
use crate::words::words;

/// The bound on features, as a relative deviation or in percentage points.
const FEATURE_MAX: f64 = 0.05;
/// The bound on the relative deviation of mean response times, 99th percentiles, recorded latencies
/// and the index of dispersion.
pub(super) const RELATIVE_MAX: f64 = 0.1;
/// The bound on the mean error of the miss ratios.
const MRC_MAX: f64 = 0.03;
/// The same bound for a first trace that changes so much over time that its own resamples deviate
/// from it as much.
const CHANGING_MRC_MAX: f64 = 0.1;
/// The bound on Kolmogorov-Smirnov distances and on total variation.
const SHARE_MAX: f64 = 0.05;
/// The bound on these distances for a first trace that changes so much over time that its own
/// resamples are as far from it.
const CHANGING_SHARE_MAX: f64 = 0.15;
/// The multiple of the total variation expected of independent requests up to which the bound may
/// exceed [`CHANGING_SHARE_MAX`], because a trace of few requests has few in each range.
const COUNTING_TIMES: f64 = 1.25;

/// The relative bound at or above which a figure is not tested.
const DOUBLED: f64 = 1.0;

/// The number of standard deviations within which 95 % of a normal distribution lies.
const TWO_SIDED: f64 = 1.96;

/// The ratio at or above which a deviation is reported as a multiple of the first figure.
const TIMES_MIN: f64 = 9.0;

impl DeviationKind {
    /// Formats a deviation with its sign and unit, as in "+5.67 points", "-12.6 %" or "12.0 times".
    pub fn shown(self, deviation: f64) -> String {
        let sign = if deviation > 0.0 { "+" } else { "" };
        match (self, percent(deviation)) {
            _ if !deviation.is_finite() => "from nothing".to_string(),
            (DeviationKind::Relative, _) if deviation >= TIMES_MIN => {
                format!("{} times", significant(deviation + 1.0))
            }
            (_, nothing) if nothing.starts_with('0') && !nothing.contains('.') => {
                self.in_unit(&nothing)
            }
            (_, shown) => format!("{sign}{}", self.in_unit(&shown)),
        }
    }

    /// Returns the unit of deviations of this kind, for the head of a table's column.
    pub(super) fn unit(self) -> &'static str {
        match self {
            DeviationKind::Relative => "%",
            DeviationKind::Points => "points",
        }
    }

    /// Formats a deviation with its sign but without its unit, for a table's cell.
    pub(super) fn number(self, deviation: f64) -> String {
        match percent(deviation).trim_end_matches(" %") {
            number if deviation > 0.0 && number != "0" => format!("+{number}"),
            number => number.to_string(),
        }
    }

    fn in_unit(self, percentage: &str) -> String {
        match self {
            DeviationKind::Relative => percentage.to_string(),
            DeviationKind::Points => percentage.replace('%', "points"),
        }
    }
}

/// A figure that the verdict depends on, with its bound.
#[derive(Clone, Debug)]
pub struct BoundCheck {
    pub(super) what: String,
    pub(super) found: f64,
    pub(super) allowed: f64,
    /// The kind of deviation; `None` for distances, which are plain numbers.
    kind: Option<DeviationKind>,
}

impl BoundCheck {
    /// Returns whether the figure was tested: not if it is within a bound that would also allow
    /// twice the first trace's figure.
    pub(super) fn is_tested(&self) -> bool {
        let is_wide = self.kind == Some(DeviationKind::Relative) && self.allowed >= DOUBLED;
        !(is_wide && self.holds())
    }

    /// Returns whether the figure is within its bound.
    pub fn holds(&self) -> bool {
        self.found.abs() <= self.allowed
    }

    /// Formats the bound in the figure's unit.
    pub fn bound(&self) -> String {
        match self.kind {
            Some(kind) => kind.in_unit(&quantities::percent(self.allowed)),
            None => quantities::significant(self.allowed),
        }
    }

    /// Returns whether the deviation is in percentage points.
    pub(super) fn is_points(&self) -> bool {
        self.kind == Some(DeviationKind::Points)
    }

    /// Returns the deviation and its bound.
    pub(super) fn figures(&self) -> [f64; 2] {
        [self.found, self.allowed]
    }

    /// Formats the deviation of the figure from its counterpart, with its unit.
    pub(super) fn shown(&self) -> String {
        self.kind.map_or_else(|| significant(self.found), |kind| kind.shown(self.found))
    }

    /// Returns the deviation divided by its bound; above 1, the bound is exceeded.
    pub(super) fn severity(&self) -> f64 {
        if self.found == 0.0 { 0.0 } else { self.found.abs() / self.allowed }
    }

    /// Checks a recorded latency. It is within bounds if it deviates by at most 10 %, or if the
    /// interval of its deviation includes 0.
    pub(super) fn latency(what: &str, figure: LatencyFigure) -> BoundCheck {
        let found = figure.deviation.unwrap_or(f64::INFINITY);
        let end = if found > 0.0 { figure.deviation_low } else { figure.deviation_high };
        let by_chance = end.map_or(0.0, |end| (found - end).abs());
        let allowed =
            if by_chance.is_finite() { by_chance.max(RELATIVE_MAX) } else { RELATIVE_MAX };
        BoundCheck { what: what.to_string(), found, allowed, kind: Some(DeviationKind::Relative) }
    }

    /// Checks a distance against its bound, or against `itself`, the distance to expect of a second
    /// recording, if that is larger, but at most against `most`.
    fn distance(what: &str, found: f64, itself: f64, most: f64) -> BoundCheck {
        let allowed = itself.clamp(SHARE_MAX, most);
        BoundCheck { what: what.to_string(), found, allowed, kind: None }
    }
}

/// Checks the deviation of a figure against `bound`, or against its sampling interval if that is
/// wider and `widened` is set.
fn within(what: String, quantity: &Quantity, bound: f64, widened: bool) -> BoundCheck {
    let found = quantity.deviation.unwrap_or(f64::INFINITY);
    let end = if found < 0.0 { quantity.a_low } else { quantity.a_high };
    let to_end = (end / quantity.a - 1.0).abs();
    let allowed = if widened && to_end.is_finite() { bound.max(to_end) } else { bound };
    BoundCheck { what, found, allowed, kind: Some(DeviationKind::Relative) }
}

impl Feature {
    /// Checks the feature's deviation against its bound.
    pub fn bound_check(&self) -> BoundCheck {
        let held = within(words(&self.name), &self.quantity, FEATURE_MAX, false);
        BoundCheck { kind: Some(self.deviation_kind), ..held }
    }
}

impl Distance {
    /// Checks the Kolmogorov-Smirnov distance against its bound.
    pub fn bound_check(&self) -> BoundCheck {
        BoundCheck::distance("KS distance", self.ks, self.ks_itself, CHANGING_SHARE_MAX)
    }
}

impl Dispersion {
    /// Checks the deviation of the index of dispersion against its bound.
    pub fn bound_check(&self) -> BoundCheck {
        let what = format!("index of dispersion at {}", quantities::bound(self.bin_ms as f64));
        let check = within(what, &self.quantity, RELATIVE_MAX, true);
        let allowed = check.allowed.max(by_bins(self.bins, check.found > 0.0));
        BoundCheck { allowed, ..check }
    }
}

/// Returns how far the indices of dispersion of two samples may deviate by chance, in one
/// direction, if counts are independent. The logarithm of a sample variance has a variance of 2 /
/// (bins - 1).
fn by_bins(bins: u64, upwards: bool) -> f64 {
    let logarithm = TWO_SIDED * 2.0 / (bins.max(2) as f64 - 1.0).sqrt();
    if upwards { logarithm.exp_m1() } else { -(-logarithm).exp_m1() }
}

impl Heat {
    /// Checks the total variation against its bound.
    pub fn bound_check(&self) -> BoundCheck {
        let what = "requests elsewhere";
        let most = CHANGING_SHARE_MAX.max(self.by_counting * COUNTING_TIMES);
        BoundCheck::distance(what, self.total_variation, self.total_variation_itself, most)
    }
}

impl Response {
    /// Checks the deviation of the mean response time against its bound.
    pub fn mean_check(&self) -> BoundCheck {
        within(format!("on {}", self.device), &self.mean_ms, RELATIVE_MAX, true)
    }

    /// Checks the deviation of the 99th percentile against its bound.
    pub fn p99_check(&self) -> BoundCheck {
        within(format!("on {}", self.device), &self.p99_ms, RELATIVE_MAX, true)
    }
}

impl Card {
    /// Checks the mean error of the miss ratios against its bound.
    pub fn miss_ratio_check(&self) -> BoundCheck {
        let what = "miss ratio, mean error".to_string();
        let allowed = self.mrc_mean_error_itself.clamp(MRC_MAX, CHANGING_MRC_MAX);
        BoundCheck { what, found: self.mrc_mean_error, allowed, kind: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(deviation: f64) -> Quantity {
        let a = 10.0;
        let b = a * (1.0 + deviation);
        Quantity { a, b, deviation: Some(deviation), a_low: 8.5, a_high: 10.5 }
    }

    #[test]
    fn an_interval_widens_a_bound_on_its_own_side_only() {
        let held = |deviation, widened| within("".into(), &quantity(deviation), 0.1, widened);
        for (deviation, widened, holds) in [
            (0.1, true, true),
            (0.11, true, false),
            (-0.14, true, true),
            (-0.14, false, false),
            (-0.16, true, false),
        ] {
            assert_eq!(held(deviation, widened).holds(), holds, "{deviation}");
        }
        let nothing = Quantity { deviation: None, ..quantity(0.0) };
        assert!(!within("".into(), &nothing, 0.1, true).holds());
    }

    #[test]
    fn a_bound_that_allows_twice_the_figure_tests_nothing() {
        let wide = |deviation| Quantity { a_high: 25.0, ..quantity(deviation) };
        let check = |deviation| within("".into(), &wide(deviation), 0.1, true);
        assert!(!check(0.0).is_tested() && !check(1.4).is_tested());
        // A deviation above even the widened bound is a failure in any case, and the bound is not
        // widened downwards.
        assert!(check(1.6).is_tested() && check(-0.1).is_tested());
        assert!(within("".into(), &quantity(0.0), 0.1, true).is_tested());
    }

    #[test]
    fn a_distance_is_tolerated_up_to_a_bound() {
        let allowed = |itself| BoundCheck::distance("", 0.0, itself, CHANGING_SHARE_MAX).allowed;
        assert_eq!([0.0, 0.08, 0.9].map(allowed), [0.05, 0.08, 0.15]);
    }

    #[test]
    fn a_figure_and_its_bound_are_told_in_one_unit() {
        let (relative, points) = (Some(DeviationKind::Relative), Some(DeviationKind::Points));
        let told = |found: f64, kind| {
            let held = BoundCheck { what: String::new(), found, allowed: 0.067, kind };
            (held.shown(), held.bound())
        };
        let pair = |shown: &str, bound: &str| (shown.to_string(), bound.to_string());
        assert_eq!(told(-0.05, relative), pair("-5.00 %", "6.70 %"));
        assert_eq!(told(11.0, relative).0, "12.0 times");
        assert_eq!(told(f64::INFINITY, relative).0, "from nothing");
        assert_eq!(told(0.05, points), pair("+5.00 points", "6.70 points"));
        assert_eq!(
            (told(0.00001, relative).0, told(-0.00001, points).0),
            ("0 %".into(), "0 points".into())
        );
        assert_eq!(
            (told(0.0051, relative).0, told(9.0, points).0),
            ("+0.51 %".into(), "+900 points".into())
        );
        assert_eq!(told(0.0051, None), pair("0.00510", "0.067"));
    }
}
