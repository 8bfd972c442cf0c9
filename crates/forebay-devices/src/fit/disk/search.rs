//! Fits the parameters of a disk one after another, each to the rows that determine it.

use forebay_core::device::drive::Drive;
use forebay_core::{Op, SpecError};

use super::figures::OVERHEAD_MS;
use super::rows::Rows;
use super::{DiskFacts, DiskFigures, noun};
use crate::change::MARGIN_TURNS;
use crate::closed::play_disk;
use crate::fit::sweep::SweepRow;
use crate::fit::{FitError, surfaces};

/// The random error of a rate that was measured for a minute. Parameter values whose errors differ
/// by less fit equally well.
const AHEAD_ALIKE: f64 = 0.01;
/// The relative difference below which a 99th percentile does not determine the starvation limit.
const P99_ALIKE: f64 = 0.1;
/// The maximum catch margin in revolutions. No measured disk exceeds it, and larger margins change
/// little; beyond it, slower seeks are a better explanation.
const MARGIN_TURNS_MAX: f64 = 0.5;
/// Doubling the depth of a real queue raises the rate by about a tenth. Gains below this factor are
/// noise.
const DEEPER_GAINS: f64 = 1.075;
/// The largest number of places considered for a write cache.
const PLACES_MAX: u32 = 4096;
/// The write caches of all measured disks but one have fewer places than this.
const PLACES_USUAL: u32 = 512;
/// The smallest number of data surfaces to assume.
const HEADS: u32 = 4;
/// The number of places to assume if random writes do not reveal it.
const PLACES_ASSUMED: u32 = 64;

