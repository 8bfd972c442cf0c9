//! Reads a disk from a configuration of `forebay serve`, for a simulation of it.

use std::path::Path;

use forebay::Error;
use forebay::simulate::{ServedDisk, ServedExport};
use forebay_ask::named;
use forebay_serve::{Back, Named, On, Streams, file};

/// Reads the disk called `disk`, or the only one, from the configuration `path`.
///
/// # Errors
/// The configuration is invalid, or has no such disk, or it is a volume.
pub fn served_disk(path: &Path, disk: Option<&str>) -> Result<ServedDisk, Error> {
    let mut backs = file::read(path).map_err(|error| unfit(&error))?.backs;
    let at = match disk {
        Some(disk) => backs.iter().position(|back| back.name == disk),
        None => (backs.len() == 1).then_some(0),
    };
    let Some(at) = at else {
        let names: Vec<String> = backs.iter().map(|back| format!("'{}'", back.name)).collect();
        return Err(Error::Unfit(format!(
            "{}: {}: got {}, expected one of {}",
            path.display(),
            named("served_disk"),
            disk.map_or_else(|| "none".to_string(), |disk| format!("'{disk}'")),
            names.join(", ")
        )));
    };
    let back = backs.swap_remove(at);
    let devices = match &back.on {
        On::Target { .. } => (None, None),
        On::Emulated { device, flash, .. } => {
            let flash = flash.as_ref().map(|(_, device)| (**device).clone());
            (Some((**device).clone()), flash)
        }
        On::Volume(_) | On::EmulatedVolume { .. } => {
            return Err(Error::Unfit(format!(
                "'{}': got a volume, expected a disk; to simulate a volume, name its drives and its \
                 level: {}, {} and {}",
                back.name,
                named("device"),
                named("disks"),
                named("policy=array:level=raid6"),
            )));
        }
    };
    let export = |export: &Named| ServedExport {
        name: export.name.clone(),
        within: export.promise.map(|promise| promise.within),
    };
    Ok(ServedDisk {
        policy: back.policy.clone(),
        devices,
        exports: back.exports.iter().map(export).collect(),
        has_streams_of_exports: back.who() == Streams::Exports,
        shaped: Box::new(move |policy| {
            let back = Back { policy: policy.to_string(), ..back.clone() };
            back.shaped().map_err(|error| unfit(&error))
        }),
    })
}

fn unfit(error: &impl ToString) -> Error {
    Error::Unfit(error.to_string())
}
