//! `forebay devices` and `forebay policies`.

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use forebay::devices;
use forebay_core::policy::shape::{SHAPER_PARAMETERS, SHAPERS};
use forebay_core::policy::{BLOCK_PARAMETERS, Listed, PLACEMENTS, POLICIES};

use crate::output;

/// List the bundled devices
#[derive(Args)]
pub(crate) struct Devices {}

impl Devices {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut table = listing(["device", "what it is"]);
        for device in devices::list().map_err(forebay::Error::from)? {
            let about = format!("{}\n{}", device.description, device.summary);
            table.add_row([device.name, about]);
        }
        table.add_row(["fixed:RATE", "a server of RATE I/Os a second, one at a time"]);
        table.add_row(["FILE.toml", "a device file; the bundled ones show how to write it"]);
        Ok(output::print(&table.to_string())?)
    }
}

/// List the policies and their parameters
#[derive(Args)]
pub(crate) struct Policies {}

impl Policies {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut table = listing(["policy", "what it does"]);
        table.add_rows(POLICIES.iter().chain(PLACEMENTS).map(row));
        table.add_row(["(schedulers)", BLOCK_PARAMETERS]);
        table.add_rows(SHAPERS.iter().map(row));
        table.add_row(["(shapers)", SHAPER_PARAMETERS]);
        Ok(output::print(&table.to_string())?)
    }
}

fn row(listed: &Listed) -> [String; 2] {
    let parameters = match listed.parameters {
        "" => String::new(),
        parameters => format!("\n{parameters}"),
    };
    [listed.name.to_string(), format!("{}{parameters}", listed.summary)]
}

fn listing(header: [&str; 2]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}
