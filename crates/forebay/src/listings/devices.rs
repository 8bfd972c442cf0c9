//! The verb `devices`, which lists drives and volume types.

use forebay_core::DeviceModel;
use forebay_show::{Block, Cell, Column, Page, Place, Row, Table, Tone, Verdict};
use forebay_words::plural::{counted, listed};
use serde::Serialize;

use crate::Error;
use crate::devices::volume::{self, Knob, VolumeType};
use crate::devices::{self, Basis, Evidence, FigureSource, OpenDevice};
use crate::quantities::percent;
use crate::verb::{Answered, DeviceInput, Session, Verb};

forebay_ask::ask! {
    /// List the bundled drives and volume types, or describe some of them or device files
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
        let (mut found, mut volumes) = (Vec::new(), Vec::new());
        if self.device.is_empty() {
            (found, volumes) = (devices::list()?, volume::list()?);
        }
        for DeviceInput(name) in &self.device {
            match volume::named(name)? {
                Some(volume) => volumes.push(volume),
                None => found.push(devices::open(name)?),
            }
        }
        let page = match self.device.is_empty() {
            true => all_page(&found, &volumes),
            false => named_page(&found, &volumes),
        };
        let volumes = volumes.into_iter().map(ListedDevice::of_volume);
        let rows = found.into_iter().map(ListedDevice::of).chain(volumes).collect();
        Answered::new(&DevicesAnswer { rows }, page)
    }
}

/// The properties of a device that can be listed without a simulation.
#[derive(Serialize)]
struct ListedDevice {
    /// The device's name.
    device: String,
    /// The maker, model and year of a drive, or a description of a server.
    description: String,
    /// The device's main figures in a few words.
    summary: String,
    /// How the device processes commands: one at a time, or with its own queue and cache.
    commands: String,
    /// Caveats to consider before relying on the model.
    notes: Vec<String>,
    /// The number of figures in the device file that determine its service times.
    figures: usize,
    /// The names of the figures that are assumptions.
    assumed: Vec<String>,
    /// The names of the figures that are derived from other figures, or from another drive's.
    derived: Vec<String>,
    /// The basis of the model's service times, and their deviation from those of the real drive.
    evidence: Evidence,
    /// The settings of a volume type, as in `ebs-gp3:gib=500`; empty for any other device.
    knobs: Vec<ListedKnob>,
    /// Limits that relate the settings to one another, as formulas.
    limits: Vec<String>,
    /// The names of the sizes that the volume type is sold in; empty if every size is available.
    tiers: Vec<String>,
    /// The figures of the volume type, each with its source.
    sources: Vec<FigureSource>,
}

/// A setting of a volume type that users choose, such as its size.
#[derive(Serialize)]
struct ListedKnob {
    /// The setting's key in a device spec.
    key: String,
    /// The lowest value allowed.
    least: f64,
    /// The highest value allowed.
    most: f64,
    /// The default value; null if the setting is required.
    default: Option<f64>,
}

impl ListedKnob {
    fn of(knob: &Knob) -> ListedKnob {
        let Knob { least, most, default, .. } = *knob;
        ListedKnob { key: knob.key(), least, most, default }
    }

    /// Formats the setting with its range, as in `iops from 3000 to 80000, by default 3000`.
    fn text(&self) -> String {
        let default = match self.default {
            Some(default) => format!(", by default {default}"),
            None => ", required".to_string(),
        };
        format!("{} from {} to {}{default}", self.key, self.least, self.most)
    }
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
            knobs: Vec::new(),
            limits: Vec::new(),
            tiers: Vec::new(),
            sources: device.volume.map_or(Vec::new(), |chosen| chosen.volume.figures),
        }
    }

    fn of_volume(volume: VolumeType) -> ListedDevice {
        ListedDevice {
            commands: VOLUME_COMMANDS.to_string(),
            summary: choices(&volume),
            notes: Vec::new(),
            figures: volume.sources.figures,
            knobs: volume.knobs().iter().map(ListedKnob::of).collect(),
            limits: volume.rules().collect(),
            tiers: volume.tiers().iter().map(|tier| tier.name.clone()).collect(),
            device: volume.name,
            description: volume.description,
            assumed: volume.sources.assumed,
            derived: volume.sources.derived,
            evidence: volume.evidence,
            sources: volume.figures,
        }
    }
}

