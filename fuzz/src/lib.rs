//! Fuzz targets for all parsers and protocols that read untrusted bytes.
//!
//! Errors are fine; panics, endless loops and broken guarantees are not. Each [`Target`] covers one
//! parser or protocol. `tests/all.rs` runs all targets on their seeds and on fixed mutations of
//! these; `make fuzz` uses a fuzzer to generate more inputs.

#![allow(clippy::expect_used)] // a broken guarantee causes a panic

mod drain;
mod files;
mod policies;
mod protocols;
mod traces;

/// A parser or protocol and a check of its guarantees.
pub struct Target {
    /// The name of the target and of the folder with its seeds.
    pub name: &'static str,
    /// Runs the target on an input. Panics if a guarantee is broken.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// All targets, sorted by name.
pub const TARGETS: &[Target] = &[
    target("blkparse", |data| traces::text("blkparse", data)),
    target("blktrace", traces::blktrace),
    target("capture", files::capture),
    target("columns", traces::columns),
    target("csv", traces::csv),
    target("devices", files::devices),
    target("disksim", files::disksim),
    target("disksim-valid", traces::disksim_valid),
    target("fio", |data| traces::text("fio", data)),
    target("fio-latency", |data| traces::every_row("fio-latency", data)),
    target("fit", files::fit),
    target("formula", files::formula),
    target("ftrace", |data| traces::text("ftrace", data)),
    target("ftlsim", |data| traces::text("ftlsim", data)),
    target("hp-srt", traces::hp_srt),
    target("metrics", protocols::metrics),
    target("model", files::model),
    target("msr", |data| traces::every_row("msr", data)),
    target("nbd-handshake", protocols::nbd_handshake),
    target("nbd-requests", protocols::nbd_requests),
    target("nbdkit", |data| traces::text("nbdkit", data)),
    target("object-csv", traces::object_csv),
    target("open", traces::open_any),
    target("oracle-general", traces::oracle_general),
    target("parquet", traces::parquet),
    target("presets", traces::presets),
    target("qemu", |data| traces::text("qemu", data)),
    target("resp", protocols::resp),
    target("snoop", |data| traces::text("snoop", data)),
    target("spc", |data| traces::every_row("spc", data)),
    target("spdk", |data| traces::text("spdk", data)),
    target("specs", policies::specs),
    target("store", files::store),
    target("strace", |data| traces::text("strace", data)),
    target("sweep", files::sweep),
    target("sysdig", |data| traces::text("sysdig", data)),
    target("texts", traces::texts),
    target("vscsi", traces::vscsi),
];

/// Returns the target with this name.
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Lets readers catch the panics of third-party decoders, as they do in production. The fuzzer's
/// own panic hook would end the run before they are caught. Panics that are not caught still end
/// the run.
pub fn spare_caught_panics() {
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
}
