//! Options of fio that make a job measure something other than the drive under plain random or
//! sequential I/O.

/// An option, the values for which it has no effect, and the effect of other values.
type Altering = (&'static str, fn(&str) -> bool, &'static str);

const THROTTLES: &str = "throttles it";
const WAITS: &str = "makes its I/Os wait for each other";
const ANY: [Altering; 8] = [
    ("rate", is_off, THROTTLES),
    ("rate_iops", is_off, THROTTLES),
    ("thinktime", is_off, THROTTLES),
    ("latency_target", is_off, "changes its queue depth"),
    ("iodepth_batch_complete_min", is_at_most_one, WAITS),
    ("iodepth_batch_complete", is_at_most_one, WAITS),
    ("zonemode", is_off, "limits it to zones"),
    ("zoneskip", is_off, "leaves out parts of the drive"),
];

const UNEVEN: &str = "makes its positions uneven";
const OF_RANDOM: [Altering; 2] = [
    // `random` may have a parameter, as in `random:0.5`.
    ("random_distribution", |value| value.starts_with("random"), UNEVEN),
    ("percentage_random", |value| value.split(',').all(|each| each == "100"), UNEVEN),
];

const FLUSHES: &str = "flushes the drive's cache";
const OF_WRITES: [Altering; 5] = [
    ("fsync", is_off, FLUSHES),
    ("fdatasync", is_off, FLUSHES),
    ("sync", is_off, FLUSHES),
    ("sync_file_range", is_off, FLUSHES),
    ("writefua", is_off, "bypasses the drive's cache"),
];

/// Engines that never use the page cache.
const BYPASSING: [&str; 11] = [
    "sg",
    "io_uring_cmd",
    "nvme",
    "spdk",
    "spdk_bdev",
    "xnvme",
    "libblkio",
    "libzbc",
    "nbd",
    "rbd",
    "libiscsi",
];

/// Returns why the results of a job with the given mode and options do not describe the drive under
/// plain I/O, or None if they do.
pub(super) fn altered(
    mode: &str,
    writes: bool,
    option: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    if mode.contains(':') {
        return Some(format!("its mode {mode} changes the order of its I/Os"));
    }
    let of_random: &[Altering] = if mode.starts_with("rand") { &OF_RANDOM } else { &[] };
    let of_writes: &[Altering] = if writes { &OF_WRITES } else { &[] };
    let mut all = ANY.iter().chain(of_random).chain(of_writes);
    all.find_map(|(key, is_harmless, effect)| {
        let value = option(key).filter(|value| !is_harmless(value))?;
        let value: String = value.chars().take(40).collect();
        Some(format!("its option {key}={value} {effect}"))
    })
}

/// Returns whether the options make fio bypass the page cache, which it uses by default.
pub(super) fn is_direct(option: impl Fn(&str) -> Option<String>) -> bool {
    let is = |key: &str, value: &str| option(key).is_some_and(|text| text == value);
    let engine = option("ioengine").unwrap_or_default();
    option("direct").is_some_and(|text| text != "0")
        || is("buffered", "0")
        || BYPASSING.contains(&engine.as_str())
        || engine.starts_with("external:")
}

fn is_off(value: &str) -> bool {
    value.split(',').all(|each| matches!(each.trim(), "" | "0" | "none" | "false"))
}

fn is_at_most_one(value: &str) -> bool {
    matches!(value.trim(), "" | "0" | "1")
}
