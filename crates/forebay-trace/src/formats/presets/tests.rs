use forebay_core::{Nanos, Op};

use super::*;
use crate::formats::tests::{message as message_of, read as read_of};
use crate::formats::{FORMATS, Format};
use crate::{Dictionary, Notes, Record};

fn read(name: &str, text: &str) -> (Vec<Record>, Dictionary, Notes) {
    read_of(|input| Format::named(name).unwrap().open(input), text.as_bytes())
}

fn message(name: &str, text: &str) -> String {
    message_of(|input| Format::named(name).unwrap().open(input), text.as_bytes())
}

/// Returns the offset, the length, the volume and the operation of a record.
fn place(record: &Record) -> (u64, u32, u32, Op) {
    (record.offset, record.len, record.volume, record.op)
}

#[test]
fn every_declaration_stands_and_is_listed() {
    let declared = FORMATS.iter().filter_map(|format| Some((format.name, format.preset()?)));
    for (name, preset) in declared {
        let columns = preset.declared().unwrap();
        // The hash in FIU's traces has a title, but need not be present.
        let optional = usize::from(name == "fiu");
        assert_eq!(columns.roles.len() + optional, columns.titles.len(), "{name}");
    }
}

#[test]
fn msr_rows_keep_every_field() {
    let text = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n\
                128166385295514663,hm,0,Write,9056014336,2048,2833\r\n\n\
                128166385295514662,hm,1,read,512,0,1\n\
                128166385295514672,hm,1,read,512,1024,7\n";
    let (records, dictionary, notes) = read("msr", text);
    assert_eq!(dictionary.volumes, ["hm.0", "hm.1"]);
    assert_eq!((notes.format, notes.rows_skipped), ("msr", 1));
    let fields = |r: &Record| (r.at.0, r.latency, place(r));
    let latency = |ns| Some(Nanos(ns));
    let first = (9_056_014_336, 2048, 0, Op::Write);
    assert_eq!(fields(&records[0]), (0, latency(283_300), first));
    assert_eq!(fields(&records[1]), (900, latency(700), (512, 1024, 1, Op::Read)));
}

#[test]
fn msr_messages_name_line_and_column() {
    let good = "128166385295514663,hm,0,Write,9056014336,2048,2833\n";
    for (bad, expected) in [
        ("1,hm,0,Trim,0,512,1", "got \"Trim\" in column Type, expected Read or Write"),
        ("1,hm,0,Read,-512,512,1", "got \"-512\" in column Offset"),
        ("1,hm,0,Read,0,4294967297,1", "column Size, expected at most 4 GiB"),
        ("1,hm,0,Read,9223372036854775807,512,1", "column Offset, expected a request that"),
        ("1,hm,0,Read,0,512", "got the end of the line in column ResponseTime"),
        ("1,hm,x,Read,0,512,1", "got \"x\" in column DiskNumber, expected a whole number"),
        ("200000000000000000,hm,0,Read,0,512,1", "column Timestamp, expected 100 ns ticks"),
    ] {
        let text = message("msr", &format!("{good}\n{bad}\n"));
        assert!(text.contains("line 3: ") && text.contains(expected), "{text}");
    }
    let text = message("msr", &format!("{good}128166385295514663,hm,0,Wri"));
    assert!(text.contains("line 2: got \"Wri\"") && text.contains("truncated"), "{text}");
    assert!(!message("msr", &format!("{good}x\n")).contains("truncated"));
}

#[test]
fn spc_rows_keep_every_field() {
    let text = "ASU,LBA,Size,Opcode,Timestamp\n7,20941264,8192,W,0.551706\r\n\
                0,20939840,8192,r,0.554041,extra,1\n0,1,0,R,0.6\n";
    let (records, dictionary, notes) = read("spc", text);
    assert_eq!(dictionary.volumes, ["7", "0"]);
    assert_eq!((dictionary.streams.len(), notes.rows_skipped), (1, 1));
    assert_eq!(place(&records[0]), (20_941_264 * 512, 8192, 0, Op::Write));
    assert_eq!(place(&records[1]), (20_939_840 * 512, 8192, 1, Op::Read));
    assert_eq!((records[1].at, records[1].latency), (Nanos(2_335_000), None));
}

#[test]
fn spc_messages_name_line_and_column() {
    for (bad, expected) in [
        ("0,1,512,T,0.1", "got \"T\" in column Opcode, expected R or W"),
        ("0,1,512,R,-0.1", "got \"-0.1\" in column Timestamp, expected seconds"),
        ("0,36028797018963968,512,R,1", "in column LBA"),
        ("0,1,4294967808,R,1", "got \"4294967808\" in column Size"),
        ("0,1,512,R", "got the end of the line in column Timestamp"),
        ("ASU,1,512,R,1", "got \"ASU\" in column ASU"),
        ("0,1,512,R,0.1\r0,1,512,R,0.2", "expected lines that end with a line feed"),
    ] {
        let text = message("spc", &format!("0,1,512,R,0.1\n{bad}"));
        assert!(text.contains("line 2: ") && text.contains(expected), "{text}");
    }
}

