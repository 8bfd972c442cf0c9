//! Text formats that consist of a declaration of [`Columns`]: one entry each in [`PRESETS`].
//!
//! Each entry gives columns, units and epoch; arrivals are made relative to the first request. Rows
//! of zero length are skipped and counted. Columns after the declared ones are not read.
//!
//! DiskSim's default ASCII format (`time device blkno size flags`) has no fixed unit: the same
//! columns are written in ms by DiskSim, in ns for MQSim and SSDsim, in us by others, and with
//! bytes instead of sectors. Times with decimals are assumed to be ms and integers ns;
//! [`crate::units`] rejects impossible results.

use crate::columns::cursor::Cursor;
use crate::columns::cursor::Separator;
use crate::columns::plan::Plan;
use crate::columns::reader::{ColumnReader, Header};
use crate::columns::spec::Columns;
use crate::error::TraceError;
use crate::formats::Input;
use crate::order::Ordered;
use crate::trace::Reader;
use forebay_ask::named;

/// A format that consists of a declaration of columns.
pub struct Preset {
    /// Its name in [`crate::formats::FORMATS`].
    pub name: &'static str,
    /// Its columns, in the syntax of `--columns`.
    pub columns: &'static str,
    /// The format's own names for its columns.
    titles: &'static str,
    /// How its rows are recognized, in addition to being readable.
    looks: Looks,
    /// Notes for the user about every trace of the format.
    warnings: &'static [&'static str],
}

/// The name of the preset for lists of the ARC paper.
const ARC: &str = "arc";

/// How the rows of a format are distinguished from others that are also readable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// By the declared columns, and possibly more.
    OrLonger,
    /// By exactly the declared columns.
    Exact,
    /// By a header.
    Titled,
    /// By the declared columns, the first of which is a number with decimals.
    DecimalFirst,
    /// By the declared columns, all of which are integers.
    Whole,
    /// Never; the format must be specified.
    Named,
}

const DISKSIM_TITLES: &str = "time,device,blkno,size,flags";

/// All presets.
pub static PRESETS: &[Preset] = &[
    // MSR Cambridge. Windows FILETIME: ticks of 100 ns since 1601-01-01 UTC.
    Preset {
        name: "msr",
        columns: "at:filetime,volume,volume:number,op:Read/Write,offset,len,latency:ticks,sep=comma",
        titles: "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
        looks: Looks::OrLonger,
        warnings: &[],
    },
    // SPC trace file specification 1.0.1. LBA from the start of its ASU; seconds from the start of
    // the trace; further fields are allowed.
    Preset {
        name: "spc",
        columns: "volume:number,offset:sectors,len,op:R/W,at:s,sep=comma",
        titles: "ASU,LBA,Size,Opcode,Timestamp",
        looks: Looks::OrLonger,
        warnings: &[],
    },
    // SYSTOR '17 (Lee et al., enterprise VDI). Unix seconds of the issue; Response may be empty.
    Preset {
        name: "systor17",
        columns: "at:s,latency:s,op:R/W,volume,offset,len,sep=comma",
        titles: "Timestamp,Response,IOType,LUN,Offset,Size",
        looks: Looks::Exact,
        warnings: &[],
    },
    // Tencent cloud block storage (Zhang et al., ATC '20). Whole Unix seconds.
    Preset {
        name: "tencent-cbs",
        columns: "at:s,offset:sectors,len:sectors,op:0/1,volume,sep=comma",
        titles: "Timestamp,Offset,Size,IOType,VolumeID",
        looks: Looks::Exact,
        warnings: &[],
    },
    // Alibaba block traces (Li et al., IISWC '20). Unix microseconds.
    Preset {
        name: "alibaba",
        columns: "volume,op:R/W,offset,len,at:us,sep=comma",
        titles: "device_id,opcode,offset,length,timestamp",
        looks: Looks::Exact,
        warnings: &[],
    },
    // CloudPhysics vSCSI traces as text. Whole seconds since an arbitrary epoch.
    Preset {
        name: "cloudphysics",
        columns: "_,at:s,op:scsi,len,offset:sectors,sep=comma",
        titles: "version,time,op,size,lbn",
        looks: Looks::Titled,
        warnings: &[],
    },
    // Thesios (Phothilimthana et al., ASPLOS '24): Google storage servers. Offsets are relative to
    // a file, so every file is a volume. Length is disk_io_size_bytes, arrival start_time in Unix
    // seconds, latency disk_time; simulated times are not read. Names are applications.
    Preset {
        name: "thesios",
        columns: "volume,offset,name,_,_,_,op:READ/WRITE,_,_,_,_,len,_,at:s,latency:s,_,_,sep=comma",
        titles: "filename,file_offset,application,c_time,io_zone,redundancy_type,op_type,\
                 service_class,from_flash_cache,cache_hit,request_io_size_bytes,\
                 disk_io_size_bytes,response_io_size_bytes,start_time,disk_time,\
                 simulated_disk_start_time,simulated_latency",
        looks: Looks::Exact,
        warnings: &[],
    },
    // DiskSim 4.0 manual, section on ASCII traces: ms, sectors of 512 bytes, bit 0 of flags for
    // reads.
    Preset {
        name: "disksim-ascii",
        columns: "at:ms,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
        titles: DISKSIM_TITLES,
        looks: Looks::DecimalFirst,
        warnings: &[],
    },
    // MQSim: the same columns in ns.
    Preset {
        name: "mqsim",
        columns: "at:ns,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
        titles: DISKSIM_TITLES,
        looks: Looks::Whole,
        warnings: &[],
    },
    // SSDsim (HUST): the same columns in ns.
    Preset {
        name: "ssdsim",
        columns: "at:ns,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
        titles: DISKSIM_TITLES,
        looks: Looks::Named,
        warnings: &[],
    },
    // Traces converted for SSDsim in us.
    Preset {
        name: "ssdsim-us",
        columns: "at:us,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
        titles: DISKSIM_TITLES,
        looks: Looks::Named,
        warnings: &[],
    },
    // Windows traces prepared for Heimdall (EuroSys '25): ms, but bytes instead of sectors.
    Preset {
        name: "heimdall",
        columns: "at:ms,volume,offset,len,op:disksim,sep=blank",
        titles: DISKSIM_TITLES,
        looks: Looks::Named,
        warnings: &[],
    },
    // Lists of the ARC paper (Megiddo and Modha, FAST '03): block, count, ignored, request number,
    // in blocks of 512 bytes. They have neither times nor operations.
    Preset {
        name: ARC,
        columns: "offset:sectors,len:sectors,_,_,every=1ms,op=read,sep=blank",
        titles: "block,count,ignored,request",
        looks: Looks::Whole,
        warnings: &[
            "the format has no times: requests are taken to come 1 ms apart; the columns \
             offset:sectors,len:sectors,_,_,every=TIME,op=read space them otherwise",
            "the format has no operations: every request is taken for a read",
            "the format does not say how large its blocks are: 512 bytes each, to have addresses",
        ],
    },
];

