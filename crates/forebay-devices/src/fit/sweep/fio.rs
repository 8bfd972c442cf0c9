//! Parses a file of fio results: its jobs and their measurements.
//!
//! fio prints warnings before and after the JSON, and appends to an output file that already
//! exists. Options are strings, listed either per job or for all jobs. Before fio 2.14, they are
//! missing, and only the name of the file (`randread-32-1.json`: mode, depth, jobs) says what was
//! run. Before fio 3, completion latencies are `clat` in microseconds; since then, `clat_ns`.

use std::path::Path;

use forebay_core::Op;
use forebay_words::plural::counted;
use serde_json::{Map, Value};

use super::super::FitError;
use super::{HINT, MixedJob, Sweep, SweepRow, options, series};

/// Engines that have only one outstanding I/O, whatever `iodepth` says.
const SYNCHRONOUS: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];

/// The permitted ratio between the number of outstanding I/Os by Little's law and the number in the
/// options.
const OUTSTANDING: std::ops::RangeInclusive<f64> = 0.4..=1.6;

/// The maximum plausible number of outstanding I/Os.
const DEPTH_MAX: u32 = 4096;

/// Reads with a mean latency below this, in us, are served from memory rather than by a drive.
const MEMORY_US: f64 = 3.0;

/// A note on reads without an option that bypasses the page cache.
const MAY_BE_BUFFERED: &str = "some jobs ran without direct=1, so their reads may have come \
    from memory (the page cache)";

/// Parses the jobs of the file at `path`, grouped by those that ran at the same time. Adds to
/// `sweep` which devices they measured, and notes.
pub(super) fn groups(
    path: &Path,
    bytes: &[u8],
    sweep: &mut Sweep,
) -> Result<Vec<Vec<MixedJob>>, FitError> {
    let refused = |got: String| FitError::Results {
        path: path.to_path_buf(),
        got,
        expected: "a JSON object with fio's \"jobs\"",
        hint: HINT,
    };
    let text = text(bytes).ok_or_else(|| refused("bytes that are not text".to_string()))?;
    let text = without_nan(text);
    let mut groups = Vec::new();
    let (runs, superseded) = series::results(runs(&text).map_err(&refused)?);
    if superseded > 0 {
        let reports = counted(superseded as u64, "report");
        sweep.notes.push(format!(
            "{}: {reports} of unfinished runs (status-interval) left out; the last report of a \
             run is its result",
            path.display()
        ));
    }
    for run in runs {
        let jobs = run.get("jobs").and_then(Value::as_array);
        let jobs = jobs.ok_or_else(|| refused("JSON without \"jobs\"".to_string()))?;
        let global = run.get("global options").and_then(Value::as_object);
        let mut of_run: Vec<(u64, Vec<MixedJob>)> = Vec::new();
        for job in jobs {
            let job = Job::of(path, job, global, jobs).map_err(&refused)?;
            let group = job.number("groupid").map_or(0, |number| number as u64);
            let measured = match job.measured() {
                Ok(measured) => measured,
                Err(why) => {
                    sweep.notes.push(format!("{}: {why}; left out", job.place()));
                    continue;
                }
            };
            job.add_place_to(sweep, measured.random);
            if job.may_be_buffered() && !sweep.notes.iter().any(|note| note == MAY_BE_BUFFERED) {
                sweep.notes.push(MAY_BE_BUFFERED.to_string());
            }
            match of_run.iter_mut().find(|(number, _)| *number == group) {
                Some((_, members)) => members.push(measured),
                None => of_run.push((group, vec![measured])),
            }
        }
        groups.extend(of_run.into_iter().map(|(_, members)| members));
    }
    Ok(groups)
}

/// Decodes a file from UTF-8 or from the encoding that PowerShell's `>` produces.
fn text(bytes: &[u8]) -> Option<String> {
    let wide = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> =
            bytes.chunks_exact(2).skip(1).map(|two| unit([two[0], two[1]])).collect();
        String::from_utf16(&units).ok()
    };
    match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        _ => String::from_utf8(bytes.to_vec()).ok(),
    }
}

/// Replaces `nan` and `inf` by null. Old versions of fio print them, but JSON does not allow them.
fn without_nan(text: String) -> String {
    let is_there = |word: &&str| text.contains(&format!(": {word}"));
    let words: Vec<&str> = ["-nan", "nan", "-inf", "inf"].into_iter().filter(is_there).collect();
    words.into_iter().fold(text.clone(), |text, word| {
        [",", "\n", "\r", " ", "}"].into_iter().fold(text, |text, end| {
            text.replace(&format!(": {word}{end}"), &format!(": null{end}"))
        })
    })
}

