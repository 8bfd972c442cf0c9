//! Tests unreadable rows. They are counted and shown; only many of them are an error.

use super::field_tests::{read, read_as};
use crate::formats::csv::HEADER;
use forebay_core::Op;

const SNOOP: &str = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n";

/// Returns a text for each reader of rows: the lines before the rows, a good row, and a bad row.
fn texts() -> Vec<(String, &'static str, &'static str)> {
    vec![
        ("time_us,op,offset,len\n".into(), "5,R,4096,4096\n", "5,R,x,4096\n"),
        (
            String::new(),
            "128166372003061629,src1,0,Read,7014609920,24576,41286\n",
            "12,src1,0,Seek,0,1,1\n",
        ),
        (String::new(), "0,20941264,8192,W,0.551706\n", "0,20941264,8192\n"),
        (HEADER.join(",") + "\n", "5,write,4096,512,9,v,,SM,7,,x\n", "5,write,4096,512\n"),
        (
            HEADER.join(",") + "\n",
            "5,write,4096,512,9,v,,SM,7,,x\n",
            "5,write,-1,512,9,v,,SM,7,,x\n",
        ),
        (SNOOP.into(), "0.5 a 77 sda W 1000 4096 0.40\n", "0.5 a 77 sda W 1000 many 0.40\n"),
        ("time,obj_id,obj_size\n".into(), "1,5,4096\n", "x,5,4096\n"),
        ("fio version 2 iolog\nf add\nf open\n".into(), "f read 4096 512\n", "f read 4096 lots\n"),
    ]
}

#[test]
fn a_single_odd_row_is_left_out_and_shown() {
    for (head, good, bad) in texts() {
        let text = head.clone() + &good.repeat(2) + bad + good;
        let (records, notes) = read(&text);
        assert_eq!((records.len(), notes.rows_bad), (3, 1), "{text}");
        let line = head.lines().count() + 3;
        let expected = format!("1 row cannot be read and is left out: line {line} (got ");
        assert!(notes.warnings.iter().any(|note| note.starts_with(&expected)), "{text}{notes:?}");
        // If all rows must be readable, even one bad row is an error.
        let strict = read_as("trace", &text, Some("bad-rows:0:")).unwrap_err();
        assert!(strict.contains(&format!("line {line}: got ")), "{strict}");
    }
}

#[test]
fn many_odd_rows_are_an_error_that_shows_them() {
    for (head, good, bad) in texts() {
        let text = head.clone() + &good.repeat(99) + &bad.repeat(3) + &good.repeat(100);
        let error = read_as("trace", &text, None).unwrap_err();
        let line = head.lines().count() + 100;
        assert!(error.contains(&format!("line {line}: got ")), "{error}");
        assert!(
            error.contains(
                " cannot be read; at most 1 % (and always one row) is skipped; also line"
            ),
            "{error}"
        );
        let (records, notes) = read_as("trace", &text, Some("bad-rows:2%:")).unwrap();
        assert_eq!((records.len(), notes.rows_bad), (199, 3), "{text}");
        // The error occurs before all of a long file has been read.
        let long = head + good + &bad.repeat(200_000);
        let error = read_as("trace", long, None).unwrap_err();
        assert!(error.contains("100 of the first 10"), "{error}");
    }
    let nothing = read_as("trace", "time_us,op,offset,len\n1,R,a,b\n", None).unwrap_err();
    assert!(nothing.contains("line 2: got \"a\""), "{nothing}");
}

