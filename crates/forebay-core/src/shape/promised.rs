//! Promises by stream, in device time: each stream has its own RTT, so that its bursts do not
//! affect the others.
//!
//! Source: RTT is Lu's (section 3.3.1, [`crate::rtt`]), applied to each client separately as its
//! section 4.5 consolidates them. A request that its stream's own rate answers within the bound is
//! *kept*. All others are served when no kept request waits, and share the server by weight (start
//! tags, as in [`super::DmClock`]). Kept requests of all streams are served by earliest deadline,
//! which is their arrival plus their bound.
//!
//! A promise reserves device time ([`super::device_time`]): a request that takes as long as four
//! small ones counts as four. Long requests are sent in parts, and a kept request may go between
//! two of them.
//!
//! **No kept request is late** on a server of constant rate whose rate is the sum of all rates plus
//! one request per shortest bound, if all requests take one unit. If each stream were served at its
//! own rate alone, all would be in time. Some preemptive order on one server of the total rate
//! therefore keeps all bounds, and so does preemptive earliest deadline first. Without preemption,
//! at most one additional request is served first, and the surplus serves it within the shortest
//! bound.
//!
//! **Clients of one tenant.** If streams share promises, stream `s` is a client of tenant `s` modulo
//! the number of promises. A tenant has one RTT, and one share of the remaining capacity. Its
//! clients share both by their own start tags, which also count kept requests. A client is *behind*
//! if all of its requests are beyond the promise and it has received [`BEHIND_UNITS`] less than
//! another client of its tenant. Its first request is kept as soon as RTT can admit it, with the
//! bound counted from then on, and until then no request of a client ahead of it is kept. If RTT is
//! idle although requests of several clients wait beyond the promise, one of them is kept too. For
//! a tenant with one client, exactly the requests that RTT admits are kept. For a tenant with
//! several clients, no fewer are kept than if one client sent all requests, provided that each
//! takes one unit: each of these requests takes the place of at most one that RTT would admit
//! later. The layer below treats tenants as streams.
//!
//! **The window.** By the same argument, other I/Os may occupy the device for the part of the
//! shortest bound that the promises leave: `delta (1 - sum of rates / capacity) / 2`. Without
//! promises, it is [`WINDOW_WITHOUT_PROMISES`].
//!
//! Departures: with unequal costs, RTT is no longer optimal; shares of the unpromised requests do
//! not consider reservations; streams are found by a linear scan of those that wait.

mod received;

use super::device_time::{DeviceTime, Share};
use super::{Backlog, Capacity, Moment, Recombine};
use crate::contract::{Flags, Gauge, GaugeOf, Lane, Nanos, Op, Request, RequestId};
use crate::rtt::{Rtt, SERVICE};
use received::Received;

/// The maximum time for which I/Os may occupy the device if there are no promises.
const WINDOW_WITHOUT_PROMISES: Nanos = Nanos::from_millis(100);

/// The promise to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The rate and bound; `None` if nothing is promised.
    pub kept: Option<(Rtt, Nanos)>,
    /// The weight of the stream's share of the remaining capacity; above 0.
    pub weight: u64,
}

/// A tenant: a stream, or all streams that share a promise.
#[derive(Clone, Debug)]
struct Tenant {
    promise: Promise,
    /// Whether the tenant has issued reads or writes.
    came: bool,
    /// The virtual start of the next request without a promise.
    share: u128,
    /// The virtual time that determines the shares of the tenant's clients.
    clients_time: u128,
    received: Received,
}

/// A client is behind if another client of its tenant has received at least this many more small
/// requests.
const BEHIND_UNITS: u128 = 4;

/// The share consumed by one nanosecond of device time at weight 1.
const SPAN: u128 = 1 << 32;

/// The I/O that was chosen to enter the device next.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    /// The device time that the stream is charged for the I/O.
    charge: Nanos,
    deadline: Option<Nanos>,
}

