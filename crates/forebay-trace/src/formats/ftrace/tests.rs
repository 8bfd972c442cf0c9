use super::*;
use crate::formats::tests::{drain, input, leniently, message, read};
use crate::formats::{Input, Layer};
use forebay_core::{Flags, Op};

/// Requests of an old kernel, as printed by perf script.
const PERF: &str = "\
            mkfs  4410 [001]   712.500000: block:block_rq_issue: 8,32 WS 8192 () 2048 + 16 [mkfs]
         swapper     0 [000]   712.500310: block:block_rq_complete: 8,32 WS () 2048 + 16 [0]
  kworker/1:0H-x   19/20 [001]   712.600000:          1   block:block_rq_issue: 8,32 FF 0 () 0 + 0 [kworker/1:0H]
\tffffffff8147d1f5 blk_mq_start_request+0x95 ([kernel.kallsyms])

         swapper     0 [000]   712.600900: block:block_rq_complete: 8,32 FF () 18446744073709551615 + 0 [0]
";

/// Requests of a new kernel, as printed by trace_pipe.
const FTRACE: &str = "\
# tracer: nop
#
 my tool-x-88      (     80) [002] d..1.    90.000001: block_rq_issue: 259,3 RA 4096 () 640 + 8 none,0,0 [my tool-x]
           <...>-89      (-------) [002] d..1.    90.000002: block_rq_issue: 259,3 DS 1048576 () 8192 + 2048 be,0,4 [fstrim]
CPU:3 [LOST 25 EVENTS]
          <idle>-0       (-------) [003] d.h1.    90.000101: block_rq_complete: 259,3 RA () 640 + 8 none,0,0 [0]
          <idle>-0       (-------) [003] d.h1.    90.000202: block_rq_complete: 259,3 DS () 8192 + 2048 be,0,4 [0]
          <idle>-0       (-------) [003] d.h1.    90.000203: sched_switch: prev_comm=a ==> next_comm=b
";

fn latencies(text: &str) -> Vec<Option<u64>> {
    let (records, ..) = read(open, text.as_bytes());
    records.iter().map(|record| record.latency.map(|latency| latency.0)).collect()
}

/// Lines of `trace-cmd report` with -l, -t and -R, and of perf script with -F.
#[test]
fn lines_of_all_options_are_read() {
    let text = |line: &str| {
        let issue = line.replace("EVENT", "block_rq_issue").replace("TIME", "9904.831159");
        let end = line
            .replace("EVENT", "block_rq_complete")
            .replace("TIME", "9904.831178")
            .replace("4096 ()", "()");
        format!("{issue}\n{end}\n")
    };
    for (line, thread) in [
        ("              dd-7     1d..2. TIME: EVENT:       8,0 R 4096 () 800 + 8 [dd]", Some(7)),
        (
            "              dd-7      12.N.1  TIME: EVENT: 8,0 R 4096 () 800 + 8 none,0,0 [dd]",
            Some(7),
        ),
        ("              dd-7     [001] TIME: EVENT:       8,0 R 4096 () 800 + 8 [dd]", Some(7)),
        (
            "              dd-7     [001] TIME000: EVENT: dev=0x800000 sector=800 nr_sector=8 bytes=4096 rwbs=R comm=dd cmd=",
            Some(7),
        ),
        ("dd-7 [001] .... TIME: EVENT: dev=8,0 sector=800 nr_sector=8 rwbs=R", Some(7)),
        ("dd 7 TIME: block:EVENT: 8,0 R 4096 () 800 + 8 [dd]", Some(7)),
        ("dd 6/7 [001] TIME: 1 block:EVENT: 8,0 R 4096 () 800 + 8 [dd]", Some(7)),
        ("TIME: block:EVENT: 8,0 R 4096 () 800 + 8 [dd]", None),
        ("[001] TIME: block:EVENT: 8,0 R 4096 () 800 + 8 [dd]", None),
        ("dd 7 [001] TIME: block:EVENT: 8,0 R 4096 () 800 + 8 0x2,0,4 [dd]", Some(7)),
        ("  7 [001] TIME: block:EVENT: 8,0 R 4096 () 800 + 8 [dd]", Some(7)),
    ] {
        for text in [
            text(line),
            text(line).replace("9904.", "9904,"),
            text(line).replace("rq_issue", "io_start").replace("rq_complete", "io_done"),
        ] {
            let (records, dictionary, notes) = read(open, text.as_bytes());
            let seen: Vec<_> =
                records.iter().map(|r| (r.offset, r.len, r.latency.map(|l| l.0))).collect();
            assert_eq!(seen, [(409_600, 4096, Some(19_000))], "{line}: {notes:?}");
            assert_eq!((dictionary.streams[0].thread, notes.rows_bad), (thread, 0), "{line}");
        }
    }
}

