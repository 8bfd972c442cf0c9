//! What there is to name: devices and policies, as data.

use forebay_core::catalog::{
    ARRAYS, BLOCK_PARAMETERS, Listed, PLACEMENTS, POLICIES, Parameter, SHAPER_PARAMETERS, SHAPERS,
    YARDSTICKS,
};
use serde::Serialize;

use crate::devices::OpenDevice;

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
        }
    }
}

/// A policy, or in what a kind of them takes beside their own parameters.
#[derive(Serialize)]
pub struct ListedPolicy {
    /// What it is called.
    pub policy: &'static str,
    /// What it is.
    pub kind: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Each as KEY=DEFAULT.
    pub parameters: Vec<String>,
    /// Those that every policy of its kind takes.
    pub parameters_of_kind: Vec<String>,
}

impl ListedPolicy {
    fn of(listed: &'static Listed, kind: &'static str) -> ListedPolicy {
        let each = |parameters: &'static [Parameter]| parameters.iter().map(Parameter::to_string);
        ListedPolicy {
            policy: listed.name,
            kind,
            summary: listed.summary,
            parameters: listed.parameters().map(Parameter::to_string).collect(),
            parameters_of_kind: match kind {
                SCHEDULER => each(BLOCK_PARAMETERS).collect(),
                SHAPER => each(SHAPER_PARAMETERS).collect(),
                _ => Vec::new(),
            },
        }
    }
}

const SCHEDULER: &str = "scheduler";
const SHAPER: &str = "shaper";

/// Every policy that can be asked for.
pub fn policies() -> Vec<ListedPolicy> {
    let kinds: [(&'static [Listed], &str); 5] = [
        (POLICIES, SCHEDULER),
        (PLACEMENTS, "placement"),
        (ARRAYS, "array"),
        (YARDSTICKS, "yardstick"),
        (SHAPERS, SHAPER),
    ];
    let each = kinds
        .into_iter()
        .flat_map(|(listed, kind)| listed.iter().map(move |listed| ListedPolicy::of(listed, kind)));
    each.collect()
}
