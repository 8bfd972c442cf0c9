//! Self-contained HTML documents.
//!
//! Invariants: a document refers to nothing outside itself, and works without its scripts. All text
//! from outside is escaped. NaN is never printed. The markup is well-formed XML. Pictures are SVG
//! generated here, not by a plotting library, so that their colors follow the reader's light or
//! dark scheme.

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

/// Builds a figure from a picture and its caption. A figure that is wider than the screen can be
/// scrolled with the keyboard.
pub fn figure(picture: &str, caption: &str) -> String {
    format!("<figure tabindex=\"0\">{picture}<figcaption>{caption}</figcaption></figure>")
}
