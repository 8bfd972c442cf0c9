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
}

impl Input {
    /// Makes an input whose progress is not observed.
    pub fn new(path: PathBuf, packing: Packing, content: Box<dyn BufRead + Send>) -> Input {
        Input { path, packing, content, consumed: Consumed::default(), split_runs: false }
    }
}

/// A readable format.
pub struct Format {
    /// Its name in `--from` and [`crate::Notes::format`].
    pub name: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    /// Whether uncompressed content that begins like this looks like the format.
    pub sniff: fn(&[u8]) -> bool,
    /// Opens a reader.
    pub open: fn(Input) -> Result<Box<dyn Reader>, TraceError>,
}

/// All formats, in the order in which they are tried: those with a signature first.
pub static FORMATS: &[Format] = &[
    Format {
        name: "parquet",
        about: "canonical Parquet",
        sniff: parquet::sniff,
        open: parquet::open,
    },
    Format {
        name: "hadoop-parquet",
        about: "captures of blktrace's Q events in Parquet (time_ns, pid, lba, sectors, ...)",
        sniff: parquet::sniff,
        open: parquet::open_hadoop,
    },
    Format {
        name: "blktrace",
        about: "blktrace binary: base name, folder, tar, or one file of the set",
        sniff: |head| blktrace::sniff(head) || is_tar(head),
        open: |input| Ok(Box::new(blktrace::Blktrace::open(&input.path)?)),
    },
    Format {
        name: "hp-srt",
        about: "HP Labs SRT 1.3, binary with a text header",
        sniff: hp_srt::sniff,
        open: hp_srt::open,
    },
    Format {
        name: "fio",
        about: "fio's I/O logs, versions 2 and 3",
        sniff: fio::sniff,
        open: fio::open,
    },
    Format {
        name: "csv",
        about: "CSV known by its header: canonical, or one that names columns and units (time_us,op,offset,size)",
        sniff: csv::sniff,
        open: csv::open,
    },
    Format {
        name: "blkparse",
        about: "the text that blkparse prints by default",
        sniff: blkparse::sniff,
        open: |input| {
            let Input { path, content, split_runs, .. } = input;
            Ok(Box::new(blkparse::Blkparse::splitting_runs(&path, content, split_runs)?))
        },
    },
    Format {
        name: "snoop",
        about: "what bcc's biosnoop or perf-tools' iosnoop prints, with its header line",
        sniff: snoop::sniff,
        open: snoop::open,
    },
    Format {
        name: "ftlsim",
        about: "blkparse events as WiscSee rewrites them (pid action operation offset size ...)",
        sniff: blkparse::ftlsim::sniff,
        open: blkparse::ftlsim::open,
    },
    Format {
        name: "disksim-valid",
        about: "DiskSim's validation format (R/W buffer-action block size response gap)",
        sniff: disksim_valid::sniff,
        open: disksim_valid::open,
    },
    Format {
        name: "fio-latency",
        about: "fio's latency logs, recorded with log_offset=1",
        sniff: fio_latency::sniff,
        open: fio_latency::open,
    },
    Format {
        name: "msr",
        about: "MSR Cambridge CSV (Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime)",
        sniff: |head| presets::sniff("msr", head),
        open: |input| presets::open("msr", input),
    },
    Format {
        name: "spc",
        about: "SPC (ASU,LBA,Size,Opcode,Timestamp)",
        sniff: |head| presets::sniff("spc", head),
        open: |input| presets::open("spc", input),
    },
    Format {
        name: "systor17",
        about: "SYSTOR '17 CSV (Timestamp,Response,IOType,LUN,Offset,Size)",
        sniff: |head| presets::sniff("systor17", head),
        open: |input| presets::open("systor17", input),
    },
    Format {
        name: "tencent-cbs",
        about: "Tencent cloud block storage CSV (Timestamp,Offset,Size,IOType,VolumeID)",
        sniff: |head| presets::sniff("tencent-cbs", head),
        open: |input| presets::open("tencent-cbs", input),
    },
    Format {
        name: "alibaba",
        about: "Alibaba block traces CSV (device_id,opcode,offset,length,timestamp)",
        sniff: |head| presets::sniff("alibaba", head),
        open: |input| presets::open("alibaba", input),
    },
    Format {
        name: "cloudphysics",
        about: "CloudPhysics CSV (version,time,op,size,lbn), known by its header",
        sniff: |head| presets::sniff("cloudphysics", head),
        open: |input| presets::open("cloudphysics", input),
    },
    Format {
        name: "thesios",
        about: "Thesios CSV of Google storage servers (17 columns)",
        sniff: |head| presets::sniff("thesios", head),
        open: |input| presets::open("thesios", input),
    },
    Format {
        name: "disksim-ascii",
        about: "DiskSim ASCII (time device blkno size flags), times in ms with decimals",
        sniff: |head| presets::sniff("disksim-ascii", head),
        open: |input| presets::open("disksim-ascii", input),
    },
    Format {
        name: "mqsim",
        about: "MQSim: DiskSim's columns, times in whole ns",
        sniff: |head| presets::sniff("mqsim", head),
        open: |input| presets::open("mqsim", input),
    },
    Format {
        name: "ssdsim",
        about: "SSDsim: DiskSim's columns, times in ns",
        sniff: |head| presets::sniff("ssdsim", head),
        open: |input| presets::open("ssdsim", input),
    },
    Format {
        name: "ssdsim-us",
        about: "DiskSim's columns, times in us",
        sniff: |head| presets::sniff("ssdsim-us", head),
        open: |input| presets::open("ssdsim-us", input),
    },
    Format {
        name: "heimdall",
        about: "DiskSim's columns, times in ms, bytes in place of sectors",
        sniff: |head| presets::sniff("heimdall", head),
        open: |input| presets::open("heimdall", input),
    },
    Format {
        name: "arc",
        about: "ARC lists (block count ignored request): no times, no operations",
        sniff: |head| presets::sniff("arc", head),
        open: |input| presets::open("arc", input),
    },
    Format {
        name: "vscsi",
        about: "VMware vSCSI binary as of CloudPhysics, versions 1 and 2",
        sniff: vscsi::sniff,
        open: vscsi::open,
    },
    Format {
        name: "oracle-general",
        about: "libCacheSim's oracleGeneral, binary: time, object, size, next use",
        sniff: objects::oracle::sniff,
        open: objects::oracle::open,
    },
    Format {
        name: "object-csv",
        about: "CSV of an object cache as libCacheSim reads it, known by its header (time,obj_id,obj_size)",
        sniff: objects::table::sniff,
        open: objects::table::open,
    },
];

/// Whether content is a tar archive, which is only supported for blktrace sets.
fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::trace::{Dictionary, Notes, Record};
    use forebay_ask::{Spelling, spelled};
    use std::io::Cursor;

    type Open = fn(Input) -> Result<Box<dyn Reader>, TraceError>;

    /// Makes an input from text.
    pub(crate) fn input(text: &[u8]) -> Input {
        Input::new("trace".into(), Packing::Plain, Box::new(Cursor::new(text.to_vec())))
    }

    /// Reads a whole text.
    pub(crate) fn read(open: Open, text: &[u8]) -> (Vec<Record>, Dictionary, Notes) {
        drain(open(input(text)).unwrap()).unwrap()
    }

    /// Returns the error message that reading a text ends with.
    pub(crate) fn message(open: Open, text: &[u8]) -> String {
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
