//! The verb `devices`.

use forebay_core::device::list::DeviceModel;
use forebay_show::page::{Block, Page, Place, Tone, Verdict};
use forebay_show::plural::{counted, listed};
use forebay_show::table::{Cell, Column, Row, Table};
use serde::Serialize;

use crate::devices::{self, Evidence, OpenDevice};
use crate::error::Error;
use crate::verb::{Answered, DeviceInput, Session, Verb};

forebay_ask::ask! {
    /// List the bundled devices, or describe some of them or device files
    pub struct DevicesAsk("devices") {
        /// Bundled devices or device files to describe; without any, the bundled devices are listed
        device: Vec<DeviceInput> [.positional()],
    }
}

#[derive(Serialize)]
struct DevicesAnswer {
    rows: Vec<ListedDevice>,
}

impl Verb for DevicesAsk {
    type Beyond = ();

    fn run(self, _: &mut dyn Session) -> Result<Answered, Error> {
        let found = match self.device.is_empty() {
            true => devices::list()?,
            false => {
                let open = |device: &DeviceInput| devices::open(&device.0);
                self.device.iter().map(open).collect::<Result<Vec<_>, _>>()?
            }
        };
        let page = match self.device.is_empty() {
            true => all_page(&found),
            false => named_page(&found),
        };
        let rows = found.into_iter().map(ListedDevice::of).collect();
        Answered::new(&DevicesAnswer { rows }, page)
    }
}

/// A device's properties that need no simulation.
#[derive(Serialize)]
struct ListedDevice {
    /// The device's name.
    device: String,
    /// The maker, model and year, or a description of the server.
    description: String,
    /// The main figures.
    summary: String,
    /// How the device processes commands: one at a time, or with its own queue and cache.
    commands: String,
    /// Caveats that users of the model should check.
    notes: Vec<String>,
    /// The number of figures that its service times depend on.
    figures: usize,
    /// The figures that are assumed.
    assumed: Vec<String>,
    /// The figures that are derived from another figure, or from another drive's.
    derived: Vec<String>,
    /// The source of its service times, and their error compared with the real drive.
    evidence: Evidence,
}

impl ListedDevice {
    fn of(device: OpenDevice) -> ListedDevice {
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

fn titled(headline: String) -> Page {
    let verdict = Verdict::new(Tone::Calm, "Devices");
    Page { title: "Devices".into(), verdict, headline, ..Page::default() }
}

/// Makes the page of all bundled devices: their names by kind, then their figures.
fn all_page(found: &[OpenDevice]) -> Page {
    let names = |is_disk: bool| -> Vec<&str> {
        let of_kind = found.iter().filter(|device| is_a_disk(device) == is_disk);
        of_kind.map(|device| device.name.as_str()).collect()
    };
    let (disks, ssds) = (names(true), names(false));
    let mut page = titled(format!(
        "Forebay has models of {} and {}.",
        counted(disks.len() as u64, "disk"),
        counted(ssds.len() as u64, "solid-state drive")
    ));
    let names = vec![
        format!("Disks: {}", disks.join(", ")),
        format!("Solid-state drives: {}", ssds.join(", ")),
        "A server of RATE I/Os a second, one at a time: fixed:RATE".to_string(),
        "Your own drive: FILE.toml. The bundled files are examples".to_string(),
    ];
    let how =
        "`forebay devices NAME` describes a device; `--explain` lists all with their figures.";
    page.add("Names", Place::FirstScreen, vec![Block::List(names), Block::Text(how.into())]);
    let mut table = Table::new(["device", "what it is"].map(Column::words));
    for device in found {
        let OpenDevice { name, description, summary, evidence, .. } = device;
        let what = format!("{description}: {summary}. Times are {}.", evidence.told());
        table.rows.push(Row::new([Cell::from(name.as_str()), Cell::from(what)]));
    }
    page.add("Bundled devices", Place::Detail, vec![Block::Table(table)]);
    page
}

fn is_a_disk(device: &OpenDevice) -> bool {
    matches!(device.model, DeviceModel::Hdd(_) | DeviceModel::Drive(_))
}

/// Makes the page of the given devices.
fn named_page(found: &[OpenDevice]) -> Page {
    let names: Vec<&str> = found.iter().map(|device| device.name.as_str()).collect();
    let mut page = titled(match found {
        [one] => format!("{}: {}.", one.name, one.description),
        _ => format!("{}.", listed(&names)),
    });
    for device in found {
        let mut said = vec![format!("figures: {}", device.summary)];
        if found.len() > 1 {
            said.insert(0, format!("{}: {}", device.name, device.description));
        }
        said.push(format!("takes commands: {}", device.model.commands()));
        said.push(format!("times: {}", device.evidence.told()));
        said.extend(device.evidence.from.iter().map(|from| format!("compared with: {from}")));
        said.extend(device.sources.told(&device.name));
        page.add(&device.name, Place::FirstScreen, vec![Block::List(said)]);
        page.add_notes("To check", Place::FirstScreen, device.notes.clone());
        let guesses = [("assumed", &device.sources.assumed), ("derived", &device.sources.derived)];
        let guesses = guesses.into_iter().filter(|(_, keys)| !keys.is_empty());
        let guesses: Vec<String> =
            guesses.map(|(kind, keys)| format!("{kind}: {}", keys.join(", "))).collect();
        let place = if found.len() == 1 { Place::FirstScreen } else { Place::Detail };
        let guesses = (!guesses.is_empty()).then_some(Block::List(guesses));
        page.add("Guessed figures", place, guesses.into_iter().collect());
    }
    page
}