/// The current state of the fit.
pub(super) struct Search<'a> {
    rows: &'a Rows,
    capacity_bytes: u64,
    known: &'a DiskFacts,
    pub(super) figures: DiskFigures,
    pub(super) sources: Vec<(&'static str, String)>,
    pub(super) notes: Vec<String>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        rows: &'a Rows,
        known: &'a DiskFacts,
        notes: Vec<String>,
    ) -> Result<Search<'a>, FitError> {
        let figures = DiskFigures {
            rpm: 7200.0,
            heads: known.heads.unwrap_or_else(|| surfaces(known.capacity_bytes, HEADS)),
            sustained_mb_per_s: known.sustained_mb_per_s.unwrap_or([150.0, 75.0]),
            track_to_track_ms: 0.8,
            average_ms: 8.5,
            full_stroke_ms: 17.0,
            write_settle_ms: known.write_settle_ms.unwrap_or(0.5),
            queue_depth: 32,
            catch_margin_ms: 0.0,
            ahead: 0,
            starvation_ms: 2_000.0,
            places: 0,
            admits_newest: false,
        };
        let capacity_bytes = known.capacity_bytes;
        let mut search =
            Search { rows, capacity_bytes, known, figures, sources: Vec::new(), notes };
        search.figures.rpm = search.speed();
        search.figures.catch_margin_ms = MARGIN_TURNS * search.turn_ms();
        for (key, is_known, why) in [
            ("heads", known.heads.is_some(), "a sweep hardly depends on it"),
            ("sustained", known.sustained_mb_per_s.is_some(), "random I/O hardly depends on it"),
            (
                "settle",
                known.write_settle_ms.is_some(),
                "it cannot be separated from the size of \
                the cache",
            ),
        ] {
            search.says(key, if is_known { "as given".into() } else { format!("assumed: {why}") });
        }
        search.drive().map_err(FitError::NoDisk)?;
        Ok(search)
    }

    /// Returns the given rotational speed, or guesses it from the response times.
    fn speed(&mut self) -> f64 {
        if let Some(rpm) = self.known.rpm {
            self.says("rpm", "as given".to_string());
            return rpm;
        }
        let first = self.rows.reads.first();
        let rpm = first.map_or(7200.0, |row| match 1e3 * f64::from(row.depth) / row.iops {
            ms if ms < 6.8 => 15_000.0,
            ms if ms < 10.5 => 10_000.0,
            ms if ms < 16.5 => 7_200.0,
            _ => 5_400.0,
        });
        self.notes
            .push(format!("the sweep does not show the rotational speed: {rpm} rpm is assumed"));
        self.says("rpm", "assumed: usual for a disk of this speed".to_string());
        rpm
    }

    fn says(&mut self, key: &'static str, source: String) {
        self.sources.retain(|(other, _)| *other != key);
        self.sources.push((key, source));
    }

    fn turn_ms(&self) -> f64 {
        60e3 / self.figures.rpm
    }

    /// Builds the disk as fitted so far, but without a buffer, because random reads never hit the
    /// buffer and searching it would take most of the time.
    fn drive(&self) -> Result<Drive, SpecError> {
        let mut spec = self.figures.spec(self.capacity_bytes)?;
        spec.controller.buffer = None;
        Drive::new(&spec)
    }

    /// Simulates `row` on the disk as fitted so far. Returns None if the disk is invalid.
    fn model(&self, row: &SweepRow) -> Option<SweepRow> {
        Some(play_disk(&mut self.drive().ok()?, row.op, row.block_bytes, row.depth))
    }

    /// Returns the mean logarithm of the ratio of simulated to measured rates over `rows`.
    fn excess(&self, rows: &[SweepRow]) -> f64 {
        let of = |row: &SweepRow| self.model(row).map_or(0.0, |model| (model.iops / row.iops).ln());
        rows.iter().map(of).sum::<f64>() / rows.len().max(1) as f64
    }

    /// Fits the average and the longest seek time to the mean and the 99th percentile at the lowest
    /// depth.
    pub(super) fn fit_seeks(&mut self) -> Result<(), FitError> {
        let Some(row) = self.rows.reads.first() else {
            self.notes.push(
                "no random reads: seeks and queue of a typical disk of this speed are assumed"
                    .to_string(),
            );
            self.assume_seeks();
            return Ok(());
        };
        let mean_ms = 1e3 * f64::from(row.depth) / row.iops;
        let each_ms = mean_ms / f64::from(row.depth);
        let average = each_ms - self.turn_ms() / 2.0 - OVERHEAD_MS;
        if average < 0.3 {
            let what = format!(
                "got {each_ms:.2} ms each at {} rpm, of which half a revolution is {:.2} ms, \
                 expected more: reads over the whole disk that bypass its cache, and its true speed",
                self.figures.rpm,
                self.turn_ms() / 2.0
            );
            return Err(FitError::TooFast { what });
        }
        self.set_seeks(average, 1.9 * average);
        for _ in 0..5 {
            let Some(model) = self.model(row) else { break };
            let model_mean_ms = 1e3 * f64::from(row.depth) / model.iops;
            let DiskFigures { average_ms, full_stroke_ms, .. } = self.figures;
            let average = average_ms + (mean_ms - model_mean_ms) / f64::from(row.depth);
            let full = match (row.p99_us, model.p99_us) {
                (Some(measured), Some(model)) => full_stroke_ms + (measured - model) / 1e3,
                _ => 1.9 * average,
            };
            self.set_seeks(average.max(0.1), full);
        }
        self.says("average", format!("fitted: from the rate at queue depth {}", row.depth));
        let full = match row.p99_us {
            Some(_) => format!("fitted: from the 99th percentile at queue depth {}", row.depth),
            None => "assumed: 1.9 times the average, as in measured disks".to_string(),
        };
        self.says("full", full);
        Ok(())
    }

    fn assume_seeks(&mut self) {
        let average = match self.figures.rpm {
            rpm if rpm > 12_000.0 => 3.5,
            rpm if rpm > 8_000.0 => 4.7,
            rpm if rpm > 6_000.0 => 8.5,
            _ => 12.0,
        };
        self.set_seeks(average, 1.9 * average);
        for key in ["average", "full"] {
            self.says(key, "assumed: usual at this speed".to_string());
        }
        self.says("margin", format!("assumed: {MARGIN_TURNS} of a revolution"));
    }

    /// Sets seek times that form a valid curve. On measured disks, the full stroke takes 1.8 to 2.1
    /// times the average.
    fn set_seeks(&mut self, average_ms: f64, full_ms: f64) {
        self.figures.average_ms = average_ms;
        self.figures.full_stroke_ms = full_ms.clamp(1.5 * average_ms, 2.6 * average_ms);
        let (track, source) = match self.known.track_to_track_ms {
            Some(track) => (track.min(0.5 * average_ms), "as given"),
            None => (0.1 * average_ms, "assumed: a tenth of the average"),
        };
        self.figures.track_to_track_ms = track;
        self.says("track", source.to_string());
    }

    /// Fits how many commands ahead the drive decides, and its catch margin, to the rates by depth.
    pub(super) fn fit_queue(&mut self) -> Result<(), FitError> {
        let rows = self.rows;
        let Some(first) = rows.reads.first() else { return Ok(()) };
        self.fit_queue_depth();
        let held = |row: &&SweepRow| row.depth > first.depth;
        let of = |from: u32, to: u32| {
            let within = move |row: &&SweepRow| (from..=to).contains(&row.depth);
            rows.reads.iter().filter(held).filter(within).cloned().collect::<Vec<_>>()
        };
        let shallow = of(2, 8);
        let deep =
            [16, 8, 4].map(|from| of(from, u32::MAX)).into_iter().find(|rows| !rows.is_empty());
        let deep = deep.unwrap_or_default();
        let Some(deepest) = deep.last() else {
            self.notes.push(format!(
                "no random reads at a queue depth of 4 or more: a catch margin of {MARGIN_TURNS} of a \
                 revolution is assumed"
            ));
            self.says("margin", format!("assumed: {MARGIN_TURNS} of a revolution"));
            self.says("ahead", "assumed".to_string());
            return Ok(());
        };
        if deepest.depth >= 8 && deepest.iops < 1.05 * first.iops {
            self.figures.queue_depth = 1;
            self.figures.catch_margin_ms = 0.0;
            let depth = deepest.depth;
            self.says("depth", format!("fitted: reads gain nothing at queue depth {depth}"));
            return Ok(());
        }
        self.fit_margin(&deep, 5);
        if !shallow.is_empty() {
            self.fit_ahead(&shallow);
        }
        let without = self.fit_margin(&deep, 8);
        self.note_gain(without);
        self.fit_track(&deep);
        let ahead = match shallow.is_empty() {
            true => "assumed: no rows at queue depths 2 to 8".to_string(),
            false => "fitted: from the depth at which the queue begins to help".to_string(),
        };
        self.says("ahead", ahead);
        Ok(())
    }

    /// Sets the queue depth to 32 commands, or to more if reads become faster with more.
    fn fit_queue_depth(&mut self) {
        let at = |depth: u32| self.rows.reads.iter().find(|row| row.depth == depth);
        let mut depth = 32;
        while depth < 256
            && let (Some(row), Some(twice)) = (at(depth), at(2 * depth))
            && twice.iops > DEEPER_GAINS * row.iops
        {
            depth *= 2;
        }
        self.figures.queue_depth = depth;
        let source = match depth {
            32 => "assumed: the limit of SATA drives, and Linux's limit for others".to_string(),
            _ => "fitted: reads gain up to this depth".to_string(),
        };
        self.says("depth", source);
    }

    /// Fits the catch margin for which the simulated rates of `deep` match the measured ones on
    /// average, with `halvings` steps of bisection. Returns the excess without a margin.
    fn fit_margin(&mut self, deep: &[SweepRow], halvings: u32) -> f64 {
        let turn = self.turn_ms();
        let depths: Vec<String> = deep.iter().map(|row| row.depth.to_string()).collect();
        let from = format!("from the rates at queue depths {}", depths.join(", "));
        self.figures.catch_margin_ms = 0.0;
        let without = self.excess(deep);
        if without <= 0.0 {
            self.says("margin", format!("fitted: {from}"));
            return without;
        }
        let (mut low, mut high) = (0.0, MARGIN_TURNS_MAX);
        for _ in 0..halvings {
            let middle = f64::midpoint(low, high);
            self.figures.catch_margin_ms = middle * turn;
            if self.excess(deep) > 0.0 { low = middle } else { high = middle }
        }
        self.figures.catch_margin_ms = f64::midpoint(low, high) * turn;
        self.says("margin", format!("fitted: {from}"));
        without
    }

    /// Adds a note if reads gain more from depth than any margin allows. `without` is the excess
    /// without a margin.
    fn note_gain(&mut self, without: f64) {
        if without < -0.03 {
            let percent = 100.0 * (1.0 - without.exp());
            self.notes.push(format!(
                "{} gain more from depth than the model without a margin, which is {percent:.0} % \
                 slower",
                noun(Op::Read)
            ));
        }
    }

    /// Increases the shortest seek time if no catch margin explains how little a deeper queue
    /// helps.
    fn fit_track(&mut self, deep: &[SweepRow]) {
        let is_most = self.figures.catch_margin_ms > 0.98 * MARGIN_TURNS_MAX * self.turn_ms();
        if !is_most || self.excess(deep) < 0.005 {
            return;
        }
        if self.known.track_to_track_ms.is_some() {
            let percent = 100.0 * (self.excess(deep).exp() - 1.0);
            self.notes.push(format!(
                "{} gain less from depth than the model with the given track-to-track seek, which \
                 is {percent:.0} % faster",
                noun(Op::Read)
            ));
            return;
        }
        let longest = 0.4 * self.figures.average_ms;
        while self.figures.track_to_track_ms < longest && self.excess(deep) > 0.0 {
            self.figures.track_to_track_ms *= 1.1;
        }
        self.says(
            "track",
            "fitted: no catch margin explains the small gain from depth".to_string(),
        );
    }

    /// Fits the number of commands that are committed when the next is chosen, using the rows in
    /// `shallow`. If several numbers explain these rows equally well, uses the middle one.
    fn fit_ahead(&mut self, shallow: &[SweepRow]) {
        let deepest = shallow.iter().map(|row| row.depth).max().unwrap_or(0) as i32;
        // If rows up to depth 4 or more show no gain, the depth that would show one is unknown.
        let most = if deepest >= 4 { deepest - 1 } else { deepest - 2 };
        let errors: Vec<(f64, i32)> = (-1..=most.min(6))
            .map(|ahead| {
                self.figures.ahead = ahead;
                let squares: f64 = shallow.iter().map(|row| self.misfit(row).powi(2)).sum();
                ((squares / shallow.len() as f64).sqrt(), ahead)
            })
            .collect();
        let least = errors.iter().map(|(error, _)| *error).fold(f64::INFINITY, f64::min);
        let alike = errors.iter().filter(|(error, _)| *error <= least + AHEAD_ALIKE);
        let alike: Vec<i32> = alike.map(|(_, ahead)| *ahead).collect();
        self.figures.ahead = alike.get(alike.len() / 2).copied().unwrap_or_default();
    }

    /// Returns the error of the model for a row: the error of its rate plus a tenth of that of its
    /// 99th percentile. The percentile shows at which depth the drive begins to choose even if the
    /// rate has a random error.
    fn misfit(&self, row: &SweepRow) -> f64 {
        let off = |model: f64, measured: f64| (model / measured).ln();
        let Some(model) = self.model(row) else { return f64::INFINITY };
        let p99 = model.p99_us.zip(row.p99_us).map_or(0.0, |(is, was)| off(is, was));
        off(model.iops, row.iops).hypot(P99_ALIKE * p99)
    }

    /// Fits the starvation limit to the longest latencies of reads at about the queue depth.
    pub(super) fn fit_patience(&mut self) -> Result<(), FitError> {
        self.says("starvation", "assumed: measured disks have 0.5 to 2 s".to_string());
        let depth = self.figures.queue_depth;
        let rows = self.rows;
        let tail = |row: &SweepRow| {
            let tail: Vec<f64> = [row.p999_us, row.max_us].into_iter().flatten().collect();
            let count = tail.len() as f64;
            (count > 0.0).then(|| tail.iter().map(|us| us.ln()).sum::<f64>() / count)
        };
        let near = |row: &&SweepRow| (16..=depth).contains(&row.depth) && tail(row).is_some();
        let Some(row) = rows.reads.iter().rev().find(near) else {
            self.fit_patience_to_p99();
            return Ok(());
        };
        let Some(measured) = tail(row) else { return Ok(()) };
        let (mut low, mut high) = (100f64.ln(), 10_000f64.ln());
        for _ in 0..8 {
            let middle = f64::midpoint(low, high);
            self.figures.starvation_ms = middle.exp();
            let model = self.model(row).and_then(|model| {
                let has = |of: Option<f64>, model: Option<f64>| of.and(model);
                tail(&SweepRow {
                    p999_us: has(row.p999_us, model.p999_us),
                    max_us: has(row.max_us, model.max_us),
                    ..model
                })
            });
            if model.is_some_and(|model| model < measured) { low = middle } else { high = middle }
        }
        self.figures.starvation_ms = f64::midpoint(low, high).exp();
        let from = format!("fitted: from the longest reads at queue depth {}", row.depth);
        self.says("starvation", from);
        Ok(())
    }

    /// Fits the starvation limit to the 99th percentile, if no higher percentile was measured and
    /// enough commands reach the limit to affect the 99th.
    fn fit_patience_to_p99(&mut self) {
        let (rows, depth) = (self.rows, self.figures.queue_depth);
        let near = |row: &&SweepRow| (16..=depth).contains(&row.depth) && row.p99_us.is_some();
        let Some(row) = rows.reads.iter().rev().find(near) else { return };
        let above = |search: &Self| {
            let model = search.model(row).and_then(|model| model.p99_us);
            model.zip(row.p99_us).map_or(0.0, |(model, measured)| (model / measured).ln())
        };
        if above(self) <= P99_ALIKE {
            return;
        }
        let (mut low, mut high) = (100f64.ln(), self.figures.starvation_ms.ln());
        for _ in 0..6 {
            let middle = f64::midpoint(low, high);
            self.figures.starvation_ms = middle.exp();
            if above(self) > 0.0 { high = middle } else { low = middle }
        }
        self.figures.starvation_ms = f64::midpoint(low, high).exp();
        let from =
            format!("fitted: from the 99th percentile of reads at queue depth {}", row.depth);
        self.says("starvation", from);
    }

    /// Fits the write cache to random writes: whether there is one, its number of places and its
    /// order of admission.
    pub(super) fn fit_writes(&mut self) -> Result<(), FitError> {
        let rows = self.rows;
        let Some(first) = rows.writes.first() else {
            self.figures.places = PLACES_ASSUMED;
            self.notes.push(format!(
                "no random writes: a write cache of {PLACES_ASSUMED} runs is assumed"
            ));
            self.says("places", "assumed: no random writes".to_string());
            return Ok(());
        };
        if self.fit_write_through(first) {
            return Ok(());
        }
        self.fit_admission();
        // The throughput of a full cache does not depend on the depth, so one depth represents all.
        let mean = rows.writes.iter().map(|row| row.iops.ln()).sum::<f64>();
        let row = SweepRow { iops: (mean / rows.writes.len() as f64).exp(), ..first.clone() };
        self.fit_places(&row);
        Ok(())
    }

    /// Fits the number of places in the write cache to the rate of the random writes `row`.
    /// Simulations with many places take long, so first check whether any number is sufficient.
    fn fit_places(&mut self, row: &SweepRow) {
        let is_large = self.is_slower(row, PLACES_USUAL);
        if is_large && self.is_slower(row, PLACES_MAX) {
            self.figures.places = PLACES_ASSUMED;
            let writes = noun(Op::Write);
            self.notes.push(format!(
                "{writes} are faster than a write cache explains: a write cache of \
                 {PLACES_ASSUMED} runs is assumed"
            ));
            self.says("places", format!("assumed: no write cache explains the rate of {writes}"));
            return;
        }
        let range = if is_large { [PLACES_USUAL, PLACES_MAX] } else { [1, PLACES_USUAL] };
        let [mut low, mut high] = range.map(|places| f64::from(places).ln());
        for _ in 0..8 {
            let middle = f64::midpoint(low, high);
            let places = middle.exp().round() as u32;
            if self.is_slower(row, places) { low = middle } else { high = middle }
        }
        self.figures.places = f64::midpoint(low, high).exp().round() as u32;
        self.says("places", "fitted: from the rate of random writes".to_string());
    }

    /// Sets the number of places in the write cache. Returns whether writes are then slower than
    /// measured.
    fn is_slower(&mut self, row: &SweepRow, places: u32) -> bool {
        self.figures.places = places;
        self.excess(std::slice::from_ref(row)) < 0.0
    }

    /// Disables the write cache if writes are as slow as they would be without one. Returns whether
    /// it did.
    fn fit_write_through(&mut self, first: &SweepRow) -> bool {
        self.figures.places = 0;
        let Some(through) = self.model(first) else { return false };
        if first.iops > 1.12 * through.iops {
            return false;
        }
        if self.known.write_settle_ms.is_none() {
            self.fit_settle();
        }
        self.says("places", "fitted: random writes are as slow as without a cache".to_string());
        true
    }

    /// Returns the middle between the largest and the smallest logarithm of the ratio of simulated
    /// to measured rates.
    fn middle_excess(&self, rows: &[SweepRow]) -> f64 {
        let of = |row: &SweepRow| self.excess(std::slice::from_ref(row));
        let (low, high) = rows
            .iter()
            .map(of)
            .fold((f64::MAX, f64::MIN), |(low, high), excess| (low.min(excess), high.max(excess)));
        f64::midpoint(low, high)
    }

    /// Fits the settle time of writes without a cache so that the largest error of a rate is least
    /// over all depths: the catch margin was fitted to reads alone.
    fn fit_settle(&mut self) {
        let rows = self.rows;
        let (mut low, mut high) = (0.0, self.turn_ms());
        for _ in 0..8 {
            self.figures.write_settle_ms = f64::midpoint(low, high);
            let settle = self.figures.write_settle_ms;
            if self.middle_excess(&rows.writes) > 0.0 { low = settle } else { high = settle }
        }
        self.figures.write_settle_ms = f64::midpoint(low, high);
        let depths: Vec<String> = rows.writes.iter().map(|row| row.depth.to_string()).collect();
        let depths = match depths.as_slice() {
            [one] => format!("queue depth {one}"),
            several => format!("queue depths {}", several.join(", ")),
        };
        self.says("settle", format!("fitted: from random writes at {depths}"));
    }

    /// Chooses newest-first admission if most writes wait less than half the mean while a few wait
    /// for seconds.
    fn fit_admission(&mut self) {
        let deep = self.rows.writes.iter().filter(|row| (8..=32).contains(&row.depth));
        let is_newest = |row: &SweepRow| {
            let mean = row.mean_us.unwrap_or(1e6 * f64::from(row.depth) / row.iops);
            row.p99_us.map(|p99| p99 > 5.0 * mean)
        };
        let votes: Vec<bool> = deep.clone().filter_map(is_newest).collect();
        let newest = votes.iter().filter(|vote| **vote).count();
        self.figures.admits_newest = 2 * newest > votes.len();
        let source = match votes.is_empty() {
            true => "assumed: no percentiles of random writes at queue depths 8 to 32",
            false => "fitted: from the 99th percentile of random writes",
        };
        self.says("admits", source.to_string());
        // The longest waits show the starvation limit itself.
        let longest = deep.clone().find_map(|row| row.p999_us.or(row.p99_us));
        if let Some(us) = longest.filter(|_| self.figures.admits_newest) {
            let each_ms = deep.map(|row| 1e3 / row.iops).fold(0.0, f64::max);
            self.figures.starvation_ms = (us / 1e3 - 2.0 * each_ms).clamp(50.0, 10_000.0);
            self.says("starvation", "fitted: from the longest random writes".to_string());
        }
    }
}
