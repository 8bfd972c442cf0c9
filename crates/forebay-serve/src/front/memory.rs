//! Watches the memory for requests: disconnects clients that stall while others wait for memory,
//! and returns unneeded memory to the system.

use forebay_core::Nanos;
use forebay_live::{Plug, SocketLanes};
use forebay_words::plural::counted;

use super::Front;
use crate::request_memory::RequestMemory;

/// The interval between checks.
const LOOKS: Nanos = Nanos::from_millis(100);
/// How long a client may stall in the middle of a request's data, and how long in the middle of any
/// transfer while another client waits for memory.
const STALLED_MAX: Nanos = Nanos::from_millis(120_000);
const STALLED_SHORT_MAX: Nanos = Nanos::from_millis(10_000);
/// The additional time for each MiB of the transfer, whose progress is not visible.
const STALLED_PER_MIB: Nanos = Nanos::from_millis(10_000);
const STALLED_SHORT_PER_MIB: Nanos = Nanos::from_millis(500);
/// How long memory must be unused before it is returned to the system.
const IDLE: Nanos = Nanos::from_millis(5000);

/// The memory for requests, and the times of checks.
pub(super) struct MemoryWatch {
    shared: RequestMemory,
    looks_at: Nanos,
    /// Whether memory is in use, or was in use and has not been returned to the system yet.
    is_used: bool,
    /// The time since which no memory has been in use.
    idle_since: Option<Nanos>,
}

/// Why a client was disconnected.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stalled {
    export: usize,
    is_sending: bool,
    is_short: bool,
}

impl MemoryWatch {
    pub(super) fn new(shared: RequestMemory) -> MemoryWatch {
        MemoryWatch { shared, looks_at: Nanos::ZERO, is_used: false, idle_since: None }
    }

    pub(super) fn shared(&self) -> RequestMemory {
        self.shared.clone()
    }

    /// Registers that memory is in use.
    pub(super) fn watch(&mut self) {
        self.is_used = true;
    }
}

impl Front {
    /// Shares the memory for requests with other drivers.
    pub(crate) fn share(&mut self, memory: RequestMemory) {
        self.memory = MemoryWatch::new(memory);
    }

    /// Returns the latest time for the next check.
    pub(crate) fn looks_by(&self) -> Option<Nanos> {
        self.memory.is_used.then_some(self.memory.looks_at)
    }

    /// Disconnects clients that have stalled for too long, continues requests for which there is
    /// memory now, and returns unneeded memory to the system.
    pub(crate) fn look_after_memory<L: SocketLanes + ?Sized>(&mut self, now: Nanos, lanes: &mut L) {
        if !self.memory.is_used || now < self.memory.looks_at {
            return;
        }
        // A late check means that the driver was busy or had no processor, so it could not receive
        // what clients sent.
        let late = now - self.memory.looks_at;
        let away = if late > LOOKS { late } else { Nanos::ZERO };
        self.memory.looks_at = now + LOOKS;
        let (mut is_idle, mut stalled) = (true, Vec::new());
        for plug in 0..self.connections.len() as Plug {
            let Some(connection) = &mut self.connections[plug as usize] else { continue };
            is_idle &= !connection.holds_memory() && connection.starving.is_none();
            let is_short = self.memory.shared.is_short();
            if !connection.is_mid_transfer() {
                connection.stalled = None;
            } else if let Some(since) = connection.stalled.map(|since| since + away) {
                connection.stalled = Some(since);
                let is_sending = connection.payload.is_some();
                let mib = connection.transfer_bytes() >> 20;
                let too_long = match is_short {
                    true => STALLED_SHORT_MAX + Nanos(STALLED_SHORT_PER_MIB.0 * mib),
                    false => STALLED_MAX + Nanos(STALLED_PER_MIB.0 * mib),
                };
                if now - since >= too_long && (is_short || is_sending) && !connection.deaf {
                    let export = connection.agreed.export;
                    stalled.push(Stalled { export, is_sending, is_short });
                    self.leave(plug, lanes);
                    continue;
                }
            } else {
                connection.stalled = Some(now);
            }
            self.read_on(plug, lanes);
        }
        self.report_stalled(stalled);
        self.memory.idle_since = is_idle.then(|| self.memory.idle_since.unwrap_or(now));
        if self.memory.idle_since.is_some_and(|since| now - since >= IDLE) {
            (self.memory.is_used, self.memory.idle_since) = (false, None);
            lanes.pool().trim();
        }
    }

    /// Reports how many clients were disconnected for each reason.
    fn report_stalled(&mut self, mut stalled: Vec<Stalled>) {
        while let Some(first) = stalled.first().copied() {
            let all = stalled.len();
            stalled.retain(|one| *one != first);
            let clients = counted((all - stalled.len()) as u64, "client");
            let what = match first.is_sending {
                true => "sending only a part of a write",
                false => "not reading answers",
            };
            let why = match first.is_short {
                true => ", while others waited for memory",
                false => "",
            };
            let name = &self.exports[first.export].name;
            self.notes.push(format!(
                "warning: export '{name}': {clients} disconnected, after {what} for too long{why}"
            ));
        }
    }
}
