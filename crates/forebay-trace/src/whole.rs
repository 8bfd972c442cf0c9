//! Reads whole files of a limited size. Pipes and devices are rejected, because they may never
//! begin or never end.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The maximum size of text files written by people, such as devices and promises.
pub const WRITTEN_MAX: u64 = 1 << 20;

/// Reads `path`, which must be a file of at most `bytes_max` bytes. Messages say that `what` is
/// expected.
///
/// # Errors
/// Fails if the path cannot be opened or read, is not a file, or is too long.
pub fn read(path: &Path, bytes_max: u64, what: &str) -> Result<Vec<u8>> {
    let refused = |got: &str| {
        Err(Error::new(ErrorKind::InvalidInput, format!("got {got}, expected {what}, a file")))
    };
    // Check this before opening the file, because opening a pipe waits for its writer.
    let found = std::fs::metadata(path)?;
    if found.is_dir() {
        return refused("a folder");
    }
    if !found.is_file() {
        return refused("a pipe or a device");
    }
    let mut content = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut content)?;
    within(content, bytes_max, what)
}

/// Reads a file as text.
///
/// # Errors
/// Fails like [`read`], or if the content is not text.
pub fn read_text(path: &Path, bytes_max: u64, what: &str) -> Result<String> {
    String::from_utf8(read(path, bytes_max, what)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let got = format!("byte {at}: got bytes that are not UTF-8, expected {what}, a text file");
        Error::new(ErrorKind::InvalidData, got)
    })
}

/// Checks the size of content that was read.
///
/// # Errors
/// Fails if the content is longer than `bytes_max`.
pub fn within(content: Vec<u8>, bytes_max: u64, what: &str) -> Result<Vec<u8>> {
    if content.len() as u64 <= bytes_max {
        return Ok(content);
    }
    let got = format!("got more than {} KiB, expected {what}, which is shorter", bytes_max >> 10);
    Err(Error::new(ErrorKind::InvalidInput, got))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_input_is_rejected_and_small_input_read() {
        let folder = std::env::temp_dir().join(format!("forebay-whole-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        std::fs::write(&path, vec![b'x'; 2048]).unwrap();
        let told = |path: &Path, max| read_text(path, max, "a thing").map_err(|e| e.to_string());
        assert_eq!(told(&path, 2048).map(|text| text.len()), Ok(2048));
        let long = "got more than 1 KiB, expected a thing, which is shorter";
        assert_eq!(told(&path, 1024), Err(long.into()));
        std::fs::write(&path, b"ab\xff").unwrap();
        assert!(told(&path, 9).unwrap_err().starts_with("byte 2: got bytes that are not UTF-8"));
        let folders = told(&folder, 9).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(folders, "got a folder, expected a thing, a file");
        let zeros = told(Path::new("/dev/zero"), 9).unwrap_err();
        assert_eq!(zeros, "got a pipe or a device, expected a thing, a file");
    }
}
