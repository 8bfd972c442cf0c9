//! Tests values as various programs write them.

use super::field_tests::{read, read_as};
use forebay_core::{Nanos, Op};

#[test]
fn a_european_export_of_windows_is_read() {
    let text = "IO Type;Priority;Process (Name);Init Time (s);Complete Time (s);IO Time (µs);Disk Service Time (µs);\
                Size (B);Min Offset;Max Offset;Disk\n\
                Read;Normal;a;1,500000000;1,500250000;250,000;250,000;4.096;0x0000000000200000;0x0000000000200FFF;0\n\
                Write;Normal;b;1,600000000;1,602500000;2.500,000;2.500,000;65.536;0x0000000012340000;0x000000001234FFFF;0\n\
                Flush;Normal;b;1,700000000;1,700012300;12,300;12,300;0;0xFFFFFFFFFFFFFFFF;0xFFFFFFFFFFFFFFFF;0\n";
    let (records, notes) = read(text);
    let row = |n: usize| {
        (records[n].at.0, records[n].op, records[n].offset, records[n].len, records[n].latency)
    };
    assert_eq!(row(0), (0, Op::Read, 0x20_0000, 4096, Some(Nanos(250_000))));
    assert_eq!(row(1), (100_000_000, Op::Write, 0x1234_0000, 65_536, Some(Nanos(2_500_000))));
    assert_eq!(row(2), (200_000_000, Op::Flush, 0, 0, Some(Nanos(12_300))));
    assert!(notes.warnings[0].contains("\"Disk Service Time"), "{notes:?}");
    // The table above as an English Windows exports it, separated by commas.
    let english = "IO Type,Process (Name),Init Time (s),Complete Time (s),Size (B),Min Offset,Disk\n\
                   Read,a,1.500000000,1.500250000,\"4,096\",0x0000000000200000,0\n\
                   Write,b,1.600000000,1.602500000,\"65,536\",0x0000000012340000,0\n\
                   Flush,b,1.700000000,1.700012300,0,0xFFFFFFFFFFFFFFFF,0\n";
    assert_eq!(read(english).0, records);
}

