//! Serves the metrics of a server: formats them as text for Prometheus (exposition format, version
//! 0.0.4), and answers HTTP requests for them.

#![forbid(unsafe_code)]

mod page;
mod scrape;

pub use page::{Metric, Page};
pub use scrape::{Pages, Scraped, Wanted, next_request};
