//! Where a scheduler can be had, and the lines that set it.

use serde::Serialize;

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
}

impl From {
    /// Of a scheduler by name.
    pub fn of(policy: &str) -> From {
        match policy {
            "none" | "mq-deadline" | "kyber" | "bfq" => From::Linux,
            "noop" | "deadline" | "cfq" => From::UntilLinux5,
            "anticipatory" => From::UntilLinux2_6_33,
            _ => From::Forebay,
        }
    }

    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            From::Linux => "Linux",
            From::UntilLinux5 => "Linux < 5.0",
            From::UntilLinux2_6_33 => "Linux < 2.6.33",
            From::Forebay => "Forebay",
        }
    }
}

/// A scheduler that can be set today.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Today {
    /// It.
    pub policy: String,
    /// Sets it until the next start; `sdX` is the disk.
    pub now: String,
    /// A udev rule that sets it for every hard disk from the next start on.
    pub for_good: String,
}

impl Today {
    /// The lines for a scheduler of Linux.
    pub fn of(policy: &str) -> Today {
        Today {
            policy: policy.to_string(),
            now: format!("echo {policy} | sudo tee /sys/block/sdX/queue/scheduler"),
            for_good: format!(
                "ACTION==\"add|change\", KERNEL==\"sd[a-z]*\", ATTR{{queue/rotational}}==\"1\", \
                 ATTR{{queue/scheduler}}=\"{policy}\""
            ),
        }
    }

    /// In words: what to do.
    pub fn told(&self) -> String {
        format!(
            "To set {} until the next start: {}. For good, in /etc/udev/rules.d/60-scheduler.rules: {}",
            self.policy, self.now, self.for_good
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_has_can_be_set() {
        assert_eq!(From::of("bfq"), From::Linux);
        assert_eq!(From::of("cfq").name(), "Linux < 5.0");
        assert_eq!(From::of("forebay"), From::Forebay);
        let today = Today::of("bfq");
        assert_eq!(today.now, "echo bfq | sudo tee /sys/block/sdX/queue/scheduler");
        assert!(today.for_good.ends_with("ATTR{queue/scheduler}=\"bfq\""), "{}", today.for_good);
    }
}
