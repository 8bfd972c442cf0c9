//! Progress on standard error, and only when somebody is watching it.

use indicatif::{ProgressBar, ProgressStyle};

/// A line that says what is being done.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Begins with `doing`. Hidden unless standard error is a terminal.
    pub(crate) fn new(doing: &str) -> Progress {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        bar.set_message(doing.to_string());
        Progress(bar)
    }

    /// Now `doing` something else.
    pub(crate) fn say(&self, doing: String) {
        self.0.set_message(doing);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