/// Parses the JSON objects in `text`, each of which begins on a new line. Text between them
/// consists of warnings, which are skipped.
fn runs(text: &str) -> Result<Vec<Value>, String> {
    let mut runs = Vec::new();
    let mut rest = text;
    while let Some(at) = object_start(rest) {
        let from = &rest[at..];
        let mut values = serde_json::Deserializer::from_str(from).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => runs.push(value),
            Some(Err(fault)) => {
                let line = text[..text.len() - from.len()].matches('\n').count() + fault.line();
                let fault = fault.to_string();
                let what = fault.split(" at line").next().unwrap_or_default();
                let cut = if fault.contains("EOF") { " (the file is truncated)" } else { "" };
                return Err(format!("broken JSON in line {line}: {what}{cut}"));
            }
            None => break,
        }
        rest = &from[values.byte_offset().max(1)..];
    }
    if runs.is_empty() {
        let first: String = text.trim_start().chars().take_while(|c| *c != '\n').take(60).collect();
        return Err(if first.is_empty() { "an empty file".into() } else { format!("'{first}'") });
    }
    Ok(runs)
}

/// Returns the position of the first line that begins with a brace.
fn object_start(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        if line[indent..].starts_with('{') {
            return Some(at + indent);
        }
        at += line.len();
    }
    None
}

/// A job in fio's report.
struct Job<'a> {
    path: &'a Path,
    report: &'a Map<String, Value>,
    global: Option<&'a Map<String, Value>>,
    /// The number of reports for clones of this job, including this report. Without
    /// `group_reporting`, each clone has its own report.
    reports: u32,
}

