//! Describes the load that the trace puts on the device, and the streams that compete for the
//! device.

use forebay_core::{Device, DeviceModel};
use forebay_trace::describe::printable;

use super::{Case, capitalised, named_scheduler, under};
use crate::Replay;
use crate::advise::Disturbance;
use crate::advise::judge::UTILISATION_THAT_MATTERS;
use crate::advise::need::NoNeed;
use crate::quantities::{counted, millis, percent, seconds, significant};

impl Case<'_> {
    /// Reports that the trace contains only reads, or only writes.
    pub(super) fn one_sided(&self) -> Option<String> {
        let figures = &self.baseline().figures;
        let text = match (figures.reads, figures.writes) {
            (0, 0) => return None,
            (_, 0) => {
                "The trace contains only reads, so it shows nothing about writes, and mechanisms that \
                 delay or divert writes have no effect."
            }
            (0, _) => {
                "The trace contains only writes, so it shows nothing about reads, and no scheduler \
                 ever waits for a reader's next request."
            }
            _ => return None,
        };
        Some(text.to_string())
    }

    /// Explains that a mostly idle device has nothing to gain, or only in bursts and perhaps by
    /// chance.
    pub(super) fn mostly_idle(&self) -> String {
        let busy = self.busy();
        let (drive, kind) = (self.drive(), self.tail().name());
        let (baseline, within) = (self.baseline(), millis(self.tail().ms(self.baseline())));
        let no_need = self.need.none();
        if no_need.is_some() || self.device.model.cylinders() == 0 {
            let tail = match self.baseline().figures.longest_ms() {
                Some(_) => format!("; 99 % of {kind} are answered within {within}"),
                None => String::new(),
            };
            let so = match no_need {
                Some(NoNeed::RecordedFast) => ", and the recorded requests were answered quickly",
                _ if self.share_busy() < UTILISATION_THAT_MATTERS => {
                    ", so requests rarely overlap and there is little to reorder"
                }
                _ => ", and it already answers about as fast as it can",
            };
            return format!(
                "Nothing to gain: the trace keeps the {drive} busy for {busy}{so}{tail}. {}",
                self.stay(),
            );
        }
        if let Some(best) = self.choice.best().filter(|best| *best != baseline.policy) {
            return format!(
                "Nothing needed: the trace keeps the {drive} busy for {busy}, and {} shortens no long tail by \
                 a fifth ({}). {}",
                named_scheduler(best),
                self.choice.run(best).map_or(String::new(), |run| self.falls(run)),
                self.stay(),
            );
        }
        let least = self.to_be_had().min_by(|a, b| self.tail_ms(a).total_cmp(&self.tail_ms(b)));
        let chance = least.filter(|least| self.tail_ms(least) < self.tail().ms(baseline));
        let chance = chance.map_or(String::new(), |least| {
            format!(
                " {} answers {kind} within {}, but the difference is not statistically significant.",
                least.policy,
                millis(self.tail_ms(least))
            )
        });
        format!(
            "No gain is certain: the trace keeps the {drive} busy for {busy}, in bursts: 99 % of \
             {kind} are answered within {within} {}.{chance} {}",
            under(&baseline.policy),
            self.stay(),
        )
    }

    pub(super) fn load(&self) -> String {
        let figures = &self.baseline().figures;
        let duration_s = self.input.description.duration_s / self.setup.intensity.times();
        // For a drive with a controller, this bound would be the time on the bus, far below what
        // any order of requests can reach.
        let floor = match self.device.model {
            DeviceModel::Drive(_) => String::new(),
            _ => format!(
                " Transferring the data alone takes {} at media rate.",
                seconds(figures.transfer_bound_s)
            ),
        };
        let (drive, busy) = (self.drive(), seconds(figures.busy_s));
        let under = capitalised(&under(&self.baseline().policy));
        if figures.is_overloaded() {
            return format!(
                "{under} {} of the requests arrive more than 1 s later than in the recording, \
                 which takes {}; the {drive} is busy for {busy} of {}.{floor}",
                percent(figures.lagging_share),
                seconds(duration_s),
                seconds(figures.makespan_s),
            );
        }
        let over_s = match self.setup.replay {
            Replay::Closed | Replay::Dependent => figures.makespan_s,
            Replay::Open => self.span_s,
        };
        if figures.busy_s > over_s {
            return format!(
                "{under} the {drive} is busy for {busy}, longer than the {} in which requests \
                 arrive.{floor}",
                seconds(over_s),
            );
        }
        format!(
            "{under} the {drive} is busy {busy} of {} ({}).{floor}",
            seconds(over_s),
            percent(self.share_busy()),
        )
    }

    pub(super) fn head_movement(&self) -> String {
        let figures = &self.baseline().figures;
        if self.device.model.cylinders() == 0 {
            return "This device has no heads, so the order of requests only changes which of \
                    them wait. Its busy time changes if requests merge, or if the number of outstanding \
                    requests changes."
                .to_string();
        }
        let written_back = match figures.write_back_s {
            0.0 => String::new(),
            s => format!(" Emptying the drive's write cache takes {} of it.", seconds(s)),
        };
        format!(
            "{} the arm spends {} seeking, {} waiting for sectors and {} transferring ({}, {} full sweeps): \
             order can change the first two, {} of the busy time.{written_back}",
            capitalised(&under(&self.baseline().policy)),
            seconds(figures.seek_s),
            seconds(figures.rotation_s),
            seconds(figures.transfer_s),
            counted(figures.head_movements, "head movement"),
            significant(figures.seek_sweeps),
            percent(figures.moving_share()),
        )
    }

    /// Returns whether the trace distinguishes streams.
    pub(in crate::advise) fn has_streams(&self) -> bool {
        self.input.names_submitters || self.input.has_streams_of_volumes()
    }

    /// Formats what two streams would gain without each other.
    pub(super) fn disturbed(&self) -> Option<String> {
        let said: Vec<String> = self.disturbances.iter().map(Disturbance::said).collect();
        (!said.is_empty())
            .then(|| format!("Simulated without one of two streams: {}.", said.join("; ")))
    }

    pub(super) fn fights(&self) -> Option<String> {
        let contention = &self.baseline().contention;
        let moving = contention.between_streams_s + contention.within_streams_s;
        if moving <= 0.0 {
            return None;
        }
        let between = contention.between_streams_s / moving;
        if !self.has_streams() {
            return Some(
                "The trace does not record which process submitted each request, so streams that \
                 disturb each other cannot be identified, and per-process schedulers (cfq, bfq, \
                 bid, anticipatory) see a single process and perform worse than they could; \
                 forebay still detects streams by their addresses."
                    .to_string(),
            );
        }
        if self.input.labels.len() < 2 {
            return Some(
                "There is only one stream, so nothing competes with it for the heads; only the \
                 order of its own requests can be changed."
                    .to_string(),
            );
        }
        let Some(pair) = contention.fights.first() else {
            return Some("No two streams used the disk at the same time.".to_string());
        };
        let of_volumes = match self.input.has_streams_of_volumes() {
            true => {
                " The trace does not record which process submitted each request, so each volume \
                 counts as a stream."
            }
            false => "",
        };
        Some(format!(
            "While requests wait, positioning takes {}, {} of it to switch between streams; the \
             most expensive switches are those between {} and {}.{of_volumes}",
            seconds(moving),
            percent(between),
            printable(&pair.stream_a),
            printable(&pair.stream_b),
        ))
    }
}
