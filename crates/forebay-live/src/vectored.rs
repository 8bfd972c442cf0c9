//! Blocking reads and writes of lent bytes by a thread.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::Pool;
use crate::lent::Lent;

/// The addresses of lent bytes, for one transfer.
pub(crate) struct Vectors(Vec<libc::iovec>);

// SAFETY: the addresses are those of bytes in a pool, which is not bound to a thread. Whoever created
// the vectors guarantees that the bytes are lent as long as the vectors are used.
unsafe impl Send for Vectors {}

impl Vectors {
    /// Returns the addresses of the bytes that `lent` has borrowed from `pool`.
    ///
    /// # Safety
    /// The bytes must stay lent as long as the vectors are used: for writing if they are used for a
    /// read of a file.
    pub(crate) unsafe fn of(lent: &Lent, pool: &Pool) -> Vectors {
        let mut vectors = Vec::with_capacity(lent.pieces.len());
        lent.write_vectors(&mut vectors, pool);
        Vectors(vectors)
    }

    /// Reads once from a file into the lent bytes; returns the number of bytes read.
    pub(crate) fn read(&mut self, file: &File, offset: u64) -> io::Result<u64> {
        let (first, count) = (self.0.as_ptr(), self.0.len() as libc::c_int);
        // SAFETY: the vectors are a list of this length, and their bytes are lent for writing.
        let read = unsafe { libc::preadv(file.as_raw_fd(), first, count, offset as libc::off_t) };
        moved(read)
    }

    /// Writes all lent bytes to a file. If the file system is nearly full, writes may be partial;
    /// the last one then returns the error.
    pub(crate) fn write(&mut self, file: &File, mut offset: u64) -> io::Result<()> {
        let mut done = 0;
        loop {
            done += self.0[done..].iter().take_while(|vector| vector.iov_len == 0).count();
            let left = &mut self.0[done..];
            if left.is_empty() {
                return Ok(());
            }
            let (first, count) = (left.as_ptr(), left.len() as libc::c_int);
            // SAFETY: the vectors are a list of this length, and nobody changes their bytes, because
            // they are lent.
            let wrote =
                unsafe { libc::pwritev(file.as_raw_fd(), first, count, offset as libc::off_t) };
            let mut wrote = match moved(wrote) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(wrote) => wrote,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            offset += wrote;
            for vector in left.iter_mut() {
                let part = wrote.min(vector.iov_len as u64) as usize;
                vector.iov_base = vector.iov_base.cast::<u8>().wrapping_add(part).cast();
                vector.iov_len -= part;
                wrote -= part as u64;
            }
        }
    }
}

/// Converts the result of a system call.
fn moved(result: libc::ssize_t) -> io::Result<u64> {
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use forebay_core::{Flags, Nanos, Op, Piece, Request, Slots};

    use super::*;

    #[test]
    fn bytes_of_several_pieces_are_written_and_read() {
        let mut file = tempfile::tempfile().unwrap();
        let mut pool = Pool::new(0);
        let sink = pool.sink(4096);
        let buf = pool.take(4096);
        let pieces = [(100, 7), (0, 0), (50, 30), (4000, 96)];
        let pieces = pieces.map(|(at, len)| Piece { buf, at, len });
        let len = pieces.iter().map(|piece| piece.len).sum();
        let io = |op| Request {
            at: Nanos::ZERO,
            offset: 10,
            id: 0,
            len,
            stream: 0,
            lane: 0,
            op,
            flags: Flags::NONE,
        };
        for (nth, piece) in pieces.iter().enumerate() {
            pool.view_mut(*piece).fill(nth as u8 + 1);
        }
        let mut lent = Lent::default();
        let mut transfer = |pool: &mut Pool, file: &mut File, op| {
            lent.lend(&io(op), &pieces, 1, sink, pool).unwrap();
            // SAFETY: the bytes are lent until `settle`, after the last use of the vectors.
            let mut vectors = unsafe { Vectors::of(&lent, pool) };
            match op {
                Op::Read => assert_eq!(vectors.read(file, 10).unwrap(), u64::from(len)),
                _ => vectors.write(file, 10).unwrap(),
            }
            lent.settle(op, sink, pool);
        };
        transfer(&mut pool, &mut file, Op::Write);
        assert_eq!(file.metadata().unwrap().len(), 10 + u64::from(len));
        pool.view_mut(Piece { buf, at: 0, len: 4096 }).fill(0);
        transfer(&mut pool, &mut file, Op::Read);
        for (nth, piece) in pieces.iter().enumerate() {
            assert!(pool.view(*piece).iter().all(|byte| *byte == nth as u8 + 1), "{piece:?}");
        }
        assert_eq!(pool.view(Piece { buf, at: 107, len: 2 }), [0, 0]);
    }
}
