//! Device files; a device that is accepted also serves its first and its last bytes.
#![no_main]

use forebay_core::contract::device::Device;
use forebay_core::{Flags, Nanos, Op, Request};
use forebay_devices as devices;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Wearing in a drive takes as long as the file says.
    if text.contains("overwritten_percent") && !text.contains("overwritten_percent = 0\n") {
        return;
    }
    let mut device = match devices::read(Path::new("input.toml"), text) {
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
});
