//! The verb `plan`: what a promise costs.
//!
//! A promise is a share of all requests and the time within which they are answered. What it costs
//! is a capacity, in requests per second of a server of constant rate, found exactly by RTT
//! decomposition ([`forebay_core::rtt`]); or a number of devices, found by simulation.
//!
//! Source: L. Lu, *Workload Shaping for QoS and Power Efficiency of Storage Systems*, sections 3.2
//! and 4.2 to 4.5. Every record of a trace counts as one request, whatever it does and however
//! long it is, unless a cost is given ([`costed`]).
//!
//! Memory: four bytes a request for the times of arrival, and as much again where volumes are told
//! apart; nothing else grows with the trace.

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
