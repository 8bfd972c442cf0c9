//! Values as programs write them.

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
    // The same in English, between commas.
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
