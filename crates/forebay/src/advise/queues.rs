//! Tries other queue sizes: fewer commands in the drive, which leaves their order to the scheduler,
//! or more requests in Linux, which gives its scheduler more to choose from. Both are settings of
//! Linux. They are compared with the best Linux scheduler at default queue sizes.

use std::fmt;

use serde::Serialize;

use super::{Choice, LARGE_REQUESTS, Remedy, RemedyKind, Sensitivity, Today, Trial, resampled};
use crate::devices::{OpenDevice, Varied};
use crate::simulate::{Bed, Run, RunResult, run_on};
use crate::slices::Slices;
use crate::{Error, Progress};

/// The Linux schedulers that reorder requests, so that queue sizes affect their results.
const ORDERING: [&str; 2] = ["mq-deadline", "bfq"];

/// The queue sizes to try with each scheduler.
const TRIED: [QueueSizes; 3] = [
    QueueSizes { queue_depth: Some(1), nr_requests: None },
    QueueSizes { queue_depth: Some(4), nr_requests: None },
    QueueSizes { queue_depth: None, nr_requests: Some(1024) },
];

/// The queue sizes of a disk that differ from Linux's defaults, by Linux's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueSizes {
    /// The maximum number of commands in the drive; `None` leaves it unchanged.
    pub queue_depth: Option<u32>,
    /// The maximum number of requests in Linux's scheduler; `None` leaves it unchanged.
    pub nr_requests: Option<u32>,
}

impl QueueSizes {
    /// Returns the disk's attributes in sysfs to set, and their values.
    pub(super) fn attributes(self, scheduler: &str) -> impl Iterator<Item = (&'static str, u32)> {
        let depth = self.queue_depth.map(|size| ("device/queue_depth", size));
        let requests = self.nr_requests.map(|size| ("queue/nr_requests", size));
        let is_deadline = scheduler.starts_with("mq-deadline");
        let writes = self.nr_requests.filter(|_| is_deadline);
        let writes = writes.map(|size| ("queue/iosched/async_depth", size));
        depth.into_iter().chain(requests).chain(writes)
    }

    /// Returns the policy spec of the scheduler with these sizes, as accepted by
    /// `simulate --policy`. It does not include the drive's queue depth, which is a property of the
    /// device.
    fn policy(self, scheduler: &str) -> String {
        let of = |size| match scheduler {
            // mq-deadline has a separate limit on writes, which would otherwise stay at its
            // default.
            "mq-deadline" => format!(":requests-max={size}:writes-max={size}"),
            _ => format!(":requests-max={size}"),
        };
        format!("{scheduler}{}", self.nr_requests.map(of).unwrap_or_default())
    }

    /// Returns the device with this queue depth, or unchanged if none is set; `None` if the
    /// device's own queue is already as short.
    fn device(self, device: &OpenDevice) -> Option<OpenDevice> {
        match self.queue_depth {
            Some(depth) => device.at_queue_depth(depth),
            None => Some(device.clone()),
        }
    }
}

impl fmt::Display for QueueSizes {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |(path, size): (&'static str, u32)| {
            format!("{} {size}", path.rsplit('/').next().unwrap_or(path))
        };
        to.write_str(&self.attributes("").map(one).collect::<Vec<_>>().join(" and "))
    }
}

/// Returns the schedulers to try with other queue sizes: for a large trace only the best one in
/// Linux at default sizes, or the first scheduler in the list if the best one does not reorder
/// requests.
fn schedulers(today: &str, is_large: bool) -> Vec<&'static str> {
    let best = ORDERING.iter().find(|name| today.starts_with(**name)).unwrap_or(&ORDERING[0]);
    if is_large { vec![best] } else { ORDERING.to_vec() }
}

/// A run of a Linux scheduler with other queue sizes.
struct Tried {
    policy: String,
    queues: QueueSizes,
    run: Run,
}

