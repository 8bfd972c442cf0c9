//! The steps of a writer, which follow from their numbers, and the content of the sectors that they
//! write.

pub(crate) const SECTOR: usize = 512;
/// The number of sectors that may be written.
pub(crate) const SECTORS: u64 = 8 << 11;
/// More steps than a round ever takes.
pub(crate) const ROUND_STEPS: u64 = 1_000_000;

/// A pseudo-random number generator.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        forebay_testing::random(&mut self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// One action of a writer.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Write { first: u64, count: u64, durable: bool },
    Flush,
}

impl Step {
    pub(crate) fn at(number: u64) -> Step {
        let mut dice = Dice(number);
        if dice.below(16) == 0 {
            return Step::Flush;
        }
        // Between one sector and half a MiB; small sizes are more frequent.
        let count = 1 + dice.next() % (1 << dice.below(11));
        let first = dice.below(SECTORS - count);
        Step::Write { first, count, durable: dice.below(16) == 0 }
    }

    /// Returns the sectors that this step writes.
    pub(crate) fn sectors(self) -> std::ops::Range<u64> {
        match self {
            Step::Write { first, count, .. } => first..first + count,
            Step::Flush => 0..0,
        }
    }
}

/// Returns what step `number` writes to a sector.
pub(crate) fn content(number: u64, sector: u64) -> [u8; SECTOR] {
    let mut dice = Dice(number << 32 ^ sector);
    let mut bytes = [0; SECTOR];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].chunks_mut(8).for_each(|word| word.copy_from_slice(&dice.next().to_le_bytes()));
    bytes
}

/// Returns the step that wrote a sector with these bytes, or 0 if it was never written.
pub(crate) fn written_by(sector: u64, bytes: &[u8]) -> Result<u64, String> {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let is_whole = match number {
        0 => bytes.iter().all(|byte| *byte == 0),
        number => bytes == content(number, sector),
    };
    if is_whole { Ok(number) } else { Err(format!("sector {sector} is a mixture")) }
}
