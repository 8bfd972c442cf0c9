//! Tests real files and devices through each driver: contents, counts and errors, but not times.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_core::catalog::{DeviceSet, build, build_placed};
use forebay_core::stack::Blocks;
use forebay_core::stack::placed::Placed;
use forebay_core::tape::{Call, Recorder};
use forebay_core::{Buf, Nanos, Op, Policy, Request, tape};
use forebay_live::{
    Failure, LEN_MAX, Lanes, Patterned, Target, TargetKind, TargetOptions, Threads, Uring, payload,
    run,
};
use forebay_testing::skipped;

use crate::rig::{Counted, mixed, open, request};

const MIB: u64 = 1 << 20;

fn opening(writes: bool, overwrite: bool) -> TargetOptions {
    TargetOptions { writes, overwrite, need_bytes: 4 * MIB, direct: true }
}

/// Runs a test with every available driver, and with the driver's name for messages.
fn each_driver(mut test: impl FnMut(&str, &dyn Fn(Vec<Target>) -> (Box<dyn Lanes>, Buf))) {
    test("threads", &|targets| {
        let threads = Threads::new(targets, 8).unwrap();
        let pattern = threads.pattern();
        (Box::new(threads), pattern)
    });
    let scratch = tempfile::NamedTempFile::new().unwrap();
    scratch.as_file().set_len(MIB).unwrap();
    let target = Target::open(scratch.path(), opening(false, false)).unwrap();
    match Uring::new(vec![target], 1) {
        Ok(_) => test("io_uring", &|targets| {
            let uring = Uring::new(targets, 8).map_err(|(error, _)| error).unwrap();
            let pattern = uring.pattern();
            (Box::new(uring), pattern)
        }),
        Err((error, _)) => skipped(&format!("io_uring: {error}")),
    }
}

/// Runs requests whose writes carry the pattern of their position.
fn played(
    policy: &mut dyn Policy,
    (mut lanes, pattern): (Box<dyn Lanes>, Buf),
    requests: &[Request],
) -> Counted {
    let mut seen = Counted::default();
    run(policy, &mut *lanes, &mut Patterned::new(open(requests), pattern, true), &mut seen)
        .unwrap();
    seen
}

fn noop() -> Box<dyn Policy + Send> {
    build("noop", LEN_MAX).unwrap()
}

/// Creates a file of `len` bytes with the value 0xAA.
fn filled(path: &Path, len: u64) {
    fs::write(path, vec![0xAA; len as usize]).unwrap();
}

/// Returns a policy that converts I/Os to whole blocks.
fn in_blocks(block: Option<u32>) -> Box<dyn Policy> {
    Box::new(Placed::new(Blocks::new(block.unwrap_or(1)), [(noop(), 1)]))
}

/// Returns the expected content of such a file after `requests`.
fn expected(len: u64, requests: &[Request]) -> Vec<u8> {
    let mut bytes = vec![0xAA; len as usize];
    for request in requests.iter().filter(|request| request.len > 0) {
        match request.op {
            Op::Write => {
                (request.offset..request.end()).for_each(|at| bytes[at as usize] = payload(at));
            }
            Op::Trim => bytes[request.offset as usize..request.end() as usize].fill(0),
            _ => {}
        }
    }
    bytes
}

