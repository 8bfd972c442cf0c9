//! The request rate and the power of the disks in `plan power`.

use forebay_core::{Device, Flags, Nanos, Op, Request};

use crate::Error;
use crate::devices::{self, DiskSpec};

/// The number of random reads with which a disk's rate is measured.
const READS: u64 = 2000;
const LEN_BYTES: u32 = 4096;

/// The request rate and the power of a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// The name of the disk in tables.
    pub name: String,
    /// The rate of the disk in requests per second.
    pub iops: u64,
    /// The power while the disk spins without serving requests, in watts.
    pub idle_w: f64,
    /// The power while the disk serves a request, in watts: that of seeking or of transferring,
    /// whichever is higher.
    pub active_w: f64,
    /// The power while the disk is stopped, in watts.
    pub standby_w: f64,
    /// The energy of one spin-up, in joules.
    pub spin_up_j: f64,
    /// How long a spin-up takes.
    pub spin_up: Nanos,
}

impl Disk {
    /// Opens a disk by its name or device file. If `iops` is not given, the rate is that of
    /// simulated random 4 KiB reads over the whole disk, one at a time.
    ///
    /// # Errors
    /// Fails if the disk does not exist, or if its file has no standby and spin-up figures.
    pub fn open(name_or_path: &str, iops: Option<u64>) -> Result<Disk, Error> {
        let (name, spec) = devices::open_spec(name_or_path)?;
        let power = match spec {
            DiskSpec::Hdd(disk) => disk.power,
            DiskSpec::Drive(drive) => drive.disk.power,
        };
        let standby = power.standby.ok_or_else(|| {
            Error::Unfit(format!(
                "{name}: got no standby figures, expected standby_w, spin_up_j and spin_up_s under \
                 [power]; add them to the device file"
            ))
        })?;
        let iops = match iops {
            Some(iops) => iops,
            None => random_reads_per_s(devices::open(name_or_path)?.model),
        };
        Ok(Disk {
            name,
            iops,
            idle_w: power.idle_w,
            active_w: power.seek_w.max(power.transfer_w),
            standby_w: standby.standby_w,
            spin_up_j: standby.spin_up_j,
            spin_up: standby.spin_up,
        })
    }
}

impl Disk {
    /// Returns how long the disk must stay stopped to save the energy of its next spin-up.
    pub fn break_even(&self) -> Nanos {
        let saved_w = self.idle_w - self.standby_w;
        if saved_w > 0.0 { Nanos::from_secs_f64(self.spin_up_j / saved_w) } else { Nanos::MAX }
    }
}

fn random_reads_per_s(mut device: impl Device) -> u64 {
    let blocks = (device.capacity() / u64::from(LEN_BYTES)).max(1);
    let (mut now, mut state) = (Nanos::ZERO, 1u64);
    for id in 0..READS {
        // Marsaglia's xorshift64, so that every run has the same reads.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let offset = state % blocks * u64::from(LEN_BYTES);
        let (op, flags) = (Op::Read, Flags::NONE);
        device.start(
            now,
            Request { at: now, offset, id, len: LEN_BYTES, stream: 0, lane: 0, op, flags },
        );
        let mut left = true;
        while let Some(at) = device.next().filter(|_| left) {
            now = at;
            left = device.finish(at).io.id != id;
        }
    }
    (READS as f64 / now.as_secs_f64().max(1e-9)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_drive_has_the_papers_power() {
        let disk = Disk::open("ultrastar-36z15", None).unwrap();
        assert_eq!((disk.active_w, disk.idle_w), (13.5, 10.2));
        // A read takes 0.2 ms of overhead, a seek of 3.4 ms and half a rotation of 4 ms.
        assert!((160..200).contains(&disk.iops), "{}", disk.iops);
        assert_eq!(Disk::open("ultrastar-36z15", Some(100)).unwrap().iops, 100);
        // The break-even time is 175 J divided by 3.7 W.
        let rest = Disk::open("st1000nm0011", Some(100)).unwrap().break_even();
        assert!((47.0..48.0).contains(&rest.as_secs_f64()), "{rest}");
    }

    #[test]
    fn devices_that_are_no_disks_are_rejected() {
        assert!(Disk::open("no-such-disk", None).is_err());
    }
}
