//! The verb `store simulate`: what sorting costs those who put.

mod inputs;
mod page;
mod verb;

use serde::Serialize;

use crate::arrangement::Row;
use crate::prediction::Predicted;

pub use verb::StoreSimulateAsk;

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StoreSimulateAnswer {
    /// Of each arrangement, without transformation and with it.
    pub(crate) rows: Vec<Row>,
    /// What the first logs predict of one job a disk.
    pub(crate) predicted: Predicted,
    /// Whether idle disks should stand still; none where the device's file does not say what that saves.
    pub(crate) parking: Option<Parking>,
}

/// How long a disk rests between its turns as the log, and how long it must rest for a spin-up to pay.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Parking {
    pub(crate) rest_s: f64,
    pub(crate) break_even_s: f64,
}
