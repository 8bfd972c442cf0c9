//! The verb `describe`. The figures and what they mean are in [`forebay_trace::describe`].

pub(crate) mod page;
mod threads;
mod verb;

pub use verb::DescribeAsk;
