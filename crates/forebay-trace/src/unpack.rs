//! Reads compressed files, which are recognized by their first bytes and never by their names.
//!
//! A stream that ends early or is damaged is an error, and never the end of the trace. Files that
//! consist of several compressed members are read to the end of the last one.

mod gzip;
mod utf16;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Place, TraceError};

/// The number of bytes that are read from the file, or decompressed, at a time.
const CHUNK_BYTES: usize = 1 << 18;

/// The length of the longest signature.
const MAGIC_BYTES_MAX: u64 = 6;

/// The number of uncompressed bytes from which formats are detected.
pub const HEAD_BYTES: usize = 1 << 16;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Uncompressed.
    Plain,
    /// gzip.
    Gzip,
    /// xz.
    Xz,
    /// bzip2.
    Bzip2,
    /// Zstandard.
    Zstd,
}

impl Packing {
    /// Detects the compression of a file that begins with `head`.
    pub fn of(head: &[u8]) -> Packing {
        match head {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Packing::Bzip2,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            // The magic number of a skippable frame, which may precede the data.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
            _ => Packing::Plain,
        }
    }

    /// Detects the compression of a file that ends within the signature.
    fn begun(content: &[u8]) -> Option<Packing> {
        let signatures: [(&[u8], Packing); 4] = [
            (&[0x1f, 0x8b, 8], Packing::Gzip),
            (b"\xfd7zXZ\0", Packing::Xz),
            (b"BZh9", Packing::Bzip2),
            (&[0x28, 0xb5, 0x2f, 0xfd], Packing::Zstd),
        ];
        let cut = |signature: &[u8]| {
            (2..signature.len()).contains(&content.len()) && signature.starts_with(content)
        };
        signatures.into_iter().find(|(signature, _)| cut(signature)).map(|(_, packing)| packing)
    }

    /// Returns the name of the compression for messages.
    fn name(self) -> &'static str {
        match self {
            Packing::Plain => "file",
            Packing::Gzip => "gzip stream",
            Packing::Xz => "xz stream",
            Packing::Bzip2 => "bzip2 stream",
            Packing::Zstd => "zstd stream",
        }
    }
}

/// The uncompressed content of a file.
pub struct Unpacked {
    /// How the file is compressed.
    pub packing: Packing,
    /// The first [`HEAD_BYTES`] of the content, or all of it if it is shorter.
    pub head: Vec<u8>,
    /// The whole content, including `head`.
    pub content: Box<dyn BufRead + Send>,
}

/// The number of bytes read so far from a file, as stored on disk. Used for progress reports.
pub type Consumed = Arc<AtomicU64>;

/// A file that counts the bytes that are read from it.
struct Counted {
    file: File,
    consumed: Consumed,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.consumed.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Opens a file, which is decompressed while it is read.
pub fn unpack(path: &Path) -> Result<Unpacked, TraceError> {
    unpack_counting(path, Consumed::default())
}

/// Opens a file like [`unpack`], and adds the bytes read to `consumed`.
pub fn unpack_counting(path: &Path, consumed: Consumed) -> Result<Unpacked, TraceError> {
    let fail = |source| TraceError::Io { path: path.to_path_buf(), source };
    let file = File::open(path).map_err(fail)?;
    let (packing, body) = decoded(path, Counted { file, consumed })?;
    let mut body = utf16::as_utf8(body).map_err(fail)?;
    let mut head = Vec::with_capacity(HEAD_BYTES);
    body.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(fail)?;
    let rest = BufReader::with_capacity(CHUNK_BYTES, body);
    let content = Box::new(Cursor::new(head.clone()).chain(rest));
    Ok(Unpacked { packing, head, content })
}

/// Decompresses `raw`, the content of the file at `path`.
pub(crate) fn decoded(
    path: &Path,
    mut raw: impl Read + Send + 'static,
) -> Result<(Packing, impl Read + Send + 'static), TraceError> {
    let fail = |source| TraceError::Io { path: path.to_path_buf(), source };
    let mut magic = Vec::new();
    raw.by_ref().take(MAGIC_BYTES_MAX).read_to_end(&mut magic).map_err(fail)?;
    if let Some(packing) = Packing::begun(&magic) {
        return Err(TraceError::Malformed {
            path: path.to_path_buf(),
            place: Place::File,
            got: format!(
                "only {} bytes, which look like the beginning of a {}",
                magic.len(),
                packing.name()
            ),
            expected: "the rest of it".into(),
            hint: "the file is truncated: copy it again".into(),
        });
    }
    let packing = Packing::of(&magic);
    let inner = decoder(packing, Cursor::new(magic).chain(raw)).map_err(fail)?;
    Ok((packing, Checked { packing, inner }))
}

fn decoder(packing: Packing, raw: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let raw = BufReader::with_capacity(CHUNK_BYTES, raw);
    Ok(match packing {
        Packing::Plain => Box::new(raw),
        Packing::Gzip => Box::new(gzip::Members::new(raw)),
        Packing::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(raw)),
        Packing::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(raw)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(raw)?),
    })
}

