use std::path::PathBuf;

use super::*;

/// The output of `S_TIME_FORMAT=ISO iostat -x -t -d 1 4` (sysstat 12.6.1), reduced to two disks.
const IOSTAT: &str = "\
Linux 6.18.44-fc-v657 (vm) \t2026-11-29 \t_x86_64_\t(2 CPU)

2026-11-29T07:38:17+0000
Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
loop0            0.88      5.61     0.03   3.14    2.17     6.35    0.69      9.74     1.28  65.04    5.03    14.19    0.00     53.37     0.00   0.00    1.37 31985.44    0.39    2.42    0.01   0.28
vda             43.96   5112.11     9.40  17.61    1.50   116.29   60.55   8432.58    15.00  19.85    1.39   139.26   17.43  43487.59     0.02   0.12    0.24  2494.94   11.35    0.05    0.15   1.22


2026-11-29T07:38:18+0000
Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
loop0            0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    0.00   0.00
vda              3.00     92.00     0.00   0.00    0.00    30.67 2001.00 128004.00     0.00   0.00    0.08    63.97   17.00 193340.00     0.00   0.00    3.88 11372.94    0.00    0.00    0.22  21.60


2026-11-29T07:38:19+0000
Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
loop0            0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    0.00   0.00
vda           8000.00 128000.00     0.00   0.00    0.04    16.00  134.00   2736.00    80.00  37.38    1.00    20.42    5.00 128032.00     0.00   0.00    6.60 25606.40    0.00    0.00    0.45  30.80
";

/// The output of `LC_ALL=C sar -d 1 2` (sysstat 12.6.1).
const SAR: &str = "\
Linux 6.18.44-fc-v657 (vm) \t11/29/26 \t_x86_64_\t(2 CPU)

07:38:23          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
07:38:24        loop0      0.00      0.00      0.00      0.00      0.00      0.00      0.00      0.00
07:38:24          vda     32.67      3.96  61005.94      3.96   1867.39      0.32      9.79      3.56

07:38:24          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
07:38:25        loop0      0.00      0.00      0.00      0.00      0.00      0.00      0.00      0.00
07:38:25          vda     21.00      0.00    580.00      0.00    352.19      0.00      0.19      0.40

Average:          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
Average:          vda     26.87      1.99  30943.28   3393.03   1278.15      0.16      6.06      1.99
";

