//! Selects the requests that go to one of several devices, if the trace's volumes are striped over
//! all of them.

use forebay_core::{Nanos, Request};
use forebay_trace::Record;

use super::STRIPE_BYTES;
use crate::layout::VolumeLayout;

/// An iterator over the requests that go to one device.
pub(in crate::plan) struct Striped<R> {
    pub(in crate::plan) records: R,
    pub(in crate::plan) layout: VolumeLayout,
    pub(in crate::plan) devices: usize,
    pub(in crate::plan) lane: usize,
    /// The usable capacity of a device in bytes.
    pub(in crate::plan) usable: u64,
    /// The time between arrivals; `None` to keep the recorded arrivals.
    pub(in crate::plan) apart: Option<Nanos>,
    pub(in crate::plan) next: u64,
}

impl<R: Iterator<Item = Record>> Iterator for Striped<R> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        loop {
            let record = self.records.next()?;
            let Some(mut request) = self.layout.place(&record, self.next) else { continue };
            let (stripe, within) = (request.offset / STRIPE_BYTES, request.offset % STRIPE_BYTES);
            let devices = self.devices as u64;
            if stripe % devices != self.lane as u64 {
                continue;
            }
            let end = self.usable.saturating_sub(u64::from(request.len));
            request.offset = (stripe / devices * STRIPE_BYTES + within).min(end);
            if let Some(apart) = self.apart {
                request.at = Nanos(apart.0.saturating_mul(self.next));
            }
            self.next += 1;
            return Some(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Map;
    use forebay_core::{Flags, Op};

    const MIB: u64 = 1 << 20;

    /// Returns the offsets on device `lane` of these reads, with two devices of four stripes each.
    fn offsets(lane: usize, reads: &[(u64, u32)]) -> Vec<u64> {
        let record = |&(offset, len): &(u64, u32)| Record {
            at: Nanos::ZERO,
            offset,
            latency: None,
            len,
            stream: 0,
            volume: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        let layout = VolumeLayout::new(&[8 * MIB], 8 * MIB, Map::Scale);
        let records = reads.iter().map(record);
        let (devices, usable) = (2, 4 * MIB);
        let striped = Striped { records, layout, devices, lane, usable, apart: None, next: 0 };
        striped.map(|request| request.offset).collect()
    }

    #[test]
    fn stripes_go_round_the_devices() {
        let reads =
            [0, MIB + 4096, 2 * MIB, 3 * MIB + 8192, 7 * MIB + 512].map(|offset| (offset, 512));
        assert_eq!(offsets(0, &reads), [0, MIB]);
        assert_eq!(offsets(1, &reads), [4096, MIB + 8192, 3 * MIB + 512]);
    }

    #[test]
    fn requests_beyond_a_device_end_with_it() {
        // The first read is the last 4 KiB of a device; the second starts there and extends beyond
        // the device.
        let reads = [(7 * MIB - 4096, 4096), (7 * MIB - 4096, 65_536)];
        assert_eq!(offsets(0, &reads), [4 * MIB - 4096, 4 * MIB - 65_536]);
    }
}