#[test]
fn perf_script_has_requests_of_old_kernels() {
    assert_eq!(latencies(PERF), [Some(310_000), Some(900_000)]);
    let (records, dictionary, notes) = read(open, PERF.as_bytes());
    assert_eq!((records[0].offset, records[0].len, records[0].flags), (1 << 20, 8192, Flags::SYNC));
    assert_eq!((records[1].op, records[1].offset, records[1].at.0), (Op::Flush, 0, 100_000_000));
    assert_eq!(dictionary.volumes, ["8,32"]);
    let names: Vec<_> = dictionary.streams.iter().map(|s| (s.thread, &s.name[..])).collect();
    assert_eq!(names, [(Some(4410), "mkfs"), (Some(20), "kworker/1:0H-x")]);
    assert!(notes.warnings.iter().all(|w| w.contains("issue events")), "{notes:?}");
}

#[test]
fn ftrace_has_requests_of_new_kernels() {
    assert_eq!(latencies(FTRACE), [Some(100_000), Some(200_000)]);
    let (records, dictionary, notes) = read(open, FTRACE.as_bytes());
    assert_eq!((records[0].op, records[0].flags), (Op::Read, Flags::READAHEAD));
    assert_eq!((records[1].op, records[1].len), (Op::Trim, 1 << 20));
    let names: Vec<_> = dictionary.streams.iter().map(|s| (s.thread, &s.name[..])).collect();
    assert_eq!(names, [(Some(88), "my tool-x"), (Some(89), "fstrim")]);
    assert!(notes.warnings.iter().any(|w| w.contains("tracer lost 25 events")), "{notes:?}");
}

#[test]
fn trace_cmd_report_is_read_and_queue_events_are_arrivals() {
    let text = "cpus=2\n\
        dd-7     [001]   1.100000: block_bio_queue:      8,1 W 2056 + 8 [dd]\n\
        dd-7     [001]   1.100010: block_rq_issue:       8,0 W 4096 () 2056 + 8 [dd]\n\
        idle-0   [000]   1.100500: block_rq_complete:    8,0 W () 2056 + 8 [0]\n";
    // The queue event names the partition, but with sectors of the disk; the other events name the
    // disk.
    let (records, dictionary, notes) = read(open, text.as_bytes());
    assert_eq!((records.len(), records[0].latency.unwrap().0), (1, 500_000));
    assert_eq!(dictionary.volumes, ["8,0"]);
    assert_eq!(notes.warnings, [""; 0]);
    // A completion at another disk ends no request.
    let (records, ..) = read(open, text.replace(" 8,0 ", " 8,16 ").as_bytes());
    assert_eq!(records[0].latency, None);
}

#[test]
fn remaps_are_followed() {
    let text = "a-7 [001] 1.000000: block_bio_queue: 253,0 R 0 + 8 [a]\n\
        a-7 [001] 1.000001: block_bio_remap: 8,2 R 384 + 8 <- (253,0) 0\n\
        a-7 [001] 1.000002: block_bio_remap: 8,0 R 5000 + 8 <- (8,2) 384\n\
        a-7 [001] 1.000003: block_bio_queue: 8,0 R 5000 + 8 [a]\n\
        a-7 [001] 1.000203: block_rq_complete: 8,0 R () 5000 + 8 [0]\n\
        a-7 [001] 1.000213: block_bio_complete: 253,0 R 0 + 8 [0]\n";
    for (layer, volume, offset, latency_ns) in
        [(Layer::Bottom, "8,0", 5000 * 512, 200_000), (Layer::Top, "253,0", 0, 213_000)]
    {
        let input = Input { layer, ..input(text.as_bytes()) };
        let (records, dictionary, notes) = drain(open(input).unwrap()).unwrap();
        let [record] = records[..] else { panic!("{records:?}") };
        assert_eq!((record.offset, record.latency.unwrap().0), (offset, latency_ns));
        assert_eq!((dictionary.volumes, notes.warnings.len()), (vec![volume.to_owned()], 1));
    }
}

#[test]
fn the_tracer_blk_prints_events_of_blkparse() {
    let text = "# tracer: blk\n\
        dd-7 [001] .....  1.000001:   8,0    A  RM 2056 + 8 <- (8,1) 8\n\
        dd-7 [001] .....  1.000002:   8,0    Q  RM 2056 + 8 [dd]\n\
        dd-7 [001] .....  1.000003:   8,0    U   N [dd] 1\n\
        <idle>-0 [000] d.h..  1.000902:   8,0    C  RM 2056 + 8 [0]\n";
    let (records, dictionary, notes) = read(open, text.as_bytes());
    let [record] = records[..] else { panic!("{records:?}") };
    assert_eq!((record.flags, record.latency.unwrap().0), (Flags::META, 900_000));
    assert_eq!((&dictionary.streams[0].name[..], notes.warnings.len()), ("dd", 0));
    assert!(sniff(text.as_bytes()));
}

