//! The verdict: for which purposes the second trace may stand in for the first.

use forebay_words::plural::listed;
use serde::Serialize;

use super::{BoundCheck, Card, Feature, Response};
use crate::advise::judge::TOO_FEW;
use crate::names;

/// The verdict on the second trace, overall and in each aspect.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    /// Whether the second trace may stand in for the first in every aspect.
    pub faithful: bool,
    /// The verdict in one sentence.
    pub text: String,
    /// The verdict in each aspect.
    pub aspects: Vec<Aspect>,
}

/// An aspect: one purpose for which the second trace may stand in for the first.
#[derive(Clone, Debug, Serialize)]
pub struct Aspect {
    /// The name of the aspect.
    pub aspect: &'static str,
    /// Whether all figures of this aspect are within their bounds.
    pub holds: bool,
    /// Whether the aspect was tested. It is not tested if the traces have too few requests to
    /// detect a doubling of the figure, or if they have different volumes, so that positions are
    /// not comparable.
    pub tested: bool,
    /// The figure of this aspect that exceeds its bound most, or comes nearest to it, in words.
    pub worst: String,
    /// The name of the worst figure.
    #[serde(skip)]
    pub figure: String,
    /// Whether the worst figure's deviation is in percentage points.
    #[serde(skip)]
    pub is_points: bool,
    /// The bound of the worst figure, formatted with its unit.
    pub bound: String,
    /// The deviation of the worst figure.
    pub found: f64,
    /// The bound of the worst figure.
    pub allowed: f64,
}

/// The maximum number of words in the verdict's sentence.
const WORDS_MAX: usize = 25;

pub(super) fn verdict(card: &Card) -> Verdict {
    let distance = |of: &str| -> Vec<BoundCheck> {
        card.distances
            .iter()
            .filter(|distance| distance.of == of)
            .map(|found| found.bound_check())
            .collect()
    };
    let is_position = |feature: &Feature| feature.name.starts_with("state_weight:");
    let features =
        card.features.iter().filter(|feature| card.heat.comparable || !is_position(feature));
    let aspects: Vec<Aspect> = [
        ("request features", features.map(|feature| feature.bound_check()).collect()),
        ("the distribution of sizes", distance("size_bytes")),
        ("the distribution of inter-arrival times", distance("inter_arrival_ms")),
        ("burstiness", card.dispersion.iter().map(|scale| scale.bound_check()).collect()),
        ("caching", vec![card.miss_ratio_check()]),
        (POSITIONS, vec![card.heat.bound_check()]),
        ("mean responses", card.responses.iter().map(Response::mean_check).collect()),
        ("99th percentile responses", card.responses.iter().map(Response::p99_check).collect()),
        ("recorded latencies", card.latencies.as_ref().map_or(Vec::new(), |of| of.bound_checks())),
    ]
    .into_iter()
    .filter_map(|(aspect, held)| judge(aspect, &held))
    .map(|aspect| Aspect { tested: aspect.tested && comparable(card, &aspect), ..aspect })
    .collect();
    match too_few(card) {
        Some(text) => Verdict { faithful: false, text, aspects },
        None => {
            let faithful = aspects.iter().filter(|aspect| aspect.tested).all(|aspect| aspect.holds);
            Verdict { faithful, text: sentence(card, &aspects), aspects }
        }
    }
}

/// States that a trace has too few requests for a verdict; `None` if both have enough.
pub(super) fn too_few(card: &Card) -> Option<String> {
    let [a, b] = [card.a.requests, card.b.requests];
    (a.min(b) < TOO_FEW).then(|| {
        let names = names::numbered(&[&card.a.trace, &card.b.trace]);
        format!(
            "Too few requests to compare: {} has {a} and {} has {b}; at least {TOO_FEW} are needed.",
            names[0], names[1]
        )
    })
}

/// The name of the aspect of the requests' positions.
const POSITIONS: &str = "where requests fall on the disk";

/// Returns whether the two traces can be compared in an aspect.
fn comparable(card: &Card, aspect: &Aspect) -> bool {
    card.heat.comparable || aspect.aspect != POSITIONS
}

fn judge(aspect: &'static str, held: &[BoundCheck]) -> Option<Aspect> {
    let by_severity = |a: &&BoundCheck, b: &&BoundCheck| a.severity().total_cmp(&b.severity());
    let tested = held.iter().filter(|check| check.is_tested()).max_by(by_severity);
    let worst = tested.or_else(|| held.iter().max_by(by_severity))?;
    Some(Aspect {
        aspect,
        holds: held.iter().all(BoundCheck::holds),
        tested: tested.is_some(),
        worst: format!("{} {}", worst.what, worst.shown()),
        figure: worst.what.clone(),
        is_points: worst.is_points(),
        bound: worst.bound(),
        found: worst.found,
        allowed: worst.allowed,
    })
}

fn sentence(card: &Card, aspects: &[Aspect]) -> String {
    let tested: Vec<&Aspect> = aspects.iter().filter(|aspect| aspect.tested).collect();
    let names = |holds| -> Vec<&str> {
        tested.iter().filter(|a| a.holds == holds).map(|a| a.aspect).collect()
    };
    let traces = names::numbered(&[&card.a.trace, &card.b.trace]);
    let (a, b) = (&traces[0], &traces[1]);
    match (names(true).as_slice(), names(false).as_slice()) {
        (_, []) => {
            let lacks = match (card.a.has_latencies, card.b.has_latencies) {
                (true, false) => format!("; recorded latencies were not, because {b} has none"),
                (false, true) => format!("; recorded latencies were not, because {a} has none"),
                _ => String::new(),
            };
            format!("{b} is a faithful twin of {a} in every aspect that was compared{lacks}.")
        }
        ([], _) => format!("{b} is not a twin of {a} in any aspect that was compared."),
        (good, bad) => {
            let count = format!("in {} of {} aspects", good.len(), tested.len());
            let named = format!("{b} may stand in for {a} {count}, but not for {}.", listed(bad));
            match named.split_whitespace().count() <= WORDS_MAX {
                true => named,
                false => format!("{b} may stand in for {a} {count}."),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::card::Quantity;
    use super::super::measure::DeviationKind;
    use super::*;

    #[test]
    fn an_aspect_is_as_good_as_its_worst_figure() {
        let held = |deviation: f64| {
            let quantity =
                Quantity { a: 1.0, b: 0.0, deviation: Some(deviation), a_low: 0.0, a_high: 9.0 };
            let deviation_kind = DeviationKind::Relative;
            Feature { name: "f".to_string(), deviation_kind, quantity }.bound_check()
        };
        let judged = judge("one", &[held(0.02), held(-0.04), held(0.01)]).unwrap();
        assert!(judged.holds && judged.found == -0.04 && judged.allowed == 0.05);
        assert_eq!((judged.worst.as_str(), judged.bound.as_str()), ("f -4.00 %", "5.00 %"));
        assert!(!judge("one", &[held(0.0), held(0.2)]).unwrap().holds);
        assert!(judge("none", &[]).is_none() && judged.tested);
    }
}