#[test]
fn writes_land_at_their_address_only() {
    let folder = tempfile::tempdir().unwrap();
    let (path, len) = (folder.path().join("disk"), 4 * MIB);
    // The last quarter is only trimmed, because a policy may reorder a write and a trim.
    let mut requests = mixed(120, 30, 3 * MIB);
    let more = [
        (Op::Write, 1536, 512),
        (Op::Write, 3 * MIB - 512, 512),
        (Op::Write, 70_000, 1),
        (Op::Write, 2 * MIB + 77, 0),
        (Op::Flush, 0, 0),
        (Op::Park, 0, 0),
        (Op::Trim, 3 * MIB + 4096, 65_536),
        (Op::Trim, 3 * MIB + 131_072, 0),
        (Op::Read, 3 * MIB - 4096, 300_000),
    ];
    for (id, (op, offset, len)) in (requests.len() as u64..).zip(more) {
        requests.push(request(id, 4000, op, offset, len));
    }
    each_driver(|driver, lanes| {
        for direct in [true, false] {
            filled(&path, len);
            let target =
                Target::open(&path, TargetOptions { direct, ..opening(true, true) }).unwrap();
            assert_eq!((target.kind(), target.capacity_bytes()), (TargetKind::File, len));
            let mut policy = in_blocks(target.block_bytes());
            let seen = played(&mut *policy, lanes(vec![target]), &requests);
            assert!(seen.failures.is_empty(), "{driver}, {direct}: {:?}", seen.failures);
            assert_eq!(seen.finished, requests.len() as u64, "{driver}, {direct}");
            let bytes = fs::read(&path).unwrap();
            let expected = expected(len, &requests);
            let wrong = bytes.iter().zip(&expected).position(|(got, wanted)| got != wanted);
            assert_eq!((bytes.len(), wrong), (expected.len(), None), "{driver}, {direct}");
        }
    });
}

/// Tests that a write of part of a block can be merged with a read without a buffer: each uses its
/// own bytes.
#[test]
fn a_read_that_nobody_sees_moves_no_byte_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let requests = [request(0, 0, Op::Read, 0, 4096), request(1, 0, Op::Write, 4608, 512)];
    each_driver(|driver, lanes| {
        let before: Vec<u8> = (0..MIB).map(|at| (at >> 9) as u8).collect();
        fs::write(&path, &before).unwrap();
        let target = Target::open(&path, TargetOptions { need_bytes: MIB, ..opening(true, true) });
        let mut policy = in_blocks(Some(4096));
        let (mut lanes, pattern) = lanes(vec![target.unwrap()]);
        let mut workload = Patterned::new(open(&requests), pattern, false);
        run(&mut *policy, &mut *lanes, &mut workload, &mut Counted::default()).unwrap();
        let mut wanted = before;
        (4608..5120).for_each(|at| wanted[at as usize] = payload(at));
        assert!(fs::read(&path).unwrap() == wanted, "{driver}");
    });
}

/// Tests that the policy is in the path: the lanes received exactly its I/Os, and a new instance
/// gives the same answers to the same calls, which another policy does not.
#[test]
fn a_tape_of_a_real_run_replays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    filled(&path, 4 * MIB);
    let requests = mixed(500, 40, 4 * MIB);
    each_driver(|driver, lanes| {
        for spec in ["deadline", "cfq", "bid", "fcfs:depth=3"] {
            let mut recorder = Recorder::new(build(spec, LEN_MAX).unwrap());
            let target = Target::open(&path, opening(true, true)).unwrap();
            let seen = played(&mut recorder, lanes(vec![target]), &requests);
            assert_eq!(seen.finished, 500, "{driver}, {spec}");
            let answered = recorder.calls.iter().filter_map(|call| match call {
                Call::Dispatch(_, _, io) => *io,
                _ => None,
            });
            assert_eq!(answered.collect::<Vec<_>>(), seen.started, "{driver}, {spec}");
            let replayed = |spec| tape::replay(&mut build(spec, LEN_MAX).unwrap(), &recorder.calls);
            assert_eq!(replayed(spec), Ok(()), "{driver}, {spec}");
            assert!(replayed("noop:reads-max=1").is_err(), "{driver}, {spec}");
        }
    });
}

#[test]
fn lanes_are_targets() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    each_driver(|driver, lanes| {
        paths.iter().for_each(|path| filled(path, MIB));
        let targets = paths.iter().map(|path| Target::open(path, opening(true, true)).unwrap());
        let requests = [(0, 8192), (1, 65_536), (1, 131_072)]
            .map(|(lane, offset)| Request { lane, ..request(offset, 0, Op::Write, offset, 4096) });
        let both = DeviceSet {
            disks: 2,
            disk_len_max: LEN_MAX,
            disk_bytes: 1 << 40,
            flash: None,
            restarts: false,
            costs: [None; 2],
        };
        let policy = &mut *build_placed("deadline", &both).unwrap();
        let seen = played(policy, lanes(targets.collect()), &requests);
        assert_eq!((seen.finished, seen.ios), (3, 3), "{driver}");
        for (path, written) in paths.iter().zip([&requests[..1], &requests[1..]]) {
            assert!(fs::read(path).unwrap() == expected(MIB, written), "{driver}");
        }
    });
}