/// Returns the preset with this name.
pub(crate) fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// Whether `head` looks like rows of the preset called `name`, because one of its first lines does.
/// A damaged first line does not decide, so that the format can report it.
pub(crate) fn sniff(name: &str, head: &[u8]) -> bool {
    let Some(preset) = preset(name) else { return false };
    let Some(columns) = preset.declared() else { return false };
    if preset.looks == Looks::Named {
        return false;
    }
    let mut plan = Plan::new(&columns);
    let mut dictionary = plan.dictionary();
    let separator = columns.separator.unwrap_or(Separator::Blanks);
    let lines = head.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    for (number, line) in lines.take(4).enumerate() {
        let text = [line, b"\n"].concat();
        let mut cursor = Cursor::new(&text, separator);
        let begun = cursor;
        if preset.looks == Looks::Titled {
            return number == 0 && plan.is_titled(&begun) && plan.fits(&begun);
        }
        let reads = plan.row(&mut cursor, &mut dictionary).is_ok();
        let first = line.trim_ascii_start().split(|&b| b <= b' ').next().unwrap_or_default();
        let looks = match preset.looks {
            Looks::OrLonger => true,
            Looks::DecimalFirst => plan.fits(&begun) && first.contains(&b'.'),
            Looks::Whole => {
                plan.fits(&begun)
                    && line.iter().all(|&b| b.is_ascii_digit() || b.is_ascii_whitespace())
            }
            Looks::Exact | Looks::Titled | Looks::Named => plan.fits(&begun),
        };
        if reads && looks {
            return true;
        }
    }
    false
}

/// Opens a text in the format of the preset called `name`.
pub(crate) fn open(name: &str, input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let found = preset(name).and_then(|preset| Some((preset, preset.declared()?)));
    let Some((preset, columns)) = found else {
        return Err(crate::open::unknown(&input.path, name));
    };
    let hint = format!(
        "format {} has the columns {}; if this is another format, name it with {} or {}",
        preset.name,
        preset.titles,
        named("from"),
        named("columns")
    );
    let mut reader =
        ColumnReader::new(&input.path, input.content, &columns, Header::Preset, preset.name, hint);
    if columns.every_ns.is_some() {
        reader = reader.timeless();
    }
    if name == ARC {
        reader = reader.in_blocks(512);
    }
    for warning in preset.warnings {
        reader = reader.warn(*warning);
    }
    let splits = input.split_runs;
    Ok(Box::new(Ordered::new(reader).splitting_runs(splits)))
}

/// Opens a text whose columns the user declares.
pub(crate) fn open_columns(columns: &Columns, input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let hint = format!("the columns were declared as {columns}");
    let path = &input.path;
    let reader = ColumnReader::new(path, input.content, columns, Header::Guessed, "columns", hint);
    let splits = input.split_runs;
    Ok(Box::new(Ordered::new(reader).splitting_runs(splits)))
}

impl Preset {
    /// Whether a line is the header with its own names.
    pub(crate) fn is_titled(&self, line: &[u8]) -> bool {
        let Ok(line) = std::str::from_utf8(line) else { return false };
        let mut names = line.split(',').map(|name| name.trim().trim_matches('"'));
        let mut own = self.titles.split(',');
        own.all(|title| names.next().is_some_and(|name| name.eq_ignore_ascii_case(title)))
    }

    /// Returns its columns; a test checks that they are valid.
    fn declared(&self) -> Option<Columns> {
        Some(self.columns.parse::<Columns>().ok()?.titled(self.titles))
    }
}

#[cfg(test)]
mod tests;
