//! The reasons why schedulers are not recommended, for each scheduler separately and for all of
//! them in one sentence.

use std::fmt;

use forebay_words::plural::{listed, verb};
use serde::{Serialize, Serializer};

use super::super::available::Provider;
use super::Choice;

/// The reason why a scheduler is not recommended. Formatted figures list the scheduler's own value
/// before the other scheduler's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassedOver {
    /// Another scheduler beats this one: it is better in a figure and worse in none.
    Beaten {
        /// The name of the scheduler that beats this one.
        by: String,
        /// The figure in which the other scheduler is better, formatted for both.
        figure: String,
    },
    /// No maintained operating system provides the scheduler.
    NotToBeHad,
    /// The scheduler needs to know the requesting process, which a server cannot see.
    KernelOnly,
    /// The configuration is only a reference that shows what more request slots gain by themselves.
    Yardstick,
    /// The device falls behind with this scheduler.
    FallsBehind,
    /// The scheduler needs a server, which adds about a quarter to the time of a read from flash.
    NeedsServer,
    /// The scheduler is not better than the baseline in the other replay.
    Disputed,
    /// The scheduler is not better than the baseline on every drive that the device may stand for.
    Unsure,
    /// The scheduler is better than the baseline, but the disk is mostly idle.
    NotNeeded,
    /// No scheduler beats this one, but the chosen one is better in a figure.
    Worse {
        /// The name of the chosen scheduler.
        than: String,
        /// The figure in which the chosen scheduler is better, formatted for both.
        figure: String,
    },
    /// The scheduler cannot be distinguished from the chosen one, which is simpler.
    Alike {
        /// The name of the chosen scheduler.
        to: String,
    },
    /// The scheduler is worse on average over the figures that the preference considers, though
    /// each single difference may be chance.
    WorseTogether {
        /// The name of the chosen scheduler.
        than: String,
        /// The figures that the preference considers, formatted for both schedulers.
        figures: String,
    },
}

impl fmt::Display for PassedOver {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PassedOver::Beaten { by, figure } => write!(to, "beaten by {by}: {figure}"),
            PassedOver::NotToBeHad => to.write_str("no longer available"),
            PassedOver::KernelOnly => {
                to.write_str("works only within the kernel, because it schedules per process")
            }
            PassedOver::Yardstick => {
                to.write_str("serves only to isolate the effect of a longer queue")
            }
            PassedOver::FallsBehind => to.write_str("the device falls behind with it"),
            PassedOver::NeedsServer => to.write_str("a server is too slow for flash"),
            PassedOver::Disputed => to.write_str("not better under the other replay"),
            PassedOver::Unsure => to.write_str("better or worse, depending on the drive"),
            PassedOver::NotNeeded => {
                to.write_str("better, but not needed because the disk is mostly idle")
            }
            PassedOver::Worse { than, figure } => {
                write!(to, "better than {than} in one figure, worse in another: {figure}")
            }
            PassedOver::Alike { to: other } => {
                write!(to, "is not significantly different from {other}")
            }
            PassedOver::WorseTogether { than, figures } => {
                write!(to, "apparently worse than {than}: {figures}")
            }
        }
    }
}

impl Serialize for PassedOver {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl PassedOver {
    /// Formats the reasons for all schedulers that are not recommended, grouped by reason: "bid
    /// beats none (...) and bfq (...)". Returns `None` if `all` is empty.
    pub(in crate::advise) fn all_told(all: &[(&str, &PassedOver)]) -> Option<String> {
        let mut reasons: Vec<(Reason<'_>, Vec<String>)> = Vec::new();
        for (policy, why) in all {
            let (reason, told) = Reason::of(policy, why);
            match reasons.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, policies)) => policies.push(told),
                None => reasons.push((reason, vec![told])),
            }
        }
        reasons.sort_by_key(|(reason, _)| matches!(reason, Reason::Other(_)));
        let told: Vec<String> = reasons.iter().map(|(reason, all)| reason.told(all)).collect();
        (!told.is_empty()).then(|| format!("Why not another: {}.", told.join("; ")))
    }
}

