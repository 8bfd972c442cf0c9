use super::*;
use crate::formats::tests::{message, read};
use forebay_core::{Flags, Op};

const BIOSNOOP: &str = "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)\n";
const QUEUED: &str = "TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)\n";

fn times(text: &str) -> Vec<(u64, u64)> {
    let (records, ..) = read(open, text.as_bytes());
    records.iter().map(|r| (r.at.0, r.latency.unwrap().0)).collect()
}

#[test]
fn biosnoop_tells_completions_and_processes() {
    let text = format!(
        "{BIOSNOOP}0.000004    my app  1     1950   xvda1   W 13092560   4096       0.74\n\
         0.000178    supervise      1950   xvdb   R 8   512       0.61\r\n"
    );
    let (records, dictionary, notes) = read(open, text.as_bytes());
    // The requests arrived at 4 us - 740 us and at 178 us - 610 us.
    assert_eq!(times(&text), [(0, 740_000), (304_000, 610_000)]);
    assert_eq!((records[0].op, records[0].offset, records[0].len), (Op::Write, 6703390720, 4096));
    assert_eq!(dictionary.volumes, ["xvda1", "xvdb"]);
    let stream = |name: &str| Stream { thread: None, process: Some(1950), name: name.into() };
    assert_eq!(dictionary.streams, [stream("my app  1"), stream("supervise")]);
    assert_eq!((notes.rows_skipped, notes.warnings.len()), (0, 0));
}

#[test]
fn time_in_the_queue_is_latency() {
    let text = format!(
        "{QUEUED}1.0 a 1 sda RM 8 512 0.25 0.50\n2.0 b 2 sda FWFS 8 512 -1.000 0.5\n\
         2.5 c 2 sda FF 0 0 -1.000 0.5\n2.5 c 2 sda N 0 0 0.1 0.5\n"
    );
    assert_eq!(times(&text)[..2], [(0, 750_000), (1_000_250_000, 500_000)]);
    let (records, _, notes) = read(open, text.as_bytes());
    assert_eq!((records[0].flags, records[2].op), (Flags::META, Op::Flush));
    assert_eq!(records[1].flags, Flags::PREFLUSH.with(Flags::FUA).with(Flags::SYNC));
    assert_eq!(notes.rows_skipped, 1);
}

#[test]
fn iosnoop_has_any_of_two_times() {
    let row = "tar 7 R 202,1 16 1024 0.62\n";
    let header = "COMM PID TYPE DEV BLOCK BYTES LATms\n";
    let both = format!("STARTs ENDs {header}9.000001 9.000619 {row}9.1 9.2 {row}");
    assert_eq!(times(&both), [(0, 618_000), (99_999_000, 100_000_000)]);
    assert_eq!(
        times(&format!("STARTs {header}9.1 {row}9.0 {row}")),
        [(0, 620_000), (100_000_000, 620_000)]
    );
    assert_eq!(
        times(&format!("ENDs {header}9.1 {row}9.0 {row}")),
        [(0, 620_000), (100_000_000, 620_000)]
    );
    let bare = format!("Tracing block I/O. Ctrl-C to end.\n{header}{row}{row}Ending tracing...\n");
    assert_eq!(times(&bare), [(0, 620_000), (620_000, 620_000)]);
    let (_, dictionary, notes) = read(open, bare.as_bytes());
    assert_eq!(dictionary.streams, [Stream { thread: Some(7), process: None, name: "tar".into() }]);
    assert!(notes.warnings[0].contains("-ts"), "{:?}", notes.warnings);
}

#[test]
fn tools_for_files_have_files_as_volumes() {
    let text = "Tracing ext4 operations slower than 0 ms\n\
        TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n\
        06:35:01 cron           16464  R 1249    3        16.05 common-auth\n\
        06:35:02 my db          16463  W 4096    8        0.50 my data 2\n\
        06:35:02 my db          16463  S 9223372036854775807 0 1.00 data\n\
        06:35:02 my db          16463  O 0       0        0.01 data\n";
    let (records, dictionary, notes) = read(open, text.as_bytes());
    let seen: Vec<_> =
        records.iter().map(|r| (r.op, r.offset, r.len, r.latency.unwrap().0)).collect();
    assert_eq!(seen[0], (Op::Read, 3072, 1249, 16_050_000));
    assert!(seen.contains(&(Op::Write, 8192, 4096, 500_000)));
    assert!(seen.contains(&(Op::Flush, 0, 0, 1_000_000)));
    assert_eq!(dictionary.volumes, ["common-auth", "my data 2", "data"]);
    assert_eq!((records.len(), notes.rows_skipped), (3, 1), "{notes:?}");
}