#[test]
fn any_delimiter_and_unknown_values_are_read() {
    let rows = |sep: &str, unknown: &str| {
        let rows = [
            "time_s,is_write,offset,len,latency_us",
            "1.0,True,0.0,4096.0,5e1",
            "1e1,False,4096.0,512.0,?",
        ];
        rows.join("\n").replace('?', unknown).replace(',', sep) + "\n"
    };
    let (expected, _) = read(rows(",", ""));
    assert_eq!(
        (expected[0].op, expected[0].latency, expected[1].at.0),
        (Op::Write, Some(Nanos(50_000)), 9_000_000_000)
    );
    for sep in [",", ";", "\t", "|"] {
        for unknown in ["", "NaN", "NULL", "None", "<NA>", "\"\"", "-"] {
            assert_eq!(read(rows(sep, unknown)).0, expected, "{sep:?} {unknown}");
        }
    }
    assert_eq!(read(rows(" ", "NaN")).0, expected);
    let quoted = rows(",", "nan").replace(',', "\",\"").replace('\n', "\"\n\"");
    assert_eq!(read(format!("\"{}", quoted.trim_end_matches('"'))).0, expected);
    let wide: Vec<u8> = "\u{feff}"
        .encode_utf16()
        .chain(rows("\t", "").encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(read(wide).0, expected);
}

#[test]
fn a_time_without_a_unit_is_refused_with_the_unit_that_makes_it_a_date() {
    for (time, unit) in [
        ("1716900000", "s"),
        ("1716900000.25", "s"),
        ("1716900000123", "ms"),
        ("1716900000123456", "us"),
        ("1716900000123456789", "ns"),
        ("133613736001234567", "filetime"),
        ("12345", "UNIT"),
    ] {
        let text = format!("timestamp,op,offset,len\n{time},R,0,4096\n");
        let told = read_as("t", text, None).unwrap_err();
        assert!(told.contains(&format!("columns=at:{unit},op,offset,len,skip=1")), "{told}");
    }
}

#[test]
fn flushes_at_minus_one_and_quotes_within_quotes_are_read() {
    let text =
        "time_us,op,offset,len,comm\n0,F,-1,0,\"a \"\"b\"\"\"\n5,R,4096,512,c\n9,W,-1,512,c\n";
    let (records, notes) = read(text);
    assert_eq!((records.len(), records[0].op, records[0].offset), (2, Op::Flush, 0));
    assert_eq!(notes.rows_bad, 1);
}

#[test]
fn operations_of_the_kernel_and_of_scsi_are_read() {
    let words =
        "RA R,RM R,WSM W,WFS W,FWFS W,FF F,DS T,DE T,Rd R,Wr W,READ_10 R,WRITE(16) W,read R";
    for word in words.split(',') {
        let (word, op) = word.split_once(' ').unwrap();
        let (records, _) = read(format!("time_us,op,offset,len\n0,{word},4096,4096\n"));
        assert_eq!(records[0].op.name()[..1].to_uppercase(), op, "{word}");
    }
    for word in ["RX", "true", "MR", "READ_11", "was"] {
        let text = format!("time_us,op,offset,len\n0,R,0,512\n1,{word},4096,4096\n");
        assert_eq!(read(text).1.rows_bad, 1, "{word}");
    }
}

#[test]
fn hexadecimal_times_and_numbers_with_exponents_are_read() {
    let (records, _) = read("time_us,op,offset,len\n0x10,R,0x1000,512\n0x20,R,0,512\n");
    assert_eq!((records[1].at.0, records[0].offset), (16_000, 4096));
    let (records, _) =
        read("time_s,op,offset,len\n1.000e-01,R,0.000e+00,4.096e+03\n2.000e-01,R,0,4.096e+03\n");
    assert_eq!((records[1].at.0, records[0].len), (100_000_000, 4096));
}

#[test]
fn excels_line_and_ansi_in_the_header_are_accepted() {
    let rows = b"sep=;\ntime_s;IO Time (\xb5s);op;offset;len\n1;250;R;4096;512\n2;250;R;0;512\n";
    let (records, notes) = read(&rows[..]);
    assert_eq!((records.len(), records[0].offset, records[1].at.0), (2, 4096, 1_000_000_000));
    assert_eq!((notes.rows_bad, records[0].latency), (0, Some(Nanos(250_000))));
}

#[test]
fn names_of_kernel_events_are_known() {
    let (records, _) = read("time_us,rwbs,sector,nr_sector\n1,WS,16,8\n");
    assert_eq!((records[0].op, records[0].offset, records[0].len), (Op::Write, 8192, 4096));
}

#[test]
fn decimals_of_zero_show_no_groups() {
    let (records, _) =
        read("time_s;op;offset;len\n1,125;R;8192,000;4096,000\n2,250;R;4096,000;512,000\n");
    assert_eq!((records[1].at.0, records[1].len), (1_125_000_000, 512));
    let told = read_as("t", "time_s;op;offset;len\n1;R;0;512,000\n2;R;0;512,000\n", None);
    assert!(told.unwrap_err().contains("decimal"));
}

#[test]
fn parts_of_kib_are_read_if_they_are_whole_bytes() {
    let (records, notes) =
        read("time_us,op,offset_kib,size_kib\n0,R,4.5,0.5\n5,W,8,4\n9,W,0,0.0001\n");
    let seen: Vec<_> = records.iter().map(|r| (r.offset, r.len)).collect();
    assert_eq!((seen, notes.rows_bad), (vec![(4608, 512), (8192, 4096)], 1));
    let (records, _) = read("time_us;op;offset_kib;size_kib\n0;R;4,5;0,5\n5;W;8;4\n");
    assert_eq!((records[0].offset, records[0].len), (4608, 512));
}

/// A tracer may count us in 32 bits but print ms or s.
#[test]
fn wrapped_latencies_of_a_finer_unit_are_unknown() {
    for (unit, latency) in [("ms", "4294967.29"), ("s", "4294.967"), ("us", "4294967290")] {
        let text =
            format!("time_s,op,offset,len,latency_{unit}\n1,R,0,512,{latency}\n2,R,0,512,1\n");
        assert_eq!(read(text).0[0].latency, None, "{unit}");
    }
    let text =
        "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n9.5 a 77 sda W 1000 4096 4294967.29\n";
    assert_eq!(read(text).0[0].latency, None);
    let long = "time_s,op,offset,len,latency_ms\n1,R,0,512,4290000\n2,R,0,512,1\n";
    assert_eq!(read(long).0[0].latency, Some(Nanos(4_290_000_000_000)));
}

#[test]
fn dates_of_process_monitor_are_read() {
    let text = |rows: [&str; 3]| {
        let row = |time| {
            format!("\"{time}\",\"a.exe\",\"ReadFile\",\"C:\\a\",\"Offset: 0, Length: 512\"\n")
        };
        format!(
            "\"Date & Time\",\"Process Name\",\"Operation\",\"Path\",\"Detail\"\n{}",
            rows.map(row).concat()
        )
    };
    for rows in [
        ["1/31/2026 11:59:59 PM", "2/1/2026 12:00:01 AM", "2/1/2026 12:00:02 AM"],
        ["31.01.2026 23:59:59", "01.02.2026 00:00:01", "01.02.2026 00:00:02"],
    ] {
        let (records, _) = read(text(rows));
        let times: Vec<u64> = records.iter().map(|r| r.at.0 / 1_000_000_000).collect();
        assert_eq!(times, [0, 2, 3], "{rows:?}");
    }
}

#[test]
fn truth_values_are_operations_of_their_column() {
    for (no, yes) in [("f", "t"), ("no", "yes"), ("False", "True"), ("N", "Y"), ("0.0", "1.0")] {
        let text = format!("time_us,is_write,offset,len\n0,{no},0,512\n5,{yes},0,512\n");
        let (records, notes) = read(text);
        assert_eq!((records[0].op, records[1].op, notes.rows_bad), (Op::Read, Op::Write, 0));
    }
}

#[test]
fn spans_of_time_are_read() {
    for (first, second, latency, negative) in [
        ("0 days 00:00:00", "0 days 00:00:01.5", "0 days 00:00:00.001", "-1 days +23:59:59.999"),
        ("PT0S", "PT1.5S", "PT0.001S", "-PT0.001S"),
        ("0 days", "0 days 00:00:01.500000000", "0:00:00.001000", "-1 day, 23:59:59.9"),
    ] {
        let quoted = |text: &str| format!("\"{text}\"");
        let rows = [
            [quoted(first), "R,0,4096".into(), quoted(latency)].join(","),
            [quoted(second), "W,4096,4096".into(), "NaT".into()].join(","),
            [quoted(second), "W,4096,4096".into(), quoted(negative)].join(","),
        ];
        let text = format!("time,op,offset,len,latency\n{}\n", rows.join("\n"));
        let (records, notes) = read(&text);
        let seen: Vec<_> = records.iter().map(|r| (r.at.0, r.latency.map(|l| l.0))).collect();
        let at = 1_500_000_000;
        assert_eq!(seen, [(0, Some(1_000_000)), (at, None), (at, None)], "{text}");
        assert!(
            notes.warnings[0].contains("at:timedelta,op,offset,len,latency:timedelta,skip=1"),
            "{notes:?}"
        );
        assert!(
            notes.warnings.iter().any(|note| note.starts_with("1 latency is negative")),
            "{notes:?}"
        );
    }
}

#[test]
fn rw_counts_writes_and_other_pairs_are_asked_for() {
    for (no, yes) in [("0", "1"), ("False", "True"), ("0.0", "1.0"), ("R", "W"), ("read", "write")]
    {
        let rows = format!("\n0,{no},0,512\n5,{yes},0,512\n");
        let (records, notes) = read(format!("time_us,rw,offset,len{rows}"));
        assert_eq!((records[0].op, records[1].op, notes.rows_bad), (Op::Read, Op::Write, 0));
        assert_eq!(
            notes.warnings[0].contains("1 and true in rw mean write"),
            no.len() != 1 && no != "read" || no == "0",
            "{notes:?}"
        );
        let told = read_as("t", format!("time_us,op,offset,len{rows}"), None);
        match no {
            "R" | "read" => assert!(told.is_ok()),
            _ => {
                let told = told.unwrap_err();
                assert!(
                    told.contains("words for reads and writes in \"op\"")
                        && told.contains("op:WORDS"),
                    "{told}"
                );
            }
        }
    }
}

#[test]
fn flushes_alone_are_no_truth_values() {
    for name in ["op", "rw"] {
        let (records, _) = read(format!("time_us,{name},offset,len\n0,F,0,0\n5,F,0,0\n"));
        assert!(records.iter().all(|record| record.op == Op::Flush) && records.len() == 2);
    }
}

#[test]
fn decimal_commas_of_tracers_are_read() {
    let text = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0,5 a 77 sda W 1000 4096 0,40\n1,000250 a 77 sda W 1000 4096 -0,1\n";
    let (records, notes) = read(text);
    assert_eq!(
        (records[1].at.0, records[0].latency, notes.rows_bad),
        (500_650_000, Some(Nanos(400_000)), 0)
    );
}

#[test]
fn tracepoints_with_other_times_are_refused_with_what_to_record() {
    for time in ["54us :", "196549233333:"] {
        let text = format!(
            "# tracer: nop\n  rep-7   [007] .... {time} block_rq_issue: 8,0 R 4096 () 8 + 8 [rep]\n"
        );
        let told = read_as("t", text, None).unwrap_err();
        assert!(told.contains("not in seconds") && told.contains("trace_clock local"), "{told}");
    }
}

#[test]
fn recordings_are_refused_with_how_to_print_them() {
    for (begin, tool) in [
        (&b"\x17\x08\x44tracing6\0\0\x08block_rq_issue"[..], "trace-cmd report"),
        (b"PERFILE2\x68\0\0\0block_rq_issue", "perf script"),
        (b"PML_\x09\0\0\0", "CSV"),
        (b"\n\r\r\n\x1c\0\0\0\x4d\x3c\x2b\x1a", "sysdig -r"),
    ] {
        let told = read_as("t", begin, None).unwrap_err();
        assert!(told.contains("a recording of") && told.contains(tool), "{told}");
    }
}

#[test]
fn summaries_of_windows_are_no_traces() {
    let text = "Line #,Process,IO Type,Count,Disk Service Time (\u{b5}s)<Sum>,IO Time (\u{b5}s)<Sum>,Size (B)<Sum>\n\
                1,java.exe (42),Read,12,\"1,234.5\",\"2,345.6\",\"65,536\"\n";
    for text in [text.to_owned(), text.replace(',', ";"), text.replace(',', "\t")] {
        let told = read_as("t", text, None).unwrap_err();
        assert!(
            told.contains("summary table of Windows Performance Analyzer")
                && told.contains("Init Time"),
            "{told}"
        );
    }
}

#[test]
fn headers_of_vscsi_exports_are_understood_or_named() {
    for text in [
        "#Serial Number,IO Data Length,Num SG Entries,Command Type,LBN,Time Stamp (microseconds)\n1,4096,1,write,8,100\n",
        "Serial Number,IO Data Length,Num SG Entries,Command Type,LBN,Time Stamp (microseconds)\n1,4096,1,write,8,100\n",
    ] {
        let (records, _) = read(text);
        assert_eq!((records[0].op, records[0].offset, records[0].len), (Op::Write, 4096, 4096));
    }
    for (commands, declared) in
        [(["28", "2a"], "op:scsi"), (["40", "42"], "op:8+40+136+168/10+42+138+170")]
    {
        let [read, write] = commands;
        let text = format!(
            "sn,len,nSG,cmd,ver,lbn,ts\n1,4096,1,{read},256,8,100\n2,512,1,{write},256,16,250\n"
        );
        let told = read_as("t", text, None).unwrap_err();
        assert!(told.contains(declared) && told.contains("offset:sectors"), "{told}");
    }
}

#[test]
fn columns_are_explained() {
    let because = |text: &str, column: &str| {
        let (_, notes) = read(text);
        let found = notes.columns.into_iter().find(|meaning| meaning.column == column);
        let found = found.unwrap_or_else(|| panic!("{column} of {text}"));
        format!("{}: {}", found.read_as, found.because)
    };
    let text = "time_us;op;offset;len;size;host;latency\n1,25;R;8192,0;4096;1;x;3\n";
    for (column, expected) in [
        (
            "time_us",
            "at:us: its name, which gives the unit us; the rows show that the decimal mark is a comma",
        ),
        ("size", "_: \"len\" is read as len"),
        ("host", "_: the name is unknown"),
        ("latency", "_: its name gives no unit"),
    ] {
        assert_eq!(because(text, column), expected);
    }
    let biosnoop = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n9.5 a 77 sda W 1000 4096 0.5\n";
    assert_eq!(because(biosnoop, "LAT(ms), QUE(ms)"), "latency:ms: format snoop has it there");
    let blkparse = "8,0 0 1 1.0 7 Q R 8 + 8 [a]\n8,0 1 2 1.1 0 C R 8 + 8 [0]\n";
    assert_eq!(because(blkparse, "seconds"), "at:s: format blkparse has it there");
}

#[test]
fn fields_of_binary_formats_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("t.csv");
    std::fs::write(&csv, "time_us,op,offset,len\n0,R,0,4096\n9,W,4096,512\n").unwrap();
    for (name, field, sign) in [
        (
            "t.parquet",
            "at_ns: at:ns: format parquet has it there",
            "the file: parquet: PAR1 at its beginning, and the version in its metadata",
        ),
        (
            "t.blktrace.0",
            "bytes: len: format blktrace has it there",
            "the file: blktrace: the magic number 65617407 at the beginning of each record",
        ),
    ] {
        let path = folder.path().join(name);
        let mut reader = crate::open::open(&csv, None).unwrap();
        let mut writer =
            crate::write::create(&path, None, &crate::write::ProtectedFiles::default()).unwrap();
        let mut batch = Vec::new();
        loop {
            reader.read(&mut batch).unwrap();
            if batch.is_empty() {
                break;
            }
            writer.write(&batch, reader.dictionary()).unwrap();
        }
        writer.finish(reader.dictionary(), reader.notes()).unwrap();
        let opened = crate::open::open(&path, None).unwrap();
        let shown =
            |m: &crate::ColumnMeaning| format!("{}: {}: {}", m.column, m.read_as, m.because);
        let columns: Vec<String> = opened.notes().columns.iter().map(shown).collect();
        assert_eq!(columns[0], sign);
        assert!(columns.iter().any(|column| column == field), "{columns:?}");
    }
}

