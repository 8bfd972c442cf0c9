//! DiskSim's drive files: a `.diskspecs` and the `.model`, `.seek` and `.parv` beside it.
//!
//! The text is read by our own parser (`libparam`), the parameters are taken by the names the
//! DiskSim 4.0 manual gives them (CMU-PDL-08-101, sections 3.2 and 3.3). What is not modelled is
//! listed with its line. The `.parv`, a whole experiment, is asked only for what the bus takes.

mod controller;
mod libparam;
mod model;
mod params;

use std::path::{Path, PathBuf};

use forebay_core::device::drive::DriveSpec;

use libparam::{Block, Entry, Fault, Value};
use model::Notes;
use params::Params;

/// Why a drive file cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file says something wrong.
    #[error("{}, line {line}: {what}; correct the file, or check that it is DiskSim 4's", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1; of a block's fault the line it begins on.
        line: usize,
        /// What was found there and what was expected.
        what: String,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// A drive as DiskSim's files describe it.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Its name there.
    pub name: String,
    /// Its figures.
    pub drive: DriveSpec,
    /// What was not taken over, a line each.
    pub notes: Vec<String>,
}

/// Files that belong to a drive file, by name; how they are found is the caller's business.
pub type Beside<'a> = &'a dyn Fn(&str) -> std::io::Result<String>;

/// The drive that the `.diskspecs` at `path` and the files beside it describe.
pub fn import(path: &Path) -> Result<Imported, ImportError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let fail = |path: PathBuf| |source| ImportError::Io { path, source };
    let read =
        |path: &Path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = read(path).map_err(fail(path.to_path_buf()))?;
    import_text(path, &text, &|name| read(&folder.join(name)))
}

