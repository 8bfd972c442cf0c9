//! Reads a store's password from a file, so that it does not appear in process listings.

use std::path::PathBuf;

use forebay_store::StoreError;

/// Returns the first line of the file at `path`.
pub(crate) fn password(path: &PathBuf) -> anyhow::Result<String> {
    let wrong = |what: String| StoreError::Store(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let line = text.lines().next().filter(|line| !line.is_empty());
    line.map(str::to_string)
        .ok_or_else(|| wrong("got no first line, expected a password".into()).into())
}