/// A shaper that keeps a promise to each stream.
#[derive(Clone, Debug)]
pub struct Promised {
    promises: Vec<Promise>,
    delta_c_iops: Option<u64>,
    /// Whether streams share the promises.
    is_shared: bool,
    tenants: Vec<Tenant>,
    /// The virtual start of each client's next request, relative to the other clients of its
    /// tenant.
    clients: Vec<u128>,
    /// The clients with waiting requests that the promise covers, and those with other waiting
    /// requests.
    kept: Vec<usize>,
    rest: Vec<usize>,
    /// The tenants with a promise beyond which requests wait, and the time of the last call.
    waiting: Vec<usize>,
    now: Nanos,
    virtual_time: u128,
    device: DeviceTime,
    window: Nanos,
    chosen: Option<Chosen>,
    is_saturated: bool,
    is_cautious: bool,
    wakeup: Option<Nanos>,
}

/// Returns the class of the client's requests that the promise covers. The class of its other
/// requests is one higher.
#[inline]
fn class_of(client: usize) -> usize {
    2 * client
}

impl Promised {
    /// Creates a shaper with `promises[i]` for stream `i`. The last promise applies to each later
    /// stream separately, unless streams share promises; there must be at least one promise. The
    /// server completes `delta_c_iops` small requests per second in addition to the promised ones,
    /// by default one per shortest bound.
    pub fn new(promises: Vec<Promise>, delta_c_iops: Option<u64>, is_shared: bool) -> Promised {
        let mut promised = Promised {
            promises,
            delta_c_iops,
            is_shared,
            tenants: Vec::new(),
            clients: Vec::new(),
            kept: Vec::new(),
            rest: Vec::new(),
            waiting: Vec::new(),
            now: Nanos::ZERO,
            virtual_time: 0,
            device: DeviceTime::new(),
            window: Nanos::ZERO,
            chosen: None,
            is_saturated: false,
            is_cautious: false,
            wakeup: None,
        };
        let listed = promised.promises.len();
        promised.know(listed.saturating_sub(1));
        promised
    }

    /// Returns the tenant of a client.
    #[inline]
    fn tenant_of(&self, client: usize) -> usize {
        if self.is_shared { client % self.promises.len().max(1) } else { client }
    }

    fn know(&mut self, client: usize) {
        if self.clients.len() <= client {
            self.clients.resize(client + 1, 0);
        }
        let tenants = if self.is_shared { self.promises.len() } else { client + 1 };
        if self.tenants.len() >= tenants {
            return;
        }
        while self.tenants.len() < tenants {
            let promise = self.promises.get(self.tenants.len()).or(self.promises.last());
            let promise = promise.copied().unwrap_or(Promise { kept: None, weight: 1 });
            let (came, share, clients_time, received) = (false, 0, 0, Received::default());
            self.tenants.push(Tenant { promise, came, share, clients_time, received });
        }
        self.reserve();
    }

    /// Returns the number of a tenant's waiting requests that the promise covers.
    fn waiting_kept(&self, tenant: usize, backlog: &Backlog) -> usize {
        let clients = self.kept.iter().filter(|client| self.tenant_of(**client) == tenant);
        clients.map(|client| backlog.waiting(class_of(*client))).sum()
    }

    /// Returns whether a tenant has waiting requests that the promise does not cover.
    fn has_rest(&self, tenant: usize, backlog: &Backlog) -> bool {
        let mut clients = self.rest.iter().filter(|client| self.tenant_of(**client) == tenant);
        clients.any(|client| backlog.waiting(class_of(*client) + 1) > 0)
    }

    /// Records the end of the wait of each tenant that has no waiting requests.
    fn end_waits(&mut self, now: Nanos, backlog: &Backlog) {
        for place in (0..self.waiting.len()).rev() {
            let tenant = self.waiting[place];
            if !self.has_rest(tenant, backlog) {
                self.waiting.swap_remove(place);
                self.tenants[tenant].received.ends(now);
            }
        }
    }

    /// Returns whether requests of a client wait.
    fn is_waiting(&self, client: usize, backlog: &Backlog) -> bool {
        let class = class_of(client);
        backlog.waiting(class) > 0 || backlog.waiting(class + 1) > 0
    }

    /// Makes a client that had no requests waiting resume at the virtual time of its tenant's last
    /// waiting client.
    fn resume(&mut self, client: usize, backlog: &Backlog) {
        if self.is_waiting(client, backlog) {
            return;
        }
        let tenant = self.tenant_of(client);
        let others = self.kept.iter().chain(&self.rest).copied();
        let others = others.filter(|other| self.tenant_of(*other) == tenant);
        let others = others.filter(|other| self.is_waiting(*other, backlog));
        let least = others.map(|other| self.clients[other]).min();
        let time = least.unwrap_or(self.tenants[tenant].clients_time);
        self.clients[client] = self.clients[client].max(time);
    }