#[test]
fn lost_events_are_reported_and_columns_may_be_missing() {
    let text = "# entries-in-buffer/entries-written: 4/9   #P:2\n\
        CPU:0 [EVENTS DROPPED]\n\
        1.000000: block:block_rq_issue: 8,0 R 4096 () 640 + 8 [a b]\n\
        x 3 1.000010: PERF_RECORD_LOST lost 7\n\
        swapper -1 1.000500: block:block_rq_complete: 8,0 R () 640 + 8 [0]\n";
    let (records, dictionary, notes) = read(open, text.as_bytes());
    assert_eq!((records.len(), records[0].latency.unwrap().0), (1, 500_000));
    assert_eq!(dictionary.streams[0].name, "a b");
    let told = "3 lines say that the tracer lost 12 events";
    assert!(notes.warnings.iter().any(|w| w == told), "{notes:?}");
}

#[test]
fn a_damaged_line_is_left_out_and_shown() {
    for (bad, reason) in [
        (" a-7 [0] 90.1: block_rq_issue: 259,3 R 4096 () 640 - 8 [a]", "no + between"),
        (" a-7 [0] 90.1: block_rq_issue: 259,3 Q 4096 () 640 + 8 [a]", "unknown letters"),
        (" a-7 [0] 90.1: block_rq_issue: disk R 4096 () 640 + 8 [a]", "no device"),
        (" a-b [0] 90.1: block_rq_issue: 8,0 R 4096 () 640 + 8 [a]", "no id"),
        (" a-7 [0] 90.1: block_rq_issue: 8,0 R 4096 () 640 + 99999999 [a]", "out of range"),
        (" a-7 [0] 90.1: block_bio_remap: 8,0 R 640 + 8", "no device after <-"),
    ] {
        let text = format!("{FTRACE}{bad}\n");
        let (records, _, notes) = read(leniently(open), text.as_bytes());
        assert_eq!(records.len(), 2);
        let told = |w: &String| w.contains("line 9 (got") && w.contains(reason);
        assert!(notes.warnings.iter().any(told), "{bad}: {notes:?}");
        let text = message(leniently(open), format!("{FTRACE}{bad}\n{bad}\n").as_bytes());
        assert!(text.contains("2 of the first 7 rows cannot be read"), "{text}");
    }
    assert!(sniff(FTRACE.as_bytes()) && sniff(PERF.as_bytes()));
    assert!(!sniff(b"8,16 0 1 0.5 7 Q R 1 + 1 [x]\n") && !sniff(b"time: 1.0: x\n"));
}

#[test]
fn an_unknown_thread_of_perf_is_not_thread_1() {
    assert_eq!(thread(b":-1    -1"), Some((u32::MAX, &b"<...>"[..])));
    assert_eq!(thread(b"init-1"), Some((1, &b"init"[..])));
}

/// Completions end with the number of an error, which the kernel prints with or without a sign.
#[test]
fn requests_that_fail_are_reported() {
    for (line, error) in [
        ("a 7 [001] TIME: block:EVENT: 8,0 R BYTES () 800 + 8 [LAST]", "-5"),
        ("a-7 [001] ..... TIME: EVENT: 8,0 R BYTES () 800 + 8 none,0,0 [LAST]", "-5"),
        ("a-7 [001] TIME: EVENT: dev=8,0 sector=800 nr_sector=8 error=LAST rwbs=R", "-5"),
        ("a-7 [001] TIME: EVENT: 8,0 C R 800 + 8 [LAST]", "65531"),
    ] {
        let is_blk = line.contains(" C ");
        for error in ["0", error] {
            let issue = line.replace("TIME", "1.000000").replace("LAST", "a");
            let issue = issue.replace("EVENT", "block_rq_issue").replace("BYTES", "4096");
            let issue =
                issue.replace("error=a", "comm=a").replace("block_rq_issue: 8,0 C", "8,0 D");
            let end = line.replace("TIME", "1.000500").replace("LAST", error).replace("BYTES ", "");
            let end = match is_blk {
                true => end.replace("EVENT: ", ""),
                false => end.replace("EVENT", "block_rq_complete"),
            };
            let text = format!("{issue}\n{end}\n");
            let (records, _, notes) = read(open, text.as_bytes());
            let latency = records[0].latency.map(|latency| latency.0);
            assert_eq!(latency, (error == "0").then_some(500_000), "{text}{notes:?}");
            let is_told = notes.warnings.iter().any(|told| told.starts_with("1 request failed"));
            assert_eq!(is_told, error != "0", "{text}{notes:?}");
        }
    }
}
