//! The report beside an answer: begun before the work that it tells of, so that a place that cannot be written to is
//! told at once, and whole when it has its name.

use std::path::{Path, PathBuf};

use forebay::report;
use forebay::verb::in_place_of;
use forebay_trace::write::{Draft, Kept};

use crate::output::say;

/// A report that was begun.
pub(crate) struct ReportFile {
    path: PathBuf,
    draft: Draft,
}

impl ReportFile {
    /// Begins one, where one is asked for. None of `kept` is written over.
    pub(crate) fn begin(
        path: Option<&Path>,
        kept: &Kept,
    ) -> Result<Option<ReportFile>, forebay::Error> {
        let begun = |path: &Path| {
            Ok(ReportFile { path: path.to_path_buf(), draft: report::begin(path, kept)? })
        };
        path.map(begun).transpose()
    }

    /// Writes it, and says where, and whether it takes the place of a file.
    pub(crate) fn write(self, html: &str) -> Result<(), forebay::Error> {
        let replaces = in_place_of(&self.path);
        report::write(self.draft, html)?;
        say!("report: {}{replaces}", self.path.display());
        Ok(())
    }
}
