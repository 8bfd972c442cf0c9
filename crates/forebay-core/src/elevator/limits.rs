//! What a request queue takes, by Linux's rules.

use crate::contract::parameter::{Given, Parameter};
use crate::contract::spec::{Spec, SpecError};

/// What every scheduler takes. Where it has a `requests-max`, that is the default of `reads-max` and
/// `writes-max`.
pub const BLOCK_PARAMETERS: &[Parameter] = &[
    Parameter::choice("merge", &["yes", "no"]).about("whether requests that touch become one"),
    Parameter::whole("reads-max", 128, 1)
        .about("reads admitted at a time; requests-max by default, where that is taken"),
    Parameter::whole("writes-max", 128, 1)
        .about("the same for writes; with kyber three quarters of requests-max"),
    Parameter::whole("request-max-kib", 512, 4)
        .about("longer requests are cut to this, merged ones stay within, and the device's"),
    Parameter::whole("bio-max-kib", 1024, 4).about("the same before merging, where this is less"),
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
    /// Those of a scheduler that no catalog lists: what `text` changes of [`BLOCK_PARAMETERS`], as in
    /// `merge=no:reads-max=4`.
    ///
    /// # Errors
    /// What is wrong with `text`.
    pub fn parse(text: &str, len_max: u32) -> Result<Limits, SpecError> {
        let colon = if text.is_empty() { "" } else { ":" };
        let spec = Spec::parse(&format!("queue{colon}{text}"))?;
        let limits = Limits::given(&Given::new(&spec, &[BLOCK_PARAMETERS]), len_max)?;
        spec.finish()?;
        Ok(limits)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_changes_what_it_names() {
        assert_eq!(Limits::parse("", u32::MAX), Ok(Limits::default()));
        let changed = Limits::parse("merge=no:reads-max=4", 64 << 10).unwrap();
        let plain = Limits::default();
        assert_eq!(
            changed,
            Limits { merging: false, reads_max: 4, request_len_max: 64 << 10, ..plain }
        );
        let said = Limits::parse("marge=no", 1 << 20).unwrap_err().0;
        assert!(said.contains("no parameter 'marge', expected one of"), "{said}");
    }
}
