//! Parses fio's latency logs with offsets: `time_ms, value_ns, direction, bytes, offset[,
//! priority]`.

use std::path::Path;

use super::FitError;

/// A read in a latency log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The offset of the first byte.
    pub offset: u64,
    /// The length in bytes.
    pub len: u32,
    /// The time from submission to completion, in ns.
    pub latency_ns: f64,
}

/// Parses `text`, the content of the log at `path`. Returns the reads and the number of lines for
/// other operations.
pub fn parse(path: &Path, text: &[u8]) -> Result<(Vec<Sample>, u64), FitError> {
    let (mut samples, mut skipped) = (Vec::new(), 0);
    for (index, line) in String::from_utf8_lossy(text).lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match sample(line) {
            Ok(Some(sample)) => samples.push(sample),
            Ok(None) => skipped += 1,
            Err(expected) => {
                return Err(FitError::Malformed {
                    path: path.to_path_buf(),
                    line: index + 1,
                    got: line.chars().take(60).collect(),
                    expected,
                });
            }
        }
    }
    Ok((samples, skipped))
}

/// Parses a line. Returns `None` if it describes another operation than a read.
fn sample(line: &str) -> Result<Option<Sample>, &'static str> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    if fields.len() < 5 {
        return Err("time_ms, latency_ns, direction, bytes, offset");
    }
    let latency_ns = number(1).ok_or("a latency in ns in the second column")?;
    let direction = number(2).ok_or("0, 1 or 2 (read, write, trim) in the third column")?;
    let len = number(3).and_then(|len| u32::try_from(len).ok()).filter(|len| *len > 0);
    let len = len.ok_or("1 to 4294967295 bytes in the fourth column")?;
    let offset = number(4).filter(|offset| *offset < 1 << 62);
    let offset = offset.ok_or("an offset in bytes, below 2^62, in the fifth column")?;
    Ok((direction == 0).then_some(Sample { offset, len, latency_ns: latency_ns as f64 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_priority() {
        let read = Sample { offset: 8192, len: 4096, latency_ns: 123_456.0 };
        assert_eq!(sample("17, 123456, 0, 4096, 8192"), Ok(Some(read)));
        assert_eq!(sample("17, 123456, 0, 4096, 8192, 0"), Ok(Some(read)));
        assert_eq!(sample("17, 123456, 1, 4096, 8192, 0"), Ok(None));
    }

    #[test]
    fn other_lines_say_what_is_missing() {
        assert!(sample("17, 123456, 0, 4096").unwrap_err().contains("offset"));
        assert!(sample("17, x, 0, 4096, 0").unwrap_err().contains("latency"));
        assert!(sample("17, 1, 0, 0, 0").unwrap_err().contains("bytes"));
        assert!(sample("17, 1, 0, 9, -1").unwrap_err().contains("offset"));
    }
}
