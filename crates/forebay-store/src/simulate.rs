//! The verb `store simulate`: measures how much transformation slows down puts.

mod inputs;
mod page;
mod verb;

use serde::Serialize;

use crate::Predicted;
use crate::arrangement::ArrangementRow;

pub use verb::StoreSimulateAsk;

/// The answer of `store simulate`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StoreSimulateAnswer {
    /// For each arrangement, one row without transformation and one with it.
    pub(crate) rows: Vec<ArrangementRow>,
    /// The prediction from the first logs for the enhanced arrangement.
    pub(crate) predicted: Predicted,
    /// Whether spinning down idle disks is worthwhile; None if the device file does not specify the
    /// savings.
    pub(crate) parking: Option<Parking>,
}

/// How long a disk rests between its turns on duty, and how long it must rest to make spinning down
/// worthwhile.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Parking {
    pub(crate) rest_s: f64,
    pub(crate) break_even_s: f64,
}