#[test]
fn times_of_day_continue_over_midnight() {
    let rows = |sep: char| {
        let rows = [
            "time,op,offset,len",
            "23:59:59.250000,R,0,4096",
            "23:59:59.999999,R,4096,4096",
            "00:00:00.000001,W,8192,512",
            "23:59:59.999999,W,8192,512",
            "00:00:10,R,0,512",
        ];
        rows.join("\n").replace(',', &sep.to_string()) + "\n"
    };
    let expected = [0, 749_999_000, 749_999_000, 750_001_000, 10_750_000_000];
    for sep in [',', ';', '\t', ' '] {
        let (records, notes) = read(rows(sep));
        assert_eq!(records.iter().map(|r| r.at.0).collect::<Vec<_>>(), expected, "{sep:?}");
        assert!(notes.warnings[0].contains("at:clock,op,offset,len,"), "{notes:?}");
        let told = |note: &String| note.starts_with("times are times of day");
        assert!(notes.warnings.iter().any(told), "{notes:?}");
    }
    let (records, _) =
        read("timestamp;rw;offset;size\n11:59:59,5 PM;R;0;512\n12:00:00,25 AM;W;0;512\n");
    assert_eq!(records[1].at, Nanos(750_000_000));
    // The first request completed just after midnight.
    let text =
        "end_time,latency_ms,op,offset,len\n00:00:00.001,2,R,0,512\n00:00:00.002,2,R,0,512\n";
    let (records, _) = read(text);
    assert_eq!((records[1].at, records[1].latency), (Nanos(1_000_000), Some(Nanos(2_000_000))));
    let told = read_as(
        "t",
        "time,op,offset,len\n23:59:59,R,0,512\n24:00:00,R,0,512\n25:00:00,R,0,512\n",
        None,
    );
    assert!(told.unwrap_err().contains("expected a time of day such as 23:59:59.000345"));
    // A day in another column would be lost.
    for day in ["2026-01-31", "31.01.2026", "1/31/26"] {
        let text = format!("date,time,op,offset,len\n{day},23:59:59.25,R,0,4096\n");
        let told = read_as("t", text, None).unwrap_err();
        assert!(told.contains("day and time in one column"), "{told}");
    }
    let told = read_as("t", "23:59:59,R,81920,512\n23:59:59.5,W,4096,4096\n", None).unwrap_err();
    assert!(told.contains("at:clock,op,offset"), "{told}");
}

