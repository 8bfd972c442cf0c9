//! Pages as HTML documents that stand by themselves.
//!
//! Invariants: a document refers to nothing outside itself, and works without its scripts; every text from outside is
//! escaped; no figure is printed that is not a number; the markup is well-formed XML. Pictures are SVG written here, not by
//! a plotting library, because their colors follow the reader's light or dark scheme.

pub mod axis;
pub mod bars;
pub mod charts;
pub mod document;
mod page;
pub mod paragraphs;
pub mod plot;
pub mod table;
pub mod text;

pub use page::document;

/// A picture and its caption. The keyboard scrolls it where it is wider than the screen.
pub fn figure(picture: &str, caption: &str) -> String {
    format!("<figure tabindex=\"0\">{picture}<figcaption>{caption}</figcaption></figure>")
}