/// Replaces the decoder's error messages by our own.
struct Checked {
    packing: Packing,
    inner: Box<dyn Read + Send>,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| {
            let told = error.get_ref().is_some_and(|error| error.is::<gzip::Trailing>());
            if self.packing == Packing::Plain || told || error.kind() == io::ErrorKind::Interrupted
            {
                return error;
            }
            let name = self.packing.name();
            let message = if error.kind() == io::ErrorKind::UnexpectedEof {
                format!("the {name} is truncated: copy the file again")
            } else {
                format!("the {name} is damaged ({error}): copy the file again")
            };
            io::Error::new(error.kind(), message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn pack(packing: Packing, data: &[u8]) -> Vec<u8> {
        match packing {
            Packing::Plain => data.to_vec(),
            Packing::Gzip => {
                let mut e = flate2::write::GzEncoder::new(Vec::new(), Default::default());
                e.write_all(data).unwrap();
                e.finish().unwrap()
            }
            Packing::Xz => {
                let mut e = liblzma::write::XzEncoder::new(Vec::new(), 1);
                e.write_all(data).unwrap();
                e.finish().unwrap()
            }
            Packing::Bzip2 => {
                let mut e = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                e.write_all(data).unwrap();
                e.finish().unwrap()
            }
            Packing::Zstd => zstd::encode_all(data, 1).unwrap(),
        }
    }

    const PACKED: [Packing; 4] = [Packing::Gzip, Packing::Xz, Packing::Bzip2, Packing::Zstd];

    fn read(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let folder = tempfile::tempdir().unwrap();
        // The name intentionally has no extension.
        let path = folder.path().join("trace");
        std::fs::write(&path, bytes).unwrap();
        let mut unpacked = unpack(&path).map_err(|e| e.to_string())?;
        let mut out = Vec::new();
        unpacked.content.read_to_end(&mut out).map_err(|e| e.to_string())?;
        Ok(out)
    }

    /// Returns varied content that is longer than [`HEAD_BYTES`].
    fn sample() -> Vec<u8> {
        (0..40_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
    }

    #[test]
    fn every_packing_and_several_members_are_read() {
        assert_eq!(read(&sample()).unwrap(), sample());
        for packing in PACKED {
            let mut twice = pack(packing, &sample());
            twice.extend(pack(packing, b"end"));
            let mut expected = sample();
            expected.extend(b"end");
            assert!(read(&twice).unwrap() == expected, "{packing:?}");
        }
    }

    #[test]
    fn all_of_a_file_is_counted_as_it_lies_there() {
        for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
            let packed = pack(packing, &sample());
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace");
            std::fs::write(&path, &packed).unwrap();
            let consumed = Consumed::default();
            let mut unpacked = unpack_counting(&path, Arc::clone(&consumed)).unwrap();
            unpacked.content.read_to_end(&mut Vec::new()).unwrap();
            assert_eq!(consumed.load(Ordering::Relaxed), packed.len() as u64, "{packing:?}");
        }
    }

    #[test]
    fn a_cut_stream_is_an_error() {
        for packing in PACKED {
            let whole = pack(packing, &sample());
            for cut in [3, 7, whole.len() / 2, whole.len() - 1] {
                let message = read(&whole[..cut]).unwrap_err();
                assert!(message.contains("is truncated"), "{packing:?} at {cut}: {message}");
                assert!(message.contains("again"), "{packing:?} at {cut}: {message}");
            }
        }
    }

    #[test]
    fn what_follows_a_gzip_stream_is_distinguished_from_a_cut() {
        let mut bytes = pack(Packing::Gzip, &sample());
        let end = bytes.len();
        bytes.extend(b"junk");
        let message = read(&bytes).unwrap_err();
        assert!(message.contains(&format!("byte {end}")) && !message.contains("cut"), "{message}");
        bytes.truncate(end);
        bytes.extend([0; 1000]);
        assert!(read(&bytes).unwrap() == sample(), "padding of a tape");
    }
}
