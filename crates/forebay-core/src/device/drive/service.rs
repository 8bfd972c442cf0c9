//! How a drive serves a command, and what it does while idle.

use super::{
    Access, Command, Dirty, Drive, Flags, Hit, Mechanics, Nanos, Op, Pick, Served, Task, WriteCache,
};

impl Drive {
    /// Serves `command` if it does not need the arm.
    pub(super) fn without_arm(&mut self, now: u64, command: &Command) -> Option<Served> {
        let ready = now.max(command.arrived + command.overhead);
        let done = match command.io.op {
            Op::Read if command.count > 0 => self.read_hit(now, command)?,
            Op::Write if command.count > 0 => self.write_cached(now, command)?,
            Op::Flush => match &self.cache {
                Some(cache) if cache.runs().is_empty() => ready.max(cache.written_at()),
                Some(_) => return None,
                None => ready,
            },
            _ => ready,
        };
        Some(self.served(command, done, false, None))
    }

    fn served(
        &self,
        command: &Command,
        done: u64,
        at_media: bool,
        access: Option<(Access, u32)>,
    ) -> Served {
        let here = self.mechanism.motion.cylinder;
        let mut mechanics = Mechanics {
            cylinder_from: here,
            cylinder_first: here,
            cylinder_last: here,
            ..Mechanics::default()
        };
        if let Some((access, from)) = access {
            mechanics = Mechanics {
                cylinder_from: from,
                cylinder_first: access.from.cylinder,
                cylinder_last: access.last.cylinder,
                seek: Nanos(access.seek),
                rotation: Nanos(access.rotation),
                transfer: Nanos(access.transfer),
            };
        }
        Served { io: command.io, arrived: command.arrived, done, at_media, mechanics }
    }

    /// Returns when a read completes if all of it is in the write cache or the buffer, or will be
    /// in the buffer without another access.
    fn read_hit(&mut self, now: u64, command: &Command) -> Option<u64> {
        let Command { first, count, .. } = *command;
        if self.cache.as_ref().is_some_and(|cache| cache.holds(first, count)) {
            return Some(self.hand_over(now, command, 0).1);
        }
        let buffer = self.buffer.as_mut()?;
        let hit = buffer.find(&self.mechanism.surface, now, first, count)?;
        if hit.sectors < count {
            return None;
        }
        buffer.hit(&self.mechanism.surface, hit, first, count);
        let (begins, done) = self.hand_over(now, command, hit.there);
        self.read_on(begins, hit, first, count);
        Some(done)
    }

    /// Returns when the data of a hit begins to be transferred over the bus, and when the read
    /// completes. The last sector of the data is in the buffer at `there`.
    fn hand_over(&mut self, now: u64, command: &Command, there: u64) -> (u64, u64) {
        let begins = self.hit_begins(now, command);
        let ns = self.controller.bus.read_ns_per_sector;
        let over = begins + (ns * command.count as f64) as u64;
        self.bus_free_at = over.max(there.saturating_add(ns as u64));
        (begins, self.bus_free_at + self.controller.overheads.read_completion.0)
    }

    /// Resumes read-ahead after a hit, if the drive does so.
    fn read_on(&mut self, start: u64, hit: Hit, first: u64, count: u64) {
        let Some(buffer) = &self.buffer else { return };
        let Some(next) = buffer.resume(&self.mechanism.surface, hit, first, count) else { return };
        self.stop_reading(start, start);
        let access = self.mechanism.access(Task::read(start, next, 1));
        self.keep(Some(hit), &access, first, next + 1 - first);
    }

    /// Returns when the data of a hit may be transferred over the bus.
    fn hit_begins(&self, now: u64, command: &Command) -> u64 {
        let overheads = &self.controller.overheads;
        let begins = command.arrived + overheads.read_hit.after(command.after_write);
        begins.max(now).max(self.bus_free_at) + overheads.data_preparation.0
    }

    /// Returns whether `command` is a write that the cache accepts, either now or when it has
    /// space.
    pub(super) fn is_cached(&self, command: &Command) -> bool {
        let Command { io, count, .. } = *command;
        let past = io.flags.has(Flags::FUA) || io.flags.has(Flags::PREFLUSH);
        let fits = |cache: &WriteCache| cache.fits(count);
        io.op == Op::Write && count > 0 && !past && self.cache.as_ref().is_some_and(fits)
    }

    /// Returns when a write into the cache completes; `None` if it bypasses the cache, or if the
    /// cache is full of data that the arm is not writing yet.
    fn write_cached(&mut self, now: u64, command: &Command) -> Option<u64> {
        if !self.is_cached(command) {
            return None;
        }
        let at = self.cache.as_ref()?.room_at(now, command.first, command.count)?;
        Some(self.put_in_cache(at, command))
    }

