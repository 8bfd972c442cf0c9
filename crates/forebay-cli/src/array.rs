//! `forebay array`: prepares adaptive redundancy.

use clap::{Args, Subcommand};
use forebay::array_score::ArrayScoreAsk;

use crate::verb::ParsedVerb;

/// Find which RAID level suits which writes on a device
#[derive(Args)]
pub(crate) struct Array {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    Score(ParsedVerb<ArrayScoreAsk>),
}

impl Array {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Question::Score(question) = self.question;
        question.run()
    }
}
