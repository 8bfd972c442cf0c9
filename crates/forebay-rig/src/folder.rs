//! Folders and files that represent disks.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Makes a file of holes at `path`: an empty drive.
pub fn holes(path: impl AsRef<Path>, bytes: u64) {
    File::create(path).unwrap().set_len(bytes).unwrap();
}

/// A folder for one test's files, deleted with them.
pub struct Folder(tempfile::TempDir);

impl Default for Folder {
    fn default() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }
}

impl Folder {
    /// Creates a new one.
    pub fn new() -> Folder {
        Folder::default()
    }

    /// Returns its own path.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// Makes a file of holes.
    pub fn holes(&self, name: &str, bytes: u64) -> PathBuf {
        holes(self.path(name), bytes);
        self.path(name)
    }

    /// Makes files of holes whose names are `name` and a number from 1 on.
    pub fn drives(&self, name: &str, count: usize, bytes: u64) -> Vec<PathBuf> {
        (1..=count).map(|nth| self.holes(&format!("{name}{nth}"), bytes)).collect()
    }

    /// Returns where a server of this folder's files listens.
    pub fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    /// Returns the contents of a file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }
}
