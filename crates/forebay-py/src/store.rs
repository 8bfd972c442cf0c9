//! The store in virtual time.

use forebay::devices;
use forebay_core::Nanos;
use forebay_store::{Arrangement, Config, InPlace, Keys, Load, Row, Time, Tree, TreeSync, compare};
use pyo3::prelude::*;

use crate::error::{argument, raised};
use crate::given::{given, several_or_none};
use crate::signals::detached;

/// Puts a load into the store on models of disks, without transformation and with it: what sorting costs
/// those who put (Workload Shifting). The store's own code, in virtual time.
///
/// `disks` of `device`, 4 to 64; `total_mb` of values of `value_bytes` each, by `writers`, each of which puts
/// `host_ms` after it was answered; `keys` "random" or "sequential". Logs have `log_kb`; `arrangements` are
/// "enhanced", "basic" and "raid0" (in chunks of `chunk_kib`). With `read_log` a finished log is read back;
/// without `merges` segments are not merged; without `to_media` a put counts once the disk has taken it, with
/// `flush` it is written and then flushed, on RAID 0 on every disk; `gap_kb` are left out before each batch;
/// `tuned`, the store chooses that and the length of logs, as it does when it serves.
///
/// With `tree="in-place"` logs become part of one B+tree a disk, updated in place, in pages of `page_kib`, of which
/// `tree_memory_mb` in all stay in memory; pages that changed are written after each "record", each "log" or at the
/// "close" (`tree_sync`), `tree_depth` at a time.
///
/// A list of dicts, two for each arrangement, without and with `transformation`: `execution_s`,
/// `throughput_mb_per_s`, `slowed_percent`, `put_p50_ms`, `put_p99_ms`, `put_max_ms`, `settled_s`, `logging_ms`,
/// `transforming_ms`, `overlaps`, `stalls`, `merges`, `held_back_s`, `log_bytes`, `gap_bytes`, `busy_s`, `energy_j`,
/// `written_share`, `leaves_read`, `pages_written`; with `stages` also when which disk began which stage (`at_s`, `disk`, `stage`).
#[pyfunction]
#[pyo3(signature = (
    device="st1000nm0011", *, disks=4, value_bytes=100_000, total_mb=1000, writers=1, host_ms=2.6, keys="random",
    log_kb=5000, arrangements=None, chunk_kib=64, read_log=false, merges=true, to_media=true, flush=false,
    gap_kb=0, tuned=false, tree="runs", page_kib=8, tree_memory_mb=2000, tree_sync="log", tree_depth=1, stages=false,
    seed=1,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn store_simulate<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = given)] device: &str,
    #[pyo3(from_py_with = given)] disks: u16,
    #[pyo3(from_py_with = given)] value_bytes: u32,
    #[pyo3(from_py_with = given)] total_mb: u32,
    #[pyo3(from_py_with = given)] writers: u32,
    #[pyo3(from_py_with = given)] host_ms: f64,
    #[pyo3(from_py_with = given)] keys: &str,
    #[pyo3(from_py_with = given)] log_kb: u32,
    #[pyo3(from_py_with = several_or_none)] arrangements: Option<Vec<String>>,
    #[pyo3(from_py_with = given)] chunk_kib: u32,
    #[pyo3(from_py_with = given)] read_log: bool,
    #[pyo3(from_py_with = given)] merges: bool,
    #[pyo3(from_py_with = given)] to_media: bool,
    #[pyo3(from_py_with = given)] flush: bool,
    #[pyo3(from_py_with = given)] gap_kb: u32,
    #[pyo3(from_py_with = given)] tuned: bool,
    #[pyo3(from_py_with = given)] tree: &str,
    #[pyo3(from_py_with = given)] page_kib: u32,
    #[pyo3(from_py_with = given)] tree_memory_mb: u32,
    #[pyo3(from_py_with = given)] tree_sync: &str,
    #[pyo3(from_py_with = given)] tree_depth: u32,
    #[pyo3(from_py_with = given)] stages: bool,
    #[pyo3(from_py_with = given)] seed: u64,
) -> PyResult<Bound<'py, PyAny>> {
    within("disks", disks.into(), 4, 64)?;
    within("value_bytes", value_bytes, 1, 4_000_000)?;
    within("total_mb", total_mb, 1, 1_000_000)?;
    within("writers", writers, 1, 100_000)?;
    within("log_kb", log_kb, 16, 1_000_000)?;
    within("chunk_kib", chunk_kib, 4, 65_536)?;
    within("gap_kb", gap_kb, 0, 10_000)?;
    if !(0.0..=1e6).contains(&host_ms) {
        return Err(argument("host_ms", format!("got {host_ms}, expected 0 to 1000000")));
    }
    let keys = match keys {
        "random" => Keys::Random,
        "sequential" => Keys::Sequential,
        _ => return Err(argument("keys", format!("got '{keys}', expected random or sequential"))),
    };
    let names =
        arrangements.unwrap_or_else(|| ["enhanced", "basic", "raid0"].map(String::from).into());
    let arrangement = |name: &String| match name.as_str() {
        "enhanced" => Ok(Arrangement::Enhanced),
        "basic" => Ok(Arrangement::Basic),
        "raid0" => Ok(Arrangement::Raid0 { chunk_bytes: u64::from(chunk_kib) * 1024 }),
        _ => Err(argument(
            "arrangements",
            format!("got '{name}', expected enhanced, basic or raid0"),
        )),
    };
    let in_place = in_place((page_kib, tree_memory_mb, tree_sync, tree_depth))?;
    let tree = match tree {
        "runs" => Tree::Runs,
        "in-place" => Tree::InPlace(in_place),
        _ => return Err(argument("tree", format!("got '{tree}', expected runs or in-place"))),
    };
    let arrangements = names.iter().map(arrangement).collect::<PyResult<Vec<_>>>()?;
    let opened = devices::open(device).map_err(|error| raised(error.into()))?;
    let total_bytes = u64::from(total_mb) * 1_000_000;
    let host = Nanos::from_millis_f64(host_ms);
    let load = Load { value_bytes, total_bytes, writers, host, keys, seed };
    let config = Config {
        log_bytes: u64::from(log_kb) * 1000,
        gap_bytes: (u64::from(gap_kb) * 1000).next_multiple_of(4096),
        read_log,
        merges,
        tunes: tuned,
        to_media,
        flushes_puts: flush,
        tree,
        notes_stages: stages,
        ..Config::default()
    };
    let models = vec![opened.model; disks.into()];
    let rows = detached(py, |signals| {
        let mut rows: Vec<Row> = Vec::new();
        for arrangement in arrangements {
            match compare(&models, &config, load, &[arrangement], Time::Virtual, &mut || {
                signals.go_on()
            }) {
                Ok(compared) => rows.extend(compared.iter().flat_map(|compared| compared.rows())),
                Err(trouble) => return Ok(Err(trouble)),
            }
        }
        Ok(Ok(rows))
    })?;
    let rows = rows.map_err(|trouble| argument("device", trouble.to_string()))?;
    let text =
        serde_json::to_string(&rows).map_err(|error| argument("device", error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// How a tree is updated in place: KiB of a page, MB of memory, when and how many pages are written.
fn in_place((page_kib, memory_mb, sync, depth): (u32, u32, &str, u32)) -> PyResult<InPlace> {
    within("page_kib", page_kib, 4, 16_384)?;
    within("tree_memory_mb", memory_mb, 1, 1_000_000)?;
    within("tree_depth", depth, 1, 1024)?;
    if !page_kib.is_multiple_of(4) {
        return Err(argument("page_kib", format!("got {page_kib}, expected a multiple of 4")));
    }
    let sync = match sync {
        "record" => TreeSync::Record,
        "log" => TreeSync::Log,
        "close" => TreeSync::Close,
        _ => {
            let what = format!("got '{sync}', expected record, log or close");
            return Err(argument("tree_sync", what));
        }
    };
    let (page_bytes, cache_bytes) = (page_kib as usize * 1024, u64::from(memory_mb) * 1_000_000);
    Ok(InPlace { page_bytes, cache_bytes, sync, depth: depth as usize })
}

pub(crate) fn within(name: &str, got: u32, least: u32, most: u32) -> PyResult<()> {
    match (least..=most).contains(&got) {
        true => Ok(()),
        false => Err(argument(name, format!("got {got}, expected {least} to {most}"))),
    }
}
