//! I/Os that a promise depends on keep their mark on the way to the device, so that drivers can
//! give them the real-time class.

use super::*;

/// Counts the reads that reach the devices, and how many of them are marked.
#[derive(Default)]
struct Marked {
    reads: u64,
    marked: u64,
}

impl Observer for Marked {
    fn io(&mut self, completion: &Completion) {
        let io = completion.io;
        if io.op == Op::Read {
            self.reads += 1;
            self.marked += u64::from(io.flags.has(Flags::PROMISED));
        }
    }
}

/// Runs a tenant that reads rarely, with or without a promise.
fn marked(bed: &Bed, policy: &str, promise: Option<Promise>) -> Marked {
    let mut back = Back::of("disk", On::Volume(Vec::new()));
    back.policy = policy.into();
    back.capacity_iops = promise.map(|_| 60);
    back.exports = vec![Named { promise, weight: 2, ..Named::all("steady") }, Named::all("rest")];
    let steady = Steady { requests: 100, ..ON_DISK };
    let mut tenants = Tenants::new(bed, &[steady], greedy(4096, 0, 0, false), u64::MAX);
    let mut policy = (bed.build)(&back.shaped().unwrap());
    let mut marked = Marked::default();
    simulate::run(&mut policy, &mut bed.devices.clone(), &mut tenants, &mut marked);
    marked
}

#[test]
fn promised_ios_are_marked_below_every_kind_of_policy() {
    let disk = |policy: &str| (on_device("st1000nm0011", None), policy.to_string());
    let cached = on_device("st1000nm0011", Some("samsung-830"));
    let beds = [
        disk("noop"),
        disk("none"),
        disk("clook"),
        disk("mq-deadline"),
        disk("bfq"),
        disk("forebay"),
        on_array("st1000nm0011", "raid6"),
        on_array("st1000nm0011", "raid10"),
        (cached, "cache:write=around:size-mib=1024".to_string()),
    ];
    let promise = Promise { iops: 40, within: ON_DISK.within };
    for (bed, policy) in beds {
        let with = marked(&bed, &policy, Some(promise));
        assert!(with.reads >= 100 && with.marked >= 95, "{policy}: {} are marked", with.marked);
        assert_eq!(marked(&bed, &policy, None).marked, 0, "{policy}");
    }
}