    /// Puts a write into the cache, which must have space for it.
    fn put_in_cache(&mut self, now: u64, command: &Command) -> u64 {
        let Command { first, count, .. } = *command;
        let overheads = self.controller.overheads;
        let ready = now.max(command.arrived + overheads.write_hit.after(command.after_write));
        let begins = ready.max(self.bus_free_at) + overheads.data_preparation.0;
        let ns = self.controller.bus.write_ns_per_sector;
        let over = begins + (ns * count as f64) as u64;
        self.bus_free_at = over;
        if let Some(cache) = &mut self.cache {
            let data = (begins, ns);
            cache.put(Dirty { first, spot: command.spot, count, ready, data });
        }
        self.noticed(first, first + count);
        self.stop_reading(now, ready);
        if let Some(buffer) = &mut self.buffer {
            buffer.write(first, count, true);
        }
        over + overheads.write_completion.0
    }

    /// Serves `command` at the media. The arm must be free or soon become free.
    pub(super) fn at_media(&mut self, now: u64, command: &Command) -> Served {
        let from = self.mechanism.motion.cylinder;
        let start = command.arrived + command.overhead;
        if command.io.op == Op::Read {
            let (done, access) = self.read_miss(now, command);
            return self.served(command, done.max(now), true, Some((access, from)));
        }
        let mut at = now;
        if !command.io.op.moves_data() || command.io.flags.has(Flags::PREFLUSH) {
            at = at.max(start).max(self.write_back(now, start));
        }
        if !command.io.op.moves_data() {
            let done = at + self.controller.overheads.write_completion.0;
            return self.served(command, done, true, None);
        }
        // After the flush, the cache contains only data that is being written, so it has space in
        // time.
        let fits = |cache: &WriteCache| cache.fits(command.count);
        if !command.io.flags.has(Flags::FUA)
            && let Some(cache) = self.cache.as_ref().filter(|cache| fits(cache))
        {
            let at = cache.room_at(at, command.first, command.count).unwrap_or(at);
            let done = self.put_in_cache(at, command);
            return self.served(command, done, true, None);
        }
        let (done, access) = self.write_through(now, command);
        self.served(command, done.max(now), true, Some((access, from)))
    }

    /// Writes the contents of the cache and stops the platters.
    pub(super) fn park(&mut self, now: u64) {
        self.stop_reading(now, now.max(self.mechanism.motion.free_at));
        self.write_back(now, now);
        self.mechanism.rest(now);
    }

    fn read_miss(&mut self, now: u64, command: &Command) -> (u64, Access) {
        let Command { first, count, .. } = *command;
        let overheads = self.controller.overheads;
        let start = command.arrived + command.overhead;
        self.stop_reading(now, start.max(self.mechanism.motion.free_at));
        let surface = &self.mechanism.surface;
        let hit = self.buffer.as_ref().and_then(|b| b.find(surface, now, first, count));
        let held = hit.map_or(0, |hit| hit.sectors.min(count - 1));
        let zero_latency = self.controller.zero_latency_reads;
        let task = Task { zero_latency, ..Task::read(start, first + held, count - held) };
        let access = self.mechanism.access(task);
        let ns = self.controller.bus.read_ns_per_sector;
        let begins = match hit {
            Some(_) => self.hit_begins(now, command),
            None => {
                let share = self.buffer.as_ref().map_or(0.0, |b| b.spec().watermark_share);
                let mark = ((count as f64 * share) as u64).max(1);
                let marked = match mark {
                    1 => access.from,
                    _ => self.mechanism.surface.place(first + mark - 1),
                };
                let left = access.last.ends - marked.ends;
                let there = access.ends.saturating_sub(left).max(access.first_ends);
                let regained = access.first_begins + overheads.reselect.0;
                there.max(regained).max(self.bus_free_at) + overheads.data_preparation.0
            }
        };
        // The sectors in the buffer are transferred first.
        let begins = begins + (ns * held as f64) as u64;
        let over = self.mechanism.over_bus(&access, first + held, count - held, begins, ns);
        self.bus_free_at = over;
        self.keep(hit, &access, first, count);
        (over + overheads.read_completion.0, access)
    }

    /// Puts the data of a read into the buffer and starts read-ahead.
    fn keep(&mut self, hit: Option<Hit>, access: &Access, first: u64, count: u64) {
        let Some(buffer) = &mut self.buffer else { return };
        let surface = &self.mechanism.surface;
        let mut start = first;
        if buffer.spec().read_before && access.rotation > 0 {
            let (track, _) = surface.track(first);
            let passed = access.from.begins.saturating_sub(access.rotation);
            start = super::search::search(track, first, |s| surface.place(s).begins < passed);
        }
        let request = (first, count);
        let until = buffer.fill(surface, hit, start, request, access.ends, access.last);
        self.mechanism.note_streaming(until);
    }

    /// Stops read-ahead, because the arm is needed at `at`.
    fn stop_reading(&mut self, now: u64, at: u64) {
        let Some(buffer) = &mut self.buffer else { return };
        if let Some(stopped) = buffer.stop(&self.mechanism.surface, at) {
            self.mechanism.motion.cylinder = stopped.place.cylinder;
            self.mechanism.motion.head = stopped.place.head;
            self.mechanism.motion.next = stopped.next;
            self.mechanism.motion.free_at = self.mechanism.motion.free_at.max(stopped.free_at);
            self.mechanism.note_stopped(stopped.free_at.max(now));
        }
    }

