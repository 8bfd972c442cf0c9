//! Computes the capacity that several volumes need on a shared server, given what each of them
//! needs alone.

use std::path::PathBuf;

use forebay::plan::arrival_times::{ArrivalTimes, Clock};
use forebay::plan::capacity::{CapacityRow, Promises};
use forebay::plan::confidence::Bootstrap;
use forebay::plan::consolidate::{Begin, Client, together};
use forebay_ask::{PartialShare, Share, positive_duration};
use forebay_core::Nanos;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};

use crate::error::argument;
use crate::results::loads;
use crate::signals::detached;
use crate::source::Source;
use crate::table::json;

/// The maximum number of clients on a server.
const CLIENTS_MAX: usize = 1 << 16;

/// Clients that are added one at a time, for `forebay.fleet.needs`. Uses 12 bytes of memory per
/// request.
#[pyclass(module = "forebay._forebay")]
pub(crate) struct Together {
    within: Nanos,
    fraction: Share,
    bootstrap: Option<Bootstrap>,
    arrivals: Vec<ArrivalTimes>,
    alone: Vec<Client>,
}

#[pymethods]
impl Together {
    /// Creates an empty set. Each client is promised that `fraction` of its requests are answered
    /// `within` a time. `confidence` and `seed` are for the interval.
    #[new]
    fn new(
        within: &str,
        fraction: &Bound<'_, PyAny>,
        confidence: Option<f64>,
        seed: u64,
    ) -> PyResult<Together> {
        // Floats get the fewest digits that identify them, and no exponent, which Python would use
        // below 0.0001.
        let fraction = match fraction.cast::<PyFloat>() {
            Ok(number) => number.value().to_string(),
            Err(_) => fraction.str()?.to_string(),
        };
        let fraction = fraction.parse().map_err(|said| argument("fraction", said))?;
        let within = positive_duration(within).map_err(|said| argument("within", said))?;
        let level = confidence.map(|level| level.to_string().parse::<PartialShare>()).transpose();
        let level = level.map_err(|said| argument("confidence", said))?;
        let bootstrap = level.map(|level| Bootstrap { level: level.0, seed });
        Ok(Together { within, fraction, bootstrap, arrivals: Vec::new(), alone: Vec::new() })
    }

    /// Adds a client whose trace is at `path`, begins at `begin_ns` and needs `alone_iops` on its
    /// own.
    fn add(
        &mut self,
        py: Python<'_>,
        path: PathBuf,
        begin_ns: u64,
        alone_iops: u64,
    ) -> PyResult<()> {
        if self.alone.len() == CLIENTS_MAX {
            let text = format!(
                "got more than {CLIENTS_MAX} volumes, expected at most that many on one server"
            );
            return Err(argument("traces", text));
        }
        let source = Source::File(path, None);
        // The resolution of the timestamps was already checked for the client alone.
        let clock = Clock::of([self.within], true);
        let read = detached(py, |signals| {
            let mut reader = source.open()?;
            ArrivalTimes::read(source.name(), &mut *reader, false, clock, &mut |_| signals.go_on())
        })?;
        self.alone.push(Client {
            client: self.alone.len() + 1,
            trace: read.path.display().to_string(),
            requests: read.requests(),
            duration_s: read.duration().as_secs_f64(),
            rows: vec![CapacityRow {
                volume: None,
                stream: None,
                within_ms: self.within.as_millis_f64(),
                fraction: self.fraction.as_f64(),
                capacity_iops: alone_iops,
                interval: None,
                held_out: None,
            }],
        });
        self.arrivals.push(read.later(Nanos(begin_ns)));
        Ok(())
    }

    /// Returns what the clients need together: a row of `forebay plan consolidate --format json`.
    fn answer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let clients: Vec<&ArrivalTimes> = self.arrivals.iter().collect();
        let promises = Promises::new(vec![self.within], vec![self.fraction]);
        let when = (Begin::AsRecorded, Nanos::ZERO);
        let rows =
            detached(py, |_| together(&clients, &self.alone, when, &promises, self.bootstrap))?;
        loads(py, &json(&rows[0])?)
    }
}
