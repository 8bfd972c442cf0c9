//! Prices by length in sentences, for the terminal and for pages.

use super::consolidate::{Consolidation, Shared};
use super::sla::Price;
use super::{About, Answer, Cost, Row};
use crate::error::Error;
use crate::plan::amount::percent;
use crate::quantities::{bound, bytes, millis};

/// A cost, and how it was asked for.
pub struct Costs {
    asked: String,
    /// The cost.
    pub cost: Cost,
}

impl Costs {
    /// What `asked` says: a cost, or a device whose random reads set it.
    ///
    /// # Errors
    /// Neither of them, with what was expected.
    pub fn named(asked: &str) -> Result<Costs, Error> {
        Ok(Costs { asked: asked.into(), cost: Cost::named(asked)? })
    }

    /// What a server of speed 1 takes.
    pub fn unit(&self) -> String {
        let told = self.cost.shown();
        let is_same = self.asked == told || self.asked == self.cost.to_string();
        let of = if is_same { String::new() } else { format!(" ({})", self.asked) };
        format!("A server of speed 1 takes {told} µs for a request{of}")
    }

    /// The same, and what that is for a request of the mean length of `about`.
    fn of(&self, about: &About) -> String {
        format!(
            "{}, {} for one of the mean length, {}.",
            self.unit(),
            millis(about.mean_cost_us / 1e3),
            bytes(about.mean_length_bytes)
        )
    }
}

impl Answer {
    /// A sentence for each bound.
    pub fn told(&self) -> Vec<String> {
        self.bounds().map(told_of_bound).collect()
    }

    /// What the speeds mean.
    pub fn meant(&self, costs: &Costs) -> [String; 2] {
        [
            costs.of(&self.about),
            "A thousandth less does not. Whatever is not answered in time is put aside, and no scheduler answers more."
                .into(),
        ]
    }

    /// The rows of each bound.
    pub fn bounds(&self) -> impl Iterator<Item = &[Row]> + Clone {
        self.rows.chunk_by(|one, other| one.within_ms == other.within_ms)
    }
}

fn told_of_bound(rows: &[Row]) -> String {
    let each: Vec<String> =
        rows.iter().map(|row| format!("{} keeps {}", row.speed, percent(row.fraction))).collect();
    format!("Within {}: speed {}.", bound(rows[0].within_ms), each.join(", "))
}

impl Price {
    /// What keeps the promise, and what nothing below keeps.
    pub fn told(&self) -> String {
        format!(
            "Speed {} keeps the promise on one server, first come first served; a thousandth less does not. Nothing \
             keeps it below speed {}.",
            self.fcfs_speed, self.floor_speed
        )
    }

    /// What the speeds mean.
    pub fn meant(&self, costs: &Costs) -> String {
        costs.of(&self.about)
    }
}

impl Consolidation {
    /// A sentence for each promise.
    pub fn told(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.told(self.clients.len())).collect()
    }
}

impl Shared {
    fn told(&self, clients: usize) -> String {
        let apart = match self.shift_s {
            0.0 => String::new(),
            shift => format!(", {shift} s apart"),
        };
        format!(
            "Speed {} keeps {} of {clients} clients together within {}{apart}; alone they need {} in all. Speed {} \
             keeps the promise to each.",
            self.merged_speed,
            percent(self.fraction),
            bound(self.within_ms),
            self.sum_speed,
            self.shaped_speed,
        )
    }
}
