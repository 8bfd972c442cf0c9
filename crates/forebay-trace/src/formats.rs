//! Trace formats, one file each, and the list of all formats.

pub mod blkparse;
pub mod blktrace;
mod clock;
pub mod csv;
pub mod disksim_valid;
pub mod fio;
pub mod fio_latency;
mod frames;
pub mod hp_srt;
mod log;
mod numbering;
pub mod objects;
pub mod parquet;
pub mod presets;
pub mod snoop;
mod titles;
pub mod vscsi;

use std::io::BufRead;
use std::path::PathBuf;

use self::presets::Preset;
use crate::bad_rows::BadRowsMax;
use crate::error::TraceError;
use crate::trace::Reader;
use crate::unpack::{Consumed, Packing};

/// A file to read.
pub struct Input {
    /// Its path.
    pub path: PathBuf,
    /// Its compression.
    pub packing: Packing,
    /// Its uncompressed content.
    pub content: Box<dyn BufRead + Send>,
    /// The number of bytes read, counted by `content`; readers that bypass `content` have to count
    /// here themselves.
    pub consumed: Consumed,
    /// Whether a step back of the clock begins another run, which is placed after the previous one.
    pub split_runs: bool,
    /// The share of rows that may be unreadable.
    pub bad_rows_max: BadRowsMax,
}

impl Input {
    /// Makes an input whose progress is not observed, and of which every row has to be readable.
    pub fn new(path: PathBuf, packing: Packing, content: Box<dyn BufRead + Send>) -> Input {
        let consumed = Consumed::default();
        Input {
            path,
            packing,
            content,
            consumed,
            split_runs: false,
            bad_rows_max: BadRowsMax::NONE,
        }
    }
}

/// A readable format.
pub struct Format {
    /// Its name in `--from` and [`crate::Notes::format`].
    pub name: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    reads: Reads,
}

/// How a format is read.
enum Reads {
    /// By code of its own.
    Code { sniff: Sniff, open: Open },
    /// By a declaration of the columns of its rows.
    Columns(Preset),
}

/// Whether unpacked content that begins so looks like a format.
type Sniff = fn(&[u8]) -> bool;
/// Reads a format.
type Open = fn(Input) -> Result<Box<dyn Reader>, TraceError>;

impl Format {
    const fn of_code(name: &'static str, about: &'static str, sniff: Sniff, open: Open) -> Format {
        Format { name, about, reads: Reads::Code { sniff, open } }
    }

    const fn of_columns(name: &'static str, about: &'static str, preset: Preset) -> Format {
        Format { name, about, reads: Reads::Columns(preset) }
    }

