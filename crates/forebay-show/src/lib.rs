//! What people read of an answer: figures with their units, sentences, pages, and the renderers of pages for a terminal, as
//! HTML and as Markdown.
//!
//! A verb decides once what a [`page::Page`] says. Renderers know pages and no verb: this crate depends on none of ours.

#![forbid(unsafe_code)]

pub mod figure;
pub mod grid;
pub mod html;
pub mod markdown;
pub mod page;
pub mod plural;
pub mod prose;
pub mod quantities;
pub mod table;
pub mod terminal;
