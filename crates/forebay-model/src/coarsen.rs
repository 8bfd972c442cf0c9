//! Reduces the size of a model by making its parts coarser, step by step, until it fits.

use crate::Model;

/// The default maximum size of a model in bytes.
pub const BUDGET_BYTES: usize = 64 << 10;

/// The minimum numbers of blocks and of cells that coarsening leaves.
const BLOCKS_MIN: usize = 4;
const CELLS_MIN: u32 = 64;

impl Model {
    /// Returns the finest model whose file has at most `budget_bytes`, or the coarsest possible
    /// one, and its file.
    pub fn within(mut self, budget_bytes: usize) -> (Model, Vec<u8>) {
        let mut file = self.to_file();
        let mut step = 0;
        while file.len() > budget_bytes {
            match self.coarser(step) {
                Some(coarser) => {
                    self = coarser;
                    file = self.to_file();
                }
                None if step > STEPS_MAX => break,
                None => (),
            }
            step += 1;
        }
        (self, file)
    }

    /// Applies a step; steps alternate between the parts of the model. Returns None if it changes
    /// nothing.
    fn coarser(&self, step: usize) -> Option<Model> {
        let mut model = self.clone();
        match step % 8 {
            0 | 4 if self.arrivals.blocks() > BLOCKS_MIN => {
                model.arrivals = self.arrivals.coarser()
            }
            0 | 4 if step > 16 => model.arrivals = self.arrivals.rounder(),
            2 if self.places.cells <= CELLS_MIN => {
                model.places = self.places.fewer((256 >> (step / 8)).max(4));
            }
            1 => model.places = self.places.rounder(&self.kinds()),
            2 => model.places = self.places.coarser(),
            3 => model.chain = self.chain.rounder(1 << (step / 8)),
            5 | 7 if self.chain.epochs.len() > 1 => model.chain = self.chain.coarser(),
            6 => {
                let fewer = 12 >> (step / 8).min(3);
                model
                    .sizes
                    .iter_mut()
                    .for_each(|sizes| sizes.lengths = sizes.lengths.commonest(fewer));
            }
            _ => return None,
        }
        (model != *self).then_some(model)
    }
}

/// The number of steps after which nothing can be coarsened further.
const STEPS_MAX: usize = 96;
