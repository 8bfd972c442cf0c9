//! Tests parsing the results of several versions of fio, and invalid files.

use super::*;

/// A folder of test files, deleted when dropped.
struct Folder(PathBuf);

impl Folder {
    fn with(name: &str, files: &[(&str, &str)]) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("forebay-sweep-{name}-{}", std::process::id()));
        for (file, text) in files {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Folder(folder)
    }

    fn read(&self) -> Result<Sweep, String> {
        Sweep::read(std::slice::from_ref(&self.0)).map_err(|error| error.to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Formats one direction of a job: its rate, and its mean, 99th percentile and maximum latency in
/// us.
fn side(iops: f64, mean: f64, p99: f64, max: f64) -> String {
    format!(
        r#"{{"io_bytes": 409600, "io_kbytes": 400, "iops": {iops}, "total_ios": 100, "clat_ns": {{"min": 1,
        "max": {}, "mean": {}, "percentile": {{"1.000000": 1, "50.000000": {}, "99.000000": {},
        "99.900000": {}, "0.00": 0, "0.00": 0}}}}}}"#,
        max * 1e3,
        mean * 1e3,
        mean * 0.9e3,
        p99 * 1e3,
        p99 * 1.2e3
    )
}

fn none() -> String {
    r#"{"io_bytes": 0, "iops": 0.0, "clat_ns": {"min": 0, "max": 0, "mean": 0.0}}"#.to_string()
}

fn job(name: &str, group: u32, options: &str, read: &str, write: &str) -> String {
    format!(
        r#"{{"jobname": "{name}", "groupid": {group}, "error": 0, "job options": {{{options}}},
        "read": {read}, "write": {write}}}"#
    )
}

fn run(global: &str, jobs: &[String]) -> String {
    format!(
        "{{\n\"fio version\": \"fio-3.33\", \"global options\": {{{global}}}, \"jobs\": [{}]}}\n",
        jobs.join(",")
    )
}

