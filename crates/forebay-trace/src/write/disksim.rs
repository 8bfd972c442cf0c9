//! Writes DiskSim's default ASCII format, with one request per line: `time device block blocks
//! flags`.
//!
//! Units: milliseconds with six decimals from the first request, blocks of 512 bytes. Bit 0 of the
//! flags is set for reads (DiskSim 4.0 manual, section "Default trace format"). A request that does
//! not consist of whole blocks is extended to all the blocks it touches. Flushes and trims cannot
//! be represented and are omitted. Volumes become device numbers.

use forebay_words::plural::{counted, verb};
use std::io::Write;

use forebay_core::Op;

use super::{Draft, LossCounts, Writer};
use crate::{Dictionary, Notes, Record, TraceError};

/// The size of a block.
const BLOCK_BYTES: u64 = 512;

pub(super) fn create(draft: Draft) -> Result<Box<dyn Writer>, TraceError> {
    Ok(Box::new(DiskSim { draft, lost: LossCounts::default(), left_out: 0, widened: 0 }))
}

struct DiskSim {
    draft: Draft,
    lost: LossCounts,
    /// The number of flushes and trims that were omitted.
    left_out: u64,
    /// The number of requests that were extended to whole blocks.
    widened: u64,
}

impl Writer for DiskSim {
    fn write(&mut self, batch: &[Record], _: &Dictionary) -> Result<(), TraceError> {
        for r in batch {
            let read = match r.op {
                Op::Read => 1,
                Op::Write => 0,
                Op::Flush | Op::Trim | Op::Park | Op::Open => {
                    self.left_out += 1;
                    continue;
                }
            };
            let end = r.offset.saturating_add(u64::from(r.len));
            let (first, blocks_end) = (r.offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
            self.widened += u64::from(!(r.offset | end).is_multiple_of(BLOCK_BYTES));
            self.lost.count(r);
            let (ms, ns) = (r.at.0 / 1_000_000, r.at.0 % 1_000_000);
            let (volume, blocks) = (r.volume, blocks_end - first);
            writeln!(self.draft, "{ms}.{ns:06} {volume} {first} {blocks} {read}")
                .map_err(|error| self.draft.failed(error))?;
        }
        Ok(())
    }

    fn finish(
        self: Box<Self>,
        dictionary: &Dictionary,
        _: &Notes,
    ) -> Result<Vec<String>, TraceError> {
        let mut lost = self.lost.sentences(dictionary);
        if self.left_out > 0 {
            lost.push(format!("{} flushes and trims are left out", self.left_out));
        }
        if self.widened > 0 {
            let widened = counted(self.widened, "request");
            let were = verb(self.widened, "was", "were");
            lost.push(format!("{widened} {were} widened to whole 512-byte blocks"));
        }
        let numbered = |(number, name): (usize, &String)| *name != number.to_string();
        if dictionary.volumes.iter().enumerate().any(numbered) {
            let volumes = counted(dictionary.volumes.len() as u64, "volume");
            lost.push(format!("the names of {volumes} are lost; their numbers are kept"));
        }
        self.draft.publish()?;
        Ok(lost)
    }
}
