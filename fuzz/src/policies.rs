//! Fuzz target for the specs of policies.

use forebay_core::contract::Bare;
use forebay_core::{Flags, Nanos, Op, Request, Spec, catalog, device};

/// The maximum length of an I/O on the device for which policies are built.
const LEN_MAX_BYTES: u32 = 1 << 20;

/// The input is the spec of a policy and a device. An accepted policy must accept and dispatch a
/// request.
pub(crate) fn specs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(spec) = Spec::parse(text) {
        assert!(!spec.name().is_empty());
        let _ = device::list::build(&spec);
    }
    let flash = catalog::FlashLane { len_max: LEN_MAX_BYTES, capacity_bytes: 64 << 20 };
    let lanes = catalog::DeviceSet {
        disks: 1,
        disk_len_max: LEN_MAX_BYTES,
        disk_bytes: 1 << 40,
        flash: Some(flash),
        restarts: false,
        costs: [None; 2],
    };
    let Ok(mut built) = catalog::build_placed(text, &lanes) else { return };
    let request = Request {
        at: Nanos::ZERO,
        offset: 1 << 30,
        id: 7,
        len: 1 << 18,
        stream: 3,
        lane: 0,
        op: Op::Read,
        flags: Flags::NONE,
    };
    built.submit_bare(Nanos::ZERO, request);
    if let Some(io) = built.dispatch(Nanos::ZERO, 0) {
        assert!(io.len > 0 && io.len <= LEN_MAX_BYTES, "{io:?}");
    }
}
