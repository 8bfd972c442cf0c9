#!/usr/bin/env python3
"""Writes the fuzzers' seeds: small valid inputs that reach most of each parser.

Needs pyarrow, for Parquet only, and the command (`cargo build`), for models only. The seeds are
committed; run this again when a format grows:
python3 fuzz/seeds.py
"""

import bz2
import gzip
import io
import lzma
import random
import re
import struct
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
READ, WRITE, FLUSH, SYNC, PC, NOTIFY = 1, 2, 4, 8, 1 << 9, 1 << 10
AHEAD, META, DISCARD, FUA = 1 << 11, 1 << 12, 1 << 13, 1 << 15


PROCMON = (
    "procmon\n"
    '"Time of Day","Process Name","PID","Operation","Path","Result","Detail","Duration"\n'
    '"10:15:23.1 AM","a.exe","1","ReadFile","C:\\a ""b"".txt","SUCCESS","Offset: 8,192, Length: 4,096","0.00001"\n'
    '"11:59:59.9 PM","a.exe","1","WriteFile","D:\\c","SUCCESS","Offset: 0, Length: 1, I/O Flags: x","0.2"\n'
    '"12:00:00.1 AM","a.exe","1","FlushBuffersFile","D:\\c","SUCCESS","",""\n'
)
XPERF = (
    "xperf\nBeginHeader\n"
    "DiskRead, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset, IOSize, ElapsedTime, DiskNum\n"
    "DiskFlush, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ElapsedTime, DiskNum\n"
    "EndHeader\n"
    "DiskRead, 1500, java.exe ( 42), 7, 0xfa00, 0x0000100000, 0x00001000, 400, 0\n"
    "DiskFlush, 1700, Unknown (  -1), 8, 0xfa01, 100, 1\n"
)


def seed(target, name, content):
    folder = HERE / "seeds" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return content


def event(ns, kind, category, sector=0, size=0, pid=7, payload=b"", order="<", cgroup=False):
    """One record of blktrace, version 7."""
    action = (kind | (1 << 8 if cgroup else 0)) | category << 16
    return struct.pack(
        order + "IIQQIIIIIHH",
        0x65617407, ns // 10, ns, sector, size, action, pid, 8 << 20 | 16, 0, 0, len(payload),
    ) + payload


def life(ns, sector, size, category, pid, order="<"):
    """A request that is queued, issued and completed."""
    return b"".join([
        event(ns, 1, category, sector, size, pid, order=order),
        event(ns + 50, 4, category, sector, size, pid, order=order),
        event(ns + 100, 7, category, sector, size, pid, order=order),
        event(ns + 9000, 8, category, sector, size, 0, order=order),
    ])


def blktrace():
    name = event(5, 0, NOTIFY, payload=b"java\0\0\0\0", order="<")
    clock = event(6, 1, NOTIFY, payload=struct.pack("<II", 1, 2))
    message = event(7, 2, NOTIFY, payload=b"hello", cgroup=True)
    plain = b"".join([
        name, clock, message,
        life(1000, 2048, 4096, READ, 7), life(20000, 4096, 8192, WRITE | SYNC | META, 8),
        life(40000, 0, 0, FLUSH | WRITE | SYNC, 8), life(60000, 1 << 20, 1 << 23, READ | AHEAD, 7),
        life(80000, 512, 1 << 20, DISCARD | WRITE, 9), life(90000, 64, 512, WRITE | FUA, 9),
        event(95000, 1, PC | READ, 0, 36, 9, payload=b"\x12\0\0\0\x24\0"),
    ])
    split = b"".join([  # One queued request that is issued and completed in two parts, out of order.
        event(1000, 1, READ, 100, 8192, 3), event(1100, 7, READ, 100, 4096, 3),
        event(1200, 7, READ, 108, 4096, 3), event(5000, 8, READ, 108, 4096, 0),
        event(6000, 8, READ, 100, 4096, 0), event(500, 1, WRITE, 900, 512, 4, cgroup=True,
                                                  payload=b"\1\0\0\0\2\0\0\0"),
        event(7000, 8, WRITE, 900, 512, 0),
    ])
    merged = b"".join([  # Two queued requests that complete as one.
        event(100, 1, WRITE, 40, 4096, 5), event(200, 1, WRITE, 48, 4096, 6),
        event(300, 7, WRITE, 40, 8192, 5), event(900, 8, WRITE, 40, 8192, 0),
    ])
    big = b"".join(life(1000 * n, 8 * n, 4096, READ, n, ">") for n in range(1, 6))
    seed("blktrace", "plain", b"\0" + plain)
    seed("blktrace", "two-cpus", b"\x80" + split + merged + plain)
    seed("blktrace", "big-endian", b"\0" + big)
    seed("blktrace", "zeros-at-the-end", b"\0" + merged + bytes(96))
    seed("blktrace", "cut", b"\0" + split[:-20])
    seed("blktrace", "damaged-first", b"\0" + b"\xee" * 48 + plain)
    seed("blktrace", "copied", b"\x80" + plain + plain)
    return plain, split, merged


def capture_stream():
    """A tracer's stream: records, lost events, noise; the first byte is the size of its pieces."""
    lost = b"CPU:1 [LOST 12 EVENTS]\n"
    stream = life(1000, 8, 4096, READ, 77) + lost + event(3000, 2, NOTIFY, payload=b"name\0\0\0\0")
    seed("capture", "stream", b"\x07" + stream + b"??" + lost + life(5000, 16, 512, WRITE, 78))
    seed("capture", "cut", b"\xff" + stream[:-5])
    seed("capture", "no-line", b"\x00CPU:" + b"x" * 80 + stream)


