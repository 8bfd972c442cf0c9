//! The contract between the parts of Forebay: requests, and the traits of the components that send,
//! schedule, serve and observe them.
//!
//! This module imports nothing else from the crate. A [`workload::Workload`] sends requests, a
//! [`policy::Policy`] turns them into I/Os, a [`device::Device`] serves the I/Os, and an
//! [`observer::Observer`] collects statistics. Policies refer to data by name ([`bytes`]) and never
//! store it. Every completion carries an outcome ([`outcome`]).

mod bare;
pub mod bytes;
pub mod device;
pub mod near;
pub mod observer;
pub mod outcome;
pub mod parameter;
pub mod policy;
pub mod request;
pub mod spec;
mod sysfs;
pub mod time;
pub mod volume;
pub mod workload;

pub use bare::Bare;
pub use bytes::{Buf, Bytes, Null, Piece, Slots};
pub use device::{Completion, Device, Mechanics, Positioning, WriteBack};
pub use near::{nearest, suggestion};
pub use observer::Observer;
pub use outcome::{Fault, Outcome, worst};
pub use parameter::{Given, Listed, Origin, Parameter};
pub use policy::{
    AnyPolicy, Class, Cx, Done, Figure, Finished, Gauge, GaugeOf, Policy, PolicyVisitor,
};
pub use request::{BACKGROUND, Flags, Lane, Op, Request, RequestId};
pub use spec::{Spec, SpecError};
pub use time::Nanos;
pub use volume::{VolumeDrive, VolumeEvent, VolumeOrder, VolumeProgress, VolumeState, VolumeWork};
pub use workload::Workload;