/// The part of a reason that several schedulers can share, used to list such schedulers together.
#[derive(PartialEq, Eq)]
enum Reason<'a> {
    Beaten(&'a str),
    Worse(&'a str),
    Alike(&'a str),
    Other(&'a PassedOver),
}

impl<'a> Reason<'a> {
    /// Returns the reason for passing over `policy`, and the scheduler's name followed by its
    /// figures.
    fn of(policy: &str, why: &'a PassedOver) -> (Reason<'a>, String) {
        let with = |figures: &str| format!("{policy} ({figures})");
        match why {
            PassedOver::Beaten { by, figure } => (Reason::Beaten(by), with(figure)),
            PassedOver::Worse { than, figure } => (Reason::Worse(than), with(figure)),
            PassedOver::WorseTogether { than, figures } => (Reason::Worse(than), with(figures)),
            PassedOver::Alike { to } => (Reason::Alike(to), policy.to_string()),
            other => (Reason::Other(other), policy.to_string()),
        }
    }

    fn told(&self, policies: &[String]) -> String {
        let several =
            |one: &'static str, more: &'static str| verb(policies.len() as u64, one, more);
        let (is, works, shows) =
            (several("is", "are"), several("works", "work"), several("isolates", "isolate"));
        let needs = several("needs", "need");
        let policies = listed(policies);
        match self {
            Reason::Beaten(by) => format!("{by} beats {policies}"),
            Reason::Worse(than) => format!("{policies} {is} worse than {than} in these figures"),
            Reason::Alike(to) => format!("{policies} {is} not significantly different from {to}"),
            Reason::Other(PassedOver::KernelOnly) => {
                format!(
                    "{policies} {works} only in the kernel, which knows the submitting processes"
                )
            }
            Reason::Other(PassedOver::Yardstick) => {
                format!("{policies} {shows} only the effect of a longer queue")
            }
            Reason::Other(PassedOver::FallsBehind) => {
                format!("the device falls behind with {policies}")
            }
            Reason::Other(PassedOver::NeedsServer) => {
                format!(
                    "{policies} {needs} a server, whose path adds about 20 µs per request, which \
                     is a lot for flash"
                )
            }
            Reason::Other(PassedOver::Disputed) => {
                format!("{policies} {is} not better under the other replay")
            }
            Reason::Other(PassedOver::Unsure) => {
                format!(
                    "{policies} {is} not better over the whole range of the drive's unknown figures"
                )
            }
            Reason::Other(PassedOver::NotNeeded) => {
                format!("{policies} {is} better, but not needed on a disk that is mostly idle")
            }
            Reason::Other(_) => format!("{policies} {is} no longer in Linux"),
        }
    }
}

impl Choice<'_> {
    /// Returns why `policy` is not recommended if `chosen` is; `None` for the chosen scheduler
    /// itself.
    pub(in crate::advise) fn passed_over(&self, policy: &str, chosen: &str) -> Option<PassedOver> {
        let at = |policy: &str| self.runs.iter().position(|run| run.policy == policy);
        let (run, chosen) = (at(policy)?, at(chosen)?);
        if run == chosen {
            return None;
        }
        let name = |run: usize| self.policy(run).to_string();
        let figure = |figure, other: usize| self.told(figure, run, other).unwrap_or_default();
        let beaten = |other: usize| {
            let by = self.beats(other, run)?;
            Some(PassedOver::Beaten { by: name(other), figure: figure(by, other) })
        };
        if let Some(beaten) = beaten(chosen) {
            return Some(beaten);
        }
        if !self.can_be_had(run) {
            return Some(match Provider::of(self.policy(run)) {
                Provider::KernelOnly => PassedOver::KernelOnly,
                Provider::EqualSlots => PassedOver::Yardstick,
                Provider::Forebay if !self.own => PassedOver::NeedsServer,
                from if from.is_obtainable() => PassedOver::FallsBehind,
                _ => PassedOver::NotToBeHad,
            });
        }
        let mut others = (0..self.runs.len()).filter(|other| self.can_be_had(*other));
        if let Some(beaten) = others.find_map(beaten) {
            return Some(beaten);
        }
        if !self.is_agreed(run) && self.beats(run, self.baseline).is_some() {
            let is_unsure = self.unsure.contains(&run);
            return Some(if is_unsure { PassedOver::Unsure } else { PassedOver::Disputed });
        }
        if chosen == self.baseline && self.beats(run, chosen).is_some() {
            return Some(PassedOver::NotNeeded);
        }
        let than = name(chosen);
        Some(match self.figures.iter().find(|figure| self.is_less(**figure, chosen, run)) {
            Some(worse) => PassedOver::Worse { than, figure: figure(*worse, chosen) },
            None if self.is_near(run, chosen) => PassedOver::Alike { to: than },
            None => PassedOver::WorseTogether { than, figures: self.told_apart(run, chosen) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_passed_over_for_the_same_reason_are_listed_together() {
        let (by, figure) = ("bid".to_string(), "busy time 4 s against 2 s".to_string());
        let beaten = PassedOver::Beaten { by: by.clone(), figure: figure.clone() };
        let worse = PassedOver::Worse { than: by.clone(), figure };
        let alike = PassedOver::Alike { to: by };
        let all = [
            ("cfq", &PassedOver::NotToBeHad),
            ("none", &beaten),
            ("bfq", &worse),
            ("kyber", &beaten),
            ("forebay", &alike),
        ];
        assert_eq!(
            PassedOver::all_told(&all).unwrap(),
            "Why not another: bid beats none (busy time 4 s against 2 s) and kyber (busy time 4 s against 2 s); bfq \
             (busy time 4 s against 2 s) is worse than bid in these figures; forebay is not significantly different from bid; cfq is no \
             longer in Linux."
        );
        assert_eq!(PassedOver::all_told(&[]), None);
    }
}
