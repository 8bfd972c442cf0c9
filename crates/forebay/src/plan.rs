//! The verb `plan`: computes the cost of keeping a promise.
//!
//! A promise is a share of all requests and the time within which these are answered. The cost is
//! either a capacity (requests per second of a constant-rate server, computed exactly by RTT
//! decomposition, [`forebay_core::rtt`]), or a number of devices, found by simulation.
//!
//! Source: L. Lu, *Workload Shaping for QoS and Power Efficiency of Storage Systems*, sections 3.2
//! and 4.2 to 4.5. Every record of a trace counts as one request, regardless of its operation and
//! length, unless a cost is given ([`costed`]).
//!
//! Arrival times take four bytes of memory per request, or eight if volumes are separated. Nothing
//! else grows with the trace.

pub mod arrival_times;
pub mod buy;
pub mod capacity;
pub mod confidence;
pub mod consolidate;
pub mod costed;
pub mod devices;
mod page;
pub mod power;
mod read;
pub mod search;
pub mod sla;
mod spread;
pub mod volume;