impl Trial<'_> {
    /// Compares other queue sizes with the best Linux scheduler at default sizes.
    pub(super) fn queue_sizes(&self, progress: Progress<'_>) -> Result<Remedy, Error> {
        let kind = RemedyKind::QueueSizes;
        let Some((today, slices)) = self.today else {
            let why = "Not tried: no Linux scheduler is better than another here.";
            return Ok(Remedy::untried(kind, "none", why.to_string()));
        };
        let is_large = self.input.description.records > LARGE_REQUESTS;
        let schedulers = schedulers(&today.policy, is_large);
        let mut tried = Vec::new();
        for queues in TRIED {
            let Some(device) = queues.device(self.device) else { continue };
            let bed = Bed { slices: true, ..Bed::of(&device) };
            for &scheduler in &schedulers {
                let policy = queues.policy(scheduler);
                let mut run = run_on(self.input, bed, &policy, self.setup, progress)?;
                run.result.policy = format!("{scheduler} with {queues}");
                tried.push(Tried { policy, queues, run });
            }
        }
        let runs = || std::iter::once(today).chain(tried.iter().map(|one| &one.run.result));
        let all: Vec<RunResult> = runs().cloned().collect();
        let in_slices = tried.iter().filter_map(|one| one.run.slices.as_ref());
        let in_slices: Vec<&Slices> = std::iter::once(slices).chain(in_slices).collect();
        let resampled = resampled(&in_slices);
        let choice = Choice::new(&all, &today.policy, &resampled, self.prefer);
        let best = choice.best_over_baseline();
        let chosen =
            best.and_then(|best| tried.iter().find(|one| one.run.result.policy == best.policy));
        let elsewhere = match chosen {
            Some(one) => match self.queues_elsewhere(one, &today.policy, progress)? {
                None => self.queues_on_every_drive(one, &choice, progress)?,
                why => why,
            },
            None => None,
        };
        let best = best.filter(|_| elsewhere.is_none());
        let shown = best.or(choice.nearest_other()).unwrap_or(today);
        let one = tried.iter().find(|one| one.run.result.policy == shown.policy);
        let held = format!(
            "{} against {} with default queue sizes: {}",
            shown.policy,
            today.policy,
            choice.against_baseline(shown),
        );
        let reason = match best {
            Some(_) => format!("{held}."),
            None => {
                let why = elsewhere.unwrap_or_else(|| choice.why_not_over_baseline(shown));
                format!("{held}. Leave them unchanged: {why}.")
            }
        };
        let outcome = Remedy::outcome(kind, shown, self.baseline);
        let policy = one.map_or(&today.policy, |one| &one.policy).clone();
        let queues = one.map_or(QueueSizes::default(), |one| one.queues);
        let run = Some(Box::new(shown.clone()));
        Ok(Remedy { policy, queues, recommended: best.is_some(), reason, run, ..outcome })
    }
}

impl Trial<'_> {
    /// Returns why queue sizes that beat `today` in the leading replay should nevertheless not be
    /// set, namely that they do not beat it in the other replay; `None` if they do.
    fn queues_elsewhere(
        &self,
        one: &Tried,
        today: &str,
        progress: Progress<'_>,
    ) -> Result<Option<String>, Error> {
        let Some((other, (run, slices))) =
            self.other.and_then(|other| Some((other, other.run(today)?)))
        else {
            return Ok(None);
        };
        let Some(device) = one.queues.device(self.device) else { return Ok(None) };
        let bed = Bed { slices: true, ..Bed::of(&device) };
        let mut ran = run_on(self.input, bed, &one.policy, other.setup, progress)?;
        ran.result.policy = one.run.result.policy.clone();
        let runs = [run.clone(), ran.result];
        let in_slices: Vec<&Slices> = std::iter::once(slices).chain(ran.slices.as_ref()).collect();
        let resampled = resampled(&in_slices);
        let choice = Choice::new(&runs, today, &resampled, self.prefer);
        Ok(choice.best_over_baseline().is_none().then(|| {
            let (how, held) = (other.setup.replay.as_told(), choice.against_baseline(&runs[1]));
            format!("{how}, no gain is certain ({held})")
        }))
    }

    /// Returns why the queue sizes should nevertheless not be set, namely that they are not better
    /// on every drive that the device may stand for; `None` if they are.
    fn queues_on_every_drive(
        &self,
        one: &Tried,
        choice: &Choice<'_>,
        progress: Progress<'_>,
    ) -> Result<Option<String>, Error> {
        let today = &choice.baseline().policy;
        for (setup, how) in self.setups() {
            for (at, Varied { part, with, device }) in self.drives.at_margins().iter().enumerate() {
                let Some(resized) = one.queues.device(device) else { continue };
                let ships = self.drives.run(at, today, setup, progress)?;
                let ran = run_on(self.input, Bed::of(&resized), &one.policy, setup, progress)?;
                let there = Sensitivity::of(part, with.clone(), &ships, &ran.result);
                if !choice.holds(&one.run.result.policy, &there) {
                    let saved = there.saved(setup.replay.total_name());
                    return Ok(Some(format!("with {} it saves {saved}{how}", there.with)));
                }
            }
        }
        Ok(None)
    }
}

