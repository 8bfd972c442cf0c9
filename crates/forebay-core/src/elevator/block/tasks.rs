//! Tasks that submit bios: a task sleeps if there is no free slot, and continues when it is woken.
//!
//! Invariant: if a woken task takes no slot because all its bios merge, the slot goes to the next
//! sleeper.

use super::*;

impl<E: Elevator> BlockLayer<E> {
    /// Submits the bios of `request` starting at byte `entered`. If there is no free slot for a
    /// bio, fails with the offset of that bio in the request.
    pub(super) fn go_on(
        &mut self,
        now: Nanos,
        client: u32,
        request: &Request,
        bytes: Bytes,
        entered: u32,
    ) -> Result<(), u32> {
        if entered == 0 && request.len <= self.limits.bio_len_max.min(self.limits.request_len_max) {
            return if self.submit_bio(now, request, Owner { client, bytes }) {
                Ok(())
            } else {
                Err(0)
            };
        }
        for bio in bios_from(request, &self.limits, entered) {
            let at = (bio.offset - request.offset) as u32;
            if !self.submit_bio(now, &bio, Owner { client, bytes: bytes.on(at) }) {
                return Err(at);
            }
        }
        Ok(())
    }

    /// Puts the stream of `request` to sleep, because there is no free slot for the part of the
    /// request after `entered`.
    pub(super) fn sleep(&mut self, request: &Request, bytes: Bytes, client: u32, entered: u32) {
        let first_tags = self.first_tags(request);
        self.gate.hold(*request, bytes, Some(client), entered);
        self.gate.sleep(request.stream, RequestKind::of(request.op, request.flags), first_tags);
    }

    /// Wakes the tasks that are due after a request of `kind` has left the queue.
    pub(super) fn wake_tasks(&mut self, now: Nanos, kind: RequestKind) {
        while let Some(stream) = self.gate.wake_throttled(now) {
            self.run_task(now, stream, u32::MAX);
        }
        // If all bios of a task merge, the slot goes to the next task.
        while let Some(stream) = self.gate.wake_for(now, kind) {
            let before = self.gate.count(kind);
            self.run_task(now, stream, u32::MAX);
            if self.gate.count(kind) > before {
                return;
            }
        }
        loop {
            let count = self.gate.due();
            if count == 0 {
                return;
            }
            self.gate.wake(count);
            let (before, mut has_submitted) = (self.gate.total(), false);
            // Woken tasks run concurrently, so they take tags in turn.
            while let Some(stream) = self.gate.next_awake() {
                let (ran, stays) = self.run_task(now, stream, self.gate.total() + 1);
                has_submitted |= ran;
                if stays {
                    self.gate.stay_awake(stream);
                }
            }
            if has_submitted && self.gate.total() <= before {
                self.gate.pass_on();
            }
        }
    }

    /// Makes `stream` submit its bios until there is no free slot or `total_max` requests are in
    /// the queue. Returns whether it submitted anything, and whether it could submit more.
    fn run_task(&mut self, now: Nanos, stream: u32, total_max: u32) -> (bool, bool) {
        let mut has_submitted = false;
        while let Some(first) = self.gate.first(stream).copied() {
            let Held { request, bytes, client, entered, .. } = first;
            let client = client.unwrap_or_else(|| self.turn(now, request, bytes));
            if !is_data(&request) || is_parted(&request) {
                self.enter_past(now, client, &request, bytes);
            } else if let Err(entered) = self.go_on(now, client, &request, bytes, entered) {
                has_submitted |= entered > first.entered;
                self.gate.keep_first(stream, client, entered);
                let first_tags = self.first_tags(&request);
                self.gate.sleep(stream, RequestKind::of(request.op, request.flags), first_tags);
                return (has_submitted, false);
            }
            has_submitted = true;
            self.gate.release_first(stream);
            if self.gate.total() >= total_max && self.gate.sleeps(stream) {
                return (true, true);
            }
        }
        (has_submitted, false)
    }

    /// Registers a held request whose turn has come, and returns the key of the request.
    fn turn(&mut self, now: Nanos, request: Request, bytes: Bytes) -> u32 {
        let client = self.clients.open(request, bytes);
        self.clients.held(client, now - request.at);
        if is_data(&request) && !is_parted(&request) {
            self.expect_bios(client, &request, false);
        }
        client
    }
}
