//! The verb `generate`: generates traces from models.

pub mod verb;
