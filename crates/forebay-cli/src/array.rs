//! `forebay array`: prepares adaptive redundancy.

use clap::Args;
use forebay::array_score::ArrayScoreAsk;

use crate::verb::{ParsedVerb, verbs};

/// Find which RAID level suits which writes on a device
#[derive(Args)]
pub(crate) struct Array {
    #[command(subcommand)]
    question: Question,
}

verbs! {
    Question {
        Score(ParsedVerb<ArrayScoreAsk>),
    }
}

impl Array {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.question.run()
    }
}