def blkparse():
    def line(cpu, seq, ns, pid, action, rwbs, rest):
        at = f"{ns // 10**9:>5}.{ns % 10**9:09}"
        return f"  8,16 {cpu:>3} {seq:>8} {at} {pid:>5}  {action}  {rwbs:>3} {rest}\n"

    text = "".join([
        line(0, 1, 0, 7, "Q", "RM", "2048 + 8 [java]"),
        line(0, 2, 1200, 7, "G", "RM", "2048 + 8 [java]"),
        line(0, 3, 1300, 7, "P", "N", "[java]"),
        line(0, 4, 1400, 7, "U", "N", "[java] 1"),
        line(0, 5, 1500, 7, "D", "RM", "2048 + 8 [java]"),
        line(1, 1, 9000, 0, "C", "RM", "2048 + 8 [0]"),
        line(1, 2, 9500, 8, "A", "WS", "4096 + 8 <- (8,1) 2048"),
        line(1, 3, 9600, 8, "Q", "FWFSM", "4096 + 8 [jbd2/sdb-8]"),
        line(1, 4, 9700, 8, "Q", "FWS", "[kworker/u8:1]"),
        line(1, 5, 9800, 9, "Q", "DS", "8192 + 2048 [(null)]"),
        line(0, 6, 9900, 9, "Q", "RA", "16384 + 16384 [a [b] c]"),
        line(0, 7, 9950, 9, "I", "R", "36 (12 01 00 00 24 00 ..) [smartd]"),
        line(0, 8, 9960, 9, "D", "R", "36 (12 01 00 00 24 00 ..) [smartd]"),
        line(0, 9, 9970, 9, "m", "N", "cfq7S / alloced"),
        line(2, 1, 9980, 0, "C", "FWFSM", "4096 + 8 (  380) [0]"),
        line(2, 2, 9985, 0, "C", "WS", "0 [0]"),
        line(2, 3, 5000, 8, "Q", "W", "100 + 1 [late]"),
    ])
    summary = (
        "CPU0 (sdb):\n Reads Queued:           2,        8KiB\t Writes Queued:           0\n"
        " Read depth:             1        \t Write depth:             1\n"
        "Total (sdb):\n Events (sdb): 16 entries\nSkips: 0 forward (0 -   0.0%)\n"
        "Throughput (R/W): 8KiB/s / 0KiB/s\n"
    )
    seed("blkparse", "events", "# comment\n\n" + text)
    seed("blkparse", "summary", text + summary)
    seed("blkparse", "reissued",
         "8,52 3 1 0.0 226 D W 1000 + 8 [k]\n8,52 3 2 0.1 226 D W 1000 + 8 [k]\n"
         "8,52 3 3 0.15 0 C W 1000 + 8 [0]\n8,52 3 4 0.2 226 D W 1000 + 16 [k]\n"
         "8,52 3 5 0.3 226 D FF [k]\n8,52 3 6 0.4 0 C W 1000 + 16 [0]\n"
         "8,52 3 7 0.5 5 A W 9 + 8 <- (253,0) 1\nSkips: 7 forward (1,234 -   0.2%)\n8,52 3 8 0.6 0 C W 1 + 1")
    seed("blkparse", "crlf-and-cut", text.replace("\n", "\r\n")[:-17])
    return text


