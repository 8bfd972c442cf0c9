//! How disks are arranged: what the paper compares.

use forebay_core::Device;

use crate::config::{Config, Transformation};
use crate::load::Load;
use crate::operation::Trouble;
use crate::simulated::{Simulated, simulate};

/// How disks are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Workload Shifting's enhanced model: no disk reads and writes in one stage.
    Enhanced,
    /// Its basic model: a log is transformed on its own disk.
    Basic,
    /// A log on all disks as one, in chunks of so many bytes; what it is transformed into lies there too.
    Raid0 {
        /// Bytes of a chunk.
        chunk_bytes: u64,
    },
}

impl Arrangement {
    /// Its name: `enhanced`, `basic`, `raid0`.
    pub fn name(self) -> &'static str {
        match self {
            Arrangement::Enhanced => "enhanced",
            Arrangement::Basic => "basic",
            Arrangement::Raid0 { .. } => "raid0",
        }
    }
}

/// A load on one arrangement, without transformation and with it.
#[derive(Clone, Debug)]
pub struct Compared {
    /// How the disks are arranged.
    pub arrangement: Arrangement,
    /// Puts are logged and nothing else.
    pub logged: Simulated,
    /// Logs are transformed meanwhile.
    pub transformed: Simulated,
}

impl Compared {
    /// How much longer the execution takes with transformation, in percent (the paper's rate of increase in
    /// execution time).
    pub fn slowed_percent(&self) -> f64 {
        let (logged, transformed) = (self.logged.execution, self.transformed.execution);
        (transformed.as_secs_f64() / logged.as_secs_f64() - 1.0) * 100.0
    }
}

/// Puts a load on each of these arrangements.
///
/// # Errors
/// [`Trouble`] where the disks could not take it.
pub fn compare<D: Device + Clone>(
    devices: &[D],
    config: &Config,
    load: Load,
    arrangements: &[Arrangement],
) -> Result<Vec<Compared>, Trouble> {
    let compared = |&arrangement: &Arrangement| {
        let (transformation, chunk) = match arrangement {
            Arrangement::Enhanced => (Transformation::Enhanced, None),
            Arrangement::Basic => (Transformation::Basic, None),
            Arrangement::Raid0 { chunk_bytes } => (Transformation::Basic, Some(chunk_bytes)),
        };
        let run = |transformation| {
            let config = Config { transformation, ..config.clone() };
            simulate(devices.to_vec(), chunk, config, load)
        };
        let (logged, transformed) = (run(Transformation::None)?, run(transformation)?);
        Ok(Compared { arrangement, logged, transformed })
    };
    arrangements.iter().map(compared).collect()
}