#[test]
fn a_target_that_shrinks_gives_short_reads_and_nothing_is_written_beyond_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let requests = [
        request(0, 0, Op::Read, 0, 8192),
        request(1, 10, Op::Read, 3 * MIB, 8192),
        request(2, 20, Op::Write, 4 * MIB - 4096, 8192),
        request(3, 30, Op::Write, u64::MAX - 4095, 4096),
    ];
    each_driver(|driver, lanes| {
        filled(&path, 4 * MIB);
        let target = Target::open(&path, opening(true, true)).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(2 * MIB).unwrap();
        let seen = played(&mut *noop(), lanes(vec![target]), &requests);
        assert_eq!((seen.finished, seen.ios), (4, 1), "{driver}");
        let failures: Vec<_> = seen.failures.into_iter().collect();
        assert_eq!(failures, [(Failure::Short, 1), (Failure::Beyond, 2)], "{driver}");
        assert_eq!(fs::metadata(&path).unwrap().len(), 2 * MIB, "{driver}");
    });
}

/// A mounted file system of less than 1 MiB, which is not a whole number of writes. It is unmounted
/// on drop.
struct Small(PathBuf);

impl Small {
    fn mount(at: PathBuf) -> Option<Small> {
        fs::create_dir(&at).ok()?;
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1020k", "tmpfs"])
            .arg(&at)
            .stderr(std::process::Stdio::null())
            .status();
        mount.is_ok_and(|status| status.success()).then_some(Small(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(folder.path().join("small")) else {
        return skipped("mounting a small file system needs root");
    };
    let path = small.0.join("disk");
    let requests: Vec<Request> =
        (0..64).map(|id| request(id, 0, Op::Write, id * 65_536, 65_536)).collect();
    each_driver(|driver, lanes| {
        let _ = fs::remove_file(&path);
        let target = Target::open(&path, opening(true, false)).unwrap();
        assert_eq!((target.kind(), target.capacity_bytes()), (TargetKind::Created, 4 * MIB));
        assert!(target.notes().iter().any(|note| note.contains("sparse")), "{:?}", target.notes());
        let policy = &mut *build("noop:merge=no", LEN_MAX).unwrap();
        let seen = played(policy, lanes(vec![target]), &requests);
        assert_eq!(seen.finished, 64, "{driver}");
        let names: Vec<String> = seen.failures.keys().map(|failure| failure.name()).collect();
        let failed: u64 = seen.failures.values().sum();
        assert_eq!(names, ["ENOSPC"], "{driver}: also of the write that is taken in part");
        assert!(failed >= 48 && seen.ios + failed == 64, "{driver}");
    });
}

/// A loop device, which is detached on drop.
struct Loop(PathBuf);

impl Loop {
    fn over(file: &Path, options: &[&str]) -> Option<Loop> {
        let mut losetup = Command::new("losetup");
        let output = losetup.args(["--find", "--show"]).args(options).arg(file).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (output.status.success() && text.starts_with("/dev/loop")).then(|| Loop(text.into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_device_that_fails_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let backing = folder.path().join("backing");
    each_driver(|driver, lanes| {
        filled(&backing, 4 * MIB);
        let Some(device) = Loop::over(&backing, &[]) else {
            return skipped("a loop device needs root and losetup");
        };
        let error = Target::open(&device.0, opening(true, false)).unwrap_err().to_string();
        assert!(error.contains("block device") && error.contains("overwrite"), "{error}");
        let target = Target::open(&device.0, opening(true, true)).unwrap();
        assert_eq!((target.kind(), target.capacity_bytes()), (TargetKind::BlockDevice, 4 * MIB));
        // The second half of the medium disappears.
        File::options().write(true).open(&backing).unwrap().set_len(2 * MIB).unwrap();
        let requests: Vec<Request> =
            (0..8).map(|id| request(id, id, Op::Read, id * MIB / 2, 4096)).collect();
        let seen = played(&mut *noop(), lanes(vec![target]), &requests);
        assert_eq!((seen.finished, seen.ios), (8, 4), "{driver}: {:?}", seen.failures);
        assert_eq!(seen.failures.keys().map(|kind| kind.name()).collect::<Vec<_>>(), ["EIO"]);
    });
}

#[test]
fn a_device_that_is_in_use_or_read_only_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let backing = folder.path().join("backing");
    filled(&backing, 4 * MIB);
    let Some(device) = Loop::over(&backing, &["--read-only"]) else {
        return skipped("a loop device needs root and losetup");
    };
    let refused = |device: &Loop| Target::open(&device.0, opening(true, true)).unwrap_err();
    assert!(refused(&device).to_string().contains("is read-only"));
    assert!(Target::open(&device.0, opening(false, false)).is_ok());
    drop(device);
    let Some(device) = Loop::over(&backing, &[]) else { return };
    // The device is opened exclusively, like a mounted one.
    let _held = File::options().read(true).custom_flags(libc::O_EXCL).open(&device.0).unwrap();
    assert!(refused(&device).to_string().contains("is in use"));
    assert!(Target::open(&device.0, opening(false, false)).is_ok());
}

#[test]
fn files_behind_loop_devices_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let [backing, hard] = ["backing", "hard"].map(|name| folder.path().join(name));
    filled(&backing, 4 * MIB);
    fs::hard_link(&backing, &hard).unwrap();
    let Some(device) = Loop::over(&backing, &[]) else {
        return skipped("a loop device needs root and losetup");
    };
    for path in [&backing, &hard] {
        let said = Target::open(path, opening(true, true)).unwrap_err().to_string();
        assert!(said.contains(&format!("the backing file of {}", device.0.display())), "{said}");
        assert!(Target::open(path, opening(false, false)).is_ok());
    }
    drop(device);
    assert!(Target::open(&backing, opening(true, true)).is_ok());
    assert_eq!(fs::read(&backing).unwrap(), vec![0xAA; 4 * MIB as usize]);
}

#[test]
fn no_file_is_created_among_devices() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/dev", &link).unwrap();
    let name = "forebay-test-no-such-device";
    let folders = [Path::new("/dev"), Path::new("/dev/cpu"), Path::new("/dev/../dev"), &link];
    for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
        let path = folder.join(name);
        for overwrite in [false, true] {
            let said = Target::open(&path, opening(true, overwrite)).unwrap_err().to_string();
            assert!(said.contains("check the name"), "{said}");
        }
        assert!(!path.exists(), "{}", path.display());
    }
    // A file system mounted below /dev is permitted.
    if let Ok(shared) = tempfile::tempdir_in("/dev/shm") {
        Target::open(&shared.path().join("disk"), opening(true, false)).unwrap().discard();
    }
}

#[test]
fn unusable_targets_are_rejected_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let refused = |path: &Path, how| Target::open(path, how).unwrap_err().to_string();
    filled(&path("there"), MIB);
    filled(&path("tiny"), 4095);
    let cases = [
        (path("there"), opening(true, false), "exists already"),
        (path("tiny"), opening(false, false), "got 4095 bytes, expected at least 4096"),
        (folder.path().into(), opening(false, false), "is a folder"),
        ("/dev/null".into(), opening(false, false), "neither a file nor a block device"),
        (path("no/such"), opening(true, false), "cannot create it"),
        (path("there/in"), opening(true, false), "Not a directory"),
    ];
    for (path, how, part) in cases {
        let said = refused(&path, how);
        assert!(said.contains(part) && said.starts_with(path.to_str().unwrap()), "{said}");
    }
    assert_eq!(fs::read(path("there")).unwrap(), vec![0xAA; MIB as usize]);
    std::os::unix::fs::symlink(path("no"), path("link")).unwrap();
    assert!(refused(&path("link"), opening(true, true)).contains("a dangling symbolic link"));
    let endless = TargetOptions { need_bytes: u64::MAX, ..opening(true, false) };
    assert!(refused(&path("endless"), endless).contains("the extent of the trace"));
    assert!(!path("endless").exists());
}

#[test]
fn a_reader_opens_for_reading_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    filled(&path, MIB);
    let requests = [request(0, 0, Op::Read, 0, 4096), request(1, 0, Op::Write, 0, 4096)];
    each_driver(|driver, lanes| {
        let target = Target::open(&path, opening(false, false)).unwrap();
        let seen = played(&mut *noop(), lanes(vec![target]), &requests);
        assert_eq!(seen.ios, 1, "{driver}");
        let failures: Vec<_> = seen.failures.keys().map(|failure| failure.name()).collect();
        assert_eq!(failures, ["EBADF"], "{driver}");
        assert_eq!(fs::read(&path).unwrap(), vec![0xAA; MIB as usize], "{driver}");
    });
}

