//! Combines the threads of each kind.

use super::rows::{ThreadRow, TypeRow};
use super::rules::ThreadKind;
use super::tally::{Scale, Tally};

/// A thread and its kind.
pub(super) struct Thread<'a> {
    pub(super) label: String,
    pub(super) kind: ThreadKind,
    pub(super) tally: &'a Tally,
}

/// All threads of a kind.
pub(super) struct Type {
    label: String,
    kind: ThreadKind,
    threads: u64,
    tally: Tally,
}

/// Returns the types among `threads`, with the most requests first. They are numbered separately
/// for each functionality.
pub(super) fn of(threads: &[Thread<'_>]) -> Vec<Type> {
    let mut types: Vec<Type> = Vec::new();
    for thread in threads {
        let known = types.iter().position(|of| of.kind == thread.kind);
        let at = known.unwrap_or_else(|| {
            types.push(Type::new(thread.kind));
            types.len() - 1
        });
        types[at].threads += 1;
        types[at].tally.merge(thread.tally);
    }
    types.sort_by_key(|of| std::cmp::Reverse(of.tally.requests()));
    for index in 0..types.len() {
        let functionality = types[index].kind.functionality;
        let before = types[..index].iter().filter(|of| of.kind.functionality == functionality);
        types[index].label = format!("{} #{}", functionality.word(), before.count());
    }
    types
}

impl Type {
    fn new(kind: ThreadKind) -> Type {
        Type { label: String::new(), kind, threads: 0, tally: Tally::default() }
    }

    pub(super) fn row(&self, scale: &Scale) -> TypeRow {
        TypeRow {
            label: self.label.clone(),
            kind: self.kind,
            threads: self.threads,
            figures: self.tally.figures(scale),
        }
    }
}

impl Thread<'_> {
    pub(super) fn row(&self, types: &[Type], scale: &Scale) -> ThreadRow {
        let of_type = types.iter().find(|of| of.kind == self.kind);
        ThreadRow {
            label: self.label.clone(),
            of_type: of_type.map_or_else(String::new, |of| of.label.clone()),
            figures: self.tally.figures(scale),
        }
    }
}