#[test]
fn trims_of_any_length_are_split() {
    for text in [
        "time_us,op,offset,len\n0,R,0,4096\n5,trim,4096,6442450944\n9,R,0,4096\n".to_owned(),
        HEADER.join(",") + "\n0,read,0,4096,0,,,,,,\n5,trim,4096,6442450944,0,,,,,,\n9,read,0,4096,0,,,,,,\n",
        "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf trim 4096 6442450944\nf read 0 4096\n".into(),
    ] {
        let (records, notes) = read(&text);
        let trims: Vec<(u64, u32)> =
            records.iter().filter(|r| r.op == Op::Trim).map(|r| (r.offset, r.len)).collect();
        assert_eq!(trims, [(4096, 1 << 31), (4096 + (1 << 31), 1 << 31), (4096 + (1 << 32), 1 << 31)]);
        assert_eq!(records.len(), 5);
        let split = "1 trim of 4 GiB or more is split into 3 requests of at most 2 GiB";
        assert!(notes.warnings.iter().any(|note| note == split), "{notes:?}");
    }
    // Reads and writes are split, too.
    for text in [
        "time_us,op,offset,len\n5,R,0,2147483648\n9,W,4096,3221225473\n".to_owned(),
        HEADER.join(",") + "\n5,read,0,2147483648,0,,,,,,\n9,write,4096,3221225473,0,,,,,,\n",
        "fio version 2 iolog\nf add\nf open\nf read 0 2147483648\nf write 4096 3221225473\n".into(),
    ] {
        let (records, notes) = read(&text);
        let seen: Vec<_> = records.iter().map(|r| (r.op, r.offset, r.len)).collect();
        let gib = 1 << 30;
        let write = |n: u64, len| (Op::Write, 4096 + n * gib, len);
        let (one, last) = (gib as u32, 1);
        let writes = [write(0, one), write(1, one), write(2, one), write(3, last)];
        assert_eq!(seen, [&[(Op::Read, 0, one), (Op::Read, gib, one)][..], &writes].concat());
        let split =
            "2 reads or writes of more than 1 GiB are split into 6 requests of at most 1 GiB";
        assert!(notes.warnings.iter().any(|note| note == split), "{notes:?}");
        assert_eq!((notes.rows_added, notes.rows_bad), (4, 0), "{notes:?}");
    }
    // Writing zeroes transfers no data. A negative length is no request.
    let (records, notes) = read(
        "time_us,op,offset,len\n0,write_zeroes,0,4096\n5,write_zeroes,0,2147483648\n\
         6,REQ_OP_WRITE_ZEROES,0,8589934592\n7,W,0,4294963200\n",
    );
    let seen: Vec<_> = records.iter().map(|r| (r.op, r.len)).collect();
    let long = (Op::Trim, 1 << 31);
    assert_eq!(seen, [&[(Op::Write, 4096)][..], &[long; 5]].concat(), "{notes:?}");
    assert_eq!(notes.rows_bad, 1);
    // A long write in other units may be one in bytes.
    let (_, notes) = read("time_us,op,lba,sectors\n0,R,0,8\n5,W,0,4194304\n");
    assert_eq!(notes.rows_bad, 1, "{notes:?}");
    // This trim is longer than any drive, so the row cannot be read.
    let (records, notes) = read("time_us,op,offset,len\n0,R,0,4096\n5,D,0,140737488355328\n");
    assert_eq!((records.len(), notes.rows_bad), (1, 1));
}

#[test]
fn comments_among_rows_are_no_rows() {
    let (records, notes) =
        read("# made by hand\ntime_us,op,offset,len\n0,R,0,4096\n# a pause\n5,R,0,4096\n");
    assert_eq!((records.len(), notes.rows_bad), (2, 0));
}

/// A text may be truncated at any byte. Its complete rows are read, and there is never an error.
#[test]
fn a_text_may_be_cut_at_every_byte() {
    for (head, good, _) in texts() {
        let text = head.clone() + &good.repeat(4);
        let rows = head.len() + good.len();
        for cut in rows..text.len() {
            let (records, notes) = read(&text[..cut]);
            let (whole, part) = ((cut - head.len()) / good.len(), (cut - head.len()) % good.len());
            // The last line may be complete.
            assert!((whole..=whole + 1).contains(&records.len()), "{:?}", &text[..cut]);
            assert!(
                part == 0 || notes.warnings.iter().any(|n| n.contains("newline")),
                "{cut}: {notes:?}"
            );
        }
    }
}