/// Tests that a partial block at the end of a file, which direct I/O cannot transfer, is not part
/// of the target.
#[test]
fn a_broken_block_at_the_end_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let len = 10_100;
    let requests = [request(0, 0, Op::Write, 0, len as u32), request(1, 10, Op::Write, 9000, 512)];
    each_driver(|driver, lanes| {
        for direct in [true, false] {
            filled(&path, len);
            let target =
                Target::open(&path, TargetOptions { direct, ..opening(true, true) }).unwrap();
            let block = u64::from(target.block_bytes().unwrap_or(1));
            assert_eq!(target.capacity_bytes(), len / block * block);
            // The first request extends beyond the last whole block, unless the block size is 1.
            let done = if block == 1 { &requests[..] } else { &requests[1..] };
            let mut policy = in_blocks(target.block_bytes());
            let seen = played(&mut *policy, lanes(vec![target]), &requests);
            let beyond = seen.failures.get(&Failure::Beyond).copied().unwrap_or(0);
            assert_eq!(beyond > 0, block > 1, "{driver}, {direct}: {:?}", seen.failures);
            let reaches = done[0].end().next_multiple_of(block) <= len / block * block;
            let done = if reaches { done } else { &[] };
            assert!(fs::read(&path).unwrap() == expected(len, done), "{driver}, {direct}");
        }
    });
}

