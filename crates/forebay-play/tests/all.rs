//! The verbs that run on the machine, as faces call them.

#![allow(clippy::unwrap_used)] // tests

#[path = "../../forebay/tests/verbs/law.rs"]
mod law;
mod play;
mod volume;
#[path = "../../forebay/tests/pages/walk.rs"]
mod walk;

use std::ops::ControlFlow;
use std::path::Path;

use forebay::progress::Told;
use forebay::verb::{Answered, Session, Verb, answer};
use forebay_ask::{Ask, Given, Spelling, read};
use forebay_trace::unpack::Consumed;

use law::is_sound;
use walk::walk;

/// Keeps warnings.
#[derive(Default)]
struct Quiet(Vec<String>);

impl Session for Quiet {
    fn begin(&mut self, _: &str, _: Option<&Path>) -> Consumed {
        Consumed::default()
    }
    fn progress(&mut self, _: &Told) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn read(&mut self, _: &Path, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn warn(&mut self, subject: &Path, sentence: &str) {
        self.0.push(format!("{}: {sentence}", subject.display()));
    }
}

/// The inputs of verb `V`.
fn asked<V: Verb>(given: &[(&str, &str)]) -> V {
    let mut all = Given::default();
    for (name, text) in given {
        all.text(name, *text);
    }
    read(&all).unwrap()
}

/// The answer of verb `V` to these inputs, which has what every answer has.
fn answered<V: Verb>(given: &[(&str, &str)]) -> Answered<V::Beyond> {
    let answered = answer(asked::<V>(given), &mut Quiet::default(), Spelling::Command).unwrap();
    is_sound(<V as Ask>::VERB, &answered);
    answered
}
