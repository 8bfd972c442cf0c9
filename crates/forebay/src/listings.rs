//! The verbs that list what can be named: devices and policies.

mod devices;
mod policies;

pub use devices::DevicesAsk;
pub use policies::PoliciesAsk;
