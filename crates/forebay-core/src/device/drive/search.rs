//! Binary search in monotonic maps of sectors.

/// Returns the first value in `from..to` for which `before` is false; `to` if there is none.
pub(super) fn search(from: u64, to: u64, before: impl Fn(u64) -> bool) -> u64 {
    let (mut from, mut to) = (from, to);
    while from < to {
        let middle = from + (to - from) / 2;
        if before(middle) { from = middle + 1 } else { to = middle }
    }
    from
}
