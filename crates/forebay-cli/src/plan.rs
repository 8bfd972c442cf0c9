//! `forebay plan`: computes the cost of keeping a promise. Each question has its own module.

use clap::Args;
use forebay::plan::buy::BuyAsk;
use forebay::plan::capacity::CapacityAsk;
use forebay::plan::consolidate::ConsolidateAsk;
use forebay::plan::power::PowerAsk;
use forebay::plan::sla::SlaAsk;
use forebay::plan::volume::VolumeAsk;

use crate::verb::{ParsedVerb, verbs};

/// Compute the cost of a promise such as "99 % within 10 ms"
#[derive(Args)]
pub(crate) struct Plan {
    #[command(subcommand)]
    question: Question,
}

verbs! {
    Question {
        Capacity(Box<ParsedVerb<CapacityAsk>>),
        Consolidate(Box<ParsedVerb<ConsolidateAsk>>),
        Sla(Box<ParsedVerb<SlaAsk>>),
        Power(Box<ParsedVerb<PowerAsk>>),
        Buy(Box<ParsedVerb<BuyAsk>>),
        Volume(Box<ParsedVerb<VolumeAsk>>),
    }
}

impl Plan {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.question.run()
    }
}
