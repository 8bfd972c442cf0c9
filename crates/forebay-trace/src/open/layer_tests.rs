//! Tests traces that show requests at several layers, and runs that begin with a header.

use super::field_tests::{read, read_as};

/// Returns 30 writes to the mirror 9,0, each of which is remapped to both halves.
fn mirror(lower: &str) -> String {
    let write = |n: u64| {
        let at = |us: u64| format!("{}.{:06}", n / 100, n % 100 * 10_000 + us);
        let (place, event) = (n * 7919 % 1000 * 8, "7");
        let mut text = format!("9,0 0 1 {} {event} Q W {place} + 8 [db]\n", at(0));
        for device in ["8,0", "8,16"] {
            let below =
                lower.replace("DEVICE", device).replace("PLACE", &(place + 2048).to_string());
            text +=
                &format!("{device} 0 1 {} 7 A W {} + 8 <- (9,0) {place}\n", at(5), place + 2048);
            text += &format!("{device} 0 1 {} 7 {below}\n", at(6));
            text += &format!("{device} 0 1 {} 0 C W {} + 8 [0]\n", at(900), place + 2048);
        }
        text
    };
    (0..30).map(write).collect()
}

#[test]
fn legs_of_a_known_volume_are_not_reported_as_layers() {
    let (records, notes) = read(mirror("Q W PLACE + 8 [db]"));
    assert_eq!(records.len(), 60);
    assert!(!notes.warnings.iter().any(|note| note.contains("move in step")), "{notes:?}");
    // Without remaps, it is unknown which volume is above the others.
    let text: Vec<String> = mirror("Q W PLACE + 8 [db]")
        .lines()
        .filter(|line| !line.contains(" A W "))
        .map(|line| format!("{line}\n"))
        .collect();
    let (_, notes) = read(text.concat());
    assert!(notes.warnings.iter().any(|note| note.contains("move in step")), "{notes:?}");
}

/// dm-crypt remaps flushes, but creates new requests for encrypted writes.
#[test]
fn requests_that_lack_remaps_are_reported() {
    let flush = "253,0 0 1 1.0 7 Q FWS [db]\n8,0 0 1 1.001 7 A FWS 0 + 0 <- (253,0) 0\n8,0 0 1 1.002 7 Q FWS [db]\n";
    let write = |n: u64| {
        let at = |us: u64| format!("2.{n:02}{us:04}");
        format!(
            "253,0 0 1 {} 7 Q W {} + 8 [db]\n8,0 0 1 {} 9 Q W {} + 8 [kcryptd]\n",
            at(0),
            n * 8,
            at(20),
            n * 8 + 4096
        )
    };
    let text = flush.to_owned() + &(0..20).map(write).collect::<String>();
    let (records, notes) = read(&text);
    assert_eq!(records.len(), 41);
    let expected = "20 requests of volume 253,0 are not remapped to 8,0 below it, and 20 requests there do not come from above";
    assert!(notes.warnings.iter().any(|note| note.starts_with(expected)), "{notes:?}");
    let one = read_as("t", &text, Some("volume:5:253,0")).unwrap();
    assert_eq!(one.0.len(), 21);
    assert!(!one.1.warnings.iter().any(|note| note.contains("not remapped")), "{:?}", one.1);
    let (_, notes) = read(mirror("Q W PLACE + 8 [db]"));
    assert!(!notes.warnings.iter().any(|note| note.contains("not remapped")), "{notes:?}");
}

#[test]
fn a_layer_without_effect_is_noted_once() {
    let text = "time_us,op,offset,len\n0,R,0,512\n5,W,0,512\n";
    let (_, notes) = read_as("t", text, Some("layer-top:")).unwrap();
    let noted = notes.warnings.iter().filter(|note| note.contains("the layer has no effect"));
    assert_eq!(noted.count(), 1);
}

#[test]
fn a_repeated_header_and_a_step_back_begin_a_run_however_short() {
    let csv = "time_us,op,offset,len\n";
    let canonical = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n";
    let snoop = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n";
    let xperf = "BeginHeader\nDiskRead, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset, IOSize, \
                 ElapsedTime, DiskNum\nEndHeader\n";
    let procmon = "\"Time of Day\",\"Operation\",\"Path\",\"Detail\"\n";
    type Row = fn(u64) -> String;
    let texts: [(&str, Row); 5] = [
        (csv, |ms| format!("{},R,0,512\n", ms * 1000)),
        (canonical, |ms| format!("{},read,0,512,0,,,,,,\n", ms * 1_000_000)),
        (snoop, |ms| format!("0.{ms:03} a 1 sda R 8 512 0.000\n")),
        (xperf, |ms| {
            format!("DiskRead, {}, a.exe ( 42), 7, 0xfa, 0x1000, 0x1000, 0, 0\n", ms * 1000)
        }),
        (procmon, |ms| {
            format!("\"10:00:00.{ms:03}0000\",\"ReadFile\",\"C:\\a\",\"Offset: 0, Length: 512\"\n")
        }),
    ];
    for (header, row) in texts {
        let run: String = [10, 20, 30].into_iter().map(row).collect();
        let text = format!("{header}{run}{header}{run}");
        let (records, notes) = read_as("t", &text, Some("split-runs:")).unwrap();
        let times: Vec<u64> = records.iter().map(|record| record.at.0 / 1_000_000).collect();
        assert_eq!(times, [0, 10, 20, 1020, 1030, 1040], "{text}");
        assert!(
            notes.warnings.iter().any(|note| note.starts_with("1 header line is in the middle"))
        );
        // Times of day do not restart.
        let told = match header == procmon {
            true => "the clock goes back",
            false => "the file holds 2 runs",
        };
        let (_, notes) = read(&text);
        assert!(notes.warnings.iter().any(|note| note.starts_with(told)), "{notes:?}");
    }
}
