//! The inputs of `array score`.

use std::path::Path;

use forebay_ask::{Choice, Value, one_of};
use forebay_core::stack::array::Update;
use serde::Serialize;

use super::{ArrayLoad, CHUNKS, Score, page, score};
use crate::verb::{Answered, DeviceInput, Session, Verb, warn_device};
use crate::{Error, ProgressReport, devices};

forebay_ask::ask! {
    /// Score RAID 6 and three copies for writes of 1 to 4 chunks, by simulation of six drives or
    /// more
    pub struct ArrayScoreAsk("array score") {
        /// A bundled device (see `forebay devices`) or a device file
        device: DeviceInput [.positional()],
        /// The drives of the array
        drives: u16 = "6" [.word("COUNT").between(6.0, 32.0)],
        /// The size of a chunk in KiB
        chunk_kib: u32 = "64" [.word("KIB").between(4.0, 1024.0)],
        /// The amount of data in the array in MiB, to which the writes go
        filled_mib: u32 = "20480" [.word("MIB").between(1.0, 1_048_576.0)],
        /// The number of outstanding writes
        outstanding: Vec<u32> = "1,4,16,64" [.word("COUNT").between(1.0, 4096.0)],
        /// Where changed chunks are written
        update: UpdateInput = "in-place",
        /// The number of simulated writes of each size
        writes: u32 = "5000" [.word("COUNT").at_least(1.0)],
        /// The seed for the addresses of the writes
        seed: u64 = "1" [.word("N")],
    }
}

/// The value of the option that selects where changed chunks are written.
#[derive(Clone, Copy, Debug)]
pub struct UpdateInput(Update);

impl Value for UpdateInput {
    const WORD: &'static str = "WHERE";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "in-place", about: "in the same place, as in the paper" },
        Choice { name: "fresh", about: "in new places, as in volumes" },
    ];

    fn parse(text: &str) -> Result<UpdateInput, String> {
        one_of(text, Self::CHOICES, [UpdateInput(Update::InPlace), UpdateInput(Update::Fresh)])
    }
}

#[derive(Serialize)]
struct ArrayScoreAnswer {
    rows: Vec<Score>,
}

impl Verb for ArrayScoreAsk {
    type Beyond = ();

    fn files(&self) -> Vec<&Path> {
        vec![devices::file_of(&self.device.0)]
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let device = devices::open(&self.device.0)?;
        let cautions = devices::cautions(&[&device]);
        warn_device(session, &device, &cautions);
        session.begin("simulating", None);
        let mut rows = Vec::new();
        for &outstanding in &self.outstanding {
            let doing = format!("simulating {outstanding} outstanding writes");
            let done_share = rows.len() as f64 / self.outstanding.len() as f64;
            if session.progress(&ProgressReport { doing, done_share }).is_break() {
                return Err(Error::Stopped);
            }
            let load = ArrayLoad {
                chunk_bytes: self.chunk_kib * 1024,
                chunks: CHUNKS,
                update: self.update.0,
                filled_bytes: u64::from(self.filled_mib) << 20,
                outstanding,
                writes: self.writes,
                seed: self.seed,
            };
            rows.push(score(&vec![&device; self.drives.into()], load)?);
        }
        let page = page::page(&device.name, self.drives, &rows, cautions);
        Answered::new(&ArrayScoreAnswer { rows }, page)
    }
}
