//! Response times of a run, by the policy's service classes.

use forebay_core::Nanos;
use forebay_core::contract::Class;
use serde::Serialize;

use super::Latencies;

/// The response times of one service class.
struct Measured {
    class: Class,
    latencies: Latencies,
    within: u64,
}

impl Measured {
    fn new(name: &str, within: Nanos) -> Measured {
        let class = Class { name: name.to_string(), within };
        Measured { class, latencies: Latencies::new(3), within: 0 }
    }

    #[inline]
    fn record(&mut self, latency: Nanos) {
        self.latencies.record(latency);
        self.within += u64::from(latency <= self.class.within);
    }

    fn figures(&self) -> ClassFigures {
        let requests = self.latencies.count();
        ClassFigures {
            class: self.class.name.clone(),
            requests,
            bound_ms: self.class.within.as_millis_f64(),
            within_bound: self.within,
            within_bound_share: (requests > 0).then(|| self.within as f64 / requests as f64),
            mean_ms: self.latencies.mean_ms(),
            p50_ms: self.latencies.quantile_ms(0.5),
            p99_ms: self.latencies.quantile_ms(0.99),
            longest_ms: (requests > 0).then(|| self.latencies.max.as_millis_f64()),
        }
    }
}

/// The response times of all requests, with the first class's bound, followed by those of each
/// class if there are several. Empty for a policy without classes.
pub(super) struct Classes(Vec<Measured>);

impl Classes {
    pub(super) fn new(classes: &[Class]) -> Classes {
        let all = classes.first().map(|first| Measured::new("all", first.within));
        let several = if classes.len() > 1 { classes } else { &[] };
        let each = several.iter().map(|class| Measured::new(&class.name, class.within));
        Classes(all.into_iter().chain(each).collect())
    }

    #[inline]
    pub(super) fn record(&mut self, class: u16, latency: Nanos) {
        if let Some((all, each)) = self.0.split_first_mut() {
            all.record(latency);
            if let Some(measured) = each.get_mut(usize::from(class)) {
                measured.record(latency);
            }
        }
    }

    pub(super) fn figures(&self) -> Vec<ClassFigures> {
        self.0.iter().map(Measured::figures).collect()
    }
}

/// The figures of one service class. Response times start at arrival.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassFigures {
    /// The name of the class: `all` for all requests, or `q1`, `q2`, ... from the first tier to the
    /// remaining requests. With a configuration of `forebay serve`, the promised requests of each
    /// export, by its name, and all others.
    pub class: String,
    /// The number of the class's requests that finished.
    pub requests: u64,
    /// The promised response time. For `all` it is that of the first tier; for the remaining
    /// requests, to which nothing is promised, that of the last tier.
    pub bound_ms: f64,
    /// The number of the class's requests that were answered within `bound_ms`.
    pub within_bound: u64,
    /// The share of the class's requests that were answered within `bound_ms`; `None` without
    /// requests.
    pub within_bound_share: Option<f64>,
    /// The mean response time of the class.
    pub mean_ms: Option<f64>,
    /// The median response time of the class.
    pub p50_ms: Option<f64>,
    /// The 99th percentile of the class's response times.
    pub p99_ms: Option<f64>,
    /// The longest response time of the class.
    pub longest_ms: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, within: u64) -> Class {
        Class { name: name.to_string(), within: Nanos::from_millis(within) }
    }

    #[test]
    fn each_class_is_measured_against_its_bound_and_all_against_the_first() {
        let mut classes = Classes::new(&[class("q1", 10), class("q2", 30)]);
        for (of, ms) in [(0, 10), (0, 11), (1, 30), (1, 5)] {
            classes.record(of, Nanos::from_millis(ms));
        }
        let figures = classes.figures();
        let said: Vec<_> =
            figures.iter().map(|f| (f.class.as_str(), f.requests, f.within_bound)).collect();
        assert_eq!(said, [("all", 4, 2), ("q1", 2, 1), ("q2", 2, 2)]);
        assert_eq!(figures[2].mean_ms, Some(17.5));
    }

    #[test]
    fn a_policy_without_classes_has_no_figures() {
        let mut classes = Classes::new(&[]);
        classes.record(0, Nanos(1));
        assert!(classes.figures().is_empty());
        let mut one = Classes::new(&[class("all", 1)]);
        one.record(0, Nanos(1));
        assert_eq!(one.figures().len(), 1);
    }
}
