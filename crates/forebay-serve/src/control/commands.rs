//! The commands of the control socket.

use std::path::PathBuf;

use forebay_core::contract::VolumeOrder;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::VERSION;
use crate::driver::SOON;
use crate::error::{Error, unfit};
use crate::running::Running;
use crate::{Reloaded, ServedVolume};

/// A command to a running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Returns the counts since the server started.
    Figures {},
    /// Rereads the configuration file, and applies the changes that a running server can apply.
    Reload {},
    /// Switches the policy of a disk or volume.
    Policy {
        /// The disk's or volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
        /// The policy with its parameters.
        policy: String,
    },
    /// Writes all data that exists only on the flash of a write-back cache to the disk, and stops
    /// caching; reports progress.
    DrainFlash {
        /// The disk's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
    },
    /// Starts a trace of clients' requests, or of a disk's I/Os.
    StartTrace {
        /// The disk's or volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
        /// The file to write.
        path: PathBuf,
        /// Whether to record the disk's I/Os instead of clients' requests.
        #[serde(default)]
        issued: bool,
    },
    /// Completes the traces of a disk or volume.
    StopTrace {
        /// The disk's or volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
    },
    /// Completes the traces of a disk or volume, and begins new ones.
    RotateTrace {
        /// The disk's or volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
    },
    /// Returns the state of a volume.
    VolumeStatus {
        /// The volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
    },
    /// Reads everything on a volume and repairs damage; reports progress until that is done.
    VolumeCheck {
        /// The volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
        /// The maximum rate in MB of data per second; unlimited by default.
        #[serde(default)]
        rate: Option<u32>,
    },
    /// Ends a check early.
    CancelVolumeCheck {
        /// The volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
    },
    /// Limits rebuilding and moving.
    LimitVolume {
        /// The volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
        /// The maximum rate in MB of data per second; unlimited by default.
        #[serde(default)]
        rate: Option<u32>,
    },
    /// Replaces a drive of a volume; reports progress until the data of the old drive is on the new
    /// one or elsewhere.
    ReplaceDrive {
        /// The volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
        /// The number or path of the drive to replace; by default the only missing drive.
        #[serde(default)]
        drive: Option<String>,
        /// The new drive.
        with: PathBuf,
        /// Whether existing data on the new drive may be destroyed.
        #[serde(default)]
        overwrite: bool,
    },
    /// Adds drives to a volume; reports progress until the volume provides more space.
    GrowVolume {
        /// The volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
        /// The new drives; none to continue after an interruption.
        #[serde(default)]
        with: Vec<PathBuf>,
        /// Whether the new drives are solid-state drives.
        #[serde(default)]
        ssd: bool,
        /// Whether existing data on the new drives may be destroyed.
        #[serde(default)]
        overwrite: bool,
    },
    /// Removes a drive from a volume whose other drives have space for its data; reports progress
    /// until the data have been moved.
    RemoveDrive {
        /// The volume's name; may be left out if there is only one.
        #[serde(default)]
        disk: Option<String>,
        /// The number or path of the drive.
        drive: String,
    },
}

impl Command {
    /// Parses a command from a line.
    pub(super) fn parse(line: &[u8]) -> Result<Command, String> {
        let wrong = |error: serde_json::Error| {
            format!(
                "got an invalid command ({error}), expected a command such as \
                 {{\"version\": {VERSION}, \"command\": \"figures\"}}"
            )
        };
        let mut value: Value = serde_json::from_slice(line).map_err(wrong)?;
        let version = value.as_object_mut().and_then(|map| map.remove("version"));
        if version != Some(VERSION.into()) {
            let got = version.map_or("no version".to_string(), |got| format!("version {got}"));
            return Err(format!("got a command with {got}, expected version {VERSION}"));
        }
        serde_json::from_value(value).map_err(wrong)
    }

    /// Returns the line that represents this command.
    pub(super) fn line(&self) -> String {
        let mut value = json!(self);
        value["version"] = VERSION.into();
        value.to_string() + "\n"
    }

