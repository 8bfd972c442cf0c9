//! The verbs that list devices, policies and trace formats.

mod devices;
mod formats;
mod policies;

pub use devices::DevicesAsk;
pub use formats::FormatsAsk;
pub use policies::PoliciesAsk;