    fn write_through(&mut self, now: u64, command: &Command) -> (u64, Access) {
        let Command { first, count, arrived, .. } = *command;
        let overheads = self.controller.overheads;
        let ns = self.controller.bus.write_ns_per_sector;
        let extra = overheads.extra_disconnect.filter(|_| command.apart);
        let (mut start, mut begins) = (arrived + command.overhead, arrived + command.overhead);
        let (mut disconnect, mut reselect) = (overheads.write_disconnect, overheads.reselect);
        if let Some(extra) = extra {
            start = arrived + extra.command.0 + extra.seek_delay.0;
            begins = arrived + extra.command.0 + extra.away.0 + overheads.reselect.0;
            (disconnect, reselect) = (extra.disconnect, overheads.reselect_again);
        }
        let begins = begins.max(self.bus_free_at) + overheads.data_preparation.0;
        self.stop_reading(now, start.max(self.mechanism.motion.free_at));
        if let Some(buffer) = &mut self.buffer {
            buffer.write(first, count, false);
        }
        let task = Task {
            start,
            first,
            count,
            write: true,
            seek_least: overheads.write_seek_least.0,
            zero_latency: self.controller.zero_latency_writes,
            data: (begins, ns),
            watermark: self.controller.write_watermark(count),
        };
        let access = self.mechanism.access(task);
        let over = begins + (ns * count as f64) as u64;
        self.bus_free_at = over;
        let away = over + disconnect.0;
        (access.ends.max(away) + reselect.0 + overheads.write_completion.0, access)
    }

    /// Writes out the whole cache, beginning at time `start`. Returns when all of it is on the
    /// media.
    fn write_back(&mut self, now: u64, start: u64) -> u64 {
        while self.write_nearest(now, start).is_some() {}
        self.cache.as_ref().map_or(0, WriteCache::written_at)
    }

    /// Returns the run of the cache to write next if the arm starts at `start` or later: the oldest
    /// if it has waited too long and may be forced, or else the first one reached among those whose
    /// data has been transferred. (A run that arrives as the head passes would lose a revolution,
    /// and runs behind the head would stay there until they fill the cache.)
    pub(super) fn nearest_run(&self, start: u64) -> Option<Pick> {
        let cache = self.cache.as_ref()?;
        let runs = cache.runs();
        let begin = |run: &Dirty| run.ready.max(start).max(self.mechanism.motion.free_at);
        let oldest = (0..runs.len()).min_by_key(|&index| (runs[index].ready, index))?;
        let since = runs[oldest].ready;
        if self.is_due(begin(&runs[oldest]) - since) {
            return Some(Pick { index: oldest, forced: true, at: 0, since });
        }
        let start = start.max(self.mechanism.motion.free_at);
        let margin = self.controller.queue.catch_margin.0;
        let (at, index) = cache.nearest(&self.mechanism, (start, margin))?;
        Some(Pick { index, forced: false, at, since: runs[index].ready })
    }

    /// Writes the next run of the cache. Returns when it is on the media.
    pub(super) fn write_nearest(&mut self, now: u64, start: u64) -> Option<u64> {
        let pick = self.nearest_run(start)?;
        self.turns.count(pick.forced);
        let run = self.cache.as_mut()?.take(pick.index);
        let start = run.ready.max(start).max(self.mechanism.motion.free_at);
        self.stop_reading(now, start);
        let task = Task {
            start,
            first: run.first,
            count: run.count,
            write: true,
            seek_least: self.controller.overheads.write_seek_least.0,
            zero_latency: self.controller.zero_latency_writes,
            data: run.data,
            watermark: self.controller.write_watermark(run.count),
        };
        let here = self.mechanism.motion.cylinder;
        let access = self.mechanism.access(task);
        self.note_written_back(here, &access);
        self.busy.work(now, start, access.ends);
        if let Some(buffer) = &mut self.buffer {
            buffer.saved(run.first, run.count);
        }
        self.cache.as_mut()?.writes(now, run.count, access.ends);
        Some(access.ends)
    }

    fn note_written_back(&mut self, from: u32, access: &Access) {
        let all = &mut self.written_back;
        all.seek += Nanos(access.seek);
        all.rotation += Nanos(access.rotation);
        all.transfer += Nanos(access.transfer);
        all.moved(access.from.cylinder.abs_diff(from), 1);
        all.moved(1, access.last.cylinder.abs_diff(access.from.cylinder));
    }

    /// Simulates the drive until `now` while no command waits for the arm, so that it empties its
    /// cache.
    pub(super) fn idle_until(&mut self, now: u64) {
        if self.served.iter().any(|served| served.at_media) {
            return;
        }
        loop {
            let Some(cache) = &self.cache else { return };
            let ready = cache.runs().iter().map(|run| run.ready).min();
            let Some(ready) = ready else { return };
            let start = ready.max(self.mechanism.motion.free_at);
            if start > now || self.write_nearest(now, start).is_none() {
                return;
            }
        }
    }
}
