//! The systems that provide each scheduler, and the commands that select it.

use forebay_core::catalog::{ARRAYS, Origin, PLACEMENTS, POLICIES, SHAPERS, YARDSTICKS};
use serde::Serialize;

use super::queues::QueueSizes;

/// The system that provides a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// A current Linux kernel.
    Linux,
    /// Linux before 5.0, which removed the single-queue schedulers.
    UntilLinux5,
    /// Linux up to 2.6.33, which still had the anticipatory scheduler.
    UntilLinux2_6_33,
    /// Forebay itself, which serves the disk to its clients.
    Forebay,
    /// None: the scheduler needs to know which process issued a request, and only a scheduler
    /// inside the kernel can see that.
    KernelOnly,
    /// Linux, configured with as many request slots as Forebay's schedulers have: a reference that
    /// is never recommended.
    EqualSlots,
}

/// The name of Linux's mq-deadline with as many request slots as Forebay's schedulers have. Only
/// what Forebay's schedulers save beyond this reference is due to the order of their requests.
pub(super) const EQUAL_SLOTS: &str = "mq-deadline, equal slots";
/// The policy spec of [`EQUAL_SLOTS`], as accepted by `simulate --policy`.
pub(super) const EQUAL_SLOTS_SPEC: &str = "mq-deadline:requests-max=128:writes-max=128";

impl Provider {
    /// Returns the provider of the scheduler named `policy`.
    pub fn of(policy: &str) -> Provider {
        if policy == EQUAL_SLOTS {
            return Provider::EqualSlots;
        }
        let name = policy.split(':').next().unwrap_or_default();
        let listed = [POLICIES, SHAPERS, PLACEMENTS, ARRAYS, YARDSTICKS].into_iter().flatten();
        let origin = listed.into_iter().find(|listed| listed.name == name).map(|one| one.origin);
        match origin {
            Some(Origin::Linux) => Provider::Linux,
            Some(Origin::LinuxBefore5) => Provider::UntilLinux5,
            Some(Origin::LinuxBefore2_6_33) => Provider::UntilLinux2_6_33,
            Some(Origin::KernelOnly) => Provider::KernelOnly,
            Some(Origin::Forebay) | None => Provider::Forebay,
        }
    }

    /// Returns whether users can still obtain the scheduler.
    pub(super) fn is_obtainable(self) -> bool {
        matches!(self, Provider::Linux | Provider::Forebay)
    }

    /// Returns the provider's short name.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Linux => "Linux",
            Provider::UntilLinux5 => "Linux <5.0",
            Provider::UntilLinux2_6_33 => "Linux <2.6.33",
            Provider::Forebay => "Forebay",
            Provider::KernelOnly => "kernel only",
            Provider::EqualSlots => "yardstick",
        }
    }
}

/// Explains how to run one of Forebay's schedulers between a disk and its clients, with Linux's own
/// scheduler turned off. Lines meant for copying are indented by four spaces.
pub(super) fn served(policy: &str) -> String {
    let none = Today::of("none", true).now;
    format!(
        "To put {policy} in the path of a disk's clients (docs/serve.md), with the scheduler none \
         below it, so that Linux does not change its order:\n    {none}\n    forebay serve \
         /dev/sdX --socket /run/disk.sock --policy {policy}"
    )
}

/// A scheduler that Linux offers now, and the commands that select it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Today {
    /// The scheduler's name.
    pub policy: String,
    /// The queue sizes to set together with the scheduler, if they change.
    #[serde(flatten)]
    pub queues: QueueSizes,
    /// A command that sets the scheduler until the next reboot; `sdX` or `nvmeXn1` stands for the
    /// device.
    pub now: String,
    /// A udev rule that sets the scheduler on every device of this kind (disks or flash) from the
    /// next reboot on.
    pub for_good: String,
}

impl Today {
    /// Returns the commands that select a Linux scheduler on a disk (if `rotates`) or on flash.
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

    /// Returns the setting's name: the scheduler, with its queue sizes if they change.
    pub(super) fn name(&self) -> String {
        match self.queues == QueueSizes::default() {
            true => self.policy.clone(),
            false => format!("{} with {}", self.policy, self.queues),
        }
    }

    /// Returns instructions for changing the setting. Lines meant for copying are indented by four
    /// spaces.
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
    fn schedulers_of_linux_can_be_configured() {
        assert_eq!(Provider::of("bfq"), Provider::Linux);
        assert_eq!(Provider::of("bfq:slice-idle-ms=0"), Provider::Linux);
        assert_eq!(Provider::of("cfq").name(), "Linux <5.0");
        assert_eq!(Provider::of("forebay"), Provider::Forebay);
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
