//! Tests rows that differ from the usual ones of their format, but can be read.

use super::field_tests::{only, read, read_as};
use forebay_core::Nanos;

const SNOOP: &str = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n";

#[test]
fn rows_of_fiu_need_no_hash_and_their_names_may_have_several_words() {
    const HASH: &str = " 0123456789abcdef0123456789abcdef";
    let row = |n: u64, name: &str, end: &str| {
        format!("{} 48 {name} {} 8 W 6 0{end}\n", n * 1_000_000, n * 8)
    };
    for end in ["", HASH] {
        for names in
            [["syslogd"; 6], ["rs:main Q"; 6], ["a", "rs:main Q", "b 5 c", "d", "e 7", "f"]]
        {
            let rows: String = (0..).zip(names).map(|(n, name)| row(n, name, end)).collect();
            let (records, notes) = read(&rows);
            let case = format!("{rows}{notes:?}");
            assert_eq!((notes.format, records.len(), notes.rows_bad), ("fiu", 6, 0), "{case}");
            assert!(records.iter().zip(0..).all(|(r, n)| r.offset == n * 4096 && r.len == 4096));
            assert_eq!(notes.warnings, [""; 0], "{case}");
        }
    }
    // A declared column of names may contain spaces, too.
    let rows = "5 my job 8 512 R\n9 job 16 512 W\n";
    let (records, notes) =
        read_as("t", rows, Some("columns:at:ms,name,offset,len,op,sep=blank")).unwrap();
    assert_eq!((records.len(), records[0].offset, notes.rows_bad), (2, 8, 0), "{notes:?}");
}

#[test]
fn a_latency_that_is_unknown_is_no_error() {
    let snoop = |latency: &str| format!("1.0 a 7 sda W 8 4096 {latency}\n");
    for unknown in ["-", "nan", "-nan", "NaN", "inf", "-inf", "N/A"] {
        let text = format!("{SNOOP}{}{}", snoop(unknown), snoop("0.5"));
        let (records, notes) = read(&text);
        assert_eq!((records.len(), &notes.warnings[..]), (2, &[][..]), "{notes:?}");
        let known: Vec<_> = records.iter().filter_map(|record| record.latency).collect();
        assert_eq!(known, [Nanos(500_000)], "{unknown}");
        let csv = format!("time_us,op,offset,len,latency_us\n0,R,0,512,{unknown}\n9,R,0,512,5\n");
        let (records, notes) = read(csv);
        assert_eq!((records[0].latency, notes.rows_bad), (None, 0), "{unknown}");
    }
    let all = format!("{SNOOP}{}{}", snoop("-"), snoop("nan"));
    assert_eq!(read(all).0.len(), 2);
}

#[test]
fn a_latency_at_the_end_of_a_file_without_a_newline_is_unknown() {
    let csv = "time_us,op,offset,len,latency_us\n0,R,0,512,120\n9,W,512,512,130\n20,R,0,512,1";
    let snoop = format!("{SNOOP}1.0 a 7 sda W 8 4096 0.40\n2.0 a 7 sda W 8 4096 0.4");
    for text in [csv, &snoop] {
        let (records, notes) = read(text);
        assert!(records[0].latency.is_some() && records.last().unwrap().latency.is_none());
        assert!(only(&notes).ends_with("may be truncated, and is treated as unknown"), "{notes:?}");
        assert!(read(format!("{text}\n")).0.last().unwrap().latency.is_some());
    }
    // Without a latency in the last row, nothing was truncated.
    let (_, notes) = read(csv.strip_suffix('1').unwrap());
    assert!(only(&notes).ends_with("is used as it is"), "{notes:?}");
}

#[test]
fn the_message_of_an_interrupted_tracer_is_no_row() {
    let message = "Traceback (most recent call last):\n  File \"/usr/sbin/biosnoop\", line 300, in \
                   <module>\n    b.perf_buffer_poll()\nKeyboardInterrupt\n";
    let snoop = format!("{SNOOP}1.0 a 7 sda W 8 4096 0.40\n");
    for text in [&snoop[..], "time_us,op,offset,len\n0,R,0,512\n"] {
        for message in [message.to_owned(), format!("^C{message}"), format!("{message}\n{message}")]
        {
            let (records, notes) = read(format!("{text}{message}"));
            assert_eq!((records.len(), notes.rows_bad), (1, 0), "{notes:?}");
            assert!(only(&notes).starts_with("the tracer was interrupted"), "{notes:?}");
        }
        let error = format!("{text}{}", message.replace("KeyboardInterrupt", "OSError: gone"));
        assert!(only(&read(error).1).starts_with("the tracer failed (OSError: gone)"));
    }
}

#[test]
fn offsets_of_zero_at_the_beginning_of_a_fio_log_are_offsets() {
    let log = "0, 51234, 1, 4096, 0\n0, 51234, 1, 4096, 0\n1, 61234, 0, 4096, 8192\n";
    let (records, notes) = read_as("job_clat.1.log", log, None).unwrap();
    assert_eq!((records.len(), notes.rows_bad), (3, 0), "{notes:?}");
    let told = read_as("job_clat.1.log", log.replace("8192", "0"), None).unwrap_err();
    assert!(told.contains("record the log with log_offset=1"), "{told}");
}
