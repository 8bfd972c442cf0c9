//! The declaration in a scheduler's file by which it can be built by name.

use super::block::Elevator;
use super::limits::Limits;
use crate::contract::parameter::{Given, Listed};
use crate::contract::spec::SpecError;

/// A scheduler that can be asked for by name.
pub trait Scheduler {
    /// The name, the summary and the parameters.
    const LISTED: Listed;

    /// Builds the requested elevator, and passes it to `visitor` with its concrete type.
    ///
    /// # Errors
    /// A parameter has an invalid value.
    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError>;

    /// Returns the limits of the scheduler's request queue if they differ from the common ones.
    ///
    /// # Errors
    /// A parameter has an invalid value.
    fn limits(_given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(limits)
    }
}

/// Something done with an elevator whose type is known at compile time.
pub trait ElevatorVisitor {
    /// The result of the visit.
    type Out;
    /// Does it.
    fn visit<E: Elevator + Send + 'static>(self, elevator: E) -> Self::Out;
}
