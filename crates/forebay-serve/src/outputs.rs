//! Files that a server writes beside its disks: none takes the place of what the configuration names.

use std::path::{Path, PathBuf};

use crate::config::{Back, Blocks, Config, On};
use crate::error::{Error, unfit};

/// Refuses traces and tapes that would replace a disk, a drive, each other, or the trace that a disk is rearranged by, and
/// tapes of what has none.
pub(crate) fn refuse(config: &Config) -> Result<(), Error> {
    let mut taken: Vec<(PathBuf, String)> = Vec::new();
    for back in &config.backs {
        let disks =
            back.on.paths().map(|path| (place(path), format!("the disk of '{}'", back.name)));
        taken.extend(disks);
        if let Blocks::Learnt(trace) = &back.blocks {
            taken.push((place(trace), format!("what '{}' is rearranged by", back.name)));
        }
    }
    for back in &config.backs {
        if back.tape.is_some()
            && (matches!(back.on, On::Volume(_)) || back.blocks != Blocks::InPlace)
        {
            return Err(unfit(format!(
                "'{}': tape: got a volume or a rearranged disk, expected a disk whose blocks are in place",
                back.name
            )));
        }
        for (key, path) in written(back) {
            let at = place(path);
            if let Some((_, what)) = taken.iter().find(|(other, _)| at.starts_with(other)) {
                return Err(unfit(format!(
                    "'{}': {key}: got {}, which is {what}, expected a file of its own",
                    back.name,
                    path.display()
                )));
            }
            taken.push((at, format!("the {key} of '{}'", back.name)));
        }
    }
    Ok(())
}

/// What it writes, by the keys that say so.
fn written(back: &Back) -> impl Iterator<Item = (&'static str, &Path)> {
    let Back { trace, trace_issued, tape, .. } = back;
    let all = [("trace", trace), ("trace_issued", trace_issued), ("tape", tape)];
    all.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?)))
}

/// A file by the folder it is really in, whether it is there yet or not.
fn place(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    #[test]
    fn nothing_that_is_named_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("disk"), "").unwrap();
        std::fs::create_dir(at("drives")).unwrap();
        let refused = |change: &dyn Fn(&mut Back)| {
            let mut back =
                Back::of("one", On::Target { path: at("disk"), flash: Some(at("flash")) });
            change(&mut back);
            let other = Back::of("other", On::Volume(vec![at("drives")]));
            let listen = vec![Address::Unix(at("socket"))];
            let told = refuse(&Config { listen, metrics: None, backs: vec![back, other] });
            told.err().map(|error| error.to_string())
        };
        assert_eq!(refused(&|back| back.trace = Some(at("trace"))), None);
        for (change, why) in [
            (
                &(|back: &mut Back| back.tape = Some(at("flash"))) as &dyn Fn(&mut Back),
                "disk of 'one'",
            ),
            (&|back| back.trace = Some(at("drives/../disk")), "trace: got"),
            (&|back| back.trace = Some(at("drives/1")), "disk of 'other'"),
            (
                &|back| (back.trace, back.trace_issued) = (Some(at("x")), Some(at("x"))),
                "the trace of",
            ),
            (
                &|back| {
                    (back.trace, back.blocks) = (Some(at("x")), Blocks::Learnt(at("x")));
                },
                "rearranged by",
            ),
            (
                &|back| (back.tape, back.blocks) = (Some(at("x")), Blocks::Rearranged),
                "tape: got a volume or a rearranged disk",
            ),
        ] {
            let said = refused(change);
            assert!(said.as_ref().is_some_and(|said| said.contains(why)), "{why}: {said:?}");
        }
    }
}
