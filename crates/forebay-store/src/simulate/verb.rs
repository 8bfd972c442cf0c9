//! The inputs of `store simulate`, and its implementation.

use std::ops::ControlFlow;
use std::path::Path;

use forebay::Error;
use forebay::devices::{self, OpenDevice};
use forebay::plan::power::Disk;
use forebay::progress::ProgressReport;
use forebay::verb::{Answered, DeviceInput, Session, Verb, warn_device};
use forebay_ask::{Delay, Face};
use forebay_core::DeviceModel;

use super::inputs::{Arranged, ArrangementName, KeyOrder, PageSize, TreeName, TreeSyncName};
use super::{Parking, StoreSimulateAnswer, page};
use crate::arrangement::{Arrangement, ArrangementRow, compare};
use crate::simulated::Time;
use crate::{Config, InPlace, Load, OperationError, Tree, predict};

/// The number of simulation steps between progress reports.
const STEPS: u32 = 64;

/// The seed, so that every run uses the same keys and times.
const SEED: u64 = 1;

forebay_ask::ask! {
    /// Find how much sorting slows down puts, by running the store's own code on models of disks
    ///
    /// Each arrangement of the disks is simulated twice with the same puts: once the puts are only
    /// logged, and once the logs are also converted to sorted segments (Workload Shifting, Pan, Yue
    /// and Xiong).
    pub struct StoreSimulateAsk("store simulate") {
        /// A bundled device (see `forebay devices`) or a device file
        device: DeviceInput = "st1000nm0011" [.positional()],
        /// The number of disks in the store
        disks: u16 = "4" [.word("COUNT").between(4.0, 64.0)],
        /// The length of a value in bytes
        value_bytes: u32 = "100000" [.word("BYTES").between(1.0, 4e6)],
        /// The total length of all values in MB
        total_mb: u32 = "1000" [.word("MB").between(1.0, 1e6)],
        /// The number of writers, each with one put at a time
        writers: u32 = "1" [.word("COUNT").between(1.0, 1e5)],
        /// The time from an answer to the writer's next put
        host: Delay = "2.6ms",
        /// How the disks are arranged
        arrangement: Vec<ArrangementName> = "enhanced,basic,raid0",
        /// Never merge segments, as in the paper
        no_merging: bool,
        /// Acknowledge a put once it is in the disk's cache, so that a power cut would lose it
        to_cache: bool,
        /// The structure that logs are converted to
        tree: TreeName = "runs",
        /// The number of concurrent writes to a B+tree that is updated in place; 1 means a single
        /// thread that waits for each write
        tree_depth: u16 = "1" [.word("COUNT").between(1.0, 1024.0).requires("tree")],
        /// Let the store choose the length of logs and the gaps between batches, as it does when
        /// serving
        tuned: bool,
        /// Run in real time: disks take the time of their models, and the store's own work takes
        /// its actual time
        wall: bool,
        /// The order of keys
        keys: KeyOrder = "random" [.only(Face::Python)],
        /// The length in KB at which a log is finished and duty passes to the next disk
        log_kb: u32 = "5000" [.between(16.0, 1e6).only(Face::Python)],
        /// The chunk size of RAID 0 in KiB
        chunk_kib: u32 = "64" [.between(4.0, 65_536.0).only(Face::Python)],
        /// Read finished logs back from disk, as in the paper, instead of taking them from memory
        read_log: bool [.only(Face::Python)],
        /// Flush after each write of puts, as fsync does (on RAID 0 on every disk), instead of
        /// writing through
        flush: bool [.excludes(&["to_cache"]).only(Face::Python)],
        /// The page size of a tree in place in KiB. Values longer than a quarter of a page are
        /// stored separately
        page_kib: PageSize = "8" [.requires("tree").only(Face::Python)],
        /// The memory for leaves of trees in place in MB
        tree_memory_mb: u32 = "2000" [.between(1.0, 1e6).only(Face::Python)],
        /// When changed pages of trees in place are written
        tree_sync: TreeSyncName = "log" [.requires("tree").only(Face::Python)],
        /// Also return the times at which disks began each stage
        stages: bool [.only(Face::Python)],
    }
}

impl Verb for StoreSimulateAsk {
    type Beyond = ();

