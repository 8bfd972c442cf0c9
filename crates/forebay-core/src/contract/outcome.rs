//! The outcome of an I/O or a request: success, or one of a few kinds of fault.
//!
//! A fault is a normal answer: policies, placements, workloads and observers see it. The client
//! receives it only if no other copy of the data exists.

/// Why an I/O failed, from least to most severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fault {
    /// This range cannot be read or written now; other ranges can, and this one may recover.
    Media,
    /// There is no space for the data.
    Full,
    /// The lane has disappeared permanently.
    Gone,
    /// The lane does not support this I/O: it is beyond the lane's end, or not aligned to blocks.
    Refused,
}

impl Fault {
    /// All kinds of fault, from least to most severe.
    pub const ALL: [Fault; 4] = [Fault::Media, Fault::Full, Fault::Gone, Fault::Refused];

    /// Returns the name used in results and tapes: `media`, `full`, `gone` or `refused`.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Media => "media",
            Fault::Full => "full",
            Fault::Gone => "gone",
            Fault::Refused => "refused",
        }
    }

    /// Returns the reason in words, to follow "failed: " in a message.
    pub fn reason(self) -> &'static str {
        match self {
            Fault::Media => "I/O error (EIO)",
            Fault::Full => "no space left (ENOSPC)",
            Fault::Gone => "the device is gone (EIO)",
            Fault::Refused => "not possible on this device (EINVAL)",
        }
    }
}

/// Success, or the reason of the failure.
pub type Outcome = Result<(), Fault>;

/// Returns the worse of the outcomes of two parts.
#[inline]
pub fn worst(a: Outcome, b: Outcome) -> Outcome {
    match (a, b) {
        (Err(a), Err(b)) => Err(a.max(b)),
        (Ok(()), other) | (other, Ok(())) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_of_two_outcomes_is_returned() {
        assert_eq!(worst(Ok(()), Ok(())), Ok(()));
        for fault in Fault::ALL {
            assert_eq!(worst(Err(fault), Ok(())), Err(fault));
            assert_eq!(worst(Ok(()), Err(fault)), Err(fault));
            assert_eq!(worst(Err(fault), Err(Fault::Gone)), Err(fault.max(Fault::Gone)));
        }
    }
}