def columns():
    spc = "0,20941264,8192,W,0.551706\n1,20939840,4096,r,0.554041\r\n\n0,8,512,w,.5,x,y\n0,9,0,R,1.\n"
    seed("spc", "plain", spc)
    seed("spc", "header", "ASU,LBA,Size,Opcode,Timestamp\n" + spc)
    stamp = 128166372003061629
    msr = "".join(
        f"{stamp + t},{host},{disk},{kind},{offset},{size},{time}\n"
        for t, host, disk, kind, offset, size, time in [
            (0, "usr", 0, "Read", 7014609920, 24576, 41286),
            (900, "usr", 1, "Write", 1317441536, 8192, 1963),
            (500, "src2", 1, "write", 2436440064, 4096, 1835),
            (990, "usr", 0, "Read", 0, 0, 0),
            (1000, "usr", 0, "Read", 512, 512, 18446744073),
        ]
    )
    seed("msr", "plain", msr)
    header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n"
    seed("msr", "header-crlf", (header + msr).replace("\n", "\r\n"))
    csv = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n"
    csv += "0,read,4096,512,0,sdb,1000,SM,7,7,java\n"
    csv += "10,write,8192,4096,1,sdb,,PFA,8,,\"a \"\"b\"\", c\"\n"
    csv += "5,flush,0,0,1,\"x\ny\",77,,,,\r\n20,trim,0,512,2,sdc,,,,9,z\n30,read,0,0,2,sdc,,,,9,z\n"
    seed("csv", "plain", csv)
    # Headers with other programs' names: seven columns of every kind, separators, spaces and
    # quotes. One does not state its unit.
    seed("csv", "floats", "time_s,op,offset,len,latency_us\n0.0,R,0.0,4096.0,18446744073709551615\n"
         "1e-05,discard,1.6777216e+07,2147483648,4294967290\n2e-05,flush,18446744073709551615,0,\n"
         "3e-05,flush,,,5\n4e-05,R,0,40,7")
    named = "timestamp_ms,LBA,len_bytes,rw,disk,tid,comm,latency_us,flags,host\n"
    named += "5,8,512,R,sda,7,java,9,SM,a\n5.5,9,4096,write,sdb,8,,,,b\n"
    seed("csv", "named", named)
    seed("csv", "named-crlf", "\ufeff\r\n\"time (s)\"; \"offset\" ;size;is_write\r\n1;0;512;0\r\n2;512;512;True")
    seed("csv", "named-blank", "at_ns op offset_kib sectors stream\n1 R 4 8 a\n2  w 8 8 b\n")
    seed("csv", "named-clock", "Attaching 2 probes...\ntime op offset len\n23:59:59.5 R 0 4KB\n"
         "00:00:00.25 W 2MiB 512\n00:00:00.3 flush -1.0 0.0\n@start[7]: 1\n")
    seed("csv", "named-unsure", "timestamp,op,block,size\n1,R,0,512\n")
    seed("open", "csv-named", named)
    dsa = "{0} 0 303567 7 0\n{1} 1 55590 6 1\n\n{1}\t1  9 0 1\r\n"
    texts = {
        "msr": header + msr,
        "spc": spc,
        "systor17": "Timestamp,Response,IOType,LUN,Offset,Size\n"
        "1456095145.133076000,0.000806000,R,0,899056122368,131072\n1456095145.126285,,W,3,512,0\n",
        "tencent-cbs": "1538323200,4247200,128,1,1058\n1538323199,13896880,128,0,1063\n",
        "alibaba": "419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n",
        "cloudphysics": "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,12,36,0\n",
        "thesios": "a0,1,bigtable,2,WARM,R,WRITE,T,0,-1,3390,3390,0,1705305600.015989780,0.0,0,0\n"
        "long-file-name,1,b,2,COLD,E,READ,T,0,0,1,4096,0,1705305600.019597054,0.004239065,1,1\n",
        "disksim-ascii": dsa.format("640.875000", "641.5"),
        "mqsim": dsa.format(0, 26214000),
        "ssdsim": dsa.format(0, 26214000),
        "ssdsim-us": dsa.format("0.5", 979),
        "heimdall": dsa.format("0.000", "22.810"),
        "arc": "230027 8 0 0\n1842745 64 0 1\n5 0 0 2\n",
    }
    for name, text in texts.items():
        seed("presets", name, f"{name}\n{text}")
    seed("texts", "procmon", PROCMON)
    seed("texts", "xperf", XPERF)
    spec = "end:ms,latency:us,thread,process,name,op,offset:kib,len,flags,volume,volume:number"
    row = "5.5; 500 ;7;6;java;write;2;4096;SM;sda;1\n"
    seed("columns", "all", f"{spec}\nwhen;took;tid;pid;comm;rw;at;n;f;disk;part\n{row}"
         + row.replace("500", "").replace("java", '"a; b"').replace("SM", ""))
    seed("columns", "blank", "offset:blocks:4096,every=10ms,op=read,len=512,sep=blank,skip=1\nx\n 7\n8\t\n")
    seed("columns", "words", "at:filetime,op:0+r/1+w/2/3,_,offset:pages,len:mib\n\ufeff1,r,x,2,1\n")
    seed("columns", "clock", "end:clock,latency:us,op:0/1,offset,len\n23:59:59.9,5,0,0,4KiB\n"
         "00:00:00.1,5,1,1.5MB,512B\n")
    seed("columns", "wrong", "at:hours,op\n1,r\n")
    return spc, msr, csv


def logs():
    """Text logs with one request per line, and additional lines."""
    valid = "R Miss 564347 2 14095.370 13876.270\nW Doub 7 16 0.5 1e3\r\n\nR Trip 0 1 3 0\nR Hit 9 1 3 0"
    seed("disksim-valid", "plain", valid)
    three = (
        "fio version 3 iolog\n1 /a add\n2 /a open\n3 /a read 4096 512\n9 /b write 0 1024\r\n"
        "11 /a sync 0 0\n12 /a trim 0 1048576\n13 /a datasync 1 0\n15 /a close\n"
    )
    two = "fio version 2 iolog\n/a add\n/a wait 30 0\n/a read 0 512\n/a wait 150 0\n/a write 512 0\n"
    seed("fio", "version-3", three)
    seed("fio", "version-2", two)
    seed("fio", "long-trim", "fio version 3 iolog\n1 /a trim 4096 4294967295\n")
    latency = "0, 203008, 0, 4096, 249856, 0\n5, 3603, 1, 8192, 1970176, 0x2004\n6, 7000000, 2, 512, 0, 1\n"
    seed("fio-latency", "plain", latency)
    seed("fio-latency", "issue-time", "0, 10, 0, 512, 0, 0, 1500\n0, 9, 3, 512, 512, 0, 1200\n")
    seed("fio-latency", "bandwidth", "0, 40960, 1, 4096, 0, 0\n1, 81920, 0, 4096, 8192, 0\n2, 1, 2, 512, 0, 0")
    seed("fio-latency", "old", "1, 9, 0, 512, 4096\n2, 9, 0, 512, 0\n")
    bio = "TIME(s) COMM PID DISK T SECTOR BYTES {}LAT(ms)\n"
    biosnoop = bio.format("") + "0.000004 my app 1950 xvda1 W 130 4096 0.74\n1.0 ? 0 R 0 4096 0.1\n"
    seed("snoop", "biosnoop", biosnoop)
    seed("snoop", "time-of-day", "TIMESTAMP COMM PID DISK T SECTOR BYTES LAT(ms) PATTERN\n"
         "23:59:59.900 a 1 sda R 8 512 1.0 S\n00:00:00.100 a 1 sda R 8 512 1.0 R\n")
    seed("snoop", "wrapped", biosnoop + "Possibly lost 12 samples\n2.0 a 1 sda R 8 512 18446744073709.55\n"
         + bio.format("") + "0.5 a 1 sda W 8 512 -0.40\n")
    seed("snoop", "queued", bio.format("QUE(ms) ") + "1.0 a 1 sda FWFS 8 512 -1.000 0.50\n"
         "2.5 c 2 sda FF 0 0 0.2 0.5\n2.6 c 2 sda D 8 2147483648 0.2 0.5\nLost 3 samples\n")
    io = "COMM PID TYPE DEV BLOCK BYTES LATms\n"
    row = "tar 7 RM 202,1 16 1024 0.62\n"
    seed("snoop", "iosnoop-ts", f"STARTs ENDs {io}9.000001 9.000619 {row}9.1 9.2 {row}")
    seed("snoop", "iosnoop", f"Tracing block I/O. Ctrl-C to end.\n{io}{row}{row}Ending tracing...\n")
    events = (
        "7 D write 4096 1024 1.000000000 0 True\n8 D discard 0 4194304 1.000000500 5e-07 False\n"
        "0 C write 4096 1024 1.000001 4e-07 True\n7 D read 512 512 0.9 0 False\n"
    )
    seed("ftlsim", "plain", events)
    return {"disksim-valid": valid, "fio": three, "fio-latency": latency, "snoop": biosnoop,
            "ftlsim": events}


