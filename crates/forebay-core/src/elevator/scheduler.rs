//! The declaration in a scheduler's file by which it can be built by name.

use super::block::Elevator;
use super::limits::Limits;
use crate::contract::parameter::{Given, Listed};
use crate::contract::spec::SpecError;

/// A scheduler that can be asked for by name.
pub trait Scheduler {
    /// Its name, what it does, its parameters.
    const LISTED: Listed;

    /// Builds the elevator that is asked for, and hands it to `visitor` with its own type.
    ///
    /// # Errors
    /// What is wrong with what is given.
    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError>;

    /// What its request queue takes, where that differs from what every scheduler's takes.
    ///
    /// # Errors
    /// What is wrong with what is given.
    fn limits(_given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(limits)
    }
}

/// Something done with an elevator whose type is known at compile time.
pub trait ElevatorVisitor {
    /// What comes of it.
    type Out;
    /// Does it.
    fn visit<E: Elevator + Send + 'static>(self, elevator: E) -> Self::Out;
}
