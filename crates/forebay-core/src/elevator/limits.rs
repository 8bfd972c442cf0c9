//! The limits of a request queue, according to Linux's rules.

use crate::contract::{Given, Nanos, Parameter, Spec, SpecError};

/// Parameters that every scheduler accepts. The default of `reads-max` and `writes-max` is
/// `requests-max` if the scheduler has it.
pub const BLOCK_PARAMETERS: &[Parameter] = &[
    Parameter::choice("merge", &["yes", "no"]).about("whether adjacent requests are merged"),
    Parameter::whole("reads-max", 128, 1)
        .about("maximum number of queued reads; the default is requests-max for schedulers that \
                have it"),
    Parameter::whole("writes-max", 128, 1).about(
        "maximum number of queued writes: at most 64 with mq-deadline (Linux async_depth); for \
         asynchronous writes, half of requests-max with bfq and three quarters with kyber",
    ),
    Parameter::whole("request-max-kib", 512, 4).about(
        "maximum length of a request, also after merging; the limit of the device applies \
            too",
    ),
    Parameter::whole("bio-max-kib", 1024, 4).about("maximum length before merging, if smaller"),
    Parameter::choice("queue", &["tasks", "line"]).about(
        "what waits for a free slot: the submitting task, as in Linux, so that one request per stream \
         waits; or every request, in a single line, as in the bid paper",
    ),
    Parameter::millis("wbt-ms", 75.0).about(
        "if the fastest read of a tenth of a second takes longer, fewer page-cache writes are \
         admitted (Linux wbt_lat_usec: 75 ms on disks, 2 on flash); 0: never; only with none, \
         mq-deadline and kyber",
    ),
];

/// The number of commands that a SATA drive queues. A multi-queue scheduler may hold twice as many
/// requests (Linux `nr_requests`), and 256 above devices with deeper queues.
pub(super) const SATA_TAGS: u32 = 32;

/// The default number of admitted requests, reads and writes together, for Forebay's own
/// schedulers. They run behind a network block device, where Linux allows this many outstanding
/// requests (`nbd`, `queue_depth` 128).
pub(super) const SERVED: Parameter = Parameter::whole("requests-max", 128, 1).about(
    "maximum number of queued requests, reads and writes together; Linux queues up to 128 for \
        a served device",
);

/// The entities that wait for a slot in the request queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// All bios wait in one line, as in the **bid** paper's appendix.
    Line,
    /// Tasks wait for tags and are woken after every `wake_batch` completed requests, as in Linux
    /// 6.12.
    Tags {
        /// The number of completed requests.
        wake_batch: u32,
    },
    /// Tasks wait, and may submit a batch when they are woken, as in the legacy queue of Linux up
    /// to 4.20.
    Batches,
}

/// Limits of the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest bio, in bytes.
    pub bio_len_max: u32,
    /// The longest request, in bytes.
    pub request_len_max: u32,
    /// The maximum number of reads between admission and completion.
    pub reads_max: u32,
    /// The maximum number of writes between admission and completion.
    pub writes_max: u32,
    /// A separate maximum for synchronous writes. If given, [`Limits::writes_max`] limits only
    /// asynchronous writes.
    pub sync_writes_max: Option<u32>,
    /// The maximum number of reads and writes together: the tags of a multi-queue device, or
    /// `u32::MAX` for single-queue schedulers.
    pub requests_max: u32,
    /// The entities that wait when there is no free slot.
    pub waiting: Waiting,
    /// The time that reads may take at the device before write-back is throttled; zero disables
    /// throttling. Only used with [`Waiting::Tags`].
    pub read_target: Nanos,
    /// Whether adjacent bios and requests merge.
    pub merging: bool,
}

impl Default for Limits {
    /// Returns the sizes of the **bid** paper's appendix and the waiting rule of Linux.
    fn default() -> Self {
        Given::defaults(BLOCK_PARAMETERS, |given| Limits::given(given, u32::MAX))
    }
}

impl Limits {
    /// Returns the limits for a scheduler that is not in the catalog: those of noop, with the
    /// changes to [`BLOCK_PARAMETERS`] in `text`, as in `merge=no:reads-max=4`.
    ///
    /// # Errors
    /// If `text` is not valid.
    pub fn parse(text: &str, len_max: u32) -> Result<Limits, SpecError> {
        let colon = if text.is_empty() { "" } else { ":" };
        let spec = Spec::parse(&format!("queue{colon}{text}"))?;
        let limits = Limits::given(&Given::new(&spec, &[BLOCK_PARAMETERS]), len_max)?.legacy();
        spec.finish()?;
        Ok(limits)
    }

    /// Returns the requested limits for a device whose longest I/O is `len_max` bytes.
    ///
    /// # Errors
    /// If a parameter has an invalid value.
    pub(crate) fn given(given: &Given<'_>, len_max: u32) -> Result<Limits, SpecError> {
        let tags = given.has("requests-max").then(|| given.whole("requests-max")).transpose()?;
        let side = |key| match tags {
            Some(tags) => given.spec.at_least(key, tags, 1),
            None => given.whole(key),
        };
        let bytes = |key| given.whole(key).map(|kib| kib.saturating_mul(1024));
        Ok(Limits {
            bio_len_max: bytes("bio-max-kib")?,
            request_len_max: bytes("request-max-kib")?.min(len_max.max(512)),
            reads_max: side("reads-max")?,
            writes_max: side("writes-max")?,
            merging: given.is_first("merge")?,
            sync_writes_max: None,
            requests_max: tags.unwrap_or(u32::MAX),
            read_target: given.millis("wbt-ms")?,
            waiting: match given.is_first("queue")? {
                true => Waiting::Tags { wake_batch: 1 },
                false => Waiting::Line,
            },
        })
    }
}

impl Limits {
    /// Returns the limits of the legacy queue: reads and synchronous writes on one list, other
    /// writes on another.
    pub(super) fn legacy(self) -> Limits {
        match self.waiting {
            Waiting::Line => self,
            _ => Limits { waiting: Waiting::Batches, ..self },
        }
    }

    /// Returns the limits of Linux without a scheduler: sleepers are woken each time an eighth of
    /// the tags has become free.
    pub(super) fn shared(self) -> Limits {
        self.waking(self.requests_max / WAIT_QUEUES)
    }

    /// Returns limits with which sleepers are woken after every `wake_batch` completed requests.
    pub(super) fn waking(self, wake_batch: u32) -> Limits {
        match self.waiting {
            Waiting::Line => self,
            _ => Limits {
                waiting: Waiting::Tags { wake_batch: wake_batch.clamp(1, WAKE_BATCH_MAX) },
                ..self
            },
        }
    }
}

/// Linux's `SBQ_WAIT_QUEUES`: sleepers are woken after the tags divided by this number have become
/// free.
const WAIT_QUEUES: u32 = 8;

/// Linux's `SBQ_WAKE_BATCH`.
const WAKE_BATCH_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_changes_only_the_named_limits() {
        assert_eq!(Limits::parse("", u32::MAX), Ok(Limits::default().legacy()));
        let changed = Limits::parse("merge=no:reads-max=4", 64 << 10).unwrap();
        let plain = Limits::default().legacy();
        assert_eq!(
            changed,
            Limits { merging: false, reads_max: 4, request_len_max: 64 << 10, ..plain }
        );
        let said = Limits::parse("marge=no", 1 << 20).unwrap_err().0;
        assert!(said.ends_with("no parameter 'marge' (did you mean merge?)"), "{said}");
    }
}
