//! Tests the verbs that use the machine itself, called as front ends call them.

#![allow(clippy::unwrap_used)] // tests

#[path = "../../forebay/tests/verbs/law.rs"]
mod law;
mod play;
mod served;
mod volume;
#[path = "../../forebay/tests/pages/walk.rs"]
mod walk;

use forebay::verb::Verb;
use forebay_ask::{Given, read};

use law::{Quiet, answered};
use walk::walk;

/// Parses the inputs of verb `V`.
fn asked<V: Verb>(given: &[(&str, &str)]) -> V {
    let mut all = Given::default();
    for (name, text) in given {
        all.text(name, *text);
    }
    read(&all).unwrap()
}