    /// Returns the format of that name.
    pub fn named(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Returns whether unpacked content that begins with `head` looks like it.
    pub fn sniff(&self, head: &[u8]) -> bool {
        match &self.reads {
            Reads::Code { sniff, .. } => sniff(head),
            Reads::Columns(preset) => preset.sniff(head),
        }
    }

    /// Opens a reader.
    ///
    /// # Errors
    /// Content that is not of this format.
    pub fn open(&self, input: Input) -> Result<Box<dyn Reader>, TraceError> {
        match &self.reads {
            Reads::Code { open, .. } => open(input),
            Reads::Columns(preset) => preset.open(self.name, input),
        }
    }

    /// Returns the declaration of its columns, if it is a text that is read by one.
    pub fn preset(&self) -> Option<&Preset> {
        match &self.reads {
            Reads::Columns(preset) => Some(preset),
            Reads::Code { .. } => None,
        }
    }
}

/// All formats, in the order in which they are tried: those with a signature first.
pub static FORMATS: &[Format] = &[
    Format::of_code("parquet", "canonical Parquet", parquet::sniff, parquet::open),
    Format::of_code(
        "hadoop-parquet",
        "captures of blktrace's Q events in Parquet (time_ns, pid, lba, sectors, ...)",
        parquet::sniff,
        parquet::open_hadoop,
    ),
    Format::of_code(
        "blktrace",
        "blktrace binary: base name, folder, tar, or one file of the set",
        |head| blktrace::sniff(head) || is_tar(head),
        |input| Ok(Box::new(blktrace::Blktrace::open(&input.path)?)),
    ),
    Format::of_code(
        "hp-srt",
        "HP Labs SRT 1.3, binary with a text header",
        hp_srt::sniff,
        hp_srt::open,
    ),
    Format::of_code("fio", "fio's I/O logs, versions 2 and 3", fio::sniff, fio::open),
    Format::of_code(
        "csv",
        "CSV recognized by its header: canonical, or with columns and units \
         (time_us,op,offset,size)",
        csv::sniff,
        csv::open,
    ),
    Format::of_code(
        "blkparse",
        "blkparse's output in its default format",
        blkparse::sniff,
        |input| {
            let Input { path, content, split_runs, .. } = input;
            Ok(Box::new(blkparse::Blkparse::splitting_runs(&path, content, split_runs)?))
        },
    ),
    Format::of_code(
        "snoop",
        "output of bcc's biosnoop or perf-tools' iosnoop, with the header line",
        snoop::sniff,
        snoop::open,
    ),
    Format::of_code(
        "ftlsim",
        "blkparse events as WiscSee rewrites them (pid action operation offset size ...)",
        blkparse::ftlsim::sniff,
        blkparse::ftlsim::open,
    ),
    Format::of_code(
        "disksim-valid",
        "DiskSim's validation format (R/W buffer-action block size response gap)",
        disksim_valid::sniff,
        disksim_valid::open,
    ),
    Format::of_code(
        "fio-latency",
        "fio's latency logs, recorded with log_offset=1",
        fio_latency::sniff,
        fio_latency::open,
    ),
    // MSR Cambridge. Windows FILETIME: ticks of 100 ns since 1601-01-01 UTC.
    Format::of_columns(
        "msr",
        "MSR Cambridge CSV (Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime)",
        Preset {
            columns: "at:filetime,volume,volume:number,op:Read/Write,offset,len,latency:ticks,sep=comma",
            titles: "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
            looks: presets::Looks::OrLonger,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // SPC trace file specification 1.0.1. LBA from the start of its ASU; seconds from the start of
    // the trace; further fields are allowed.
    Format::of_columns(
        "spc",
        "SPC (ASU,LBA,Size,Opcode,Timestamp)",
        Preset {
            columns: "volume:number,offset:sectors,len,op:R/W,at:s,sep=comma",
            titles: "ASU,LBA,Size,Opcode,Timestamp",
            looks: presets::Looks::OrLonger,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // SYSTOR '17 (Lee et al., enterprise VDI). Unix seconds of the issue; Response may be empty.
    Format::of_columns(
        "systor17",
        "SYSTOR '17 CSV (Timestamp,Response,IOType,LUN,Offset,Size)",
        Preset {
            columns: "at:s,latency:s,op:R/W,volume,offset,len,sep=comma",
            titles: "Timestamp,Response,IOType,LUN,Offset,Size",
            looks: presets::Looks::Exact,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // Tencent cloud block storage (Zhang et al., ATC '20). Whole Unix seconds.
    Format::of_columns(
        "tencent-cbs",
        "Tencent cloud block storage CSV (Timestamp,Offset,Size,IOType,VolumeID)",
        Preset {
            columns: "at:s,offset:sectors,len:sectors,op:0/1,volume,sep=comma",
            titles: "Timestamp,Offset,Size,IOType,VolumeID",
            looks: presets::Looks::Exact,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // Alibaba block traces (Li et al., IISWC '20). Unix microseconds.
    Format::of_columns(
        "alibaba",
        "Alibaba block traces CSV (device_id,opcode,offset,length,timestamp)",
        Preset {
            columns: "volume,op:R/W,offset,len,at:us,sep=comma",
            titles: "device_id,opcode,offset,length,timestamp",
            looks: presets::Looks::Exact,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // CloudPhysics vSCSI traces as text. Whole seconds since an arbitrary epoch.
    Format::of_columns(
        "cloudphysics",
        "CloudPhysics CSV (version,time,op,size,lbn), known by its header",
        Preset {
            columns: "_,at:s,op:scsi,len,offset:sectors,sep=comma",
            titles: "version,time,op,size,lbn",
            looks: presets::Looks::Titled,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // Thesios (Phothilimthana et al., ASPLOS '24): Google storage servers. Offsets are relative to
    // a file, so every file is a volume. Length is disk_io_size_bytes, arrival start_time in Unix
    // seconds, latency disk_time; simulated times are not read. Names are applications.
    Format::of_columns(
        "thesios",
        "Thesios CSV of Google storage servers (17 columns)",
        Preset {
            columns: "volume,offset,name,_,_,_,op:READ/WRITE,_,_,_,_,len,_,at:s,latency:s,_,_,sep=comma",
            titles: "filename,file_offset,application,c_time,io_zone,redundancy_type,op_type,\
                 service_class,from_flash_cache,cache_hit,request_io_size_bytes,\
                 disk_io_size_bytes,response_io_size_bytes,start_time,disk_time,\
                 simulated_disk_start_time,simulated_latency",
            looks: presets::Looks::Exact,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // DiskSim 4.0 manual, section on ASCII traces: ms, sectors of 512 bytes, bit 0 of flags for
    // reads.
    Format::of_columns(
        "disksim-ascii",
        "DiskSim ASCII (time device blkno size flags), times in ms with decimals",
        Preset {
            columns: "at:ms,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
            titles: presets::DISKSIM_TITLES,
            looks: presets::Looks::DecimalFirst,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // MQSim: the same columns in ns.
    Format::of_columns(
        "mqsim",
        "MQSim: DiskSim's columns, times in whole ns",
        Preset {
            columns: "at:ns,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
            titles: presets::DISKSIM_TITLES,
            looks: presets::Looks::Whole,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // SSDsim (HUST): the same columns in ns.
    Format::of_columns(
        "ssdsim",
        "SSDsim: DiskSim's columns, times in ns",
        Preset {
            columns: "at:ns,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
            titles: presets::DISKSIM_TITLES,
            looks: presets::Looks::Named,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // Traces converted for SSDsim in us.
    Format::of_columns(
        "ssdsim-us",
        "DiskSim's columns, times in us",
        Preset {
            columns: "at:us,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
            titles: presets::DISKSIM_TITLES,
            looks: presets::Looks::Named,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // Windows traces prepared for Heimdall (EuroSys '25): ms, but bytes instead of sectors.
    Format::of_columns(
        "heimdall",
        "DiskSim's columns, times in ms, bytes instead of sectors",
        Preset {
            columns: "at:ms,volume,offset,len,op:disksim,sep=blank",
            titles: presets::DISKSIM_TITLES,
            looks: presets::Looks::Named,
            block_bytes: None,
            warnings: &[],
        },
    ),
    // Lists of the ARC paper (Megiddo and Modha, FAST '03): block, count, ignored, request number,
    // in blocks of 512 bytes. They have neither times nor operations.
    Format::of_columns(
        "arc",
        "ARC lists (block count ignored request): no times, no operations",
        Preset {
            columns: "offset:sectors,len:sectors,_,_,every=1ms,op=read,sep=blank",
            titles: "block,count,ignored,request",
            looks: presets::Looks::Whole,
            block_bytes: Some(512),
            warnings: &[
                "the format has no times: requests are assumed to be 1 ms apart; the columns \
                 offset:sectors,len:sectors,_,_,every=TIME,op=read space them otherwise",
                "the format has no operations: every request is assumed to be a read",
                "the format does not give the size of its blocks: 512 bytes are assumed",
            ],
        },
    ),
    Format::of_code(
        "vscsi",
        "VMware vSCSI binary as of CloudPhysics, versions 1 and 2",
        vscsi::sniff,
        vscsi::open,
    ),
    Format::of_code(
        "oracle-general",
        "libCacheSim's oracleGeneral, binary: time, object, size, next use",
        objects::oracle::sniff,
        objects::oracle::open,
    ),
    Format::of_code(
        "object-csv",
        "CSV of an object cache in libCacheSim's format, recognized by its header \
         (time,obj_id,obj_size)",
        objects::table::sniff,
        objects::table::open,
    ),
];

/// Returns whether content is a tar archive, which is only supported for blktrace sets.
fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::trace::{Dictionary, Notes, Record};
    use forebay_ask::{Spelling, spelled};
    use std::io::Cursor;

    /// Makes an input from text.
    pub(crate) fn input(text: &[u8]) -> Input {
        Input::new("trace".into(), Packing::Plain, Box::new(Cursor::new(text.to_vec())))
    }

    /// Reads a whole text.
    pub(crate) fn read(
        open: impl FnOnce(Input) -> Result<Box<dyn Reader>, TraceError>,
        text: &[u8],
    ) -> (Vec<Record>, Dictionary, Notes) {
        drain(open(input(text)).unwrap()).unwrap()
    }

    /// Returns the error message that reading a text ends with.
    pub(crate) fn message(
        open: impl FnOnce(Input) -> Result<Box<dyn Reader>, TraceError>,
        text: &[u8],
    ) -> String {
        let error = open(input(text)).and_then(drain).unwrap_err();
        spelled(&error.to_string(), Spelling::Command)
    }

    /// Reads to the end.
    pub(crate) fn drain(
        mut reader: Box<dyn Reader>,
    ) -> Result<(Vec<Record>, Dictionary, Notes), TraceError> {
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        loop {
            reader.read(&mut batch)?;
            if batch.is_empty() {
                return Ok((all, reader.dictionary().clone(), reader.notes().clone()));
            }
            all.extend_from_slice(&batch);
        }
    }

    #[test]
    fn names_are_distinct() {
        for (n, format) in FORMATS.iter().enumerate() {
            assert!(FORMATS[..n].iter().all(|f| f.name != format.name), "{}", format.name);
        }
    }
}
