//! The format of device files for solid-state drives, and the modifiers of their names.
//!
//! The names of keys include units, as in files for disks. Properties of the drive's use rather
//! than its make (how full it is, how much was overwritten, spare flash) can also follow the name:
//! `samsung-830:filled-percent=90:overwritten-percent=200`.

use forebay_core::device::ssd::{
    Ceiling, Collection, Entrance, Mode, Modes, Power, Precondition, Ssd, SsdSpec,
};
use forebay_core::{DeviceModel, Nanos, Spec, SpecError};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use toml::Spanned;

use super::change::DriveError;
use super::closed::{Host, Pause};
use super::evidence::EvidenceTable;
use super::file::{DeviceKind, TomlError, toml_error};
use super::price::PriceTable;

/// The default maximum length of a command in bytes.
const LEN_MAX: u32 = 1 << 20;

/// Returns the drive's endurance in TB written, or an error if the value is implausible.
pub(super) fn endurance(given: Option<Spanned<f64>>) -> Result<Option<f64>, TomlError> {
    let Some(given) = given else { return Ok(None) };
    match *given.get_ref() {
        tb if tb > 0.0 && tb <= 1e9 => Ok(Some(tb)),
        tb => Err(toml_error(
            given.span(),
            format!("endurance_tb: got {tb}, expected above 0, at most 1e9"),
        )),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SsdFile {
    #[allow(dead_code)] // the caller has checked that this is a solid-state drive
    kind: DeviceKind,
    pub(super) name: String,
    pub(super) description: String,
    #[allow(dead_code)] // the module `reported` reads it
    reported_as: Option<Vec<String>>,
    /// The number of TB that may be written before the drive counts as worn out.
    pub(super) endurance_tb: Option<Spanned<f64>>,
    flash: Spanned<FlashTable>,
    link: Spanned<LinkTable>,
    command: Spanned<CommandTable>,
    write_buffer: Spanned<BufferTable>,
    read_cache: Option<Spanned<CacheTable>>,
    precondition: Option<Spanned<PreconditionTable>>,
    power: Spanned<PowerTable>,
    host: Option<Spanned<HostTable>>,
    pub(super) price: Option<Spanned<PriceTable>>,
    pub(super) evidence: Option<Spanned<EvidenceTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlashTable {
    capacity_bytes: u64,
    page_bytes: u32,
    program_pages: u32,
    pages_per_block: u32,
    channels: u32,
    dies_per_channel: u32,
    over_provisioning_percent: f64,
    read_us: Times,
    #[serde(default = "whole")]
    read_busy_share: f64,
    program_us: f64,
    erase_us: f64,
    channel_mb_per_s: f64,
    #[serde(default)]
    collection: CollectionName,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CollectionName {
    #[default]
    Greedy,
    CostBenefit,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    mb_per_s: f64,
    duplex: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandTable {
    interval_us: f64,
    #[serde(default)]
    interval_at: Place,
    write_interval_us: Option<f64>,
    write_interval_at: Option<Place>,
    overhead_us: f64,
    queue_depth: u16,
    len_max_bytes: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BufferTable {
    bytes: u64,
    power_loss_protection: bool,
    entrance_us: Option<Times>,
    #[serde(default = "whole")]
    entrance_busy_share: f64,
    entrance_lanes: Option<u32>,
}

/// The overhead of the host that measured the drive, which is not part of the drive.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct HostTable {
    read_gap_us: f64,
    read_wake_us: f64,
    write_gap_us: f64,
    write_wake_us: f64,
}

/// The place in the drive where commands pass one at a time.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    #[default]
    Arrival,
    Completion,
}

impl Place {
    fn ceiling(self) -> Ceiling {
        match self {
            Place::Arrival => Ceiling::Arrival,
            Place::Completion => Ceiling::Completion,
        }
    }
}

/// A time in us, or several times with their shares.
struct Times(Vec<(f64, f64)>);

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Times, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Times;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(
                    "a time, or pairs of a time and its share, such as [[88, 0.6], [165, 0.4]]",
                )
            }
            fn visit_f64<E>(self, us: f64) -> Result<Times, E> {
                Ok(Times(vec![(us, 1.0)]))
            }
            fn visit_i64<E>(self, us: i64) -> Result<Times, E> {
                Ok(Times(vec![(us as f64, 1.0)]))
            }
            fn visit_u64<E>(self, us: u64) -> Result<Times, E> {
                Ok(Times(vec![(us as f64, 1.0)]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<Times, A::Error> {
                let mut times = Vec::new();
                while let Some(pair) = pairs.next_element()? {
                    times.push(pair);
                }
                Ok(Times(times))
            }
        }
        from.deserialize_any(Either)
    }
}

impl Times {
    fn modes(&self, most: f64, key: &str, busy_share: f64) -> Result<Modes, String> {
        let mode =
            |&(us, share): &(f64, f64)| Ok(Mode { time: micros_within(most, key, us)?, share });
        let modes = self.0.iter().map(mode).collect::<Result<_, String>>()?;
        Ok(Modes { modes, busy_share })
    }
}

fn whole() -> f64 {
    1.0
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheTable {
    bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreconditionTable {
    filled_percent: f64,
    overwritten_percent: f64,
    #[serde(default = "one")]
    seed: u64,
}

fn one() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PowerTable {
    idle_w: f64,
    read_w: f64,
    write_w: f64,
}

impl SsdFile {
    pub(super) fn parse(text: &str) -> Result<SsdFile, TomlError> {
        toml::from_str(text).map_err(|error| (error.span(), error.message().to_string()))
    }

    /// Builds the drive with the modifications in `changes`, and describes it in a sentence.
    pub(super) fn model(
        &self,
        changes: Option<&Spec>,
    ) -> Result<(DeviceModel, String), DriveError> {
        let mut spec = self.spec().map_err(DriveError::File)?;
        // Report errors in the file first, because they have a line.
        spec.check().map_err(|error| DriveError::File(self.locate(error)))?;
        if let Some(changes) = changes {
            change(&mut spec, changes).map_err(DriveError::Name)?;
        }
        let ssd = Ssd::new(spec).map_err(|error| match changes {
            None => DriveError::File(self.locate(error)),
            Some(changes) => DriveError::Name(SpecError(format!("'{}': {error}", changes.text()))),
        })?;
        let summary = super::summary::ssd(&ssd);
        Ok((DeviceModel::Ssd(ssd), summary))
    }

    fn spec(&self) -> Result<SsdSpec, TomlError> {
        let (flash, link) = (self.flash.get_ref(), self.link.get_ref());
        let (command, buffer) = (self.command.get_ref(), self.write_buffer.get_ref());
        let of_flash = |what| toml_error(self.flash.span(), what);
        let of_command = |what| toml_error(self.command.span(), what);
        let precondition = match &self.precondition {
            None => Precondition::default(),
            Some(table) => {
                let PreconditionTable { filled_percent, overwritten_percent, seed } =
                    *table.get_ref();
                Precondition {
                    filled_share: filled_percent / 100.0,
                    overwrites_share: overwritten_percent / 100.0,
                    seed,
                }
            }
        };
        let PowerTable { idle_w, read_w, write_w } = *self.power.get_ref();
        Ok(SsdSpec {
            capacity_bytes: flash.capacity_bytes,
            page_bytes: flash.page_bytes,
            program_pages: flash.program_pages,
            pages_per_block: flash.pages_per_block,
            channels: flash.channels,
            dies_per_channel: flash.dies_per_channel,
            over_provisioning_share: flash.over_provisioning_percent / 100.0,
            read: flash
                .read_us
                .modes(US_MAX, "read_us", flash.read_busy_share)
                .map_err(of_flash)?,
            program: micros("program_us", flash.program_us).map_err(of_flash)?,
            erase: micros("erase_us", flash.erase_us).map_err(of_flash)?,
            channel_bytes_per_s: (flash.channel_mb_per_s * 1e6) as u64,
            link_bytes_per_s: (link.mb_per_s * 1e6) as u64,
            duplex: link.duplex,
            command: micros("interval_us", command.interval_us).map_err(of_command)?,
            ceiling: command.interval_at.ceiling(),
            write_command: {
                let us = command.write_interval_us.unwrap_or(command.interval_us);
                micros("write_interval_us", us).map_err(of_command)?
            },
            write_ceiling: command.write_interval_at.unwrap_or(command.interval_at).ceiling(),
            entrance: self.entrance().map_err(|what| toml_error(self.write_buffer.span(), what))?,
            overhead: micros("overhead_us", command.overhead_us).map_err(of_command)?,
            write_buffer_bytes: buffer.bytes,
            read_cache_bytes: self.read_cache.as_ref().map_or(0, |cache| cache.get_ref().bytes),
            power_loss_protection: buffer.power_loss_protection,
            queue_depth: command.queue_depth,
            collection: match flash.collection {
                CollectionName::Greedy => Collection::Greedy,
                CollectionName::CostBenefit => Collection::CostBenefit,
            },
            precondition,
            len_max: command.len_max_bytes.unwrap_or(LEN_MAX),
            power: Power { idle_w, read_w, write_w },
        })
    }

    fn entrance(&self) -> Result<Option<Entrance>, String> {
        let buffer = self.write_buffer.get_ref();
        let Some(times) = &buffer.entrance_us else {
            return match buffer.entrance_lanes {
                Some(_) => Err("entrance_lanes: entrance_us is missing".to_string()),
                None => Ok(None),
            };
        };
        let times = times.modes(ENTRANCE_US_MAX, "entrance_us", buffer.entrance_busy_share)?;
        Ok(Some(Entrance { times, lanes: buffer.entrance_lanes.unwrap_or(1) }))
    }

    /// Returns the overhead of the host that measured the drive.
    pub(super) fn host(&self) -> Result<Host, TomlError> {
        let Some(table) = &self.host else { return Ok(Host::default()) };
        let of = table.get_ref();
        let pause = |[gap, wake]: [(&str, f64); 2]| {
            Ok::<_, String>(Pause { gap: micros(gap.0, gap.1)?, wake: micros(wake.0, wake.1)? })
        };
        let both = || {
            let reads = [("read_gap_us", of.read_gap_us), ("read_wake_us", of.read_wake_us)];
            let writes = [("write_gap_us", of.write_gap_us), ("write_wake_us", of.write_wake_us)];
            Ok(Host { reads: pause(reads)?, writes: pause(writes)?, ..Host::default() })
        };
        both().map_err(|what: String| toml_error(table.span(), what))
    }

    /// Finds the table that a drive's error refers to, from the first words of the error message.
    fn locate(&self, error: SpecError) -> TomlError {
        let says = |word: &str| error.0.starts_with(word);
        let is_filled = says("filled") || says("overwrites");
        let span = match &self.precondition {
            Some(table) if is_filled => table.span(),
            _ if error.0.contains("power:") => self.power.span(),
            _ if says("link") => self.link.span(),
            _ if says("command") || says("overhead") || says("queue") || says("longest") => {
                self.command.span()
            }
            _ if says("write buffer") || says("entrance") => self.write_buffer.span(),
            _ if says("read cache") => {
                self.read_cache.as_ref().map_or(self.flash.span(), |cache| cache.span())
            }
            _ => self.flash.span(),
        };
        toml_error(span, error)
    }
}

/// Applies the modifiers in a drive's name.
fn change(spec: &mut SsdSpec, changes: &Spec) -> Result<(), SpecError> {
    let percent = |key, share: f64| {
        let value: f64 = changes.get(key, share * 100.0, "a percentage")?;
        Ok::<f64, SpecError>(value / 100.0)
    };
    let precondition = &mut spec.precondition;
    precondition.filled_share = percent("filled-percent", precondition.filled_share)?;
    precondition.overwrites_share = percent("overwritten-percent", precondition.overwrites_share)?;
    spec.over_provisioning_share =
        percent("over-provisioning-percent", spec.over_provisioning_share)?;
    let whole_gb = spec.capacity_bytes as f64 / 1e9;
    let expected = "gigabytes from 0.001 to 1000000";
    let gb = changes.between("capacity-gb", whole_gb, 0.001..=1e6, expected)?;
    if gb != whole_gb {
        *spec = spec.resized((gb * 1e9).round() as u64);
    }
    let current = match spec.collection {
        Collection::Greedy => CollectionName::Greedy,
        Collection::CostBenefit => CollectionName::CostBenefit,
    };
    let first = match current {
        CollectionName::Greedy => ["greedy", "cost-benefit"],
        CollectionName::CostBenefit => ["cost-benefit", "greedy"],
    };
    let greedy = first[changes.choice("collection", &first)?] == "greedy";
    spec.collection = if greedy { Collection::Greedy } else { Collection::CostBenefit };
    changes.finish()
}

/// The maximum time in a device file, in us.
pub(super) const US_MAX: f64 = 1e6;
/// The maximum time of a write at the entrance to the buffer, in us. On memory cards, some writes
/// take many seconds.
pub(super) const ENTRANCE_US_MAX: f64 = 60e6;

fn micros(key: &str, us: f64) -> Result<Nanos, String> {
    micros_within(US_MAX, key, us)
}

fn micros_within(most: f64, key: &str, us: f64) -> Result<Nanos, String> {
    if (0.0..=most).contains(&us) {
        Ok(Nanos((us * 1e3).round() as u64))
    } else {
        Err(format!("{key}: got {us}, expected 0 to {most} us"))
    }
}
