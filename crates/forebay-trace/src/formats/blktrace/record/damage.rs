//! Finds the next intact record after a damaged part of a file.

use std::path::Path;

use super::{Cursor, HEAD, Head, MAGIC_BYTES, Order, Step};
use crate::TraceError;
use crate::bad_rows::{BadRows, BadRowsMax};
use forebay_words::plural::{counted, verb};

/// The maximum number of damaged parts that are listed.
const SHOWN: usize = 3;

/// The number of consecutive records by which those after a damaged beginning are recognized.
const CHAIN: usize = 3;

/// Returns the byte order of the first consecutive records in `bytes`.
pub(super) fn order_in(bytes: &[u8]) -> Option<Order> {
    let begins = |order: &Order| {
        let is_chain = |at: usize| {
            let next = |at: &usize| {
                let bytes = bytes.get(*at..)?.first_chunk::<HEAD>()?;
                let is_record = bytes.starts_with(&order.magic());
                is_record.then(|| at + HEAD + Head { bytes, order: *order }.payload())
            };
            std::iter::successors(Some(at), next).nth(CHAIN).is_some()
        };
        memchr::memmem::find_iter(bytes, &order.magic()).any(is_chain)
    };
    [Order::Little, Order::Big].into_iter().find(begins)
}

/// The damaged parts of a file.
pub(super) struct Damage {
    bad: BadRows,
    /// The number of damaged parts, their size, and the number of records that fit into them.
    parts: u64,
    bytes: u64,
    records: u64,
    /// The positions of the first damaged parts.
    first: Vec<String>,
}

impl Damage {
    pub(super) fn new(bad_rows_max: BadRowsMax) -> Damage {
        let bad = BadRows::new(bad_rows_max);
        Damage { bad, parts: 0, bytes: 0, records: 0, first: Vec::new() }
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// Returns the note about the damaged parts of a file with `records` records.
    ///
    /// # Errors
    /// Fails if too many records are damaged.
    pub(super) fn finish(
        &mut self,
        path: &Path,
        records: u64,
    ) -> Result<Option<String>, TraceError> {
        let told = self.bad.finish(records.saturating_sub(self.records))?;
        Ok(told.map(|_| {
            let more = if self.parts > SHOWN as u64 { " and later" } else { "" };
            format!(
                "{}: {} {} damaged and left out ({} at byte {}{more}), in place of about {}",
                path.display(),
                counted(self.bytes, "byte"),
                verb(self.bytes, "is", "are"),
                counted(self.parts, "part"),
                self.first.join(", "),
                counted(self.records, "record")
            )
        }))
    }
}

impl Cursor {
    /// Returns whether the length of the next record is wrong: another record begins within it, and
    /// neither a record nor zeros follow it.
    pub(super) fn has_wrong_length(
        &mut self,
        size: usize,
        order: Order,
    ) -> Result<bool, TraceError> {
        if size == HEAD {
            return Ok(false);
        }
        self.fill(size + HEAD)?;
        let unread = &self.buffer[self.unread.clone()];
        let next = unread.get(size..unread.len().min(size + HEAD));
        let fits = next.is_some_and(|next| {
            next.starts_with(&order.magic()) || next.iter().all(|&byte| byte == 0)
        });
        let payload = &unread[HEAD.min(unread.len())..size.min(unread.len())];
        Ok(!fits && memchr::memmem::find(payload, &order.magic()).is_some())
    }

    /// Skips at least `least` bytes, up to the next intact record or the end of the file.
    ///
    /// # Errors
    /// Fails if every record must be readable.
    #[cold]
    pub(super) fn leave_out(
        &mut self,
        least: usize,
        order: Order,
        error: TraceError,
    ) -> Result<Step, TraceError> {
        let from = self.at;
        self.skip(least);
        let (mut is_zero, mut is_end) = (least == 0, false);
        while !is_end && !self.is_at_record(order)? {
            self.fill(HEAD)?;
            let unread = &self.buffer[self.unread.clone()];
            is_end = unread.len() < HEAD;
            let next = memchr::memmem::find(unread.get(1..).unwrap_or_default(), &order.magic());
            let count = match next {
                Some(at) => at + 1,
                None if is_end => unread.len(),
                None => unread.len() - MAGIC_BYTES,
            };
            is_end &= next.is_none();
            is_zero &= unread[..count].iter().all(|&byte| byte == 0);
            self.skip(count);
        }
        let bytes = self.at - from;
        if is_end && is_zero {
            self.finish()?;
            self.warnings.push(format!(
                "{}: {bytes} zero bytes from byte {from} to the end are ignored (was blktrace killed?)",
                self.path.display(),
            ));
            return Ok(Step::End);
        }
        let (records, damage) = (bytes.div_ceil(HEAD as u64), &mut self.damage);
        self.records += records;
        damage.parts += 1;
        damage.bytes += bytes;
        damage.records += records;
        if damage.first.len() < SHOWN {
            damage.first.push(from.to_string());
        }
        damage.bad.add_several(records, || error)?;
        Ok(Step::Other)
    }

    /// Returns whether the next bytes are an intact record, or the beginning of one at the end of
    /// the file.
    fn is_at_record(&mut self, order: Order) -> Result<bool, TraceError> {
        self.fill(HEAD)?;
        let unread = &self.buffer[self.unread.clone()];
        let Some(bytes) = unread.first_chunk::<HEAD>() else {
            return Ok(!unread.is_empty() && unread.starts_with(&order.magic()));
        };
        if !bytes.starts_with(&order.magic()) {
            return Ok(false);
        }
        let size = HEAD + Head { bytes, order }.payload();
        Ok(!self.has_wrong_length(size, order)?)
    }
}
