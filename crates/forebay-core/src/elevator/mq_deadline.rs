//! mq-deadline: deadline for multi-queue devices.
//!
//! Source: Linux `mq-deadline`. It differs from [`Deadline`] in that reads and writes share one pool of
//! tags, and in that a direction's batch resumes where its last one ended.

use super::deadline::{Deadline, DeadlineConfig};
use super::limits::SATA_TAGS;
use super::scheduler::{ElevatorVisitor, Scheduler};
use crate::contract::parameter::{Given, Listed, Parameter};
use crate::contract::spec::SpecError;

/// What it takes.
const PARAMETERS: &[Parameter] = &[
    Parameter::millis("read-expire-ms", 500.0),
    Parameter::millis("write-expire-ms", 5000.0),
    Parameter::whole("writes-starved", 2, 1),
    Parameter::whole("fifo-batch", 16, 1),
    Parameter::choice("front-merges", &["yes", "no"]),
    Parameter::whole("requests-max", 2 * SATA_TAGS, 1),
];

/// Linux's mq-deadline.
#[derive(Clone, Copy, Debug)]
pub struct MqDeadline;

impl Scheduler for MqDeadline {
    const LISTED: Listed = Listed {
        name: "mq-deadline",
        summary: "deadline for multi-queue: one pool of tags, batches resume where they were",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        let front_merges = given.is_first("front-merges")?;
        let config = DeadlineConfig::given(given)?;
        Ok(visitor.visit(Deadline::new(DeadlineConfig { front_merges, resumes: true, ..config })))
    }
}
