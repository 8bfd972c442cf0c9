//! Fuzz targets for files of drives, models and stores, and for `capture`, which divides the
//! kernel's stream into records.

use std::path::{Path, PathBuf};

use forebay_core::contract::device::Device;
use forebay_core::{Flags, Nanos, Op, Request};
use forebay_devices::fit::sweep::Sweep;
use forebay_devices::fit::{DriveFacts, Measurements, fit as fit_drive, parse};
use forebay_devices::volume::formula::Formula;
use forebay_devices::{DiskSpec, disksim as import, read_spec, write};
use forebay_model::Model;
use forebay_model::generate::{GenerateOptions, Generator};
use forebay_store::hostile::disk;

// This module is private to its crate and has no dependencies, so it is included as a file.
#[allow(dead_code)]
#[path = "../../crates/forebay-live/src/capture/records.rs"]
mod records;

use records::{HEAD, Records};

/// Divides a stream that arrives in pieces of `piece` bytes into records. Returns the records, the
/// number of bytes outside of records, and the number of bytes left over.
fn cut(stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, u64, usize) {
    let (mut records, mut found) = (Records::default(), Vec::new());
    for bytes in stream.chunks(piece) {
        let added: Result<(), ()> = records.add(bytes, |mut record| {
            assert!(record.bytes().len() >= HEAD);
            let _ = (record.kind(), record.pid(), record.len_bytes());
            let named = record.naming("name");
            assert_eq!(named[..4], record.bytes()[..4]);
            record.number(7);
            found.push(record.bytes().to_vec());
            Ok(())
        });
        added.expect("nothing here fails");
    }
    (found, records.foreign_bytes, records.pending_bytes())
}

/// `capture` must find the same records, whatever the size of the pieces in which the stream
/// arrives.
pub(crate) fn capture(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    let whole = cut(stream, stream.len().max(1));
    let in_records: usize = whole.0.iter().map(Vec::len).sum();
    assert!(in_records as u64 + whole.1 + whole.2 as u64 <= stream.len() as u64);
    assert_eq!(cut(stream, usize::from(piece) + 1), whole);
}

/// Device files are accepted or rejected with a one-line message. An accepted device must serve its
/// first and last bytes.
pub(crate) fn devices(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Skip these, because simulating wear takes as long as the file says.
    if text.contains("overwritten_percent") && !text.contains("overwritten_percent = 0\n") {
        return;
    }
    let mut device = match forebay_devices::read(Path::new("input.toml"), text) {
        Ok(device) => device.model,
        Err(error) => {
            assert!(error.to_string().lines().count() == 1, "{error}");
            return;
        }
    };
    let capacity = device.capacity();
    assert!(capacity >= 4096, "an empty device");
    let mut now = Nanos::ZERO;
    for (id, offset) in [0, capacity - 4096, capacity / 2 / 512 * 512].into_iter().enumerate() {
        let io = Request {
            at: now,
            offset,
            id: id as u64,
            len: 4096,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        device.start(now, io);
        let done = device.next().expect("a completion");
        assert!(done >= now, "time runs backwards");
        device.finish(done);
        now = done;
    }
}

/// An accepted formula of a volume type must have a finite value or none, whatever its names stand
/// for.
pub(crate) fn formula(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(formula) = Formula::parse(text) else { return };
    assert_eq!(Formula::parse(formula.text()).as_ref(), Ok(&formula));
    for value in [0.0, 1.0, -3.5, 1e300] {
        let of = |_: &str| Some(value);
        assert!(formula.value(&of).is_none_or(f64::is_finite));
    }
    assert!(formula.names().is_empty() || !formula.names().contains(&"else"));
}

/// The input is used as the .diskspecs file of a DiskSim drive, and as every file next to it. A
/// drive that is imported must survive being written as a device file and read back.
pub(crate) fn disksim(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let path = Path::new("input.diskspecs");
    let imported = match import::import_text(path, &text, &|_| Ok(text.clone().into_owned())) {
        Ok(imported) => imported,
        Err(error) => {
            let message = error.to_string();
            assert!(message.lines().count() == 1 && message.len() < 4096, "{message}");
            return;
        }
    };
    let file = write::text(&imported.name, "fuzz", &imported.drive);
    if let Ok((_, spec)) = read_spec(Path::new("drive.toml"), &file) {
        assert!(matches!(spec, DiskSpec::Drive(_)), "no controller");
    }
}

/// Accepted results of fio must have rows that a fit can use.
pub(crate) fn sweep(data: &[u8]) {
    let path = PathBuf::from("randread-4-1.json");
    let Ok(sweep) = Sweep::of([Ok((path.clone(), data.to_vec()))], path) else { return };
    let mixed = sweep.mixed.iter().flat_map(|row| &row.jobs).flat_map(|job| &job.rows);
    for row in sweep.rows.iter().chain(&sweep.sequential).chain(mixed) {
        assert!(row.depth > 0 && row.block_bytes > 0 && row.iops > 0.0, "{row:?}");
        let times = [row.mean_us, row.p50_us, row.p99_us, row.p999_us, row.max_us];
        assert!(times.into_iter().flatten().all(|us| us > 0.0 && us.is_finite()), "{row:?}");
    }
}

/// The input is divided by `=` into four of fio's latency logs. Each is repeated so that a few
/// lines make enough samples. A fitted drive must be writable and readable; otherwise, there must
/// be a one-line error.
pub(crate) fn fit(data: &[u8]) {
    let mut logs = Vec::new();
    for part in data.split(|&byte| byte == b'=').take(4) {
        match parse(Path::new("lat.log"), part) {
            Ok((samples, _)) => logs.push(vec![samples.repeat(1 + 2_000 / samples.len().max(1))]),
            Err(error) => {
                assert!(error.to_string().lines().count() == 1, "{error}");
                return;
            }
        }
    }
    logs.resize(4, Vec::new());
    let [zones, back, near, seek] = logs.try_into().expect("four logs");
    let measurements = Measurements { zones, back, near, seek, ..Measurements::default() };
    let known = DriveFacts { name: "x".into(), capacity_bytes: 1 << 40, heads: 2 };
    match fit_drive(&measurements, known) {
        Ok(fitted) => {
            // Nonsense may fit a disk that the model rejects, but the file must always be valid
            // TOML.
            if let Err(error) = forebay_devices::read(Path::new("x.toml"), &fitted.toml()) {
                let error = error.to_string();
                assert!(error.lines().count() == 1 && !error.contains("TOML parse"), "{error}");
            }
        }
        Err(error) => assert!(error.to_string().lines().count() == 1, "{error}"),
    }
}

/// An accepted model must generate requests without a panic, within its volumes and in order of
/// time. Any other must be rejected with a one-line message.
pub(crate) fn model(data: &[u8]) {
    let path = Path::new("a.model");
    // Try the input as a whole file, and as the content of a file, which bypasses the checksum.
    let _ = Model::from_file(path, data);
    match Model::from_content(path, data) {
        Ok(model) => {
            let options = GenerateOptions { requests: Some(300), ..GenerateOptions::default() };
            let mut last = Nanos::ZERO;
            for record in Generator::new(&model, options) {
                let extent = model.volumes.volumes[record.volume as usize].extent_mib << 20;
                assert!(record.offset + u64::from(record.len) <= extent && record.at >= last);
                last = record.at;
            }
        }
        Err(error) => assert!(error.to_string().lines().count() == 1, "{error}"),
    }
}

/// The input is the content of a store's disks.
pub(crate) fn store(data: &[u8]) {
    disk(data);
}
