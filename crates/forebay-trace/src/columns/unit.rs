//! Units of time and of length.

/// Nanoseconds per second.
const SECOND_NS: u64 = 1_000_000_000;

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUnit {
    /// The name in declarations.
    pub(crate) name: &'static str,
    /// The length in nanoseconds, which is a power of ten, or 0 for dates and time spans.
    pub(crate) ns: u64,
}

/// All units of time. The usual name of each length comes first.
pub(crate) const TIME_UNITS: &[TimeUnit] = &[
    TimeUnit { name: "ns", ns: 1 },
    TimeUnit { name: "ticks", ns: 100 },
    TimeUnit { name: "us", ns: 1_000 },
    TimeUnit { name: "ms", ns: 1_000_000 },
    TimeUnit { name: "s", ns: SECOND_NS },
    TimeUnit { name: "filetime", ns: 100 },
];

/// Used for columns that contain dates instead of counts.
pub(crate) const DATE: TimeUnit = TimeUnit { name: "date", ns: 0 };
/// Time spans such as `0 days 00:00:00.001`, instead of counts.
pub(crate) const TIMEDELTA: TimeUnit = TimeUnit { name: "timedelta", ns: 0 };

impl TimeUnit {
    /// Returns whether the values are dates or time spans instead of numbers.
    pub(crate) fn is_date(self) -> bool {
        self.ns == 0
    }

    pub(crate) fn named(name: &str) -> Option<TimeUnit> {
        TIME_UNITS.iter().copied().find(|unit| unit.name == name)
    }

    /// Converts a count and its fraction, in billionths, to nanoseconds.
    #[inline]
    pub(crate) fn as_ns(self, whole: u64, billionths: u64) -> Option<u64> {
        let whole_ns = whole.checked_mul(self.ns)?;
        if billionths == 0 {
            return Some(whole_ns);
        }
        whole_ns.checked_add(billionths / (SECOND_NS / self.ns))
    }
}

/// Returns the number of bytes in a unit of length: `bytes`, `sectors`, `kib`, `mib`, `pages` or
/// `blocks:N`.
pub(crate) fn length_unit_bytes(name: &str) -> Option<u64> {
    match name {
        "bytes" => Some(1),
        "sectors" => Some(512),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        "pages" => Some(4096),
        _ => {
            let bytes: u64 = name.strip_prefix("blocks:")?.parse().ok()?;
            (1..=1 << 30).contains(&bytes).then_some(bytes)
        }
    }
}
