//! The enum of all device models.
//!
//! A constant-rate server is named in a spec (`fixed:RATE`). Disks have too many parameters for a
//! spec, so they are described by device files, which this crate does not read.

use crate::contract::{Completion, Device, Nanos, Request, Spec, SpecError, WriteBack};
use crate::device::drive::Drive;
use crate::device::fixed::Fixed;
use crate::device::hdd::Hdd;
use crate::device::ssd::{Ssd, Wear};
use crate::device::throttled::Throttled;

/// Any device model, dispatched without virtual calls.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // a run has few devices, and uses each all the time
pub enum DeviceModel {
    /// A server of constant rate.
    Fixed(Fixed),
    /// A mechanical disk.
    Hdd(Hdd),
    /// A solid-state drive.
    Ssd(Ssd),
    /// A disk with a controller.
    Drive(Box<Drive>),
    /// A volume behind token buckets.
    Throttled(Box<Throttled>),
}

/// Returns the device that `spec` describes.
pub fn build(spec: &Spec) -> Result<DeviceModel, SpecError> {
    match spec.name() {
        "fixed" => {
            let rate = spec.argument().unwrap_or_default();
            let iops = rate.parse::<f64>().map_err(|_| {
                SpecError(format!(
                    "'{}': got '{rate}', expected I/Os per second as in fixed:500",
                    spec.text()
                ))
            })?;
            spec.finish()?;
            Ok(DeviceModel::Fixed(Fixed::new(iops)?))
        }
        name => Err(SpecError(format!("no kind of device '{name}', expected fixed:RATE"))),
    }
}

impl DeviceModel {
    /// Describes how the device accepts commands, for readers of its results.
    pub fn commands(&self) -> &'static str {
        match self {
            DeviceModel::Fixed(_) => "one request at a time",
            DeviceModel::Hdd(_) => "one command at a time, without the drive's cache",
            DeviceModel::Ssd(_) => "with its own queues and write buffer",
            DeviceModel::Drive(_) => "with the drive's own queue and cache as its file says",
            DeviceModel::Throttled(_) => "any number at once, as fast as its token buckets allow",
        }
    }

    /// Returns the pages written and blocks erased so far; `None` without flash.
    pub fn wear(&self) -> Option<Wear> {
        match self {
            DeviceModel::Ssd(ssd) => Some(ssd.wear()),
            _ => None,
        }
    }

    /// Returns a model without its contents, which may be large, for questions that do not depend
    /// on them.
    pub fn without_content(&self) -> DeviceModel {
        match self {
            DeviceModel::Ssd(ssd) => DeviceModel::Ssd(ssd.without_content()),
            other => other.clone(),
        }
    }
}

macro_rules! each {
    ($model:expr, $device:ident => $answer:expr) => {
        match $model {
            DeviceModel::Fixed($device) => $answer,
            DeviceModel::Hdd($device) => $answer,
            DeviceModel::Ssd($device) => $answer,
            DeviceModel::Drive($device) => $answer,
            DeviceModel::Throttled($device) => $answer,
        }
    };
}

impl Device for DeviceModel {
    #[inline]
    fn room(&self) -> bool {
        each!(self, device => device.room())
    }
    #[inline]
    fn start(&mut self, now: Nanos, io: Request) {
        each!(self, device => device.start(now, io));
    }
    #[inline]
    fn next(&self) -> Option<Nanos> {
        each!(self, device => device.next())
    }
    #[inline]
    fn finish(&mut self, now: Nanos) -> Completion {
        each!(self, device => device.finish(now))
    }
    fn joules(&self, now: Nanos) -> f64 {
        each!(self, device => device.joules(now))
    }
    fn busy(&self, now: Nanos) -> Nanos {
        each!(self, device => device.busy(now))
    }
    #[inline]
    fn floor(&self, io: &Request) -> Nanos {
        each!(self, device => device.floor(io))
    }
    fn write_back(&self) -> WriteBack {
        each!(self, device => device.write_back())
    }
    fn cylinders(&self) -> u32 {
        each!(self, device => device.cylinders())
    }
    fn capacity(&self) -> u64 {
        each!(self, device => device.capacity())
    }
    fn len_max(&self) -> u32 {
        each!(self, device => device.len_max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_servers_are_built_from_a_spec() {
        let built = |text: &str| build(&Spec::parse(text)?);
        assert!(matches!(built("Fixed:500"), Ok(DeviceModel::Fixed(_))));
        let said = |text: &str| built(text).unwrap_err().0;
        assert!(said("fixed").contains("as in fixed:500"));
        assert!(said("fixed:fast").contains("got 'fast'"));
        assert!(said("fixed:0").contains("0.001 to 1e9"));
        assert!(said("fixed:inf").contains("0.001 to 1e9"));
        assert!(said("fixed:500:depth=2").contains("depth"));
        assert!(said("floppy").contains("expected fixed:RATE"));
    }
}
