//! Presents answers: figures with their units, sentences, pages, and renderers of pages for the
//! terminal, HTML and Markdown.
//!
//! A verb builds one [`page::Page`], which all renderers show. Renderers know nothing about verbs,
//! and this crate depends only on `forebay-words`.

#![forbid(unsafe_code)]

pub mod figure;
pub mod grid;
pub mod html;
pub mod markdown;
pub mod page;
pub mod prose;
pub mod table;
pub mod terminal;

pub use figure::{Figure, Unit};
pub use page::{
    Block, Chart, ChartAxis, ChartScale, KeyFigure, Page, Place, Section, Series, Tone, Verdict,
};
pub use table::{Cell, CellText, Column, Row, RowMark, Table, TableText};
