//! Imports DiskSim drives from a `.diskspecs` file and the `.model`, `.seek` and `.parv` files next
//! to it.
//!
//! `libparam` parses the text. Parameters have the names used in the DiskSim 4.0 manual
//! (CMU-PDL-08-101, sections 3.2 and 3.3). Parameters that are not modeled are listed with their
//! lines. The `.parv` file describes a whole experiment; only its bus times are used.

mod controller;
mod layout;
mod libparam;
mod model;
mod params;
mod seek_file;

use std::cell::RefCell;
use std::io::Read;
use std::path::{Path, PathBuf};

use forebay_core::device::drive::{Controller, DriveSpec};
use forebay_trace::whole;
use forebay_trace::write::ProtectedFiles;

use crate::DevicesError;

use layout::Layout;
use libparam::{Block, Entry, LibparamError, Value};
use model::Notes;
use params::Params;

/// The reason why a drive cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file is malformed.
    #[error("{}, line {line}: {what}; correct the file, or check that it is a DiskSim 4 file", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1. For an error in a whole block, the block's first line.
        line: usize,
        /// The invalid text and the expected content.
        what: String,
    },
    /// The drive has a layout that Forebay does not model.
    #[error("{}, line {line}: {what}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The layout in the file and the layouts that are supported.
        what: String,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating-system error.
        source: std::io::Error,
    },
}

/// A drive imported from DiskSim files.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The drive's name in DiskSim.
    pub name: String,
    /// The drive's parameters.
    pub drive: DriveSpec,
    /// Notes about parameters that were ignored or corrected, one line each.
    pub notes: Vec<String>,
    /// The files that were read.
    pub files_read: ProtectedFiles,
}

/// Reads a file that accompanies a drive file, given its name.
pub type SiblingReader<'a> = &'a dyn Fn(&str) -> std::io::Result<String>;

/// Imports the drive described by the `.diskspecs` file at `path` and the files next to it.
pub fn import(path: &Path) -> Result<Imported, ImportError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let fail = |path: PathBuf| |source| ImportError::Io { path, source };
    let asked = RefCell::new(vec![path.to_path_buf()]);
    let read = |path: &Path| {
        asked.borrow_mut().push(path.to_path_buf());
        let bytes = whole::read(path, FILE_BYTES_MAX, WHAT)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read(path).map_err(fail(path.to_path_buf()))?;
    let imported = import_text(path, &text, &|name| {
        let (beside, packed) = (folder.join(name), folder.join(format!("{name}.zst")));
        match read(&beside) {
            Err(_) if packed.is_file() => {
                asked.borrow_mut().push(packed.clone());
                unpacked(&packed)
            }
            other => other,
        }
    })?;
    Ok(Imported { files_read: asked.into_inner().into_iter().collect(), ..imported })
}

