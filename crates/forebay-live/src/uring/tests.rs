use forebay_core::Lane;

use super::*;
use crate::TargetOptions;
use crate::priority::REAL_TIME;

const LANE: Lane = 0;

/// Returns the I/O priority of an entry, which is in its third and fourth byte.
fn priority_of(entry: &Entry) -> u16 {
    let start = std::ptr::from_ref(entry).cast::<u8>();
    // SAFETY: an entry is 64 bytes long, all of which were initialized when it was built.
    u16::from_ne_bytes(unsafe { [*start.add(2), *start.add(3)] })
}

#[test]
fn ios_that_a_promise_depends_on_have_the_real_time_class() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let how = TargetOptions { writes: true, overwrite: true, need_bytes: 0, direct: false };
    let target = Target::open(&path, how).unwrap();
    let Ok(mut uring) = Uring::new(vec![target], 4) else {
        return; // The kernel denies io_uring.
    };
    assert_eq!(uring.priority, promised_priority());
    // Test the priority even if this process may not use the real-time class.
    uring.priority = REAL_TIME;
    let buf = uring.pool.take(8192);
    let piece = |at| Piece { buf, at, len: 4096 };
    for (flags, expected) in [(Flags::PROMISED, REAL_TIME), (Flags::NONE, NO_PRIORITY)] {
        for op in [Op::Read, Op::Write] {
            for pieces in [vec![piece(0)], vec![piece(0), piece(4096)]] {
                for registered in [uring.registered, false] {
                    uring.registered = registered;
                    let io = Request {
                        at: Nanos::ZERO,
                        offset: 0,
                        id: 0,
                        len: 4096 * pieces.len() as u32,
                        stream: 0,
                        lane: LANE,
                        op,
                        flags,
                    };
                    let extent = Extent { offset: 0, len: io.len };
                    uring.slots = vec![Slot::new(io, Nanos::ZERO, extent)];
                    uring.slots[0].lent.pieces.clone_from(&pieces);
                    let entry = uring.entry(0);
                    assert_eq!(priority_of(&entry), expected, "{io:?}");
                }
            }
        }
    }
    uring.slots.clear();
}