/// Metrics of node_exporter 1.5.0, with timestamps added.
const SCRAPE: &str = "\
# HELP node_disk_read_bytes_total The total number of bytes read successfully.
# TYPE node_disk_read_bytes_total counter
node_disk_read_bytes_total{device=\"vda\"} 2.13462206464e+11 1796024306000
node_disk_reads_completed_total{device=\"vda\"} 1.799525e+06 1796024306000
node_disk_writes_completed_total{device=\"vda\"} 2.469881e+06 1796024306000
node_disk_written_bytes_total{device=\"vda\"} 3.52171390464e+11 1796024306000
{__name__=\"node_disk_read_bytes_total\", device=\"vda\"} 213462210560 1796024307000
{__name__=\"node_disk_reads_completed_total\", device=\"vda\"} 1799526 1796024307000
{__name__=\"node_disk_writes_completed_total\", device=\"vda\"} 2469891 1796024307000
{__name__=\"node_disk_written_bytes_total\", device=\"vda\"} 352171472384 1796024307000
";

fn read_text(text: &str, disk: Option<&str>) -> Result<Counters, String> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("c");
    std::fs::write(&path, text).unwrap();
    let found = read(&path, disk);
    found.map_err(|error| error.to_string().replace(&path.display().to_string(), "c"))
}

/// Returns the operations and the bytes of each interval.
fn figures(counters: &Counters) -> Vec<([f64; 3], [f64; 2])> {
    counters.samples.iter().map(|sample| (sample.ops, sample.bytes)).collect()
}

#[test]
fn the_output_of_iostat_is_read_without_its_first_report() {
    let found = read_text(IOSTAT, Some("vda")).unwrap();
    let kib = 1024.0;
    let second = ([3.0, 2001.0, 0.0], [92.0 * kib, 128_004.0 * kib]);
    assert_eq!(figures(&found), [second, ([8000.0, 134.0, 0.0], [128e3 * kib, 2736.0 * kib])]);
    assert_eq!((found.samples[0].len_s, found.read.format.as_str()), (1.0, "iostat"));
    let both = read_text(IOSTAT, None).unwrap_err();
    assert!(both.contains("got 2 disks, expected one: choose from loop0, vda with"), "{both}");
    let near = read_text(IOSTAT, Some("vdb")).unwrap_err();
    assert!(near.contains("got 'vdb', expected one of loop0, vda (did you mean vda?)"), "{near}");
    // The times have the local format; the last row is cut short and another one is not a row.
    let local = IOSTAT.replace("2026-11-29T", "11/29/2026 ").replace("+0000", " AM");
    let cut = local.trim_end().strip_suffix("0.22  21.60").unwrap_or(&local).to_string() + "\n";
    let cut = cut.replace("3.00     92.00", "3.00     x");
    let found = read_text(&cut, Some("vda"));
    assert!(found.unwrap_err().contains("fewer than two readings"));
    let local = local.replace("loop0            0.00      0.00     0.00 ", "loop0  0.00 ");
    let found = read_text(&local, Some("vda")).unwrap();
    assert_eq!((figures(&found).len(), found.read.bad_rows), (2, 2));
    let first = found.read.first_bad_row.as_deref().unwrap();
    assert!(first.starts_with("line 11: expected 23 columns"), "{first}");
    let untimed: String = IOSTAT
        .lines()
        .filter(|line| !line.starts_with("2026"))
        .fold(String::new(), |text, line| text + line + "\n");
    let said = read_text(&untimed, None).unwrap_err();
    assert!(said.contains("without times, expected that of `iostat -x -t 1`"), "{said}");
}

#[test]
fn the_output_of_sar_leaves_operations_with_discards_out() {
    let found = read_text(SAR, Some("vda")).unwrap();
    assert_eq!(figures(&found)[1], ([0.0, 0.0, 21.0], [0.0, 580.0 * 1024.0]));
    assert_eq!((figures(&found)[0], found.read.with_discards), (([0.0; 3], [0.0; 2]), 1));
    assert!((found.ops_most - 53.67).abs() < 1e-9);
    let said = found.read.cautions();
    assert!(said[0].starts_with("1 interval with discards"), "{said:?}");
    // The second report is after midnight.
    let night = SAR.replace("07:38:24", "23:59:59").replace("07:38:25", "00:00:00");
    assert_eq!(read_text(&night, Some("vda")).unwrap().read.interval_s, 1.0);
}

#[test]
fn cumulative_counters_are_subtracted_and_may_begin_anew() {
    let found = read_text(SCRAPE, None).unwrap();
    assert_eq!(figures(&found), [([1.0, 10.0, 0.0], [4096.0, 81_920.0])]);
    assert_eq!(found.read.disk.as_deref(), Some("vda"));
    let head = "time,device,node_disk_reads_completed_total,node_disk_writes_completed_total,\
                node_disk_read_bytes_total,node_disk_written_bytes_total\n";
    let rows = "1,a,10,0,40960,0\n2,a,15,0,61440,0\n3,a,2,0,8192,0\n4,a,4,1,16384,512\n";
    let found = read_text(&format!("{head}{rows}"), None).unwrap();
    let four = ([2.0, 1.0, 0.0], [8192.0, 512.0]);
    assert_eq!(figures(&found), [([5.0, 0.0, 0.0], [20_480.0, 0.0]), four]);
    assert_eq!(found.read.resets, 1);
    assert_eq!(found.read.cautions().len(), 1);
}

#[test]
fn csv_has_the_columns_of_several_collectors() {
    let rows = "2026-11-29T07:38:18Z,3,2,4096,8192\n2026-11-29T07:38:19Z,1,0,512,0\n";
    for head in [
        "time,read_ops,write_ops,read_bytes,write_bytes",
        "Timestamp,VolumeReadOps,VolumeWriteOps,VolumeReadBytes,VolumeWriteBytes",
        "time,diskio_reads,diskio_writes,diskio_read_bytes,diskio_write_bytes",
    ] {
        let found = read_text(&format!("{head}\n{rows}"), None).unwrap();
        let first = ([3.0, 2.0, 0.0], [4096.0, 8192.0]);
        assert_eq!(figures(&found), [first, ([1.0, 0.0, 0.0], [512.0, 0.0])], "{head}");
    }
    let sadf = "# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz\n\
                vm;1;2026-11-29 07:38:21 UTC;vda;26.00;0.00;16.00;0.00;4.31\n\
                vm;1;2026-11-29 07:38:22 UTC;vda;3.00;0.00;40.00;0.00;28.00\n";
    assert_eq!(figures(&read_text(sadf, None).unwrap())[0].0[2], 26.0);
    let head = "time,read_ops,write_ops,read_bytes,write_bytes\n";
    // Rows that are malformed, out of order or after a gap are counted.
    let rows = "0,1,1,512,512\n1,1,1,512,512\n1,1,1,512,512\n2,x,1,5,5\n3,1\n4,-1,1,5,5\n5,1,1,5,5\n99,1,1,5,5\n";
    let found = read_text(&format!("{head}{rows}"), None).unwrap();
    assert_eq!((found.read.intervals, found.read.bad_rows, found.read.gaps), (3, 4, 1));
    let first = found.read.first_bad_row.as_deref().unwrap();
    assert_eq!(first, "line 5: read_ops: got 'x', expected a number");
    assert_eq!(found.read.cautions().len(), 2);
}

#[test]
fn unreadable_counters_are_rejected_with_a_reason() {
    let head = "time,read_ops,write_ops,read_bytes,write_bytes\n";
    for (text, expected) in [
        ("", "c: got nothing, expected the columns time, read_ops"),
        ("at,op\n1,2\n", "line 1: got 'at,op', expected the columns time, read_ops"),
        (head, "c: got no usable row"),
        (&format!("{head}x,1,1,1,1\n"), "(line 2: time: got 'x', expected a time)"),
        (&format!("{head}0,1,1,1,1\n"), "fewer than two readings"),
        (&format!("{head}0,0,0,0,0\n1,0,0,0,0\n"), "got no operations"),
        (
            &format!("{head}0,1,1,9,9\n300,1,1,9,9\n600,1,1,9,9\n"),
            "got intervals of 300 s, expected at most 60 s: requests queue in milliseconds",
        ),
    ] {
        let said = read_text(text, None).unwrap_err();
        assert!(said.contains(expected), "{said}");
    }
    let named = read_text(&format!("{head}0,1,1,1,1\n1,1,1,1,1\n"), Some("vda")).unwrap_err();
    assert!(
        named.contains("expected one of none, because the file does not name disks"),
        "{named}"
    );
}
