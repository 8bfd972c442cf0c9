//! The file format of models: a header line, a checksum of the rest, and the compressed content.
//!
//! The checksum and the bounds of every number are checked on reading, so that generating requests
//! from a model cannot fail.

use std::io::Read;
use std::path::Path;

use forebay_trace::TraceError;
use forebay_trace::error::Place;

use crate::Model;
use crate::bytes::ByteError;
use crate::space::Form;

/// The header of a model.
const HEAD: &[u8] = b"forebay model 5\n";
/// The header of the previous format, which can also be read. That format stores volumes without
/// their gaps.
const HEAD_4: &[u8] = b"forebay model 4\n";
/// What the headers of all versions start with.
const ANY_HEAD: &[u8] = b"forebay model ";
/// Text near the beginning of models that are older than this format.
const OLD_KEY: &[u8] = b"\"forebay_model\"";
/// The maximum size of a file in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
const CONTENT_BYTES_MAX: u64 = 64 << 20;
const SUM_BYTES: usize = 4;
const REMEDY: &str = "copy the file again, or fit the trace again";

/// The kind of a file, judged by its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFileKind {
    /// A model, of any version.
    Model,
    /// A model of an earlier Forebay, in a format without a header.
    Old,
    /// Something else.
    Other,
}

/// Returns the kind of a file from its first bytes.
pub fn file_kind(head: &[u8]) -> ModelFileKind {
    if head.starts_with(ANY_HEAD) {
        return ModelFileKind::Model;
    }
    let is_object = head.trim_ascii_start().starts_with(b"{");
    match is_object && head.windows(OLD_KEY.len()).any(|part| part == OLD_KEY) {
        true => ModelFileKind::Old,
        false => ModelFileKind::Other,
    }
}

impl Model {
    /// Returns the file of the model.
    pub fn to_file(&self) -> Vec<u8> {
        // Compression into memory cannot fail.
        let packed = zstd::bulk::compress(&self.bytes(), 19).unwrap_or_default();
        [HEAD, &crc32fast::hash(&packed).to_le_bytes(), &packed].concat()
    }

    /// Reads a model from a file. Error messages call it `path`.
    ///
    /// # Errors
    /// Fails if the file is damaged, is not a model, or is a model that no trace could have
    /// produced.
    pub fn from_file(path: &Path, file: &[u8]) -> Result<Model, TraceError> {
        if file_kind(file) == ModelFileKind::Old {
            let hint = "fit the trace again: earlier models were effectively copies of the trace";
            return Err(malformed(
                path,
                Place::File,
                "a model of an earlier Forebay",
                "one of this",
                hint,
            ));
        }
        let current = file.strip_prefix(HEAD).map(|rest| (rest, Form::Current));
        let before = || file.strip_prefix(HEAD_4).map(|rest| (rest, Form::WithoutGaps));
        let Some((rest, form)) = current.or_else(before) else {
            return Err(not_a_model(path, file));
        };
        if rest.len() < SUM_BYTES {
            return Err(malformed(path, Place::Byte(file.len() as u64), "the end", "more", REMEDY));
        }
        let (sum, packed) = rest.split_at(SUM_BYTES);
        let found = crc32fast::hash(packed).to_le_bytes();
        if sum != found {
            let got = format!("the sum {:08x}", u32::from_le_bytes(found));
            let sum = sum.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
            let at = Place::Byte(HEAD.len() as u64);
            return Err(malformed(
                path,
                at,
                &got,
                &format!("{sum}, the checksum in the file"),
                REMEDY,
            ));
        }
        Model::from_packed(path, packed, form)
    }

    /// Reads a model from compressed content, which follows the checksum in a file.
    fn from_packed(path: &Path, packed: &[u8], form: Form) -> Result<Model, TraceError> {
        let at = Place::Byte((HEAD.len() + SUM_BYTES) as u64);
        let mut content = Vec::new();
        let unpacked = zstd::stream::Decoder::new(packed)
            .and_then(|decoder| decoder.take(CONTENT_BYTES_MAX + 1).read_to_end(&mut content));
        if let Err(error) = unpacked {
            return Err(malformed(path, at, &error.to_string(), "content packed by zstd", REMEDY));
        }
        if content.len() as u64 > CONTENT_BYTES_MAX {
            let got = format!("more than {} MiB of content", CONTENT_BYTES_MAX >> 20);
            return Err(malformed(path, at, &got, "the few hundred KiB of a model", REMEDY));
        }
        Model::read(path, &content, form)
    }

    /// Reads a model from its content.
    ///
    /// # Errors
    /// Fails if the content is not a model that a trace could have produced.
    pub fn from_content(path: &Path, content: &[u8]) -> Result<Model, TraceError> {
        Model::read(path, content, Form::Current)
    }

    fn read(path: &Path, content: &[u8], form: Form) -> Result<Model, TraceError> {
        Model::of(content, form).map_err(|ByteError { byte, got, expected }| {
            let got = format!("{got} at byte {byte} of its content");
            malformed(path, Place::File, &got, &expected, REMEDY)
        })
    }

    /// Returns the content in the form that [`Model::from_content`] reads.
    pub fn content(&self) -> Vec<u8> {
        self.bytes()
    }
}

fn not_a_model(path: &Path, file: &[u8]) -> TraceError {
    let expected = "a model, as forebay fit TRACE -o MODEL writes it";
    if let Some(version) = file.strip_prefix(ANY_HEAD) {
        let version: String = version
            .iter()
            .take(8)
            .take_while(|byte| byte.is_ascii_graphic())
            .map(|&byte| char::from(byte))
            .collect();
        let got = format!("a model of form {version}");
        return malformed(
            path,
            Place::File,
            &got,
            "form 4 or 5, which this Forebay reads",
            "fit the trace again",
        );
    }
    let got = if file.is_empty() { "an empty file" } else { "something else" };
    malformed(path, Place::File, got, expected, "")
}

fn malformed(path: &Path, place: Place, got: &str, expected: &str, hint: &str) -> TraceError {
    let got = got.split_whitespace().collect::<Vec<_>>().join(" ");
    let (path, expected, hint) = (path.to_path_buf(), expected.into(), hint.into());
    TraceError::Malformed { path, place, got, expected, hint }
}
