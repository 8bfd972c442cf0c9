//! What a request queue takes, by Linux's rules.

use crate::contract::parameter::{Given, Parameter};
use crate::contract::spec::SpecError;

/// What every scheduler takes. Where it has a `requests-max`, that is the default of `reads-max` and
/// `writes-max`.
pub const BLOCK_PARAMETERS: &[Parameter] = &[
    Parameter::choice("merge", &["yes", "no"]),
    Parameter::whole("reads-max", 128, 1),
    Parameter::whole("writes-max", 128, 1),
    Parameter::whole("request-max-kib", 512, 4),
    Parameter::whole("bio-max-kib", 1024, 4),
];

/// Commands that a SATA drive queues. A multi-queue scheduler may hold twice as many requests
/// (Linux `nr_requests`), and 256 over deeper devices.
pub(super) const SATA_TAGS: u32 = 32;

/// Limits of the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest bio, in bytes.
    pub bio_len_max: u32,
    /// The longest request, in bytes.
    pub request_len_max: u32,
    /// Read requests between admission and completion.
    pub reads_max: u32,
    /// Write requests between admission and completion.
    pub writes_max: u32,
    /// Both together: the tags of a multi-queue device. `u32::MAX` before multi-queue.
    pub requests_max: u32,
    /// Whether adjacent bios and requests merge.
    pub merging: bool,
}

impl Default for Limits {
    /// The **bid** paper's appendix.
    fn default() -> Self {
        Given::defaults(BLOCK_PARAMETERS, |given| Limits::given(given, u32::MAX))
    }
}

impl Limits {
    /// Those asked for, before a device whose longest I/O is `len_max` bytes.
    ///
    /// # Errors
    /// What is wrong with what is given.
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
            requests_max: tags.unwrap_or(u32::MAX),
        })
    }
}
