//! The rules that classify threads into types.
//!
//! The paper names three properties by which types differ, but gives no bounds. Ours are:
//!
//! - *Functionality*: a log thread either has the name of a kernel journal (`jbd2`, `kjournald`,
//!   `xfslogd`, `jfsCommit`), or submits almost only writes, most of which continue the previous
//!   one and have a size that is typical of logs. A thread that streams a file in large requests is
//!   not a log. All other threads are data threads.
//! - *Fluctuation*: how much the number of requests per period varies beyond chance, divided by its
//!   mean ([`super::rows::Figures::fluctuation`]). A thread for which this is undefined is steady.
//! - *Intensity*: the thread's share of all requests, which is its rate divided by that of all
//!   threads.

use serde::Serialize;

/// The bounds of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rules {
    /// The minimum share of writes among a log's requests.
    pub log_write_share: f64,
    /// The minimum share of a log's writes that continue the previous one.
    pub log_sequential_share: f64,
    /// The maximum mean size of a log's writes.
    pub log_write_kib: f64,
    /// The minimum number of a log's requests.
    pub log_requests: u64,
    /// Threads with at least this fluctuation are fluctuating; all others are steady.
    pub fluctuating_ratio: f64,
    /// Threads with at least this share of all requests have high intensity.
    pub high_share: f64,
    /// Threads with less than this share of all requests have low intensity.
    pub low_share: f64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            log_write_share: 0.9,
            log_sequential_share: 0.5,
            log_write_kib: 128.0,
            log_requests: 16,
            fluctuating_ratio: 0.5,
            high_share: 0.05,
            low_share: 0.005,
        }
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Functionality {
    Data,
    Log,
}

/// How a thread's activity changes from period to period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Fluctuation {
    Steady,
    Fluctuating,
}

/// How large a thread's share of the load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Intensity {
    High,
    Medium,
    Low,
}

/// The properties that all threads of a type share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct ThreadKind {
    pub functionality: Functionality,
    #[serde(rename = "fluctuation_class")]
    pub fluctuation: Fluctuation,
    #[serde(rename = "intensity_class")]
    pub intensity: Intensity,
}

impl Functionality {
    pub(super) fn word(self) -> &'static str {
        match self {
            Functionality::Data => "Data",
            Functionality::Log => "Log",
        }
    }
}

impl ThreadKind {
    /// Describes the fluctuation and the intensity in words.
    pub fn words(self) -> String {
        let intensity = match self.intensity {
            Intensity::High => "high",
            Intensity::Medium => "medium",
            Intensity::Low => "low",
        };
        let fluctuation = match self.fluctuation {
            Fluctuation::Steady => "steady",
            Fluctuation::Fluctuating => "fluctuating",
        };
        format!("{intensity}, {fluctuation}")
    }
}

/// The features of a thread by which it is classified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    pub(super) requests: u64,
    pub(super) write_share: f64,
    pub(super) write_sequential_share: f64,
    pub(super) write_kib: f64,
    pub(super) fluctuation: Option<f64>,
    pub(super) weight_share: f64,
}

/// The names of kernel threads that write file-system journals.
const JOURNALS: &[&str] = &["jbd2", "kjournald", "xfslogd", "jfsCommit"];

impl Rules {
    /// Returns the kind of the thread called `name`.
    pub(super) fn kind(&self, name: &str, features: &Features) -> ThreadKind {
        let is_journal = JOURNALS.iter().any(|journal| name.starts_with(journal));
        let is_log = features.requests >= self.log_requests
            && features.write_share >= self.log_write_share
            && features.write_sequential_share >= self.log_sequential_share
            && features.write_kib <= self.log_write_kib;
        let fluctuates = features.fluctuation.is_some_and(|ratio| ratio >= self.fluctuating_ratio);
        ThreadKind {
            functionality: match is_journal || is_log {
                true => Functionality::Log,
                false => Functionality::Data,
            },
            fluctuation: if fluctuates { Fluctuation::Fluctuating } else { Fluctuation::Steady },
            intensity: match features.weight_share {
                share if share >= self.high_share => Intensity::High,
                share if share < self.low_share => Intensity::Low,
                _ => Intensity::Medium,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The features of a thread that is clearly a log.
    const LOG: Features = Features {
        requests: 16,
        write_share: 0.9,
        write_sequential_share: 0.5,
        write_kib: 128.0,
        fluctuation: Some(0.5),
        weight_share: 0.05,
    };

    fn kind(name: &str, features: Features) -> ThreadKind {
        Rules::default().kind(name, &features)
    }

    #[test]
    fn bounds_are_inclusive() {
        let found = kind("a/1", LOG);
        let expected = (Functionality::Log, Fluctuation::Fluctuating, Intensity::High);
        assert_eq!((found.functionality, found.fluctuation, found.intensity), expected);
        for less in [
            Features { requests: 15, ..LOG },
            Features { write_share: 0.89, ..LOG },
            Features { write_sequential_share: 0.49, ..LOG },
            Features { write_kib: 128.1, ..LOG },
        ] {
            assert_eq!(kind("a/1", less).functionality, Functionality::Data, "{less:?}");
        }
        for ratio in [Some(0.49), None] {
            let steady = Features { fluctuation: ratio, ..LOG };
            assert_eq!(kind("a", steady).fluctuation, Fluctuation::Steady);
        }
        let of = |weight_share| kind("a", Features { weight_share, ..LOG }).intensity;
        assert_eq!(
            [0.049, 0.005, 0.0049].map(of),
            [Intensity::Medium, Intensity::Medium, Intensity::Low]
        );
    }

    #[test]
    fn journals_are_known_by_name() {
        let none = Features { requests: 1, write_share: 0.0, ..LOG };
        assert_eq!(kind("jbd2/sda1-8/123", none).functionality, Functionality::Log);
        assert_eq!(kind("java/123", none).functionality, Functionality::Data);
    }
}
