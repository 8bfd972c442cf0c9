//! mq-deadline: deadline for multi-queue devices.
//!
//! Source: Linux `mq-deadline`. Unlike in [`Deadline`], reads and writes share one pool of tags,
//! and a batch resumes where the last batch of the same direction ended.

use super::{Deadline, DeadlineConfig, ElevatorVisitor, Limits, SATA_TAGS, Scheduler};
use crate::contract::{Given, Listed, Origin, Parameter, SpecError};

/// The parameters that the scheduler accepts.
const PARAMETERS: &[Parameter] = &[
    Parameter::millis("read-expire-ms", 500.0)
        .about("a read older than this starts the next batch of reads"),
    Parameter::millis("write-expire-ms", 5000.0)
        .about("a write older than this starts the next batch of writes"),
    Parameter::whole("writes-starved", 2, 1)
        .about("number of batches of reads that may overtake waiting writes"),
    Parameter::whole("fifo-batch", 16, 1).about("maximum number of requests in a batch"),
    Parameter::choice("front-merges", &["yes", "no"])
        .about("whether a new request is merged with a waiting one that begins where it ends"),
    Parameter::whole("requests-max", 2 * SATA_TAGS, 1)
        .about("maximum number of queued requests, reads and writes together"),
];

/// Linux's mq-deadline scheduler.
#[derive(Clone, Copy, Debug)]
pub struct MqDeadline;

/// The default of Linux's `async_depth`: `nr_requests` of a SATA disk.
const ASYNC_DEPTH: u32 = 2 * SATA_TAGS;

impl Scheduler for MqDeadline {
    const LISTED: Listed = Listed {
        name: "mq-deadline",
        origin: Origin::Linux,
        summary: "deadline for multi-queue devices: one pool of tags, and batches resume where \
            they stopped",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        let front_merges = given.is_first("front-merges")?;
        let config = DeadlineConfig::given(given)?;
        Ok(visitor.visit(Deadline::new(DeadlineConfig { front_merges, resumes: true, ..config })))
    }

    /// Asynchronous writes use at most `async_depth` tags by default, which does not change if
    /// `nr_requests` is raised.
    fn limits(given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        let writes_max =
            given.spec.at_least("writes-max", limits.requests_max.min(ASYNC_DEPTH), 1)?;
        Ok(Limits { writes_max, ..limits }.waking(1))
    }
}