    /// Executes the command. Long commands call `progress`, which returns whether the client is
    /// still there.
    pub(super) fn run(
        &self,
        running: &Running,
        progress: &mut dyn FnMut(Value) -> bool,
    ) -> Result<Value, Error> {
        if let Command::DrainFlash { disk } = self {
            return running.named(disk.as_deref())?.drain_flash(progress);
        }
        let bytes_per_s = |rate: Option<u32>| u64::from(rate.unwrap_or(0)) * 1_000_000;
        let mut progress = |state: &ServedVolume| progress(json!(state));
        Ok(match self {
            Command::VolumeStatus { disk } => json!(running.named(disk.as_deref())?.volume()?),
            Command::VolumeCheck { disk, rate } => {
                let driver = running.named(disk.as_deref())?;
                if driver.volume()?.is_checking {
                    return Err(unfit(format!(
                        "'{}': a check is in progress; cancel it first",
                        driver.name
                    )));
                }
                driver.order_volume(VolumeOrder::Check { bytes_per_s: bytes_per_s(*rate) })?;
                json!(driver.wait_for_volume(&mut progress, |state| state.is_checking)?)
            }
            Command::CancelVolumeCheck { disk } => {
                let driver = running.named(disk.as_deref())?;
                driver.order_volume(VolumeOrder::EndCheck)?;
                json!(driver.volume()?)
            }
            Command::LimitVolume { disk, rate } => {
                let driver = running.named(disk.as_deref())?;
                driver.order_volume(VolumeOrder::Limit { bytes_per_s: bytes_per_s(*rate) })?;
                json!(driver.volume()?)
            }
            Command::ReplaceDrive { disk, drive, with, overwrite } => {
                let driver = running.named(disk.as_deref())?;
                let (old, new) = driver.replace_drive(drive.as_deref(), with, *overwrite)?;
                let state = driver.wait_for_volume(&mut progress, |state| {
                    state.work.is_some() || state.records_left > 0
                })?;
                json!({ "replaced": old, "new": new, "volume": state })
            }
            Command::DrainFlash { .. } => Value::Null,
            Command::GrowVolume { disk, with, ssd, overwrite } => {
                let driver = running.named(disk.as_deref())?;
                let before = driver.volume()?.capacity_bytes;
                let new = driver.add_drives(with, *ssd, *overwrite)?;
                // Clients need the new size even if nobody waits for this answer any longer.
                let mut report = |state: &ServedVolume| {
                    progress(state);
                    true
                };
                let state = driver.wait_for_volume(&mut report, ServedVolume::moves)?;
                if state.capacity_bytes > driver.room().bytes() {
                    running.enlarge(&driver, state.capacity_bytes)?;
                }
                json!({ "new": new, "bytes_before": before, "volume": state })
            }
            Command::RemoveDrive { disk, drive } => {
                let driver = running.named(disk.as_deref())?;
                let number = driver.remove_drive(drive)?;
                let state = driver
                    .wait_for_volume(&mut progress, |state| state.has(number) && state.moves())?;
                json!({ "removed": number, "is_removed": !state.has(number), "volume": state })
            }
            Command::Figures {} => json!(running.figures(SOON)),
            Command::Reload {} => {
                let Reloaded { changes, failures } = running.reload(false)?;
                json!({ "changes": changes, "failures": failures })
            }
            Command::Policy { disk, policy } => {
                let driver = running.named(disk.as_deref())?;
                let pause = running.switch(&driver, policy)?;
                json!({ "pause_ms": pause.as_secs_f64() * 1e3 })
            }
            Command::StartTrace { disk, path, issued } => {
                running.start_trace(&*running.named(disk.as_deref())?, path, *issued)?;
                json!({ "path": path })
            }
            Command::StopTrace { disk } => {
                json!({ "paths": running.stop_traces(&*running.named(disk.as_deref())?)? })
            }
            Command::RotateTrace { disk } => {
                json!({ "paths": running.rotate_traces(&*running.named(disk.as_deref())?)? })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_the_line() {
        let start =
            Command::StartTrace { disk: Some("a".into()), path: "t.parquet".into(), issued: true };
        for command in [Command::Figures {}, start] {
            assert_eq!(Command::parse(command.line().as_bytes()), Ok(command));
        }
    }

    #[test]
    fn wrong_commands_get_a_message() {
        for (line, what) in [
            ("", "got an invalid command"),
            ("figures", "got an invalid command"),
            ("[]", "no version"),
            ("{\"command\": \"figures\"}", "no version"),
            ("{\"version\": 2, \"command\": \"figures\"}", "version 2, expected version 1"),
            ("{\"version\": 1}", "missing field `command`"),
            ("{\"version\": 1, \"command\": \"fly\"}", "unknown variant `fly`"),
            ("{\"version\": 1, \"command\": \"reload\", \"x\": 1}", "unknown field `x`"),
            ("{\"version\": 1, \"command\": \"start_trace\"}", "missing field `path`"),
        ] {
            let said = Command::parse(line.as_bytes()).unwrap_err();
            assert!(said.contains(what), "{line}: {said}");
        }
    }
}
