//! The inputs of `store simulate`, and its run.

use std::ops::ControlFlow;
use std::path::Path;

use forebay::Error;
use forebay::devices::{self, OpenDevice};
use forebay::plan::power::Disk;
use forebay::progress::Told;
use forebay::verb::{Answered, DeviceInput, Session, Verb, warn_named};
use forebay_ask::{Delay, Face};
use forebay_core::device::list::DeviceModel;

use super::inputs::{Arranged, ArrangementName, KeyOrder, PageSize, TreeName, TreeSyncName};
use super::{Parking, StoreSimulateAnswer, page};
use crate::arrangement::{Arrangement, Row, compare};
use crate::config::{Config, InPlace, Tree};
use crate::load::Load;
use crate::operation::Trouble;
use crate::prediction::predict;
use crate::simulated::Time;

/// Steps of a simulation between two reports of progress.
const STEPS: u32 = 64;

/// Every run draws the same keys and times.
const SEED: u64 = 1;

forebay_ask::ask! {
    /// Find by simulation how much sorting slows puts: the store's own code on models of disks
    ///
    /// Every arrangement of the disks takes the same puts twice: once they are only logged, once their logs also become
    /// sorted segments (Workload Shifting, Pan, Yue and Xiong).
    pub struct StoreSimulateAsk("store simulate") {
        /// A bundled device (see `forebay devices`) or a device file
        device: DeviceInput = "st1000nm0011" [.positional()],
        /// The disks of the store
        disks: u16 = "4" [.word("COUNT").between(4.0, 64.0)],
        /// The length of a value in bytes
        value_bytes: u32 = "100000" [.word("BYTES").between(1.0, 4e6)],
        /// The length of all values in MB
        total_mb: u32 = "1000" [.word("MB").between(1.0, 1e6)],
        /// How many writers there are, each with one put at a time
        writers: u32 = "1" [.word("COUNT").between(1.0, 1e5)],
        /// The time from an answer to the writer's next put
        host: Delay = "2.6ms",
        /// How the disks are arranged
        arrangement: Vec<ArrangementName> = "enhanced,basic,raid0",
        /// Never merge segments, as in the paper
        no_merging: bool,
        /// Count a put as done once the disk's cache has it. A power cut would lose such puts
        to_cache: bool,
        /// What logs become
        tree: TreeName = "runs",
        /// How many writes to a tree in place are under way at a time. A thread that waits for each has one
        tree_depth: u16 = "1" [.word("COUNT").between(1.0, 1024.0).requires("tree")],
        /// Let the store choose the length of logs and the gaps between batches, as it does when it serves
        tuned: bool,
        /// Run in real time: the disks take as long as their models, the store's own work as long as it takes
        wall: bool,
        /// Which keys are put
        keys: KeyOrder = "random" [.only(Face::Python)],
        /// The length of a log in KB, at which duty passes on
        log_kb: u32 = "5000" [.between(16.0, 1e6).only(Face::Python)],
        /// The size of a chunk of RAID 0 in KiB
        chunk_kib: u32 = "64" [.between(4.0, 65_536.0).only(Face::Python)],
        /// Read finished logs back, as in the paper, instead of taking them from memory
        read_log: bool [.only(Face::Python)],
        /// Write a put and then flush it, as by fsync (on RAID 0 on every disk), instead of writing it through
        flush: bool [.excludes(&["to_cache"]).only(Face::Python)],
        /// The size of a page of a tree in place in KiB. Values longer than a quarter of it are stored apart
        page_kib: PageSize = "8" [.requires("tree").only(Face::Python)],
        /// The memory for leaves of trees in place in MB
        tree_memory_mb: u32 = "2000" [.between(1.0, 1e6).only(Face::Python)],
        /// When changed pages of trees in place are written
        tree_sync: TreeSyncName = "log" [.requires("tree").only(Face::Python)],
        /// Also return when which disk began which stage
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
        for caution in &cautions {
            warn_named(session, Path::new(&device.name), caution);
        }
        session.begin("putting", None);
        let mut rows = Vec::new();
        for (nth, of) in self.arrangement.iter().enumerate() {
            let done_share = nth as f64 / self.arrangement.len() as f64;
            rows.extend(self.compared(&device, self.arrangement_of(*of), done_share, session)?);
        }
        let predicted = predict(&self.models(&device), &self.config(), self.load())
            .map_err(|trouble| refused(&device, &trouble))?;
        let answer = StoreSimulateAnswer { parking: self.parking(&rows), rows, predicted };
        let page = page::page(&self, &device.name, &answer, cautions);
        Answered::new(&answer, page)
    }
}

fn refused(device: &OpenDevice, trouble: &Trouble) -> Error {
    match trouble {
        Trouble::Closed => Error::Stopped,
        trouble => Error::Unfit(format!("{}: {trouble}", device.name)),
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

    /// The load on one arrangement.
    fn compared(
        &self,
        device: &OpenDevice,
        arrangement: Arrangement,
        done_share: f64,
        session: &mut dyn Session,
    ) -> Result<[Row; 2], Error> {
        let told = Told { doing: format!("putting on {}", arrangement.name()), done_share };
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
            .map_err(|trouble| refused(device, &trouble))
    }

    /// How long a disk of the enhanced arrangement rests, where the device's file says what standing still saves.
    fn parking(&self, rows: &[Row]) -> Option<Parking> {
        let enhanced = |row: &&Row| row.arrangement == Arrangement::Enhanced.name();
        let sorted = rows.iter().filter(enhanced).find(|row| row.transformation)?;
        let disk = Disk::open(&self.device.0, Some(1)).ok()?;
        Some(Parking {
            rest_s: sorted.logging_ms * f64::from(self.disks) / 1e3,
            break_even_s: disk.break_even().as_secs_f64(),
        })
    }
}
