//! The verbs that list devices and policies.

mod devices;
mod policies;

pub use devices::DevicesAsk;
pub use policies::PoliciesAsk;
