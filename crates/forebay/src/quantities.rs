//! Figures in plain words, for sentences.

pub(crate) use forebay_trace::plural::counted;
pub(crate) use forebay_trace::quantities::{
    bound, bytes, change, millis, percent, seconds, significant,
};
