//! What there is to name: devices and policies, as data.

use forebay_core::SpecError;
use forebay_core::catalog::{
    ARRAYS, BLOCK_PARAMETERS, DIVERTING, Listed, PLACEMENTS, POLICIES, Parameter,
    SHAPER_PARAMETERS, SHAPERS, YARDSTICKS,
};
use serde::Serialize;

use crate::devices::{Evidence, OpenDevice};

/// What is known of a device without running it.
#[derive(Serialize)]
pub struct ListedDevice {
    /// What it is called.
    pub device: String,
    /// Maker, model and year, or what a server does.
    pub description: String,
    /// Its main figures.
    pub summary: String,
    /// The most sectors that a command carries, and so on, as `device` tells them.
    pub commands: String,
    /// What a person should check in its file.
    pub notes: Vec<String>,
    /// How many figures its times depend on.
    pub figures: usize,
    /// Those of them that are assumed.
    pub assumed: Vec<String>,
    /// Those that follow from another figure, or another drive's.
    pub derived: Vec<String>,
    /// What its times rest on, and how far they were from the drive's.
    pub evidence: Evidence,
}

impl ListedDevice {
    /// Of a device that was opened.
    pub fn of(device: OpenDevice) -> ListedDevice {
        ListedDevice {
            commands: device.model.commands().to_string(),
            device: device.name,
            description: device.description,
            summary: device.summary,
            notes: device.notes,
            figures: device.sources.figures,
            assumed: device.sources.assumed,
            derived: device.sources.derived,
            evidence: device.evidence,
        }
    }
}

/// A policy, or in what a kind of them takes beside their own parameters.
#[derive(Clone, Serialize)]
pub struct ListedPolicy {
    /// What it is called.
    pub policy: &'static str,
    /// What it is.
    pub kind: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Each as KEY=DEFAULT.
    pub parameters: Vec<String>,
    /// Those that it takes as every scheduler or every shaper does.
    pub parameters_of_kind: Vec<String>,
    /// What each of both does.
    pub described: Vec<ListedParameter>,
}

/// What a parameter takes and does.
#[derive(Clone, Serialize)]
pub struct ListedParameter {
    /// As in KEY=VALUE.
    pub parameter: &'static str,
    /// What it is unless it is given; in capitals where that is no value.
    pub default: String,
    /// What it may be, where it is a choice.
    pub choices: &'static [&'static str],
    /// What it does.
    pub about: &'static str,
}

impl ListedParameter {
    fn of(parameter: &Parameter) -> ListedParameter {
        ListedParameter {
            parameter: parameter.key,
            default: parameter.default_shown(),
            choices: parameter.choices(),
            about: parameter.about,
        }
    }
}

impl ListedPolicy {
    fn of(listed: &'static Listed, kind: &'static str) -> ListedPolicy {
        let of_kind = of_kind(listed.name, kind);
        let shown = |parameters: &mut dyn Iterator<Item = &'static Parameter>| {
            parameters.map(Parameter::to_string).collect()
        };
        ListedPolicy {
            policy: listed.name,
            kind,
            summary: listed.summary,
            parameters: shown(&mut listed.parameters()),
            parameters_of_kind: shown(&mut of_kind.iter()),
            described: listed.parameters().chain(of_kind).map(ListedParameter::of).collect(),
        }
    }
}

/// What a policy takes beside its own parameters.
fn of_kind(name: &str, kind: &str) -> &'static [Parameter] {
    match kind {
        SHAPER => SHAPER_PARAMETERS,
        SCHEDULER | YARDSTICK => BLOCK_PARAMETERS,
        _ if DIVERTING.contains(&name) => BLOCK_PARAMETERS,
        _ => &[],
    }
}

const SCHEDULER: &str = "scheduler";
const SHAPER: &str = "shaper";
const YARDSTICK: &str = "yardstick";

/// Every policy that can be asked for.
fn policies() -> Vec<ListedPolicy> {
    let kinds: [(&'static [Listed], &str); 5] = [
        (POLICIES, SCHEDULER),
        (PLACEMENTS, "placement"),
        (ARRAYS, "array"),
        (YARDSTICKS, YARDSTICK),
        (SHAPERS, SHAPER),
    ];
    let each = kinds
        .into_iter()
        .flat_map(|(listed, kind)| listed.iter().map(move |listed| ListedPolicy::of(listed, kind)));
    each.collect()
}

/// Those policies, or all where none is named.
///
/// # Errors
/// Where there is none of a name.
pub fn policies_named(names: &[String]) -> Result<Vec<ListedPolicy>, SpecError> {
    let all = policies();
    if names.is_empty() {
        return Ok(all);
    }
    let named = |name: &String| {
        let found = all.iter().find(|listed| listed.policy == name).cloned();
        found.ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|listed| listed.policy).collect();
            SpecError(format!("no policy '{name}', expected one of {}", known.join(", ")))
        })
    };
    names.iter().map(named).collect()
}
