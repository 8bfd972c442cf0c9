//! `forebay volume`: arrays with redundancy on real files and devices.

use clap::{Args, Subcommand};
use forebay_play::volume::{
    VolumeCheckAsk, VolumeCreateAsk, VolumeGrowAsk, VolumeReplaceAsk, VolumeStatusAsk,
};

use crate::verb::Asked;

/// Make and look after a volume: drives together, with redundancy
///
/// A volume is its drives, files or block devices; a folder stands for all files in it. Drives say which volume
/// they belong to, so their order does not matter.
#[derive(Args)]
pub(crate) struct Volume {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Create(Asked<VolumeCreateAsk>),
    Status(Asked<VolumeStatusAsk>),
    Check(Asked<VolumeCheckAsk>),
    Replace(Asked<VolumeReplaceAsk>),
    Grow(Asked<VolumeGrowAsk>),
}

impl Volume {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Create(verb) => verb.run(),
            What::Status(verb) => verb.run(),
            What::Check(verb) => verb.run(),
            What::Replace(verb) => verb.run(),
            What::Grow(verb) => verb.run(),
        }
    }
}
