//! Self-contained HTML documents.
//!
//! Invariants: a document refers to nothing outside itself and works without its scripts; all text
//! from outside is escaped; NaN is never printed; the markup is well-formed XML. Pictures are SVG
//! written here rather than by a plotting library, so that their colors follow the reader's light
//! or dark scheme.

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

/// Builds a figure from a picture and its caption. If it is wider than the screen, it can be
/// scrolled with the keyboard.
pub fn figure(picture: &str, caption: &str) -> String {
    format!("<figure tabindex=\"0\">{picture}<figcaption>{caption}</figcaption></figure>")
}