const VOLUME_COMMANDS: &str = "any number at once, as fast as its token buckets allow";

/// Formats the settings of a volume type with their ranges.
fn choices(volume: &VolumeType) -> String {
    let knobs: Vec<String> =
        volume.knobs().iter().map(|knob| ListedKnob::of(knob).text()).collect();
    knobs.join("; ")
}

fn titled(headline: String) -> Page {
    let verdict = Verdict::new(Tone::Calm, "Devices");
    Page { title: "Devices".into(), verdict, headline, ..Page::default() }
}

/// Builds the page of all bundled devices: their names by kind, then their figures.
fn all_page(found: &[OpenDevice], volumes: &[VolumeType]) -> Page {
    let of_kind = |is_disk: bool| found.iter().filter(move |device| is_a_disk(device) == is_disk);
    let volume_names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
    let mut page = titled(format!(
        "Forebay has models of {}, {} and {}.",
        counted(of_kind(true).count() as u64, "disk"),
        counted(of_kind(false).count() as u64, "solid-state drive"),
        counted(volumes.len() as u64, "volume type")
    ));
    let mut names = by_basis("Disks", &of_kind(true).collect::<Vec<_>>());
    names.extend(by_basis("Solid-state drives", &of_kind(false).collect::<Vec<_>>()));
    names.extend([
        format!(
            "Volumes and throttles: {}. Choose size and speed, as in ebs-gp3:gib=500:iops=6000",
            volume_names.join(", ")
        ),
        "A server of RATE I/Os a second, one at a time: fixed:RATE".to_string(),
        "Your own drive: FILE.toml. The bundled files are examples".to_string(),
    ]);
    let how = "`forebay devices NAME` describes a device.";
    page.add("Names", Place::FirstScreen, vec![Block::List(names), Block::Text(how.into())]);
    let mut table = Table::new(["device", "what it is"].map(Column::words));
    for device in found {
        let OpenDevice { name, description, summary, evidence, .. } = device;
        let what = format!("{description}: {summary}. Times are {}.", evidence.summary());
        table.rows.push(Row::new([Cell::from(name.as_str()), Cell::from(what)]));
    }
    for volume in volumes {
        let what = format!("{}: {}.", volume.description, choices(volume));
        table.rows.push(Row::new([Cell::from(volume.name.as_str()), Cell::from(what)]));
    }
    page.add("Bundled devices", Place::Detail, vec![Block::Table(table)]);
    page
}

/// Lists devices of a kind by what their figures rest on, with the largest error of a rate where
/// the model was compared with the drive.
fn by_basis(kind: &str, devices: &[&OpenDevice]) -> Vec<String> {
    let named = |device: &&&OpenDevice| match device.evidence.rate_error_share {
        Some(share) => format!("{} ({})", device.name, percent(share)),
        None => device.name.clone(),
    };
    let all = [
        (Basis::Measured, "measured (largest error of a rate)"),
        (Basis::Fitted, "fitted to measurements (largest error of a rate)"),
        (Basis::DataSheet, "from data sheets"),
        (Basis::Assumed, "mostly assumed"),
    ];
    let line = |(basis, words): (Basis, &str)| {
        let of_basis = devices.iter().filter(|device| device.evidence.basis == basis);
        let names: Vec<String> = of_basis.map(|device| named(&device)).collect();
        (!names.is_empty()).then(|| format!("{kind}, {words}: {}", names.join(", ")))
    };
    all.into_iter().filter_map(line).collect()
}

fn is_a_disk(device: &OpenDevice) -> bool {
    matches!(device.model, DeviceModel::Hdd(_) | DeviceModel::Drive(_))
}

