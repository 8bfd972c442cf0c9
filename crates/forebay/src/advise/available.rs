//! Where a scheduler can be had, and the lines that set it.

use forebay_core::catalog::{ARRAYS, Origin, PLACEMENTS, POLICIES, SHAPERS, YARDSTICKS};
use serde::Serialize;

use super::queues::QueueSizes;

/// Who offers a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// Linux has it.
    Linux,
    /// Linux had it until 5.0, which did away with single queues.
    UntilLinux5,
    /// Linux had it until 2.6.33.
    UntilLinux2_6_33,
    /// Forebay.
    Forebay,
    /// Nobody: it goes by process, which only a scheduler within the kernel sees.
    KernelOnly,
    /// Linux, with as many requests as those of Forebay have: a yardstick.
    EqualSlots,
}

/// What Linux's mq-deadline comes to with as many places as Forebay's schedulers have: only what they save beyond
/// that is their order's.
pub(super) const EQUAL_SLOTS: &str = "mq-deadline, equal slots";
/// The same, as `simulate --policy` takes it.
pub(super) const EQUAL_SLOTS_SPEC: &str = "mq-deadline:requests-max=128:writes-max=128";

impl From {
    /// Of a scheduler by name.
    pub fn of(policy: &str) -> From {
        if policy == EQUAL_SLOTS {
            return From::EqualSlots;
        }
        let name = policy.split(':').next().unwrap_or_default();
        let listed = [POLICIES, SHAPERS, PLACEMENTS, ARRAYS, YARDSTICKS].into_iter().flatten();
        let origin = listed.into_iter().find(|listed| listed.name == name).map(|one| one.origin);
        match origin {
            Some(Origin::Linux) => From::Linux,
            Some(Origin::LinuxBefore5) => From::UntilLinux5,
            Some(Origin::LinuxBefore2_6_33) => From::UntilLinux2_6_33,
            Some(Origin::KernelOnly) => From::KernelOnly,
            Some(Origin::Forebay) | None => From::Forebay,
        }
    }

    /// Whether it can still be had.
    pub(super) fn is_to_be_had(self) -> bool {
        matches!(self, From::Linux | From::Forebay)
    }

    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            From::Linux => "Linux",
            From::UntilLinux5 => "Linux <5.0",
            From::UntilLinux2_6_33 => "Linux <2.6.33",
            From::Forebay => "Forebay",
            From::KernelOnly => "kernel only",
            From::EqualSlots => "yardstick",
        }
    }
}

/// In words: how to put a scheduler of Forebay's in the path of a disk's clients, with Linux's own out of its way.
/// Lines to be copied are indented by four blanks.
pub(super) fn served(policy: &str) -> String {
    let none = Today::of("none", true).now;
    format!(
        "To put {policy} in the path of a disk's clients (docs/serve.md), with none beneath it, so that Linux leaves \
         its order alone:\n    {none}\n    forebay serve /dev/sdX --socket /run/disk.sock --policy {policy}"
    )
}

/// A scheduler that can be set today.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Today {
    /// It.
    pub policy: String,
    /// The queues' sizes, where they change.
    #[serde(flatten)]
    pub queues: QueueSizes,
    /// Sets it until the next start; `sdX` or `nvmeXn1` is the device.
    pub now: String,
    /// A udev rule that sets it for every device of its kind, disks or flash, from the next start on.
    pub for_good: String,
}

impl Today {
    /// The lines for a scheduler of Linux, on a disk that `rotates` or on flash.
    pub fn of(policy: &str, rotates: bool) -> Today {
        let (device, kernel) = match rotates {
            true => ("sdX", "sd[a-z]*"),
            false => ("nvmeXn1", "sd[a-z]*|nvme[0-9]*n[0-9]*"),
        };
        Today {
            policy: policy.to_string(),
            queues: QueueSizes::default(),
            now: format!("echo {policy} | sudo tee /sys/block/{device}/queue/scheduler"),
            for_good: format!(
                "ACTION==\"add|change\", KERNEL==\"{kernel}\", ATTR{{queue/rotational}}==\"{}\", \
                 ATTR{{queue/scheduler}}=\"{policy}\"",
                u8::from(rotates)
            ),
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> String {
        match self.queues == QueueSizes::default() {
            true => self.policy.clone(),
            false => format!("{} with {}", self.policy, self.queues),
        }
    }

    /// In words: what to do. Lines to be copied are indented by four blanks.
    pub fn told(&self) -> String {
        format!(
            "To set {} until the next start{}:\n    {}\nFor good, in /etc/udev/rules.d/60-scheduler.rules:\n    {}",
            self.name(),
            match self.now.contains("nvmeXn1") {
                true => " (a SATA drive is sdX)",
                false => "",
            },
            self.now.replace("; ", "\n    "),
            self.for_good.replace(", ATTR", ", \\\n      ATTR")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_has_can_be_set() {
        assert_eq!(From::of("bfq"), From::Linux);
        assert_eq!(From::of("bfq:slice-idle-ms=0"), From::Linux);
        assert_eq!(From::of("cfq").name(), "Linux <5.0");
        assert_eq!(From::of("forebay"), From::Forebay);
        let today = Today::of("bfq", true);
        assert_eq!(today.now, "echo bfq | sudo tee /sys/block/sdX/queue/scheduler");
        assert!(today.for_good.contains("ATTR{queue/rotational}==\"1\""), "{}", today.for_good);
        assert!(today.for_good.ends_with("ATTR{queue/scheduler}=\"bfq\""), "{}", today.for_good);
        let flash = Today::of("none", false);
        assert_eq!(flash.now, "echo none | sudo tee /sys/block/nvmeXn1/queue/scheduler");
        assert!(flash.for_good.contains("ATTR{queue/rotational}==\"0\""), "{}", flash.for_good);
        assert!(flash.for_good.contains("nvme[0-9]*n[0-9]*\""), "{}", flash.for_good);
    }
}
