//! Checks the labels of a volume's drives. Drives are only read, and not locked, so that a volume
//! can be checked while it is served.

use std::path::{Path, PathBuf};

use forebay_core::stack::array::Label;
use forebay_volume::{drives_in, label};
use forebay_words::plural::{counted, verb};

use crate::error::{Error, unfit};

/// A path with the label found there, or why there is none.
struct Labelled(PathBuf, Result<Label, String>);

/// Checks the labels of the volume `name` on these drives. Returns remarks on problems with which
/// it may still start.
///
/// # Errors
/// The volume cannot start.
pub(crate) fn check(name: &str, drives: &[PathBuf]) -> Result<Vec<String>, Error> {
    let drives: Vec<Labelled> = drives_in(drives)?
        .into_iter()
        .map(|path| {
            let label = label(&path);
            Labelled(path, label)
        })
        .collect();
    let wrong = |what: String| unfit(format!("'{name}': drives: {what}"));
    let Some(of) = largest(&drives) else {
        let first = drives.first().map_or_else(PathBuf::new, |Labelled(path, _)| path.clone());
        return Err(wrong(format!(
            "{} has no label, and neither has any other drive; expected the drives of a volume \
             (`forebay volume create` creates one)",
            first.display()
        )));
    };
    let is_of = |label: &Label| label.geometry.volume == of.geometry.volume;
    let mut members: Vec<(u8, &Path)> = Vec::new();
    let mut remarks = Vec::new();
    for Labelled(path, label) in &drives {
        match label {
            Ok(label) if is_of(label) => {
                let number = label.drive;
                if let Some((_, other)) = members.iter().find(|(known, _)| *known == number) {
                    return Err(wrong(format!(
                        "{} and {} are both drive {number} of the volume, so one is a copy; leave one \
                         out",
                        other.display(),
                        path.display()
                    )));
                }
                members.push((number, path));
            }
            Ok(label) => remarks.push(format!(
                "{} is a drive of another volume, {:016x}, and is not used",
                path.display(),
                label.geometry.volume
            )),
            Err(why) => remarks.push(format!("{} will not be used: it {why}", path.display())),
        }
    }
    remarks.extend(missing(&of, members.len()));
    let volume = of.geometry.volume;
    Ok(remarks
        .into_iter()
        .map(|what| format!("'{name}': warning: volume {volume:016x}: {what}"))
        .collect())
}

/// Describes the drives that are missing, if any. Each label contains the number of drives with
/// which the volume was created.
fn missing(of: &Label, present: usize) -> Option<String> {
    let created = usize::from(of.geometry.lanes);
    let gone = created.checked_sub(present).filter(|gone| *gone > 0)? as u64;
    let drives = counted(gone, "drive");
    let of_all = format!(
        "{drives} of {created} {} missing, unless {} removed from it",
        verb(gone, "is", "are"),
        verb(gone, "it was", "they were")
    );
    Some(match gone as usize > of.first.tolerates() {
        true => format!(
            "{of_all}; if so, it cannot start, because its level tolerates only {}",
            of.first.tolerates()
        ),
        false => format!("{of_all}; it starts degraded"),
    })
}

/// Returns a label of the volume with the most drives; the first one if several have as many.
fn largest(drives: &[Labelled]) -> Option<Label> {
    let labels = || drives.iter().filter_map(|Labelled(_, label)| label.as_ref().ok().copied());
    let count =
        |of: &Label| labels().filter(|label| label.geometry.volume == of.geometry.volume).count();
    labels().rev().max_by_key(count)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use forebay_core::stack::array::Level;
    use forebay_rig::Folder;
    use forebay_volume::{Create, create};

    use super::*;

    fn volume(folder: &Folder, prefix: &str) -> Vec<PathBuf> {
        let drives = folder.drives(prefix, 6, 32 << 20);
        create(&drives, Create::new(Level::RAID6)).unwrap();
        drives
    }

    #[test]
    fn labels_tell_which_drives_are_missing_foreign_or_copies() {
        let folder = Folder::new();
        let (one, other) = (volume(&folder, "a"), volume(&folder, "b"));
        let said = |drives: &[PathBuf]| match check("safe", drives) {
            Ok(remarks) => remarks.join("\n"),
            Err(error) => format!("refused: {error}"),
        };
        assert_eq!(said(&one), "");
        let five = said(&one[1..]);
        assert!(
            five.contains("1 drive of 6 is missing") && five.contains("starts degraded"),
            "{five}"
        );
        let three = said(&one[3..]);
        assert!(three.contains("3 drives of 6 are missing") && three.contains("cannot start"));
        let mixed = said(&[&one[..5], &other[..1]].concat());
        assert!(mixed.contains("is a drive of another volume") && mixed.contains("1 drive of 6"));
        // One intact label is enough, whether at the end or in the second block.
        let blank = |path: &Path, bytes: usize| {
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(&vec![0; bytes], 0).unwrap();
        };
        blank(&one[0], 4096);
        assert_eq!(said(&one), "");
        let copy = one[0].with_extension("copy");
        fs::copy(&one[0], &copy).unwrap();
        let twice = said(&[&one[..], &[copy]].concat());
        assert!(twice.starts_with("refused: ") && twice.contains("so one is a copy"), "{twice}");
        let empty = folder.drives("c", 2, 32 << 20);
        let none = said(&empty);
        assert!(
            none.starts_with("refused: ") && none.contains("has no label, and neither has"),
            "{none}"
        );
        let unlabelled = said(&[&one[..5], &empty[..1]].concat());
        assert!(unlabelled.contains("will not be used: it has no Forebay label"), "{unlabelled}");
    }

    #[test]
    fn a_volume_that_is_served_can_be_checked() {
        let folder = Folder::new();
        let drives = volume(&folder, "a");
        let _locked = forebay_volume::find(&drives, true).unwrap();
        assert!(check("safe", &drives).unwrap().is_empty());
    }
}
