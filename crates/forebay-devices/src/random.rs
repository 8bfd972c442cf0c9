//! Pseudo-random numbers that are the same in every run.

/// A generator, with its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns the next number.
    pub(crate) fn draw(&mut self) -> u64 {
        forebay_core::random::next(&mut self.0)
    }

    /// Returns a number from 0 up to 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