/// Builds the page of the devices and volume types that the user named.
fn named_page(found: &[OpenDevice], volumes: &[VolumeType]) -> Page {
    let of_devices = found.iter().map(|device| (&*device.name, &*device.description));
    let of_volumes = volumes.iter().map(|volume| (&*volume.name, &*volume.description));
    let named: Vec<(&str, &str)> = of_devices.chain(of_volumes).collect();
    let is_only = named.len() == 1;
    let mut page = titled(match named[..] {
        [(name, description)] => format!("{name}: {description}."),
        _ => format!("{}.", listed(&named.iter().map(|(name, _)| *name).collect::<Vec<_>>())),
    });
    for device in found {
        let mut said = vec![format!("figures: {}", device.summary)];
        if !is_only {
            said.insert(0, format!("{}: {}", device.name, device.description));
        }
        said.push(format!("takes commands: {}", device.model.commands()));
        said.push(format!("times: {}", device.evidence.summary()));
        said.extend(device.evidence.from.iter().map(|from| format!("compared with: {from}")));
        said.extend(device.sources.caution(&device.name));
        page.add(&device.name, Place::FirstScreen, vec![Block::List(said)]);
        page.add_notes("To check", Place::FirstScreen, device.notes.clone());
        let guesses = [("assumed", &device.sources.assumed), ("derived", &device.sources.derived)];
        let guesses = guesses.into_iter().filter(|(_, keys)| !keys.is_empty());
        let guesses: Vec<String> =
            guesses.map(|(kind, keys)| format!("{kind}: {}", keys.join(", "))).collect();
        let place = if is_only { Place::FirstScreen } else { Place::Detail };
        let guesses = (!guesses.is_empty()).then_some(Block::List(guesses));
        page.add("Guessed figures", place, guesses.into_iter().collect());
        if let Some(chosen) = &device.volume {
            add_sources(&mut page, &chosen.volume);
        }
    }
    for volume in volumes {
        add_volume(&mut page, volume);
        add_sources(&mut page, volume);
    }
    page
}

/// The maximum number of settings and limits of a volume type on the first screen.
const FIRST_KNOBS: usize = 8;

/// Adds the settings of a volume type, and the limits that follow from them.
fn add_volume(page: &mut Page, volume: &VolumeType) {
    let knobs: Vec<ListedKnob> = volume.knobs().iter().map(ListedKnob::of).collect();
    let mut said: Vec<String> = knobs.iter().map(ListedKnob::text).collect();
    said.extend(volume.rules());
    let mut ranges = Vec::new();
    if said.len() > FIRST_KNOBS {
        let keys: Vec<&str> = knobs.iter().map(|knob| knob.key.as_str()).collect();
        ranges = std::mem::replace(&mut said, vec![format!("keys: {}", keys.join(", "))]);
    }
    if !volume.tiers().is_empty() {
        let tiers: Vec<&str> = volume.tiers().iter().map(|tier| tier.name.as_str()).collect();
        said.push(format!("tier, instead of gib: {}", tiers.join(", ")));
    }
    said.extend(volume.options());
    said.extend(volume.sources.caution(&volume.name));
    page.add(&volume.name, Place::FirstScreen, vec![Block::List(said)]);
    let ranges = (!ranges.is_empty()).then_some(Block::List(ranges));
    page.add("Ranges", Place::Detail, ranges.into_iter().collect());
}

/// Adds a table of a volume type's figures with their sources.
fn add_sources(page: &mut Page, volume: &VolumeType) {
    let mut table = Table::new(["figure", "value", "source"].map(Column::words));
    let figures = volume.figures.iter().filter(|figure| !figure.source.is_empty());
    for FigureSource { table: of, key, value, source } in figures {
        let cells = [format!("{of}.{key}"), value.clone(), source.clone()];
        table.rows.push(Row::new(cells.map(Cell::Words)));
    }
    page.add("Figures and their sources", Place::Detail, vec![Block::Table(table)]);
}
