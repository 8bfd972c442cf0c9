//! `forebay devices` and `forebay policies`.

use clap::Args;
use forebay::devices::{self, OpenDevice};
use forebay::listings::{ListedDevice, ListedPolicy, policies_named};
use forebay_core::catalog::{
    ARRAYS, BLOCK_PARAMETERS, Listed, PLACEMENTS, POLICIES, Parameter, SHAPER_PARAMETERS, SHAPERS,
    YARDSTICKS,
};

use crate::output::{self, Format, Rows};

/// List the bundled devices, or describe those that are named
#[derive(Args)]
pub(crate) struct Devices {
    /// Bundled devices or device files to describe
    #[arg(value_name = "DEVICE")]
    names: Vec<String>,
    /// How to print the list
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Devices {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let found = match self.names.is_empty() {
            true => devices::list().map_err(forebay::Error::from)?,
            false => self.names.iter().map(|name| devices::open(name)).collect::<Result<_, _>>()?,
        };
        if self.format != Format::Table {
            let rows = found.into_iter().map(ListedDevice::of).collect();
            return output::print_data(self.format, &Rows { rows });
        }
        if !self.names.is_empty() {
            let told: Vec<String> = found.iter().map(described).collect();
            return Ok(output::print(&told.join("\n\n"))?);
        }
        let mut table = output::table(["device", "what it is"]);
        for device in found {
            let told = device.evidence.told();
            let about = format!("{}\n{}\n{told}", device.description, device.summary);
            table.add_row([device.name, about]);
        }
        table.add_row(["fixed:RATE", "a server of RATE I/Os a second, one at a time"]);
        table.add_row(["FILE.toml", "a device file; the bundled ones show how to write it"]);
        Ok(output::print(&table.to_string())?)
    }
}

/// List the policies and their parameters, or describe those that are named
#[derive(Args)]
pub(crate) struct Policies {
    /// Policies to describe, with what each parameter does
    #[arg(value_name = "POLICY")]
    names: Vec<String>,
    /// How to print the list
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Policies {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let found = policies_named(&self.names).map_err(forebay::Error::from)?;
        if self.format != Format::Table {
            return output::print_data(self.format, &Rows { rows: found });
        }
        if !self.names.is_empty() {
            let told: Vec<String> = found.iter().map(told).collect();
            return Ok(output::print(&told.join("\n\n"))?);
        }
        let mut table = output::table(["policy", "what it does"]);
        table.add_rows(POLICIES.iter().chain(PLACEMENTS).chain(ARRAYS).map(row));
        table.add_rows(YARDSTICKS.iter().map(row));
        table.add_row(["(schedulers)".to_string(), shown(BLOCK_PARAMETERS)]);
        table.add_rows(SHAPERS.iter().map(row));
        table.add_row(["(shapers)".to_string(), shown(SHAPER_PARAMETERS)]);
        let more = "What a policy's parameters do: forebay policies POLICY.";
        Ok(output::print(&format!("{table}\n{more}"))?)
    }
}

/// All that is known of a device without running it.
fn described(device: &OpenDevice) -> String {
    let mut lines = vec![device.name.clone(), device.description.clone(), device.summary.clone()];
    lines.push(format!("takes commands: {}", device.model.commands()));
    lines.push(format!("times: {}", device.evidence.told()));
    if let Some(from) = &device.evidence.from {
        lines.push(format!("compared with: {from}"));
    }
    lines.extend(device.notes.iter().map(|note| format!("note: {note}")));
    if let Some(told) = device.sources.told(&device.name) {
        lines.push(told);
        for (kind, keys) in
            [("assumed", &device.sources.assumed), ("derived", &device.sources.derived)]
        {
            lines.push(format!("{kind}: {}", keys.join(", ")));
        }
    }
    lines.iter().map(|line| output::wrapped(line)).collect::<Vec<_>>().join("\n")
}

/// What a policy does, and each of its parameters.
fn told(policy: &ListedPolicy) -> String {
    let ListedPolicy { policy: name, kind, summary, parameters, .. } = policy;
    let said = output::wrapped(&format!("{name}, {}: {summary}.", with_article(kind)));
    let Some(first) = policy.described.first() else {
        return format!("{said}\nIt takes no parameters.");
    };
    let how = output::wrapped(&format!(
        "Give its parameters as --policy {name}:{}=VALUE, with a colon before each. Below, each stands with its default; \
         of a choice that is the first.",
        first.parameter
    ));
    let mut table = output::table(["parameter", "what it does"]);
    let shown = parameters.iter().chain(&policy.parameters_of_kind);
    for (shown, parameter) in shown.zip(&policy.described) {
        table.add_row([shown.as_str(), parameter.about]);
    }
    format!("{said}\n{how}\n\n{table}")
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with('a') { "an" } else { "a" };
    format!("{article} {kind}")
}

fn row(listed: &Listed) -> [String; 2] {
    let what = match shown(listed.parameters()) {
        parameters if parameters.is_empty() => listed.summary.to_string(),
        parameters => format!("{}\n{parameters}", listed.summary),
    };
    [listed.name.to_string(), what]
}

/// Parameters with their defaults.
fn shown(parameters: impl IntoIterator<Item = &'static Parameter>) -> String {
    parameters.into_iter().map(Parameter::to_string).collect::<Vec<_>>().join(" ")
}