/// The same from `text`, the content of the file at `path`.
pub fn import_text(path: &Path, text: &str, beside: Beside<'_>) -> Result<Imported, ImportError> {
    let malformed = |path: &Path| {
        let path = path.to_path_buf();
        move |(line, what): Fault| ImportError::Malformed { path, line, what }
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
    let controller = controller::read(&disk, bus).map_err(malformed(path))?;
    model::list_unknown(&disk, controller::WITHOUT_EFFECT, &mut notes);
    say(path, &mut notes, &mut said);
    let (model_path, model) = model_of(&disk, path, beside)?;
    let curve =
        |name: &str| seek_curve(&beside(name).map_err(|error| format!("{name}: {error}"))?, name);
    let (hdd, format) = model::read(&model, &curve, &mut notes).map_err(malformed(&model_path))?;
    say(&model_path, &mut notes, &mut said);
    let drive = DriveSpec { disk: hdd, format: Some(format), controller };
    Ok(Imported { name: block.name.clone(), drive, notes: said })
}

fn say(path: &Path, notes: &mut Notes, said: &mut Vec<String>) {
    said.extend(
        notes.drain(..).map(|(line, what)| format!("{}, line {line}: {what}", path.display())),
    );
}

/// The `dm_disk`, within the drive's block or in a file of its own.
fn model_of(
    disk: &Params<'_>,
    path: &Path,
    beside: Beside<'_>,
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

/// What the slowest bus of the experiment beside the drive takes, ms a sector read and written;
/// no time where there is none or it cannot be read.
fn bus_times(path: &Path, beside: Beside<'_>) -> [f64; 2] {
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { return [0.0; 2] };
    let Ok(text) = beside(&format!("{stem}.parv")) else { return [0.0; 2] };
    let blocks = libparam::parse(&text).unwrap_or_default();
    let mut times = [0.0_f64; 2];
    for bus in blocks.iter().filter(|block| block.kind == "disksim_bus").map(Params::new) {
        for (time, way) in times.iter_mut().zip(["Read", "Write"]) {
            let ms = bus.or_zero(&format!("{way} block transfer time")).unwrap_or(0.0);
            *time = time.max(ms.clamp(0.0, 1_000.0));
        }
    }
    times
}

/// The points of a seek file: a headline, then distances in cylinders and times in ms.
fn seek_curve(text: &str, name: &str) -> Result<Vec<(u32, f64)>, String> {
    let mut points: Vec<(u32, f64)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut fields = line.split([',', ' ', '\t']).filter(|field| !field.is_empty());
        let point = (|| {
            let distance: u32 = fields.next()?.parse().ok()?;
            let ms: f64 = fields.next()?.parse().ok()?;
            (0.0..=1_000.0).contains(&ms).then_some((distance, ms))
        })();
        match point {
            Some((0, _)) => {}
            Some(point) if points.last().is_none_or(|last| last.0 < point.0) => points.push(point),
            Some((distance, _)) => {
                return Err(format!(
                    "{name}, line {}: got distance {distance}, expected a greater one than before",
                    index + 1
                ));
            }
            None if line.trim().is_empty() || index == 0 => {}
            None => {
                return Err(format!(
                    "{name}, line {}: got '{}', expected a distance and a time in ms",
                    index + 1,
                    line.chars().take(40).collect::<String>()
                ));
            }
        }
    }
    if points.is_empty() {
        return Err(format!("{name}: got no points, expected distances and times in ms"));
    }
    // `Seek distances measured: 87`
    let said = text.lines().next().and_then(|line| line.rsplit(':').next()?.trim().parse().ok());
    if let Some(said) = said
        && points.len() + 1 < said
    {
        return Err(format!(
            "{name}: got {} distances, expected the {said} its first line says: copy the file again",
            points.len()
        ));
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::{read_spec, write};
    use forebay_core::Nanos;
    use forebay_core::device::hdd::SeekSpec;

    const BESIDE: &str = include_str!("../../../fuzz/seeds/disksim/beside");
    const WHOLE: &str = include_str!("../../../fuzz/seeds/disksim/hplplus10");

    fn alone(text: &str) -> Result<Imported, ImportError> {
        import_text(Path::new("d/x.diskspecs"), text, &|_| Ok(text.to_string()))
    }

    #[test]
    fn a_drive_and_the_files_beside_it_are_taken_over() {
        let imported = alone(BESIDE).unwrap();
        let DriveSpec { disk, format, controller } = &imported.drive;
        assert_eq!((imported.name.as_str(), disk.heads, disk.zones.len()), ("D", 2, 1));
        let zone = &format.as_ref().unwrap().zones[0];
        assert_eq!((zone.track_skew_sectors, zone.defects.spares), (4.5, 2));
        assert_eq!(
            (&zone.defects.slips[..], &zone.defects.remaps[..]),
            (&[3, 7][..], &[(9, 11)][..])
        );
        // The slower of the drive and the bus of the .parv.
        let bus = controller.bus;
        assert_eq!((bus.read_ns_per_sector, bus.write_ns_per_sector), (2e5, 1e5));
        assert_eq!(controller.overheads.read_miss.after_read.0, 300_000);
        assert!(imported.notes.iter().any(|note| note.contains("Oddity = 7 is not modelled")));
        let text = write::text(&imported.name, "here", &imported.drive);
        assert!(read_spec(Path::new("d.toml"), &text).is_ok(), "{text}");
    }

    #[test]
    fn seek_kinds_take_their_own_parameters() {
        let with = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            alone(&WHOLE.replace(from, to)).unwrap()
        };
        let constant = with("hplplus10", "constant, Constant seek time = 4.0");
        let time = Nanos::from_millis(4);
        assert_eq!(constant.drive.disk.seek, SeekSpec::Table(vec![(1, time), (40, time)]));
        let own = with("type = hplplus10", "type = hpl").drive.disk.seek;
        assert!(matches!(own, SeekSpec::Coefficients { .. }));
        // The sixth value is the time of one cylinder, whatever else is said.
        let text = WHOLE.replace("type = hplplus10", "type = hpl").replace("-1.0", "0.7");
        let SeekSpec::Prefixed { first, .. } = alone(&text).unwrap().drive.disk.seek else {
            panic!("no time of its own for one cylinder");
        };
        assert_eq!(first, [Nanos(700_000)]);
        let average = with("Seek type", "Access time type = averageRotation, Seek type");
        assert!(average.notes.iter().any(|note| note.contains("averageRotation is not modelled")));
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
        assert!(seek_curve("head\n1, 2\n1, 3\n", "c").unwrap_err().contains("c, line 3"));
        assert!(seek_curve("head\n1, x\n", "c").unwrap_err().contains("a distance and a time"));
        assert!(seek_curve("head\n", "c").unwrap_err().contains("no points"));
        let cut = "Seek distances measured: 87\n1, 2\n2, 3\n";
        assert!(seek_curve(cut, "c").unwrap_err().contains("got 2 distances, expected the 87"));
    }

    /// A short stand-in for the fuzz target: cut and damaged text is refused, never a panic.
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
