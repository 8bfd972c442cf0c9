//! Writes a fio job that has a trace's mean properties. A job file cannot express more.
//!
//! Each volume becomes one job: the mix of reads and writes; the sizes and the random share of
//! each; rates with exponential inter-arrival times; and the distribution of requests over twenty
//! equal ranges. fio accepts only whole percents and whole rates. Comments at the top of the file
//! list what it cannot express. To keep every request, use fio's I/O log format instead.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use forebay_core::{Nanos, Op};
use forebay_trace::begins::BeginCounts;
use forebay_trace::touched::{Folded, Touched};
use forebay_trace::write::Draft;
use forebay_trace::{Reader, Record};
use forebay_words::quantities::bytes;

use crate::Error;
use crate::progress::{Meter, Progress};

/// The number of equal ranges per volume for which fio gets a share of the requests.
const RANGES: u64 = 20;
/// The maximum number of volumes that get a job, because each job is a process. The busiest are
/// chosen.
const JOBS_MAX: usize = 32;
/// Request sizes are rounded up to a multiple of this, as direct I/O requires.
const SECTOR_BYTES: u64 = 512;
/// Volume sizes are rounded up to a multiple of this.
const MIB: u64 = 1 << 20;
/// The number of areas per volume in which requests are counted.
const STRETCHES: usize = 1024;

/// Returns whether the file `output` should be a fio job. The format `to` decides, or the file
/// extension if `to` is not given.
pub fn is_asked(output: &Path, to: Option<&str>) -> bool {
    let ending = output.extension().is_some_and(|ending| ending == "fio");
    to.map_or(ending, |format| format == "fio-job")
}

