//! Finds the files of a blktrace set. There is one per CPU, `NAME.blktrace.CPU`, each of which may
//! be compressed.
//!
//! A set is specified by its base name, its folder, any one of its files, or a tar of them. The
//! files in a tar are copied to unlinked temporary files, because those of all CPUs must be read at
//! the same time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use crate::open::traces_in;
use crate::{Place, TraceError, unpack};

/// The files of a set: the name of each for messages, and its content.
pub(crate) type Files = Vec<(PathBuf, Box<dyn Read + Send>)>;

/// The number of bytes from which compression or a tar is detected.
const HEAD: usize = 512;

/// Splits the name of a file into the base name and the CPU, such as `sdb` and 3 for
/// `sdb.blktrace.3.zst`.
pub(crate) fn split_name(path: &Path) -> Option<(&str, u32)> {
    let name = path.file_name()?.to_str()?;
    let compressed = [".zst", ".xz", ".gz", ".bz2"].iter().find_map(|end| name.strip_suffix(end));
    let (base, cpu) = compressed.unwrap_or(name).rsplit_once('.')?;
    let base = base.strip_suffix(".blktrace").filter(|base| !base.is_empty())?;
    let digits = !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit());
    Some((base, cpu.parse().ok().filter(|_| digits)?))
}

/// Returns the files of the set named by `path`, in order of CPU.
pub(crate) fn find(path: &Path) -> Result<Files, TraceError> {
    if path.is_file() && split_name(path).is_none() {
        return from_one(path);
    }
    opened(paths(path)?)
}

/// Returns the paths of the files in the set named by `path`, unless that is a tar.
pub(crate) fn paths(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    if path.is_dir() {
        let paths = listed(path)?.into_iter().filter(|path| split_name(path).is_some()).collect();
        return one_set(path, paths);
    }
    if let Some((base, _)) = split_name(path) {
        // If the file does not exist, opening it returns the right error.
        open(path)?;
        return siblings(path, base);
    }
    let base = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let paths = siblings(path, base)?;
    if paths.is_empty() {
        open(path)?;
    }
    Ok(paths)
}

/// Returns the paths of the set `base` in the folder of `path`.
fn siblings(path: &Path, base: &str) -> Result<Vec<PathBuf>, TraceError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut paths = listed(folder.unwrap_or(Path::new(".")))?;
    paths.retain(|path| split_name(path).is_some_and(|(other, _)| other == base));
    one_set(path, paths)
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let failed = |source| TraceError::Io { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    Ok(paths)
}