def events():
    """Texts in which a request takes several lines: tracepoints, system calls and block servers."""
    texts = {
        ("ftrace", "trace-pipe"): (
            "# tracer: nop\n"
            "#\n"
            " my tool-x-88      (     80) [002] d..1.    90.000001: block_rq_issue: 259,3 RA 4096 () "
            "640 + 8 none,0,0 [my tool-x]\n"
            "           <...>-89      (-------) [002] d..1.    90.000002: block_rq_issue: 259,3 DS "
            "1048576 () 8192 + 2048 be,0,4 [fstrim]\n"
            "CPU:3 [LOST 25 EVENTS]\n"
            "          <idle>-0       (-------) [003] d.h1.    90.000101: block_rq_complete: 259,3 RA "
            "() 640 + 8 none,0,0 [0]\n"
            "          <idle>-0       (-------) [003] d.h1.    90.000202: block_rq_complete: 259,3 DS "
            "() 8192 + 2048 be,0,4 [0]\n"
            "          <idle>-0       (-------) [003] d.h1.    90.000203: sched_switch: prev_comm=a "
            "==> next_comm=b\n"
        ),
        ("ftrace", "perf-script"): (
            "mkfs  4410 [001]   712.500000: block:block_rq_issue: 8,32 WS 8192 () 2048 + 16 [mkfs]\n"
            "         swapper     0 [000]   712.500310: block:block_rq_complete: 8,32 WS () 2048 + 16 [0]\n"
            "  kworker/1:0H-x   19/20 [001]   712.600000:          1   block:block_rq_issue: 8,32 FF "
            "0 () 0 + 0 [kworker/1:0H]\n"
            "\tffffffff8147d1f5 blk_mq_start_request+0x95 ([kernel.kallsyms])\n"
            "\n"
            "         swapper     0 [000]   712.600900: block:block_rq_complete: 8,32 FF () "
            "18446744073709551615 + 0 [0]\n"
        ),
        ("ftrace", "remaps"): (
            "a-7 [001] 1.000000: block_bio_queue: 253,0 R 0 + 8 [a]\n"
            "a-7 [001] 1.000001: block_bio_remap: 8,0 R 384 + 8 <- (253,0) 0\n"
            "a-7 [001] 1.000003: block_bio_queue: 8,0 R 384 + 8 [a]\n"
            "a-7 [001] 1.000009: block_rq_issue: 8,0 R 4096 () 384 + 8 [a]\n"
            "a-7 [001] 1.000200: block_rq_requeue: 8,0 R () 384 + 8 [0]\n"
            "a-7 [001] 1.000203: block_rq_complete: 8,0 R () 384 + 8 [0]\n"
        ),
        ("strace", "threads"): (
            '41 1767000000.100000 openat(AT_FDCWD, "/srv/a b, (1)", O_RDWR|O_CLOEXEC) = 3 <0.000010>\n'
            '41 1767000000.100100 pread64(3, "\\0\\"),\\0"..., 4096, 8192) = 4096 <0.000050>\n'
            "41 1767000000.100200 lseek(3, 100, SEEK_SET) = 100 <0.000001>\n"
            '41 1767000000.100300 read(3, "x"..., 4096) = 50 <0.000002>\n'
            "41 1767000000.100310 read(3,  <unfinished ...>\n"
            '42 1767000000.100320 write(1, "hello", 5) = 5 <0.000001>\n'
            '41 1767000000.100330 <... read resumed>"y"..., 4096) = 20 <0.000020>\n'
            '41 1767000000.100340 read(3, "", 4096) = 0 <0.000002>\n'
            "41 1767000000.100350 clone3({flags=CLONE_VM|CLONE_FILES, exit_signal=0} => "
            "{parent_tid=[43]}, 88) = 43 <0.000010>\n"
            '43 1767000000.100360 pwritev(3, [{iov_base="a", iov_len=512}, {iov_base="b", '
            'iov_len=512}], 2, 0) = 1024 <0.000030>\n'
            "43 1767000000.100400 fsync(3) = 0 <0.004000>\n"
            "43 1767000000.105000 +++ exited with 0 +++\n"
            "41 1767000000.106000 close(3) = 0 <0.000001>\n"
            "41 1767000000.107000 pread64(3, 0x7ffd, 512, 0) = -1 EBADF (Bad file descriptor) <0.000001>\n"
        ),
        ("strace", "times-of-day"): (
            '23:59:59.900000 pread64(5</var/db>, ""..., 512, 1024) = 512 <0.000010>\n'
            '[pid 77] 00:00:00.100000 pwrite64(5</var/db>, ""..., 512, 0) = 512 <0.000010>\n'
        ),
        ("sysdig", "files"): (
            "7 09:00:00.000001000 1 db (50) > pread fd=3(<f>/srv/my file) size=784 pos=64 \n"
            "8 09:00:00.000002500 1 db (50.51) > read fd=4(<f>/srv/log) size=100\n"
            "9 09:00:00.000003000 1 db (50) < pread res=784 data=.ELF.........\n"
            "10 09:00:00.000004500 1 db (50.51) < read res=100 data=a) < b\n"
            "11 09:00:00.000005000 0 db (50) > read fd=4(<f>/srv/log) size=100\n"
            "12 09:00:00.000006000 0 db (50) < read res=30 data=..\n"
            "13 09:00:00.000007000 0 db (50) > read fd=5(<4t>127.0.0.1:1->127.0.0.1:2) size=100\n"
            "14 09:00:00.000008000 0 db (50) < read res=30 data=..\n"
            "15 09:00:00.000009000 0 db (50) < switch next=0\n"
            "16 09:00:00.000010000 0 db (50) < write res=10 data=.. fd=4(<f>/srv/log) size=10\n"
        ),
        ("nbdkit", "export"): (
            "2026-03-01 09:00:00.000001 Ready thread_model=3\n"
            '2026-03-01 09:00:00.000100 connection=1 Connect export="vol" tls=0 size=0x800000\n'
            "2026-03-01 09:00:00.000200 connection=1 Write id=1 offset=0x1000 count=0x2000 fua=1 ...\n"
            "2026-03-01 09:00:00.000250 connection=1 Read id=2 offset=0x0 count=0x200 ...\n"
            "2026-03-01 09:00:00.000300 connection=1 ...Read id=2 return=0\n"
            "2026-03-01 09:00:00.000400 connection=1 ...Write id=1 return=0\n"
            "2026-03-01 09:00:00.000500 connection=1 Zero id=3 offset=0x0 count=0x1000 trim=1 fua=0 ...\n"
            "2026-03-01 09:00:00.000600 connection=1 ...Zero id=3 return=-1 error=EIO\n"
            "2026-03-01 09:00:00.000700 connection=1 Extents id=4 offset=0x0 count=0x1000 req_one=0 ...\n"
            "2026-03-01 09:00:00.000800 connection=1 ...Extents id=4 return=0\n"
            "2026-03-01 09:00:00.000900 connection=1 Flush id=5 ...\n"
        ),
        ("qemu", "virtio"): (
            "77@1767000000.000100:virtio_blk_handle_read vdev 0x56 req 0x7f sector 16 nsectors 8\n"
            "77@1767000000.000110:blk_co_preadv blk 0x1 bs 0x2 offset 8192 bytes 4096 flags 0x0\n"
            "77@1767000000.000150:virtio_blk_handle_write vdev 0x56 req 0x80 sector 0 nsectors 1\n"
            "77@1767000000.000400:virtio_blk_rw_complete vdev 0x56 req 0x7f ret 0\n"
            "77@1767000000.000401:virtio_blk_req_complete vdev 0x56 req 0x7f status 0\n"
            "77@1767000000.000500:virtio_blk_rw_complete vdev 0x56 req 0x80 ret 0\n"
        ),
        ("qemu", "block"): (
            "77@1767000000.000110:blk_co_preadv blk 0x1 bs 0x2 offset 8192 bytes 4096 flags 0x0\n"
            "77@1767000000.000210:blk_co_pwritev blk 0x1 bs 0x2 offset 0 bytes 512 flags 0x0\n"
        ),
        ("spdk", "bdev"): (
            "TSC Rate: 2100000000\n"
            "2:     10.500 ( 22050)   BDEV_IO_START    id:    i7   type:   2  ctx:  0x2000  offset:  "
            "16  len:  8\n"
            "2:     11.000 ( 23100)   NVMF_REQ_NEW     id:    r1\n"
            "3:     12.000 ( 25200)   BDEV_IO_START    id:    i8   type:   1  ctx:  0x2010  offset:  "
            "0x0  len:  1\n"
            "2:     90.750 (190575)   BDEV_IO_DONE     id:    i7   time:  80.250  ctx:  0x2000\n"
        ),
        ("spdk", "zones"): (
            "0: 10.0 b1 BDEV_IO_START id: i1 type: 13 offset: 16 len: 8\n"
            "0: 20.0 b1 BDEV_IO_DONE id: i1 time: 10.0\n"
            "0: 30.0 b1 BDEV_IO_START id: i2 type: 3 offset: 0 len: 16777216\n"
            "0: 40.0 b1 BDEV_IO_START id: i3 type: 9 offset: 0 len: 4194304\n"
            "0: 50.0 b1 BDEV_IO_DONE id: i2 time: 20.0\n"
        ),
        ("ftrace", "rest-issued-again"): (
            "fio-7 [001] ..... 1.000000: block_rq_issue: 8,0 W 4096 () 800 + 8 none,0,0 [fio]\n"
            "fio-7 [001] ..... 1.000100: block_rq_complete: 8,0 W () 800 + 4 none,0,0 [0]\n"
            "fio-7 [001] ..... 1.000110: block_rq_issue: 8,0 W 2048 () 804 + 4 none,0,0 [fio]\n"
            "fio-7 [001] ..... 1.000300: block_rq_complete: 8,0 W () 804 + 4 none,0,0 [0]\n"
        ),
        ("blkparse", "remaps"): (
            "253,0 1 1 0.000000000 7 Q W 800 + 8 [a]\n"
            "8,0 1 2 0.000001000 7 A W 900 + 8 <- (253,0) 800\n"
            "8,0 1 3 0.000002000 7 Q W 900 + 8 [a]\n"
            "8,0 1 4 0.000009000 7 D W 900 + 8 [a]\n"
            "8,0 1 5 0.000010000 7 R W 900 + 8 [0]\n"
            "8,0 1 6 0.000090000 0 C W 900 + 8 [0]\n"
        ),
    }
    for (target, name), text in texts.items():
        seed(target, name, text)
    first = {}
    for (target, _), text in texts.items():
        first.setdefault(target, text)
    del first["blkparse"]
    return first


