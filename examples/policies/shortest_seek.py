"""Shortest seek first: the waiting request closest to the position of the head goes next.

    forebay.simulate(trace, device="st1000nm0011", policy=["noop", ShortestSeek])

Distant requests would starve as long as there is always a near one, so requests that have waited
for `bound_ms` go first.
"""


class ShortestSeek:
    """The order of the request queue; the block layer splits, merges and answers requests."""

    def __init__(self, bound_ms=5000):
        self.bound_ns = bound_ms * 1_000_000
        self.waiting = {}  # A dict serves as a set that knows its oldest member.
        self.head = 0

    def submit(self, now, request):
        self.waiting[request] = None

    def dispatch(self, now):
        oldest = next(iter(self.waiting))
        if now - oldest.at_ns >= self.bound_ns:
            chosen = oldest
        else:
            chosen = min(self.waiting, key=lambda request: abs(request.offset - self.head))
        del self.waiting[chosen]
        self.head = chosen.end
        return chosen

    def merged(self, now, request, gone):
        if gone is not None:
            del self.waiting[gone]
