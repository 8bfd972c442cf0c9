//! Folders and files that represent disks.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Creates a sparse file at `path`, which represents an empty drive.
pub fn holes(path: impl AsRef<Path>, bytes: u64) {
    File::create(path).unwrap().set_len(bytes).unwrap();
}

/// A temporary folder for a test's files, deleted on drop.
pub struct Folder(tempfile::TempDir);

impl Default for Folder {
    fn default() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }
}

impl Folder {
    /// Creates a new folder.
    pub fn new() -> Folder {
        Folder::default()
    }

    /// Returns the path of the folder.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// Creates a sparse file in the folder.
    pub fn holes(&self, name: &str, bytes: u64) -> PathBuf {
        holes(self.path(name), bytes);
        self.path(name)
    }

    /// Creates sparse files, each named `name` with a number from 1 on.
    pub fn drives(&self, name: &str, count: usize, bytes: u64) -> Vec<PathBuf> {
        (1..=count).map(|nth| self.holes(&format!("{name}{nth}"), bytes)).collect()
    }

    /// Returns the path of the socket for a server of the folder's files.
    pub fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    /// Returns the contents of a file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }
}