def records():
    """Binary record formats."""
    one = b"".join(struct.pack("<IIIHHQQ", n, 4096, 1, op, 0x100, 8 * n, 1000 * n)
                   for n, op in enumerate([0x28, 0x2A, 0x88, 0x12, 0x35]))
    two = b"".join(struct.pack("<HHIIIQQQ", op, 0x200, n, 4096, 1, 8 * n, 1000 * n, 9)
                   for n, op in enumerate([0x28, 0x2A, 0x88, 0x12, 0x35]))
    seed("vscsi", "version-1", one)
    seed("vscsi", "version-2-cut", two[:-3])
    seed("vscsi", "damaged", b"\xff" * 32 + one)
    header = (
        b'$$TR_IOREC-1.3 (x)\nsystem = "a.b";\ndisks = { 3 -> { sectorsize = 1024,\n'
        b'seekparms = {616, 3450}, sections = { 8 -> { "/", size = (1 2) } } } };\n\x0c'
    )
    srt = header + b"".join([
        struct.pack(">14i", 56, 0x40001, 7, 999999, 5, 1500, 2048, 3, 0x08000308, 4, 0, 0, 0, 1),
        struct.pack(">4i", 16, 0x40002, 1, 2),
        struct.pack(">14i", 56, 0x40001, 7, 5, 5, -1, 512, 9, 0x07000108, 4, 0, 27, 0, 1),
    ])
    seed("hp-srt", "plain", srt)
    seed("hp-srt", "cut", srt[:-9])
    seed("hp-srt", "damaged", srt + bytes(8) + srt[len(header):])
    return {"vscsi": one, "hp-srt": srt}


