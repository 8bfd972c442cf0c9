//! Distinguishes repeated rows of one drive from rows of several drives whose names do not say
//! which drive they are on, such as files on mounted file systems.

use std::path::{Path, PathBuf};

use super::drives;

/// Where a row was measured: the target in its options, and the file with the results.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Origin {
    target: Option<String>,
    results: PathBuf,
}

impl Origin {
    pub(super) fn of(target: Option<&str>, results: &Path) -> Origin {
        Origin { target: target.map(str::to_string), results: results.to_path_buf() }
    }

    /// Returns whether two rows may be of one drive: both targets are on a drive with a known name
    /// (drives with different names were refused before), or are in one folder. Without targets,
    /// the results must be in one folder. Sibling folders belong to different drives.
    pub(super) fn is_same(&self, other: &Origin) -> bool {
        let in_one_folder = |one: &Path, other: &Path| {
            let folders = one.parent().zip(other.parent());
            folders.is_some_and(|(one, other)| one.starts_with(other) || other.starts_with(one))
        };
        match (&self.target, &other.target) {
            (Some(one), Some(other)) => {
                let is_named = drives::is_named(one) && drives::is_named(other);
                is_named || one == other || in_one_folder(Path::new(one), Path::new(other))
            }
            _ => in_one_folder(&self.results, &other.results),
        }
    }

    /// Returns names by which a reader can tell two origins apart.
    pub(super) fn distinct_names(&self, other: &Origin) -> [String; 2] {
        match (&self.target, &other.target) {
            (Some(one), Some(other)) => [one.clone(), other.clone()],
            _ => [self, other].map(|origin| origin.results.display().to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_other_folders_are_of_another_drive() {
        let of = |target: &str, results: &str| {
            Origin::of(Some(target).filter(|target| !target.is_empty()), Path::new(results))
        };
        for (one, other, is_same) in [
            (("", "r/1.json"), ("", "r/2.json"), true),
            (("", "r/1.json"), ("", "r/more/2.json"), true),
            (("", "a/1.json"), ("", "b/1.json"), false),
            (("/dev/sda", "a/1.json"), ("/dev/sda", "b/1.json"), true),
            (("/mnt/a/test", "r/1.json"), ("/mnt/a/test", "s/1.json"), true),
            (("/mnt/a/test", "r/1.json"), ("/mnt/a/again", "r/1.json"), true),
            (("/mnt/a/test", "r/1.json"), ("/mnt/b/test", "r/1.json"), false),
            (("/dev/mapper/a", "r/1.json"), ("/dev/mapper/a", "r/2.json"), true),
        ] {
            let (one, other) = (of(one.0, one.1), of(other.0, other.1));
            assert_eq!(one.is_same(&other), is_same, "{one:?} {other:?}");
        }
        let [one, other] = of("", "a/1.json").distinct_names(&of("/mnt/x", "b/1.json"));
        assert_eq!((&*one, &*other), ("a/1.json", "b/1.json"));
    }
}
