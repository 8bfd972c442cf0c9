//! The list of all formats: how each of them is recognized, an example, and how its columns are
//! read.

use super::presets::{self, Preset};
use super::{
    Format, blkparse, blktrace, calls, csv, disksim_valid, fio, fio_latency, ftlsim, ftrace,
    hp_srt, nbdkit, objects, parquet, procmon, qemu, snoop, spdk, strace, sysdig, vscsi, xperf,
};

/// All formats, in the order in which they are tried. Those with a signature come first.
pub static FORMATS: &[Format] = &[
    Format::of_code("parquet", "canonical Parquet", parquet::sniff, parquet::open)
    .reading(&[("at_ns", "at:ns"), ("op", "op"), ("offset", "offset"), ("len", "len"), ("stream", "stream"), ("volume", "volume"), ("latency_ns", "latency:ns"), ("flags", "flags")])
    .recognized_by("PAR1 at its beginning, and the version in its metadata")
    .showing("$ forebay convert trace.csv trace.parquet"),
    Format::of_code(
        "hadoop-parquet",
        "captures of blktrace's Q events in Parquet (time_ns, pid, lba, sectors, ...)",
        parquet::sniff,
        parquet::open_hadoop,
    )
    .reading(&[("time_ns", "at:ns"), ("pid", "thread"), ("tgid", "process"), ("process", "name"), ("op", "op"), ("lba", "offset:sectors"), ("sectors", "len:sectors"), ("flags", "flags"), ("latency_ns", "latency:ns")])
    .recognized_by("PAR1 at its beginning, and the columns time_ns, pid, tgid and lba")
    .showing("$ forebay describe traces/terasort.parquet"),
    Format::of_code(
        "blktrace",
        "blktrace binary: base name, folder, tar, or any file of the set",
        |head| blktrace::sniff(head) || is_tar(head),
        blktrace::open,
    )
    .reading(&[("time", "at:ns"), ("device", "volume"), ("pid", "thread"), ("action", "op, flags"), ("sector", "offset:sectors"), ("bytes", "len"), ("names of processes", "name"), ("time of the completion (C)", "end:ns")])
    .recognized_by("the magic number 65617407 at the beginning of each record")
    .showing("$ blktrace -d /dev/sda -o trace -w 60"),
    Format::of_code(
        "hp-srt",
        "HP Labs SRT 1.3, binary with a text header",
        hp_srt::sniff,
        hp_srt::open,
    )
    .reading(&[("seconds, microseconds", "at:us"), ("completion", "latency:us"), ("bytes", "len"), ("block", "offset in sectors of the header's size"), ("device", "volume, name"), ("flags", "op")])
    .recognized_by("$$TR_IOREC- at its beginning")
    .showing("$ gunzip < cello99.srt.gz > cello99.srt"),
    Format::of_code("fio", "fio's I/O logs, versions 2 and 3", fio::sniff, fio::open)
    .reading(&[("time", "at:us"), ("file", "volume"), ("action", "op"), ("offset", "offset"), ("length", "len")])
    .showing("fio version 3 iolog\n0 /dev/sda add\n0 /dev/sda open\n13 /dev/sda read 4096 8192\n"),
    Format::of_code(
        "csv",
        "CSV recognized by its header: canonical, or with columns and units \
         (time_us,op,offset,size)",
        csv::sniff,
        csv::open,
    )
    .reading(&[("at_ns", "at:ns"), ("op", "op"), ("offset", "offset"), ("len", "len"), ("stream", "stream"), ("volume", "volume"), ("latency_ns", "latency:ns"), ("flags", "flags"), ("thread", "thread"), ("process", "process"), ("name", "name")])
    .showing("time_us,op,offset,len,latency_us\n0,R,4096,8192,105.5\n250,W,65536,4096,\n"),
    Format::of_code(
        "blkparse",
        "blkparse's output in its default format; blkparse:FORMAT for that of blkparse -f FORMAT",
        blkparse::sniff,
        blkparse::open,
    )
    .reading(&[("major,minor", "volume"), ("seconds", "at:s"), ("pid", "thread"), ("RWBS", "op, flags"), ("sector", "offset:sectors"), ("+ count", "len:sectors"), ("[process]", "name")])
    .showing("  8,0    1        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n  8,0    1        2     0.000001829   697  D   W 223490 + 8 [kjournald]\n  8,0    0        1     0.000900000     0  C   W 223490 + 8 [0]\n"),
    Format::of_code(
        "ftrace",
        "the kernel's block tracepoints: trace_pipe of ftrace, perf script, trace-cmd report",
        ftrace::sniff,
        ftrace::open,
    )
    .reading(&[("task", "name"), ("pid", "thread"), ("seconds", "at:s"), ("major,minor", "volume"), ("RWBS", "op, flags"), ("sector", "offset:sectors"), ("+ count", "len:sectors")])
    .showing(
        "  dd-7 [001] ..... 9904.831159: block_rq_issue: 8,0 R 4096 () 800 + 8 none,0,0 [dd]\n  <idle>-0 [003] d.h1. \
         9904.831178: block_rq_complete: 8,0 R () 800 + 8 none,0,0 [0]\n",
    ),
    Format::of_code(
        "snoop",
        "output of bcc's biosnoop or perf-tools' iosnoop, with the header line",
        snoop::sniff,
        snoop::open,
    )
    .reading(&[("TIME(s), TIMESTAMP, ENDs", "end:s"), ("STARTs", "at:s"), ("COMM", "name"), ("PID", "process"), ("DISK, DEV, FILENAME", "volume"), ("T, TYPE", "op, flags"), ("SECTOR, BLOCK", "offset:sectors"), ("OFF_KB", "offset:kib"), ("BYTES", "len"), ("LAT(ms), QUE(ms)", "latency:ms")])
    .showing("TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n0.000004    supervise      1950   xvda1   W 13092560   4096      0.74\n"),
    Format::of_code(
        "strace",
        "strace -f -ttt -T: the calls that read and write files; each file is a volume",
        calls::sniff::<strace::Strace>,
        calls::open::<strace::Strace>,
    )
    .reading(&[("pid", "thread"), ("seconds", "at:s"), ("call", "op"), ("file of the descriptor", "volume"), ("position", "offset"), ("result", "len"), ("<seconds>", "latency:s")])
    .showing("41 1767000000.100000 openat(AT_FDCWD, \"/srv/db\", O_RDWR) = 3 <0.000010>\n41 1767000000.100100 pread64(3, \
         \"..\", 4096, 8192) = 4096 <0.000050>\n"),
    Format::of_code(
        "sysdig",
        "sysdig's default output: the calls that read and write files; each file is a volume",
        calls::sniff::<sysdig::Sysdig>,
        calls::open::<sysdig::Sysdig>,
    )
    .reading(&[("time", "at:s"), ("process (thread)", "name, thread"), ("call", "op"), ("fd", "volume"), ("pos", "offset"), ("res", "len"), ("time of the return", "end:s")])
    .showing("7 09:00:00.000001000 1 db (50) > pread fd=3(<f>/srv/db) size=784 pos=64\n9 09:00:00.000003000 1 db (50) < pread \
         res=784 data=..\n"),
    Format::of_code("nbdkit", "the log of nbdkit's log filter", calls::sniff::<nbdkit::Nbdkit>, calls::open::<nbdkit::Nbdkit>)
    .reading(&[("date", "at:date"), ("connection", "stream"), ("action", "op"), ("export", "volume"), ("offset", "offset"), ("count", "len"), ("date of ...action", "end:date")])
    .showing(
        "2026-03-01 09:00:00.000200 connection=1 Write id=1 offset=0x1000 count=0x2000 fua=1 ...\n\
         2026-03-01 09:00:00.000400 connection=1 ...Write id=1 return=0\n",
    ),
    Format::of_code(
        "qemu",
        "QEMU's trace events of virtio-blk or of its block layer, with timestamps",
        calls::sniff::<qemu::Qemu>,
        calls::open::<qemu::Qemu>,
    )
    .reading(&[("seconds", "at:s"), ("event", "op"), ("vdev, blk", "volume"), ("sector", "offset:sectors"), ("nsectors", "len:sectors"), ("offset", "offset"), ("bytes", "len"), ("seconds of the completion", "end:s")])
    .showing("77@1767000000.000100:virtio_blk_handle_read vdev 0x56 req 0x7f sector 16 nsectors 8\n\
         77@1767000000.000400:virtio_blk_rw_complete vdev 0x56 req 0x7f ret 0\n"),
    Format::of_code("spdk", "spdk_trace's records of block devices", calls::sniff::<spdk::Spdk>, calls::open::<spdk::Spdk>)
    .reading(&[("us", "at:us"), ("type", "op"), ("core", "stream"), ("owner (b00)", "volume"), ("offset", "offset:sectors"), ("len, size", "len:sectors"), ("time, or us of BDEV_IO_DONE", "latency:us")])
    .showing("2: 10.500 b00 BDEV_IO_START id: i7 type: 2 ctx: 0x2000 offset:16 len: 8\n2: 90.750 b00 BDEV_IO_DONE id: i7 \
         time: 80.250 ctx: 0x2000\n"),
    Format::of_code(
        "ftlsim",
        "blkparse events as WiscSee rewrites them (pid action operation offset size ...)",
        ftlsim::sniff,
        ftlsim::open,
    )
    .reading(&[("pid", "thread"), ("operation", "op"), ("offset", "offset"), ("size", "len"), ("time", "at:s"), ("gap", "_"), ("sync", "flags")])
    .showing("7 D write 4096 1024 1.000000000 0 True\n7 C write 4096 1024 1.000100000 0.0001 True\n"),
    Format::of_code(
        "disksim-valid",
        "DiskSim's validation format (R/W buffer-action block size response gap)",
        disksim_valid::sniff,
        disksim_valid::open,
    )
    .reading(&[("R/W", "op"), ("buffer action", "_"), ("block", "offset:sectors"), ("size", "len:sectors"), ("response", "latency:us"), ("gap", "time since the previous completion, in us")])
    .showing("R Miss 564347 2 14095.370 13876.270\nW Doub 7 16 0.5 1000.0\n"),
    Format::of_code(
        "fio-latency",
        "fio's latency logs, recorded with log_offset=1",
        fio_latency::sniff,
        fio_latency::open,
    )
    .reading(&[("time", "end:ms"), ("value", "latency:ns"), ("direction", "op:0/1/2"), ("block size", "len"), ("offset", "offset"), ("priority", "_"), ("issue time", "at:ns")])
    .showing("0, 105500, 0, 4096, 8192, 0\n1, 98000, 1, 4096, 65536, 0\n"),
    // MSR Cambridge. Times are Windows FILETIMEs: ticks of 100 ns since 1601-01-01 UTC.
    Format::of_columns(
        "msr",
        "MSR Cambridge CSV (Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime)",
        Preset {
            columns: "at:filetime,volume,volume:number,op:Read/Write,offset,len,latency:ticks,sep=comma",
            titles: "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
            recognition: presets::Recognition::OrLonger,
            ..Preset::EXACT
        },
    )
    .showing("128166372003061629,usr,0,Read,7014609920,24576,41286\n128166372016382155,usr,0,Write,1317441536,8192,1963\n"),
    // SPC trace file specification 1.0.1. The LBA counts from the start of the ASU, seconds from
    // the start of the trace. Further fields are permitted.
    Format::of_columns(
        "spc",
        "SPC (ASU,LBA,Size,Opcode,Timestamp)",
        Preset {
            columns: "volume:number,offset:sectors,len,op:R/W,at:s,sep=comma",
            titles: "ASU,LBA,Size,Opcode,Timestamp",
            recognition: presets::Recognition::OrLonger,
            ..Preset::EXACT
        },
    )
    .showing("0,20941264,8192,W,0.551706\n0,20939840,8192,W,0.554041\n"),
    // SYSTOR '17 (Lee et al., enterprise VDI). Times are Unix seconds of the issue. Response may be
    // empty.
    Format::of_columns(
        "systor17",
        "SYSTOR '17 CSV (Timestamp,Response,IOType,LUN,Offset,Size)",
        Preset {
            columns: "at:s,latency:s,op:R/W,volume,offset,len,sep=comma",
            titles: "Timestamp,Response,IOType,LUN,Offset,Size",
            ..Preset::EXACT
        },
    )
    .showing("1455649200.001000000,0.000125,R,0,8192,4096\n1455649200.003000000,,W,0,65536,4096\n"),
    // Tencent cloud block storage (Zhang et al., ATC '20). Times are whole Unix seconds.
    Format::of_columns(
        "tencent-cbs",
        "Tencent cloud block storage CSV (Timestamp,Offset,Size,IOType,VolumeID)",
        Preset {
            columns: "at:s,offset:sectors,len:sectors,op:0/1,volume,sep=comma",
            titles: "Timestamp,Offset,Size,IOType,VolumeID",
            ..Preset::EXACT
        },
    )
    .showing("1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n"),
    // Alibaba block traces (Li et al., IISWC '20). Times are Unix microseconds.
    Format::of_columns(
        "alibaba",
        "Alibaba block traces CSV (device_id,opcode,offset,length,timestamp)",
        Preset {
            columns: "volume,op:R/W,offset,len,at:us,sep=comma",
            titles: "device_id,opcode,offset,length,timestamp",
            ..Preset::EXACT
        },
    )
    .showing("419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n"),
    // CloudPhysics vSCSI traces as text. Times are whole seconds since an arbitrary epoch.
    Format::of_columns(
        "cloudphysics",
        "CloudPhysics CSV (version,time,op,size,lbn), known by its header",
        Preset {
            columns: "_,at:s,op:scsi,len,offset:sectors,sep=comma",
            titles: "version,time,op,size,lbn",
            recognition: presets::Recognition::Titled,
            ..Preset::EXACT
        },
    )
    .showing("version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,4096,42932752\n"),
    // Thesios (Phothilimthana et al., ASPLOS '24): Google storage servers. Offsets are relative to
    // a file, so each file is a volume. The length is disk_io_size_bytes, the arrival start_time in
    // Unix seconds, and the latency disk_time; simulated times are ignored. Names are those of
    // applications.
    Format::of_columns(
        "thesios",
        "Thesios CSV of Google storage servers (17 columns)",
        Preset {
            columns: "volume,offset,name,_,_,_,op:READ/WRITE,_,_,_,_,len,_,at:s,latency:s,_,_,sep=comma",
            titles: "filename,file_offset,application,c_time,io_zone,redundancy_type,op_type,\
                 service_class,from_flash_cache,cache_hit,request_io_size_bytes,\
                 disk_io_size_bytes,response_io_size_bytes,start_time,disk_time,\
                 simulated_disk_start_time,simulated_latency",
            ..Preset::EXACT
        },
    )
    .showing("a0,4096,bigtable,2,WARM,R,WRITE,T,0,-1,3390,3390,0,1705305600.015989780,0.0,0,0\n\
         a1,8192,blobstore,2,COLD,E,READ,T,0,0,4096,4096,0,1705305600.019597054,0.004239065,1,1\n"),
    // DiskSim 4.0 manual, section on ASCII traces. Times are in ms, sectors are 512 bytes, and bit
    // 0 of the flags is set for reads.
    Format::of_columns(
        "disksim-ascii",
        "DiskSim ASCII (time device blkno size flags), times in ms with decimals",
        Preset {
            columns: "at:ms,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
            titles: presets::DISKSIM_TITLES,
            recognition: presets::Recognition::DecimalFirst,
            ..Preset::EXACT
        },
    )
    .showing("0.551706 0 20941264 16 0\n0.554041 0 20939840 16 1\n"),
    // MQSim: the same columns as disksim-ascii, with times in ns.
    Format::of_columns(
        "mqsim",
        "MQSim: DiskSim's columns, times in whole ns",
        Preset {
            columns: "at:ns,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
            titles: presets::DISKSIM_TITLES,
            recognition: presets::Recognition::Whole,
            ..Preset::EXACT
        },
    )
    .showing("551706000 0 20941264 16 0\n554041000 0 20939840 16 1\n"),
    // SSDsim (HUST): the same columns as disksim-ascii, with times in ns.
    Format::of_columns(
        "ssdsim",
        "SSDsim: DiskSim's columns, times in ns",
        Preset {
            columns: "at:ns,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
            titles: presets::DISKSIM_TITLES,
            recognition: presets::Recognition::Named,
            ..Preset::EXACT
        },
    )
    .showing("551706000 0 20941264 16 0\n554041000 0 20939840 16 1\n"),
    // Traces converted for SSDsim, with times in us.
    Format::of_columns(
        "ssdsim-us",
        "DiskSim's columns, times in us",
        Preset {
            columns: "at:us,volume,offset:sectors,len:sectors,op:disksim,sep=blank",
            titles: presets::DISKSIM_TITLES,
            recognition: presets::Recognition::Named,
            ..Preset::EXACT
        },
    )
    .showing("551706 0 20941264 16 0\n554041 0 20939840 16 1\n"),
    // Windows traces prepared for Heimdall (EuroSys '25). Times are in ms, but lengths in bytes
    // instead of sectors.
    Format::of_columns(
        "heimdall",
        "DiskSim's columns, times in ms, bytes instead of sectors",
        Preset {
            columns: "at:ms,volume,offset,len,op:disksim,sep=blank",
            titles: presets::DISKSIM_TITLES,
            recognition: presets::Recognition::Named,
            ..Preset::EXACT
        },
    )
    .showing("0.551 0 10721927168 8192 0\n0.554 0 10721198080 8192 1\n"),
    // Lists of the ARC paper (Megiddo and Modha, FAST '03): block, count, ignored, request number.
    // Blocks are 512 bytes. There are neither times nor operations.
    Format::of_columns(
        "arc",
        "ARC lists (block count ignored request): no times, no operations",
        Preset {
            columns: "offset:sectors,len:sectors,_,_,every=1ms,op=read,sep=blank",
            titles: "block,count,ignored,request",
            recognition: presets::Recognition::Whole,
            block_bytes: Some(512),
            warnings: &[
                "the format has no times: requests are assumed to be 1 ms apart; to assume another \
                 interval, declare the columns offset:sectors,len:sectors,_,_,every=TIME,op=read",
                "the format has no operations: every request is assumed to be a read",
                "the format does not contain the block size: 512 bytes are assumed",
            ],
        },
    )
    .showing("230027 8 0 0\n230035 8 0 1\n"),
    // FIU (Koller and Rangaswami, FAST '10), as published by SNIA. Times are in ns, sectors are 512
    // bytes. A hash of the content may follow.
    Format::of_columns(
        "fiu",
        "FIU's traces (ns pid process lba blocks R/W major minor, and maybe a hash)",
        Preset {
            columns: "at:ns,process,name,offset:sectors,len:sectors,op:R/W,volume,volume,sep=blank",
            titles: "time,pid,process,lba,blocks,op,major,minor,hash",
            ..Preset::EXACT
        },
    )
    .showing(
        "89967404326000 4892 syslogd 904265560 8 W 6 0 531e779343adeee7e9ca8fd4bed06b8a\n\
         89967443390000 2522 kjournald 926858672 8 W 6 0 4fd0aef5ff74ad2bbcbf6c5c9f8f3c6d\n",
    ),
    // Meta's Tectonic block traces (Wong et al., FAST '24, Baleen). Offsets are relative to a block
    // of a file, so each block is a volume. Operations are gets (1, 2, 5) and puts (3, 4, 6).
    Format::of_columns(
        "meta-block",
        "Meta's Tectonic block traces (block_id io_offset io_size op_time op_name ...)",
        Preset {
            columns: "volume,offset,len,at:s,op:1+2+5/3+4+6,_,_,_,sep=blank",
            titles: "block_id,io_offset,io_size,op_time,op_name,user_namespace,user_name,host_name",
            recognition: presets::Recognition::OrLonger,
            warnings: &["the column op_count is ignored: each row counts as one request"],
            ..Preset::EXACT
        },
    )
    .showing(
        "9001 0 131072 1675209601.125 2 3 17 4 1 55\n9002 1048576 262144 1675209601.250 4 3 17 4 1 56\n",
    ),
    // hfplayer of NetApp and CRIS (Haghdoost et al., FAST '17). Times are in microseconds, blocks
    // are 512 bytes.
    Format::of_columns(
        "hfplayer",
        "traces of hfplayer (#DUMP_OFFSET.I,ELAPSED_USECS.D,...)",
        Preset {
            columns: "_,at:us,_,op:RD_IN/WR_IN,_,_,_,volume,_,_,offset:sectors,len:sectors,_,_,_,latency:us,sep=comma",
            titles: "#DUMP_OFFSET.I,ELAPSED_USECS.D,ELAPSED_TICKS.I,CMD.S,INFLIGHT_IOS.I,TS.I,SEQID.I,\
                     LUN_SSID.I,OP.I,PHASE.I,LBA.I,NBLKS.I,LATENCY_TICKS.I,HOST_ID.I,HOST_LUN.I,\
                     LATENCY_USECS.D",
            ..Preset::EXACT
        },
    )
    .showing(
        "#DUMP_OFFSET.I,ELAPSED_USECS.D,ELAPSED_TICKS.I,CMD.S,INFLIGHT_IOS.I,TS.I,SEQID.I,LUN_SSID.I,OP.I,PHASE.I,\
         LBA.I,NBLKS.I,LATENCY_TICKS.I,HOST_ID.I,HOST_LUN.I,LATENCY_USECS.D\n\
         5488,1200.500,2561066,WR_IN,0,90001,17,5,1,0,2048,8,149108,7,5,69.894\n\
         5516,1310.250,2795200,RD_IN,1,90002,18,5,0,0,4096,16,163424,7,5,76.605\n",
    ),
    // Command traces of VMware's vscsiStats, exported as text. Times are in microseconds, sectors
    // are 512 bytes.
    Format::of_columns(
        "vscsi-csv",
        "command traces of vscsiStats as text (serial number, length, SG entries, command, LBN, us)",
        Preset {
            columns: "_,len,_,op,offset:sectors,at:us,sep=comma",
            titles: "#Serial Number,IO Data Length,Num SG Entries,Command Type,LBN,Time Stamp (microseconds)",
            ..Preset::EXACT
        },
    )
    .showing(
        "#Vscsi Cmd Trace. (Trace Format Version 1)\n\
         #Serial Number,IO Data Length,Num SG Entries,Command Type,LBN,Time Stamp (microseconds)\n\
         2147483692,4096,1,write,24048792,2756778716647\n2147483769,8192,1,read,6322464,2756783857269\n",
    ),
    Format::of_code(
        "procmon",
        "CSV of Process Monitor: reads, writes and flushes of files",
        procmon::sniff,
        procmon::open,
    )
    .reading(&[("Time of Day, Date & Time", "at"), ("Process Name", "name"), ("PID", "process"), ("TID", "thread"), ("Operation", "op"), ("Path", "volume"), ("Detail: Offset", "offset"), ("Detail: Length", "len"), ("Duration", "latency:s")])
    .showing(
        "\"Time of Day\",\"Process Name\",\"PID\",\"Operation\",\"Path\",\"Result\",\"Detail\",\"Duration\"\n\
         \"10:15:23.1234567 AM\",\"a.exe\",\"1234\",\"ReadFile\",\"C:\\a.txt\",\"SUCCESS\",\
         \"Offset: 8,192, Length: 4,096\",\"0.0000123\"\n",
    ),
    Format::of_code(
        "xperf",
        "text of xperf -a dumper: the events DiskRead, DiskWrite and DiskFlush",
        xperf::sniff,
        xperf::open,
    )
    .reading(&[("TimeStamp", "end:us"), ("Process Name ( PID)", "name, process"), ("ThreadID", "thread"), ("event", "op"), ("ByteOffset", "offset"), ("IOSize", "len"), ("ElapsedTime", "latency:us"), ("DiskNum", "volume")])
    .showing(
        "BeginHeader\n\
         DiskRead, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset, IOSize, ElapsedTime, DiskNum\n\
         EndHeader\n\
         DiskRead, 1500, java.exe ( 42), 7, 0xfa00, 0x0000100000, 0x00001000, 400, 0\n",
    ),
    Format::of_code(
        "twitter",
        "Twitter's cache traces (time, key, key size, value size, client, operation, TTL)",
        objects::table::sniff_twitter,
        objects::table::open_twitter,
    )
    .showing("0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n1,yDqF:3q:1AJrrJ1nnCJKKrn,27,27,5,set,3600\n"),
    Format::of_code(
        "vscsi",
        "VMware vSCSI binary as of CloudPhysics, versions 1 and 2",
        vscsi::sniff,
        vscsi::open,
    )
    .reading(&[("time", "at:us"), ("operation", "op:scsi"), ("length", "len"), ("block", "offset:sectors"), ("response (version 2)", "latency:us")])
    .recognized_by("the version in each of its first records")
    .showing("$ xz -d w01_vscsi.xz"),
    Format::of_code(
        "oracle-general",
        "libCacheSim's oracleGeneral, binary: time, object, size, next use",
        objects::oracle::sniff,
        objects::oracle::open,
    )
    .reading(&[("time", "at:s"), ("object", "offset, assigned"), ("size", "len"), ("next use", "_")])
    .recognized_by("records of 24 bytes with plausible times and next uses")
    .showing("$ zstd -d trace.oracleGeneral.zst"),
    Format::of_code(
        "object-csv",
        "CSV of an object cache in libCacheSim's format, recognized by its header \
         (time,obj_id,obj_size)",
        objects::table::sniff,
        objects::table::open,
    )
    .reading(&[("time", "at:s"), ("obj_id", "offset, assigned"), ("obj_size", "len"), ("op", "op")])
    .showing("time,obj_id,obj_size,op\n0,71,4096,get\n1,72,8192,set\n"),
];

/// Returns whether content is a tar archive, which is supported only for blktrace sets.
fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}
