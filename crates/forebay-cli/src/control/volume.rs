//! Sends commands about volumes to the server that serves them.

use std::path::{Path, PathBuf};

use forebay_serve::control::Command;
use forebay_serve::{ServedDrive, ServedDriveState, ServedVolume, VolumeHealth};
use forebay_words::plural::{counted, listed, verb};
use forebay_words::quantities::bytes;
use serde_json::Value;

use super::client;
use crate::output::{self, Exit, Format, tell};
use crate::progress::Progress;
use crate::verb::{Arguments, Formatted};

forebay_ask::ask! {
    /// Show the state of a volume that is being served
    ///
    /// The exit status is 0 if the volume is healthy, 3 if it is degraded (a drive is missing, or
    /// data lack redundancy), 1 if data are lost, and 2 if no server answers.
    pub(crate) struct StateAsk("control volume") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

forebay_ask::ask! {
    /// Read everything on a volume that is being served, and repair damage
    ///
    /// Shows progress until the check is complete. If this command is interrupted, the check
    /// continues; `forebay control cancel-check` ends it.
    pub(crate) struct CheckAsk("control check") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The maximum rate in MB of data per second
        rate: Option<u32> [.word("MB").between(1.0, 1e6).otherwise("as fast as possible")],
        /// The volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

forebay_ask::ask! {
    /// End a check early
    pub(crate) struct CancelCheckAsk("control cancel-check") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

forebay_ask::ask! {
    /// Replace a drive of a volume that is being served, whether the drive works or is missing
    ///
    /// The data of a drive that works are moved to the new drive before the old one leaves the
    /// volume, so that redundancy is never reduced. Shows progress until that is done. If this
    /// command is interrupted, the replacement continues.
    pub(crate) struct ReplaceAsk("control replace") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The new drive
        with: PathBuf [.word("DEVICE")],
        /// The drive to replace
        drive: Option<String> [.word("NUMBER|DEVICE").otherwise("the only missing drive")],
        /// Destroy the data on the new drive
        overwrite: bool,
        /// The volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

forebay_ask::ask! {
    /// Enlarge a volume that is being served with more drives
    ///
    /// Data are moved until all drives are about equally full, and only then does the volume
    /// provide more space, to clients that connect from then on. Shows progress until that is done.
    /// If this command is interrupted, the volume continues to grow; if the server is interrupted,
    /// run the command again.
    pub(crate) struct GrowAsk("control grow") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// New drives, each at least as large as the drives with which the volume was created
        with: Vec<PathBuf> [.repeated().word("DEVICE")],
        /// The new drives are solid-state drives
        ssd: bool,
        /// Destroy the data on the new drives
        overwrite: bool,
        /// The volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

forebay_ask::ask! {
    /// Remove a drive from a volume that is being served, if the others have space for its data
    ///
    /// The data are moved to the other drives before the drive leaves the volume, so that
    /// redundancy is never reduced. A missing drive can be removed once its data have been restored
    /// on the others. Shows progress until that is done. If this command is interrupted, the
    /// removal continues; if the server is, give the command again.
    pub(crate) struct RemoveAsk("control remove") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The drive to remove
        drive: String [.word("NUMBER|DEVICE")],
        /// The volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

forebay_ask::ask! {
    /// Limit how fast a volume that is being served restores and moves data
    pub(crate) struct LimitAsk("control limit") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The maximum rate in MB of data per second
        rate: Option<u32> [.word("MB").between(1.0, 1e6).otherwise("as fast as possible")],
        /// The volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

/// Implements `control volume`, which prints the state of a volume.
pub(super) fn state(verb: Formatted<StateAsk>) -> anyhow::Result<()> {
    let StateAsk { socket, disk } = verb.ask;
    let value = client::order(&socket, &Command::VolumeStatus { disk }, &mut |_| ())?;
    let volume: ServedVolume = serde_json::from_value(value.clone())?;
    match verb.format {
        Format::Table => output::print(&page(&volume))?,
        format => output::print_data(format, &value)?,
    }
    match volume.health {
        VolumeHealth::Healthy => Ok(()),
        VolumeHealth::Degraded => Err(Exit::DEGRADED.into()),
        VolumeHealth::Lost => Err(Exit::FAILURE.into()),
    }
}

pub(super) fn check(asked: Formatted<CheckAsk>) -> anyhow::Result<()> {
    let Formatted { ask: CheckAsk { socket, rate, disk }, format } = asked;
    let before: ServedVolume = ordered(&socket, &Command::VolumeStatus { disk: disk.clone() }, "")?;
    let command = Command::VolumeCheck { disk, rate };
    let done: Value = ordered(&socket, &command, "checking")?;
    data(format, &done)?;
    let volume: ServedVolume = serde_json::from_value(done)?;
    if volume.checks == before.checks {
        return Err(anyhow::anyhow!("the check was cancelled"));
    }
    let rotten = volume.rotten_blocks.saturating_sub(before.rotten_blocks);
    let repaired = volume.repaired_chunks.saturating_sub(before.repaired_chunks);
    tell(&match (rotten, repaired) {
        (0, 0) => "all data was read and is correct".into(),
        _ => format!(
            "everything was read: {} {} wrong, and {} {} rewritten",
            counted(rotten, "block"),
            verb(rotten, "was", "were"),
            counted(repaired, "chunk"),
            verb(repaired, "was", "were"),
        ),
    });
    lost(&volume)
}

pub(super) fn cancel_check(verb: Arguments<CancelCheckAsk>) -> anyhow::Result<()> {
    let CancelCheckAsk { socket, disk } = verb.0;
    ordered::<ServedVolume>(&socket, &Command::CancelVolumeCheck { disk }, "").map(drop)
}

pub(super) fn replace(verb: Formatted<ReplaceAsk>) -> anyhow::Result<()> {
    let ReplaceAsk { socket, with, drive, overwrite, disk } = verb.ask;
    let with = std::path::absolute(with)?;
    let command = Command::ReplaceDrive { disk, drive, with: with.clone(), overwrite };
    let done: Value = ordered(&socket, &command, "replacing")?;
    data(verb.format, &done)?;
    let volume: ServedVolume = serde_json::from_value(done["volume"].clone())?;
    let (old, new) = (&done["replaced"], &done["new"]);
    let leaves = |drive: &&ServedDrive| drive.state == ServedDriveState::Leaving;
    if let Some(leaving) = volume.drives.iter().find(leaves) {
        return Err(anyhow::anyhow!(
            "{} is now drive {new} of the volume, but the other drives do not have enough space for \
             all data of drive {}",
            with.display(),
            leaving.number
        ));
    }
    tell(&format!(
        "{} is drive {new} of the volume now, and drive {old} is no longer part of it; add the new \
         drive to the configuration, unless it is in the volume's folder",
        with.display()
    ));
    lost(&volume)
}

pub(super) fn grow(verb: Formatted<GrowAsk>) -> anyhow::Result<()> {
    let GrowAsk { socket, with, ssd, overwrite, disk } = verb.ask;
    let with: Vec<PathBuf> = with.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
    let command = Command::GrowVolume { disk, with: with.clone(), ssd, overwrite };
    let done: Value = ordered(&socket, &command, "growing")?;
    data(verb.format, &done)?;
    let volume: ServedVolume = serde_json::from_value(done["volume"].clone())?;
    let (was, is) =
        (done["bytes_before"].as_f64().unwrap_or_default(), volume.capacity_bytes as f64);
    tell(&match is > was {
        true => format!("'{}' holds {} now, up from {}", volume.name, bytes(is), bytes(was)),
        false => format!(
            "the capacity of '{}' remains {}: too few of its drives have more space, or its records \
             have no space for more",
            volume.name,
            bytes(is)
        ),
    });
    if !with.is_empty() {
        tell("add new drives to the configuration, unless they are in the volume's folder");
    }
    lost(&volume)
}

pub(super) fn remove(verb: Formatted<RemoveAsk>) -> anyhow::Result<()> {
    let RemoveAsk { socket, drive, disk } = verb.ask;
    let drive = match Path::new(&drive).exists() && drive.parse::<u8>().is_err() {
        true => std::path::absolute(&drive)?.display().to_string(),
        false => drive,
    };
    let done: Value = ordered(&socket, &Command::RemoveDrive { disk, drive }, "removing")?;
    data(verb.format, &done)?;
    let volume: ServedVolume = serde_json::from_value(done["volume"].clone())?;
    let number = &done["removed"];
    if done["is_removed"] != true {
        return Err(anyhow::anyhow!(
            "drive {number} is still part of the volume: the other drives have no space for all of \
             its data now; the rest is moved when they have space"
        ));
    }
    tell(&format!(
        "drive {number} is no longer part of the volume; remove it from the configuration, or from the volume's \
         folder"
    ));
    lost(&volume)
}

pub(super) fn limit(verb: Arguments<LimitAsk>) -> anyhow::Result<()> {
    let LimitAsk { socket, rate, disk } = verb.0;
    ordered::<ServedVolume>(&socket, &Command::LimitVolume { disk, rate }, "").map(drop)
}

/// Prints the server's answer if the user wants data; messages for people go to standard error.
fn data(format: Format, answer: &Value) -> anyhow::Result<()> {
    match format {
        Format::Table => Ok(()),
        format => output::print_data(format, answer),
    }
}

fn lost(volume: &ServedVolume) -> anyhow::Result<()> {
    match volume.lost_units {
        0 => Ok(()),
        units => Err(anyhow::anyhow!(
            "data are lost: some bytes of {} cannot be read any more",
            counted(units, "unit")
        )),
    }
}

/// Sends a command and shows the progress of its work, unless `doing` is empty.
pub(super) fn ordered<T: serde::de::DeserializeOwned>(
    socket: &Path,
    command: &Command,
    doing: &str,
) -> anyhow::Result<T> {
    let bar = (!doing.is_empty()).then(|| Progress::new(doing));
    let mut progress = |value: &Value| {
        let work = value["work"].as_str().unwrap_or(doing).to_string();
        let share = value["work_percent"].as_f64().map(|percent| percent / 100.0);
        if let Some(bar) = &bar {
            let _ = bar.report(work, share);
        }
    };
    let done = client::order(socket, command, &mut progress)?;
    Ok(serde_json::from_value(done)?)
}

/// Formats the state of a volume for people.
fn page(volume: &ServedVolume) -> String {
    let ServedVolume { name, tolerates, lacking_chunks, lost_units, .. } = volume;
    let numbers = |state: ServedDriveState| {
        let drives = volume.drives.iter().filter(move |drive| drive.state == state);
        drives.map(|drive| drive.number.to_string()).collect::<Vec<_>>()
    };
    let missing = numbers(ServedDriveState::Missing);
    let count = missing.len() as u64;
    let headline = match volume.health {
        VolumeHealth::Healthy => {
            format!("'{name}' is healthy: any {} may fail.", counted((*tolerates).into(), "drive"))
        }
        VolumeHealth::Lost => format!(
            "'{name}' has lost data: some bytes of {} cannot be read.",
            counted(*lost_units, "unit")
        ),
        VolumeHealth::Degraded
            if missing.is_empty() && *lacking_chunks == 0 && volume.lacks_room =>
        {
            format!("'{name}' is degraded: it has no space for new data.")
        }
        VolumeHealth::Degraded if missing.is_empty() && *lacking_chunks == 0 => {
            format!("'{name}' is degraded: some drives do not have their share of the records yet.")
        }
        VolumeHealth::Degraded if missing.is_empty() => {
            format!("'{name}' is degraded: {} redundancy.", lack(*lacking_chunks))
        }
        VolumeHealth::Degraded => format!(
            "'{name}' is degraded: {} {} {} missing; {}.",
            if count == 1 { "drive" } else { "drives" },
            listed(&missing),
            verb(count, "is", "are"),
            match lacking_chunks {
                0 => "its data have been restored on the other drives".to_string(),
                lacking => format!("{} redundancy", lack(*lacking)),
            }
        ),
    };
    let full = volume.lacks_room.then(|| {
        "Writes fail, because the drives have no space for them: free some \
         space on the file system that contains the drives."
            .to_string()
    });
    let work = volume.work.iter().map(|work| {
        format!("In progress: {work}, {:.0} % done.", volume.work_percent.unwrap_or(0.0))
    });
    let drive = |drive: &ServedDrive| {
        let path = drive.path.as_ref().map_or("-".into(), |path| path.display().to_string());
        let state = format!("{:?}", drive.state).to_lowercase();
        let (free, faults) = (bytes(drive.free_bytes as f64), drive.faults);
        let faults = counted(faults, "failed I/O");
        format!("drive {:<3} {state:<8} {free:>9} free, {faults}  {path}", drive.number)
    };
    let drives: Vec<String> = volume.drives.iter().map(drive).collect();
    let parts = [headline].into_iter().chain(full).chain(work).chain([drives.join("\n")]);
    parts.collect::<Vec<_>>().join("\n\n")
}

/// Formats a number of chunks with its verb: "1 chunk lacks", "2 chunks lack".
fn lack(chunks: u64) -> String {
    format!("{} {}", counted(chunks, "chunk"), verb(chunks, "lacks", "lack"))
}
