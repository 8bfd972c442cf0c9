//! Formats sentences about speeds and costs, for the terminal and for pages.

use forebay_ask::AskError;

use super::{About, Answer, Cost, CostedRow};
use crate::Error;
use crate::quantities::{bytes, millis};

/// A cost, with the text from which it was parsed.
pub struct Costs {
    asked: String,
    /// The cost of a request.
    pub cost: Cost,
}

impl Costs {
    /// Parses `asked` as a cost, or as the name of a device whose random reads determine the cost.
    ///
    /// # Errors
    /// Fails if `asked` is neither; the message says what was expected.
    pub fn named(asked: &str) -> Result<Costs, Error> {
        Ok(Costs { asked: asked.into(), cost: Cost::named(asked)? })
    }

    /// Like [`Costs::named`], but errors mention the option `cost_us`.
    ///
    /// # Errors
    /// Fails like [`Costs::named`].
    pub(in crate::plan) fn asked(asked: &str) -> Result<Costs, Error> {
        Costs::named(asked).map_err(|wrong| {
            let said = match wrong {
                Error::Unfit(wrong) => wrong,
                other => format!(
                    "got '{asked}', expected microseconds, as 100 or 100+0.5/KiB, or a device: {other}"
                ),
            };
            AskError::new("cost_us", said).into()
        })
    }

    /// States how long a server of speed 1 takes for a request.
    pub fn unit(&self) -> String {
        let told = self.cost.shown();
        let is_same = self.asked == told || self.asked == self.cost.to_string();
        let of = if is_same { String::new() } else { format!(" ({})", self.asked) };
        format!("A server of speed 1 takes {told} µs per request{of}")
    }

    /// States how long a server of speed 1 takes for a request, and for one of the mean length of
    /// `about`.
    pub(in crate::plan) fn of(&self, about: &About) -> String {
        format!(
            "{}, {} for one of the mean length, {}.",
            self.unit(),
            millis(about.mean_cost_us / 1e3),
            bytes(about.mean_length_bytes)
        )
    }
}

impl Answer {
    /// Explains what the speeds in the answer mean.
    pub fn meant(&self, costs: &Costs) -> [String; 2] {
        [
            costs.of(&self.about),
            "A speed lower by a thousandth is not enough. Requests that cannot be answered in time \
             are deferred, and no scheduler answers more in time."
                .into(),
        ]
    }

    /// Yields the rows of the answer, grouped by time bound.
    pub fn bounds(&self) -> impl Iterator<Item = &[CostedRow]> + Clone {
        self.rows.chunk_by(|one, other| one.within_ms == other.within_ms)
    }
}
