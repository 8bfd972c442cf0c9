//! Temporarily changes kernel settings.
//!
//! Invariant: everything that [`Settings::set`] changed is restored in reverse order, at the latest
//! when the settings are dropped, including after an error or a panic.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::CaptureError;

/// Files that were changed, with their previous contents.
#[derive(Default)]
pub(crate) struct Settings {
    before: Vec<(PathBuf, String)>,
}

impl Settings {
    /// Writes `value` to `path`, and remembers the previous content.
    pub(crate) fn set(&mut self, path: &Path, value: &str) -> Result<(), CaptureError> {
        let before = read(path)?;
        if before == value {
            return Ok(());
        }
        write(path, value)?;
        self.before.push((path.to_path_buf(), before));
        Ok(())
    }

    /// Restores all changed settings; returns messages about those that could not be restored.
    pub(crate) fn restore(&mut self) -> Vec<String> {
        let mut failed = Vec::new();
        while let Some((path, value)) = self.before.pop() {
            if let Err(error) = write(&path, &value) {
                failed.push(format!("{error}; it was {value} before"));
            }
        }
        failed
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // If this happens because of an error or a panic, that has been reported already.
        self.restore();
    }
}

/// Returns the current value of a setting, in a form that can be written back.
pub(crate) fn read(path: &Path) -> Result<String, CaptureError> {
    let text = fs::read_to_string(path).map_err(|e| CaptureError::denied(path, "read", &e))?;
    Ok(chosen(text.trim()).to_owned())
}

/// Returns the value itself: `mono` from `local [mono] boot`, `1408` from `7 (expanded: 1408)`.
fn chosen(text: &str) -> &str {
    let between = |open: &str, close: char| {
        let (_, rest) = text.split_once(open)?;
        rest.split_once(close).map(|(value, _)| value)
    };
    between("(expanded: ", ')').or_else(|| between("[", ']')).unwrap_or(text)
}

/// Writes a setting. The file is not created if it is missing; that is an error.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), CaptureError> {
    let file = OpenOptions::new().write(true).truncate(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{value}\n").as_bytes()));
    written.map_err(|error| CaptureError::denied(path, "set", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_read_as_it_can_be_written() {
        assert_eq!(chosen("local global [mono] boot"), "mono");
        assert_eq!(chosen("7 (expanded: 1408)"), "1408");
        assert_eq!(chosen("0"), "0");
    }

    #[test]
    fn settings_go_back_in_reverse_order_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        fs::write(&path, "[local] mono\n").unwrap();
        let mut settings = Settings::default();
        settings.set(&path, "mono").unwrap();
        settings.set(&path, "boot").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "boot\n");
        drop(settings);
        assert_eq!(fs::read_to_string(&path).unwrap(), "local\n");
    }

    #[test]
    fn a_setting_that_is_missing_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none");
        let error = write(&path, "1").unwrap_err().to_string();
        assert!(error.contains("none") && error.contains("CONFIG_BLK_DEV_IO_TRACE"), "{error}");
        assert!(!path.exists());
    }
}