    /// Charges a client for the I/O that was chosen.
    fn charge_client(&mut self, client: usize) {
        let tenant = self.tenant_of(client);
        let (known, share) = (&mut self.tenants[tenant], &mut self.clients[client]);
        known.clients_time = known.clients_time.max(*share);
        *share += self.chosen.map_or(0, |chosen| u128::from(chosen.charge.0.max(1)));
    }

    fn is_behind(&self, client: usize) -> bool {
        let behind = BEHIND_UNITS * u128::from(self.device.charge(Op::Read, 0).0);
        self.clients[client] + behind <= self.tenants[self.tenant_of(client)].clients_time
    }

    /// Returns the units of the first request of a client that only has requests beyond the
    /// promise, if the promise can cover it.
    fn units_beyond(&self, at: Moment, client: usize, backlog: &Backlog) -> Option<u64> {
        let class = class_of(client);
        if backlog.waiting(class) > 0 || !backlog.is_ready(class + 1) {
            return None;
        }
        let (mut unused, _) = self.promises.get(self.tenant_of(client))?.kept?;
        let (op, left) = backlog.first_left(class + 1)?;
        let units = self.device.units(op, left, self.window);
        at.admits(&mut unused, units, 0).then_some(units)
    }

    /// Returns whether this client must wait for another client of its tenant that is behind.
    fn gives_way(&self, at: Moment, client: usize, backlog: &Backlog) -> bool {
        let tenant = self.tenant_of(client);
        let mut others = self.rest.iter().copied().filter(|other| {
            self.tenant_of(*other) == tenant
                && self.clients[*other] < self.clients[client]
                && self.is_behind(*other)
        });
        others.any(|other| self.units_beyond(at, other, backlog).is_some())
    }

    /// Returns whether a tenant does not use up its promise although requests of several of its
    /// clients wait outside the promise.
    fn is_unused(&self, at: Moment, tenant: usize, backlog: &Backlog) -> bool {
        let kept = self.tenants[tenant].promise.kept;
        let waits = |client: &&usize| {
            self.tenant_of(**client) == tenant && backlog.waiting(class_of(**client) + 1) > 0
        };
        kept.is_some_and(|(rtt, _)| rtt.is_idle(at.paced))
            && self.rest.iter().filter(waits).nth(1).is_some()
    }

    /// Computes the unit and the window from the promises.
    fn reserve(&mut self) {
        let kept = || self.tenants.iter().filter_map(|tenant| tenant.promise.kept);
        let Some(shortest) = kept().map(|(_, within)| within).min() else {
            if let Some(iops) = self.delta_c_iops {
                self.device.set_unit(Nanos(SERVICE / iops.max(1)), Nanos::ZERO, Share::ALL);
            }
            self.window = WINDOW_WITHOUT_PROMISES;
            return;
        };
        let promised = kept().map(|(rtt, _)| rtt.rate_iops()).fold(0, u64::saturating_add);
        let delta_c = self.delta_c_iops.unwrap_or(SERVICE.div_ceil(shortest.0)).max(1);
        let capacity = promised.saturating_add(delta_c);
        let spare = Share::of_parts(delta_c, capacity);
        self.device.set_unit(Nanos(SERVICE / capacity), shortest, spare);
        let surplus = u128::from(shortest.0) * u128::from(delta_c) / u128::from(capacity);
        self.window = Nanos(surplus as u64 / 2);
    }

    /// Returns the operation and the length of the first I/O of `class`.
    fn first_io(&self, class: usize, backlog: &Backlog) -> (Op, u32) {
        let (op, left) = backlog.first_left(class).unwrap_or((Op::Flush, 0));
        (op, self.device.part_bytes(op, left, self.window))
    }

    /// Returns the client whose covered request has the earliest deadline, and that deadline.
    fn first_due(&self, backlog: &Backlog) -> Option<(Nanos, usize)> {
        let due = |client: usize| {
            let kept = self.tenants[self.tenant_of(client)].promise.kept;
            let within = kept.map_or(Nanos::ZERO, |(_, within)| within);
            backlog.first_arrival(class_of(client)).map(|at| (at + within, client))
        };
        let ready = self.kept.iter().filter(|client| backlog.is_ready(class_of(**client)));
        ready.filter_map(|client| due(*client)).min()
    }

