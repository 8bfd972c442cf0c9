//! Computes the number, bytes and sizes of requests by direction.

use forebay_core::{Flags, Op};

use super::description::Sizes;
use super::distribution::{ByDirection, Distribution};
use super::{kib, share};
use crate::Record;

const SMALL_BYTES: u32 = 4 << 10;
const LARGE_BYTES: u32 = 256 << 10;

/// The totals of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) records: u64,
    pub(super) flushes: u64,
    pub(super) trims: u64,
    pub(super) trim_bytes: u64,
    small_requests: u64,
    large_bytes: u64,
    sizes: ByDirection,
}

impl Totals {
    /// Adds records, and the data requests among them.
    pub(super) fn add(&mut self, records: &[Record], data: &[Record]) {
        self.records += records.len() as u64;
        for r in records {
            self.flushes += u64::from((r.op == Op::Flush) | r.flags.has(Flags::PREFLUSH));
            if r.op == Op::Trim {
                self.trims += 1;
                self.trim_bytes += u64::from(r.len);
            }
        }
        self.sizes.add_all(data.iter().map(|r| (r, u64::from(r.len))));
        for r in data {
            self.small_requests += u64::from(r.len <= SMALL_BYTES);
            self.large_bytes += if r.len >= LARGE_BYTES { u64::from(r.len) } else { 0 };
        }
    }

    pub(super) fn reads(&self) -> u64 {
        self.sizes.reads().count()
    }

    pub(super) fn writes(&self) -> u64 {
        self.sizes.writes().count()
    }

    pub(super) fn requests(&self) -> u64 {
        self.reads() + self.writes()
    }

    pub(super) fn read_bytes(&self) -> u64 {
        self.sizes.reads().sum()
    }

    pub(super) fn write_bytes(&self) -> u64 {
        self.sizes.writes().sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.read_bytes() + self.write_bytes()
    }

    pub(super) fn small_request_share(&self) -> Option<f64> {
        share(self.small_requests, self.requests())
    }

    pub(super) fn large_request_byte_share(&self) -> Option<f64> {
        share(self.large_bytes, self.bytes())
    }

    pub(super) fn read_size(&self) -> Sizes {
        sizes(self.sizes.reads())
    }

    pub(super) fn write_size(&self) -> Sizes {
        sizes(self.sizes.writes())
    }
}

fn sizes(d: &Distribution) -> Sizes {
    Sizes {
        mean_kib: d.mean().map(|bytes| bytes / 1024.0),
        p50_kib: d.quantile(0.5).map(kib),
        p90_kib: d.quantile(0.9).map(kib),
        p99_kib: d.quantile(0.99).map(kib),
        max_kib: d.max().map(kib),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pick_data;
    use super::super::tests::{read, write};
    use super::*;

    fn totals(batch: &[Record]) -> Totals {
        let mut totals = Totals::default();
        totals.add(batch, pick_data(batch, &mut Vec::new()));
        totals
    }

    #[test]
    fn directions_are_counted_apart() {
        let t = totals(&[read(0, 0, 4096), read(1, 0, 8192), write(2, 0, 262_144)]);
        assert_eq!((t.records, t.requests(), t.reads(), t.writes()), (3, 3, 2, 1));
        assert_eq!((t.read_bytes(), t.write_bytes()), (12_288, 262_144));
        assert_eq!((t.read_size().mean_kib, t.read_size().p50_kib), (Some(6.0), Some(4.0)));
        assert_eq!((t.write_size().p99_kib, t.read_size().max_kib), (Some(256.0), Some(8.0)));
        assert_eq!(t.small_request_share(), Some(1.0 / 3.0));
        assert_eq!(t.large_request_byte_share(), Some(262_144.0 / 274_432.0));
    }

    #[test]
    fn preflushes_count_once_and_trims_are_no_data() {
        let flush = Record { op: Op::Flush, flags: Flags::PREFLUSH, ..write(0, 0, 0) };
        let commit = Record { flags: Flags::PREFLUSH, ..write(0, 0, 512) };
        let trim = Record { op: Op::Trim, ..write(0, 0, 1 << 20) };
        let t = totals(&[flush, commit, trim, write(0, 0, 0)]);
        assert_eq!((t.records, t.flushes, t.requests()), (4, 2, 1));
        assert_eq!((t.trims, t.trim_bytes, t.bytes()), (1, 1 << 20, 512));
    }
}
