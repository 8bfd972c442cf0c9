//! Shows progress on standard error if that is a terminal.

use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay::progress::ProgressReport;
use forebay_trace::unpack::Consumed;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// The number of bytes that must have been read before the share of the file is meaningful. Some
/// formats are read from the end, or keep their data in other files.
const TELLING_BYTES: u64 = 1 << 20;

/// A progress line or bar.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// The length of the file to read, if known.
    length: Option<u64>,
    consumed: Consumed,
}

impl Progress {
    /// Creates a progress line that shows `doing`. It is hidden unless standard error is a
    /// terminal.
    pub(crate) fn new(doing: &str) -> Progress {
        let bar = ProgressBar::new_spinner();
        style(&bar, "{spinner} {msg} [{elapsed}]");
        bar.set_message(doing.to_string());
        bar.enable_steady_tick(Duration::from_millis(120));
        Progress { bar, length: None, consumed: Consumed::default() }
    }

    /// Creates a progress line for reading the file at `path`. It turns into a bar once enough
    /// bytes have been read.
    pub(crate) fn reading(doing: &str, path: &Path) -> Progress {
        let length = fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|found| found.len());
        let mut progress = Progress::new(doing);
        progress.length = length;
        progress
    }

    /// Returns the counter for the bytes read from the file.
    pub(crate) fn consumed(&self) -> Consumed {
        Arc::clone(&self.consumed)
    }

    /// Shows a progress report. Like the following methods, it always returns `Continue`, because
    /// Ctrl-C is handled elsewhere.
    pub(crate) fn tell(&self, told: &ProgressReport) -> ControlFlow<()> {
        const STEPS: u64 = 1000;
        if self.bar.length().is_none() {
            self.bar.set_length(STEPS);
            style(&self.bar, "{wide_bar} {percent} % {msg} [{elapsed}{left}]");
        }
        self.bar.set_message(told.doing.clone());
        self.bar.set_position((told.done_share * STEPS as f64) as u64);
        ControlFlow::Continue(())
    }

    /// Shows the current step and the share that is done, if known.
    pub(crate) fn report(&self, doing: String, done_share: Option<f64>) -> ControlFlow<()> {
        match done_share {
            Some(done_share) => self.tell(&ProgressReport { doing, done_share }),
            None => self.say(doing),
        }
    }

    /// Shows the current step.
    pub(crate) fn say(&self, doing: String) -> ControlFlow<()> {
        self.bar.set_message(doing);
        let consumed = self.consumed.load(Ordering::Relaxed);
        if let Some(length) = self.length
            && consumed >= TELLING_BYTES
        {
            if self.bar.length().is_none() {
                self.bar.set_length(length);
                style(
                    &self.bar,
                    "{wide_bar} {percent} % {msg} [{binary_bytes_per_sec}, {elapsed}{left}]",
                );
            }
            self.bar.set_position(consumed.min(length));
        }
        ControlFlow::Continue(())
    }
}

fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.with_key("left", |state: &ProgressState, text: &mut dyn Write| {
            if let Some(left) = left(state.elapsed(), state.fraction().into()) {
                // A bar that cannot be drawn is not worth an error.
                let _ = write!(text, ", {:#} left", HumanDuration(left));
            }
        }));
    }
}

/// Estimates the remaining time from the whole time so far, because steps differ too much for an
/// estimate from the latest. Returns `None` while too little is done for an estimate.
fn left(elapsed: Duration, done_share: f64) -> Option<Duration> {
    const SHARE_LEAST: f64 = 0.02;
    const ELAPSED_LEAST: Duration = Duration::from_secs(2);
    let is_known = done_share >= SHARE_LEAST && elapsed >= ELAPSED_LEAST;
    is_known.then(|| elapsed.mul_f64(1.0 / done_share.min(1.0) - 1.0))
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_estimated_once_enough_is_done() {
        let minute = Duration::from_secs(60);
        assert_eq!(left(minute, 0.0), None);
        assert_eq!(left(Duration::from_secs(1), 0.5), None);
        assert_eq!(left(minute, 0.25), Some(3 * minute));
        assert_eq!(left(minute, 1.0), Some(Duration::ZERO));
    }
}
