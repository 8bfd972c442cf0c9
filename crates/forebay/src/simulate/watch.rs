//! The observers of a run.

use forebay_core::contract::Class;
use forebay_core::{BACKGROUND, Completion, DeviceModel, Done, Nanos, Observer, Request};

use crate::contention::Contention;
use crate::head::HeadTrace;
use crate::idle::Idle;
use crate::retrodict::Judged;
use crate::simulate::LateCount;
use crate::simulate::served::class_of;
use crate::slices::Slices;
use crate::statistics::Statistics;

/// All observers of a run.
pub(super) struct Watch<'a> {
    pub(super) disks: u16,
    pub(super) statistics: Statistics<DeviceModel>,
    pub(super) contention: Contention,
    pub(super) head: HeadTrace,
    pub(super) idle: Idle,
    pub(super) slices: Option<Slices>,
    pub(super) judged: Option<Judged>,
    pub(super) late: Option<&'a LateCount>,
    /// The promises of exports (see [`super::Bed::promises`]).
    pub(super) promises: &'a [Option<Class>],
}

impl Observer for Watch<'_> {
    #[inline]
    fn arrived(&mut self, request: &Request) {
        if request.stream == BACKGROUND {
            return;
        }
        self.statistics.arrived(request);
        self.idle.arrived(request.at);
    }

    #[inline]
    fn io(&mut self, completion: &Completion) {
        self.statistics.io(completion);
        if completion.io.lane < self.disks {
            self.contention.io(completion);
        }
        if completion.io.lane == 0 {
            self.head.io(completion);
        }
        if let Some(slices) = &mut self.slices {
            slices.io(completion);
        }
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done) {
        if done.request.stream == BACKGROUND {
            return;
        }
        match self.promises {
            [] => self.statistics.finished(now, done),
            promises => {
                let class = class_of(promises, done);
                self.statistics.finished(now, &Done { class, ..*done });
            }
        }
        self.idle.finished(now);
        if let Some(slices) = &mut self.slices {
            slices.finished(now, done);
        }
        if let Some(judged) = &mut self.judged {
            judged.finished(now, done);
        }
        if let Some(late) = self.late {
            late.finished(now, done);
        }
    }
}