fn unpacked(path: &Path) -> std::io::Result<String> {
    let unpacked = forebay_trace::unpack::unpack(path).map_err(std::io::Error::other)?;
    let mut bytes = Vec::new();
    unpacked.content.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let bytes = whole::within(bytes, FILE_BYTES_MAX, WHAT)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The maximum uncompressed size of a file. Layouts of whole disks take about 2 MB.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// The name of this kind of file in messages.
const WHAT: &str = "a drive file of DiskSim";

/// Imports a drive from `text`, the content of the `.diskspecs` file at `path`.
pub fn import_text(
    path: &Path,
    text: &str,
    beside: SiblingReader<'_>,
) -> Result<Imported, ImportError> {
    let malformed = |path: &Path| {
        let path = path.to_path_buf();
        move |(line, what): LibparamError| ImportError::Malformed { path, line, what }
    };
    let blocks = libparam::parse(text).map_err(malformed(path))?;
    let Some(block) = blocks.iter().find(|block| block.kind == "disksim_disk") else {
        let what = "got no drive, expected a block `disksim_disk NAME { ... }`".to_string();
        return Err(malformed(path)((1, what)));
    };
    let disk = Params::new(block);
    let mut said = Vec::new();
    let mut notes = Notes::new();
    let bus = bus_times(path, beside);
    let controller = controller::read(&disk, bus, &mut notes).map_err(malformed(path))?;
    model::list_unknown(&disk, controller::WITHOUT_EFFECT, &mut notes);
    say(path, &mut notes, &mut said);
    let (model_path, model) = model_of(&disk, path, beside)?;
    let curve = |name: &str| {
        seek_file::points(&beside(name).map_err(|error| format!("{name}: {error}"))?, name)
    };
    let layout = layout_block(&model, &model_path, beside)?;
    let (hdd, format, write_seek_less) =
        model::read(&model, &layout, &curve, &mut notes).map_err(malformed(&model_path))?;
    let controller = Controller { write_seek_less, ..controller };
    say(&model_path, &mut notes, &mut said);
    let drive = DriveSpec { disk: hdd, format: Some(format), controller };
    check(&block.name, &drive).map_err(|what| malformed(&model_path)((model.line, what)))?;
    Ok(Imported {
        name: block.name.clone(),
        drive,
        notes: said,
        files_read: ProtectedFiles::default(),
    })
}

fn say(path: &Path, notes: &mut Notes, said: &mut Vec<String>) {
    said.extend(
        notes.drain(..).map(|(line, what)| format!("{}, line {line}: {what}", path.display())),
    );
}

/// Returns the `dm_disk` block, which is either inside the drive's block or in a separate file.
fn model_of(
    disk: &Params<'_>,
    path: &Path,
    beside: SiblingReader<'_>,
) -> Result<(PathBuf, Block), ImportError> {
    let malformed = |line, what| ImportError::Malformed { path: path.to_path_buf(), line, what };
    let (word, line) = match disk.entry("Model") {
        Some(Entry { value: Value::Block(block), .. }) => {
            return Ok((path.to_path_buf(), block.clone()));
        }
        Some(Entry { value: Value::Word(word), line, .. }) => (word.clone(), *line),
        Some(Entry { value, line, .. }) => {
            return Err(malformed(*line, format!("Model: got {value}, expected `source FILE`")));
        }
        None => {
            return Err(malformed(disk.line(), "missing `Model`, expected `source FILE`".into()));
        }
    };
    let name = word.strip_prefix("source").unwrap_or(&word).trim();
    let model_path = path.with_file_name(name);
    let text =
        beside(name).map_err(|source| ImportError::Io { path: model_path.clone(), source })?;
    let wrong = |line, what| ImportError::Malformed { path: model_path.clone(), line, what };
    let blocks = libparam::parse(&text).map_err(|(line, what)| wrong(line, what))?;
    match blocks.into_iter().find(|block| block.kind == "dm_disk") {
        Some(block) => Ok((model_path, block)),
        None => {
            let what = format!("Model: got {name} without a block `dm_disk NAME {{ ... }}`");
            Err(malformed(line, what))
        }
    }
}

/// Returns the layout, which is either inside the `dm_disk` block or in a separate file.
fn layout_block(
    model: &Block,
    path: &Path,
    beside: SiblingReader<'_>,
) -> Result<Layout, ImportError> {
    let key = "Layout Model";
    let malformed = |line, what| ImportError::Malformed { path: path.to_path_buf(), line, what };
    let params = Params::new(model);
    let (block, file, line) = match params.entry(key) {
        Some(Entry { value: Value::Block(block), line, .. }) => (block.clone(), None, *line),
        Some(Entry { value: Value::Word(word), line, .. }) => {
            let name = word.strip_prefix("source").unwrap_or(word).trim();
            let text = beside(name)
                .map_err(|error| malformed(*line, format!("{key}: {name}: {error}")))?;
            let blocks = libparam::parse(&text)
                .map_err(|(at, what)| malformed(*line, format!("{name}, line {at}: {what}")))?;
            let layout = blocks.into_iter().find(|block| block.kind.starts_with("dm_layout"));
            let Some(layout) = layout else {
                let what = format!("{key}: got {name} without a layout, expected a dm_layout_g1");
                return Err(malformed(*line, what));
            };
            (layout, Some(name.to_string()), *line)
        }
        Some(Entry { value, line, .. }) => {
            let what = format!("{key}: got {value}, expected a dm_layout_g1 or `source FILE`");
            return Err(malformed(*line, what));
        }
        None => {
            let what = format!("missing `{key}`, expected a dm_layout_g1 or `source FILE`");
            return Err(malformed(model.line, what));
        }
    };
    if block.kind == "dm_layout_g1" {
        return Ok(Layout { block, file, line });
    }
    let place = file.map_or(String::new(), |file| format!(" in {file}"));
    let kind: String = block.kind.chars().take(60).collect();
    let what = format!(
        "{key}: got a {kind}{place}, expected a dm_layout_g1: layouts of other kinds are not \
         supported, so this drive cannot be imported"
    );
    Err(ImportError::Unsupported { path: path.to_path_buf(), line, what })
}

/// Checks that the imported drive is valid and can be written as a device file, so that errors
/// refer to DiskSim's file rather than to the generated one.
fn check(name: &str, drive: &DriveSpec) -> Result<(), String> {
    let text = crate::write::text(name, "", drive);
    match crate::read_spec(Path::new(""), &text) {
        Ok(_) => Ok(()),
        Err(DevicesError::Malformed { what, .. }) => Err(what),
        Err(other) => Err(other.to_string()),
    }
}

/// Returns the bus times per sector for reads and writes, in ms. As in DiskSim, the slowest bus of
/// the accompanying experiment counts, or its slowest controller if that is slower still. Returns
/// zeros if no experiment can be read.
fn bus_times(path: &Path, beside: SiblingReader<'_>) -> [f64; 2] {
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { return [0.0; 2] };
    // Some DiskSim drives are named NAME_validate, although their experiment is named NAME.
    let stems = [Some(stem), stem.strip_suffix("_validate")].into_iter().flatten();
    let text = stems.map(|stem| beside(&format!("{stem}.parv"))).find_map(Result::ok);
    let blocks = text.and_then(|text| libparam::parse(&text).ok()).unwrap_or_default();
    let mut times = [0.0_f64; 2];
    for block in &blocks {
        let keys = match &block.kind[..] {
            "disksim_bus" => ["Read block transfer time", "Write block transfer time"],
            "disksim_ctlr" => ["Bulk sector transfer time"; 2],
            _ => continue,
        };
        let params = Params::new(block);
        for (time, key) in times.iter_mut().zip(keys) {
            *time = time.max(params.or_zero(key).unwrap_or(0.0).clamp(0.0, 1_000.0));
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{read_spec, write};
    use forebay_core::Nanos;
    use forebay_core::device::hdd::SeekSpec;

    const BESIDE: &str = include_str!("../../../fuzz/seeds/disksim/beside");
    const WHOLE: &str = include_str!("../../../fuzz/seeds/disksim/hplplus10");

    fn alone(text: &str) -> Result<Imported, ImportError> {
        import_text(Path::new("d/x.diskspecs"), text, &|_| Ok(text.to_string()))
    }

    #[test]
    fn a_drive_and_its_companion_files_are_imported() {
        let imported = alone(BESIDE).unwrap();
        let DriveSpec { disk, format, controller } = &imported.drive;
        assert_eq!((imported.name.as_str(), disk.heads, disk.zones.len()), ("D", 2, 1));
        let zone = &format.as_ref().unwrap().zones[0];
        assert_eq!((zone.track_skew_sectors, zone.defects.spares), (4.5, 2));
        assert_eq!(
            (&zone.defects.slips[..], &zone.defects.remaps[..]),
            (&[3, 7][..], &[(9, 11)][..])
        );
        // The slower of the drive and the bus in the .parv file determines the time.
        let bus = controller.bus;
        assert_eq!((bus.read_ns_per_sector, bus.write_ns_per_sector), (2e5, 1e5));
        assert_eq!(controller.overheads.read_miss.after_read.0, 300_000);
        assert!(imported.notes.iter().any(|note| note.contains("Oddity = 7 is not modeled")));
        let text = write::text(&imported.name, "here", &imported.drive);
        assert!(read_spec(Path::new("d.toml"), &text).is_ok(), "{text}");
    }

    #[test]
    fn the_bus_is_as_slow_as_its_slowest_part() {
        let parv = "disksim_bus B { Read block transfer time = 0.2, Write block transfer time = 0.1 }\n\
                    disksim_ctlr C { Bulk sector transfer time = 0.15 }\n";
        let bus = |drive: &str, file: &str| {
            let beside = |name: &str| match name == file {
                true => Ok(parv.to_string()),
                false => Err(std::io::ErrorKind::NotFound.into()),
            };
            let bus = import_text(Path::new(drive), WHOLE, &beside).unwrap().drive.controller.bus;
            (bus.read_ns_per_sector, bus.write_ns_per_sector)
        };
        assert_eq!(bus("x.diskspecs", "x.parv"), (2e5, 1.5e5));
        assert_eq!(bus("x_validate.diskspecs", "x.parv"), (2e5, 1.5e5));
        assert_ne!(bus("x.diskspecs", "y.parv"), (2e5, 1.5e5));
    }

    #[test]
    fn parameters_that_affect_times_are_used_or_reported() {
        let with = |said: &str| alone(&WHOLE.replace("Oddity = 7", said)).unwrap();
        let noted = |said: &str| {
            let key = said.split(" =").next().unwrap();
            let is_of = |note: &String| note.contains(key) && note.contains("not modeled");
            with(said).notes.iter().any(is_of)
        };
        for key in ["Combine seq writes", "Write hit stop prefetch", "Immed transfer partial hit"] {
            assert!(noted(&format!("{key} = 0")) && !noted(&format!("{key} = 1")), "{key}");
        }
        assert!(noted("Minimum read-ahead (blks) = 16") && !noted("Minimum read-ahead (blks) = 0"));
        assert!(noted("Set watermark by reqsize = 0, High (read) water mark = 0.5"));
        assert!(!noted("Set watermark by reqsize = 1, High (read) water mark = 0.5"));
        let away = "First reselect overhead = 0.2, Write disconnect overhead = 0.3";
        let overheads = |said: &str| with(said).drive.controller.overheads;
        let lets_go = overheads(away);
        assert_eq!((lets_go.reselect.0, lets_go.write_disconnect.0), (200_000, 300_000));
        let stays = overheads(&format!("{away}, Never disconnect = 1"));
        assert_eq!((stays.reselect.0, stays.write_disconnect.0), (0, 0));
        assert_eq!(stays.extra_disconnect, None);
    }

    #[test]
    fn each_seek_kind_has_its_own_parameters() {
        let with = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            alone(&WHOLE.replace(from, to)).unwrap()
        };
        let constant = with("hplplus10", "constant, Constant seek time = 4.0");
        let time = Nanos::from_millis(4);
        assert_eq!(constant.drive.disk.seek, SeekSpec::Table(vec![(1, time), (40, time)]));
        let own = with("type = hplplus10", "type = hpl").drive.disk.seek;
        assert!(matches!(own, SeekSpec::Coefficients { .. }));
        // The sixth value is the seek time over one cylinder, regardless of the other values.
        let text = WHOLE.replace("type = hplplus10", "type = hpl").replace("-1.0", "0.7");
        let SeekSpec::Prefixed { first, .. } = alone(&text).unwrap().drive.disk.seek else {
            panic!("no time of its own for one cylinder");
        };
        assert_eq!(first, [Nanos(700_000)]);
        let average = with("Seek type", "Access time type = averageRotation, Seek type");
        assert!(average.notes.iter().any(|note| note.contains("averageRotation is not modeled")));
    }

    #[test]
    fn what_disksim_requires_is_noted_if_missing() {
        let with = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            alone(&WHOLE.replace(from, to))
        };
        let noted = |from: &str, to: &str, part: &str| {
            let notes = with(from, to).unwrap().notes;
            assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
        };
        assert!(!alone(WHOLE).unwrap().notes.iter().any(|note| note.contains("missing")));
        noted("Head switch time = 0.5,", "", "missing `Head switch time`; 0 ms is assumed");
        noted("Add. write settling delay = 0.4,", "", "missing `Add. write settling delay`; 0");
        let first = "First ten seek times = [ 1.0, 1.2, 1.1, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9 ],";
        noted(first, "", "First ten seek times: got 0 values, expected 10");
        let three = "First ten seek times = [ 1.0, 1.2, 1.3 ],";
        noted(first, three, "line 20: First ten seek times: got 3 values, expected 10");
        let negative =
            WHOLE.replace("Single cylinder seek time = 1.0", "Single cylinder seek time = -1");
        for (kind, key) in [
            ("constant, Constant seek time = -1", "Constant seek time"),
            ("constant", "Single cylinder seek time"),
            ("linear", "Single cylinder seek time"),
        ] {
            let said = alone(&negative.replace("hplplus10", kind)).unwrap_err().to_string();
            assert!(said.contains(&format!("{key}: got -1, expected a time in ms")), "{said}");
        }
    }

    #[test]
    fn contradictions_name_their_line() {
        let with = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            let text = WHOLE.replacen(from, to, 1);
            let line = text[..text.find(to).unwrap()].lines().count();
            (alone(&text), format!("x.diskspecs, line {line}: "))
        };
        for (from, to, expected) in [
            ("Blocks per track = 30", "Blocks per track = 0", "expected a whole number from 1"),
            ("surfaces = 2", "surfaces = 0", "expected a whole number from 1 to 64"),
            ("cylinders = 40", "cylinders = 38", "expected 40 or more, where the zones end"),
            ("cylinder number = 39", "cylinder number = 900", "zone"),
            ("after read = 0.3", "after read = 50000", "expected a time in ms from 0 to 1000"),
            ("buffer segments = 2", "buffer segments = 65537", "0 to 65536"),
            ("Oddity = 7", "Max queue length = 0", "1 to 4096"),
            ("1.3, 1.4", "1.3, 900.0", "decreases by about"),
        ] {
            let (found, line) = with(from, to);
            let said = found.unwrap_err().to_string();
            // A zone beyond the end of the disk is reported at the line with the number of
            // cylinders; an error in a list, at the line of its block.
            let line = if to.contains("900") { "x.diskspecs, line " } else { &line };
            assert!(said.starts_with(&format!("d/{line}")) && said.contains(expected), "{said}");
        }
        for (from, to, expected) in [
            ("cylinders = 40", "cylinders = 50", "no zone covers the cylinders 40 to 49"),
            ("cylinders = 40", "cylinders = 40, Block count = 9", "Block count: got 9, but"),
            ("Oddity = 7", "Fast write level = 1", "Fast write level is given more than once"),
            ("number = 0", "number = 7", "no zone covers the cylinders 0 to 6"),
        ] {
            let (found, _) = with(from, to);
            let (found, said) = match found {
                Ok(imported) => (true, imported.notes.join("\n")),
                Err(error) => (false, error.to_string()),
            };
            let is_gap = to == "number = 7";
            assert!(if is_gap { !found } else { found && said.contains(expected) }, "{to}: {said}");
        }
        let exact = with("cylinders = 40", "cylinders = 40, Block count = 2398").0.unwrap();
        assert!(!exact.notes.iter().any(|note| note.contains("Block count")));
    }

    #[test]
    fn a_layout_may_be_in_another_file() {
        let begin = WHOLE.find("dm_layout_g1 {").unwrap();
        let end = WHOLE.find(" Mechanical Model").unwrap();
        let layout = WHOLE[begin..end].trim_end().trim_end_matches(',');
        let text = format!("{}source l.model,\n{}", &WHOLE[..begin], &WHOLE[end..]);
        let import = |layout: &str| {
            import_text(Path::new("d/x.diskspecs"), &text, &|name| match name {
                "l.model" => Ok(layout.to_string()),
                _ => Err(std::io::ErrorKind::NotFound.into()),
            })
        };
        assert_eq!(import(layout).unwrap().drive, alone(WHOLE).unwrap().drive);
        let said = |layout: &str| import(layout).unwrap_err().to_string();
        let wrong = said(&layout.replace("track = 30", "track = 0"));
        assert!(wrong.contains("line 6: l.model, line 8: Blocks per track: got 0"), "{wrong}");
        let other = said(&layout.replace("dm_layout_g1 {", "dm_layout_g4 {"));
        assert!(other.contains("a dm_layout_g4 in l.model") && other.contains("not supported"));
        assert!(!other.contains("a DiskSim 4 file"), "{other}");
        assert!(said("").contains("l.model without a layout"));
    }

    #[test]
    fn a_seek_curve_may_fall_by_noise_only() {
        let text = WHOLE.replace("hplplus10", "extracted");
        let import = |curve: &str| {
            import_text(Path::new("d/x.diskspecs"), &text, &|name| match name {
                "c.seek" => Ok(curve.to_string()),
                _ => Err(std::io::ErrorKind::NotFound.into()),
            })
        };
        let notes = import("h\n1, 1.0\n2, 1.5\n3, 1.4\n39, 3.0\n").unwrap().notes;
        assert!(notes.iter().any(|note| note.contains("by at most 0.050 ms")), "{notes:?}");
        let said = import("h\n1, 1\n4, 900.0\n8, 3\n").unwrap_err().to_string();
        assert!(said.contains("c.seek, line 3: 900 ms over 4 cylinders"), "{said}");
        // One in twenty points may be wrong by any amount; it is ignored.
        let line = |cylinders: u32, ms: f64| format!("{cylinders}, {ms}\n");
        let curve = |off: &[(u32, f64)]| {
            let ms = |at: u32| {
                off.iter().find(|(of, _)| *of == at).map_or(f64::from(at) * 0.25, |off| off.1)
            };
            (1..40).fold("h\n".to_string(), |text, at| text + &line(at, ms(at)))
        };
        for ms in [0.5, 3.0, 90.0] {
            let imported = import(&curve(&[(30, ms)])).unwrap();
            let SeekSpec::Table(points) = &imported.drive.disk.seek else { panic!("no table") };
            assert_eq!(points.len(), 38);
            assert!(points.iter().all(|(at, time)| time.as_millis_f64() == f64::from(*at) * 0.25));
            let part = format!("c.seek, line 31: {ms} ms over 30 cylinders is left out");
            assert!(imported.notes.iter().any(|note| note.contains(&part)), "{:?}", imported.notes);
        }
        let said = import(&curve(&[(10, 9.0), (20, 0.5)])).unwrap_err().to_string();
        assert!(said.contains("too far from an increasing curve"), "{said}");
    }

    #[test]
    fn small_faults_of_real_drives_are_repaired_and_reported() {
        let with = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            alone(&WHOLE.replace(from, to))
        };
        let noted = |imported: &Imported, part: &str| {
            let found = imported.notes.iter().filter(|note| note.contains(part)).count();
            assert_eq!(found, 1, "{part}: {:?}", imported.notes);
        };
        let settle = |ms: &str| with("settling delay = 0.4", &format!("settling delay = {ms}"));
        let repaired = settle("-0.7").unwrap();
        assert_eq!(repaired.drive.disk.write_settle, Nanos::ZERO);
        assert_eq!(repaired.drive.controller.write_seek_less, Nanos::from_micros(700));
        noted(
            &repaired,
            "line 22: Add. write settling delay: got -0.7 ms; this makes the seeks of writes shorter",
        );
        assert!(settle("-10.1").unwrap_err().to_string().contains("got -10.1, expected a time"));
        let last = |cylinder: &str| {
            with("Last cylinder number = 39", &format!("Last cylinder number = {cylinder}"))
        };
        let repaired = last("40").unwrap();
        assert_eq!(repaired.drive.disk.zones[0].last_cylinder, 39);
        noted(&repaired, "Number of cylinders: got 40, the last zone ends at 40; clipped by 1");
        assert!(last("41").unwrap_err().to_string().contains("got 40, expected 42 or more"));
    }

    /// Equations are fitted separately on both sides of the knee, so they rarely meet there
    /// exactly.
    #[test]
    fn an_equation_may_fall_at_its_knee_by_noise_only() {
        // The square root ends at 2.31 ms, while the line begins at 2.25 ms.
        let import = |kind: &str, long: &str| {
            let text = WHOLE.replace("hplplus10", kind).replace("[ 10, 1.0, 0.3, 2.0", long);
            alone(&text)
        };
        for (kind, from) in [("hpl", 1.3), ("hplplus10", 1.0)] {
            let imported = import(kind, "[ 20, 1.0, 0.3, 2.05").unwrap();
            let SeekSpec::Table(points) = &imported.drive.disk.seek else { panic!("no table") };
            assert_eq!(points.first(), Some(&(1, Nanos::from_millis_f64(from))), "{kind}");
            assert_eq!(points.last(), Some(&(39, Nanos::from_millis_f64(2.05 + 0.01 * 39.0))));
            assert!(points.is_sorted_by(|one, other| one.0 < other.0 && one.1 <= other.1));
            let notes = &imported.notes;
            assert!(
                notes.iter().any(|note| note.contains("the seek equation decreases")),
                "{notes:?}"
            );
        }
        let said = import("hpl", "[ 20, 4.0, 0.3, 1.0").unwrap_err().to_string();
        assert!(said.contains("the seek equation decreases by about"), "{said}");
    }

    #[test]
    fn faults_name_file_and_line() {
        let said = |text: &str| alone(text).unwrap_err().to_string();
        assert!(said("").contains("x.diskspecs, line 1: got no drive"));
        let with = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            said(&WHOLE.replace(from, to))
        };
        assert!(
            with("Blocks per track = 30", "Blocks = 30").contains("missing `Blocks per track`")
        );
        let negative =
            with("Read miss over. after read = 0.3", "Read miss over. after read = -0.3");
        assert!(negative.contains("got -0.3, expected a time in ms"), "{negative}");
        assert!(with("= 7200", "= fast").contains("Rotation speed (in rpms): got 'fast'"));
        assert!(with("dm_layout_g1 {", "dm_layout_g4 {").contains("expected a dm_layout_g1"));
        assert!(with("[ 9, 11 ]", "[ 9 ]").contains("expected pairs"));
        assert!(with("hplplus10", "cubic").contains("got 'cubic'"));
        assert!(with("Sparing scheme used = 0", "Sparing scheme used = 11").contains("0 to 10"));
        let missing = import_text(Path::new("x.diskspecs"), BESIDE, &|_| {
            Err(std::io::ErrorKind::NotFound.into())
        });
        assert!(matches!(missing, Err(ImportError::Io { .. })));
    }

    /// A quick version of the fuzz target: truncated or damaged text must not cause a panic.
    #[test]
    fn damaged_text_is_an_error_or_a_drive() {
        for text in [BESIDE, WHOLE] {
            for at in 0..text.len() {
                let (before, after) = (&text[..at], &text[at + 1..]);
                for put in ["", "{", "}", "[", "]", "=", "-9", "9e30", "#"] {
                    if let Ok(imported) = alone(&format!("{before}{put}{after}")) {
                        let text = write::text(&imported.name, "here", &imported.drive);
                        let _ = read_spec(Path::new("d.toml"), &text);
                    }
                }
                let _ = alone(before);
            }
        }
    }
}
