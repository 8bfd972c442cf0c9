//! The memory of an I/O while a device, or another thread, uses it.

use forebay_core::{Buf, Bytes, Op, Piece, Request, Slots};

use crate::{Failure, Pool};

/// The maximum number of pieces that the kernel accepts at a time (IOV_MAX).
const PIECES_MAX: usize = 1024;

/// The bytes that an I/O has borrowed from the pool. The lists are reused by later I/Os.
#[derive(Default)]
pub(crate) struct Lent {
    /// The pieces that are lent, in order of address.
    pub(crate) pieces: Vec<Piece>,
    /// If the kernel does not accept the pieces of the I/O, one buffer is lent instead, and these
    /// are the pieces.
    bounced: Vec<Piece>,
}

impl Lent {
    /// Lends the bytes of `io`, which is on a target with this block size. The data of a read
    /// without a destination goes to `sink`.
    ///
    /// # Errors
    /// The I/O is a write of a piece without content.
    pub(crate) fn lend(
        &mut self,
        io: &Request,
        pieces: &[Piece],
        block: u32,
        sink: Buf,
        pool: &mut Pool,
    ) -> Result<(), Failure> {
        let Lent { pieces: kept, bounced } = self;
        kept.clear();
        bounced.clear();
        let named: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
        let moves = io.op.moves_data();
        // The kernel gets the I/O's length, which must not exceed the lent bytes.
        assert!(!moves || named == u64::from(io.len), "{io:?} names {named} bytes");
        for piece in pieces.iter().copied().filter(|piece| piece.len > 0) {
            kept.push(match (piece.buf, io.op) {
                (0, Op::Write) => return Err(Failure::Empty),
                (0, _) => Bytes::of(sink).len(piece.len),
                _ => piece,
            });
        }
        // Direct I/O needs pieces that begin and end at blocks.
        let is_odd = |piece: &Piece| !(piece.at | piece.len).is_multiple_of(block);
        if kept.len() > PIECES_MAX || moves && kept.iter().any(is_odd) {
            std::mem::swap(kept, bounced);
            let through = Bytes::of(pool.take(io.len)).len(io.len);
            kept.push(through);
            let mut at = 0;
            for piece in bounced.iter().filter(|_| io.op == Op::Write) {
                pool.copy(*piece, through.bytes().on(at));
                at += piece.len;
            }
        }
        for piece in kept {
            pool.lend(*piece, io.op == Op::Read);
        }
        Ok(())
    }

    /// Takes back the lent memory. If data was read into a single buffer, distributes it to the
    /// pieces.
    pub(crate) fn settle(&mut self, op: Op, sink: Buf, pool: &mut Pool) {
        let Lent { pieces, bounced } = self;
        for piece in pieces.iter() {
            pool.give_back(*piece, op == Op::Read);
        }
        if let (false, [through]) = (bounced.is_empty(), &pieces[..]) {
            let mut at = 0;
            for piece in bounced.drain(..).filter(|_| op == Op::Read) {
                // Data that is not needed is not copied to the sink, which must not be written.
                if piece.buf != sink {
                    pool.copy(through.bytes().on(at).len(piece.len), piece.bytes());
                }
                at += piece.len;
            }
            pool.free(through.buf);
        }
        pieces.clear();
    }

    /// Replaces `vectors` by the addresses of the lent bytes, in the kernel's form.
    pub(crate) fn write_vectors(&self, vectors: &mut Vec<libc::iovec>, pool: &Pool) {
        vectors.clear();
        vectors.extend(self.pieces.iter().map(|piece| libc::iovec {
            iov_base: pool.address(*piece).0.cast(),
            iov_len: piece.len as usize,
        }));
    }
}