#[test]
fn options_of_all_jobs_and_of_one_name_the_rows() {
    let text = run(
        r#""ioengine": "libaio", "rw": "randread", "bs": "4k", "direct": "1""#,
        &[
            job("d4", 0, r#""iodepth": "4""#, &side(20e3, 200.0, 400.0, 900.0), &none()),
            job("d1", 1, "", &side(8e3, 125.0, 150.0, 300.0), &none()),
            job(
                "w",
                2,
                r#""rw": "randwrite", "iodepth": "2", "bs": "8k""#,
                &none(),
                &side(10e3, 190.0, 300.0, 400.0),
            ),
            job(
                "s",
                3,
                r#""rw": "read", "bs": "1m""#,
                &side(500.0, 1990.0, 3000.0, 4000.0),
                &none(),
            ),
        ],
    );
    // fio prints warnings before the results, and other programs may print text after them.
    let warned = format!(
        "fio: {{this}} is a warning\nnote: queue depth will be capped\n{text}\nRun status {{x}}\n"
    );
    let sweep = Folder::with("options", &[("all.json", &warned)]).read().unwrap();
    let expected = SweepRow {
        op: Op::Read,
        block_bytes: 4096,
        depth: 1,
        iops: 8e3,
        mean_us: Some(125.0),
        p50_us: Some(112.5),
        p99_us: Some(150.0),
        p999_us: Some(180.0),
        max_us: Some(300.0),
    };
    assert_eq!(sweep.rows[0], expected);
    let rows: Vec<_> = sweep.rows.iter().map(|row| (row.op, row.block_bytes, row.depth)).collect();
    assert_eq!(rows, [(Op::Read, 4096, 1), (Op::Read, 4096, 4), (Op::Write, 8192, 2)]);
    assert_eq!((sweep.sequential.len(), sweep.sequential[0].block_bytes), (1, 1 << 20));
    assert_eq!((sweep.mixed.len(), sweep.notes.len()), (0, 0));
    let reads: Vec<u32> = sweep.random(Op::Read).iter().map(|row| row.depth).collect();
    assert_eq!(reads, [1, 4]);
}

#[test]
fn clones_add_their_depths_with_one_report_or_with_many() {
    let options = r#""rw": "randread", "bs": "4096", "iodepth": "4", "numjobs": "3""#;
    let one = job("a", 0, options, &side(15e3, 790.0, 900.0, 999.0), &none());
    let each = job("a", 0, options, &side(5e3, 790.0, 900.0, 999.0), &none());
    for jobs in [vec![one], vec![each; 3]] {
        let sweep = Folder::with("clones", &[("x.json", &run("", &jobs))]).read().unwrap();
        let row = &sweep.rows[0];
        assert_eq!((sweep.rows.len(), row.depth, row.iops.round()), (1, 12, 15_000.0));
        assert!((row.p99_us.unwrap() - 900.0).abs() < 1e-6, "{row:?}");
    }
}

#[test]
fn repeated_rows_of_one_job_are_averaged() {
    let row = |jobs: u32, depth: u32, iops: f64| {
        let options =
            format!(r#""rw": "randread", "bs": "4k", "iodepth": "{depth}", "numjobs": "{jobs}""#);
        run(
            "",
            &[job("a", 0, &options, &side(iops, 8e6 / iops, 9.9e6 / iops, 1e7 / iops), &none())],
        )
    };
    let files = [
        ("1.json", row(4, 2, 100.0)),
        ("2.json", row(1, 8, 200.0)),
        ("a/b/3.json", row(1, 8, 300.0)),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let sweep = Folder::with("repeated", &files).read().unwrap();
    assert_eq!((sweep.rows.len(), sweep.rows[0].depth, sweep.rows[0].iops), (1, 8, 250.0));
}

#[test]
fn old_files_have_microseconds_and_their_names_say_what_ran() {
    let text = r#"{"fio version": "fio-2.2.10", "jobs": [{"jobname": "fio", "groupid": 0, "error": 0,
        "read": {"io_bytes": 4000, "iops": 100.5, "total_ios": 1000,
            "clat": {"min": 5, "max": 900000, "mean": 318000.5, "percentile": {"50.000000": 300000, "99.000000": 700000}},
            "lat": {"min": 5, "max": 900001, "mean": 318001.5}},
        "write": {"iops": 0, "clat": {"mean": 0.0}}}]}"#;
    let sweep = Folder::with("old", &[("sda/4k/randread-32-1.json", text)]).read().unwrap();
    let row = &sweep.rows[0];
    assert_eq!((row.op, row.block_bytes, row.depth), (Op::Read, 4096, 32));
    assert_eq!((row.mean_us, row.p99_us, row.p999_us), (Some(318_000.5), Some(700_000.0), None));
}

