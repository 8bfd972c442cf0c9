//! The trait that a scheduler implements so that it can be built by name.

use super::block::Elevator;
use super::limits::Limits;
use crate::contract::{Given, Listed, SpecError};

/// A scheduler that users can select by name.
pub trait Scheduler {
    /// The name, the description and the parameters.
    const LISTED: Listed;

    /// Builds the elevator with the given parameters and passes it to `visitor` with its concrete
    /// type.
    ///
    /// # Errors
    /// If a parameter has an invalid value.
    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError>;

    /// Returns the limits of the scheduler's request queue, if they differ from the common ones in
    /// `limits`.
    ///
    /// # Errors
    /// If a parameter has an invalid value.
    fn limits(_given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(limits)
    }
}

/// An operation on an elevator whose type is known at compile time.
pub trait ElevatorVisitor {
    /// The result of the visit.
    type Out;
    /// Performs the operation on `elevator`.
    fn visit<E: Elevator + Send + 'static>(self, elevator: E) -> Self::Out;
}