    fn files(&self) -> Vec<&Path> {
        vec![devices::file_of(&self.device.0)]
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let device = devices::open(&self.device.0)?;
        let cautions = devices::cautions(&[&device]);
        warn_device(session, &device, &cautions);
        session.begin("putting", None);
        let mut rows = Vec::new();
        for (nth, of) in self.arrangement.iter().enumerate() {
            let done_share = nth as f64 / self.arrangement.len() as f64;
            rows.extend(self.compared(&device, self.arrangement_of(*of), done_share, session)?);
        }
        let predicted = predict(&self.models(&device), &self.config(), self.load())
            .map_err(|failure| refused(&device, &failure))?;
        let answer = StoreSimulateAnswer { parking: self.parking(&rows), rows, predicted };
        let page = page::page(&self, &device.name, &answer, cautions);
        Answered::new(&answer, page)
    }
}

fn refused(device: &OpenDevice, failure: &OperationError) -> Error {
    match failure {
        OperationError::Closed => Error::Stopped,
        failure => Error::Unfit(format!("{}: {failure}", device.name)),
    }
}

impl StoreSimulateAsk {
    fn models(&self, device: &OpenDevice) -> Vec<DeviceModel> {
        vec![device.model.clone(); self.disks.into()]
    }

    pub(super) fn load(&self) -> Load {
        Load {
            value_bytes: self.value_bytes,
            total_bytes: u64::from(self.total_mb) * 1_000_000,
            writers: self.writers,
            host: self.host.0,
            keys: self.keys.0,
            seed: SEED,
        }
    }

    fn config(&self) -> Config {
        Config {
            log_bytes: u64::from(self.log_kb) * 1000,
            read_log: self.read_log,
            tree: self.tree(),
            to_media: !self.to_cache,
            flushes_puts: self.flush,
            merges: !self.no_merging,
            tunes: self.tuned,
            notes_stages: self.stages,
            ..Config::default()
        }
    }

    fn tree(&self) -> Tree {
        match self.tree.0 {
            false => Tree::Runs,
            true => Tree::InPlace(InPlace {
                page_bytes: usize::from(self.page_kib.kib) * 1024,
                cache_bytes: u64::from(self.tree_memory_mb) * 1_000_000,
                sync: self.tree_sync.0,
                depth: self.tree_depth.into(),
            }),
        }
    }

    fn arrangement_of(&self, name: ArrangementName) -> Arrangement {
        match name.0 {
            Arranged::Enhanced => Arrangement::Enhanced,
            Arranged::Basic => Arrangement::Basic,
            Arranged::Raid0 => Arrangement::Raid0 { chunk_bytes: u64::from(self.chunk_kib) * 1024 },
        }
    }

    /// Runs the load on one arrangement.
    fn compared(
        &self,
        device: &OpenDevice,
        arrangement: Arrangement,
        done_share: f64,
        session: &mut dyn Session,
    ) -> Result<[ArrangementRow; 2], Error> {
        let told =
            ProgressReport { doing: format!("putting on {}", arrangement.name()), done_share };
        let mut steps = 0u32;
        let mut go_on = || {
            steps = steps.wrapping_add(1);
            match steps % STEPS {
                1 => session.progress(&told),
                _ => ControlFlow::Continue(()),
            }
        };
        let time = if self.wall { Time::Wall } else { Time::Virtual };
        let (models, config) = (self.models(device), self.config());
        compare(&models, &config, self.load(), arrangement, time, &mut go_on)
            .map(|compared| compared.rows())
            .map_err(|failure| refused(device, &failure))
    }

    /// Returns how long a disk of the enhanced arrangement rests between its turns, if the device
    /// file specifies the savings of spinning down.
    fn parking(&self, rows: &[ArrangementRow]) -> Option<Parking> {
        let enhanced = |row: &&ArrangementRow| row.arrangement == Arrangement::Enhanced.name();
        let sorted = rows.iter().filter(enhanced).find(|row| row.transformation)?;
        let disk = Disk::open(&self.device.0, Some(1)).ok()?;
        Some(Parking {
            rest_s: sorted.logging_ms * f64::from(self.disks) / 1e3,
            break_even_s: disk.break_even().as_secs_f64(),
        })
    }
}
