//! The verb `describe`. The figures are defined in [`forebay_trace::describe`].

mod oddities;
pub(crate) mod page;
mod threads;
mod verb;

pub use verb::DescribeAsk;