#[test]
fn each_preset_reads_its_units() {
    // In each text, two rows are 2 ms apart and read 4096 bytes at 8192. The expected volumes
    // follow.
    for (name, text, volumes) in [
        ("systor17", "145.001000000,,R,0,8192,4096\n145.003,0.1,R,0,8192,4096\n", &["0"][..]),
        (
            "alibaba",
            "3,R,8192,4096,1577808000000626\n4,R,8192,4096,1577808000002626\n",
            &["3", "4"],
        ),
        ("disksim-ascii", "1.5\t0\t16\t8\t1\n 3.500000 0   16 8 9 \n", &["0"]),
        ("mqsim", "1000 0 16 8 1\n2001000 0 16 8 1\n", &["0"]),
        ("ssdsim", "1000 0 16 8 1\n2001000 0 16 8 1\n", &["0"]),
        ("ssdsim-us", "1000 0 16 8 1\n3000 0 16 8 1\n", &["0"]),
        ("heimdall", "0.000 0 8192 4096 1\n2.000 0 8192 4096 1\n", &["0"]),
    ] {
        let (records, dictionary, notes) = read(name, text);
        assert_eq!((notes.format, records.len()), (name, 2), "{name}");
        assert_eq!(records[1].at, Nanos(2_000_000), "{name}");
        assert_eq!((records[0].offset, records[0].len), (8192, 4096), "{name}");
        assert_eq!(records[0].op, Op::Read, "{name}");
        assert_eq!(dictionary.volumes, volumes, "{name}");
    }
    let (records, ..) = read("tencent-cbs", "1538323200,16,8,1,1058\n1538323199,16,8,0,9\n");
    assert_eq!(place(&records[1]), (8192, 4096, 0, Op::Write));
    assert_eq!((records[1].at, records[0].op), (Nanos(1_000_000_000), Op::Read));
    let text = "version,time,op,size,lbn\n1,7,2a,512,3\n1,7,12,36,0\n1,8,28,1024,4\n";
    let (records, _, notes) = read("cloudphysics", text);
    assert_eq!((records.len(), notes.rows_skipped), (2, 1));
    assert_eq!(place(&records[0]), (1536, 512, 0, Op::Write));
    let (records, _, notes) = read("arc", "3 2 0 0\n9 1 7 1\n");
    assert_eq!(place(&records[0]), (1536, 1024, 0, Op::Read));
    assert_eq!((records[1].at, notes.warnings.len()), (Nanos(1_000_000), 3));
    assert_eq!(notes.own_block_bytes, Some(512));
}

#[test]
fn presets_are_distinguished() {
    for (text, expected) in [
        ("128166385295514663,hm,0,Write,9056014336,2048,2833\n", "msr"),
        ("\u{feff}7,20941264,8192,W,0.551706\n", "spc"),
        ("damaged\n7,20941264,8192,W,0.551706\n", "spc"),
        ("145.001000000,,R,0,8192,4096\n", "systor17"),
        ("1538323199,13896880,40,0,1063\n", "tencent-cbs"),
        ("3,R,8192,4096,1577808000000626\n", "alibaba"),
        ("version,time,op,size,lbn\n1,7,2a,512,3\n", "cloudphysics"),
        ("1.5\t0\t16\t8\t1\n", "disksim-ascii"),
        ("0.000 0 3242508288 4096 0\n", "disksim-ascii"),
        ("26214000 0 303574 7 0\n", "mqsim"),
        ("230027 8 0 0\n", "arc"),
        ("one two three four\n", ""),
        ("1 2 3\n", ""),
        ("1,2,3,4,5\n", ""),
    ] {
        let head = text.strip_prefix('\u{feff}').unwrap_or(text).as_bytes();
        let found = FORMATS.iter().find(|format| format.sniff(head));
        assert_eq!(found.map_or("", |format| format.name), expected, "{text:?}");
    }
}

#[test]
fn declared_columns_name_streams_and_times() {
    let open: fn(Input) -> _ = |input| {
        let columns = "end:ms,latency:us,thread,process,name,op,offset:kib,len,flags,volume";
        open_columns(&columns.parse().unwrap(), input)
    };
    let text = b"when;took;tid;pid;comm;rw;where;n;f;disk\n\
                 5.5; 500 ;7;6;java;write;2;4096;SM;sda1\n\
                 6;;8;;\"kworker/u8:1; x\";R;2;4096;;sda-with-a-long-name\n\
                 7;0;07;6;java;R;2;4096;;sda1\n";
    let (records, dictionary, notes) = read_of(open, text);
    assert_eq!((notes.format, notes.warnings.len()), ("columns", 1));
    assert_eq!((records[0].latency, records[1].latency), (Some(Nanos(500_000)), None));
    assert_eq!((records[1].at, records[2].at), (Nanos(1_000_000), Nanos(2_000_000)));
    let streams: Vec<_> =
        dictionary.streams.iter().map(|s| (s.thread, s.process, &*s.name)).collect();
    let kworker = (Some(8), None, "kworker/u8:1; x");
    assert_eq!(streams[..2], [(Some(7), Some(6), "java"), kworker]);
    assert_eq!(dictionary.volumes, ["sda1", "sda-with-a-long-name"]);
    assert_eq!(records[0].flags.0.count_ones(), 2);
    let text = message_of(open, b"1;x5;7;6;java;write;2;4096;SM;sda1\n");
    assert!(text.contains("line 1: got \"x5\" in column latency, expected us"), "{text}");
    assert!(text.contains("declared as end:ms,latency:us"), "{text}");
}
