//! Reads a disk or volume from a configuration of `forebay serve`, for a simulation of it.

use std::path::Path;

use forebay::Error;
use forebay::simulate::{ServedDisk, ServedExport};
use forebay_ask::named;
use forebay_serve::{Back, Named, On, Streams, file};
use forebay_trace::served::ServedStreams;

use crate::served_array::ServedArray;
pub use crate::served_array::volume_layout;

/// Reads the disk or volume called `disk`, or the only one, from the configuration `path`.
///
/// # Errors
/// The configuration is invalid, or has no such disk, or the drives of a volume are not labeled.
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
    let (devices, array) = match &back.on {
        On::Target { .. } => ((None, None), None),
        On::Emulated { device, flash, .. } => {
            let flash = flash.as_ref().map(|(_, device)| (**device).clone());
            ((Some((**device).clone()), flash), None)
        }
        On::Volume(drives) => ((None, None), Some(ServedArray::read(&back.name, drives)?)),
        On::EmulatedVolume { drives, device } => {
            let array = ServedArray::read(&back.name, drives)?;
            ((Some((**device).clone()), None), Some(array))
        }
    };
    let export = |export: &Named| ServedExport {
        name: export.name.clone(),
        within: export.promise.map(|promise| promise.within),
    };
    Ok(ServedDisk {
        policy: back.policy.clone(),
        devices,
        drives: array.as_ref().map(|array| array.drives),
        exports: back.exports.iter().map(export).collect(),
        streams: match back.who() {
            Streams::Connections => ServedStreams::Connections,
            Streams::Exports => ServedStreams::Exports,
            Streams::ConnectionsOf(_) => ServedStreams::ConnectionsOfExports,
        },
        shaped: Box::new(move |policy| {
            let back = Back { policy: policy.to_string(), ..back.clone() };
            let spec = back.shaped().map_err(|error| unfit(&error))?;
            match &array {
                Some(array) => array.below(&spec),
                None => Ok(spec),
            }
        }),
    })
}

fn unfit(error: &impl ToString) -> Error {
    Error::Unfit(error.to_string())
}
