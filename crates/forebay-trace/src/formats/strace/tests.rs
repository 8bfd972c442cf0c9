use super::*;
use crate::formats::events::calls;
use crate::formats::tests::{message, read};

/// The output of strace for a program with a thread and a child process.
const TEXT: &str = r#"41 1767000000.100000 openat(AT_FDCWD, "/srv/a b, (1)", O_RDWR|O_CLOEXEC) = 3 <0.000010>
41 1767000000.100100 pread64(3, "\0\"),\0"..., 4096, 8192) = 4096 <0.000050>
41 1767000000.100200 lseek(3, 100, SEEK_SET) = 100 <0.000001>
41 1767000000.100300 read(3, "x"..., 4096) = 50 <0.000002>
41 1767000000.100310 read(3,  <unfinished ...>
42 1767000000.100320 write(1, "hello", 5) = 5 <0.000001>
41 1767000000.100330 <... read resumed>"y"..., 4096) = 20 <0.000020>
41 1767000000.100340 read(3, "", 4096) = 0 <0.000002>
41 1767000000.100350 clone3({flags=CLONE_VM|CLONE_FILES, exit_signal=0} => {parent_tid=[43]}, 88) = 43 <0.000010>
43 1767000000.100360 pwritev(3, [{iov_base="a", iov_len=512}, {iov_base="b", iov_len=512}], 2, 0) = 1024 <0.000030>
43 1767000000.100400 fsync(3) = 0 <0.004000>
43 1767000000.105000 +++ exited with 0 +++
41 1767000000.106000 close(3) = 0 <0.000001>
41 1767000000.107000 pread64(3, 0x7ffd, 512, 0) = -1 EBADF (Bad file descriptor) <0.000001>
"#;

type Seen = (Op, u64, u32, Option<u64>);

fn seen(text: &str) -> (Vec<Seen>, Vec<String>, crate::Notes) {
    let (records, dictionary, notes) = read(calls::open::<Strace>, text.as_bytes());
    let volumes = records.iter().map(|r| dictionary.volumes[r.volume as usize].clone()).collect();
    let seen = records.iter().map(|r| (r.op, r.offset, r.len, r.latency.map(|l| l.0))).collect();
    (seen, volumes, notes)
}

#[test]
fn positions_and_files_are_followed() {
    let (seen, volumes, notes) = seen(TEXT);
    assert_eq!(
        seen,
        [
            (Op::Read, 8192, 4096, Some(50_000)),
            (Op::Read, 100, 50, Some(2_000)),
            (Op::Read, 150, 20, Some(20_000)),
            (Op::Write, 0, 1024, Some(30_000)),
            (Op::Flush, 0, 0, Some(4_000_000)),
        ]
    );
    assert!(volumes.iter().all(|name| name == "/srv/a b, (1)"), "{volumes:?}");
    // Skipped are the write to the terminal, the read at the end of the file, and the call that
    // failed.
    assert_eq!((notes.rows_skipped, notes.warnings.len()), (3, 0), "{notes:?}");
    assert!(calls::sniff::<Strace>(TEXT.as_bytes()));
}

#[test]
fn other_forms_of_lines_are_read() {
    let text = "23:59:59.900000 pread64(5</var/db>, \"\"..., 512, 1024) = 512 <0.000010>\n\
        [pid 77] 00:00:00.100000 pwrite64(5</var/db>, \"\"..., 512, 0) = 512 <0.000010>\n\
        [pid 77] 00:00:00.200000 read(6<socket:[99]>, \"\", 512) = 9 <0.000010>\n\
        [pid 77] 00:00:00.300000 pread64(9, \"\"..., 512, 512) = 512\n";
    let (seen, volumes, notes) = seen(text);
    assert_eq!(
        seen,
        [
            (Op::Read, 1024, 512, Some(10_000)),
            (Op::Write, 0, 512, Some(10_000)),
            (Op::Read, 512, 512, None)
        ]
    );
    assert_eq!(volumes, ["/var/db", "/var/db", "fd 9 of 77"]);
    assert_eq!(notes.rows_skipped, 1);
    assert!(notes.warnings[0].starts_with("1 descriptor was opened before"), "{notes:?}");
}

#[test]
fn times_that_count_from_the_line_before_add_up() {
    let text = "0.000000 pread64(5</db>, \"\"..., 512, 1024) = 512 <0.1>\n\
        0.500000 lseek(5</db>, 0, SEEK_SET) = 0 <0.1>\n\
        0.250000 pread64(5</db>, \"\"..., 512, 0) = 512 <0.1>\n";
    let (records, ..) = read(calls::open::<Strace>, text.as_bytes());
    assert_eq!(records[1].at.0, 750_000_000);
}

#[test]
fn calls_that_are_not_read_are_named() {
    let text = "1 10.0 pread64(5</db>, \"\"..., 512, 1024) = 512 <0.1>\n\
        1 10.1 io_submit(0x7f, 1, [{}]) = 1 <0.1>\n1 10.2 io_submit(0x7f, 1, [{}]) = 1 <0.1>\n\
        1 10.3 ioctl(5</db>, BLKDISCARD, [0, 4096]) = 0 <0.1>\n1 10.4 getpid() = 1 <0.1>\n";
    let notes = seen(text).2;
    let told = "unsupported calls that transfer data are left out: 1 BLKDISCARD, 2 io_submit";
    assert_eq!(notes.warnings, [told]);
}

#[test]
fn a_forked_process_shares_positions_and_appends_go_to_the_end() {
    let text = "1 10.0 open(\"log\", O_WRONLY|O_APPEND) = 4 <0.1>\n\
        1 10.1 write(4, \"..\", 10) = 10 <0.1>\n\
        1 10.2 fork() = 2 <0.1>\n\
        2 10.25 dup2(4, 4) = 4 <0.1>\n\
        2 10.3 write(4, \"..\", 10) = 10 <0.1>\n\
        2 10.4 close(4) = 0 <0.1>\n\
        1 10.5 lseek(4, 0, SEEK_SET) = 0 <0.1>\n\
        1 10.6 write(4, \"..\", 10) = 10 <0.1>\n";
    let offsets: Vec<u64> = seen(text).0.iter().map(|seen| seen.1).collect();
    assert_eq!(offsets, [0, 10, 20]);
}

#[test]
fn a_call_without_a_time_is_refused() {
    let text = message(calls::open::<Strace>, b"pread64(3, \"\", 512, 0) = 512\n");
    assert!(text.contains("column time") && text.contains("-ttt"), "{text}");
    assert!(
        calls::sniff::<Strace>(b"pread64(3, \"\", 512, 0) = 512\n")
            && !calls::sniff::<Strace>(b"12345678901 0 8 16 1\n")
    );
    assert!(!calls::sniff::<Strace>(b"1 2 3 4\n0.5 R 1 2\n"));
}
