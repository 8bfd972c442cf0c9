//! The input types of `store simulate`.

use forebay_ask::{Choice, Takes, Value};

use crate::{Keys, TreeSync};

/// Declares an input type whose values are words.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident($type:ty), $word:literal { $($text:literal: $value:expr, $about:literal;)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub(super) $type);

        impl Value for $name {
            const WORD: &'static str = $word;
            const CHOICES: &'static [Choice] = &[$(Choice { name: $text, about: $about }),+];

            fn parse(text: &str) -> Result<$name, String> {
                match text {
                    $($text => Ok($name($value)),)+
                    _ => {
                        let names: Vec<&str> = Self::CHOICES.iter().map(|one| one.name).collect();
                        Err(format!("got '{text}', expected one of {}", names.join(", ")))
                    }
                }
            }
        }
    };
}

/// The arrangement of the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arranged {
    Enhanced,
    Basic,
    Raid0,
}

words! {
    /// An arrangement of the disks.
    ArrangementName(Arranged), "HOW" {
        "enhanced": Arranged::Enhanced, "one job per disk: no disk reads and writes in the same \
            stage";
        "basic": Arranged::Basic, "a log is sorted on its own disk";
        "raid0": Arranged::Raid0, "all disks combined, for logs and segments";
    }
}

words! {
    /// The order of keys.
    KeyOrder(Keys), "ORDER" {
        "random": Keys::Random, "random, without duplicates";
        "sequential": Keys::Sequential, "in ascending order";
    }
}

words! {
    /// The structure to which logs are converted; true for a tree in place.
    TreeName(bool), "WHAT" {
        "runs": false, "sorted runs, each written in one pass";
        "in-place": true, "one B+tree per disk, updated in place as in the paper";
    }
}

words! {
    /// When changed pages of trees in place are written.
    TreeSyncName(TreeSync), "WHEN" {
        "record": TreeSync::Record, "after each record";
        "log": TreeSync::Log, "when a log has been merged into the tree";
        "close": TreeSync::Close, "at the end; earlier if memory is full";
    }
}

/// The size of a page in KiB, a multiple of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize {
    pub(super) kib: u16,
}

impl Value for PageSize {
    const WORD: &'static str = "KIB";
    const TAKES: Takes = Takes::Number;
    const PYTHON: &'static str = "int";

    fn parse(text: &str) -> Result<PageSize, String> {
        match text.parse::<u16>() {
            Ok(kib) if (4..=16_384).contains(&kib) && kib.is_multiple_of(4) => Ok(PageSize { kib }),
            _ => Err(format!("got '{text}', expected a multiple of 4 from 4 to 16384")),
        }
    }
}