#[test]
fn rows_without_a_disk_are_skipped_and_losses_reported() {
    let text = format!("{BIOSNOOP}1.0 ? 0 R 0 4096 0.1\nLost 3 samples\n1.1 x 1 sda R 0 512 0.1\n");
    let (records, _, notes) = read(open, text.as_bytes());
    assert_eq!((records.len(), notes.rows_skipped), (1, 1));
    assert!(notes.warnings[0].contains("lost"));
}

#[test]
fn nonsense_names_line_and_column() {
    for (bad, part) in [
        ("1.0 a 1 sda R 8 512", "a word for each heading"),
        ("1.0 a x sda R 8 512 0.1", "column PID"),
        ("1.0 a 4294967296 sda R 8 512 0.1", "2^32"),
        ("1.0 a 1 sda Q 8 512 0.1", "RWBS"),
        ("1.0 a 1 sda R -8 512 0.1", "column sector"),
        ("1.0 a 1 sda R 8 4294967296 0.1", "4 GiB"),
        ("1.0 a 1 sda R 8 2147483648 0.1", "1 GiB"),
        ("1.0 a 1 sda R 18014398509481984 512 0.1", "2^63"),
        ("1.0 a 1 sda R 8 512 fast", "column latency"),
        ("x a 1 sda R 8 512 0.1", "column time"),
        ("18446744073 a 1 sda R 8 512 0.1", "column time"),
    ] {
        let text = message(open, format!("{BIOSNOOP}{bad}\n").as_bytes());
        assert!(text.contains(", line 2:") && text.contains(part), "{bad}: {text}");
    }
    assert!(message(open, b"hello\n").contains("a header line"));
    assert!(sniff(BIOSNOOP.as_bytes()) && sniff(format!("\n# x\n{QUEUED}").as_bytes()));
    assert!(!sniff(b"TIME COMM PID\n"));
}

#[test]
fn latencies_below_zero_are_unknown_and_counted() {
    let text = format!(
        "{BIOSNOOP}1.0 a 1 sda R 8 512 0.5\n1.2 a 1 sda R 8 512 18014398509481.98\n\
         1.1 a 1 sda R 8 512 18446744073709551615\n1.3 ? 0 sdb R 8 512 18446744073709.55\n\
         1.4 a 1 sda R 8 512 -0.40\n1.5 a 1 sda R 8 512 86400001\n"
    );
    let (records, _, notes) = read(open, text.as_bytes());
    let seen: Vec<_> = records.iter().map(|r| (r.at.0, r.latency)).collect();
    let unknown = [100_500_000, 200_500_000, 300_500_000, 400_500_000, 500_500_000];
    let expected = [(0, Some(Nanos(500_000)))].into_iter();
    assert_eq!(seen, expected.chain(unknown.map(|at| (at, None))).collect::<Vec<_>>());
    assert!(notes.warnings[0].starts_with("5 latencies are negative"), "{:?}", notes.warnings);
    let both = "STARTs ENDs COMM PID TYPE DEV BLOCK BYTES LATms\n9.2 9.1 a 7 R 1,1 16 512 0.62\n";
    let (records, _, notes) = read(open, both.as_bytes());
    assert_eq!((records[0].latency, notes.warnings.len()), (None, 1));
    let queued = format!("{QUEUED}1.0 a 1 sda R 8 512 18446744073709.55 0.5\n");
    assert_eq!(read(open, queued.as_bytes()).0[0].latency, None);
}

#[test]
fn threads_and_latencies_in_microseconds_are_read() {
    let text = "TIME(s) COMM PID TID DISK T SECTOR BYTES QUE(us) LAT(us)\n\
                1.0 a b 77 78 sda W 8 512 40 250.5\n";
    let (records, dictionary, notes) = read(open, text.as_bytes());
    assert_eq!((records[0].latency, notes.warnings.len()), (Some(Nanos(290_500)), 0), "{notes:?}");
    let stream = &dictionary.streams[0];
    assert_eq!((stream.thread, stream.process, &*stream.name), (Some(78), Some(77), "a b"));
}