impl Today {
    /// Returns this setting with commands for `queues` added.
    pub(super) fn with_queues(self, queues: QueueSizes) -> Today {
        let Today { policy, mut now, mut for_good, .. } = self;
        // Changing the scheduler resets `nr_requests`, so the commands set queue sizes afterwards.
        for (attribute, size) in queues.attributes(&policy) {
            now += &format!("; echo {size} | sudo tee /sys/block/sdX/{attribute}");
            for_good += &format!(", ATTR{{{attribute}}}=\"{size}\"");
        }
        Today { policy, queues, now, for_good }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_traces_try_queue_sizes_with_one_scheduler() {
        for today in ["none", "bfq", "mq-deadline"] {
            assert_eq!(schedulers(today, false), ORDERING);
        }
        let large = |today| schedulers(today, true);
        assert_eq!([large("none"), large("mq-deadline")].concat(), ["mq-deadline"; 2]);
        assert_eq!(large("bfq"), ["bfq"]);
    }

    #[test]
    fn sizes_are_set_in_linux_s_words() {
        let of_drive = QueueSizes { queue_depth: Some(4), nr_requests: None };
        let of_linux = QueueSizes { queue_depth: None, nr_requests: Some(1024) };
        assert_eq!(of_drive.to_string(), "queue_depth 4");
        let writes_too = "mq-deadline:requests-max=1024:writes-max=1024";
        assert_eq!(of_linux.policy("mq-deadline"), writes_too);
        let raised = Today::of("mq-deadline", true).with_queues(of_linux).now;
        assert!(
            raised.ends_with("; echo 1024 | sudo tee /sys/block/sdX/queue/iosched/async_depth")
        );
        assert_eq!(of_linux.policy("bfq"), "bfq:requests-max=1024");
        assert_eq!(of_drive.policy("bfq"), "bfq");
        let today = || Today::of("bfq", true);
        let shallow = today().with_queues(of_drive);
        assert_eq!((shallow.queues, &shallow.policy[..]), (of_drive, "bfq"));
        let set = "; echo 4 | sudo tee /sys/block/sdX/device/queue_depth";
        assert_eq!(shallow.now, format!("{}{set}", today().now));
        assert!(shallow.for_good.ends_with("=\"bfq\", ATTR{device/queue_depth}=\"4\""));
        assert!(shallow.told().starts_with("To set bfq with queue_depth 4 until"));
        let longer = today().with_queues(of_linux);
        let set = "; echo 1024 | sudo tee /sys/block/sdX/queue/nr_requests";
        assert_eq!(longer.now, format!("{}{set}", today().now));
        assert!(longer.for_good.ends_with(", ATTR{queue/nr_requests}=\"1024\""));
        let both = QueueSizes { queue_depth: Some(1), ..of_linux };
        assert_eq!(both.to_string(), "queue_depth 1 and nr_requests 1024");
    }

    #[test]
    fn a_drive_s_queue_is_only_made_shorter() {
        let drive = crate::devices::open("st1000nm0011").unwrap();
        let at = |depth| QueueSizes { queue_depth: Some(depth), nr_requests: None }.device(&drive);
        assert_eq!(at(4).unwrap().name, "st1000nm0011:queue-depth=4");
        assert!(at(32).is_none());
        let same = QueueSizes { queue_depth: None, nr_requests: Some(1024) }.device(&drive);
        assert_eq!(same.unwrap().name, "st1000nm0011");
    }
}
