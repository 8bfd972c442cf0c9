//! Presents answers: figures with their units, sentences, pages, and renderers of pages for the
//! terminal, HTML and Markdown.
//!
//! A verb builds one [`page::Page`], which all renderers show. Renderers know nothing about verbs,
//! and this crate depends on no other crate of the workspace.

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
