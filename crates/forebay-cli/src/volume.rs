//! `forebay volume`: arrays with redundancy on real files and devices.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_core::stack::array::{Census, Geometry, Kind, LEVELS, LOST_LISTED, Level};
use forebay_show::plural::{counted, listed, verb};
use forebay_show::quantities;
use forebay_volume::{Create, NonMember, Opened};
use serde::Serialize;

use crate::output::{self, Format, say};
use crate::progress::Progress;

/// Make and look after a volume: drives together, with redundancy
///
/// A volume is its drives, files or block devices; a folder stands for all files in it. Drives say which volume
/// they belong to, so their order does not matter.
#[derive(Args)]
pub(crate) struct Volume {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Create(Making),
    Status(Status),
    Check(Check),
    Replace(Replace),
    Grow(Grow),
}

/// Make a volume of drives; drives with data are refused without --overwrite
#[derive(Args)]
struct Making {
    /// The hard disks, or a folder of files
    #[arg(value_name = "DIR|DEVICE")]
    drives: Vec<PathBuf>,
    /// Solid-state drives, a second set: a unit is on the hard disks or on these
    /// (play --policy array:hints=)
    #[arg(long, value_name = "DIR|DEVICE", num_args = 1..)]
    ssd: Vec<PathBuf>,
    /// raid0, raid5, raid6, raid10, raid10x3 or raid10x4: the level of new data
    #[arg(long, default_value = "raid6", value_parser = level)]
    level: Level,
    /// KiB of a chunk: what one drive holds in a row
    #[arg(long, value_name = "KIB", default_value = "64", value_parser = clap::value_parser!(u32).range(4..=1024))]
    chunk_kib: u32,
    /// Data chunks of a unit; each unit has its own level
    #[arg(long, value_name = "COUNT", default_value = "4", value_parser = clap::value_parser!(u8).range(1..=14))]
    chunks: u8,
    /// Destroy what is on the drives
    #[arg(long)]
    overwrite: bool,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// Say what a volume is like; writes nothing
#[derive(Args)]
struct Status {
    /// The drives, or a folder of files
    #[arg(required = true, value_name = "DIR|DEVICE")]
    drives: Vec<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// Read everything, with all copies and parities, and repair what is wrong
#[derive(Args)]
struct Check {
    /// The drives, or a folder of files
    #[arg(required = true, value_name = "DIR|DEVICE")]
    drives: Vec<PathBuf>,
    /// MB of data a second at most [default: as fast as it goes]
    #[arg(long, value_name = "MB")]
    rate: Option<u32>,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// Put a new drive in the place of a missing one, and restore its data
///
/// If that is cut short, the same command continues.
#[derive(Args)]
struct Replace {
    /// The drives that are left, or a folder of files
    #[arg(required = true, value_name = "DIR|DEVICE")]
    drives: Vec<PathBuf>,
    /// The new one; it may lie in the volume's folder
    #[arg(long, value_name = "DEVICE")]
    with: PathBuf,
    /// Destroy what is on the new one
    #[arg(long)]
    overwrite: bool,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// Make a volume larger: with more drives, or with all of drives that have become larger
///
/// The data are spread over all drives first. A volume grows to at most twice its first size. If growing is cut
/// short, the volume holds what it held, and the same command continues.
#[derive(Args)]
struct Grow {
    /// The drives it has, or a folder of files
    #[arg(required = true, value_name = "DIR|DEVICE")]
    drives: Vec<PathBuf>,
    /// New ones, each as large as the volume was made for
    #[arg(long, value_name = "DEVICE", num_args = 1..)]
    with: Vec<PathBuf>,
    /// The new ones are solid-state drives
    #[arg(long)]
    ssd: bool,
    /// Destroy what is on the new ones
    #[arg(long)]
    overwrite: bool,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

fn level(text: &str) -> Result<Level, String> {
    let names: Vec<&str> = LEVELS.iter().map(|level| level.name()).collect();
    Level::named(text).ok_or_else(|| format!("got '{text}', expected {}", names.join(", ")))
}

impl Volume {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Create(making) => making.run(),
            What::Status(status) => {
                let opened = forebay_volume::status(&status.drives)?;
                show(&opened, &status.drives, "", status.format)
            }
            What::Check(check) => {
                let rate = u64::from(check.rate.unwrap_or(0)) * 1_000_000;
                let progress = Progress::new("reading all of the volume");
                let opened = forebay_volume::check(&check.drives, rate, &mut |moved| {
                    let _ = progress.moved(
                        "reading all of the volume",
                        moved.read_bytes,
                        moved.all_bytes,
                    );
                })?;
                drop(progress);
                let count = |name| figure(&opened, name);
                let (rotten, mended) = (count("rotten_blocks"), count("repaired_roles"));
                let said = match (rotten, mended) {
                    _ if opened.lacked_room => format!(
                        "All that the volume holds was read: {} {} wrong, and nothing was written.",
                        counted(rotten, "block"),
                        verb(rotten, "was", "were")
                    ),
                    (0, 0) if opened.census.lost_units > 0 => {
                        "All that the volume holds was read, and no more of it is wrong.".into()
                    }
                    (0, 0) => "All that the volume holds was read, and all of it is right.".into(),
                    _ => format!(
                        "All that the volume holds was read: {} {} wrong, and {} {} written anew.",
                        counted(rotten, "block"),
                        verb(rotten, "was", "were"),
                        counted(mended, "chunk"),
                        verb(mended, "was", "were")
                    ),
                };
                show(&opened, &check.drives, &said, check.format)
            }
            What::Replace(replace) => {
                let progress = Progress::new("making anew what the missing drive held");
                let opened = forebay_volume::replace(
                    &replace.drives,
                    &replace.with,
                    replace.overwrite,
                    &mut |moved| {
                        let doing = "making anew what the missing drive held";
                        let _ = progress.moved(doing, moved.written_bytes, moved.all_bytes);
                    },
                )?;
                drop(progress);
                let new = replace.with.display();
                let said = match (figure(&opened, "repaired_roles"), &opened.already[..]) {
                    (0, [_, ..]) => {
                        format!(
                            "{new} is a drive of the volume already, and has all it should hold."
                        )
                    }
                    (mended, _) => format!(
                        "{new} is a drive of the volume now; {} {} made anew.",
                        counted(mended, "chunk"),
                        verb(mended, "was", "were")
                    ),
                };
                show(&opened, &replace.drives, &said, replace.format)?;
                let degraded = opened.census.degraded_units;
                anyhow::ensure!(
                    degraded == 0 || !opened.missing().is_empty(),
                    "{} still {} a drive; check that {new} has room, then run the same command again",
                    counted(degraded, "unit"),
                    verb(degraded, "lacks", "lack"),
                );
                Ok(())
            }
            What::Grow(grow) => {
                let kind = if grow.ssd { Kind::Ssd } else { Kind::Hdd };
                let progress = Progress::new("spreading over all drives what the volume holds");
                let (before, opened) = forebay_volume::grow(
                    &grow.drives,
                    &grow.with,
                    kind,
                    grow.overwrite,
                    &mut |moved| {
                        let doing = "spreading over all drives what the volume holds";
                        let _ = progress.moved(doing, moved.written_bytes, None);
                    },
                )?;
                drop(progress);
                let [held, holds] = [&before, &opened].map(|it| it.geometry.capacity_bytes());
                let most = opened.geometry.capacity_max_bytes();
                let said = match (holds > held, holds < most) {
                    (true, true) => {
                        format!("The volume holds {} now, up from {}.", size(holds), size(held))
                    }
                    (true, false) => format!(
                        "The volume holds {} now, up from {}; its records have no room for more.",
                        size(holds),
                        size(held)
                    ),
                    (false, true) => {
                        format!("The volume holds as much as before. {}", limit(&opened))
                    }
                    (false, false) => {
                        "The volume holds as much as before: it has grown to twice its first \
                                       size, and its records have no room for more."
                            .into()
                    }
                };
                show(&opened, &grow.drives, &said, grow.format)
            }
        }
    }
}

impl Making {
    fn run(self) -> anyhow::Result<()> {
        let mut drives = forebay_volume::drives_in(&self.drives)?;
        let solid = forebay_volume::drives_in(&self.ssd)?;
        let ssds = solid.len();
        drives.extend(solid);
        let Making { level, chunks, overwrite, .. } = self;
        let chunk_bytes = self.chunk_kib * 1024;
        let how = Create { level, chunk_bytes, chunks, ssds, overwrite };
        forebay_volume::create(&drives, how)?;
        let opened = forebay_volume::status(&drives)?;
        show(&opened, &drives, "The volume is made.", self.format)
    }
}

/// Why a volume does not grow: which drives are too small, and by how much.
fn limit(opened: &Opened) -> String {
    let bytes = |bytes: u64| counted(bytes, "byte");
    let numbers = |of: &[(u8, u64)]| of.iter().map(|(number, _)| number.to_string()).collect();
    match &opened.too_small[..] {
        [] => "It has too few drives for its level.".into(),
        [(number, lacks)] => format!("Drive {number} is too small by {}.", bytes(*lacks)),
        [(_, first), rest @ ..] if rest.iter().all(|(_, lacks)| lacks == first) => {
            let numbers: Vec<String> = numbers(&opened.too_small);
            format!("Drives {} are too small by {} each.", listed(&numbers), bytes(*first))
        }
        many => {
            let of = |(number, lacks): &(u8, u64)| format!("{number} by {}", bytes(*lacks));
            let many: Vec<String> = many.iter().map(of).collect();
            format!("These drives are too small: {}.", listed(&many))
        }
    }
}

fn figure(opened: &Opened, name: &str) -> u64 {
    opened.figures.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value as u64)
}

pub(crate) fn size(bytes: u64) -> String {
    quantities::bytes(bytes as f64)
}

#[derive(Serialize)]
struct Shown {
    volume: String,
    capacity_bytes: u64,
    drives: usize,
    ssds: usize,
    drives_missing: Vec<u8>,
    drives_replaced: Vec<u8>,
    drives_joining: Vec<u8>,
    not_members: Vec<NotMember>,
    replace_command: Option<String>,
    notes: Vec<String>,
    label_format: u64,
    drives_without_end_label: Vec<u8>,
    chunk_bytes: u32,
    chunks: u8,
    openings: u64,
    units: Vec<(&'static str, u64)>,
    ssd_units: u64,
    degraded_units: u64,
    lost_units: u64,
    lost_bytes: u64,
    lost: Vec<ShownLoss>,
    written_bytes: u64,
    free_cells_least: u32,
    table_bytes: u64,
    records_bytes_a_drive: u64,
}

/// A path that was named and is not used.
#[derive(Serialize)]
struct NotMember {
    path: String,
    why: String,
}

/// A range that cannot be read.
#[derive(Serialize)]
struct ShownLoss {
    unit: u64,
    offset: u64,
    bytes: u64,
    drives: Vec<u8>,
}

fn losses(census: &Census) -> Vec<ShownLoss> {
    let of_unit = census.lost.iter().flat_map(|unit| unit.ranges.iter().map(move |it| (unit, it)));
    let loss = of_unit.map(|(unit, range)| ShownLoss {
        unit: unit.unit,
        offset: range.offset,
        bytes: range.bytes,
        drives: unit.drives.clone(),
    });
    loss.collect()
}

fn shown(opened: &Opened, named: &[PathBuf]) -> Shown {
    let (geometry, census) = (&opened.geometry, &opened.census);
    let not_member =
        |it: &NonMember| NotMember { path: it.path.display().to_string(), why: it.why.clone() };
    let stale = census.drives.iter().map(|drive| drive.number);
    let stale =
        stale.filter(|number| !census.members.contains(number) && !opened.joining.contains(number));
    let units: u64 = census.units.iter().map(|(_, count)| count).sum();
    let free = census.drives.iter().filter(|it| it.is_present).map(|it| it.free_cells).min();
    Shown {
        volume: format!("{:016x}", geometry.volume),
        capacity_bytes: geometry.capacity_bytes(),
        drives: census.members.len(),
        ssds: census.drives.iter().filter(|drive| drive.kind == Kind::Ssd).count(),
        drives_missing: opened.missing(),
        drives_replaced: stale.collect(),
        drives_joining: opened.joining.clone(),
        not_members: opened.others.iter().map(not_member).collect(),
        replace_command: opened.replace_command(named),
        notes: opened.notes.clone(),
        label_format: opened.format,
        drives_without_end_label: opened.without_end_label.clone(),
        chunk_bytes: geometry.chunk_bytes,
        chunks: geometry.chunks,
        openings: census.openings,
        units: census.units.iter().map(|(level, count)| (level.name(), *count)).collect(),
        ssd_units: census.ssd_units,
        degraded_units: census.degraded_units,
        lost_units: census.lost_units,
        lost_bytes: census.lost_bytes,
        lost: losses(census),
        written_bytes: units * geometry.unit_bytes(),
        free_cells_least: free.unwrap_or(0),
        table_bytes: geometry.table_bytes(),
        records_bytes_a_drive: geometry.ring * Geometry::RECORD_BYTES,
    }
}

/// The most ranges that a table lists.
const LISTED: usize = 10;

/// Prints what a volume is like; an error where it has lost data.
fn show(opened: &Opened, named: &[PathBuf], said: &str, format: Format) -> anyhow::Result<()> {
    opened.told(named).iter().for_each(|told| say!("{told}"));
    let shown = shown(opened, named);
    match format {
        Format::Table => output::though_unread(output::print(&described(opened, &shown, said)))?,
        _ => output::though_unread(output::print_data(format, &shown))?,
    }
    let (bytes, units) = (size(shown.lost_bytes), counted(shown.lost_units, "unit"));
    match shown.lost_units {
        0 if opened.lacked_room => Err(anyhow::anyhow!(
            "the volume was read, but nothing could be mended: the file system below its drives is full \
             (ENOSPC); make room there and run `forebay volume check` again"
        )),
        0 => Ok(()),
        _ => Err(anyhow::anyhow!("{bytes} of the volume, in {units}, cannot be read any more")),
    }
}

/// What cannot be read, the first ranges of it.
fn lost_table(shown: &Shown) -> String {
    if shown.lost.is_empty() {
        return String::new();
    }
    let mut table = output::table(["unit", "lost from byte", "bytes", "drives"]);
    table.add_rows(shown.lost.iter().take(LISTED).map(|loss| {
        let drives: Vec<String> = loss.drives.iter().map(u8::to_string).collect();
        let [unit, offset, bytes] = [loss.unit, loss.offset, loss.bytes].map(|it| it.to_string());
        [unit, offset, bytes, drives.join(", ")]
    }));
    let more = shown.lost.len().saturating_sub(LISTED);
    let told = match (more, shown.lost_units > LOST_LISTED as u64) {
        (0, _) => String::new(),
        (more, false) => {
            format!("and {}: --format json lists all.\n", counted(more as u64, "more range"))
        }
        (_, true) => {
            format!("and more: --format json lists those of the first {LOST_LISTED} units.\n")
        }
    };
    format!("{table}\n{told}\n")
}

fn described(opened: &Opened, shown: &Shown, said: &str) -> String {
    let state = match (&shown.drives_missing[..], shown.degraded_units, shown.lost_units) {
        (missing, _, lost) if lost > 0 => lost_state(shown, missing),
        ([], 0, _) => match spare_drives(opened, 0) {
            0 => "It is whole, but no drive may fail.".to_string(),
            1 => "It is whole, and one drive may fail.".to_string(),
            many => format!("It is whole, and any {many} drives may fail."),
        },
        ([], degraded, _) => {
            let (units, lack) = (counted(degraded, "unit"), verb(degraded, "lacks", "lack"));
            format!("{units} {lack} a drive: run `forebay volume check`.")
        }
        (missing, ..) => format!(
            "{} missing. Nothing is lost, {}: replace {} (`{}`).",
            match missing {
                [one] => format!("Drive {one} is"),
                many => {
                    let numbers: Vec<String> = many.iter().map(u8::to_string).collect();
                    format!("Drives {} are", listed(&numbers))
                }
            },
            match spare_drives(opened, missing.len()) {
                0 => "but no other drive may fail".to_string(),
                1 => "and one more drive may fail".to_string(),
                more => format!("and {more} more drives may fail"),
            },
            if missing.len() == 1 { "it" } else { "them" },
            shown.replace_command.as_deref().unwrap_or("forebay volume replace"),
        ),
    };
    let mut table = output::table(["volume", &shown.volume]);
    let units: Vec<String> =
        shown.units.iter().map(|(level, count)| format!("{count} {level}")).collect();
    let numbers = |list: &[u8]| match list {
        [] => "none".to_string(),
        list => list.iter().map(u8::to_string).collect::<Vec<_>>().join(", "),
    };
    let drives = match shown.ssds {
        0 => shown.drives.to_string(),
        ssds => format!("{}, {ssds} of them solid-state drives", shown.drives),
    };
    let units = match (&units[..], shown.ssd_units) {
        ([], _) => "none".into(),
        (units, 0) => units.join(", "),
        (units, ssd) => format!("{}; {ssd} of them on solid-state drives", units.join(", ")),
    };
    let rows = [
        ("holds", size(shown.capacity_bytes)),
        ("written", size(shown.written_bytes)),
        ("drives", drives),
        ("missing", numbers(&shown.drives_missing)),
        ("replaced", numbers(&shown.drives_replaced)),
        ("joining", numbers(&shown.drives_joining)),
        ("without a label at the end", numbers(&shown.drives_without_end_label)),
        ("unit", format!("{} chunks of {}", shown.chunks, size(shown.chunk_bytes.into()))),
        ("units", units),
        ("opened", counted(shown.openings, "time")),
        ("table in memory, at most", size(shown.table_bytes)),
        ("records on each drive", size(shown.records_bytes_a_drive)),
    ];
    table.add_rows(rows.into_iter().map(|(name, value)| [name.to_string(), value]));
    let said = output::wrapped(format!("{said} {state}").trim_start());
    format!("{said}\n\n{}{table}", lost_table(shown))
}

/// How a volume is that has lost data, and what to do.
fn lost_state(shown: &Shown, missing: &[u8]) -> String {
    let units = counted(shown.lost_units, "unit");
    let lost = format!("Data are lost: {} in {units} cannot be read.", size(shown.lost_bytes));
    let numbers: Vec<String> = missing.iter().map(u8::to_string).collect();
    match missing {
        [] => format!("{lost} A range can be read again once it is written anew."),
        _ => format!(
            "{lost} {} {} missing, and may have some of it: bring {} back and run `forebay volume \
             check`. Else a range can be read again once it is written anew.",
            if missing.len() == 1 { "Drive" } else { "Drives" },
            format_args!("{} {}", listed(&numbers), verb(missing.len() as u64, "is", "are")),
            if missing.len() == 1 { "it" } else { "them" },
        ),
    }
}

/// Drives that may fail beside so many without loss, as far as the leanest unit goes; of an empty volume the first.
fn spare_drives(opened: &Opened, missing: usize) -> usize {
    let used = opened.census.units.iter().map(|(level, _)| level.tolerates());
    used.min().unwrap_or(opened.census.first_level.tolerates()).saturating_sub(missing)
}