    /// Returns `class` if its first I/O may enter the device.
    fn choose(
        &mut self,
        now: Nanos,
        class: usize,
        deadline: Option<Nanos>,
        backlog: &Backlog,
    ) -> Option<usize> {
        let (op, len) = self.first_io(class, backlog);
        let (cost, charge) = (self.device.cost(op, len), self.device.charge(op, len));
        self.wakeup = match deadline {
            Some(deadline) => self.device.reconsiders_at(now, deadline),
            None => {
                let at = self.device.room_at(now, op, cost, self.window);
                let at = (now < at && at < Nanos::MAX).then_some(at);
                at.into_iter().chain(self.device.given_up_at(now, self.window)).min()
            }
        };
        self.is_saturated = !self.device.has_room(now, cost, deadline, op, self.window);
        self.is_cautious =
            self.is_saturated && self.device.is_cautious(now, cost, deadline, op, self.window);
        self.chosen = (!self.is_saturated).then_some(Chosen { charge, deadline });
        self.chosen.map(|_| class)
    }

    /// Returns the first of two clients whose I/O may enter the device, and the class of the I/O.
    fn choose_rest(
        &mut self,
        now: Nanos,
        first: usize,
        second: Option<usize>,
        backlog: &Backlog,
    ) -> Option<(usize, usize)> {
        if let Some(class) = self.choose(now, class_of(first) + 1, None, backlog) {
            return Some((first, class));
        }
        let (client, wakeup) = (second?, self.wakeup);
        let class = self.choose(now, class_of(client) + 1, None, backlog);
        self.wakeup =
            if class.is_none() { self.wakeup.into_iter().chain(wakeup).min() } else { None };
        class.map(|class| (client, class))
    }
}

impl Recombine for Promised {
    const MIXES_PARTS: bool = true;

    #[inline]
    fn arrive(&mut self, at: Moment, request: &Request, _: usize, backlog: &Backlog) -> usize {
        let client = request.stream as usize;
        self.know(client);
        self.resume(client, backlog);
        let tenant = self.tenant_of(client);
        let units = self.device.units(request.op, request.len, self.window);
        let gives_way = self.gives_way(at, client, backlog);
        let waiting = self.waiting_kept(tenant, backlog);
        let known = &mut self.tenants[tenant];
        known.came |= request.op.moves_data();
        let kept = known.promise.kept.as_mut();
        let is_kept = kept.is_some_and(|(rtt, _)| !gives_way && at.admits(rtt, units, waiting));
        let class = class_of(client) + usize::from(!is_kept);
        if let Some((rtt, _)) = &known.promise.kept
            && !is_kept
            && request.op.moves_data()
            && known.received.waits(at.now, rtt, units)
        {
            self.waiting.push(tenant);
        }
        if backlog.waiting(class) == 0 {
            if !is_kept && !self.has_rest(tenant, backlog) {
                let known = &mut self.tenants[tenant];
                known.share = known.share.max(self.virtual_time);
            }
            let list = if is_kept { &mut self.kept } else { &mut self.rest };
            if !list.contains(&client) {
                list.push(client);
            }
        }
        class
    }

    fn promoted(&mut self, at: Moment, backlog: &Backlog) -> Option<(usize, usize)> {
        let candidates = if self.is_shared { self.rest.len() } else { 0 };
        for place in 0..candidates {
            let client = self.rest[place];
            let tenant = self.tenant_of(client);
            if !self.is_behind(client) && !self.is_unused(at, tenant, backlog) {
                continue;
            }
            let Some(units) = self.units_beyond(at, client, backlog) else { continue };
            let waiting = self.waiting_kept(tenant, backlog);
            let kept = self.tenants[tenant].promise.kept.as_mut();
            if kept.is_some_and(|(rtt, _)| at.admits(rtt, units, waiting)) {
                if !self.kept.contains(&client) {
                    self.kept.push(client);
                }
                return Some((class_of(client) + 1, class_of(client)));
            }
        }
        None
    }

