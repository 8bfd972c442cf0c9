//! Computes the price and the power of a row's drives.

use forebay_core::{Device, Nanos};

use super::Question;
use super::layout::DriveLayout;
use super::run::Count;
use super::trial::TrialResult;
use crate::OpenDevice;

/// The drives of a row that have to be paid for and powered.
pub(super) struct Spent<'a> {
    pub(super) kind: &'a DriveLayout<'a>,
    pub(super) found: &'a [TrialResult],
    pub(super) drives: Option<usize>,
    pub(super) cache_drives: usize,
    pub(super) spare_drives: usize,
    pub(super) question: &'a Question<'a>,
}

impl Spent<'_> {
    /// Returns the total price, its currency, and the date of the oldest price.
    pub(super) fn price(&self) -> Option<(f64, String, String)> {
        let price = self.question.prices.price(self.kind.drive)?;
        let drives = (self.drives? + self.spare_drives) as f64 * price.amount;
        if self.cache_drives == 0 {
            return Some((drives, price.currency, price.on));
        }
        let cache = self.question.prices.price(self.kind.flash?)?;
        let all = drives + self.cache_drives as f64 * cache.amount;
        (cache.currency == price.currency).then(|| (all, price.currency, price.on.min(cache.on)))
    }

    /// Returns the mean power in watts, with idle spares; `None` if any drive has no power figures.
    pub(super) fn watts(&self) -> Option<f64> {
        let (drives, prices) = (self.drives?, self.question.prices);
        let sum = |of: fn(&Count) -> f64| -> f64 {
            self.found.iter().filter_map(|one| one.count.as_ref()).map(of).sum()
        };
        let spare = self.spare_drives as f64;
        let own = match prices.watts(self.kind.drive) {
            Some(watts) => watts * (drives as f64 + spare),
            None => sum(|count| count.watts) + spare * idle_watts(self.kind.drive),
        };
        let cache = self.kind.flash.and_then(|flash| prices.watts(flash));
        let caches = match cache {
            Some(watts) => watts * self.cache_drives as f64,
            None => sum(|count| count.flash_watts),
        };
        (own > 0.0).then_some(own + caches)
    }
}

/// Returns the power of an idle drive in watts.
fn idle_watts(device: &OpenDevice) -> f64 {
    let hour = Nanos::from_secs(3600);
    device.model.joules(hour) / hour.as_secs_f64()
}
