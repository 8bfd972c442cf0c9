//! Builds schedulers by name. Each scheduler has one row with its type. Everything else
//! ([`Scheduler`]) is in its module in [`elevator`](crate::elevator).

use super::{shapers, yardsticks};
use crate::contract::{
    AnyPolicy, Given, Listed, Policy, PolicyVisitor, Spec, SpecError, suggestion,
};
use crate::elevator::{BLOCK_PARAMETERS, BlockLayer, Elevator, ElevatorVisitor, Limits, Scheduler};

macro_rules! schedulers {
    ($($module:ident::$scheduler:ident,)*) => {
        /// All schedulers, simplest first. [`super::SHAPERS`] lists the shapers.
        pub const POLICIES: &[Listed] = &[$($crate::elevator::$module::$scheduler::LISTED),*];

        /// Builds the scheduler that `spec` names, if it exists.
        fn with_scheduler<V: PolicyVisitor>(
            spec: &Spec,
            len_max: u32,
            visitor: V,
        ) -> Option<Result<V::Out, SpecError>> {
            $(
                if spec.name() == $crate::elevator::$module::$scheduler::LISTED.name {
                    return Some(layered::<$crate::elevator::$module::$scheduler, V>(spec, len_max, visitor));
                }
            )*
            None
        }
    };
}

schedulers! {
    noop::Noop,
    clook::CLook,
    deadline::Deadline,
    anticipatory::Anticipatory,
    cfq::Cfq,
    none::NoScheduler,
    mq_deadline::MqDeadline,
    bfq::Bfq,
    kyber::Kyber,
    bid::Bid,
    forebay::Forebay,
}

/// Builds the policy that `spec` names, for a device whose longest I/O is `len_max` bytes. Passes
/// it to `visitor` with its own type, so that hot loops are compiled for it.
pub fn with_policy<V: PolicyVisitor>(
    spec: &str,
    len_max: u32,
    visitor: V,
) -> Result<V::Out, SpecError> {
    let spec = Spec::parse(spec)?;
    if shapers::is_shaper(spec.name()) {
        return shapers::shaper(&spec, len_max, None).map(|shaper| visitor.visit(shaper));
    }
    if let Some(error) = yardsticks::refused(&spec) {
        return Err(error);
    }
    with_scheduler(&spec, len_max, visitor).unwrap_or_else(|| {
        let all = [POLICIES, shapers::SHAPERS, super::PLACEMENTS, super::ARRAYS].into_iter();
        let names: Vec<&str> = all.flatten().map(|listed| listed.name).collect();
        Err(no_policy(spec.name(), &names))
    })
}

/// Checks, without a device, that the policy that `spec` names exists, and, if it is a scheduler,
/// its parameters.
///
/// # Errors
/// If there is no such policy, or if a parameter is invalid.
pub fn check(spec: &str) -> Result<(), SpecError> {
    let parsed = Spec::parse(spec)?;
    let is_in = |listed: &[Listed]| listed.iter().any(|one| one.name == parsed.name());
    let others = [shapers::SHAPERS, super::PLACEMENTS, super::ARRAYS, super::YARDSTICKS];
    match others.into_iter().any(is_in) {
        true => Ok(()),
        false => build(spec, u32::MAX).map(drop),
    }
}

/// Returns the error that there is no policy called `name`, with the one of `names` that was
/// probably meant.
pub fn no_policy(name: &str, names: &[&str]) -> SpecError {
    let near = suggestion(name, names);
    SpecError(format!("no policy '{name}'{near}; `forebay policies` lists all"))
}

/// Builds the policy that `spec` names and returns it boxed.
pub fn build(spec: &str, len_max: u32) -> Result<AnyPolicy, SpecError> {
    with_policy(spec, len_max, Boxed)
}

/// A visitor that boxes the policy.
pub(super) struct Boxed;

impl PolicyVisitor for Boxed {
    type Out = AnyPolicy;
    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Self::Out {
        Box::new(policy)
    }
}

/// Builds a scheduler and its block layer.
fn layered<S: Scheduler, V: PolicyVisitor>(
    spec: &Spec,
    len_max: u32,
    visitor: V,
) -> Result<V::Out, SpecError> {
    let mut tables = S::LISTED.parameters.to_vec();
    tables.push(BLOCK_PARAMETERS);
    let given = Given::new(spec, &tables);
    let limits = S::limits(&given, Limits::given(&given, len_max)?)?;
    S::visit(&given, Layer { spec, limits, visitor })?
}

/// Adds the block layer to an elevator once all parameters are known.
struct Layer<'a, V> {
    spec: &'a Spec,
    limits: Limits,
    visitor: V,
}

impl<V: PolicyVisitor> ElevatorVisitor for Layer<'_, V> {
    type Out = Result<V::Out, SpecError>;
    fn visit<E: Elevator + Send + 'static>(self, elevator: E) -> Self::Out {
        self.spec.finish()?;
        Ok(self.visitor.visit(BlockLayer::new(elevator, self.limits)))
    }
}