/// Writes a job for all requests from `reader`, which come from `model`, to `draft`, and returns
/// the number of requests.
///
/// # Errors
/// [`Error::Output`] if the operating system refuses to write; [`Error::Stopped`] if `progress`
/// requests a stop.
pub fn write(
    model: &Path,
    reader: &mut dyn Reader,
    draft: Draft,
    progress: Progress<'_>,
) -> Result<u64, Error> {
    let (mut job, mut batch, mut meter) = (FioJob::default(), Vec::new(), Meter::new(progress));
    loop {
        reader.read(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        batch.iter().for_each(|record| job.add(record));
        if meter.stops_after(batch.len()) {
            return Err(Error::Stopped);
        }
    }
    let name = model.file_name().unwrap_or_default().to_string_lossy();
    draft.fill(job.text(&name).as_bytes()).map_err(Error::output)?;
    Ok(meter.count())
}

/// The counts of a trace from which its fio job is written.
#[derive(Debug, Default)]
pub struct FioJob {
    volumes: BTreeMap<u32, Volume>,
    used: Touched,
    end: Nanos,
    /// The number of flushes, trims and other requests that move no data.
    left_out: u64,
}

#[derive(Debug)]
struct Volume {
    /// The counts of reads, then those of writes.
    directions: [Direction; 2],
    extent: u64,
    begins: BeginCounts,
}

impl Default for Volume {
    fn default() -> Volume {
        Volume { directions: Default::default(), extent: 0, begins: BeginCounts::new(STRETCHES) }
    }
}

#[derive(Debug, Default)]
struct Direction {
    requests: u64,
    /// The number of requests that start where the previous one of the same operation ended.
    sequential: u64,
    next: Option<u64>,
    /// The number of requests of each size in bytes.
    sizes: BTreeMap<u64, u64>,
}

impl Volume {
    fn requests(&self) -> u64 {
        self.directions.iter().map(|direction| direction.requests).sum()
    }
}

impl FioJob {
    /// Counts a request.
    pub fn add(&mut self, record: &Record) {
        self.end = self.end.max(record.at);
        if !record.op.moves_data() || record.len == 0 {
            self.left_out += 1;
            return;
        }
        let volume = self.volumes.entry(record.volume).or_default();
        let end = record.offset.saturating_add(u64::from(record.len));
        self.used.add(record);
        volume.extent = volume.extent.max(end);
        volume.begins.add(record.offset);
        let direction = &mut volume.directions[usize::from(record.op == Op::Write)];
        direction.requests += 1;
        direction.sequential += u64::from(direction.next == Some(record.offset));
        direction.next = Some(end);
        let size = u64::from(record.len).next_multiple_of(SECTOR_BYTES);
        *direction.sizes.entry(size).or_default() += 1;
    }

    /// Returns the text of the job file; `of` names the trace or model that it comes from.
    pub fn text(&self, of: &str) -> String {
        let duration_s = self.end.as_secs_f64();
        let mut busiest: Vec<_> = self.volumes.iter().collect();
        busiest.sort_by_key(|(number, volume)| (std::cmp::Reverse(volume.requests()), **number));
        let dropped = busiest.split_off(busiest.len().min(JOBS_MAX));
        let used: Vec<Folded> =
            self.used.stretches().iter().map(|stretches| Folded::new(stretches)).collect();
        let gaps = |(number, volume): &(&u32, &Volume)| {
            volume.extent.saturating_sub(used[**number as usize].bytes())
        };
        let gap_bytes = busiest.iter().map(gaps).fold(0, u64::saturating_add);
        let dropped = dropped.iter().map(|(_, volume)| volume.requests()).sum();
        let mut out = self.head(of, dropped, gap_bytes);
        let _ = write!(
            out,
            "[global]\nioengine=libaio\ndirect=1\niodepth=32\ntime_based=1\nruntime={}\n\
             rate_process=poisson\nnorandommap=1\n",
            duration_s.ceil().max(1.0)
        );
        for (number, volume) in busiest {
            job(&mut out, *number, volume, &used[*number as usize], duration_s);
        }
        out
    }

    fn head(&self, of: &str, dropped: u64, gap_bytes: u64) -> String {
        let mut out = String::new();
        let of = of.replace(char::is_control, "?");
        let gaps = (gap_bytes > 0).then(|| {
            let gaps = bytes(gap_bytes as f64);
            format!("  {gaps} of long gaps without requests are left out of the files.")
        });
        let lines = [
            format!(
                "Generated from {of} by forebay generate. It has only the means and does not \
                preserve"
            ),
            "  the order of requests, threads, bursts and changes of the rate over time,".into(),
            "  reuse of blocks, runs of one size or direction, exact offsets;".into(),
            "  percentages and rates are whole numbers, rates at least one a second.".into(),
            format!(
                "  Left out: flushes and trims ({}), requests of further volumes ({dropped}).",
                self.left_out
            ),
            "The I/O log (forebay generate -o OUT.iolog, fio --read_iolog) keeps every request."
                .into(),
            "It creates and writes files named volume0, volume1, ... in the current folder.".into(),
        ];
        lines.iter().chain(&gaps).for_each(|line| {
            let _ = writeln!(out, "; {line}");
        });
        out
    }
}

/// Writes the job of one volume, leaving out its long gaps.
fn job(out: &mut String, number: u32, volume: &Volume, used: &Folded, duration_s: f64) {
    let [reads, writes] = &volume.directions;
    let extent = volume.extent.min(used.bytes()).next_multiple_of(MIB);
    let _ = write!(out, "\n[volume{number}]\nfilename=volume{number}\nsize={extent}\n");
    let both = [reads, writes].map(|direction| direction.requests);
    let _ = match both {
        [_, 0] => writeln!(out, "rw=randread"),
        [0, _] => writeln!(out, "rw=randwrite"),
        _ => writeln!(out, "rw=randrw\nrwmixread={}", whole(&both)[0]),
    };
    let each = |say: &dyn Fn(&Direction) -> String| {
        // fio requires settings for both directions, even if one has no requests.
        let used = |one: &Direction| {
            say(if one.requests > 0 {
                one
            } else if reads.requests > 0 {
                reads
            } else {
                writes
            })
        };
        format!("{},{}", used(reads), used(writes))
    };
    let random =
        |one: &Direction| whole(&[one.requests - one.sequential, one.sequential])[0].to_string();
    let rate = |one: &Direction| match duration_s > 0.0 {
        true => (one.requests as f64 / duration_s).round().max(1.0).to_string(),
        false => one.requests.to_string(),
    };
    let _ = write!(
        out,
        "percentage_random={}\nbssplit={}\nrate_iops={}\n",
        each(&random),
        each(&sizes),
        each(&rate)
    );
    let _ = writeln!(out, "random_distribution=zoned:{}", zones(volume, used, extent));
}

/// Formats the request sizes with their percentages, as fio's `bssplit` expects.
fn sizes(direction: &Direction) -> String {
    let counts: Vec<u64> = direction.sizes.values().copied().collect();
    let shares = direction.sizes.keys().zip(whole(&counts)).filter(|(_, percent)| *percent > 0);
    shares.map(|(size, percent)| format!("{size}/{percent}")).collect::<Vec<_>>().join(":")
}

/// Formats the share of requests in each range of the volume, as fio's `random_distribution=zoned`
/// expects.
fn zones(volume: &Volume, used: &Folded, extent: u64) -> String {
    let mut counts = [0; RANGES as usize];
    for stretch in volume.begins.stretches() {
        let range = used.at(stretch.first) / extent.div_ceil(RANGES);
        counts[range.min(RANGES - 1) as usize] += stretch.requests;
    }
    let size = 100 / RANGES;
    let shares = whole(&counts).into_iter().map(|percent| format!("{percent}/{size}"));
    shares.collect::<Vec<_>>().join(":")
}

/// Rounds shares to whole percentages that add up to 100, rounding up those with the largest
/// remainders.
fn whole(counts: &[u64]) -> Vec<u64> {
    let all: u128 = counts.iter().map(|count| u128::from(*count)).sum::<u128>().max(1);
    let hundredfold = |count: u64| u128::from(count) * 100;
    let mut percents: Vec<u64> =
        counts.iter().map(|count| (hundredfold(*count) / all) as u64).collect();
    let mut by_rest: Vec<usize> = (0..counts.len()).collect();
    by_rest.sort_by_key(|index| std::cmp::Reverse(hundredfold(counts[*index]) % all));
    let missing = 100u64.saturating_sub(percents.iter().sum());
    by_rest.into_iter().take(missing as usize).for_each(|index| percents[index] += 1);
    percents
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::Flags;

    fn record(at_ms: u64, op: Op, offset: u64, len: u32, volume: u32) -> Record {
        Record {
            at: Nanos::from_millis(at_ms),
            offset,
            latency: None,
            len,
            stream: 0,
            volume,
            op,
            flags: Flags::NONE,
        }
    }

    #[test]
    fn percents_are_whole_and_add_up() {
        assert_eq!(whole(&[1, 1, 1]), [34, 33, 33]);
        assert_eq!(whole(&[0, 7]), [0, 100]);
        assert_eq!(whole(&[u64::MAX, u64::MAX]), [50, 50]);
        for counts in [vec![1; 7], vec![3, 1, 999, 5], (1..200).collect()] {
            assert_eq!(whole(&counts).iter().sum::<u64>(), 100, "{counts:?}");
        }
    }

    #[test]
    fn a_job_says_the_means() {
        let mut job = FioJob::default();
        // Within ten seconds, 25 of 100 reads continue where the previous one ended; the 300 writes
        // never do.
        for n in 0..400 {
            let at_ms = n * 10_000 / 399;
            let place = n / 16 * 65_536;
            job.add(&match n % 16 {
                0 => record(at_ms, Op::Read, place, 4096, 3),
                4 => record(at_ms, Op::Read, place + 4096, 4096, 3),
                8 | 12 => record(at_ms, Op::Read, 16 << 20, 8000, 3),
                _ => record(at_ms, Op::Write, (20 << 20) - 512, 512, 3),
            });
        }
        job.add(&record(0, Op::Flush, 0, 0, 3));
        job.add(&record(10_000, Op::Write, 0, 4096, 1));
        let text = job.text("m\n.json");
        let expected = "\n[volume3]\nfilename=volume3\nsize=20971520\nrw=randrw\nrwmixread=25\n\
            percentage_random=75,100\nbssplit=4096/50:8192/50,512/100\nrate_iops=10,30\n\
            random_distribution=zoned:8/5:5/5:";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains(":12/5:0/5:0/5:75/5\n"), "{text}");
        assert!(text.contains("[volume1]") && text.contains("rw=randwrite\n"), "{text}");
        assert!(text.contains("runtime=10\n") && text.contains("flushes and trims (1)"), "{text}");
        assert!(text.starts_with("; Generated from m?.json"), "{text}");
    }

    /// A single distant request neither extends the file to its offset nor moves all others into
    /// one range.
    #[test]
    fn distant_requests_leave_the_ranges_of_all_others() {
        let job = |far: Option<u64>| {
            let mut job = FioJob::default();
            for n in 0..20_000u64 {
                let place = (n * 7919 % 20 + if n % 2 == 0 { 0 } else { n * 31 % 1000 }) << 20;
                job.add(&record(n, Op::Read, place, 4096, 0));
            }
            far.into_iter().for_each(|far| job.add(&record(20_000, Op::Read, far, 4096, 0)));
            job.text("m")
        };
        let figures = |text: &str| {
            let after =
                |key: &str| text.split_once(key).unwrap().1.lines().next().unwrap().to_owned();
            let size: u64 = after("size=").parse().unwrap();
            (size, after("zoned:"))
        };
        let (size, zones) = figures(&job(None));
        for far in [1u64 << 40, 1 << 50, 1 << 62] {
            let text = job(Some(far));
            let (with_size, with_zones) = figures(&text);
            assert!(with_size.abs_diff(size) <= 5 << 20, "{far}: {with_size}, {size}");
            // A percentage may be rounded differently.
            let percents = |zones: &str| -> Vec<i32> {
                zones
                    .split(':')
                    .map(|zone| zone.split('/').next().unwrap().parse().unwrap())
                    .collect()
            };
            let pairs = percents(&with_zones).into_iter().zip(percents(&zones));
            assert!(
                pairs.clone().count() == 20 && pairs.clone().all(|(a, b)| (a - b).abs() <= 1),
                "{far}"
            );
            assert!(text.contains("of long gaps without requests are left out"), "{text}");
        }
    }

    #[test]
    fn the_busiest_volumes_get_a_job() {
        let mut job = FioJob::default();
        for volume in 0..40 {
            for _ in 0..=volume {
                job.add(&record(0, Op::Read, 0, 4096, volume));
            }
        }
        let text = job.text("m");
        assert_eq!(text.matches("[volume").count(), JOBS_MAX);
        assert!(text.contains("[volume39]") && !text.contains("[volume7]"));
        assert!(text.contains("requests of further volumes (36)"), "{text}");
    }
}