/// Tests that a write of parts of blocks leaves the rest of the blocks intact, and that a lane
/// refuses such a write.
#[test]
fn parts_of_blocks_are_refused_by_lanes_and_done_by_whole_blocks_beneath() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let requests = [request(0, 0, Op::Write, 100, 77), request(1, 0, Op::Read, 33, 5000)];
    each_driver(|driver, lanes| {
        filled(&path, MIB);
        let open = || Target::open(&path, opening(true, true)).unwrap();
        let Some(block) = open().block_bytes() else { return skipped("no direct I/O here") };
        let seen = played(&mut *noop(), lanes(vec![open()]), &requests);
        assert_eq!(seen.failures.into_iter().collect::<Vec<_>>(), [(Failure::Partial, 2)]);
        assert!(fs::read(&path).unwrap() == expected(MIB, &[]), "{driver}");
        let seen = played(&mut *in_blocks(Some(block)), lanes(vec![open()]), &requests);
        assert!(seen.failures.is_empty(), "{driver}: {:?}", seen.failures);
        assert!(fs::read(&path).unwrap() == expected(MIB, &requests[..1]), "{driver}");
    });
}

#[test]
fn a_created_file_is_as_long_as_needed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new");
    let how = TargetOptions { need_bytes: MIB + 1, ..opening(false, false) };
    let target = Target::open(&path, how).unwrap();
    assert_eq!((target.kind(), target.capacity_bytes()), (TargetKind::Created, 2 * MIB));
    assert!(target.is_same(&path) && !target.is_same(folder.path()));
    assert!(target.is_in_place());
    fs::rename(&path, folder.path().join("moved")).unwrap();
    assert!(!target.is_in_place());
    let mut lanes = Threads::new(vec![target], 1).unwrap();
    let end = run(&mut *noop(), &mut lanes, &mut open(&[]), &mut ()).unwrap();
    assert_eq!(end, Nanos::ZERO);
}
