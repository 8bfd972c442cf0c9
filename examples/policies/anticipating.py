"""Anticipation: after a read, the disk stays idle for a moment if the reader tends to continue nearby.

    forebay.simulate(trace, device="st1000nm0011", policy=["anticipatory", Anticipating])

A stream that reads one piece after another has no request waiting when its last one completes. If another
stream is served then, the arm moves away and back again for each piece. Waiting costs little if the next
piece arrives soon, so the policy observes each stream: after two failed waits in a row, it does not wait
for the stream until the stream continues nearby again. `wakeup` says when the wait is over. A stream that
always continues would keep the disk for itself, so requests that have waited for `bound_ms` go first.
"""

NEAR_BYTES = 1 << 20


class Anticipating:
    """First in, first out, except for the stream that is waited for."""

    def __init__(self, wait_ms=6, bound_ms=5000):
        self.wait_ns = int(wait_ms * 1_000_000)
        self.bound_ns = bound_ms * 1_000_000
        self.waiting = {}  # A dict serves as a set that knows its oldest member.
        self.hoped_for = None  # The read that the awaited one should follow.
        self.until = 0
        self.in_vain = {}  # For each stream, the number of failures in a row.

    def submit(self, now, request):
        self.waiting[request] = None
        if self.follows(request):
            self.in_vain[request.stream] = 0

    def dispatch(self, now):
        oldest = next(iter(self.waiting))
        if self.hoped_for is None or now - oldest.at_ns >= self.bound_ns:
            return self.give(oldest)
        for request in self.waiting:
            if self.follows(request):
                return self.give(request)
        if now < self.until:
            return None
        stream = self.hoped_for.stream
        self.in_vain[stream] = self.in_vain.get(stream, 0) + 1
        return self.give(oldest)

    def complete(self, now, request):
        if request.op == "read" and self.in_vain.get(request.stream, 0) < 2:
            self.hoped_for = request
            self.until = now + self.wait_ns

    def wakeup(self):
        return self.until if self.waiting and self.hoped_for is not None else None

    def merged(self, now, request, gone):
        if gone is not None:
            del self.waiting[gone]

    def follows(self, request):
        last = self.hoped_for
        return (
            last is not None
            and request.op == "read"
            and request.stream == last.stream
            and abs(request.offset - last.end) <= NEAR_BYTES
        )

    def give(self, request):
        del self.waiting[request]
        self.hoped_for = None
        return request