#[test]
fn only_rows_are_counted() {
    let text = format!("# made by hand\n\ntime_us,op,offset,len\n{}", "1,R,x,4096\n".repeat(3));
    let error = read_as("trace", text, None).unwrap_err();
    assert!(error.contains("none of the first 3 rows can be read"), "{error}");
}

/// Unreadable insert events count only if there are no other arrivals.
#[test]
fn insert_events_that_are_not_needed_are_no_odd_rows() {
    let event = |us: u64, event: &str, rest: &str| {
        format!("a-7 [000] ..... 9.{us:06}: {event}: 8,0 R {rest}\n")
    };
    let bad = event(1, "block_rq_insert", "4096 () garbage").repeat(5);
    let issue = event(2, "block_rq_issue", "4096 () 800 + 8 [a]");
    let end = event(9, "block_rq_complete", "() 800 + 8 [0]");
    let (records, notes) = read([bad.clone(), issue.clone(), end.clone()].concat());
    assert_eq!((records.len(), notes.rows_bad), (1, 0), "{notes:?}");
    let insert = issue.replace("block_rq_issue", "block_rq_insert");
    let (records, notes) =
        read_as("t", [&insert[..], &bad, &end].concat(), Some("bad-rows:100%:")).unwrap();
    assert_eq!((records.len(), notes.rows_bad), (1, 5), "{notes:?}");
    let told = read_as("t", [&insert[..], &bad, &end].concat(), None).unwrap_err();
    assert!(told.contains("block_rq_insert") && told.contains("line 2"), "{told}");
    let blkparse =
        "8,0 0 1 1.0 7 I R eight [a]\n8,0 0 2 1.1 7 Q R 8 + 8 [a]\n8,0 0 3 1.2 0 C R 8 + 8 [0]\n";
    assert_eq!(read(blkparse).1.rows_bad, 0);
}

/// Names in quotes may contain line breaks.
#[test]
fn quoted_line_breaks_are_read_in_any_row() {
    for separator in [",", ";", "\t", "|"] {
        let row = |n: u64, name: &str| {
            format!("{name},{n},R,{},4096\n", n * 4096).replace(',', separator)
        };
        let broken = "\"a job\nwith a name\"";
        for at in 0..4 {
            let rows: String =
                (0..4).map(|n| row(n, if n == at { broken } else { "\"plain\"" })).collect();
            let (records, notes) =
                read_as("t", &rows, Some("columns:name,at:ms,op,offset,len")).unwrap();
            assert_eq!((records.len(), notes.rows_bad), (4, 0), "{separator} {at}: {notes:?}");
            let text = "name,time_ms,op,offset,len\n".replace(',', separator) + &rows;
            let (records, notes) = read_as("t", &text, None).unwrap();
            assert_eq!((records.len(), notes.rows_bad), (4, 0), "{separator} {at}: {notes:?}");
        }
    }
    // An open quote does not hide the rows after it.
    let rows = (0..300).map(|n| format!("plain,{n},R,0,4096\n")).collect::<String>();
    let text = format!("name,time_ms,op,offset,len\n\"open,0,R,0,4096\n{rows}");
    let (records, notes) = read(text);
    assert_eq!((records.len(), notes.rows_bad), (300, 1), "{notes:?}");
}

#[test]
fn the_share_is_a_number() {
    for bad in ["bad-rows:x:", "bad-rows:101%:", "bad-rows:-1:", "bad-rows:nan:"] {
        let error = read_as("trace", "x", Some(bad)).unwrap_err();
        assert!(error.contains("expected a share of 0 to 1"), "{error}");
    }
    let text = "time_us,op,offset,len\n0,R,0,4096\n";
    for good in [
        "bad-rows:0.5:",
        "bad-rows:5%",
        "split-runs:bad-rows:5%:csv",
        "bad-rows:5%:columns:at:us,op,offset,len",
    ] {
        let (_, notes) = read_as("trace", text, Some(good)).unwrap();
        assert!(notes.warnings.len() <= 1, "{notes:?}");
    }
}