impl<'a> Job<'a> {
    fn of(
        path: &'a Path,
        report: &'a Value,
        global: Option<&'a Map<String, Value>>,
        all: &[Value],
    ) -> Result<Job<'a>, String> {
        let report = report.as_object().ok_or("a job that is not a JSON object")?;
        let same = |other: &&Value| {
            ["jobname", "groupid"].iter().all(|key| other.get(*key) == report.get(*key))
        };
        let reports = all.iter().filter(same).count() as u32;
        Ok(Job { path, report, global, reports })
    }

    fn place(&self) -> String {
        format!("{}, job {}", self.path.display(), self.name())
    }

    fn name(&self) -> String {
        let name = self.report.get("jobname").and_then(Value::as_str).unwrap_or("without a name");
        name.chars().take(60).collect()
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.report.get(key).and_then(number)
    }

    /// Returns an option of the job or, failing that, the option for all jobs.
    fn option(&self, key: &str) -> Option<String> {
        let of_job = self.report.get("job options").and_then(Value::as_object);
        let value = of_job.and_then(|options| options.get(key));
        match value.or_else(|| self.global?.get(key))? {
            Value::String(text) => Some(text.trim().to_string()),
            other => Some(other.to_string()),
        }
    }

    /// Adds the device that the job measured, and the area that random I/O was limited to.
    fn add_place_to(&self, sweep: &mut Sweep, random: bool) {
        if let Some(target) = self.option("filename").filter(|name| !sweep.targets.contains(name)) {
            sweep.targets.push(target);
        }
        if let Some(bytes) = self.covered_bytes().filter(|_| random) {
            sweep.covered_bytes = Some(sweep.covered_bytes.map_or(bytes, |least| least.min(bytes)));
        }
    }

    /// Returns the size of the area that the options limit the job to. Returns None if there is no
    /// such option, if it is a percentage, or if clones have areas of their own.
    fn covered_bytes(&self) -> Option<u64> {
        if self.option("offset_increment").is_some() {
            return None;
        }
        let sizes = ["size", "filesize"].into_iter().filter_map(|key| self.option(key));
        sizes.filter_map(|text| bytes_of(&text)).filter(|bytes| *bytes > 0).min()
    }

    /// Parses the name of a file that fio-plot's bench script wrote: mode, depth, jobs.
    fn named(&self) -> Option<(String, u32, u32)> {
        let stem = self.path.file_stem()?.to_str()?;
        let mut parts = stem.rsplitn(3, '-');
        let jobs = parts.next()?.parse().ok()?;
        let depth = parts.next()?.parse().ok()?;
        Some((parts.next()?.to_string(), depth, jobs))
    }

    /// Returns the job's mode, such as `randread`.
    fn mode(&self) -> Option<String> {
        let option = self.option("rw").or_else(|| self.option("readwrite"));
        option.or_else(|| self.named().map(|(mode, _, _)| mode))
    }

    /// Returns the number of clones that this report covers.
    fn clones(&self) -> Result<u32, String> {
        let named = || self.named().map(|(_, _, jobs)| jobs);
        let asked = match self.option("numjobs") {
            Some(text) => {
                Some(count(&text).ok_or(format!("got numjobs={text}, expected a number"))?)
            }
            None => named().filter(|_| self.option("iodepth").is_none()),
        };
        // If each clone has its own report, this one covers a single clone.
        Ok(if self.reports > 1 { 1 } else { asked.unwrap_or(1).max(1) })
    }

    /// Returns the number of outstanding I/Os of each clone.
    fn depth(&self) -> Result<u32, String> {
        let asked = match self.option("iodepth") {
            Some(text) => count(&text).ok_or(format!("got iodepth={text}, expected a number"))?,
            None if self.report.contains_key("job options") => 1,
            None => self.named().map_or(1, |(_, depth, _)| depth),
        };
        let engine = self.option("ioengine").unwrap_or_default();
        let share_at_1 = self.report.get("iodepth_level").and_then(|levels| levels.get("1"));
        let alone = share_at_1.and_then(number).is_some_and(|percent| percent > 90.0);
        let synchronous = SYNCHRONOUS.contains(&engine.as_str()) || alone;
        Ok(if synchronous { 1 } else { asked.max(1) })
    }

    /// Returns the job's measurements, or the reason why they are unusable.
    fn measured(&self) -> Result<MixedJob, String> {
        if let Some(error) = self.number("error").filter(|error| *error != 0.0) {
            return Err(format!("fio ended with error {error}"));
        }
        if self.is_buffered() {
            return Err("its I/Os went through the page cache (set direct=1)".to_string());
        }
        let mode = self
            .mode()
            .ok_or("neither its options nor the file's name show which I/O it performed")?;
        let clones = self.clones()?;
        let depth = self.depth()?.saturating_mul(clones);
        if depth > DEPTH_MAX {
            return Err(format!("it had {depth} outstanding I/Os, more than {DEPTH_MAX}"));
        }
        let mut rows = Vec::new();
        for (op, key) in [(Op::Read, "read"), (Op::Write, "write")] {
            let Some(side) = self.report.get(key).and_then(Value::as_object) else { continue };
            rows.extend(self.row(op, side, depth)?);
        }
        if rows.is_empty() {
            let trims = self.report.get("trim").and_then(|side| side.get("iops")).and_then(number);
            let is_trim = trims.is_some_and(|iops| iops > 0.0);
            let why = if is_trim { "it only trimmed" } else { "it did no I/O" };
            return Err(why.to_string());
        }
        let writes = rows.iter().any(|row| row.op == Op::Write);
        if let Some(why) = options::altered(&mode, writes, |key| self.option(key)) {
            return Err(why);
        }
        if writes && self.may_be_buffered() {
            let why = "without direct=1, its writes went to memory (the page cache)";
            return Err(why.to_string());
        }
        self.check_outstanding(depth, &rows)?;
        let (name, target) = (self.name(), self.option("filename"));
        Ok(MixedJob { name, random: mode.starts_with("rand"), clones, rows, target })
    }

    /// Returns whether the options request the page cache.
    fn is_buffered(&self) -> bool {
        self.option("direct").is_some_and(|text| text == "0")
            || self.option("buffered").is_some_and(|text| text != "0")
    }

    /// Returns whether the report lists the job's options, and none of them bypasses the page
    /// cache.
    fn may_be_buffered(&self) -> bool {
        self.report.contains_key("job options") && !options::is_direct(|key| self.option(key))
    }

    /// Returns an error if the results contradict the depth: by Little's law, rate times latency
    /// equals the number of outstanding I/Os.
    fn check_outstanding(&self, depth: u32, rows: &[SweepRow]) -> Result<(), String> {
        let each = rows.iter().map(|row| row.mean_us.map(|mean| row.iops * mean / 1e6));
        let Some(outstanding) = each.sum::<Option<f64>>() else { return Ok(()) };
        let read = rows.iter().find(|row| row.op == Op::Read);
        if read.and_then(|row| row.mean_us).is_some_and(|mean| mean < MEMORY_US) {
            return Err("its reads came from memory: set direct=1".to_string());
        }
        if OUTSTANDING.contains(&(outstanding / f64::from(depth))) {
            return Ok(());
        }
        let asked = counted(depth.into(), "outstanding I/O");
        Err(format!("its options imply {asked}, but its rate and latency imply {outstanding:.1}"))
    }

    /// Returns the rate in I/Os per second. If fio reports only a bandwidth, the rate follows from
    /// the I/O size.
    fn rate(&self, op: Op, side: &Map<String, Value>) -> Result<f64, String> {
        if let Some(iops) = side.get("iops").and_then(number) {
            return Ok(iops);
        }
        // `bw` is in KiB/s; `bw_bytes` exists only since fio 3.
        let bytes = side.get("bw_bytes").and_then(number);
        let bytes = bytes.or_else(|| Some(side.get("bw").and_then(number)? * 1024.0));
        match bytes.filter(|bytes| *bytes > 0.0) {
            None => Ok(0.0),
            Some(bytes) => Ok(bytes / f64::from(self.block_bytes(op, side)?)),
        }
    }

    /// Returns the measurements of one operation, if the job performed any.
    fn row(
        &self,
        op: Op,
        side: &Map<String, Value>,
        depth: u32,
    ) -> Result<Option<SweepRow>, String> {
        let ops = if op == Op::Write { "writes" } else { "reads" };
        let iops = self.rate(op, side)?;
        if iops < 0.0 {
            return Err(format!("the rate of its {ops} is negative"));
        }
        if iops <= 0.0 {
            return Ok(None);
        }
        // `clat_ns` exists since fio 3. If percentiles of the total latency were requested, they
        // are in `lat_ns`.
        let nanos =
            ["clat_ns", "lat_ns"].iter().filter_map(|key| side.get(*key)).map(|of| (of, 1e-3));
        let micros = ["clat", "lat"].iter().filter_map(|key| side.get(*key)).map(|of| (of, 1.0));
        let latencies: Vec<(&Value, f64)> = nanos.chain(micros).collect();
        let first = |key: &str| {
            let found =
                latencies.iter().find_map(|(of, us)| Some(of.get(key).and_then(number)? * us));
            found.filter(|us| *us > 0.0)
        };
        let percent = |percent: f64| {
            let found = latencies.iter().find_map(|(of, us)| Some(percentile(of, percent)? * us));
            found.filter(|us| *us > 0.0)
        };
        let row = SweepRow {
            op,
            block_bytes: self.block_bytes(op, side)?,
            depth,
            iops,
            mean_us: first("mean"),
            p50_us: percent(50.0),
            p99_us: percent(99.0),
            p999_us: percent(99.9),
            max_us: first("max"),
        };
        let figures =
            [Some(row.iops), row.mean_us, row.p50_us, row.p99_us, row.p999_us, row.max_us];
        match figures.into_iter().flatten().find(|figure| !(1e-3..=1e12).contains(figure)) {
            Some(figure) => Err(format!("a figure of its {ops} is {figure:e}")),
            None => Ok(Some(row)),
        }
    }

    /// Returns the size of an I/O according to the options or, failing that, the counters.
    fn block_bytes(&self, op: Op, side: &Map<String, Value>) -> Result<u32, String> {
        let asked = ["bs", "blocksize"].iter().find_map(|key| self.option(key));
        let varies =
            ["bsrange", "blocksize_range", "bssplit"].iter().find(|key| self.option(key).is_some());
        if let Some(varies) = varies {
            return Err(format!("its option {varies} produces I/Os of many sizes"));
        }
        if let Some(asked) = asked {
            let mut sizes = asked.split(',');
            let read = sizes.next().unwrap_or_default();
            let size = if op == Op::Write { sizes.next().unwrap_or(read) } else { read };
            return size_bytes(size).ok_or(format!("got bs={asked}, expected a size such as 4k"));
        }
        // `io_bytes` is in bytes only if `io_kbytes` is present too.
        let counted = side.get("io_kbytes").and(side.get("io_bytes")).and_then(number);
        let ios = side.get("total_ios").and_then(number).filter(|ios| *ios > 0.0);
        let size =
            counted.zip(ios).map_or(4096.0, |(bytes, ios)| (bytes / ios / 512.0).round() * 512.0);
        Ok(if (512.0..=1e9).contains(&size) { size as u32 } else { 4096 })
    }
}

