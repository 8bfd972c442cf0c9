//! Uses the new bytes of a disk that has grown, without a restart.

use forebay_core::Device;
use forebay_words::quantities;

use crate::back::Policies;
use crate::driver::Driver;
use crate::front::Order;
use crate::running::Running;
use crate::{Back, Error, On};

impl Running {
    /// Makes the new bytes of a disk that has grown available to exports, unless something depends
    /// on the disk's present size. Returns a sentence if they stay unused.
    pub(crate) fn grow(&self, driver: &Driver) -> Result<Option<String>, Error> {
        let back = driver.current().clone();
        let (path, most) = match &back.on {
            On::Target { path, .. } => (path, u64::MAX),
            On::Emulated { path, device, .. } => (path, Device::capacity(&device.model)),
            On::Volume(_) | On::EmulatedVolume { .. } => return Ok(None),
        };
        let mut room = driver.room();
        let Some((bytes, more)) = room.grown(path) else { return Ok(None) };
        let unused = match room.grows {
            false => Some(waits_for(&back, &driver.policies, bytes - more)),
            true if bytes > most => Some(format!(
                "the emulated device has only {most} bytes; make the disk shorter, or emulate a \
                 larger device, before the next start"
            )),
            true => None,
        };
        let unused = unused.map(|why| {
            let more = quantities::bytes(more as f64);
            format!("'{}': its disk has grown by {more}, which remain unused: {why}", back.name)
        });
        if unused.is_none() {
            driver.order(Order::Enlarge(bytes))?;
            *room = room.with_bytes(bytes);
            drop(room);
            self.refit(driver)?;
        }
        let all_have_sizes = back.exports.iter().all(|export| export.bytes.is_some());
        Ok(unused.or_else(|| {
            all_have_sizes.then(|| {
                format!(
                    "'{}': its disk has grown by {}, but its exports have not, because each has a \
                     size; change a size, or add an export",
                    back.name,
                    quantities::bytes(more as f64)
                )
            })
        }))
    }

    /// Makes the exports of a driver as large as its space permits, for clients that connect from
    /// now on. Returns the driver's back.
    pub(crate) fn refit(&self, driver: &Driver) -> Result<Back, Error> {
        // The exports must not be changed by another thread until the order has been sent.
        let current = driver.current();
        let trims_to_zero = driver.policies.trims_to_zero(&current.policy);
        let exports = driver.room().exports(&current, trims_to_zero)?;
        driver.order(Order::Exports(current.exports.clone(), exports))?;
        Ok(current.clone())
    }
}

/// Explains why the new bytes of a disk, which had `before` bytes, cannot be used yet.
fn waits_for(back: &Back, policies: &Policies, before: u64) -> String {
    let flash = match (policies, &back.on) {
        (Policies::Rearranged(..), _) => None,
        (_, On::Target { flash, .. }) => flash.as_ref(),
        (_, On::Emulated { flash, .. }) => flash.as_ref().map(|(path, _)| path),
        _ => None,
    };
    match flash {
        Some(flash) => format!(
            "'{}' on {} is bound to a disk of {before} bytes, and the next start may require that size",
            back.policy,
            flash.display()
        ),
        None => "a rearranged disk uses the new space after a restart".into(),
    }
}