    fn next(&mut self, at: Moment, _lane: Lane, backlog: &Backlog) -> Option<usize> {
        (self.is_saturated, self.wakeup, self.now) = (false, None, at.now);
        self.kept.retain(|client| backlog.waiting(class_of(*client)) > 0);
        let before = self.rest.len();
        self.rest.retain(|client| backlog.waiting(class_of(*client) + 1) > 0);
        if self.rest.len() < before {
            self.end_waits(at.now, backlog);
        }
        if let Some((deadline, client)) = self.first_due(backlog) {
            let class = self.choose(at.now, class_of(client), Some(deadline), backlog)?;
            self.charge_client(client);
            return Some(class);
        }
        let ready = self.rest.iter().filter(|client| backlog.is_ready(class_of(**client) + 1));
        let by_share = |client: &usize| {
            let tenant = self.tenant_of(*client);
            (self.tenants[tenant].share, tenant, self.clients[*client], *client)
        };
        let first = ready.clone().copied().min_by_key(by_share)?;
        // Other operations do not wait for writes that are held back because of deferred work.
        let writes_none = ready.copied().filter(|client| {
            let first = backlog.first_left(class_of(*client) + 1);
            first.is_some_and(|(op, _)| op != Op::Write)
        });
        let second = writes_none.min_by_key(by_share).filter(|client| *client != first);
        let (client, class) = self.choose_rest(at.now, first, second, backlog)?;
        self.charge_client(client);
        let tenant = self.tenant_of(client);
        let known = &mut self.tenants[tenant];
        self.virtual_time = self.virtual_time.max(known.share);
        let charge = self.chosen.map_or(0, |chosen| chosen.charge.0.max(1));
        known.share += u128::from(charge) * SPAN / u128::from(known.promise.weight.max(1));
        Some(class)
    }

    #[inline]
    fn part_bytes(&self, op: Op, left: u32) -> u32 {
        self.device.part_bytes(op, left, self.window)
    }

    fn sent(&mut self, now: Nanos, io: &Request) -> Flags {
        let deadline = self.chosen.take().and_then(|chosen| chosen.deadline);
        self.device.enter(now, io, deadline);
        if !self.waiting.is_empty() {
            let (tenant, milli) = (self.tenant_of(io.stream as usize), self.device.units_milli(io));
            self.tenants[tenant].received.sent(milli);
        }
        if deadline.is_some() { Flags::PROMISED } else { Flags::NONE }
    }

    fn part_completed(&mut self, now: Nanos, id: RequestId) {
        self.device.leave(now, id, self.window);
    }

    fn is_saturated(&self) -> bool {
        self.is_saturated
    }

    #[inline]
    fn is_cautious(&self) -> bool {
        self.is_cautious
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.wakeup
    }

    fn units_milli(&self, io: &Request) -> u64 {
        self.device.assumed_units_milli(io)
    }

    #[inline]
    fn stream_below(&self, stream: u32) -> u32 {
        self.tenant_of(stream as usize) as u32
    }

    #[inline]
    fn reported(&self, class: usize) -> usize {
        class % 2
    }

    /// Returns the sum of the promised rates of all tenants that have issued reads or writes, plus
    /// one request per shortest bound.
    fn capacity(&self) -> Capacity {
        let came = || self.tenants.iter().filter(|tenant| tenant.came);
        let kept = || came().filter_map(|tenant| tenant.promise.kept);
        let shortest = kept().map(|(_, within)| within.0).min();
        Capacity {
            scaled_iops: kept().map(|(rtt, _)| rtt.rate_iops()).fold(0, u64::saturating_add),
            fixed_iops: shortest.map_or(0, |within| SERVICE.div_ceil(within)),
        }
    }

    fn gauges(&self) -> Vec<Gauge> {
        let ms = |name, value: Nanos| Gauge { name, of: GaugeOf::All, value: value.0 as f64 / 1e6 };
        let iops = |name, value| Gauge { name, of: GaugeOf::All, value };
        let rates = self.device.small_iops().into_iter().flat_map(|(capacity, measured)| {
            [iops("capacity_iops", capacity), iops("small_iops", measured)]
        });
        let window = ms("window_ms", self.device.shortened(self.window));
        let received = self.tenants.iter().enumerate().filter_map(|(at, tenant)| {
            let (rtt, _) = tenant.promise.kept.as_ref()?;
            Some(tenant.received.gauges(self.now, at, rtt))
        });
        let all = [window, ms("device_tail_ms", self.device.tail())];
        all.into_iter().chain(rates).chain(received.flatten()).collect()
    }
}