/// Parses a finite number; fio writes some numbers as strings.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|number: &f64| number.is_finite())
}

fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| *count <= 1 << 20)
}

/// Parses the size of an I/O.
fn size_bytes(text: &str) -> Option<u32> {
    u32::try_from(bytes_of(text)?).ok().filter(|bytes| *bytes > 0)
}

/// Parses a size such as `4k`, `4096`, `1m` or `64KiB`. fio's units are powers of 1024.
fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unit = match text[digits..].trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns a percentile that fio lists, or computes it from the bins of `json+`. The unit is that
/// of `latency`.
fn percentile(latency: &Value, percent: f64) -> Option<f64> {
    let listed = latency.get("percentile").and_then(Value::as_object);
    let at = |(key, value): (&String, &Value)| {
        let key: f64 = key.parse().ok()?;
        ((key - percent).abs() < 1e-6).then(|| number(value)).flatten()
    };
    if let Some(found) = listed.and_then(|listed| listed.iter().find_map(at)) {
        return Some(found);
    }
    let bins = latency.get("bins").and_then(Value::as_object)?;
    let pair = |(key, value): (&String, &Value)| Some((key.parse().ok()?, number(value)?));
    let mut counts: Vec<(f64, f64)> = bins.iter().filter_map(pair).collect();
    counts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let all: f64 = counts.iter().map(|(_, count)| count).sum();
    let mut below = 0.0;
    counts.into_iter().find_map(|(latency, count)| {
        below += count;
        (below >= all * percent / 100.0).then_some(latency)
    })
}
