//! Determines the target of a run from the inputs of `play`.

use std::path::PathBuf;

use forebay::devices::{self, OpenDevice};
use forebay::simulate::Bed;
use forebay::verb::DeviceInput;
use forebay_ask::named;
use forebay_core::device::failing::Failure;

use crate::error::{Error, unfit};
use crate::verb::PlayAsk;
use crate::{AS_RECORDED, OF_DRIVES, On, OnVolume, Real};

/// The default number of I/Os in flight on a target.
const DEPTH: u32 = 256;

/// The target of a run, with device models loaded. No target has been opened yet.
#[derive(Debug)]
pub(crate) enum PlayTarget {
    Real(Real),
    Volume(OnVolume),
    Emulated { disk: Box<OpenDevice>, flash: Option<Box<OpenDevice>>, failures: Vec<Failure> },
}

impl PlayTarget {
    /// Determines the target from the inputs.
    ///
    /// # Errors
    /// There is no target, or the device is unknown.
    pub(crate) fn of(ask: &PlayAsk) -> Result<PlayTarget, Error> {
        let depth = ask.depth.unwrap_or(DEPTH);
        let open =
            |name: &DeviceInput| devices::open(&name.0).map(Box::new).map_err(forebay::Error::from);
        if let Some(disk) = &ask.emulate {
            return Ok(PlayTarget::Emulated {
                disk: open(disk)?,
                flash: ask.flash.as_ref().map(open).transpose()?,
                failures: ask.fail.iter().map(|failure| failure.0).collect(),
            });
        }
        if !ask.volume.is_empty() {
            let drives = ask.volume.clone();
            return Ok(PlayTarget::Volume(OnVolume { drives, driver: ask.driver, depth }));
        }
        if ask.target.is_none() && ask.map_volume.is_empty() {
            return Err(unfit(format!(
                "got nothing to play on, expected {}, {}, {} or {}",
                named("target"),
                named("map_volume"),
                named("volume"),
                named("emulate")
            )));
        }
        let volumes = ask.map_volume.iter().map(|it| (it.volume.clone(), it.target.clone()));
        Ok(PlayTarget::Real(Real {
            target: ask.target.clone(),
            volumes: volumes.collect(),
            flash: ask.flash.as_ref().map(|flash| PathBuf::from(&flash.0)),
            driver: ask.driver,
            overwrite: ask.overwrite,
            direct: !ask.buffered,
            depth,
        }))
    }

    pub(crate) fn on(&self) -> On<'_> {
        match self {
            PlayTarget::Real(real) => On::Real(real),
            PlayTarget::Volume(volume) => On::Volume(volume),
            PlayTarget::Emulated { disk, flash, failures } => {
                On::Emulated(Bed { flash: flash.as_deref(), failures, ..Bed::of(disk) })
            }
        }
    }

    /// Returns the policy: the user's, or the one that leaves requests unchanged.
    pub(crate) fn policy<'a>(&self, given: Option<&'a str>) -> &'a str {
        let otherwise = if matches!(self, PlayTarget::Volume(_)) { OF_DRIVES } else { AS_RECORDED };
        given.unwrap_or(otherwise)
    }
}