#[test]
fn times_of_day_go_on_over_midnight() {
    let header = "TIMESTAMP COMM PID DISK T SECTOR BYTES LAT(ms)\n";
    let row = "a 1 sda R 8 512 1.0\n";
    let text = format!(
        "{header}23:59:59.900 {row}00:00:00.100 {row}23:59:59.950 {row}00:00:01 {row}12:00:02 {row}\
         23:00:00 {row}00:00:00.100 {row}"
    );
    let (records, _, notes) = read(open, text.as_bytes());
    let at_ms: Vec<u64> = records.iter().map(|r| r.at.0 / 1_000_000).collect();
    let day = 86_400_000;
    let expected = [0, 50, 200, 1_100, 43_202_100, 82_800_100, day + 200];
    assert_eq!(at_ms, expected);
    assert!(notes.warnings.iter().any(|told| told.contains("midnight")), "{:?}", notes.warnings);
    assert!(!notes.warnings.iter().any(|told| told.contains("no times")), "{:?}", notes.warnings);
    for bad in ["24:00:00", "1:60:00", "1:2", "1:2:x", "1:2:61"] {
        let told = message(open, format!("{header}{bad} {row}").as_bytes());
        assert!(told.contains("a time of day"), "{told}");
    }
}

#[test]
fn columns_of_unknown_headings_are_named_or_refused() {
    let rest = "COMM PID DISK T SECTOR BYTES LAT(ms)";
    let text = format!("TIME(s) {rest} PATTERN CPU\n1.0 a 1 sda R 8 512 0.5 S 3\n");
    let (records, _, notes) = read(open, text.as_bytes());
    assert_eq!(records.len(), 1);
    assert_eq!(notes.warnings, ["2 columns are ignored: \"PATTERN\", \"CPU\""]);
    let told = message(open, format!("WHEN {rest}\n1.0 a 1 sda R 8 512 0.5\n").as_bytes());
    assert!(told.contains("line 1: got the headings \"WHEN\" in column header"), "{told}");
    let columns = "end:UNIT,name,process,volume,op,offset:sectors,len,latency:ms,sep=blank,skip=1";
    assert!(told.contains(&format!("--columns {columns}, with")), "{told}");
    assert!(columns.replace("UNIT", "s").parse::<crate::Columns>().is_ok());
}

#[test]
fn losses_are_told_wherever_they_stand_and_a_second_header_is() {
    let row = "1.0 a 1 sda R 8 512 0.5\n";
    let text = format!(
        "{BIOSNOOP}{row}Possibly lost 12 samples\n{row}perf: lost 3 events on CPU 7\nLost 1 samples\n\
         {BIOSNOOP}{row}"
    );
    let (records, _, notes) = read(open, text.as_bytes());
    assert_eq!(records.len(), 3);
    assert_eq!(notes.warnings[0], "3 lines say that the tracer lost 16 events");
    assert!(notes.warnings[1].starts_with("1 header line is in the middle"));
    // A process may be called "lost".
    let text = format!("{BIOSNOOP}1.0 lost 5 events 1 sda R 8 512 0.5\n");
    assert_eq!(read(open, text.as_bytes()).0.len(), 1);
}

#[test]
fn csv_of_file_systems_has_microseconds_and_bytes() {
    let text = b"ENDTIME_us,TASK,PID,TYPE,BYTES,OFFSET_b,LATENCY_us,FILE\n\
        87654321000,fio 1,100,R,4096,8192,12000,a,b.dat\n\
        87654331000,fio 1,100,W,100,8193,1000,c\n\
        87654341000,fio 1,100,S,0,0,1000,c\n";
    assert!(sniff(text));
    let (records, dictionary, notes) = read(open, text);
    let seen: Vec<_> = records.iter().map(|r| (r.at.0, r.op, r.offset, r.len)).collect();
    let expected = [
        (0, Op::Read, 8192, 4096),
        (21_000_000, Op::Write, 8193, 100),
        (31_000_000, Op::Flush, 0, 0),
    ];
    assert_eq!(seen, expected);
    assert_eq!(records[0].latency, Some(Nanos(12_000_000)));
    assert_eq!((&dictionary.volumes[0][..], notes.warnings.len()), ("a,b.dat", 0), "{notes:?}");
}
