//! `forebay plan`: what a promise costs. One file a question.

use clap::{Args, Subcommand};
use forebay::plan::capacity::CapacityAsk;

use crate::plan_buy::Buy;
use crate::plan_consolidate::Consolidate;
use crate::plan_power::Power;
use crate::plan_sla::Sla;
use crate::verb::Asked;

/// Find what a promise such as "99 % within 10 ms" costs
#[derive(Args)]
pub(crate) struct Plan {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    Capacity(Box<Asked<CapacityAsk>>),
    Consolidate(Consolidate),
    Sla(Sla),
    Power(Power),
    Buy(Box<Buy>),
}

impl Plan {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.question {
            Question::Capacity(question) => question.run(),
            Question::Consolidate(question) => question.run(),
            Question::Sla(question) => question.run(),
            Question::Power(question) => question.run(),
            Question::Buy(question) => question.run(),
        }
    }
}
