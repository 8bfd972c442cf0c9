//! Computes the figures of each volume, and the sequential runs on volumes.

use super::description::{Runs, Seeks, VolumeRow};
use super::sequential::{Breaks, Distances, Run, RunLengths};
use super::{direction, mean_kib, share};
use crate::{Dictionary, Record};

/// The totals of each volume.
#[derive(Clone, Debug, Default)]
pub(super) struct Volumes {
    volumes: Vec<Volume>,
    breaks: Breaks,
    runs: RunLengths,
    distances: Distances,
    /// The number of data requests whose volume is not in the dictionary, which would be a bug in
    /// the reader.
    pub(super) nameless: u64,
}

#[derive(Clone, Debug, Default)]
struct Volume {
    run: Run,
    /// The number of reads and of writes.
    requests: [u64; 2],
    bytes: [u64; 2],
    sequential: u64,
    extent_bytes: u64,
}

impl Volumes {
    /// Adds data requests.
    pub(super) fn add(&mut self, data: &[Record], dictionary: &Dictionary) {
        if self.volumes.len() < dictionary.volumes.len() {
            self.volumes.resize_with(dictionary.volumes.len(), Volume::default);
        }
        self.breaks.clear(data.len());
        let mut sequential = 0;
        for r in data {
            let Some(volume) = self.volumes.get_mut(r.volume as usize) else {
                self.nameless += 1;
                continue;
            };
            let continues = self.breaks.step(&mut volume.run, r);
            volume.add(r, continues);
            sequential += u64::from(continues);
        }
        self.distances.add(&self.breaks, sequential);
        self.runs.add(&self.breaks);
    }

    /// Returns the number of volumes with data requests.
    pub(super) fn count(&self) -> u64 {
        self.volumes.iter().filter(|v| v.requests() > 0).count() as u64
    }

    pub(super) fn sequential_share(&self) -> Option<f64> {
        self.distances.sequential_share()
    }

    pub(super) fn seeks(&self) -> Seeks {
        self.distances.figures()
    }

    pub(super) fn runs(&self) -> Runs {
        let mut runs = self.runs.clone();
        runs.add_runs(self.volumes.iter().map(|volume| &volume.run));
        runs.figures()
    }

    /// Returns a row for each volume with data requests. `footprints` contains the footprint of
    /// each volume in bytes.
    pub(super) fn rows(&self, dictionary: &Dictionary, footprints: &[u64]) -> Vec<VolumeRow> {
        let requests: u64 = self.volumes.iter().map(Volume::requests).sum();
        let labels = dictionary.volumes.iter().zip(footprints);
        let volumes = self.volumes.iter().zip(labels).filter(|(v, _)| v.requests() > 0);
        volumes.map(|(v, (label, &footprint))| v.row(label, requests, footprint)).collect()
    }
}

impl Volume {
    #[inline]
    fn add(&mut self, r: &Record, continues: bool) {
        let len = u64::from(r.len);
        self.requests[direction(r)] += 1;
        self.bytes[direction(r)] += len;
        self.extent_bytes = self.extent_bytes.max(r.offset.saturating_add(len));
        self.sequential += u64::from(continues);
    }

    fn requests(&self) -> u64 {
        self.requests.iter().sum()
    }

    fn row(&self, label: &str, of_requests: u64, footprint_bytes: u64) -> VolumeRow {
        VolumeRow {
            label: label.to_owned(),
            requests: self.requests(),
            reads: self.requests[0],
            writes: self.requests[1],
            read_bytes: self.bytes[0],
            write_bytes: self.bytes[1],
            sequential_share: share(self.sequential, self.requests().saturating_sub(1)),
            mean_kib: mean_kib(self.bytes.iter().sum(), self.requests()),
            request_share: share(self.requests(), of_requests),
            footprint_bytes,
            extent_bytes: self.extent_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, write};
    use super::*;

    #[test]
    fn each_volume_has_its_own_position() {
        let on = |volume, r: Record| Record { volume, ..r };
        let names = ["a", "unused", "b"].map(str::to_owned).to_vec();
        let dictionary = Dictionary { streams: Vec::new(), volumes: names };
        let mut v = Volumes::default();
        v.add(
            &[
                on(0, read(0, 0, 512)),
                on(2, write(0, 512, 512)),
                on(0, read(0, 512, 1024)),
                on(2, read(0, 4096, 512)),
                on(7, read(0, 0, 512)),
            ],
            &dictionary,
        );
        assert_eq!((v.count(), v.nameless, v.sequential_share()), (2, 1, Some(0.5)));
        assert_eq!((v.runs().count, v.seeks().p50_bytes), (3, Some(3072)));
        let rows = v.rows(&dictionary, &[1536, 0, 1024]);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].label.as_str(), rows[0].sequential_share), ("a", Some(1.0)));
        assert_eq!((rows[0].extent_bytes, rows[0].mean_kib), (1536, Some(0.75)));
        assert_eq!((rows[1].reads, rows[1].writes, rows[1].footprint_bytes), (1, 1, 1024));
        assert_eq!((rows[1].sequential_share, rows[1].request_share), (Some(0.0), Some(0.5)));
    }
}