#[test]
fn bins_stand_in_for_percentiles() {
    let read = r#"{"iops": 10000, "clat_ns": {"max": 300000, "mean": 99000, "bins": {"90000": 990, "200000": 9, "300000": 1}}}"#;
    let text = run("", &[job("a", 0, r#""rw": "randread""#, read, &none())]);
    let sweep = Folder::with("bins", &[("x.json", &text)]).read().unwrap();
    let row = &sweep.rows[0];
    assert_eq!((row.p50_us, row.p99_us, row.p999_us), (Some(90.0), Some(90.0), Some(200.0)));
}

#[test]
fn jobs_beside_each_other_and_both_ways_are_mixed() {
    let seq = job(
        "seq",
        4,
        r#""rw": "read", "bs": "128k", "numjobs": "4""#,
        &side(100.0, 38e3, 60e3, 70e3),
        &none(),
    );
    let random =
        job("random", 4, r#""rw": "randread", "bs": "4k""#, &side(30.0, 33e3, 90e3, 95e3), &none());
    let both = job(
        "both",
        5,
        r#""rw": "randrw", "iodepth": "2""#,
        &side(100.0, 9e3, 2e4, 3e4),
        &side(50.0, 18e3, 3e4, 4e4),
    );
    let text = run(r#""ioengine": "libaio", "direct": "1""#, &[seq, random, both]);
    let sweep = Folder::with("mixed", &[("x.json", &text)]).read().unwrap();
    assert_eq!((sweep.rows.len(), sweep.mixed.len()), (0, 2));
    let jobs = &sweep.mixed[0].jobs;
    assert_eq!((jobs[0].random, jobs[0].clones, jobs[0].depth()), (false, 4, 4));
    assert_eq!((jobs[1].random, jobs[1].clones, jobs[1].depth()), (true, 1, 1));
    assert_eq!(sweep.mixed[1].jobs[0].rows.len(), 2);
}

#[test]
fn rows_that_say_nothing_of_the_drive_are_left_out_with_a_note() {
    let good = job("good", 0, r#""rw": "randread""#, &side(8e3, 120.0, 150.0, 300.0), &none());
    let options = |extra: &str| format!(r#""rw": "randread", {extra}"#);
    let slow = job(
        "slow",
        1,
        &options(r#""rate_iops": "100""#),
        &side(100.0, 120.0, 150.0, 300.0),
        &none(),
    );
    let alone =
        job("alone", 2, &options(r#""iodepth": "32""#), &side(8e3, 120.0, 150.0, 300.0), &none());
    let cached =
        job("cached", 3, &options(r#""direct": "0""#), &side(5e5, 1.9, 2.5, 30.0), &none());
    let sizes = job(
        "sizes",
        4,
        &options(r#""bsrange": "4k-64k""#),
        &side(8e3, 120.0, 150.0, 300.0),
        &none(),
    );
    let broken = good.replace("\"error\": 0", "\"error\": 5").replace("good", "broken");
    let idle =
        job("idle", 6, &options(r#""iodepth": "x""#), &side(8e3, 120.0, 150.0, 300.0), &none());
    let text = run("", &[good, slow, alone, cached, sizes, broken, idle]);
    let sweep = Folder::with("notes", &[("x.json", &text)]).read().unwrap();
    assert_eq!(sweep.rows.len(), 1);
    for said in
        ["rate_iops", "32 outstanding I/Os", "from memory", "bsrange", "error 5", "iodepth=x"]
    {
        assert!(sweep.notes.iter().any(|note| note.contains(said)), "{said}: {:?}", sweep.notes);
    }
}

#[test]
fn files_that_are_no_fio_results_are_rejected_in_one_line() {
    for (text, said) in [
        ("", "an empty file"),
        ("hello\nthere", "got 'hello'"),
        ("{\"jobs\": [", "truncated"),
        ("warning\n{\"jobs\": [}", "broken JSON in line 2"),
        ("{\"a\": 1}", "without \"jobs\""),
        ("{\"jobs\": [7]}", "not a JSON object"),
        ("{\"jobs\": []}", "no I/O by any job"),
    ] {
        let got = Folder::with("bad", &[("x.json", text)]).read().unwrap_err();
        assert!(got.contains(said) && !got.contains('\n'), "{text}: {got}");
    }
    let deep = "[".repeat(100_000);
    let got =
        Folder::with("deep", &[("x.json", &format!("{{\"jobs\":{deep}"))]).read().unwrap_err();
    assert!(got.contains("broken JSON"), "{got}");
    let nothing = Folder::with("nothing", &[("x.txt", "{}")]).read().unwrap_err();
    assert!(nothing.contains("no I/O by any job"), "{nothing}");
    let none = Sweep::read(&[PathBuf::from("/nowhere/x.json")]).unwrap_err().to_string();
    assert!(none.contains("/nowhere/x.json"), "{none}");
}

#[test]
fn bandwidth_replaces_missing_rates_and_invalid_numbers_are_ignored() {
    let only = |side: &str| {
        let text = run("", &[job("x", 0, r#""rw": "randread", "bs": "8k""#, side, &none())]);
        Folder::with("bandwidth", &[("x.json", &text)]).read()
    };
    let rate = |side: &str| only(side).unwrap().rows[0].iops;
    assert_eq!(rate(r#"{"bw": 800, "clat_ns": {"mean": 9900000.0}}"#), 100.0);
    assert_eq!(rate(r#"{"bw": 1, "bw_bytes": 819200}"#), 100.0);
    assert_eq!(rate(r#"{"iops": 99.0, "bw": 800}"#), 99.0);
    assert!(only(r#"{"bw": 0}"#).unwrap_err().contains("did no I/O"));
    let sweep = only(
        r#"{"iops": 100.0, "clat_ns": {"mean": 10000000.0, "stddev": -nan, "max": nan,
        "percentile": {"50.000000": 9000000, "99.000000": inf}}}"#,
    );
    let row = &sweep.unwrap().rows[0];
    assert_eq!((row.iops, row.p50_us, row.p99_us, row.max_us), (100.0, Some(9_000.0), None, None));
    // `nan` within a job's name must not be replaced.
    let text =
        run("", &[job("a: nan b", 0, r#""rw": "randread""#, &side(9.0, 1e5, 1e5, 1e5), &none())]);
    let folder = Folder::with("nan", &[("x.json", &text)]);
    assert_eq!(folder.read().unwrap().rows.len(), 1);
}

/// Formats a file with one job of random reads at `depth` and further options.
fn reads(depth: u32, options: &str) -> String {
    let options = format!(r#""rw": "randread", "bs": "4k", "iodepth": "{depth}"{options}"#);
    let mean = 1e4 * f64::from(depth);
    run("", &[job("reads", 0, &options, &side(100.0, mean, 2.0 * mean, 3.0 * mean), &none())])
}

fn read_two(name: &str, options: [&str; 2]) -> Result<Sweep, String> {
    let [one, other] = [reads(1, options[0]), reads(4, options[1])];
    Folder::with(name, &[("1.json", &one), ("4.json", &other)]).read()
}

#[test]
fn results_of_two_drives_are_refused() {
    let [sdb, sdc] = [r#", "filename": "/dev/sdb""#, r#", "filename": "/dev/sdc""#];
    let said = read_two("two", [sdb, sdc]).unwrap_err();
    assert!(said.contains("got results of /dev/sdb and /dev/sdc, expected those of one"), "{said}");
    assert!(!said.contains("output-format"), "{said}");
    for other in [sdb, r#", "filename": "/dev/sdb1""#, r#", "filename": "/dev/sdb:/dev/sdc""#, ""] {
        assert_eq!(read_two("one", [sdb, other]).unwrap().rows.len(), 2, "{other}");
    }
}

#[test]
fn the_smallest_area_that_jobs_covered_is_known() {
    let covered = |options: [&str; 2]| read_two("covered", options).unwrap().covered_bytes;
    assert_eq!(covered(["", ""]), None);
    assert_eq!(covered([r#", "size": "1g""#, r#", "size": "2t""#]), Some(1 << 30));
    assert_eq!(covered([r#", "size": "100%""#, ""]), None);
}

#[test]
fn jobs_through_the_page_cache_are_left_out() {
    for option in [r#", "direct": "0""#, r#", "buffered": "1""#] {
        let sweep = read_two("buffered", [r#", "direct": "1""#, option]).unwrap();
        assert_eq!((sweep.rows.len(), sweep.notes.len()), (1, 1), "{option}");
        assert!(sweep.notes[0].contains("set direct=1"), "{:?}", sweep.notes);
    }
}

#[test]
fn an_unusable_job_is_described_briefly_and_without_a_wrong_hint() {
    let said = |read: &str, rest: &str| {
        let job = job("x", 0, r#""rw": "randread", "bs": "4k""#, read, &none());
        let job = job.replacen('{', &format!("{{{rest}"), 1);
        Folder::with("unusable", &[("x.json", &run("", &[job]))]).read().unwrap_err()
    };
    for (read, rest, part) in [
        (r#"{"iops": -5}"#, "", "the rate of its reads is negative"),
        (r#"{"iops": 1e300}"#, "", "a figure of its reads is 1e300;"),
        (r#"{"iops": 0}"#, r#""trim": {"iops": 9.0},"#, "it only trimmed"),
        (r#"{"iops": 0}"#, "", "it did no I/O"),
    ] {
        let said = said(read, rest);
        assert!(said.contains(part) && !said.contains("output-format"), "{said}");
    }
    let text = reads(1, "").replace(r#""mean": 10000000"#, r#""mean": 90000000"#);
    let said = Folder::with("alone", &[("x.json", &text)]).read().unwrap_err();
    assert!(said.contains("its options imply 1 outstanding I/O, but"), "{said}");
}

/// Without a drive's name, the folder distinguishes drives.
#[test]
fn repeated_rows_of_two_folders_are_not_averaged() {
    let text = |iops: f64, target: &str| {
        let mean = 1e6 / iops;
        run(
            r#""rw": "randread", "bs": "4k", "direct": "1""#,
            &[job("d1", 0, target, &side(iops, mean, 2.0 * mean, 3.0 * mean), &none())],
        )
    };
    let read = |name: &str, targets: [&str; 2]| {
        let [one, other] = [text(70.0, targets[0]), text(140.0, targets[1])];
        let folder = Folder::with(name, &[("a/1.json", &one), ("b/1.json", &other)]);
        folder.read()
    };
    let said = read("two-folders", ["", ""]).unwrap_err();
    assert!(
        said.contains("a/1.json and") && said.contains("expected those of one drive"),
        "{said}"
    );
    let said = read("two-files", [r#""filename": "/mnt/a/t""#, r#""filename": "/mnt/b/t""#]);
    assert!(said.unwrap_err().contains("results of /mnt/a/t and /mnt/b/t"));
    let one = read("one-file", [r#""filename": "/mnt/a/t""#; 2]).unwrap();
    assert_eq!((one.rows.len(), one.rows[0].iops), (1, 105.0));
}

/// Formats a report of one job that began at second 1000 and has run for `elapsed` seconds.
fn report(jobname: &str, begun: u32, elapsed: u32, iops: f64) -> String {
    let mean = 1e6 / iops;
    let side = side(iops, mean, 2.0 * mean, 3.0 * mean)
        .replace("\"total_ios\": 100", &format!("\"total_ios\": {}", 100 * elapsed));
    let job = job(jobname, 0, r#""rw": "randread", "bs": "4k", "direct": "1""#, &side, &none());
    let job = job.replacen('{', &format!("{{\"elapsed\": {elapsed}, "), 1);
    run("", &[job]).replacen('{', &format!("{{\n\"timestamp\": {},", begun + elapsed), 1)
}

#[test]
fn the_last_report_of_a_run_counts() {
    let read = |reports: &[String]| {
        Folder::with("interval", &[("x.json", &reports.concat())]).read().unwrap()
    };
    let run = |begun: u32| {
        // The start that the last report implies is a second off, because of rounding.
        [(begun, 10, 900.0), (begun, 20, 500.0), (begun - 1, 31, 400.0)]
            .map(|(begun, elapsed, iops)| report("a", begun, elapsed, iops))
    };
    let sweep = read(&run(1000));
    assert_eq!((sweep.rows.len(), sweep.rows[0].iops), (1, 400.0));
    assert_eq!(sweep.notes.len(), 1, "{:?}", sweep.notes);
    assert!(sweep.notes[0].contains("x.json: 2 reports of unfinished runs"), "{:?}", sweep.notes);
    // A second run that was appended to the file counts as well, and so does another job.
    let again = [run(1000).to_vec(), vec![report("a", 1040, 30, 420.0)]].concat();
    assert_eq!(read(&again).rows[0].iops, 410.0);
    let other = [run(1000).to_vec(), vec![report("b", 1000, 32, 420.0)]].concat();
    assert_eq!(read(&other).rows[0].iops, 410.0);
}

#[test]
fn repeated_rows_that_differ_much_have_a_note() {
    let read = |rates: [f64; 3]| {
        let files = rates.map(|iops| report("a", 1000, 30, iops));
        let names = ["1.json", "2.json", "3.json"];
        let files: Vec<_> =
            names.into_iter().zip(&files).map(|(name, text)| (name, &text[..])).collect();
        Folder::with("apart", &files).read().unwrap()
    };
    assert!(read([69.0, 70.0, 80.0]).notes.is_empty());
    assert_eq!(read([80.0, 80.0, 50.0]).notes.len(), 1, "only the least is far from the mean");
    let sweep = read([69.8, 69.8, 27.9]);
    let said = "random reads of 4 KiB at depth 1: 3 results from 27.9 to 69.8 IOPS";
    assert!(sweep.notes.len() == 1 && sweep.notes[0].starts_with(said), "{:?}", sweep.notes);
    assert_eq!(sweep.rows[0].iops.round(), 56.0);
}

/// Returns how many rows a job with these options makes, and the notes on it.
fn rows_with(mode: &str, options: &str) -> (usize, String) {
    let good = side(8e3, 120.0, 150.0, 300.0);
    let (read, write) = if mode.contains("write") { (none(), good) } else { (good, none()) };
    let options = format!(r#""rw": "{mode}", "bs": "4k"{options}"#);
    // A second job ensures that there are results in any case.
    let beside = job(
        "beside",
        1,
        r#""rw": "randread", "direct": "1", "iodepth": "2""#,
        &side(7e3, 280.0, 300.0, 600.0),
        &none(),
    );
    let text = run("", &[job("x", 0, &options, &read, &write), beside]);
    let sweep = Folder::with("options-of", &[("x.json", &text)]).read().unwrap();
    let mut rows = [sweep.rows, sweep.sequential].concat();
    rows.retain(|row| row.iops == 8e3);
    (rows.len(), sweep.notes.join("\n"))
}

#[test]
fn jobs_that_flush_or_are_uneven_are_left_out() {
    let direct = |mode: &str, option: &str| {
        let [key, value] = [0, 1].map(|at| option.split('=').nth(at).unwrap());
        rows_with(mode, &format!(r#", "direct": "1", "{key}": "{value}""#))
    };
    for (mode, option, why) in [
        ("randwrite", "fsync=1", "flushes the drive's cache"),
        ("write", "fdatasync=32", "flushes the drive's cache"),
        ("randwrite", "sync=dsync", "flushes the drive's cache"),
        ("randwrite", "sync_file_range=write:8", "flushes the drive's cache"),
        ("randread", "random_distribution=zipf:1.2", "makes its positions uneven"),
        ("randwrite", "percentage_random=100,50", "makes its positions uneven"),
        ("randread", "zonemode=strided", "limits it to zones"),
        ("randread", "iodepth_batch_complete_min=4", "wait for each other"),
        ("randread", "latency_target=5ms", "changes its queue depth"),
        ("randread", "rate=0,1m", "throttles it"),
    ] {
        let (rows, notes) = direct(mode, option);
        let said = format!("job x: its option {option} ");
        assert!(rows == 0 && notes.contains(&said) && notes.contains(why), "{option}: {notes}");
    }
    for (mode, option) in [
        ("randread", "fsync=1"),
        ("randwrite", "fsync=0"),
        ("randwrite", "sync=none"),
        ("randwrite", "end_fsync=1"),
        ("randread", "random_distribution=random"),
        ("read", "random_distribution=zipf"),
        ("randread", "percentage_random=100"),
        ("randread", "iodepth_batch_complete_min=1"),
        ("randread", "zonemode=none"),
    ] {
        assert_eq!(direct(mode, option), (1, String::new()), "{mode} {option}");
    }
    let (rows, notes) = rows_with("randread:8", "");
    assert!(rows == 0 && notes.contains("its mode randread:8"), "{notes}");
}

/// Without `direct`, fio uses the page cache: writes measure only memory, reads show it.
#[test]
fn writes_without_direct_are_left_out_and_reads_have_a_note() {
    let (rows, notes) = rows_with("randwrite", r#", "ioengine": "psync""#);
    assert!(rows == 0 && notes.contains("without direct=1, its writes"), "{notes}");
    let (rows, notes) = rows_with("randread", r#", "ioengine": "psync""#);
    assert!(rows == 1 && notes.contains("without direct=1, so their reads may"), "{notes}");
    for options in [
        r#", "direct": "1""#,
        r#", "buffered": "0""#,
        r#", "ioengine": "io_uring_cmd""#,
        r#", "ioengine": "external:/usr/lib/spdk_nvme""#,
    ] {
        assert_eq!(rows_with("randwrite", options), (1, String::new()), "{options}");
    }
    // Before fio 2.14, results do not list the options.
    let (rows, notes) = {
        let text = run("", &[job("x", 0, "", &none(), &side(8e3, 120.0, 150.0, 300.0))])
            .replace(r#""job options": {},"#, "");
        let sweep = Folder::with("unlisted", &[("randwrite-1-1.json", &text)]).read().unwrap();
        (sweep.rows.len(), sweep.notes)
    };
    assert_eq!((rows, notes.len()), (1, 0), "{notes:?}");
}
