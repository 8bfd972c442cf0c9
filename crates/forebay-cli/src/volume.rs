//! `forebay volume`: arrays with redundancy on files and devices.

use clap::Args;
use forebay_play::volume::{
    VolumeCheckAsk, VolumeCreateAsk, VolumeGrowAsk, VolumeRemoveAsk, VolumeReplaceAsk,
    VolumeStatusAsk,
};

use crate::verb::{ParsedVerb, verbs};

/// Create and maintain volumes: several drives combined with redundancy
///
/// A volume consists of drives, which are files or block devices; a folder stands for all files in
/// it. Each drive records which volume it belongs to, so the order of the drives does not matter.
#[derive(Args)]
pub(crate) struct Volume {
    #[command(subcommand)]
    what: What,
}

verbs! {
    What {
        Create(ParsedVerb<VolumeCreateAsk>),
        Status(ParsedVerb<VolumeStatusAsk>),
        Check(ParsedVerb<VolumeCheckAsk>),
        Replace(ParsedVerb<VolumeReplaceAsk>),
        Grow(ParsedVerb<VolumeGrowAsk>),
        Remove(ParsedVerb<VolumeRemoveAsk>),
    }
}

impl Volume {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.what.run()
    }
}