/// Checks that all paths belong to one set and that no CPU occurs twice, and sorts them by CPU.
fn one_set(named: &Path, mut paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, TraceError> {
    let mut sets: BTreeMap<PathBuf, Vec<u32>> = BTreeMap::new();
    for path in &paths {
        let Some((base, cpu)) = split_name(path) else { continue };
        sets.entry(path.with_file_name(base)).or_default().push(cpu);
    }
    if sets.len() > 1 {
        let names: Vec<_> = sets.keys().map(|set| set.display().to_string()).collect();
        let got = format!("{} sets ({})", names.len(), shortened(&names));
        return Err(not_a_set(named, got, "name one of them"));
    }
    for cpus in sets.values_mut() {
        cpus.sort_unstable();
        if let Some(pair) = cpus.windows(2).find(|pair| pair[0] == pair[1]) {
            let got = format!("two files for CPU {}", pair[0]);
            return Err(not_a_set(named, got, "remove the copy"));
        }
    }
    if sets.is_empty() && named.is_dir() {
        let got = "a folder without files NAME.blktrace.CPU".to_owned();
        let names: Vec<_> = traces_in(named).iter().map(|p| p.display().to_string()).collect();
        let hint = match names.len() {
            0 => "name a file that is a trace".to_owned(),
            _ => format!("name one of the traces in it: {}", shortened(&names)),
        };
        return Err(not_a_set(named, got, &hint));
    }
    paths.sort_by_key(|path| split_name(path).map(|(_, cpu)| cpu));
    Ok(paths)
}

fn shortened(names: &[String]) -> String {
    let first = names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 5 { first + ", …" } else { first }
}

fn not_a_set(path: &Path, got: String, hint: &str) -> TraceError {
    TraceError::Malformed {
        path: path.to_owned(),
        place: Place::File,
        got,
        expected: "the files of one trace, NAME.blktrace.CPU".to_owned(),
        hint: hint.to_owned(),
    }
}

fn open(path: &Path) -> Result<File, TraceError> {
    File::open(path).map_err(|source| TraceError::Io { path: path.to_owned(), source })
}

fn opened(paths: Vec<PathBuf>) -> Result<Files, TraceError> {
    let mut files: Files = Vec::with_capacity(paths.len());
    for path in paths {
        let input = decoded(&path, open(&path)?)?;
        files.push((path, input));
    }
    Ok(files)
}

/// Opens a single file, which is a tar or contains the records of all CPUs (`blktrace -o -`).
fn from_one(path: &Path) -> Result<Files, TraceError> {
    let (head, input) = peeked(path, decoded(path, open(path)?)?)?;
    let input = io::Cursor::new(head.clone()).chain(input);
    if head.get(257..262) == Some(b"ustar") {
        return from_tar(path, Box::new(input));
    }
    Ok(vec![(path.to_owned(), Box::new(input))])
}

/// Returns up to [`HEAD`] bytes from the beginning, and a reader of the whole content.
fn peeked<R: Read>(path: &Path, mut input: R) -> Result<(Vec<u8>, R), TraceError> {
    let mut head = Vec::with_capacity(HEAD);
    let read = input.by_ref().take(HEAD as u64).read_to_end(&mut head);
    read.map_err(|source| TraceError::Io { path: path.to_owned(), source })?;
    Ok((head, input))
}

/// Returns the decompressed content.
fn decoded(path: &Path, file: File) -> Result<Box<dyn Read + Send>, TraceError> {
    let (_, content) = unpack::decoded(path, file)?;
    Ok(Box::new(content))
}

fn from_tar(path: &Path, input: Box<dyn Read + Send>) -> Result<Files, TraceError> {
    let failed = |source| TraceError::Io { path: path.to_owned(), source };
    let mut members: BTreeMap<PathBuf, File> = BTreeMap::new();
    let mut archive = tar::Archive::new(input);
    for entry in archive.entries().map_err(|e| failed(plain(e)))? {
        let mut entry = entry.map_err(|e| failed(plain(e)))?;
        let name = entry.path().map_err(|e| failed(plain(e)))?.into_owned();
        if !entry.header().entry_type().is_file() || split_name(&name).is_none() {
            continue;
        }
        let mut spooled = tempfile::tempfile()
            .map_err(|error| TraceError::no_temporary_file(&error, "the files of the tar"))?;
        let copied = io::copy(&mut entry, &mut spooled).map_err(|e| failed(plain(e)))?;
        if copied < entry.size() {
            let got = format!("a tar that ends within {}", name.display());
            return Err(not_a_set(path, got, "the file is truncated: copy it again"));
        }
        spooled.rewind().map_err(failed)?;
        if members.insert(name.clone(), spooled).is_some() {
            let got = format!("{:?} twice", name);
            return Err(not_a_set(path, got, "create the tar again"));
        }
    }
    // Read the rest after the last member, in order to verify the compressed stream.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|e| failed(plain(e)))?;
    if members.is_empty() {
        return Err(not_a_set(path, "a tar without files NAME.blktrace.CPU".to_owned(), ""));
    }
    let names = one_set(path, members.keys().cloned().collect())?;
    let mut files: Files = Vec::with_capacity(names.len());
    for name in names {
        let Some(spooled) = members.remove(&name) else { continue };
        let shown = path.join(&name);
        let input = decoded(&shown, spooled)?;
        files.push((shown, input));
    }
    Ok(files)
}

/// Removes the tar reader's own words from an error that only wraps another error, and also control
/// characters from a damaged tar file.
fn plain(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|e| e.source()).map(ToString::to_string);
    let shown = cause.unwrap_or_else(|| error.to_string());
    let shown = shown.chars().filter(|c| !c.is_control()).take(120).collect::<String>();
    io::Error::new(error.kind(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_tar_is_told_on_one_short_line() {
        let mut header = vec![0u8; 512];
        header[..4].copy_from_slice(b"name");
        header[148..156].copy_from_slice(b"12\n \x1b xy");
        let error = from_tar(Path::new("t.tar"), Box::new(io::Cursor::new(header))).err().unwrap();
        assert!(!error.to_string().contains(char::is_control), "{error}");
    }

    #[test]
    fn names_tell_base_and_cpu() {
        let split = |name| split_name(Path::new(name)).map(|(base, cpu)| (base.to_owned(), cpu));
        assert_eq!(split("a/sdb.blktrace.12"), Some(("sdb".to_owned(), 12)));
        assert_eq!(split("my.disk.blktrace.0.zst"), Some(("my.disk".to_owned(), 0)));
        for other in ["sdb.blktrace", "sdb.blktrace.x", ".blktrace.1", "sdb.blktrace.+1", "sdb.1"] {
            assert_eq!(split(other), None, "{other}");
        }
    }

    #[test]
    fn a_set_is_one_trace_with_each_cpu_once() {
        let set =
            |names: &[&str]| one_set(Path::new("x"), names.iter().map(PathBuf::from).collect());
        let sorted = set(&["a.blktrace.10", "a.blktrace.9"]).unwrap();
        assert_eq!(sorted, [PathBuf::from("a.blktrace.9"), PathBuf::from("a.blktrace.10")]);
        let two = set(&["a.blktrace.0", "b.blktrace.1"]).unwrap_err().to_string();
        assert!(two.contains("2 sets (a, b)"), "{two}");
        let twice = set(&["a.blktrace.0", "a.blktrace.0.gz"]).unwrap_err().to_string();
        assert!(twice.contains("two files for CPU 0"), "{twice}");
    }
}
