//! Published fio measurements of three disks: random reads and writes of 4 KiB over the whole
//! drive, with libaio, direct I/O and one job.
//!
//! The first two disks come from louwrentius/fio-plot (BSD 3-Clause), with 60 s per row:
//! `test-data500gb` (a 7200-rpm SATA disk of unstated model) and `benchmark_data/SERVER/IBM_M1015`.
//! The third is a Seagate ST2000DM006 measured through NTFS, from `docs/VALIDATION.md` of
//! lumir-sliva/ublk-disksim. The columns are the operation, the queue depth, the I/Os per second,
//! and the mean, median, 99th and 99.9th percentile and maximum of the latency in microseconds.

use forebay_core::Op;

use crate::fit::sweep::SweepRow;

pub(crate) const HDD_500GB: &str = "\
read 1 69.82 14315.2 14221.3 23724.0 30015.5 59753.7
read 2 70.26 28452.5 28180.5 42729.5 46399.5 53639.4
read 4 82.05 48734.2 39059.5 168820.7 267386.9 305609.1
read 8 93.83 85233.6 66322.4 325058.6 549453.8 726778.9
read 16 104.84 152563.7 117964.8 608174.1 918552.6 1486806.0
read 32 113.64 281512.4 219152.4 1069547.5 1501560.8 1987815.4
read 64 113.48 563794.2 501219.3 1451229.2 2055209.0 2288547.7
write 1 123.84 8069.3 7766.0 17170.4 34340.9 48246.7
write 2 124.61 16041.9 15532.0 27131.9 33816.6 37126.4
write 4 124.03 32238.7 15794.2 434110.5 1904214.0 1924044.9
write 8 124.28 64349.7 16056.3 1837105.2 1904214.0 1939968.1
write 16 123.18 129852.0 16711.7 1904214.0 1954545.7 1981085.0
write 32 122.4 261373.8 33161.2 1937768.4 1971322.9 2050169.2
write 64 123.45 518286.3 304087.0 2197815.3 2231369.7 2547212.5
";

pub(crate) const RAPTOR: &str = "\
read 1 124.02 8058.8 7962.6 14221.3 17170.4 19548.9
read 2 123.64 16170.3 16056.3 25034.8 28180.5 32478.1
read 4 123.21 32457.6 32112.6 44826.6 49020.9 55771.5
read 8 141.81 56401.5 53215.2 133693.4 168820.7 206068.5
read 16 162.66 98348.4 92799.0 308281.3 442499.1 545142.7
read 32 181.27 176507.3 160432.1 549453.8 633339.9 755670.5
read 64 184.89 346102.6 274726.9 1019215.9 1132462.1 1241681.9
write 1 169.69 5888.2 1908.7 36438.0 60031.0 332466.5
write 2 172.11 11615.7 10027.0 45875.2 65273.9 446148.5
write 4 171.93 23259.0 22675.5 56885.2 71827.5 463821.5
write 8 171.18 46728.3 43778.0 115867.6 160432.1 445273.2
write 16 172.05 92980.1 86507.5 304087.0 484442.1 496046.9
write 32 173.86 184033.0 175112.2 608174.1 935329.8 1211120.0
write 64 183.7 348344.7 325058.6 1132462.1 2734686.2 3670368.1
";

pub(crate) const ST2000DM006: &str = "\
read 1 57.6 17570 17690 28440 103300 -
read 2 64.5 - - - - -
read 4 71.2 - - - - -
read 8 78.6 - - - - -
read 16 86.3 - - - - -
read 32 93.6 - - - - -
write 1 124 - - - - -
";

/// Parses the rows of `table`.
pub(crate) fn rows(table: &str) -> Vec<SweepRow> {
    let row = |line: &str| {
        let mut words = line.split(' ');
        let op = if words.next() == Some("read") { Op::Read } else { Op::Write };
        let mut next = || words.next().and_then(|word| word.parse::<f64>().ok());
        let depth = next().unwrap() as u32;
        let [iops, mean_us, p50_us, p99_us, p999_us, max_us] = std::array::from_fn(|_| next());
        let (block_bytes, iops) = (4096, iops.unwrap());
        SweepRow { op, block_bytes, depth, iops, mean_us, p50_us, p99_us, p999_us, max_us }
    };
    table.lines().map(row).collect()
}
