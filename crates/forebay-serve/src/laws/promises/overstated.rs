//! A configured capacity that is higher than the device's: promises are broken, but neighbors still
//! get equal shares of the device's time.

use super::*;

/// A tenant with a promise, one that reads 4 KiB at random places with 64 outstanding, and one that
/// reads 1 MiB sequentially, one at a time. The run lasts a minute of virtual time.
struct Three {
    steady: VecDeque<Nanos>,
    due: Vec<(Nanos, u32)>,
    bytes: u64,
    taken: u64,
    next_long: u64,
    long: u64,
    longest: Nanos,
    small: u64,
}

const SCAN: u32 = 1;
const COPY: u32 = 2;
const MINUTE: Nanos = Nanos::from_secs(60);

impl Workload for Three {
    fn peek(&self) -> Option<Nanos> {
        let at = self.steady.front().copied().into_iter().chain(self.due.last().map(|due| due.0));
        at.min().filter(|at| *at < MINUTE)
    }

    fn take(&mut self) -> Request {
        let (at, id, lane, flags, op) =
            (self.peek().unwrap(), self.taken, 0, Flags::NONE, Op::Read);
        self.taken += 1;
        let place = next_random(&mut (id + 1)) >> 8;
        if self.steady.front() == Some(&at) {
            self.steady.pop_front();
            let offset = place % (self.bytes / 3 / 4096) * 4096;
            return Request { at, offset, id, len: 4096, stream: 0, lane, op, flags };
        }
        let (_, stream) = self.due.pop().unwrap();
        let (len, offset) = match stream {
            SCAN => (4096, place % (self.bytes / 3 / 4096) * 4096),
            _ => {
                self.next_long += 1 << 20;
                (1 << 20, self.next_long)
            }
        };
        let offset = offset + self.bytes / 3 / 4096 * 4096 * u64::from(stream);
        Request { at, offset, id, len, stream, lane, op, flags }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        match done.request.stream {
            SCAN => self.small += 1,
            COPY => {
                self.long += 1;
                self.longest = self.longest.max(done.latency(now));
            }
            _ => return,
        }
        self.due.push((now, done.request.stream));
    }
}

impl Three {
    /// Runs the three tenants on a disk of 78 IOPS whose configured capacity is `capacity_iops`.
    fn beside(capacity_iops: u64) -> Three {
        let bed = on_device("st1000nm0011", None);
        let steady = Steady { rate_iops: 50, requests: 4000, ..ON_DISK };
        let mut back = Back::of("disk", On::Volume(Vec::new()));
        back.capacity_iops = Some(capacity_iops);
        let promise = Some(Promise { iops: 60, within: Nanos::from_millis(20) });
        back.exports =
            vec![Named { promise, ..Named::all("db") }, Named::all("scan"), Named::all("copy")];
        let mut three = Three {
            steady: steady.arrivals(0),
            due: [vec![(Nanos::ZERO, SCAN); 64], vec![(Nanos::ZERO, COPY)]].concat(),
            bytes: bed.bytes,
            taken: 0,
            next_long: 0,
            long: 0,
            longest: Nanos::ZERO,
            small: 0,
        };
        let mut policy = (bed.build)(&back.shaped().unwrap());
        simulate::run(&mut policy, &mut bed.devices.clone(), &mut three, &mut ());
        let Three { small, long, longest, .. } = three;
        println!("{capacity_iops}: {small} of 4 KiB, {long} of 1 MiB, the longest {longest}");
        three
    }
}

#[test]
fn a_capacity_that_is_too_high_starves_no_neighbor() {
    for capacity_iops in [200, 1000, 100_000] {
        let three = Three::beside(capacity_iops);
        assert!(three.longest < Nanos::from_secs(5), "{capacity_iops}: {}", three.longest);
        assert!(three.long >= 30, "{capacity_iops}: {}", three.long);
        assert!(three.small >= 300, "{capacity_iops}: {}", three.small);
    }
}