def objects():
    """The requests of an object cache, in libCacheSim's binary format and as CSV."""
    def row(time, obj, size, following):
        return struct.pack("<IQIq", time, obj, size, following)

    last = 2**63 - 1
    rows = [row(100, 2**64 - 1, 700, 3), row(100, 5, 4096, 4), row(101, 2**64 - 1, 701, -1),
            row(160, 5, 2**32 - 2, last), row(160, 9, 0, last), row(160, 5, 1, -1)]
    text = ("time,obj_id,obj_size,op\n100,7,700,get\n100.5,photo/a.jpg,4096,set\n"
            "101,7,1400,GET\n102,7,0,get\n103,7,1,delete\n104,\"7\",4294967295,read\n")
    seed("oracle-general", "plain", b"".join(rows))
    seed("oracle-general", "cut", b"".join(rows)[:-5])
    seed("object-csv", "plain", text)
    seed("object-csv", "tabs", "key\tsize\r\n1\t5\r\n\r\n2\t9\r\n1\t5")
    return {"oracle-general": b"".join(rows), "object-csv": text}


def parquet_bytes(table, **options):
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def parquet():
    """The first rows of the bundled trace, in several types, encodings and codecs."""
    rows = pq.read_table(HERE.parent / "traces" / "terasort.parquet").slice(0, 24)
    plain = dict(store_schema=False, use_dictionary=False, compression="none", write_statistics=False)
    rows = pa.table({name: (column.cast(pa.string()) if name in ("op", "flags") else column)
                     for name, column in zip(rows.column_names, rows.columns)})
    bare = rows.replace_schema_metadata(None)
    streams = b'[{"thread":7,"process":7,"name":"java"}' + b',{"thread":null,"name":""}' * 19 + b"]"
    named = rows.replace_schema_metadata({
        b"forebay.version": b"1", b"forebay.unit": b"at_ns, latency_ns: ns; offset, len: bytes",
        b"forebay.streams": streams, b"forebay.volumes": b'["disk"]', b"forebay.source": b"seed",
    })
    seed("parquet", "canonical-plain", parquet_bytes(named, **plain))
    seed("parquet", "canonical-found", parquet_bytes(bare, **plain, row_group_size=10))
    small = parquet_bytes(bare.slice(0, 8), compression="zstd", store_schema=False)
    seed("parquet", "canonical-zstd", small)
    seed("parquet", "canonical-snappy", parquet_bytes(bare, compression="snappy"))
    numbers = ["at_ns", "offset", "len", "stream", "volume", "latency_ns"]
    delta = {name: "DELTA_BINARY_PACKED" for name in numbers}
    delta |= {"op": "DELTA_BYTE_ARRAY", "flags": "DELTA_LENGTH_BYTE_ARRAY"}
    seed("parquet", "canonical-delta", parquet_bytes(
        bare, use_dictionary=False, column_encoding=delta, compression="none",
        data_page_version="2.0", store_schema=False))
    least = bare.select(["at_ns", "op", "offset", "len"])
    seed("parquet", "canonical-least", parquet_bytes(least, **plain))
    count = 20
    capture = pa.table({
        "time_ns": pa.array(range(0, 1000 * count, 1000), pa.int64()),
        "pid": pa.array([7 + n % 3 for n in range(count)], pa.int32()),
        "tgid": pa.array([7] * count, pa.int32()),
        "process": pa.array(["java", "kworker/0:1"] * (count // 2)),
        "op": pa.array(["read", "write", "discard", "flush"] * (count // 4)),
        "lba": pa.array(range(2048, 2048 + 8 * count, 8), pa.int64()),
        "sectors": pa.array([8, 16, 2048, 0] * (count // 4), pa.int32()),
        "flags": pa.array(["", "SM", "F", "PFASM"] * (count // 4)),
        "latency_ns": pa.array([None if n % 5 == 0 else 1000 * n for n in range(count)], pa.int64()),
    })
    seed("parquet", "capture-plain", parquet_bytes(capture, **plain))
    seed("parquet", "capture-dictionary", parquet_bytes(capture, compression="none"))
    return small, parquet_bytes(capture, **plain)


def packed(parts, texts):
    """Inputs for `open`: every format plain, compressed, and sets in a tar."""
    plain, split, merged = parts
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in [("t/sdb.blktrace.0", split), ("t/sdb.blktrace.2.gz", gzip.compress(
                merged, mtime=0)), ("t/README", b"none")]:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    tar = out.getvalue()[:4096]
    seed("open", "tar", tar)
    seed("open", "tar-xz", lzma.compress(tar))
    seed("open", "tar-gz", gzip.compress(tar, mtime=0))
    seed("open", "blktrace", plain)
    seed("open", "blktrace-bz2", bz2.compress(plain))
    for name, content in texts.items():
        content = content if isinstance(content, bytes) else content.encode()
        seed("open", name, content)
        if name not in ("parquet", "capture"):
            seed("open", name + "-gz", gzip.compress(content, mtime=0))
    spc = texts["spc"].encode()
    seed("open", "spc-xz", lzma.compress(spc))
    seed("open", "spc-bz2-twice", bz2.compress(spc) + bz2.compress(spc))
    zstd = pa.Codec("zstd").compress(spc * 4, asbytes=True)
    seed("open", "spc-zst", zstd)
    seed("open", "spc-zst-skippable", b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstd)


def fit():
    line = "{0}, {1}, 0, {2}, {3}, 0\n".format
    zones = "".join(line(n, 1_900_000 + 700_000 * (n % 9 == 8), 131072, place + n * 131072)
                    for place in (0, 400 << 30) for n in range(40))
    back = "".join(line(n, 8_250_000 + n % 7, 4096, (200 << 30) - n * 4096) for n in range(40))
    near = "".join(line(n, 8_400_000 if n < 9 else n * 60_000, 4096, n * (n + 1) * 2048 + (n << 12))
                   for n in range(40))
    seek = "".join(line(n, 3_000_000 + n * 7919 % 8_000_000 + n * 9_000, 4096, n * n * 300 << 20)
                   for n in range(60))
    return "=\n".join([zones, back, near, seek])


def words():
    for device in sorted((HERE.parent / "devices").glob("*.toml")):
        lines = [line.split("#")[0].rstrip() for line in device.read_text().splitlines()]
        seed("devices", device.stem, "\n".join(line for line in lines if line) + "\n")
    # These types need a size to open.
    for name in ["azure-premium", "ebs-gp3", "ebs-st1", "iotune"]:
        text = (HERE.parent / "devices" / "volumes" / f"{name}.toml").read_text()
        text = re.sub(r"(gib = \{ least = \d+, most = \d+) \}", r"\1, default = 200 }", text)
        seed("devices", name, text)
    seed("formula", "gp2", "min(16000, max(100, 3 * gib))")
    seed("formula", "choice", "(128 if gib <= 170 else 250 if gib != 9 else 1_000.5) * 1048576")
    seed("formula", "signs", "-2 - -(iops / 4) + 1 >= 3")
    seed("formula", "odd", "max(1,")
    seed("fit", "disk", fit())
    specs = [
        "noop", "noop:merge=no:reads-max=1:writes-max=2:request-max-kib=4:bio-max-kib=1024",
        "deadline:form=paper:read-expire-ms=5:write-expire-ms=3", "deadline:writes-starved=2",
        "deadline:fifo-batch=16", "cfq:form=paper:quantum=2",
        "cfq:form=linux:quantum=8:slice-sync-ms=100:slice-async-ms=40:slice-idle-ms=8",
        "cfq:fifo-expire-sync-ms=125:fifo-expire-async-ms=250:low-latency=no",
        "cfq:back-seek-max-kib=16384:back-seek-penalty=2", "fixed:500", "fixed:12.5",
        "bid:history=8:wait-ms=10:read-deadline-ms=500:write-deadline-ms=5000:staging-limit=no",
        "cache:replace=s3fifo:write=through:size-mib=16:block-kib=8:disk=bid+wait-ms=1",
        "bid-hybrid:packing-kib=16:transfer-us=20:migrate=yes:period-s=1:hot=2:extent-kib=64",
        "tier-lba:deviation-mib=1", "tier-bcache:cutoff-kib=64:disk=cfq",
        "migrate:moves-max=8:size-mib=64",
    ]
    for number, spec in enumerate(specs):
        seed("specs", f"{number:02}-{spec.split(':')[0]}", spec)


def disksim():
    """A drive in one file, which also serves as the files next to it; none of DiskSim's own text is included."""
    model = (
        "dm_disk M {\n Number of data surfaces = 2,\n Number of cylinders = 40,\n"
        " Layout Model = dm_layout_g1 {\n LBN-to-PBN mapping scheme = 1,\n Sparing scheme used = %d,\n"
        " Rangesize for sparing = 3,\n Zones = [ dm_layout_g1_zone {\n First cylinder number = 0,\n"
        " Last cylinder number = 39,\n Blocks per track = 30,\n Skew for track switch = 4.5,\n"
        " Number of spares = 2, slips = [ 3, 7 ], defects = [ 9, 11 ] } ] },\n"
        " Mechanical Model = dm_mech_g1 {\n Seek type = %s,\n Full seek curve = c.seek,\n"
        " HPL seek equation values = [ 10, 1.0, 0.3, 2.0, 0.01, -1.0 ],\n"
        " First ten seek times = [ 1.0, 1.2, 1.1, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9 ],\n"
        " Single cylinder seek time = 1.0, Average seek time = 2.0, Full strobe seek time = 3.0,\n"
        " Add. write settling delay = 0.4, Head switch time = 0.5, Rotation speed (in rpms) = 7200 }\n}\n"
    )
    disk = (
        "# a drive\ndisksim_disk D {\n Model = %s,\n Bulk sector transfer time = 0.1,\n"
        " Number of buffer segments = 2,\n Segment size (in blks) = 64,\n"
        " Enable caching in buffer = 1,\n Buffer continuous read = 3,\n Fast write level = 2,\n"
        " Read miss over. after read = 0.3,\n Extra write disconnect = 1,\n Oddity = 7\n}\n"
    )
    for scheme, seek in enumerate(["hplplus10", "hpl", "linear", "constant", "curve"]):
        seed("disksim", seek, disk % (model % (scheme, seek)).strip())
    bus = "disksim_bus B { Read block transfer time = 0.2 }\ntopology a b [ c d [] ]\n"
    seed("disksim", "beside", disk % "source m.model" + bus + model % (9, "hpl"))
    seed("disksim", "curve-file", "Seek distances measured: 2\n1,\t1.0\n30,\t2.5\n" )


def nbd():
    """Handshakes that reach every option, and requests of every kind, in full and as eight bytes each."""
    def option(number, data=b""):
        return b"IHAVEOPT" + struct.pack(">II", number, len(data)) + data

    def choice(name, kinds=()):
        return struct.pack(f">I{len(name)}sH{len(kinds)}H", len(name), name, len(kinds), *kinds)

    def context(name, *queries):
        listed = b"".join(struct.pack(">I", len(query)) + query for query in queries)
        return struct.pack(">I", len(name)) + name + struct.pack(">I", len(queries)) + listed

    fixed, structured = struct.pack(">I", 3), option(8)
    seed("nbd-handshake", "name", struct.pack(">I", 0) + option(1, b"disk"))
    seed("nbd-handshake", "list", fixed + option(3) + option(3, b"x") + option(2))
    seed("nbd-handshake", "go", fixed + option(6, choice(b"disk", (1, 2, 3))) + option(99, b"data")
         + option(7, choice(b"other")) + option(7, choice(b"other", (3,))))
    seed("nbd-handshake", "contexts", fixed + structured + option(9, context(b"disk"))
         + option(9, context(b"disk", b"base:")) + option(10, context(b"disk", b"base:allocation"))
         + option(7, choice(b"disk", (3,))))
    seed("nbd-handshake", "lies", fixed + structured + option(10, context(b"", b"x")[:-3])
         + option(7, choice(b"", (3, 3))[:-1]) + b"IHAVEOPT" + struct.pack(">II", 7, 1 << 20))

    def request(command, offset=0, length=0, flags=0, cookie=1):
        return struct.pack(">IHHQQI", 0x25609513, flags, command, cookie, offset, length)

    whole = b"".join([
        request(1, 4096, 5, 1) + b"hello", request(0, 4096, 5, 4), request(3), request(4, 0, 4096),
        request(5, 0, 8192), request(6, 4096, 4096, 2), request(6, 0, 4096, 16), request(7, 0, 65536),
        request(7, 0, 65536, 8), request(9), request(0, 1 << 63, 5), request(1, 0, 33 << 20),
    ])
    for name, head in {"simple": (4, 0xf8), "structured": (12, 0xf8), "slow": (12, 8), "deaf": (0x1c, 0xfa),
                       "failing": (0x2c, 0xfc), "read-only": (9, 0x80), "blocks": (0x3e, 0x80)}.items():
        seed("nbd-requests", name, bytes(head) + whole)
        seed("nbd-requests", name + "-gone", bytes(head) + whole[:31])
        seed("nbd-requests", name + "-ends", bytes(head) + whole[:61] + request(2))
    short = bytes([1, 0, 0, 1, 16, 0, 8, 9, 0, 0, 0, 1, 16, 0, 8, 0, 6, 1, 0, 0, 1, 0, 0xcc, 0,
                   4, 1, 0, 0, 16, 0, 0, 0, 7, 0, 0, 0, 255, 0, 0x10, 0, 3, 0, 0, 0, 0, 0, 0, 0])
    for selector in (4, 0x1c, 0x2c, 0x3e):
        for style in (0x81, 0x83, 0x85):
            seed("nbd-requests", f"short-{selector:x}-{style:x}", bytes([selector, style]) + short * 9)


def models():
    """The content of a model that `forebay fit` makes of 80 requests, and one complete file."""
    command = HERE.parent / "target" / "debug" / "forebay"
    if not command.exists():
        print(f"!!! no command at {command}: the seeds of models stay as they are")
        return
    draw = random.Random(1)
    rows, at = ["at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name"], 0
    for n in range(80):
        at += draw.choice([1_000, 50_000, 2_000_000])
        volume, jump = n // 5 % 2, draw.randrange(1 << 18)
        offset = (jump if n % 4 == 0 else 40 * volume + n % 4) * 4096
        op, size = draw.choice([("read", 4096), ("read", 65536), ("write", 8192)])
        rows.append(f"{at},{op},{offset},{size},{n // 3 % 3},{volume},{1_000 * (n % 7 + 1)},,{n // 3 % 3},1,t")
    variants = {
        "level-1": ["--level", "1"], "level-2-flat": ["--level", "2", "--flat"],
        "names": ["--level", "1", "--names"],
    }
    with tempfile.TemporaryDirectory() as folder:
        trace, model = Path(folder) / "trace.csv", Path(folder) / "a.model"
        trace.write_text("\n".join(rows) + "\n")
        for name, options in variants.items():
            subprocess.run([command, "fit", trace, "-o", model, "--no-verdict", *options], check=True,
                           stdout=subprocess.DEVNULL)
            packed = model.read_bytes().removeprefix(b"forebay model 5\n")[4:]
            seed("model", name, pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read())
        seed("model", "file", model.read_bytes())


def main():
    parts = blktrace()
    text = blkparse()
    spc, msr, csv = columns()
    canonical, capture = parquet()
    more = logs() | events() | records() | objects()
    packed(parts, {"blkparse": text, "spc": spc, "msr": msr, "csv": csv,
                   "parquet": canonical, "capture": capture} | more)
    capture_stream()
    words()
    disksim()
    nbd()
    models()


if __name__ == "__main__":
    main()
