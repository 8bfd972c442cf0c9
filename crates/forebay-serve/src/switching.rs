//! Switches the policy of a disk or volume that is being served.
//!
//! Invariants: nothing is locked while a switch waits for requests in flight, so a disk that does
//! not answer holds up no other; a driver has one switch at a time; the exports of
//! [`Driver::current`] are always those of the last order.

// Allowed because this module works with threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::back::{Policies, keeps_data};
use crate::driver::{Driver, PATIENCE};
use crate::error::{Error, system, unfit};
use crate::flash::refuse_overwriting;
use crate::front::{Order, PolicySetup, Switch, SwitchFailure};
use crate::running::Running;
use crate::{Back, On};

/// A driver whose policy is being switched.
pub(crate) struct Switching(Arc<Driver>);

impl Switching {
    /// Prevents other switches of a driver. What is served changes only then, so it must be read
    /// after this.
    pub(crate) fn begin(driver: &Arc<Driver>) -> Result<Switching, Error> {
        match driver.switching.swap(true, Ordering::SeqCst) {
            false => Ok(Switching(Arc::clone(driver))),
            true => Err(unfit(format!(
                "'{}': its policy is already being switched; try again later",
                driver.name
            ))),
        }
    }

    /// Switches the policy, and waits until that is done. If it fails and `has_exports` says that
    /// the exports have changed, restores the former exports.
    fn run(self, served: &Back, next: Back, has_exports: bool) -> Result<Duration, Error> {
        let driver = &self.0;
        let (done, switched) = channel();
        // Caches and tiers are found by their records, so their contents survive even without a
        // flush.
        let flushes = driver.policies.found_by_records();
        let setup = |back: &Back| -> Result<PolicySetup, Error> {
            let (shown, streams, exports) = (back.policy.clone(), back.who(), back.exports.clone());
            Ok(PolicySetup { spec: back.shaped()?, shown, streams, exports })
        };
        let (before, after) = (setup(served)?, setup(&next)?);
        driver.order(Order::Switch(Switch { next: after, before, flushes, done }))?;
        match switched.recv().map_err(|_| driver.is_gone())? {
            Ok(pause) => {
                driver.adopt(next);
                Ok(Duration::from_nanos(pause.0))
            }
            Err(failure) => {
                if has_exports {
                    driver.export(served)?;
                }
                Err(not_switched(served, &next, failure))
            }
        }
    }
}

impl Drop for Switching {
    fn drop(&mut self) {
        self.0.switching.store(false, Ordering::SeqCst);
    }
}

impl Driver {
    /// Returns whether the driver's policy is being switched.
    pub(crate) fn is_switching(&self) -> bool {
        self.switching.load(Ordering::SeqCst)
    }

    /// Makes the exports those of `back`.
    fn export(&self, back: &Back) -> Result<(), Error> {
        let mut current = self.current();
        let exports = self.room().exports(back, self.policies.trims_to_zero(&back.policy))?;
        self.order(Order::Exports(back.exports.clone(), exports))?;
        current.exports.clone_from(&back.exports);
        Ok(())
    }

    /// Rejects a switch from `served` to `next` that would lose data that exists only on the flash.
    fn refuse_placements(&self, served: &Back, next: &Back) -> Result<(), Error> {
        let name = &self.name;
        let both = [&served.policy, &next.policy];
        if let Some(placement) = both.into_iter().find(|policy| keeps_data(policy)) {
            return Err(unfit(match served.policy == next.policy {
                true => format!(
                    "'{name}': promises and weights above '{placement}', which keeps data on the \
                     flash, take effect after a restart"
                ),
                false => format!(
                    "'{name}': '{placement}' keeps data on the flash that the disk does not have, \
                     expected a policy that does not move data; drain it first: `forebay control drain`"
                ),
            }));
        }
        match &served.on {
            On::Target { flash: Some(flash), .. }
            | On::Emulated { flash: Some((flash, _)), .. } => {
                refuse_overwriting(name, &next.policy, flash)
            }
            _ => Ok(()),
        }
    }
}

impl Running {
    /// Switches the policy of a back. Requests in flight are answered first; requests that arrive
    /// in the meantime wait. Returns the duration for which no requests were accepted.
    ///
    /// # Errors
    /// There is no such policy, in which case nothing changes; or the disk does not answer, in
    /// which case the switch takes effect later.
    pub(crate) fn switch(&self, driver: &Arc<Driver>, policy: &str) -> Result<Duration, Error> {
        let switching = Switching::begin(driver)?;
        let served = driver.current().clone();
        let pause = self.follow(switching, Back { policy: policy.into(), ..served })?;
        Ok(pause.unwrap_or_default())
    }

    /// Applies the policy, exports and promises of `next` to a driver; returns None if the policy
    /// need not be switched.
    pub(crate) fn follow(
        &self,
        switching: Switching,
        next: Back,
    ) -> Result<Option<Duration>, Error> {
        let driver = Arc::clone(&switching.0);
        let name = &driver.name;
        let served = driver.current().clone();
        next.refuse_unknown_policy()?;
        let (current, spec) = (served.shaped()?, next.shaped()?);
        driver.policies.build_for(&next)?;
        driver.room().exports(&next, driver.policies.trims_to_zero(&next.policy))?;
        let has_exports = !served.has_exports_of(&next);
        if has_exports && matches!(driver.policies, Policies::Rearranged(..)) {
            return Err(unfit(format!(
                "'{name}': exports of a rearranged disk change after a restart"
            )));
        }
        let keeps_policy = current == spec && served.who() == next.who();
        if !keeps_policy {
            driver.refuse_without_room()?;
            driver.refuse_placements(&served, &next)?;
        }
        if has_exports {
            driver.export(&next)?;
        }
        if keeps_policy {
            driver.adopt(next);
            return Ok(None);
        }
        let (told, ended) = channel();
        let thread = thread::Builder::new().name(format!("switch {name}"));
        let (says, late) = (self.says(), name.clone());
        let again =
            if has_exports { "; reload again then, to open new exports to clients" } else { "" };
        let work = move || {
            if let Err(unheard) = told.send(switching.run(&served, next, has_exports)) {
                // If the receiver is gone too, the server is stopping.
                let _ = says.send(ended_late(&late, unheard.0));
            }
        };
        thread.spawn(work).map_err(system("starting a thread"))?;
        match ended.recv_timeout(PATIENCE) {
            Ok(outcome) => outcome.map(Some),
            Err(RecvTimeoutError::Disconnected) => Err(driver.is_gone()),
            Err(RecvTimeoutError::Timeout) => Err(unfit(format!(
                "'{name}': its requests have not been answered for {} s; the new policy takes effect \
                 once they are{again}",
                PATIENCE.as_secs()
            ))),
        }
    }
}

/// Describes the end of a switch that no client waits for any longer.
fn ended_late(name: &str, outcome: Result<Duration, Error>) -> String {
    match outcome {
        Ok(_) => format!("'{name}' has its new policy now"),
        Err(error) => format!("error: {error}"),
    }
}

/// Explains why the policy of `served` was not switched to that of `next`.
fn not_switched(served: &Back, next: &Back, failure: SwitchFailure) -> Error {
    let why = match failure {
        SwitchFailure::Flush(fault) => {
            format!("writes could not be made durable: {}", fault.reason())
        }
        SwitchFailure::Open(fault) => {
            format!("'{}' could not be opened: {}", next.policy, fault.reason())
        }
    };
    unfit(format!(
        "'{}': {why}; '{}' stays in use; fix the problem and try again",
        served.name, served.policy
    ))
}
