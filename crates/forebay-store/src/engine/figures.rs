//! The figures of a running store.

use std::rc::Rc;

use super::{Engine, Figures, Stage, State, version};

impl Engine {
    /// Returns the counters.
    pub(crate) fn figures(&self) -> Figures {
        let state = self.state.borrow();
        Figures {
            log_bytes: state.log_size.bytes(),
            gap_bytes: self.gap_bytes(),
            periods: state.log_size.periods(),
            is_saturated: state.log_size.is_saturated(self.disks.len()),
            merge_debt: self.merge_debt(&state),
            ..state.figures
        }
    }

    /// Returns the stage of each disk.
    pub(crate) fn stages(&self) -> Vec<Stage> {
        let state = self.state.borrow();
        (0..self.disks.len()).map(|disk| state.stage(disk)).collect()
    }

    /// Returns the number of runs as a share of the maximum.
    pub(super) fn merge_debt(&self, state: &State) -> f64 {
        state.version.runs.len() as f64 / self.config.runs_max.max(1) as f64
    }

    /// Returns the bytes of segments on all disks and the number of runs.
    pub(crate) fn segment_totals(&self) -> (u64, usize) {
        let version = Rc::clone(&self.state.borrow().version);
        (version.segments().map(|segment| segment.described.len).sum(), version.runs.len())
    }

    /// Returns the memory that grows with the data: records of logs, filters, top nodes and other
    /// nodes. Data in transit to or from disks is not included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let state = self.state.borrow();
        let logs: u64 = state.logs.iter().map(|log| log.record_bytes.get()).sum();
        let of = |segment: &Rc<version::Segment>| {
            segment.filter.bytes() + segment.top.as_ref().map_or(0, |top| top.bytes())
        };
        logs + state.version.segments().map(of).sum::<u64>() + state.nodes.bytes()
    }

    /// Returns the number of records other than deletions, in segments and logs.
    pub(crate) fn records(&self) -> u64 {
        let state = self.state.borrow();
        let in_segments = state.version.segments().map(|segment| {
            let shape = segment.described.shape;
            shape.records - shape.tombstones.min(shape.records)
        });
        let in_logs = state.logs.iter().map(|log| log.len_values());
        in_segments.sum::<u64>() + in_logs.sum::<u64>()
    }
}
