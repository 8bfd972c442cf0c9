//! Where the heads are over time, thinned so that any run fits a picture.

use forebay_core::{Completion, Observer};

/// Points kept at most.
const POINTS_MAX: usize = 200_000;

/// Records the cylinder of every n-th I/O; n doubles whenever the points grow too many.
#[derive(Clone, Debug, Default)]
pub struct HeadTrace {
    /// (seconds, cylinder) of I/Os in the order they were done.
    pub points: Vec<(f64, u32)>,
    every: u64,
    /// I/Os until the next that is kept.
    left: u64,
}

impl Observer for HeadTrace {
    fn io(&mut self, completion: &Completion) {
        if !completion.io.op.moves_data() {
            return;
        }
        if self.left == 0 {
            let every = self.every.max(1);
            if self.points.len() == POINTS_MAX {
                let mut index = 0;
                self.points.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.every = every * 2;
            }
            self.left = self.every.max(1);
            self.points.push((completion.at.as_secs_f64(), completion.mechanics.cylinder_first));
        }
        self.left -= 1;
    }
}