#[test]
fn sizes_may_state_their_unit() {
    for (size, bytes) in [
        ("4KB", 4096),
        ("4kb", 4096),
        ("4 KiB", 4096),
        ("1.5MB", 3 << 19),
        ("0.5K", 512),
        ("1G", 1 << 30),
        ("512B", 512),
        ("8192", 8192),
    ] {
        for (name, offset) in [("size", "2MiB"), ("size_kib", "2 MB"), ("bytes", "2097152")] {
            let size = if name == "size_kib" && size == "8192" { "8" } else { size };
            let (records, notes) =
                read(format!("time_us,op,offset_bytes,{name}\n0,R,{offset},{size}\n"));
            assert_eq!((records[0].offset, records[0].len), (2 << 20, bytes), "{size}: {notes:?}");
        }
    }
    let (records, _) = read("time_us;op;offset;size\n0;R;0;1,5 MB\n0;R;0;0,5 KiB\n");
    assert_eq!((records[0].len, records[1].len), (3 << 19, 512));
    let told = read_as("t", "time_us,op,offset,size\n0,R,1f000,512\n", None).unwrap_err();
    assert!(told.contains("hexadecimal numbers need the prefix 0x"), "{told}");
    for bad in ["4XB", "1.3KB", "-4KB", "4 K B", "KB", "4e3KB"] {
        let text = format!("time_us,op,offset,size\n0,R,0,{bad}\n");
        let told = read_as("t", text, None).unwrap_err();
        assert!(told.contains("line 2") && told.contains("in column size"), "{told}");
    }
}

#[test]
fn output_of_bpftrace_is_read_with_what_it_prints_around_it() {
    let rows = "time_us op sector bytes\n1000 R 2048 4096\n1500 W 4096 8192\n1600 R 0 512\n";
    let (expected, _) = read(rows);
    assert_eq!((expected.len(), expected[1].offset, expected[1].len), (3, 4096 * 512, 8192));
    for before in [
        "Attaching 3 probes...\n",
        "Attached 3 probes\n",
        "Attaching 1 probe...\nTracing block I/O... Hit Ctrl-C to end.\n",
        "Attaching 3 probes...\n\n\n",
    ] {
        for rows in [rows.to_owned(), rows.replace(' ', "\t"), rows.replace(' ', "   ")] {
            let (records, notes) = read(format!("{before}{rows}\n\n@start[1234]: 17\n@q: 5\n"));
            assert_eq!(records, expected, "{before}{rows}");
            assert_eq!((notes.rows_skipped, notes.rows_bad), (2, 0), "{notes:?}");
        }
        let told = read_as("t", format!("{before}1000 R 2048 4096\n1500 W 4096 8192\n"), None);
        let told = told.unwrap_err();
        assert!(told.contains(" has at 1000, op R, "), "{told}");
    }
}
