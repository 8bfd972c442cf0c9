//! The outcome of an I/O or a request: success, or one of a few kinds of fault.
//!
//! A fault is an answer like any other: policies, placements, workloads and observers see it, and
//! if no other copy of the data exists, the client gets it.

/// Why an I/O failed, the least bad first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fault {
    /// This range cannot be read or written now; others can, and so may this one later.
    Media,
    /// There is no space for the data.
    Full,
    /// The lane has disappeared permanently.
    Gone,
    /// The lane does no such thing: beyond its end, parts of blocks.
    Refused,
}

impl Fault {
    /// All kinds, the least severe first.
    pub const ALL: [Fault; 4] = [Fault::Media, Fault::Full, Fault::Gone, Fault::Refused];

    /// Returns the name used in results and tapes: `media`, `full`, `gone`, `refused`.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Media => "media",
            Fault::Full => "full",
            Fault::Gone => "gone",
            Fault::Refused => "refused",
        }
    }

    /// Returns the same for people: words that follow "failed: ".
    pub fn reason(self) -> &'static str {
        match self {
            Fault::Media => "I/O error (EIO)",
            Fault::Full => "no space left (ENOSPC)",
            Fault::Gone => "the device is gone (EIO)",
            Fault::Refused => "not possible on this device (EINVAL)",
        }
    }
}

/// Done, or why not.
pub type Outcome = Result<(), Fault>;

/// Combines the outcomes of two parts.
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
    fn the_worst_of_two_is_told() {
        assert_eq!(worst(Ok(()), Ok(())), Ok(()));
        for fault in Fault::ALL {
            assert_eq!(worst(Err(fault), Ok(())), Err(fault));
            assert_eq!(worst(Ok(()), Err(fault)), Err(fault));
            assert_eq!(worst(Err(fault), Err(Fault::Gone)), Err(fault.max(Fault::Gone)));
        }
    }
}
