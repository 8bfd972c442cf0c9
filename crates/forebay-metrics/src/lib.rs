//! What servers count, as a page of text for Prometheus (its exposition format, version 0.0.4), and the little of
//! HTTP that it takes to be asked for it.

#![forbid(unsafe_code)]

mod page;
mod scrape;

pub use page::Page;
pub use scrape::{Pages, Scraped, Wanted, next_request};
