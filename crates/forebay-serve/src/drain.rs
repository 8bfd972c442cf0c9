//! Draining the flash of a write-back cache on a running server.

use std::thread;
use std::time::Duration;

use forebay_core::contract::VolumeOrder;
use serde_json::{Value, json};

use crate::back::keeps_data;
use crate::driver::{Driver, PATIENCE};
use crate::error::{Error, unfit};

/// The interval at which progress is polled.
const LOOKS: Duration = Duration::from_millis(250);

impl Driver {
    /// Makes the cache write all data that exists only on its flash to the disk, and stop caching.
    /// Calls `progress` until that is done, or until it returns false.
    ///
    /// # Errors
    /// The policy has no cache to drain.
    pub(crate) fn drain_flash(
        &self,
        progress: &mut dyn FnMut(Value) -> bool,
    ) -> Result<Value, Error> {
        if !keeps_data(&self.current().policy) {
            return Err(unfit(format!("'{}': all data is already on its disk", self.name)));
        }
        self.order_volume(VolumeOrder::Drain)?;
        let first = self.blocks_on_flash()?;
        let mut left = first;
        while left > 0.0 {
            let work_percent = 100.0 * (1.0 - left / first.max(left));
            if !progress(json!({ "blocks_left": left, "work_percent": work_percent })) {
                break;
            }
            thread::sleep(LOOKS);
            left = self.blocks_on_flash()?;
        }
        Ok(json!({ "blocks_left": left }))
    }

    /// Returns the number of blocks that exist only on the flash.
    fn blocks_on_flash(&self) -> Result<f64, Error> {
        let tally = self.tally(PATIENCE)?;
        let named = tally.gauges.iter().find(|gauge| gauge.name == "log_named");
        Ok(named.map_or(0.0, |gauge| gauge.value))
    }
}
